//===- PapersTest.cpp - the papers' formulas and figures ------------------===//
#include "moe/Cost/Papers.h"
#include "moert/shadows.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir::moe;

namespace {

//===----------------------------------------------------------------------===//
// FasterMoE
//===----------------------------------------------------------------------===//

struct Model {
  double embedding;      ///< H
  double hiddenFactor;   ///< alpha
  double elementBytes;   ///< s
  double flopsPerSecond; ///< P, of one worker
  double bytesPerSecond; ///< W, of the network

  /// 4 alpha H^2: FLOPs of one token in one expert, forward.
  double getForwardFlops() const { return 4 * hiddenFactor * embedding * embedding; }
  /// 2 alpha H^2 s.
  double getExpertBytes() const { return 2 * hiddenFactor * embedding * embedding * elementBytes; }
};

constexpr Model kModel = {1024, 2, 4, 11.5e12, 6.25e9};
constexpr double kMilli = 1e-3, kDigits = 0.0005; // figures are given in ms with three digits

void expectMilli(double seconds, double expected) { EXPECT_NEAR(seconds / kMilli, expected, kDigits); }

/// Tokens from each worker to each expert. Every worker has one expert.
struct Routing {
  std::vector<int32_t> counts; ///< [workers, experts]
  int64_t workers;

  explicit Routing(std::vector<int32_t> counts)
      : counts(std::move(counts)), workers(std::lround(std::sqrt(this->counts.size()))) {}

  /// Tokens that each worker computes if `shadows` are shadows.
  std::vector<double> getTokens(const std::vector<int64_t> &shadows) const {
    std::vector<double> tokens(workers);
    for (int64_t from = 0; from < workers; ++from)
      for (int64_t expert = 0; expert < workers; ++expert)
        tokens[llvm::is_contained(shadows, expert) ? from : expert] += counts[from * workers + expert];
    return tokens;
  }
  /// Seconds of an iteration. Eq. 7, without shadows: max_w {12 B_w alpha H^2 / P + 4 B_w H s / W}. Eq. 8, with r of
  /// them: max_w 12 B'_w alpha H^2 / P + 2 r (2 alpha H^2 s / W).
  double getSeconds(const Model &model, const std::vector<int64_t> &shadows) const {
    std::vector<double> tokens = getTokens(shadows);
    double most = *llvm::max_element(tokens);
    double moved = shadows.empty() ? 4 * most * model.embedding * model.elementBytes
                                   : 2 * static_cast<double>(shadows.size()) * model.getExpertBytes();
    return 3 * most * model.getForwardFlops() / model.flopsPerSecond + moved / model.bytesPerSecond;
  }
  /// The runtime's choice with the figures of the model.
  std::vector<int64_t> choose(const Model &model, moert_shadow_policy policy, int64_t most = 4) const {
    moert_shadow_costs costs = {};
    costs.size = sizeof(costs);
    costs.policy = policy;
    costs.workers = workers;
    costs.node_workers = costs.phases = 1;
    costs.most = std::min(most, workers);
    costs.row_compute = model.getForwardFlops() / model.flopsPerSecond;
    costs.row_send = model.embedding * model.elementBytes / model.bytesPerSecond;
    costs.expert = model.getExpertBytes() / model.bytesPerSecond;
    std::vector<int32_t> flags(workers);
    EXPECT_EQ(moert_shadows_choose(&costs, counts.data(), workers, workers, flags.data()), 0);
    std::vector<int64_t> shadows;
    for (int64_t expert = 0; expert < workers; ++expert)
      if (flags[expert])
        shadows.push_back(expert);
    return shadows;
  }
};

/// Four workers that each send these numbers of tokens to the experts.
Routing makeEqualRows(std::vector<int32_t> row) {
  std::vector<int32_t> counts;
  for (int from = 0; from < 4; ++from)
    counts.insert(counts.end(), row.begin(), row.end());
  return Routing(counts);
}

using Experts = std::vector<int64_t>;

/// Rows of [800, 100, 50, 50]: 15.391 ms, 7.995 with expert 0 shadowed, 13.145 with 0 and 1.
TEST(FasterMoeTest, SkewedLoad) {
  Routing routing = makeEqualRows({800, 100, 50, 50});
  EXPECT_EQ(routing.getTokens({0}), std::vector<double>({800, 1200, 1000, 1000}));
  expectMilli(routing.getSeconds(kModel, {}), 15.391);
  expectMilli(routing.getSeconds(kModel, {0}), 7.995);
  expectMilli(routing.getSeconds(kModel, {0, 1}), 13.145);
  EXPECT_EQ(routing.choose(kModel, MOERT_SHADOWS_ALGORITHM1), Experts({0}));
  EXPECT_EQ(routing.choose(kModel, MOERT_SHADOWS_PREFIX), Experts({0}));
}

/// Rows of [6000, 1000, 500, 500]: 115.435 ms, 27.252 with expert 0, 30.432 with 0 and 1.
TEST(FasterMoeTest, HeavyLoad) {
  Routing routing = makeEqualRows({6000, 1000, 500, 500});
  expectMilli(routing.getSeconds(kModel, {}), 115.435);
  expectMilli(routing.getSeconds(kModel, {0}), 27.252);
  expectMilli(routing.getSeconds(kModel, {0, 1}), 30.432);
  EXPECT_EQ(routing.choose(kModel, MOERT_SHADOWS_ALGORITHM1), Experts({0}));
  EXPECT_EQ(routing.choose(kModel, MOERT_SHADOWS_PREFIX), Experts({0}));
}

/// 700 tokens stay on each worker and 100 go to each other one: 4.810 ms, and 7.776 with a shadow, so there is none.
TEST(FasterMoeTest, LocalLoad) {
  std::vector<int32_t> counts(16, 100);
  for (int worker = 0; worker < 4; ++worker)
    counts[worker * 5] = 700;
  Routing routing(counts);
  EXPECT_EQ(routing.getTokens({0}), std::vector<double>({700, 1100, 1100, 1100}));
  expectMilli(routing.getSeconds(kModel, {}), 4.810);
  expectMilli(routing.getSeconds(kModel, {0}), 7.776);
  EXPECT_EQ(routing.choose(kModel, MOERT_SHADOWS_ALGORITHM1), Experts());
  EXPECT_EQ(routing.choose(kModel, MOERT_SHADOWS_PREFIX), Experts());
}

/// H = 1, alpha = 1, s = 1, P = 12: 12 B alpha H^2 / P is B seconds.
constexpr Model getUnitModel(double bytesPerSecond) { return {1, 1, 1, 12, bytesPerSecond}; }

/// Two experts of 20 tokens: 20.08 s. The first shadow alone moves load to the other expert's worker, 25.004 s. Both
/// together take 10.008 s. Only the search over prefixes finds that.
TEST(FasterMoeTest, PaysFromTwoOn) {
  Model model = getUnitModel(1000);
  Routing routing({5, 5, 0, 0, /**/ 5, 5, 0, 0, /**/ 10, 0, 0, 0, /**/ 0, 10, 0, 0});
  EXPECT_DOUBLE_EQ(routing.getSeconds(model, {}), 20.08);
  EXPECT_DOUBLE_EQ(routing.getSeconds(model, {0}), 25.004);
  EXPECT_DOUBLE_EQ(routing.getSeconds(model, {0, 1}), 10.008);
  EXPECT_EQ(routing.choose(model, MOERT_SHADOWS_ALGORITHM1), Experts());
  EXPECT_EQ(routing.choose(model, MOERT_SHADOWS_PREFIX), Experts({0, 1}));
  EXPECT_EQ(routing.choose(model, MOERT_SHADOWS_PREFIX, 1), Experts());
}

/// If every shadow pays, all are chosen: 3.012 s, 3.004 with expert 1, 2.008 with 1 and 0.
TEST(FasterMoeTest, AllShadowed) {
  Model model = getUnitModel(1000);
  Routing routing({0, 2, 1, 1});
  EXPECT_DOUBLE_EQ(routing.getSeconds(model, {}), 3.012);
  EXPECT_DOUBLE_EQ(routing.getSeconds(model, {1}), 3.004);
  EXPECT_DOUBLE_EQ(routing.getSeconds(model, {1, 0}), 2.008);
  EXPECT_EQ(routing.choose(model, MOERT_SHADOWS_ALGORITHM1), Experts({0, 1}));
}

/// For any routing, the runtime's decision follows from the equations for the prefixes: all of them, or up to the first
/// that is no better.
TEST(FasterMoeTest, DecidesByTheEquations) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 500; ++trial) {
    Model model = getUnitModel(1 << (random() % 8));
    std::vector<int32_t> counts(16);
    for (int32_t &count : counts)
      count = static_cast<int32_t>(random() % 4 == 0 ? random() % 100 : random() % 10);
    Routing routing(counts);
    std::vector<double> load = routing.getTokens({});
    Experts order = {0, 1, 2, 3}, prefix, best, greedy;
    llvm::stable_sort(order, [&](int64_t a, int64_t b) { return load[a] > load[b]; });
    double least = routing.getSeconds(model, {});
    bool ended = false;
    for (int64_t expert : order) {
      prefix.push_back(expert);
      double seconds = routing.getSeconds(model, prefix);
      ended = ended || seconds >= routing.getSeconds(model, greedy);
      if (!ended)
        greedy = prefix;
      if (seconds < least) {
        least = seconds;
        best = prefix;
      }
    }
    llvm::sort(best);
    llvm::sort(greedy);
    EXPECT_EQ(routing.choose(model, MOERT_SHADOWS_ALGORITHM1), greedy) << "trial " << trial;
    EXPECT_EQ(routing.choose(model, MOERT_SHADOWS_PREFIX), best) << "trial " << trial;
  }
}

/// Eq. 5 and 6 with round numbers.
TEST(FasterMoeTest, Roofline) {
  EXPECT_DOUBLE_EQ(fastermoe::getIdealFlopsPerSecond(8, 0.5), 4);
  EXPECT_DOUBLE_EQ(fastermoe::getIdealFlopsPerSecond(8, 2), 8);
  EXPECT_DOUBLE_EQ(fastermoe::getSemiIdealFlopsPerSecond(8, 3), 6);
}

//===----------------------------------------------------------------------===//
// MPipeMoE
//===----------------------------------------------------------------------===//

/// Eq. 10 by hand: b H M = 64 and b M = 8. Computation 64/32 = 2 a pass, communication 8/8 = 1 a pass, a copy 8/4 = 2 a
/// pass, with everything together 8/4 = 2 for communication and 8/2 = 4 for copies.
TEST(MPipeMoeTest, Strategies) {
  mpipemoe::Layer layer = {2, 8, 4};
  mpipemoe::Rates rates = {32, 8, 4, 1, 1, 0.5, 0.5};
  auto getSeconds = [&](mpipemoe::Strategy strategy) { return mpipemoe::getSeconds(layer, strategy, rates); };
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::None), 4 + 8);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S1), 20 + 20);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S2), 16 + 16);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S3), 4 + 10);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S4), 4 + 10);
  // Communication takes longest: 8 / 1 per pass alone, 8 / 0.5 with all three.
  rates.communicationPerSecond = 1;
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::None), 16 + 16);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S1), 32 + 32);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S2), 32 + 48);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S3), 32 + 32);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S4), 16 + 24);
  // Communication beside computation only.
  rates.communication = 0.25;
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S4), 64 + 96);
  rates.compute = 0.01;
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S4), 400 + 1000);
}

//===----------------------------------------------------------------------===//
// Parm
//===----------------------------------------------------------------------===//

/// B = 2, L = 8, M = 4, E = 4, k = 2, f = 1; N_MP = 2, N_ESP = 2: T = 8, X = 256, y = 128, B L M = 64, E T M = 128.
constexpr parm::Layer kLayer = {2, 8, 4, 4, 2, 1, 2, 2};

/// Eq. 12 to 14, and the choice between them; S1 where they are equal.
TEST(ParmTest, Choice) {
  EXPECT_DOUBLE_EQ(kLayer.getCapacity(), 8);
  EXPECT_DOUBLE_EQ(kLayer.getSplit(), 128);
  parm::AlphaBeta allToAll = {1, 0.5}, allGather = {3, 1};
  EXPECT_DOUBLE_EQ(parm::getS1Seconds(kLayer, allToAll, allGather), 2 * (1 + 64) + 3 + 64);
  EXPECT_DOUBLE_EQ(parm::getS2Seconds(kLayer, allToAll, parm::AlphaBeta{4, 1}), (1 + 64) + (4 + 128));
  EXPECT_EQ(parm::chooseSchedule(kLayer, allToAll, allGather, {4, 1}), parm::Schedule::S1);
  EXPECT_EQ(parm::chooseSchedule(kLayer, allToAll, allGather, {3.5, 1}), parm::Schedule::S2);
}

/// Bandwidth only and nothing overlapped: the gather of S2 has E T M = y elements, and S1 beats S2 exactly if k f > 1.
TEST(ParmTest, WithoutOverlap) {
  for (double factor : {0.25, 0.5, 0.75, 1.0}) {
    parm::Layer layer = kLayer;
    layer.capacityFactor = factor;
    double s1 = parm::getS1Seconds(layer, {0, 1}, {0, 1}), s2 = parm::getS2Seconds(layer, {0, 1}, {0, 2});
    EXPECT_EQ(s1 < s2, layer.topK * factor > 1) << factor;
  }
}

} // namespace
