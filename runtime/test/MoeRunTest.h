//===- MoeRunTest.h - running moe-run on hand-written plans ----------------===//
#ifndef MOERT_TEST_MOERUNTEST_H
#define MOERT_TEST_MOERUNTEST_H

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

struct Outcome {
  int status;
  std::string out, err;
};

inline std::string temporary(const std::string &name) {
  return testing::TempDir() + "moe-run-" + std::to_string(getpid()) + "-" + name;
}

inline std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Outcome runCommand(const std::string &command) {
  std::string out = temporary("out"), err = temporary("err");
  int code = std::system((command + " >" + out + " 2>" + err + " </dev/null").c_str());
  Outcome outcome{WIFEXITED(code) ? WEXITSTATUS(code) : -1, readAll(out), readAll(err)};
  std::remove(out.c_str());
  std::remove(err.c_str());
  return outcome;
}

inline Outcome moeRun(const std::string &arguments) { return runCommand(MOE_RUN " " + arguments); }

inline Outcome runPlan(const std::string &name, const std::string &arguments = "") {
  return moeRun(PLANS "/" + name + ".so " + arguments);
}

#endif // MOERT_TEST_MOERUNTEST_H
