//===- PapersTest.cpp - the papers' formulas against their own figures ----===//
#include "moe/Cost/Papers.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mlir::moe;

namespace {

//===----------------------------------------------------------------------===//
// FasterMoE
//===----------------------------------------------------------------------===//

constexpr fastermoe::Model kModel = {1024, 2, 4, 11.5e12, 6.25e9};
constexpr double kMilli = 1e-3, kDigits = 0.0005; // figures are given in ms with three digits

/// Four workers that each send this many tokens to the experts.
std::vector<double> makeEqualRows(std::vector<double> row) {
  std::vector<double> matrix;
  for (int from = 0; from < 4; ++from)
    matrix.insert(matrix.end(), row.begin(), row.end());
  return matrix;
}

void expectMilli(double seconds, double expected) { EXPECT_NEAR(seconds / kMilli, expected, kDigits); }

/// Rows of [800, 100, 50, 50]: 15.391 ms, 7.995 with expert 0 shadowed, 13.145 with 0 and 1.
TEST(FasterMoeTest, SkewedLoad) {
  std::vector<double> tokens = {3200, 400, 200, 200}, matrix = makeEqualRows({800, 100, 50, 50});
  expectMilli(fastermoe::getImbalancedSeconds(kModel, tokens), 15.391);
  fastermoe::shadow(0, matrix, tokens);
  EXPECT_EQ(tokens, std::vector<double>({800, 1200, 1000, 1000}));
  expectMilli(fastermoe::getShadowedSeconds(kModel, 1, tokens), 7.995);
  fastermoe::shadow(1, matrix, tokens);
  expectMilli(fastermoe::getShadowedSeconds(kModel, 2, tokens), 13.145);
  fastermoe::Shadows chosen = fastermoe::selectShadows(kModel, matrix);
  EXPECT_EQ(chosen.experts, std::vector<int64_t>({0}));
  expectMilli(chosen.seconds, 7.995);
}

/// Rows of [6000, 1000, 500, 500]: 115.435 ms, 27.252 with expert 0, 30.432 with 0 and 1.
TEST(FasterMoeTest, HeavyLoad) {
  std::vector<double> tokens = {24000, 4000, 2000, 2000}, matrix = makeEqualRows({6000, 1000, 500, 500});
  expectMilli(fastermoe::getImbalancedSeconds(kModel, tokens), 115.435);
  fastermoe::shadow(0, matrix, tokens);
  expectMilli(fastermoe::getShadowedSeconds(kModel, 1, tokens), 27.252);
  fastermoe::shadow(1, matrix, tokens);
  expectMilli(fastermoe::getShadowedSeconds(kModel, 2, tokens), 30.432);
  fastermoe::Shadows chosen = fastermoe::selectShadows(kModel, matrix);
  EXPECT_EQ(chosen.experts, std::vector<int64_t>({0}));
  expectMilli(chosen.seconds, 27.252);
}

/// 700 tokens stay on each worker and 100 go to each other one: 4.810 ms, 7.776 with a shadow, so none.
TEST(FasterMoeTest, LocalLoad) {
  std::vector<double> tokens(4, 1000), matrix(16, 100);
  for (int worker = 0; worker < 4; ++worker)
    matrix[worker * 5] = 700;
  expectMilli(fastermoe::getImbalancedSeconds(kModel, tokens), 4.810);
  fastermoe::shadow(0, matrix, tokens);
  EXPECT_EQ(tokens, std::vector<double>({700, 1100, 1100, 1100}));
  expectMilli(fastermoe::getShadowedSeconds(kModel, 1, tokens), 7.776);
  fastermoe::Shadows chosen = fastermoe::selectShadows(kModel, matrix);
  EXPECT_TRUE(chosen.experts.empty());
  expectMilli(chosen.seconds, 4.810);
}

/// Eq. 9 alone, Eq. 10 alone, and neither; Eq. 10 says whether Eq. 8 is below Eq. 7.
TEST(FasterMoeTest, ShadowingPays) {
  EXPECT_TRUE(fastermoe::doesShadowingPay(kModel, 1, 2049, 2049));
  EXPECT_FALSE(fastermoe::doesShadowingPay(kModel, 1, 2048, 2048));
  for (double most : {200.0, 400.0, 800.0, 1600.0, 2000.0})
    for (double after : {0.2, 0.5, 0.9, 1.0}) {
      double shadowed = fastermoe::getShadowedSeconds(kModel, 1, {most * after});
      EXPECT_EQ(fastermoe::doesShadowingPay(kModel, 1, most, most * after),
                shadowed < fastermoe::getImbalancedSeconds(kModel, {most}))
          << most << " " << after;
    }
}

/// H = 1, alpha = 1, s = 1, P = 12: 12 B alpha H^2 / P is B seconds.
constexpr fastermoe::Model getUnitModel(double bytesPerSecond) { return {1, 1, 1, 12, bytesPerSecond}; }

/// Two experts of 10 tokens: 10.04 s. The first shadow alone moves load to where the other expert is, 12.504; with both
/// it is 5.008. Only the search over prefixes finds that.
TEST(FasterMoeTest, PaysFromTwoOn) {
  fastermoe::Model model = getUnitModel(1000);
  std::vector<double> matrix(16);
  matrix[0 * 4 + 0] = matrix[1 * 4 + 1] = 2.5;
  matrix[1 * 4 + 0] = matrix[0 * 4 + 1] = 2.5;
  matrix[2 * 4 + 0] = matrix[3 * 4 + 1] = 5;
  fastermoe::Shadows greedy = fastermoe::selectShadows(model, matrix);
  EXPECT_TRUE(greedy.experts.empty());
  EXPECT_DOUBLE_EQ(greedy.seconds, 10.04);
  fastermoe::Shadows searched = fastermoe::searchShadows(model, matrix, 4);
  EXPECT_EQ(searched.experts, std::vector<int64_t>({0, 1}));
  EXPECT_DOUBLE_EQ(searched.seconds, 5 + 0.008);
  EXPECT_TRUE(fastermoe::searchShadows(model, matrix, 1).experts.empty());
}

/// Where every shadow pays, all are returned: 3.012 s, 3.004 with expert 1, 2.008 with 1 and 0.
TEST(FasterMoeTest, AllShadowed) {
  fastermoe::Shadows chosen = fastermoe::selectShadows(getUnitModel(1000), {0, 2, 1, 1});
  EXPECT_EQ(chosen.experts, std::vector<int64_t>({1, 0}));
  EXPECT_DOUBLE_EQ(chosen.seconds, 2.008);
}

/// Eq. 1 to 6 with round numbers: H = 1, alpha = 1, so that a token takes 4 FLOPs.
TEST(FasterMoeTest, Roofline) {
  fastermoe::Model model = {1, 1, 4, 8, 1};
  double compute = fastermoe::getComputeSeconds(model, {6, 2});
  EXPECT_DOUBLE_EQ(compute, 3);
  EXPECT_DOUBLE_EQ(fastermoe::getComputeSeconds(model, {6, 2}, {8, 1}), 8);
  double links = fastermoe::getLinkSeconds({10, 12, 7}, {10, 2, 7});
  EXPECT_DOUBLE_EQ(links, 6);
  EXPECT_DOUBLE_EQ(fastermoe::getRatio(compute, links), 0.5);
  double whole = fastermoe::getSynchronousSeconds(compute, links);
  EXPECT_DOUBLE_EQ(whole, 33);
  EXPECT_DOUBLE_EQ(fastermoe::getMeanFlopsPerSecond(model, {6, 2}, whole), 12.0 * 8 / (2 * 33));
  EXPECT_DOUBLE_EQ(fastermoe::getIdealFlopsPerSecond(8, 0.5), 4);
  EXPECT_DOUBLE_EQ(fastermoe::getIdealFlopsPerSecond(8, 2), 8);
  EXPECT_DOUBLE_EQ(fastermoe::getSemiIdealFlopsPerSecond(8, 3), 6);
}

/// With the ratio of a whole iteration, even synchronous training is on the semi-ideal curve.
TEST(FasterMoeTest, SemiIdealBoundsTheMean) {
  fastermoe::Model model = {1, 1, 4, 8, 1};
  double compute = 3, links = 6;
  double mean = fastermoe::getMeanFlopsPerSecond(model, {6, 6}, fastermoe::getSynchronousSeconds(compute, links));
  EXPECT_DOUBLE_EQ(mean, fastermoe::getSemiIdealFlopsPerSecond(8, fastermoe::getRatio(3 * compute, 4 * links)));
}

//===----------------------------------------------------------------------===//
// PPMoE
//===----------------------------------------------------------------------===//

/// Eq. 5 with the paper's figures is 35/6; Eq. 2 of the same with 8 experts is a quarter of it.
TEST(PPMoeTest, Ratios) {
  EXPECT_DOUBLE_EQ(ppmoe::getAllReduceRatio(8, 125e12, 300e9, 1e3), 35.0 / 6);
  EXPECT_DOUBLE_EQ(ppmoe::getAllToAllRatio(8, 125e12, 300e9, 1e3), 35.0 / 24);
  EXPECT_DOUBLE_EQ(ppmoe::getAllToAllRatio(64, 125e12, 300e9, 1e3), 63 * 64 * 125e12 / (16 * 300e9 * 1e3));
}

//===----------------------------------------------------------------------===//
// MPipeMoE
//===----------------------------------------------------------------------===//

/// Eq. 1 to 5 in whole elements: M = 2, H = 8, B = 4, E = 3, n = 4.
TEST(MPipeMoeTest, Memory) {
  mpipemoe::Model model = {2, 8, 4, 3};
  EXPECT_DOUBLE_EQ(mpipemoe::getModelStates(model), 4 * (6 + 32));
  EXPECT_DOUBLE_EQ(mpipemoe::getActivations(model), 64);
  EXPECT_DOUBLE_EQ(mpipemoe::getBuffers(model), 40);
  EXPECT_DOUBLE_EQ(mpipemoe::getPipelined(model), 64);
  EXPECT_DOUBLE_EQ(mpipemoe::getSaved(model, 4), 4 * (2 + 6));
  EXPECT_DOUBLE_EQ(mpipemoe::getSavedFraction(model, 4), 64.0 / (152 + 128));
}

/// Eq. 6: the table of phi, for 64 experts and 2, 4 and 8 partitions.
TEST(MPipeMoeTest, SavedFraction) {
  struct Row {
    double embedding, hidden, tokens, phi[3];
  };
  constexpr double kilo = 1024, digits = 0.0005;
  constexpr Row rows[] = {{768, 3072, 4 * kilo, {.181, .363, .453}},   {768, 3072, 16 * kilo, {.228, .457, .571}},
                          {768, 3072, 32 * kilo, {.239, .477, .597}},  {1024, 4096, 4 * kilo, {.166, .332, .416}},
                          {1024, 4096, 16 * kilo, {.222, .444, .555}}, {1024, 4096, 32 * kilo, {.235, .470, .588}},
                          {2048, 8192, 4 * kilo, {.125, .250, .312}},  {2048, 8192, 16 * kilo, {.200, .400, .500}},
                          {2048, 8192, 32 * kilo, {.222, .444, .555}}};
  for (const Row &row : rows)
    for (int i = 0; i < 3; ++i)
      EXPECT_NEAR(mpipemoe::getSavedFraction({row.embedding, row.hidden, row.tokens, 64}, 2 << i), row.phi[i], digits)
          << row.embedding << " " << row.tokens << " " << (2 << i);
  mpipemoe::Model endless = {768, 3072, 1e15, 64};
  EXPECT_NEAR(mpipemoe::getSavedFraction(endless, 2), 0.25, 1e-9);
  EXPECT_NEAR(mpipemoe::getSavedFraction(endless, 4), 0.5, 1e-9);
  EXPECT_NEAR(mpipemoe::getSavedFraction(endless, 8), 0.625, 1e-9);
}

/// Eq. 10 by hand: b H M = 64 and b M = 8. Computation 64/32 = 2 a pass, communication 8/8 = 1 a pass, a copy 8/4 = 2 a
/// pass, with everything together 8/4 = 2 for communication and 8/2 = 4 for copies.
TEST(MPipeMoeTest, Strategies) {
  mpipemoe::Model model = {2, 8, 4, 3};
  mpipemoe::Rates rates = {32, 8, 4, 1, 1, 0.5, 0.5};
  auto getSeconds = [&](mpipemoe::Strategy strategy) { return mpipemoe::getSeconds(model, 4, strategy, rates); };
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::None), 4 + 8);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S1), 20 + 20);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S2), 16 + 16);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S3), 4 + 10);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S4), 4 + 10);
  // Where communication takes longest: 8 / 1 a pass alone, 8 / 0.5 with all three.
  rates.communicationPerSecond = 1;
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::None), 16 + 16);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S1), 32 + 32);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S2), 32 + 48);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S3), 32 + 32);
  EXPECT_DOUBLE_EQ(getSeconds(mpipemoe::Strategy::S4), 16 + 24);
  // And beside computation only.
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

/// Eq. 1, 2, 7, 11 on collectives that take their elements' time.
TEST(ParmTest, Schedules) {
  EXPECT_DOUBLE_EQ(kLayer.getCapacity(), 8);
  EXPECT_DOUBLE_EQ(kLayer.getDispatched(), 256);
  EXPECT_DOUBLE_EQ(kLayer.getSplit(), 128);
  auto scaled = [](double factor) { return [factor](double elements) { return factor * elements; }; };
  EXPECT_DOUBLE_EQ(parm::getBaselineSeconds(kLayer, scaled(1), scaled(10), scaled(100)), 256 * (1 + 20 + 100));
  EXPECT_DOUBLE_EQ(parm::getSecondsWithoutMp(kLayer, scaled(1)), 512);
  EXPECT_DOUBLE_EQ(parm::getS1Seconds(kLayer, parm::Seconds(scaled(1)), scaled(10)), 2 * 128 + 640);
  double s2 = parm::getS2Seconds(kLayer, scaled(1), [](double a, double b) { return std::max(a, 10 * b); });
  EXPECT_DOUBLE_EQ(s2, 128 + 1280);
}

/// Eq. 12 to 14, and the choice between them; S1 where they are equal.
TEST(ParmTest, Choice) {
  parm::AlphaBeta allToAll = {1, 0.5}, allGather = {3, 1};
  EXPECT_DOUBLE_EQ(parm::getS1Seconds(kLayer, allToAll, allGather), 2 * (1 + 64) + 3 + 64);
  EXPECT_DOUBLE_EQ(parm::getS2Seconds(kLayer, allToAll, parm::AlphaBeta{4, 1}), (1 + 64) + (4 + 128));
  EXPECT_EQ(parm::chooseSchedule(kLayer, allToAll, allGather, {4, 1}), parm::Schedule::S1);
  EXPECT_EQ(parm::chooseSchedule(kLayer, allToAll, allGather, {3.5, 1}), parm::Schedule::S2);
}

/// Bandwidth only and nothing overlapped: S1 beats S2 exactly when k f > 1.
TEST(ParmTest, WithoutOverlap) {
  for (double factor : {0.25, 0.5, 0.75, 1.0}) {
    parm::Layer layer = kLayer;
    layer.capacityFactor = factor;
    parm::Seconds seconds = [](double elements) { return elements; };
    double s1 = parm::getS1Seconds(layer, seconds, seconds);
    double s2 = parm::getS2Seconds(layer, seconds, [](double a, double b) { return a + b; });
    EXPECT_EQ(s1 < s2, layer.topK * factor > 1) << factor;
  }
}

} // namespace
