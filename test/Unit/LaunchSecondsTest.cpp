//===- LaunchSecondsTest.cpp - times of launches, computed by hand --------===//
#include "ToyCluster.h"

#include <cmath>

using namespace mlir::moe;

namespace {

/// Cost of a launch, and the launch.
struct Launch {
  OpCost cost;
  std::vector<int64_t> rows, params;
  std::string kernel = "kernel", dtype = "f32";
  Work get() const { return {kernel, params, dtype, &cost, rows}; }
};

Launch makeProduct(int64_t groups, int64_t rows, int64_t columns, int64_t depth) {
  Launch launch;
  launch.cost.resource = Resource::Matrix;
  launch.cost.gemm = {groups, rows, columns, depth};
  return launch;
}

Launch makeCopy(Resource resource, int64_t bytes) {
  Launch launch;
  launch.cost.resource = resource;
  launch.cost.bytesRead = launch.cost.bytesWritten = bytes / 2;
  return launch;
}

/// 1000 FLOP/s, half of them at 2 rows, with 4 columns and depth 4.
ClusterProfile makeCurve() {
  ClusterProfile profile = makeToyDevices(1, 1);
  profile.memoryBytesPerSecond = 1e9;
  profile.rates = {{"f32", 1000, {{2, 8}, {4}, {4}, {0.5, 1}}, {}}, {"bf16", 4000, {{1}, {1}, {1}, {1}}, {}}};
  return profile;
}

double getSeconds(const ClusterProfile &profile, const Launch &launch) {
  return getValue(makeModel(profile, CostForm::ClosedForm)->getSeconds(launch.get()));
}

std::string getLaunchError(const ClusterProfile &profile, const Launch &launch) {
  return getError(makeModel(profile, CostForm::ClosedForm)->getSeconds(launch.get()));
}

/// At a point of the curve a product takes its FLOPs over peak times efficiency. Groups follow each other.
TEST(LaunchSecondsTest, ProductOnTheCurve) {
  EXPECT_DOUBLE_EQ(getSeconds(makeCurve(), makeProduct(1, 2, 4, 4)), 64 / 500.0);
  EXPECT_DOUBLE_EQ(getSeconds(makeCurve(), makeProduct(1, 8, 4, 4)), 256 / 1000.0);
  EXPECT_DOUBLE_EQ(getSeconds(makeCurve(), makeProduct(3, 8, 4, 4)), 768 / 1000.0);
}

/// Between points the logarithm of the efficiency is linear in that of the size: 4 rows are in the middle between 2 and
/// 8.
TEST(LaunchSecondsTest, ProductBetweenPoints) {
  EXPECT_DOUBLE_EQ(getSeconds(makeCurve(), makeProduct(1, 4, 4, 4)), 128 / (1000 * std::sqrt(0.5)));
}

/// The same holds in three dimensions at once: the middle of a cube whose corners are 1 and 1/4 is 1/2.
TEST(LaunchSecondsTest, ProductInsideACube) {
  ClusterProfile profile = makeCurve();
  profile.rates[0].efficiency = {{2, 8}, {2, 8}, {2, 8}, {1, 0.25, 0.25, 1, 0.25, 1, 1, 0.25}};
  EXPECT_DOUBLE_EQ(getSeconds(profile, makeProduct(1, 4, 4, 4)), 128 / 500.0);
}

/// The index order is rows, columns, depth, the last fastest.
TEST(LaunchSecondsTest, CurveOrder) {
  ClusterProfile profile = makeCurve();
  profile.rates[0].efficiency = {{1, 2}, {1, 2}, {1, 2}, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}};
  EXPECT_DOUBLE_EQ(getSeconds(profile, makeProduct(1, 1, 1, 2)), 4 / 200.0);
  EXPECT_DOUBLE_EQ(getSeconds(profile, makeProduct(1, 1, 2, 1)), 4 / 300.0);
  EXPECT_DOUBLE_EQ(getSeconds(profile, makeProduct(1, 2, 1, 1)), 4 / 500.0);
}

/// Fewer rows than the first point take the same time. Fewer columns and a smaller depth take time in proportion.
TEST(LaunchSecondsTest, ProductBelowTheCurve) {
  double first = getSeconds(makeCurve(), makeProduct(1, 2, 4, 4));
  EXPECT_DOUBLE_EQ(getSeconds(makeCurve(), makeProduct(1, 1, 4, 4)), first);
  EXPECT_DOUBLE_EQ(getSeconds(makeCurve(), makeProduct(1, 2, 2, 4)), first / 2);
  EXPECT_DOUBLE_EQ(getSeconds(makeCurve(), makeProduct(1, 1, 1, 1)), first / 16);
}

/// Above the curve the last efficiency holds.
TEST(LaunchSecondsTest, ProductAboveTheCurve) {
  EXPECT_DOUBLE_EQ(getSeconds(makeCurve(), makeProduct(1, 16, 8, 4)), 1024 / 1000.0);
}

/// The last special curve that fits the call's kernel, parameters and columns holds.
TEST(LaunchSecondsTest, SpecialCurves) {
  ClusterProfile profile = makeCurve();
  auto add = [&](std::vector<KernelCalls> calls, int64_t columnsMultiple, double efficiency) {
    profile.rates[0].special.push_back({std::move(calls), columnsMultiple, {{1}, {1}, {1}, {efficiency}}});
  };
  add({}, 8, 0.8);
  add({{"kernel", {7}}, {"other", {}}}, 1, 0.25);
  Launch launch = makeProduct(1, 8, 4, 4);
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 256 / 1000.0);
  launch.cost.gemm.columns = 16;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 1024 / 800.0);
  launch.params = {7, 9};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 1024 / 250.0);
  launch.params = {8};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 1024 / 800.0);
  launch.kernel = "other";
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 1024 / 250.0);
}

/// A curve of ragged products holds only for those, even if an earlier curve names the same calls.
TEST(LaunchSecondsTest, RaggedCurves) {
  ClusterProfile profile = makeCurve();
  const EfficiencyCurve half{{1}, {1}, {1}, {0.5}}, quarter{{1}, {1}, {1}, {0.25}};
  profile.rates[0].special = {{{{"kernel", {}}}, 1, half}, {{{"kernel", {}}}, 1, quarter, true}};
  Launch launch = makeProduct(2, 8, 4, 4);
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 512 / 500.0);
  launch.cost.raggedRows = 16;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 512 / 250.0);
  launch.rows = {10, 6};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 512 / 250.0);
}

/// A curve with groups describes whole launches: experts that have rows, each with its own number.
TEST(LaunchSecondsTest, RaggedCurvesWithGroups) {
  ClusterProfile profile = makeCurve();
  profile.memoryBytesPerSecond = 1e-3;
  const EfficiencyCurve byGroups{{1}, {4}, {4}, {0.125, 0.5}, {1, 4}};
  profile.rates[0].special = {{{{"kernel", {}}}, 1, byGroups, true}};
  Launch launch = makeProduct(4, 4, 4, 4);
  launch.cost.raggedRows = 16;
  launch.rows = {10, 2, 3, 1};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 512 / 500.0);
  launch.rows = {16, 0, 0, 0};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 512 / 125.0);
  // The rows of a weight gradient are its depth, and also the curve's rows.
  launch.cost.gemm = {4, 4, 4, 4};
  launch.cost.raggedDepth = true;
  launch.rows = {10, 2, 3, 1};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 512 / 500.0);
}

/// A curve of grouped products holds for launches of several products, by their number. The curve includes the time of
/// bytes.
TEST(LaunchSecondsTest, GroupedCurves) {
  ClusterProfile profile = makeCurve();
  profile.memoryBytesPerSecond = 1e-3;
  profile.rates[0].grouped = {{1, 4}, {4}, {8}, {0.1, 0.4, 0.2, 0.8}, {2, 8}};
  Launch launch = makeProduct(2, 4, 4, 8);
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 2 * 256 / 200.0);
  launch.cost.gemm.groups = 8;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 8 * 256 / 800.0);
  // 4 is the middle between 2 and 8, in logarithms.
  launch.cost.gemm.groups = 4;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 4 * 256 / 400.0);
  // Two experts of four have rows.
  launch.cost.gemm = {1, 5, 4, 8};
  launch.cost.raggedRows = 5;
  launch.rows = {0, 1, 0, 4};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 64 / 100.0 + 256 / 200.0);
}

/// The rows of a weight gradient's experts are its depth, and the curve's rows.
TEST(LaunchSecondsTest, GroupedWeightGradient) {
  ClusterProfile profile = makeCurve();
  profile.rates[0].grouped = {{1, 4}, {4}, {8}, {0.1, 0.2}, {1}};
  Launch launch = makeProduct(2, 8, 4, 2);
  launch.cost.raggedDepth = true;
  launch.cost.raggedRows = 5;
  launch.rows = {1, 4};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 64 / 100.0 + 256 / 200.0);
  EXPECT_FALSE(makeModel(profile, CostForm::ClosedForm)->getConfidence(launch.get()).isExtrapolated);
}

/// Reads and writes besides the three matrices take time if memory limits the product. Here 320 bytes are its own, and
/// computing takes 256 ms.
TEST(LaunchSecondsTest, BytesBesideTheMatrices) {
  ClusterProfile profile = makeCurve();
  profile.memoryBytesPerSecond = 1000;
  Launch launch = makeProduct(1, 8, 4, 4);
  launch.cost.bytesRead = 192 + 64;
  launch.cost.bytesWritten = 64;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 0.32);
  launch.cost.bytesRead += 160;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 0.48);
  profile.memoryBytesPerSecond = 4000;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 0.256);
  // If the measured curve moves bytes faster than the profile's memory, its rate also holds for the other bytes.
  profile.rates[0].grouped = {{8}, {4}, {4}, {1}, {2}};
  profile.memoryBytesPerSecond = 1000;
  launch.cost.gemm.groups = 2;
  launch.cost.bytesRead = 2 * (192 + 64);
  launch.cost.bytesWritten = 2 * 64;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 0.512);
  launch.cost.bytesWritten += 320;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 0.512 * 1.5);
}

/// A weight gradient has the same results for any number of rows: 100 of 400 here, of 8 elements each.
TEST(LaunchSecondsTest, WiderResultsOfExperts) {
  ClusterProfile profile = makeCurve();
  profile.rates[1].grouped = {{1}, {4}, {4}, {1}, {2}};
  profile.memoryBytesPerSecond = 1000;
  Launch launch = makeProduct(2, 4, 4, 200);
  launch.dtype = "bf16";
  launch.cost.raggedDepth = true;
  launch.cost.raggedRows = 400;
  // Each element of the rows has two bytes, and each result, read and written, four.
  launch.cost.bytesRead = 2 * 400 * 8 + 4 * 32;
  launch.cost.bytesWritten = 4 * 32;
  launch.rows = {50, 50};
  // The curve moves 1664 bytes in 0.8 s, faster than the profile's memory. There are 192 more bytes.
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 0.8 * (1664 + 192) / 1664);
}

/// Attention takes its FLOPs at the rate for its length and heads. Rates of other head sizes are interpolated.
TEST(LaunchSecondsTest, Attention) {
  ClusterProfile profile = makeCurve();
  profile.attention = {{"f32", 4, 2, {1, 8}, {2}, {0.1, 0.2}, 0.05}, {"f32", 16, 2, {1, 8}, {2}, {0.4, 0.8}, 0.07}};
  Launch launch = makeProduct(2, 8, 4, 8);
  launch.cost.attention = {4, 2};
  double flops = 2 * 2 * 8 * 4 * 8;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), flops / 200);
  launch.cost.attention = {16, 2};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), flops / 800);
  launch.cost.attention = {8, 2};
  EXPECT_NEAR(getSeconds(profile, launch), flops / 400, 1e-12);
  auto model = makeModel(profile, CostForm::ClosedForm);
  EXPECT_EQ(model->getConfidence(launch.get()).relativeError, 0.07);
  EXPECT_FALSE(model->getConfidence(launch.get()).isExtrapolated);
  launch.cost.attention = {32, 2};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), flops / 800);
  EXPECT_TRUE(model->getConfidence(launch.get()).isExtrapolated);
  // Without a curve for gradients, they are priced as other products.
  launch.cost.attention = {4, 5};
  launch.cost.gemm.depth = 4;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 2 * 256 / 1000.0);
}

/// A part of a long sequence has the efficiency of as many rows in heads of the curve's longest length: 4 heads of 8
/// rows that see 16 keys each are one head of 32 rows, and count as 4 heads of 8.
TEST(LaunchSecondsTest, AttentionOfLongSequences) {
  ClusterProfile profile = makeCurve();
  profile.attention = {{"f32", 4, 2, {1, 8}, {1, 4}, {0.1, 0.1, 0.2, 0.4}, 0.05}};
  Launch launch = makeProduct(4, 8, 16, 8);
  launch.cost.attention = {4, 2};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 2 * 4 * 8 * 16 * 8 / 400.0);
  auto model = makeModel(profile, CostForm::ClosedForm);
  EXPECT_TRUE(model->getConfidence(launch.get()).isExtrapolated);
}

/// Sizes outside the grid are extrapolated. Inside, the error is that of the curve.
TEST(LaunchSecondsTest, ConfidenceOfProducts) {
  ClusterProfile profile = makeCurve();
  profile.rates[0].efficiency.relativeError = 0.1;
  auto model = makeModel(profile, CostForm::ClosedForm);
  Confidence inside = model->getConfidence(makeProduct(1, 4, 4, 4).get());
  EXPECT_EQ(inside.relativeError, 0.1);
  EXPECT_FALSE(inside.isExtrapolated);
  EXPECT_TRUE(model->getConfidence(makeProduct(1, 16, 4, 4).get()).isExtrapolated);
  EXPECT_TRUE(model->getConfidence(makeProduct(1, 4, 4, 2).get()).isExtrapolated);
}

/// A product whose reads and writes take longer than its computation takes their time: (2*4 + 4*4 + 2*4) * 4.
TEST(LaunchSecondsTest, ProductBoundByMemory) {
  ClusterProfile profile = makeCurve();
  profile.memoryBytesPerSecond = 16;
  EXPECT_DOUBLE_EQ(getSeconds(profile, makeProduct(1, 2, 4, 4)), 128 / 16.0);
  Launch half = makeProduct(1, 2, 4, 4);
  half.dtype = "bf16";
  EXPECT_DOUBLE_EQ(getSeconds(profile, half), 64 / 16.0);
}

/// A ragged product counts each expert by its rows, or its depth. An empty expert costs nothing.
TEST(LaunchSecondsTest, RaggedProduct) {
  Launch launch = makeProduct(3, 100, 4, 4);
  launch.rows = {2, 0, 8};
  EXPECT_DOUBLE_EQ(getSeconds(makeCurve(), launch), 0.128 + 0.256);
  launch = makeProduct(3, 8, 4, 100);
  launch.cost.raggedDepth = true;
  launch.rows = {2, 0, 8};
  EXPECT_DOUBLE_EQ(getSeconds(makeCurve(), launch), 0.128 + 0.512);
}

/// A dtype without a rate is refused. The error lists those with one.
TEST(LaunchSecondsTest, UnknownDtype) {
  Launch launch = makeProduct(1, 2, 4, 4);
  launch.dtype = "f64";
  EXPECT_EQ(getLaunchError(makeCurve(), launch), "cluster 'toy' has no rate for dtype 'f64'; it has f32, bf16");
}

/// Without a measurement a kernel streams its bytes. A ragged kernel streams those of the used rows.
TEST(LaunchSecondsTest, MemoryStreams) {
  ClusterProfile profile = makeToyDevices(1, 1);
  Launch launch = makeCopy(Resource::Memory, 400);
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 4);
  launch.cost.raggedRows = 40;
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 4);
  launch.rows = {4, 6};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 1);
}

/// The fitting measurement with the most parameters counts, then the one for the dtype.
TEST(LaunchSecondsTest, MeasuredKernel) {
  ClusterProfile profile = makeToyDevices(1, 1);
  auto add = [&](llvm::StringRef kernel, llvm::StringRef dtype, std::vector<int64_t> params, double latency) {
    KernelRate &rate = profile.kernels.emplace_back();
    rate.kernel = kernel.str();
    rate.dtype = dtype.str();
    rate.params = std::move(params);
    rate.latency = latency;
    rate.bytesPerSecond = 100;
  };
  add("kernel", "f32", {}, 1);
  add("kernel", "", {}, 2);
  add("kernel", "", {7}, 3);
  add("other", "", {7, 8}, 4);
  Launch launch = makeCopy(Resource::Memory, 400);
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 1 + 4);
  launch.dtype = "f64";
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 2 + 4);
  launch.params = {7, 8};
  EXPECT_DOUBLE_EQ(getSeconds(profile, launch), 3 + 4);
}

/// No kernel is shorter than the profile's minimum, except a launch without a kernel.
TEST(LaunchSecondsTest, LeastTime) {
  ClusterProfile profile = makeToyDevices(1, 1);
  profile.kernelSeconds = 0.5;
  EXPECT_DOUBLE_EQ(getSeconds(profile, makeCopy(Resource::Memory, 4)), 0.5);
  EXPECT_DOUBLE_EQ(getSeconds(profile, makeCopy(Resource::None, 4)), 0);
}

/// Copies to the host use its link, which a profile may lack.
TEST(LaunchSecondsTest, HostLink) {
  ClusterProfile profile = makeToyDevices(1, 1);
  EXPECT_EQ(getLaunchError(profile, makeCopy(Resource::HostLink, 100)),
            "cluster 'toy' has no 'device.host_link', which 'kernel' needs");
  profile.hostBytesPerSecond = 50;
  profile.hostLatency = 1;
  EXPECT_DOUBLE_EQ(getSeconds(profile, makeCopy(Resource::HostLink, 100)), 2);
}

/// An exchange has no launch time of its own.
TEST(LaunchSecondsTest, ExchangeIsNoLaunch) {
  EXPECT_EQ(getLaunchError(makeToyDevices(1, 1), makeCopy(Resource::Network, 100)),
            "expected a kernel but got the exchange 'kernel', whose time depends on its group");
}

} // namespace
