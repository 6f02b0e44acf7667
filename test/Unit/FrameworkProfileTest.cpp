//===- FrameworkProfileTest.cpp - descriptions of frameworks --------------===//
//
// MOE_SHARE_DIR is the source tree's share/.
//
//===----------------------------------------------------------------------===//

#include "moe/Cost/FrameworkProfile.h"

#include "ToyCluster.h"

#include "llvm/Support/FileSystem.h"

using namespace mlir::moe;

namespace {

const char *const toy = R"({
  "moeplan_framework": 1,
  "name": "toy",
  "description": "made up",
  "host": {
    "launch_s": {"matrix": 4e-5, "memory": 3e-5, "network": 2e-5, "host_link": 1e-5},
    "kernels": [{"names": ["copy", "window"], "launch_s": 0, "source": "s"}],
    "cpus": [{"cpu": "slow", "times": 2, "source": "s"}],
    "source": "s"
  },
  "graphs": [{"name": "half", "host_share": 0.5, "source": "s"}, {"name": "whole", "host_share": 0, "source": "s",
    "kernels": [{"devices": ["B2"], "factors": [{"kernel": "matmul", "times": 1.5, "source": "s"}], "source": "s"}]}],
  "kernels": [{"devices": ["B2"], "source": "s",
               "factors": [{"times": 4, "source": "s"}, {"kernel": "matmul", "times": 2, "source": "s"},
                           {"kernel": "matmul", "params": [1], "times": 3, "source": "s"}]}],
  "dispatchers": [
    {"name": "plain", "awaited": ["all_to_all_v"], "in_order": ["all_to_all"], "counts_s": 6e-6, "source": "s"},
    {"name": "fused", "once": true, "compute_beside": 0.75, "inside_share": 0.5, "kernels": [{"names": ["dispatch"], "launch_s": 0, "source": "s"}],
     "runs": [{"needs": {"schedule": ["once:rank"]}, "reason": "it sends once", "source": "s"}],
     "networks": [{"network": "efa", "fixed_s": 1, "between_share": 0.25, "message_s": 1000, "source": "s"},
                  {"devices": ["B2"], "inside_share": 0.25, "source": "s"}], "source": "s"}
  ],
  "precisions": [
    {"name": "narrow", "devices": ["B2"], "needs": "it needs B2", "kept_share": 0.5, "host_s": 1e-5, "exchanged_share": 0.75,
     "arguments": [{"flag": "format", "value": "e4m3"}, {"flag": "gather", "needs": "zero"}], "mixed_precision": "mixed",
     "products": [
       {"kernels": ["matmul"], "dtype": "f32", "weights": {"least": 50, "most": 100}, "times": 0.5, "fixed_s": 3,
        "quantised_bytes": 4, "source": "s"},
       {"kernels": ["matmul_wgrad"], "dtype": "f32", "of_weights": true, "weights": {"least": 50, "most": 100},
        "times": 0.25, "source": "s"}],
     "source": "s"}
  ],
  "measured_steps": [
    {"low": 0.5, "high": 2, "steps": 20, "sources": 3, "source": "s"},
    {"precision": "narrow", "low": 0.7, "high": 0.8, "steps": 20, "sources": 3, "source": "s"},
    {"devices": ["B2"], "tokens": {"min": 1000, "below": 2500}, "inside_node": true, "whole_graph": false,
     "low": 0.9, "high": 1.2, "steps": 10, "sources": 2, "source": "s"}
  ],
  "runs": [
    {"needs": {"pipeline": ["1f1b", "zb-v"]}, "reason": "no such order", "source": "s"},
    {"when": {"pipeline": ["zb-v"], "pp": {"min": 2}}, "needs": {"interleave": {"min": 2, "max": 4}},
     "reason": "zb-v needs stages", "source": "s"},
    {"needs": {"esp": ["1", "mp"], "ep": {"multiple_of": "mp"}}, "reason": "no such experts", "source": "s"}
  ],
  "whole_blocks": true, "routed_rows": true,
  "measured_pairs": {"error": 0.1, "pairs": 7, "source": "s"}
})";

FrameworkProfile parseOrFail() { return llvm::cantFail(FrameworkProfile::parse(toy, "toy.json")); }

std::string errorOf(std::string line, std::string other) {
  std::string text = toy;
  text.replace(text.find(line), line.size(), other);
  return llvm::toString(FrameworkProfile::parse(text, "toy.json").takeError());
}

/// Two nodes of two devices, with the toy framework.
ClusterProfile apply(const FrameworkUse &use, std::string device = "A1", std::string cpu = "",
                     std::string network = "") {
  ClusterProfile profile = makeToyPair();
  profile.deviceName = std::move(device);
  profile.cpu = std::move(cpu);
  profile.network = std::move(network);
  llvm::cantFail(parseOrFail().apply(profile, use));
  return profile;
}

double getHost(const ClusterProfile &profile, const char *kernel, Resource resource) {
  return profile.host.getLaunchSeconds(kernel, resource);
}

/// Seconds of an even exchange of 64 bytes a member.
double getExchange(const ClusterProfile &profile, llvm::ArrayRef<int64_t> ranks, int64_t rowBytes = 0) {
  auto model = makeModel(profile, CostForm::ClosedForm);
  GroupExchange exchange = makeExchange(Collective::AllToAll, ranks, 64);
  exchange.rowBytes = rowBytes;
  return llvm::cantFail(model->getSeconds(exchange));
}

TEST(FrameworkProfile, IssuesLaunches) {
  ClusterProfile profile = apply({});
  EXPECT_EQ(profile.framework, "toy");
  EXPECT_EQ(getHost(profile, "matmul", Resource::Matrix), 4e-5);
  EXPECT_EQ(getHost(profile, "add", Resource::Memory), 3e-5);
  EXPECT_EQ(getHost(profile, "copy", Resource::Memory), 0);
  EXPECT_EQ(profile.host.countsSeconds, 6e-6);
  EXPECT_TRUE(profile.host.awaited.contains("all_to_all_v"));
  EXPECT_TRUE(profile.host.inOrder.contains("all_to_all"));
  EXPECT_EQ(getHost(apply({}, "A1", "slow"), "add", Resource::Memory), 6e-5);
  EXPECT_EQ(getHost(apply({"", "half"}, "A1", "slow"), "add", Resource::Memory), 3e-5);
  ClusterProfile fused = apply({"fused", ""});
  EXPECT_EQ(getHost(fused, "dispatch", Resource::Memory), 0);
  EXPECT_TRUE(fused.host.awaited.empty());
  EXPECT_TRUE(fused.host.inOrder.empty());
  EXPECT_FALSE(fused.host.countsSeconds);
}

/// Factors of kernels hold on the named devices, and the last one that fits counts.
TEST(FrameworkProfile, SlowsKernels) {
  OpCost cost;
  cost.resource = Resource::Memory;
  cost.bytesRead = 1000;
  OpCost product;
  product.resource = Resource::Matrix;
  product.gemm = {.groups = 1, .rows = 100, .columns = 100, .depth = 100};
  auto getSeconds = [&](const ClusterProfile &profile, const char *kernel, llvm::ArrayRef<int64_t> params,
                        const OpCost &of) {
    return llvm::cantFail(makeModel(profile, CostForm::ClosedForm)->getSeconds({kernel, params, "f32", &of, {}}));
  };
  ClusterProfile other = apply({}), slow = apply({}, "B200");
  double alone = getSeconds(other, "matmul", {0}, product);
  EXPECT_DOUBLE_EQ(getSeconds(slow, "matmul", {0}, product), 2 * alone);
  EXPECT_DOUBLE_EQ(getSeconds(slow, "matmul", {1}, product), 3 * alone);
  ClusterProfile whole = apply({"", "whole"}, "B200"), wholeOther = apply({"", "whole"});
  EXPECT_DOUBLE_EQ(getSeconds(whole, "matmul", {1}, product), 1.5 * alone);
  EXPECT_DOUBLE_EQ(getSeconds(wholeOther, "matmul", {1}, product), alone);
  EXPECT_DOUBLE_EQ(getSeconds(other, "add", {}, cost), 10);
  EXPECT_DOUBLE_EQ(getSeconds(slow, "add", {}, cost), 40);
}

/// Narrow products take a part of their time, a fixed time and the time of quantisation, which only moves memory.
TEST(FrameworkProfile, NarrowsProducts) {
  auto getSeconds = [&](const FrameworkUse &use, const char *kernel, GemmShape gemm) {
    OpCost product;
    product.resource = Resource::Matrix;
    product.gemm = gemm;
    ClusterProfile profile = apply(use, "B200");
    return llvm::cantFail(makeModel(profile, CostForm::ClosedForm)->getSeconds({kernel, {0}, "f32", &product, {}}));
  };
  FrameworkUse narrow{"", "", "narrow"};
  // The factor of all kernels that only move memory is 4, and 100 bytes take a second.
  GemmShape gemm{.groups = 1, .rows = 200, .columns = 100, .depth = 50};
  EXPECT_DOUBLE_EQ(getSeconds(narrow, "matmul", gemm),
                   3 + 0.5 * getSeconds({}, "matmul", gemm) + 4 * 200 * 50 * 4 / 100.);
  // The rows of a gradient of weights are a side of the weights, and its depth is none.
  GemmShape grad{.groups = 1, .rows = 100, .columns = 50, .depth = 200};
  EXPECT_DOUBLE_EQ(getSeconds(narrow, "matmul_wgrad", grad), 0.25 * getSeconds({}, "matmul_wgrad", grad));
  EXPECT_DOUBLE_EQ(getSeconds(narrow, "matmul", grad), getSeconds({}, "matmul", grad));
  GemmShape router{.groups = 1, .rows = 200, .columns = 49, .depth = 100};
  EXPECT_DOUBLE_EQ(getSeconds(narrow, "matmul", router), getSeconds({}, "matmul", router));
  EXPECT_DOUBLE_EQ(getSeconds(narrow, "grouped_matmul", gemm), getSeconds({}, "grouped_matmul", gemm));
}

TEST(FrameworkProfile, UsesPrecision) {
  ClusterProfile profile = apply({"", "", "narrow"}, "B200", "slow");
  EXPECT_EQ(profile.precision.name, "narrow");
  EXPECT_EQ(profile.precision.keptShare, 0.5);
  EXPECT_EQ(profile.precision.arguments[1].needs, "zero");
  EXPECT_DOUBLE_EQ(getHost(profile, "matmul", Resource::Matrix), 2 * (4e-5 + 1e-5));
  EXPECT_DOUBLE_EQ(getHost(profile, "grouped_matmul", Resource::Matrix), 2 * 4e-5);
  EXPECT_EQ(profile.tokenExchange.insideTimes, 0.75);
  // Steps in other types say nothing about its steps.
  EXPECT_EQ(profile.measured.find({2000, true, true})->high, 0.8);
  EXPECT_EQ(apply({}, "B200").measured.find({2000, true, true})->high, 1.2);
}

/// A dispatcher has its own rates, which may depend on the network and on the device.
TEST(FrameworkProfile, Dispatches) {
  EXPECT_TRUE(parseOrFail().sendsOnce("fused"));
  EXPECT_FALSE(parseOrFail().sendsOnce("plain"));
  EXPECT_FALSE(parseOrFail().sendsOnce(""));
  double inside = getExchange(apply({}), {0, 1}), between = getExchange(apply({}), {0, 2});
  ClusterProfile fused = apply({"fused", ""}), efa = apply({"fused", ""}, "A1", "", "efa");
  EXPECT_DOUBLE_EQ(getExchange(fused, {0, 1}), 2 * inside);
  EXPECT_DOUBLE_EQ(getExchange(fused, {0, 2}), between);
  EXPECT_DOUBLE_EQ(getExchange(efa, {0, 1}), inside);
  // The last entry that fits counts, here that of the device.
  EXPECT_DOUBLE_EQ(getExchange(apply({"fused", ""}, "B200"), {0, 1}), 4 * inside);
  EXPECT_DOUBLE_EQ(getExchange(apply({"fused", ""}, "B200", "", "efa"), {0, 1}), 4 * inside);
  // A path between nodes takes 1 s before its first byte arrives.
  EXPECT_DOUBLE_EQ(getExchange(efa, {0, 2}), 1 + 1 + 4 * (between - 1));
  // Half of the 16 rows go to the other node, each as a message.
  EXPECT_DOUBLE_EQ(getExchange(efa, {0, 2}, 4), 1 + 1 + 8 * 1000);
  EXPECT_DOUBLE_EQ(getExchange(efa, {0, 1}, 4), inside);
  EXPECT_DOUBLE_EQ(getExchange(fused, {0, 2}, 4), between);
  // A phase has its own rows.
  OpCost phase;
  phase.collective = Collective::AllToAll;
  phase.payload = 64;
  phase.raggedRows = 16;
  phase.phases = 2;
  EXPECT_EQ(phase.getRowBytes(), 4);
}

/// Kernels of a dispatcher occupy a part of the device.
TEST(FrameworkProfile, SlowsComputationBesideExchanges) {
  ClusterProfile profile = makeToyPair();
  profile.interference = {{true, true, false, 0.9, 0.5, 1}, {true, false, true, 0.9, 1, 0.5}};
  llvm::cantFail(parseOrFail().apply(profile, {"fused", ""}));
  EXPECT_EQ(profile.interference[0].computeSpeed, 0.75);
  EXPECT_EQ(profile.interference[0].communicationSpeed, 0.5);
  EXPECT_EQ(profile.interference[1].computeSpeed, 0.9);
}

TEST(FrameworkProfile, KnowsMeasuredSteps) {
  ClusterProfile profile = apply({}, "B200");
  EXPECT_EQ(profile.measured.pairError, 0.1);
  EXPECT_EQ(profile.measured.find({2000, true, true})->high, 1.2);
  EXPECT_EQ(profile.measured.find({2500, true, true})->high, 2);
  EXPECT_EQ(profile.measured.find({2000, false, true})->high, 2);
  EXPECT_EQ(apply({}).measured.find({2000, true, true})->high, 2);
  EXPECT_EQ(apply({"", "whole"}, "B200").measured.find({2000, true, true})->high, 2);
  EXPECT_FALSE(makeToyPair().measured.find({2000, true, true}));
}

/// The first rule that a plan breaks gives the reason, and what is not decided breaks none.
TEST(FrameworkProfile, RefusesPlans) {
  using Values = std::map<std::string, std::string>;
  const Values plan = {{"pipeline", "1f1b"}, {"pp", "4"}, {"interleave", "1"}, {"mp", "2"}, {"esp", "2"}, {"ep", "4"}};
  auto refuse = [&](Values changes, const char *dispatcher = "plain") {
    changes.insert(plan.begin(), plan.end());
    return parseOrFail().getRules({dispatcher, ""}).refuse([&](llvm::StringRef choice) {
      return changes[choice.str()];
    });
  };
  EXPECT_EQ(refuse({}), "");
  EXPECT_EQ(refuse({{"pipeline", "zb-h1"}}), "no such order");
  EXPECT_EQ(refuse({{"pipeline", "zb-v"}}), "zb-v needs stages");
  EXPECT_EQ(refuse({{"pipeline", "zb-v"}, {"interleave", "4"}}), "");
  EXPECT_EQ(refuse({{"pipeline", "zb-v"}, {"interleave", "5"}}), "zb-v needs stages");
  EXPECT_EQ(refuse({{"pipeline", "zb-v"}, {"interleave", ""}}), "");
  EXPECT_EQ(refuse({{"pipeline", "zb-v"}, {"pp", "1"}}), "");
  EXPECT_EQ(refuse({{"pipeline", ""}, {"interleave", "1"}}), "");
  EXPECT_EQ(refuse({{"esp", "1"}}), "");
  EXPECT_EQ(refuse({{"esp", "4"}}), "no such experts");
  EXPECT_EQ(refuse({{"ep", "1"}}), "no such experts");
  EXPECT_EQ(refuse({{"schedule", "baseline"}}), "");
  EXPECT_EQ(refuse({{"schedule", "baseline"}}, "fused"), "it sends once");
  EXPECT_TRUE(parseOrFail().keepsRoutedRows);
  PlanRules rules = parseOrFail().getRules({});
  EXPECT_TRUE(rules.wholeBlocks);
  EXPECT_TRUE(rules.allows("pipeline", "zb-v"));
  EXPECT_FALSE(rules.allows("pipeline", "zb-h1"));
  EXPECT_TRUE(rules.allows("interleave", "8"));
  EXPECT_EQ(rules.listValues("pipeline"), "1f1b, zb-v");
}

TEST(FrameworkProfile, NamesMistakesInRules) {
  EXPECT_NE(
      errorOf("{\"pipeline\": [\"1f1b\", \"zb-v\"]}", "{\"pipelines\": [\"1f1b\"]}").find("'runs[0].needs.pipelines'"),
      std::string::npos);
  EXPECT_NE(errorOf("\"needs\": {\"schedule\": [\"once:rank\"]}, ", "").find("'dispatchers[1].runs[0].needs'"),
            std::string::npos);
  EXPECT_NE(errorOf("\"min\": 2, \"max\": 4", "\"min\": 2, \"max\": 1").find("'runs[1].needs.interleave.max'"),
            std::string::npos);
  EXPECT_NE(errorOf("\"multiple_of\": \"mp\"", "\"multiple_of\": \"tp\"").find("'runs[2].needs.ep.multiple_of'"),
            std::string::npos);
}

TEST(FrameworkProfile, NamesMistakes) {
  EXPECT_NE(errorOf("\"network\": 2e-5, ", "").find("'host.launch_s.network'"), std::string::npos);
  EXPECT_NE(errorOf("\"half\"", "\"whole\"").find("'graphs[1].name': expected a name that no earlier entry has"),
            std::string::npos);
  EXPECT_NE(errorOf("\"awaited\"", "\"awaits\"").find("'dispatchers[0].awaits'"), std::string::npos);
  EXPECT_NE(
      errorOf("\"name\": \"half\", \"host_share\": 0.5, \"source\": \"s\"", "\"name\": \"half\", \"host_share\": 0.5")
          .find("'graphs[0].source'"),
      std::string::npos);
  ClusterProfile profile = makeToyPair();
  EXPECT_EQ(llvm::toString(parseOrFail().apply(profile, {"fusd", ""})),
            "framework 'toy' has no dispatcher 'fusd'; it has plain, fused; did you mean 'fused'?");
  EXPECT_EQ(llvm::toString(parseOrFail().apply(profile, {"", "", "narow"})),
            "framework 'toy' has no precision 'narow'; it has narrow; did you mean 'narrow'?");
  profile.deviceName = "A1";
  EXPECT_EQ(llvm::toString(parseOrFail().apply(profile, {"", "", "narrow"})),
            "framework 'toy' has no precision 'narrow' on 'A1': it needs B2");
  EXPECT_NE(errorOf(", \"mixed_precision\": \"mixed\"", "").find("'precisions[0].mixed_precision'"), std::string::npos);
  EXPECT_NE(errorOf("\"least\": 50, \"most\": 100}, \"times\": 0.5", "\"least\": 50, \"most\": 49}, \"times\": 0.5")
                .find("'precisions[0].products[0].weights.most'"),
            std::string::npos);
  EXPECT_EQ(llvm::toString(parseOrFail().apply(profile, {"", "hal"})),
            "framework 'toy' has no graph scope 'hal'; it has half, whole; did you mean 'half'?");
}

/// All shared descriptions can be read.
TEST(FrameworkProfile, ReadsShared) {
  int64_t count = 0;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(MOE_SHARE_DIR "/frameworks", error), end; it != end; it.increment(error)) {
    llvm::Expected<FrameworkProfile> profile = FrameworkProfile::load(it->path());
    EXPECT_TRUE(static_cast<bool>(profile)) << llvm::toString(profile.takeError());
    ++count;
  }
  EXPECT_GT(count, 0);
}

} // namespace
