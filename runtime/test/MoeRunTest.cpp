//===- MoeRunTest.cpp - moe-run from end to end on hand-written plans -----===//

#include "MoeRunTest.h"
#include "moert/world.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <set>

using nlohmann::json;
using testing::HasSubstr;

namespace {

/// A .safetensors file with only x [8,4].
std::string inputFile(float first, int64_t rows = 8, const std::string &name = "x") {
  std::vector<float> values(static_cast<size_t>(rows * 4), 0.5f);
  values[5] = first;
  json header = {{name, {{"dtype", "F32"}, {"shape", {rows, 4}}, {"data_offsets", {0, rows * 16}}}}};
  std::string text = header.dump(), path = temporary("load");
  std::ofstream file(path, std::ios::binary);
  uint64_t length = text.size();
  file.write(reinterpret_cast<const char *>(&length), 8);
  file << text;
  file.write(reinterpret_cast<const char *>(values.data()), rows * 16);
  return path;
}

} // namespace

TEST(MoeRun, Verify) {
  for (const char *flags : {"--verify", "--verify=f64", "--verify=exact", "--verify --workers=1 --iters=3",
                            "--verify --workers=5 --seed=77", "--verify --timeout=60 --backend=host"}) {
    Outcome outcome = runPlan("small", flags);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("verification ok"));
    EXPECT_EQ(outcome.err, "");
  }
  EXPECT_EQ(runPlan("many", "--verify --iters=20").status, 0);
}

// The output is one object with the documented keys and the right sums.
TEST(MoeRun, Json) {
  json root = json::parse(runPlan("small", "--verify --json --iters=3 --seed=5").out);
  EXPECT_EQ(root["backend"], "host");
  EXPECT_EQ(root["ranks"], 4);
  EXPECT_EQ(root["iters"], 3);
  EXPECT_EQ(root["seed"], 5);
  EXPECT_EQ(root["flops"], 4 * (96 + 12));
  EXPECT_EQ(root["bytes"], (json{{"mp", 4 * 48}, {"dp", 4 * 96}}));
  auto exchange = [](const char *name, const char *group, int bytes) {
    return json{{"collective", name}, {"group", group}, {"calls", 1}, {"bytes_received", bytes}};
  };
  // Each member gets a part from the other one. A sum takes half of its bytes from the other's values, and half from
  // its results. Comparing replicas takes the other replica.
  json gather = exchange("all_gather", "mp", 4 * 48), sum = exchange("all_reduce", "dp", 4 * 96);
  EXPECT_EQ(root["collectives"], json::array({gather, sum, exchange("assume_replicated", "mp", 2 * 96)}));
  EXPECT_EQ(root["arena_bytes"], (json{{"device", 4096}, {"host_pinned", 0}}));
  EXPECT_LE(root["step_ms"]["min"], root["step_ms"]["median"]);
  EXPECT_LE(root["step_ms"]["median"], root["step_ms"]["max"]);
  EXPECT_EQ(root["step_ms"]["all"].size(), 3u);
  EXPECT_EQ(root["verify"]["ok"], true);
  EXPECT_EQ(root["verify"]["dtype"], "f32");
  EXPECT_EQ(root["verify"]["values"].size(), 2u);
  // The same program in f64, without the rounding of f32.
  root = json::parse(runPlan("small", "--verify=f64 --json").out);
  EXPECT_EQ(root["verify"]["dtype"], "f64");
  EXPECT_LT(root["verify"]["max_relative_error"], 1e-14);
  EXPECT_EQ(root["arena_bytes"], (json{{"device", 4096}, {"host_pinned", 0}}));
  root = json::parse(runPlan("small", "--verify=exact --json").out);
  EXPECT_EQ(root["verify"]["dtype"], "field");
  EXPECT_EQ(root["verify"]["draws"], 3);
  EXPECT_EQ(root["verify"]["max_relative_error"], 0);
  root = json::parse(runPlan("small", "--json").out);
  EXPECT_TRUE(root["verify"].is_null());
  EXPECT_EQ(root["collectives"], json::array({gather, sum}));
  EXPECT_EQ(json::parse(runPlan("small", "--json --reference").out)["collectives"], json::array());
}

// --batch and --seq select a variant. The default is the first variant's value.
TEST(MoeRun, Variants) {
  for (auto [flags, batch, schedule] : std::vector<std::tuple<const char *, int, const char *>>{
           {"", 2, "s2"}, {"--batch=4", 4, "s1"}, {"--seq=4", 2, "s2"}, {"--batch=4 --seq=4", 4, "s1"}}) {
    Outcome outcome = runPlan("variants", std::string("--verify --json ") + flags);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    json root = json::parse(outcome.out);
    EXPECT_EQ(root["batch"], batch);
    EXPECT_EQ(root["sequence"], 4);
    EXPECT_EQ(root["schedule"], schedule);
  }
  EXPECT_THAT(runPlan("variants", "--batch=4").out, HasSubstr("batch 4, sequence 4, schedule s1\n"));
  EXPECT_EQ(runPlan("variants", "--batch=4 --reference").status, 0);
  json root = json::parse(runPlan("small", "--json").out);
  EXPECT_TRUE(root["batch"].is_null() && root["sequence"].is_null());
  EXPECT_EQ(root["schedule"], "hand");

  Outcome outcome = runPlan("wrong-choice");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the plan chose variant 3 of 3"));
}

/// In a plan in chunks, the parts' values are those of the reference, and so are their bytes in both arenas.
TEST(MoeRun, Memory) {
  for (auto [flags, bytes] : std::vector<std::pair<const char *, int>>{{"--batch=2", 96}, {"--batch=4", 192}}) {
    Outcome outcome = runPlan("chunks", std::string("--verify --json ") + flags);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out)["memory"], (json{{"device", {{"planned", 512}, {"measured", bytes}}},
                                                        {"host_pinned", {{"planned", 256}, {"measured", bytes}}}}));
  }
  EXPECT_THAT(runPlan("small").out, HasSubstr("used of it: 0.000 MB device, 0.000 MB host"));
}

// Every modelled transfer takes its time. Without emulation there is no wait.
TEST(MoeRun, EmulatedLinks) {
  std::string trace = temporary("emulated");
  for (const char *name : {"test-cluster", "/somewhere/test-cluster.json"}) {
    Outcome outcome = runPlan("chunks", "--verify --json --trace=" + trace + " --emulate-links=" + name);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    json root = json::parse(outcome.out);
    EXPECT_GE(root["step_ms"]["min"], 20);
    EXPECT_EQ(root["emulate_links"], name);
    int offloads = 0;
    json events = json::parse(readAll(trace))["traceEvents"];
    for (const json &event : events)
      if (event["name"] == "offload") {
        ++offloads;
        EXPECT_GE(event["dur"], 10e3);
      }
    EXPECT_EQ(offloads, 4);
  }
  std::remove(trace.c_str());
  EXPECT_TRUE(json::parse(runPlan("chunks", "--json").out)["emulate_links"].is_null());
}

TEST(MoeRun, TablesFit) {
  std::istringstream lines(runPlan("small", "--verify").out);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 100u) << line;
}

TEST(MoeRun, FailedChecks) {
  Outcome outcome = runPlan("wrong-factor", "--verify --json");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(json::parse(outcome.out)["verify"]["ok"], false);
  EXPECT_THAT(outcome.err, HasSubstr("result 'y' differs from the reference by 0.25"));
  EXPECT_EQ(runPlan("wrong-factor").status, 0);

  // Exact arithmetic shows where an error begins, and how large it is.
  outcome = runPlan("wrong-factor", "--verify=exact --json");
  EXPECT_EQ(outcome.status, 1);
  const json departure = json::parse(outcome.out)["verify"]["departure"];
  EXPECT_EQ(departure["op"], "op 1 scale 'layer0'");
  EXPECT_EQ(departure["ranks"], 4);
  EXPECT_EQ(departure["before"], "");
  EXPECT_EQ(departure["after"], "op 2 all_gather 'layer0' over group 'mp'");
  EXPECT_EQ(departure["cause"], "what it makes is 5/2 times a value of the reference");
  EXPECT_THAT(outcome.err,
              HasSubstr("values depart from the reference's at op 1 scale 'layer0' on rank 0 and 3 others"));

  outcome = runPlan("not-replicated", "--verify");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("op 4 assume_replicated 'layer0'"));
  EXPECT_EQ(runPlan("not-replicated").status, 0);

  outcome = runPlan("hang");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("hang: 1 of 8 streams cannot go on"));
  EXPECT_THAT(outcome.err, HasSubstr("op 2 all_gather 'layer0' on stream 'comm' on group 'mp'"));
}

TEST(MoeRun, BadUsage) {
  for (auto [plan, flags, text] : std::vector<std::tuple<const char *, const char *, const char *>>{
           {"small", "--batch=2", "expected --batch and --seq with a plan of several shapes only"},
           {"variants", "--batch=3", "a sequence that the plan was compiled for, 2 x 4, 4 x 4, but got 3 x 4"},
           {"variants", "--seq=8", "but got 2 x 8"},
           {"no-choice", "", "does not export 'moeplan_choose'"},
           {"small", "--backend=cuda", "CUDA"},
           {"small", "--backend=x", "unknown backend 'x'"},
           {"small", "--frobnicate", "unknown option '--frobnicate'"},
           {"small", "--load=/nonexistent", "cannot be opened"},
           {"small", "--save=/nonexistent/a", "cannot be written"},
           {"small", "--trace=/nonexistent/a", "cannot be written"},
           {"missing", "", "cannot load plan"},
           {"no-metadata", "", "does not export 'moeplan_metadata'"},
           {"wrong-version", "", "abi: the plan has version 10, this runtime accepts 9"},
           {"small", "--emulate-links=parm-b", "no modelled times of transfers to emulate; compile it with --cluster="},
           {"untimed", "--emulate-links=test-cluster", "no modelled times of transfers to emulate"},
           {"chunks", "--emulate-links=parm-b",
            "the plan was compiled for cluster 'test-cluster', but --emulate-links names 'parm-b'"},
           {"wrong-buffer", "", "lie outside the arena of 4096 bytes"},
           {"huge", "", "a world of 4 ranks"}}) {
    Outcome outcome = runPlan(plan, flags);
    EXPECT_EQ(outcome.status, 2) << plan << " " << flags;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(moeRun("").status, 2);
  Outcome help = moeRun("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("--timeout=SECONDS"));
  EXPECT_THAT(moeRun("--version").out, testing::MatchesRegex("moe-run \\(MoePlan\\) [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(MoeRun, Load) {
  Outcome outcome = runPlan("small", "--verify --load=" + inputFile(1));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("random values (seed 0)"));
  EXPECT_THAT(outcome.err, HasSubstr("'w'"));

  outcome = runPlan("small", "--load=" + inputFile(NAN));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err,
              testing::ContainsRegex("'x' of '.*' holds NaN at \\[1, 1\\]; with --allow-nan such values are taken"));
  outcome = runPlan("small", "--verify --allow-nan --load=" + inputFile(NAN));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("argument 'x' holds NaN at [1, 1]"));
  EXPECT_THAT(outcome.err, HasSubstr("result 'y' of the plan holds NaN at [1, 0]"));

  outcome = runPlan("small", "--load=" + inputFile(1, 4));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("tensor 'x': expected F32 [8, 4] but got F32 [4, 4]"));
  outcome = runPlan("small", "--load=" + inputFile(1, 8, "z"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no argument 'z'; its arguments are 'x', 'w'"));
  std::remove(temporary("load").c_str());
}

// The rank program's and the reference's results are saved as the same global values.
TEST(MoeRun, Save) {
  std::string plan = temporary("plan"), reference = temporary("reference");
  ASSERT_EQ(runPlan("small", "--save=" + plan).status, 0);
  Outcome outcome = runPlan("small", "--reference --json --save=" + reference);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["ranks"], 1);
  std::string a = readAll(plan), b = readAll(reference);
  ASSERT_EQ(a.size(), b.size());
  uint64_t length;
  memcpy(&length, a.data(), 8);
  EXPECT_EQ(a.substr(0, 8 + length), b.substr(0, 8 + length));
  json header = json::parse(a.substr(8, length));
  EXPECT_EQ(header["y"]["shape"], (json{8, 6}));
  for (size_t at = 8 + length; at < a.size(); at += 4) {
    float x, y;
    memcpy(&x, &a[at], 4), memcpy(&y, &b[at], 4);
    EXPECT_NEAR(x, y, 1e-5);
  }
  std::remove(plan.c_str());
  std::remove(reference.c_str());
}

TEST(MoeRun, Trace) {
  std::string path = temporary("trace");
  ASSERT_EQ(runPlan("small", "--iters=2 --trace=" + path).status, 0);
  json root = json::parse(readAll(path));
  std::map<std::string, int> names;
  for (const json &event : root["traceEvents"]) {
    ++names[event["name"]];
    if (event["ph"] == "X") {
      EXPECT_GE(event["dur"], 0);
      EXPECT_EQ(event["args"]["label"], "layer0");
    }
  }
  EXPECT_EQ(names["process_name"], 4);
  EXPECT_EQ(names["thread_name"], 8);
  EXPECT_EQ(names["all_gather [mp]"], 4);
  EXPECT_EQ(names["all_reduce [dp]"], 4);
  EXPECT_EQ(names["matmul"], 4);
  std::remove(path.c_str());
}

// Misuse by a program that embeds the runtime is an error with a text, not a crash.
TEST(WorldApi, Misuse) {
  moert_plan_t plan = nullptr;
  EXPECT_EQ(moert_plan_open(nullptr, &plan), MOERT_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(moert_plan_open(PLANS "/small.so", &plan), MOERT_OK) << moert_last_error();
  moert_world_config config{};
  moert_world_t world = nullptr;
  EXPECT_EQ(moert_world_create(plan, &config, &world), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(), HasSubstr("expected a moert_world_config of version 12"));
  config.size = sizeof config;
  config.version = MOERT_WORLD_CONFIG_VERSION;
  config.other_bytes = -1;
  EXPECT_EQ(moert_world_create(plan, &config, &world), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(), HasSubstr("expected other_bytes of at least 0 but got -1"));
  config.other_bytes = int64_t(1) << 60;
  EXPECT_EQ(moert_world_check(plan, &config), MOERT_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(moert_last_error(), HasSubstr("beside 1152921504606846976 bytes of whole values"));
  config.other_bytes = 0;
  config.program = 5;
  EXPECT_EQ(moert_world_create(plan, &config, &world), MOERT_ERROR_INVALID_ARGUMENT);
  config.program = MOERT_PROGRAM_RANK;
  config.variant = 1;
  EXPECT_EQ(moert_world_create(plan, &config, &world), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(), HasSubstr("expected a variant from 0 to 0 but got 1"));
  config.variant = 0;
  int64_t variant = -1;
  EXPECT_EQ(moert_plan_choose(plan, 1, 1, &variant), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(), HasSubstr("the plan has one shape"));
  EXPECT_EQ(moert_plan_choose(plan, 1, 1, nullptr), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(variant, -1);
  ASSERT_EQ(moert_world_create(plan, &config, &world), MOERT_OK) << moert_last_error();
  float value = 0;
  EXPECT_EQ(moert_world_write(world, 0, 0, &value, 4), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_world_read(world, 0, 9, &value, 4), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_world_run(nullptr, nullptr), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_world_run(world, nullptr), MOERT_OK) << moert_last_error();
  int64_t count = 0, planned = 0, measured = 0;
  EXPECT_EQ(moert_world_memory(world, 0, MOERT_SPACE_DEVICE, &planned, &measured), MOERT_OK);
  EXPECT_EQ(planned, 4096);
  EXPECT_EQ(measured, 256 + 4 * 3 * 4);
  EXPECT_EQ(moert_world_memory(world, 0, MOERT_SPACE_ARGUMENT, &planned, &measured), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_world_memory(world, 4, MOERT_SPACE_DEVICE, &planned, &measured), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_world_timeline(world, 0, nullptr, 0, &count), MOERT_OK);
  EXPECT_EQ(count, 4);
  moert_world_destroy(world);
  moert_plan_close(plan);
}

// A rank that shares a process with others cannot be ended. The step and the program end nevertheless.
TEST(MoeRun, RanksThatBreak) {
  Outcome fails = runCommand("MOERT_TEST_FAULT=2:fail " MOE_RUN " " PLANS "/faulty.so --timeout=1");
  EXPECT_NE(fails.status, 0);
  EXPECT_THAT(fails.err, testing::ContainsRegex("rank [0-3]: "));
  Outcome spins = runCommand("MOERT_TEST_FAULT=2:spin " MOE_RUN " " PLANS "/faulty.so --timeout=0.5");
  EXPECT_EQ(spins.status, 1);
  EXPECT_THAT(spins.err, HasSubstr("the time-out of 0.5"));
  EXPECT_THAT(spins.err, testing::ContainsRegex("this does not end:.*rank [0-3]: its program issues its calls"));
  for (const char *plan : {"short", "long"}) {
    Outcome outcome = runPlan(plan);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, testing::ContainsRegex("rank [0-3], op 3 all_to_all_v 'layer0' on stream 'main': "));
    EXPECT_THAT(outcome.err, HasSubstr("disagree: expected expert_counts to be the all_to_all of block_counts"));
  }
}
