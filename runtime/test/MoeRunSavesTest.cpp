//===- MoeRunSavesTest.cpp - moe-run --train --checkpoint=DIR/ ------------===//

#include "MoeRunTest.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <map>

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

namespace {

/// Training of a plan whose loss at step k is (6 + 2k)^2.
class MoeRunSaves : public testing::Test {
protected:
  MoeRunSaves() { std::ofstream(text) << "some text to learn"; }
  ~MoeRunSaves() override {
    std::remove(text.c_str());
    fs::remove_all(folder);
    fs::remove_all(base);
  }

  std::string command(const std::string &flags) const {
    return MOE_RUN " " PLANS "/train-stages.so --train --json --rate=0.5 --data=" + text + " " + flags;
  }

  /// Trains and expects the right losses. Returns the first step.
  int64_t train(const std::string &flags) {
    Outcome outcome = runCommand(command(flags));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    said = outcome.err;
    json root = json::parse(outcome.out, nullptr, false);
    for (const json &step : root["steps"])
      EXPECT_EQ(step["loss"].get<double>(), std::pow(6 + 2 * step["step"].get<double>(), 2));
    return root["first_step"];
  }

  std::string text = temporary("text"), folder = temporary("state"), base = temporary("base"), said;
  std::string state = "--checkpoint=" + folder + "/ ";
};

std::vector<std::string> namesIn(const std::string &folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void replaceIn(const std::string &path, const std::string &old, const std::string &with) {
  std::string content = readAll(path);
  ASSERT_NE(content.find(old), std::string::npos) << content;
  std::ofstream(path, std::ios::binary) << content.replace(content.find(old), old.size(), with);
}

} // namespace

TEST_F(MoeRunSaves, GoesOn) {
  EXPECT_EQ(train("--steps=3 --checkpoint-every=1 " + state), 0);
  EXPECT_THAT(namesIn(folder), testing::ElementsAre("latest", "step-00000002", "step-00000003"));
  // 'w0' and 'step' are in the first stage, 'w1' in the second, and 'shared' in both.
  json index = json::parse(readAll(folder + "/step-00000003/index.json"));
  EXPECT_EQ(index["tensors"].size(), 4u);
  for (const auto &[name, tensor] : index["tensors"].items())
    EXPECT_EQ(tensor["blocks"].size(), 1u) << name;
  EXPECT_EQ(train("--steps=5 --keep=1 " + state), 3);
  EXPECT_THAT(said, HasSubstr("resumed from '" + folder + "/step-00000003' at step 3\n"));
  EXPECT_THAT(namesIn(folder), testing::ElementsAre("latest", "step-00000005"));
  EXPECT_EQ(train("--steps=6 --reference " + state), 5);
  EXPECT_EQ(train("--steps=6 " + state), 6);
  EXPECT_THAT(said, HasSubstr("nothing to train: training is at step 6"));
  EXPECT_EQ(train("--steps=7 --seed=3 " + state), 6);
  EXPECT_THAT(said, HasSubstr("warning: the checkpoint is of training with --seed 0, which is now 3: from here on"));
}

// --load takes the latest checkpoint, or one of the folders.
TEST_F(MoeRunSaves, Loads) {
  EXPECT_EQ(train("--steps=3 --checkpoint-every=1 " + state), 0);
  EXPECT_EQ(train("--steps=5 --load=" + folder), 3);
  EXPECT_EQ(train("--steps=5 --load=" + folder + "/step-00000002"), 2);
  // Saves into one file, and from there into a folder.
  const std::string one = "--checkpoint=" + base + " ", again = "--checkpoint=" + base + "2/ ";
  EXPECT_EQ(train("--steps=4 --load=" + folder + "/ " + one), 3);
  EXPECT_EQ(train("--steps=5 --load=" + base + " " + again), 4);
  EXPECT_EQ(train("--steps=6 " + again), 5);
  fs::remove_all(base + "2");
}

// Values are written and read in several chunks. One that is NaN is refused when training resumes.
TEST_F(MoeRunSaves, Large) {
  const std::string input = base + "-in", whole = base + "-whole", parts = base + "-parts";
  auto start = [&](const std::string &flags) {
    return runCommand(MOE_RUN " " PLANS "/train-stages-large.so --train --rate=0.5 --data=" + text + " " + flags);
  };
  auto run = [&](const std::string &flags) {
    Outcome outcome = start(flags);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  };
  constexpr int64_t kElements = 1'500'000;
  std::string header = R"({"w0":{"dtype":"F32","shape":[1,1500000],"data_offsets":[0,6000000]},)"
                       R"("w1":{"dtype":"F32","shape":[1,1500000],"data_offsets":[6000000,12000000]},)"
                       R"("shared":{"dtype":"F32","shape":[1,1500000],"data_offsets":[12000000,18000000]}})";
  uint64_t length = header.size();
  std::vector<float> values(3 * kElements);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 1009) / 1009;
  std::ofstream(input, std::ios::binary)
      .write(reinterpret_cast<const char *>(&length), 8)
      .write(header.data(), static_cast<std::streamsize>(length))
      .write(reinterpret_cast<const char *>(values.data()), static_cast<std::streamsize>(values.size() * 4));
  run("--steps=2 --load=" + input + " --checkpoint=" + whole);
  run("--steps=1 --load=" + input + " " + state);
  run("--steps=2 " + state + "--shard-bytes=5MB");
  run("--steps=3 --load=" + folder + " --checkpoint=" + parts);
  run("--steps=3 --checkpoint=" + whole);
  EXPECT_TRUE(readAll(whole) == readAll(parts));
  const std::string again = "--checkpoint=" + base + "/ ";
  run("--steps=1 --load=" + input + " " + again);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const fs::directory_entry &entry : fs::directory_iterator(base + "/step-00000001"))
    if (entry.path().extension() == ".safetensors")
      std::fstream(entry.path(), std::ios::in | std::ios::out | std::ios::binary)
          .seekp(-28, std::ios::end)
          .write(reinterpret_cast<const char *>(&nan), sizeof nan);
  Outcome refused = start("--steps=2 " + again);
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, testing::ContainsRegex("'.*' of '.*' holds NaN or Inf at .*; with --allow-nan such values "
                                                  "are taken"));
  for (const std::string &path : {input, whole, parts})
    std::remove(path.c_str());
}

// Each call that changes a file, and each write, may be the last one: the previous checkpoint or the new one is then
// complete.
TEST_F(MoeRunSaves, KilledAnywhere) {
  const std::string killer = PLANS "/killed.so";
  if (!fs::exists(killer))
    GTEST_SKIP() << "sanitizers have to be loaded before all else";
  EXPECT_EQ(train("--steps=1 --checkpoint=" + base + "/"), 0);
  std::map<int64_t, int> resumed;
  for (int call = 1;; ++call) {
    ASSERT_LT(call, 1000);
    fs::remove_all(folder);
    fs::copy(base, folder, fs::copy_options::recursive);
    const std::string flags = "--checkpoint-every=1 --keep=1 " + state, quick = "LD_PRELOAD=" + killer + " ";
    Outcome outcome =
        runCommand(quick + "MOERT_TEST_KILL_AT=" + std::to_string(call) + " " + command("--steps=2 " + flags));
    if (outcome.status == 0)
      break;
    ASSERT_EQ(outcome.status, 128 + SIGKILL) << outcome.err;
    for (const std::string &name : namesIn(folder)) {
      std::string index = readAll(folder + "/" + name + "/index.json");
      if (index.empty() || index.back() != '\n')
        continue;
      for (const json &file : json::parse(index)["files"])
        ASSERT_TRUE(fs::exists(folder + "/" + name + "/" + file.get<std::string>())) << "killed at " << call;
    }
    Outcome next = runCommand(quick + command("--steps=3 " + flags));
    ASSERT_EQ(next.status, 0) << "killed at " << call << ": " << next.err;
    json root = json::parse(next.out);
    ++resumed[root["first_step"]];
    for (const json &step : root["steps"])
      ASSERT_EQ(step["loss"].get<double>(), std::pow(6 + 2 * step["step"].get<double>(), 2)) << "killed at " << call;
    ASSERT_THAT(namesIn(folder), testing::ElementsAre("latest", "step-00000003")) << "killed at " << call;
  }
  // Training resumes from the previous step or the saved one, and never restarts.
  ASSERT_EQ(resumed.size(), 2u);
  EXPECT_GT(resumed[1], 10);
  EXPECT_GT(resumed[2], 5);
}

TEST_F(MoeRunSaves, Errors) {
  EXPECT_EQ(train("--steps=2 --checkpoint-every=1 " + state), 0);
  auto error = [&](const std::string &flags = "") {
    Outcome outcome = runCommand(command("--steps=3 " + state + flags));
    EXPECT_EQ(outcome.status, 2);
    return outcome.err;
  };
  const std::string index = folder + "/step-00000002/index.json", before = readAll(index);
  const std::string remedy =
      "to go on from another checkpoint, write its name into '" + folder + "/latest': 'step-00000001'";
  replaceIn(index, "\"w1\":", "\"w9\":");
  std::string said = error();
  EXPECT_THAT(said,
              HasSubstr("/step-00000002': expected all of the plan's 4 values but it lacks 1: 'w1'; a checkpoint"));
  EXPECT_THAT(said, HasSubstr(remedy));
  fs::remove(index);
  EXPECT_THAT(error(), HasSubstr("index.json': cannot be opened for reading; " + remedy));
  std::ofstream(index) << before;
  replaceIn(index, "\"shape\":[1,4]", "\"shape\":[1,8]");
  EXPECT_THAT(error(), HasSubstr("expected F32 [1, 4] but got F32 [1, 8]; a checkpoint fits plans of the same model"));
  std::ofstream(index) << before;
  // moe-run names tensors that the plan does not use.
  replaceIn(index, "\"tensors\":{", "\"tensors\":{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"blocks\":[]},");
  Outcome outcome = runCommand(command("--steps=3 " + state));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("the plan has no use for 1 of the 5 tensors of '"));
  // A truncated file.
  for (const std::string &name : namesIn(folder + "/step-00000003"))
    if (name != "index.json")
      fs::resize_file(folder + "/step-00000003/" + name, 100);
  EXPECT_THAT(runCommand(command("--steps=4 " + state)).err, HasSubstr("the file is truncated"));
  EXPECT_THAT(runCommand(command("--steps=4 --checkpoint=" + text + "/")).err, HasSubstr("': cannot be made: "));
}
