//===- MoeRunFilesTest.cpp - files that moe-run writes and loads ----------===//

#include "MoeRunTest.h"

#include <gmock/gmock.h>

#include <filesystem>

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

namespace {

std::string plan(const std::string &name) { return PLANS "/" + name + ".so"; }

/// Runs moe-run with redirected standard output.
Outcome runTo(const std::string &redirection, const std::string &arguments) {
  std::string err = temporary("err");
  int code = std::system((MOE_RUN " " + arguments + " " + redirection + " 2>" + err + " </dev/null").c_str());
  Outcome outcome{WIFEXITED(code) ? WEXITSTATUS(code) : -1, "", readAll(err)};
  std::remove(err.c_str());
  return outcome;
}

constexpr const char *kFull = "cannot be written: No space left on device";

} // namespace

// A failed write is always reported.
TEST(MoeRunFiles, FullDisk) {
  for (const std::string &arguments :
       {plan("small"), plan("small") + " --json", plan("small") + " --reference --json", std::string("--help")}) {
    Outcome outcome = runTo(">/dev/full", arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(std::string("moe-run: error: standard output: ") + kFull)) << arguments;
  }
  for (const char *option : {"--save", "--trace", "--record-routing"}) {
    Outcome outcome = runPlan("routed", std::string(option) + "=/dev/full");
    EXPECT_EQ(outcome.status, 2) << option;
    EXPECT_THAT(outcome.err, HasSubstr(std::string("'/dev/full': ") + kFull)) << option;
  }
  // A failed step keeps its own status.
  EXPECT_EQ(runTo(">/dev/full", plan("wrong-factor") + " --verify").status, 1);
}

// A closed standard output is an error, and no opened file takes its place.
TEST(MoeRunFiles, ClosedOutput) {
  std::string saved = temporary("saved");
  for (const std::string option : {"", "--json"}) {
    Outcome outcome = runTo(">&-", plan("small") + " " + option + " --save=" + saved);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("moe-run: error: standard output: cannot be written: Bad file descriptor"));
  }
  ASSERT_EQ(runPlan("small", "--save=" + saved + "2").status, 0);
  EXPECT_EQ(readAll(saved), readAll(saved + "2"));
  std::remove(saved.c_str());
  std::remove((saved + "2").c_str());
}

TEST(MoeRunFiles, Training) {
  std::string text = temporary("text"), checkpoint = temporary("checkpoint"), target = temporary("target");
  std::ofstream(text) << std::string(2000, 'x');
  std::string train = plan("train-stages") + " --train --steps=2 --data=" + text;
  Outcome outcome = moeRun(train + " --log=/dev/full");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(std::string("'/dev/full': ") + kFull));
  EXPECT_EQ(runTo(">/dev/full", train).status, 2);
  EXPECT_THAT(moeRun(train + " --checkpoint=/dev/full").err,
              HasSubstr("expected a file but it is a folder or a device"));
  // A checkpoint that is a link stays one. Its start says nothing about the data of --data.
  fs::create_symlink(target, checkpoint);
  EXPECT_EQ(moeRun(train + " --checkpoint=" + checkpoint).status, 0);
  EXPECT_TRUE(fs::is_symlink(checkpoint));
  EXPECT_TRUE(fs::is_regular_file(target));
  EXPECT_FALSE(fs::exists(target + ".lock"));
  outcome = moeRun(train + " --load=" + checkpoint);
  // The checkpoint is of step 2, where training ends: moe-run says so and does not train.
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "moe-run: '" + text +
                             "' has 2000 tokens of type bytes\nmoe-run: nothing to train: training is at step 2, and "
                             "--steps=2 ends it at that step; to train 10 more, give --steps=12\n");
  // The requested step is an error if training is past it.
  outcome = moeRun(train + " --steps=1 --checkpoint=" + checkpoint);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("error: nothing to train: training is at step 2, and --steps=1"));
  // No other job begins while a job has the checkpoint.
  std::string busy = temporary("busy");
  std::system((MOE_RUN " " + train + " --steps=1000000 --checkpoint=" + busy + " >/dev/null 2>&1 & echo $! >" + busy +
               ".pid; while ! [ -s " + busy + ".lock ]; do sleep 0.01; done")
                  .c_str());
  outcome = moeRun(train + " --checkpoint=" + busy);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("'" + busy + "': process "));
  EXPECT_THAT(outcome.err, HasSubstr(" writes this file"));
  std::system(
      ("kill -9 $(cat " + busy + ".pid); while kill -0 $(cat " + busy + ".pid) 2>&-; do sleep 0.01; done").c_str());
  // A killed job's lock stops no other job.
  EXPECT_TRUE(fs::exists(busy + ".lock"));
  std::remove(busy.c_str());
  EXPECT_EQ(moeRun(train + " --checkpoint=" + busy).status, 0);
  for (const std::string &path : {text, checkpoint, target, busy, busy + ".pid"})
    std::remove(path.c_str());
}

// Arrays of token ids are described on standard error, and refused if a step has an id that the model does not know.
TEST(MoeRunFiles, Tokens) {
  std::string path = temporary("tokens");
  auto write = [&](int32_t last) {
    std::vector<int32_t> ids(9, 255);
    ids[8] = last;
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(ids.data()), 36);
  };
  std::string train = plan("train-stages") + " --train --data=" + path + " --data-type=";
  write(0);
  Outcome outcome = moeRun(train + "int32 --steps=2");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "moe-run: '" + path + "' has 9 tokens of type int32\n");
  write(256);
  outcome = moeRun(train + "int32");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(": '" + path + "': token 256 at index 8 is not in the model's vocabulary of 256"));
  outcome = moeRun(train + "int64");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("expected a multiple of the 8 bytes of an id of type int64 but the file has 36"));
  std::remove(path.c_str());
}

// A plan is code, so it is not loaded unless it is the intended one.
TEST(MoeRunFiles, Digest) {
  std::string copy = temporary("plan.so"), beside = copy + ".sha256", name = fs::path(copy).filename();
  fs::copy_file(plan("small"), copy, fs::copy_options::overwrite_existing);
  std::string digest = runCommand("sha256sum " + copy).out.substr(0, 64), wrong = digest;
  wrong[5] = wrong[5] == '0' ? '1' : '0';
  EXPECT_EQ(moeRun(copy + " --digest=" + digest).status, 0);
  std::string upper = digest;
  for (char &c : upper)
    c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(moeRun(copy + " --digest=" + upper).status, 0);
  auto fails = [&](const std::string &flags, const std::string &text) {
    Outcome outcome = moeRun(copy + " " + flags);
    EXPECT_EQ(outcome.status, 2) << text;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  std::string differs = "expected the SHA-256 " + wrong + ", as ";
  fails("--digest=" + wrong, differs + "--digest says, but got " + digest + "; the plan was not loaded");
  fails("--digest=abc", "expected 64 hexadecimal digits for --digest but got 'abc'");
  for (const std::string &line :
       {digest + "  " + name, digest + " *some/where/" + name, digest, wrong + "  other.so\n" + digest + "  " + name}) {
    std::ofstream(beside) << line << "\n";
    Outcome outcome = moeRun(copy);
    EXPECT_EQ(outcome.status, 0) << line << ": " << outcome.err;
  }
  std::ofstream(beside) << wrong << "  " << name << "\n";
  fails("", differs + "'" + beside + "' says, but got");
  fails("--digest=" + digest, differs + "'" + beside + "' says, but got");
  for (const std::string &line : {std::string(), digest.substr(1) + "  " + name, digest + "  other.so"}) {
    std::ofstream(beside) << line << "\n";
    fails("", "'" + beside + "': expected a line '<64 hexadecimal digits>  " + name + "', as sha256sum writes it");
  }
  // The check comes before anything in the plan is executed, also in other modes.
  std::ofstream(copy) << "no plan";
  std::ofstream(beside) << wrong << "  " << name << "\n";
  for (const char *flags : {"", "--train --data=x"})
    fails(flags, differs);
  std::remove(copy.c_str());
  std::remove(beside.c_str());
}
