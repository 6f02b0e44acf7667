//===- MoeRunRoutingTest.cpp - moe-run --routing and --record-routing ------===//

#include "MoeRunTest.h"
#include "moert/world.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <sstream>

using nlohmann::json;
using testing::HasSubstr;

namespace {

using Numbers = std::vector<int>;

/// A line with the same counts for both layers, unless `layer` selects one.
json line(int iteration, int layer, const std::vector<Numbers> &counts) {
  return {{"iteration", iteration}, {"layer", layer}, {"counts", counts}};
}

std::string routingFile(const std::vector<json> &lines) {
  std::string path = temporary("routing");
  std::ofstream file(path);
  for (const json &entry : lines)
    file << entry.dump() << "\n";
  return path;
}

std::vector<json> readLines(const std::string &path) {
  std::vector<json> lines;
  std::istringstream text(readAll(path));
  for (std::string entry; std::getline(text, entry);)
    lines.push_back(json::parse(entry));
  return lines;
}

/// Choices that a rank's counts stand for, as docs/MoeRun.md defines.
Numbers listed(const Numbers &counts, int tokens, int k) {
  Numbers list, choices(size_t(tokens * k));
  for (size_t expert = 0; expert < counts.size(); ++expert)
    list.insert(list.end(), size_t(counts[expert]), int(expert));
  for (int i = 0; i < tokens * k; ++i)
    choices[size_t(i % tokens * k + i / tokens)] = list[size_t(i)];
  return choices;
}

/// Counts of four ranks. Pairs of ranks route the same tokens, so the counts of the second of each pair have no effect.
const std::vector<Numbers> kFirst = {{4, 4, 0, 0}, {2, 2, 2, 2}, {1, 3, 0, 4}, {4, 0, 4, 0}};
const std::vector<Numbers> kSecond = {{0, 4, 1, 3}, {4, 0, 0, 4}, {4, 2, 2, 0}, {0, 0, 4, 4}};

} // namespace

// Forced recorded choices give the same bits, and the same record. The reference agrees.
TEST(MoeRunRouting, RecordThenForce) {
  std::string recorded = temporary("recorded"), again = temporary("again");
  std::string plain = temporary("plain"), forced = temporary("forced");
  for (const char *plan : {"routed", "routed-shares", "routed-capacity", "routed-chunks", "routed-capacity-chunks",
                           "routed-leave", "routed-variants"}) {
    SCOPED_TRACE(plan);
    Outcome outcome = runPlan(plan, "--verify --iters=2 --record-routing=" + recorded + " --save=" + plain);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    ASSERT_EQ(readLines(recorded).size(), 4u);
    outcome =
        runPlan(plan, "--verify --iters=2 --routing=" + recorded + " --record-routing=" + again + " --save=" + forced);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(readAll(plain), readAll(forced));
    EXPECT_EQ(readAll(recorded), readAll(again));
    // Other inputs are routed in the same way.
    outcome = runPlan(plan, "--verify --seed=9 --iters=2 --routing=" + recorded + " --record-routing=" + again);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(readAll(recorded), readAll(again));
    ASSERT_EQ(runPlan(plan, "--seed=9 --iters=2 --record-routing=" + again).status, 0);
    EXPECT_NE(readAll(recorded), readAll(again));
  }
  EXPECT_EQ(runPlan("routed-variants", "--batch=2 --verify --iters=2 --routing=" + recorded).status, 0);
  for (const std::string &path : {recorded, again, plain, forced})
    std::remove(path.c_str());
}

// Ranks that route the same tokens take the counts of the first of them. Step n takes iteration n, and the first one
// follows the last.
TEST(MoeRunRouting, Counts) {
  std::string recorded = temporary("recorded");
  // Iterations and layers may be in any order, with empty lines between.
  std::string path = routingFile({line(7, 1, kFirst), line(3, 0, kFirst), line(3, 1, kSecond), line(7, 0, kSecond)});
  std::ofstream(path, std::ios::app) << "\n  \n";
  for (const char *plan : {"routed", "routed-capacity", "routed-chunks", "routed-leave"}) {
    SCOPED_TRACE(plan);
    Outcome outcome = runPlan(plan, "--verify --iters=3 --routing=" + path + " --record-routing=" + recorded);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::vector<json> lines = readLines(recorded);
    ASSERT_EQ(lines.size(), 6u);
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::vector<Numbers> &counts = (i / 2 + i) % 2 ? kSecond : kFirst;
      EXPECT_EQ(lines[i]["iteration"], i / 2);
      EXPECT_EQ(lines[i]["layer"], i % 2);
      EXPECT_EQ(lines[i]["counts"], (json{counts[0], counts[0], counts[2], counts[2]}));
      Numbers first = listed(counts[0], 4, 2), third = listed(counts[2], 4, 2);
      EXPECT_EQ(lines[i]["choices"], (json{first, first, third, third}));
    }
  }
  std::remove(path.c_str());
  std::remove(recorded.c_str());
}

// If every rank has its own tokens, every rank takes its own counts. The reference alone is recorded in the same way as
// the ranks.
TEST(MoeRunRouting, Shares) {
  std::vector<Numbers> counts = {{2, 2, 0, 0}, {1, 1, 1, 1}, {0, 1, 1, 2}, {2, 0, 0, 2}};
  std::string path = routingFile({line(0, 0, counts), line(0, 1, counts)});
  std::string recorded = temporary("recorded"), reference = temporary("reference");
  Outcome outcome = runPlan("routed-shares", "--verify --routing=" + path + " --record-routing=" + recorded);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const json &entry : readLines(recorded))
    EXPECT_EQ(entry["counts"], json(counts));
  outcome = runPlan("routed-shares", "--reference --routing=" + path + " --record-routing=" + reference);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(readAll(recorded), readAll(reference));
  for (const std::string &file : {path, recorded, reference})
    std::remove(file.c_str());
}

// A line of a pipeline has the ranks of the layer's stage. Layers are in the order of the reference, which takes one
// micro-batch after the other.
TEST(MoeRunRouting, Stages) {
  std::vector<std::vector<Numbers>> counts = {{{2, 2, 0, 0}, {1, 1, 1, 1}},
                                              {{0, 1, 1, 2}, {2, 0, 0, 2}},
                                              {{1, 0, 2, 1}, {0, 0, 2, 2}},
                                              {{0, 2, 1, 1}, {1, 2, 1, 0}}};
  std::vector<json> lines;
  for (int layer : {0, 1, 2, 3})
    lines.push_back(line(0, layer, counts[size_t(layer)]));
  std::string path = routingFile(lines), recorded = temporary("recorded"), reference = temporary("reference");
  Outcome outcome = runPlan("routed-stages", "--verify --iters=2 --routing=" + path + " --record-routing=" + recorded);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  ASSERT_EQ(readLines(recorded).size(), 8u);
  for (const json &entry : readLines(recorded))
    EXPECT_EQ(entry["counts"], json(counts[entry["layer"].get<size_t>()]));
  outcome = runPlan("routed-stages", "--reference --iters=2 --routing=" + path + " --record-routing=" + reference);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(readAll(recorded), readAll(reference));
  // The choice is recorded, and the record forces the same choice.
  ASSERT_EQ(runPlan("routed-stages", "--verify --record-routing=" + reference).status, 0);
  ASSERT_EQ(
      runPlan("routed-stages", "--verify --seed=3 --routing=" + reference + " --record-routing=" + recorded).status, 0);
  EXPECT_EQ(readAll(recorded), readAll(reference));
  lines[2]["counts"].push_back(Numbers{2, 2, 0, 0});
  outcome = runPlan("routed-stages", "--routing=" + routingFile(lines));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("routing:3: 'counts': expected 2 ranks, as the plan has with this layer, but got 3"));
  for (const std::string &file : {path, recorded, reference})
    std::remove(file.c_str());
}

TEST(MoeRunRouting, Wrong) {
  json good = line(0, 0, kFirst), other = line(0, 1, kFirst), odd = good, choices = good, twice = good;
  odd["counts"][2] = {5, 3, 0, 0};
  choices["choices"] = {listed(kFirst[0], 4, 2), listed(kFirst[1], 4, 2), listed(kFirst[2], 4, 2), {0, 4}};
  twice["choices"] = {listed(kFirst[0], 4, 2), {0, 0}, {}, {}};
  for (auto [plan, lines, text] : std::vector<std::tuple<const char *, std::vector<json>, const char *>>{
           {"routed", {odd, other}, "routing:1: 'counts[2][0]': expected at most 4, the tokens of a rank, but got 5"},
           {"routed",
            {other, choices},
            "routing:2: 'choices[3]': expected 8 experts, 2 for each of 4 tokens, but got 2"},
           {"routed", {good, line(0, 2, kFirst)}, "routing:2: 'layer': expected one from 0 to 1"},
           {"routed", {good}, "routing:1: expected lines of iteration 0 for all of the plan's 2 MoE layers but got 1"},
           {"routed", {good, good}, "routing:2: iteration 0, layer 0: expected only once"},
           {"routed", {}, "routing:1: expected a line for each iteration and layer"},
           {"routed",
            {line(0, 0, {{4, 4, 0, 0}})},
            "'counts': expected 4 ranks, as the plan has with this layer, but got 1"},
           {"routed-shares", {good, other}, "'counts[0][0]': expected at most 2, the tokens of a rank, but got 4"},
           {"routed-no-reference", {good, other}, "--routing needs a plan with a reference program"},
           {"routed-uneven",
            {good, other},
            "layer 0: routing cannot be divided between the ranks: expected the reference's 6 tokens"},
           {"routed-one-layer", {good, other}, "the plan routes 2 times, but its reference 1 times"},
           {"small", {good, other}, "the plan has no MoE layer"}}) {
    std::string path = routingFile(lines);
    Outcome outcome = runPlan(plan, "--routing=" + path);
    EXPECT_EQ(outcome.status, 2) << plan;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(outcome.out, "");
    std::remove(path.c_str());
  }
  EXPECT_THAT(runPlan("routed", "--routing=/nonexistent").err, HasSubstr("'/nonexistent': cannot be opened"));
  EXPECT_EQ(runPlan("routed", "--record-routing=/nonexistent/a").status, 2);
  // Recording needs no reference.
  std::string path = temporary("recorded");
  EXPECT_EQ(runPlan("routed-no-reference", "--record-routing=" + path).status, 0);
  EXPECT_EQ(readLines(path).size(), 2u);
  std::remove(path.c_str());
}

// Misuse by a program that embeds the runtime is an error with a text.
TEST(WorldApi, Routing) {
  moert_plan_t plan = nullptr;
  ASSERT_EQ(moert_plan_open(PLANS "/routed.so", &plan), MOERT_OK) << moert_last_error();
  moert_routing routings[2];
  int64_t count = 0;
  ASSERT_EQ(moert_plan_routings(plan, 0, MOERT_PROGRAM_RANK, nullptr, 0, &count), MOERT_OK) << moert_last_error();
  EXPECT_EQ(count, 2);
  ASSERT_EQ(moert_plan_routings(plan, 0, MOERT_PROGRAM_REFERENCE, routings, 2, &count), MOERT_OK);
  EXPECT_EQ(routings[1].op, 3);
  EXPECT_EQ(routings[1].tokens, 8);
  EXPECT_EQ(routings[1].experts, 4);
  EXPECT_EQ(routings[1].choices, 2);
  EXPECT_EQ(moert_plan_routings(plan, 1, MOERT_PROGRAM_RANK, routings, 2, &count), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_plan_routings(plan, 0, 7, routings, 2, &count), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_plan_routings(plan, 0, MOERT_PROGRAM_RANK, nullptr, 2, &count), MOERT_ERROR_INVALID_ARGUMENT);

  moert_world_config config{};
  config.size = sizeof config;
  config.version = MOERT_WORLD_CONFIG_VERSION;
  moert_world_t world = nullptr;
  ASSERT_EQ(moert_world_create(plan, &config, &world), MOERT_OK) << moert_last_error();
  int32_t experts[8] = {0, 1, 2, 3, 0, 1, 9, 3};
  EXPECT_EQ(moert_world_force_routing(world, 4, 0, experts, 8), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_world_force_routing(world, 0, 1, experts, 8), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(), HasSubstr("expected a routing op but got op 1"));
  EXPECT_EQ(moert_world_force_routing(world, 0, 0, experts, 7), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(), HasSubstr("expected 8 experts, or none, for routing op 0 but got 7"));
  EXPECT_EQ(moert_world_force_routing(world, 0, 0, nullptr, 8), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_world_routing(world, 0, 0, experts, 8, &count), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(), HasSubstr("no step of routing op 0 was recorded"));
  ASSERT_EQ(moert_world_force_routing(world, 0, 0, experts, 8), MOERT_OK);
  EXPECT_EQ(moert_world_run(world, nullptr), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(), HasSubstr("expected forced experts from 0 to 3 but got 9"));
  // The world chooses by itself again, and its choices can be read.
  ASSERT_EQ(moert_world_force_routing(world, 0, 0, nullptr, 0), MOERT_OK);
  ASSERT_EQ(moert_world_record_routing(world, 1), MOERT_OK);
  EXPECT_EQ(moert_world_run(world, nullptr), MOERT_OK) << moert_last_error();
  EXPECT_EQ(moert_world_routing(world, 0, 0, experts, 8, &count), MOERT_OK);
  EXPECT_EQ(count, 8);
  EXPECT_LT(experts[6], 4);
  moert_world_destroy(world);
  moert_plan_close(plan);
}
