//===- MoeRunStagesTest.cpp - moe-run on plans of several programs ---------===//

#include "MoeRunTest.h"
#include "moert/world.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <map>
#include <sstream>

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

namespace {

/// Bytes of each tensor that moe-run saved, by name.
std::map<std::string, std::string> tensors(const std::string &path) {
  std::string text = readAll(path);
  uint64_t length = 0;
  memcpy(&length, text.data(), 8);
  std::map<std::string, std::string> result;
  json header = json::parse(text.substr(8, length));
  for (const auto &[name, entry] : header.items()) {
    auto begin = entry["data_offsets"][0].get<size_t>(), end = entry["data_offsets"][1].get<size_t>();
    result[name] = text.substr(8 + length + begin, end - begin);
  }
  return result;
}

} // namespace

// Values move to and from the ranks whose programs have them. Values of several programs are compared.
TEST(MoeRunStages, Verify) {
  for (const char *flags : {"--verify", "--verify --workers=1 --iters=3", "--verify --workers=5 --iters=30 --seed=4",
                            "--verify --emulate-links=test-cluster"}) {
    Outcome outcome = runPlan("stages", flags);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    for (const char *name : {"y ", "grad.w0 ", "grad.w1 ", "total "})
      EXPECT_THAT(outcome.out, HasSubstr(std::string("\n") + name));
    EXPECT_THAT(outcome.out, HasSubstr("verification ok"));
  }
}

// Ops are numbered and shown by program.
TEST(MoeRunStages, Tables) {
  std::string out = runPlan("stages").out;
  EXPECT_EQ(out.find("ranks 0 to 1:\n   op  name (label)"), 0u);
  EXPECT_THAT(out, HasSubstr("\n\nranks 2 to 3:\n   op  name (label)"));
  EXPECT_THAT(out, HasSubstr("    4  send (layer0)                            link         pp "));
  EXPECT_THAT(out, HasSubstr("are means over the ranks of a program."));
  EXPECT_THAT(out, HasSubstr("largest arena of a rank: 0.001 MB device"));
  EXPECT_THAT(runPlan("stages", "--reference").out, Not(HasSubstr("rank 0:")));
  EXPECT_THAT(runPlan("small").out, Not(HasSubstr("ranks 0 to")));
}

TEST(MoeRunStages, Json) {
  json root = json::parse(runPlan("stages", "--verify --json --iters=2").out);
  EXPECT_EQ(root["flops"], 2 * (2 * 128) + 2 * (3 * 128 + 16));
  EXPECT_EQ(root["rank_flops"], (json{256, 256, 400, 400}));
  EXPECT_EQ(root["bytes"], (json{{"dp", 4 * 64}, {"all", 4 * 64}, {"pp", 2 * 64 + 2 * 64}}));
  EXPECT_EQ(root["arena_bytes"]["device"], 512);
  EXPECT_EQ(root["memory"]["device"], (json{{"planned", 512}, {"measured", 256}}));
  auto exchange = [](const char *name, const char *group, int calls, int bytes) {
    return json{{"collective", name}, {"group", group}, {"calls", calls}, {"bytes_received", bytes}};
  };
  // Two halves go forward and one back, and each sent value is received once. Two members of a sum get the value, four
  // get 3/2 of it.
  EXPECT_EQ(root["collectives"],
            json::array({exchange("all_reduce", "all", 1, 4 * 96), exchange("all_reduce", "dp", 1, 4 * 64),
                         exchange("receive", "pp", 2, 4 * 64), exchange("send", "pp", 2, 0)}));
  EXPECT_EQ(root["verify"]["values"].size(), 4u);
}

// A transfer takes the longer time of its two ops.
TEST(MoeRunStages, TraceOfEmulatedLinks) {
  std::string path = temporary("trace");
  Outcome outcome = runPlan("stages", "--json --emulate-links=test-cluster --trace=" + path);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_GE(json::parse(outcome.out)["step_ms"]["min"], 30);
  std::map<std::string, int> names;
  json events = json::parse(readAll(path))["traceEvents"];
  for (const json &event : events) {
    ++names[(event["ph"] == "M" ? event["args"]["name"] : event["name"]).get<std::string>()];
    if (event["ph"] != "X")
      continue;
    EXPECT_EQ(event["args"]["first_rank"], event["pid"].get<int>() / 2 * 2);
    if (event["name"] == "send [pp]" || event["name"] == "receive [pp]") {
      EXPECT_GE(event["dur"], 10e3);
    }
  }
  EXPECT_EQ(names["send [pp]"], 6);
  EXPECT_EQ(names["receive [pp]"], 6);
  EXPECT_EQ(names["link"], 2);
  EXPECT_EQ(names["comm"], 4);
  std::remove(path.c_str());
}

// Saved values are global, and can be loaded as arguments in all programs that have them.
TEST(MoeRunStages, SaveAndLoad) {
  std::string plan = temporary("plan"), reference = temporary("reference"), loaded = temporary("loaded");
  std::string input = temporary("input");
  std::vector<float> values(32, 0.25f);
  json header = {{"x", {{"dtype", "F32"}, {"shape", {8, 4}}, {"data_offsets", {0, 128}}}}};
  std::string text = header.dump();
  uint64_t length = text.size();
  std::ofstream(input, std::ios::binary)
      .write(reinterpret_cast<const char *>(&length), 8)
      .write(text.data(), static_cast<std::streamsize>(length))
      .write(reinterpret_cast<const char *>(values.data()), 128);
  ASSERT_EQ(runPlan("stages", "--save=" + plan).status, 0);
  ASSERT_EQ(runPlan("stages", "--reference --save=" + reference).status, 0);
  Outcome outcome = runPlan("stages", "--verify --load=" + input + " --save=" + loaded);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("does not have: 'w0', 'w1', 'cotangent.y'"));
  auto a = tensors(plan), b = tensors(reference), c = tensors(loaded);
  ASSERT_EQ(a.size(), 4u);
  ASSERT_EQ(b.size(), 4u);
  for (const auto &[name, bytes] : a) {
    ASSERT_EQ(bytes.size(), b[name].size());
    for (size_t at = 0; at < bytes.size(); at += 4) {
      float x, y;
      memcpy(&x, &bytes[at], 4), memcpy(&y, &b[name][at], 4);
      EXPECT_NEAR(x, y, 1e-5) << name;
    }
  }
  EXPECT_NE(a["y"], c["y"]);
  EXPECT_NE(a["grad.w0"], c["grad.w0"]);
  for (const std::string &path : {plan, reference, loaded, input})
    std::remove(path.c_str());
}

// The stages train their parts of a model, and the checkpoint has all of it. The reference resumes from it.
TEST(MoeRunStages, Train) {
  std::string text = temporary("text"), checkpoint = temporary("checkpoint");
  std::ofstream(text) << "some text to learn";
  auto train = [&](const std::string &flags) {
    Outcome outcome = runPlan("train-stages", "--train --json --rate=0.5 --data=" + text + " " + flags);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    json root = json::parse(outcome.out);
    std::vector<double> losses;
    for (const json &step : root["steps"]) {
      losses.push_back(step["loss"]);
      EXPECT_EQ(step["cross_entropy"], step["loss"]);
    }
    return losses;
  };
  // Both begin with 2 everywhere, and grow by rate times 2.
  const std::vector<double> losses = {36, 64, 100, 144};
  EXPECT_EQ(train("--steps=4"), losses);
  EXPECT_EQ(train("--steps=2 --checkpoint=" + checkpoint), std::vector<double>(losses.begin(), losses.begin() + 2));
  EXPECT_EQ(train("--steps=3 --checkpoint=" + checkpoint), std::vector<double>(losses.begin() + 2, losses.begin() + 3));
  auto values = tensors(checkpoint);
  EXPECT_EQ(values.size(), 4u);
  EXPECT_EQ(values["w1"], values["shared"]);
  EXPECT_EQ(train("--steps=4 --reference --checkpoint=" + checkpoint), std::vector<double>{losses[3]});
  EXPECT_THAT(runPlan("train-stages", "--train --rate=0.5 --steps=1 --data=" + text).out,
              testing::StartsWith("step      0  loss 36"));
  EXPECT_EQ(runPlan("train-stages", "--verify --iters=3").status, 0);
  std::remove(text.c_str());
  std::remove(checkpoint.c_str());
}

TEST(MoeRunStages, Wrong) {
  Outcome outcome = runPlan("stages-hang");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("op 0 receive 'layer0' on stream 'link' on group 'pp' from rank 1 to rank 3 waits "
                                     "for ranks 1"));
  EXPECT_THAT(outcome.err, HasSubstr("rank 0: op 2 receive 'layer0' on stream 'comm' on group 'pp' from rank 2 to rank "
                                     "0 waits for ranks 2"));
  outcome = runPlan("stages-mismatch");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("a send and its receive on group 'pp' are not of the same shape and dtype: "));
  EXPECT_THAT(outcome.err, HasSubstr("is at op 1 send 'layer0' on stream 'comm' ([2, 4] f32), but rank "));
  EXPECT_THAT(outcome.err, HasSubstr("is at op 0 receive 'layer0' on stream 'link' ([1, 4] i32)"));
  for (auto [plan, peer] : {std::pair{"stages-no-peer", "2"}, {"stages-own-peer", "0"}}) {
    outcome = runPlan(plan);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("op 1 send 'layer0': expected another member of the group as peer, below its "
                                       "size 2 and not this rank's 0, but got " +
                                       std::string(peer)));
  }
}

// A world knows each rank's program.
TEST(WorldApi, Stages) {
  moert_plan_t plan = nullptr;
  ASSERT_EQ(moert_plan_open(PLANS "/stages.so", &plan), MOERT_OK) << moert_last_error();
  moert_world_config config{};
  config.size = sizeof config;
  config.version = MOERT_WORLD_CONFIG_VERSION;
  moert_world_t world = nullptr;
  ASSERT_EQ(moert_world_create(plan, &config, &world), MOERT_OK) << moert_last_error();
  float values[16] = {};
  EXPECT_EQ(moert_world_read(world, 1, 3, values, 64), MOERT_OK);
  EXPECT_EQ(moert_world_read(world, 1, 5, values, 64), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(), HasSubstr("expected the index of an argument or result below 4 but got 5"));
  EXPECT_EQ(moert_world_read(world, 2, 5, values, 64), MOERT_OK);
  // Bytes of a part, and a world of one process, which has no other to wait for.
  const float two[] = {2, 3};
  EXPECT_EQ(moert_world_write_range(world, 1, 3, 56, two, 8), MOERT_OK);
  EXPECT_EQ(moert_world_read_range(world, 1, 3, 60, values, 4), MOERT_OK);
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(moert_world_read(world, 1, 3, values, 64), MOERT_OK);
  EXPECT_EQ(values[14], 2);
  for (auto [begin, bytes] : {std::pair(60, 8), {-4, 4}, {68, 0}, {0, 68}}) {
    EXPECT_EQ(moert_world_read_range(world, 1, 3, begin, values, bytes), MOERT_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(moert_last_error(), HasSubstr("expected bytes below 64 of '"));
  }
  EXPECT_EQ(moert_world_write_range(world, 1, 5, 0, two, 8), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_world_meet(world, MOERT_OK, nullptr), MOERT_OK);
  EXPECT_EQ(moert_world_meet(world, MOERT_ERROR_OVERFLOW, "no room"), MOERT_ERROR_OVERFLOW);
  EXPECT_STREQ(moert_last_error(), "no room");
  int64_t planned = 0, measured = 0, count = 0;
  EXPECT_EQ(moert_world_memory(world, 2, MOERT_SPACE_DEVICE, &planned, &measured), MOERT_OK);
  EXPECT_EQ(planned, 512);
  EXPECT_EQ(moert_world_run(world, nullptr), MOERT_OK) << moert_last_error();
  EXPECT_EQ(moert_world_timeline(world, 0, nullptr, 0, &count), MOERT_OK);
  EXPECT_EQ(count, 7);
  EXPECT_EQ(moert_world_timeline(world, 3, nullptr, 0, &count), MOERT_OK);
  EXPECT_EQ(count, 9);
  moert_world_destroy(world);
  moert_plan_close(plan);
}
