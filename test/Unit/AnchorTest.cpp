//===- AnchorTest.cpp - profiles that agree with measured steps -----------===//
#include "moe/Cost/Anchor.h"

#include "ToyCluster.h"

using namespace mlir::moe;

namespace {

/// Seconds of a step that the host, kernels, exchanges and other things take, one after the other.
struct ToyStep {
  double host, kernels, network, rest;

  double getSeconds(const Anchor &anchor) const {
    return host * anchor[0] + kernels * anchor[1] + network * anchor[2] + rest;
  }
};

std::vector<double> getSeconds(llvm::ArrayRef<ToyStep> steps, const Anchor &anchor) {
  std::vector<double> seconds;
  for (const ToyStep &step : steps)
    seconds.push_back(step.getSeconds(anchor));
  return seconds;
}

AnchorFit fit(llvm::ArrayRef<ToyStep> steps, llvm::ArrayRef<double> measured) {
  return llvm::cantFail(fitAnchor(measured, [&](const Anchor &anchor) -> llvm::Expected<std::vector<double>> {
    return getSeconds(steps, anchor);
  }));
}

/// Steps that known factors made have these factors, and no error remains.
TEST(Anchor, FindsKnownFactors) {
  const ToyStep steps[] = {{6, 3, 1, 0}, {1, 8, 1, 0}, {1, 2, 7, 0}};
  const Anchor known = {1.5, 1.2, 2};
  std::vector<double> measured = getSeconds(steps, known);
  AnchorFit found = fit(steps, measured);
  for (size_t factor = 0; factor < known.size(); ++factor) {
    EXPECT_TRUE(found.isFitted[factor]);
    EXPECT_FALSE(found.isOnBound(factor));
    EXPECT_NEAR(found.anchor[factor], known[factor], 0.02);
  }
  for (size_t step = 0; step < measured.size(); ++step) {
    EXPECT_DOUBLE_EQ(found.before[step], 10);
    EXPECT_NEAR(found.after[step], measured[step], 0.01 * measured[step]);
  }
}

/// Factors may also be below 1, down to their bounds.
TEST(Anchor, FindsFasterParts) {
  const ToyStep steps[] = {{6, 4, 0, 0}, {1, 9, 0, 0}};
  AnchorFit found = fit(steps, getSeconds(steps, {0.7, 0.95, 1}));
  EXPECT_NEAR(found.anchor[0], 0.7, 0.02);
  EXPECT_NEAR(found.anchor[1], 0.95, 0.01);
  EXPECT_FALSE(found.isFitted[2]);
  EXPECT_EQ(found.anchor[2], 1);
  EXPECT_FALSE(found.isOnBound(0));
}

/// One step decides one factor: that of its largest part. Here it needs a factor of 3, and ends at the bound of 2.
TEST(Anchor, StopsAtBounds) {
  const ToyStep step[] = {{2, 7, 1, 0}};
  AnchorFit found = fit(step, {24.});
  EXPECT_TRUE(found.isFitted[1] && found.isOnBound(1));
  EXPECT_NEAR(found.anchor[1], 2, 1e-6);
  EXPECT_FALSE(found.isFitted[0] || found.isFitted[2]);
  EXPECT_FALSE(found.isOnBound(0));
  EXPECT_NEAR(found.after[0], 17, 1e-4);
  AnchorFit faster = fit(step, {1.});
  EXPECT_NEAR(faster.anchor[1], 0.9, 1e-6);
  EXPECT_TRUE(faster.isOnBound(1));
}

/// The part that is hidden at first and decides the step later: the longer of kernels and exchanges counts.
TEST(Anchor, FollowsTheLongerPart) {
  auto getLonger = [](const Anchor &anchor) { return std::max(4 * anchor[1], 5 * anchor[2]); };
  AnchorFit found =
      llvm::cantFail(fitAnchor({7.5, 6.}, [&](const Anchor &anchor) -> llvm::Expected<std::vector<double>> {
        return std::vector<double>{getLonger(anchor), 5 * anchor[1]};
      }));
  EXPECT_NEAR(found.anchor[1], 1.2, 0.01);
  EXPECT_NEAR(found.anchor[2], 1.5, 0.01);
}

/// A part of less than a fifth of each step says nothing.
TEST(Anchor, LeavesSmallParts) {
  const ToyStep steps[] = {{1, 9, 0, 0}, {1.5, 8.5, 0, 0}, {1, 9, 0, 0}};
  AnchorFit found = fit(steps, {11., 11., 11.});
  EXPECT_FALSE(found.isFitted[0] || found.isFitted[2]);
  EXPECT_NEAR(found.anchor[1], 10 / 9., 0.02);
}

TEST(Anchor, PassesErrorsOn) {
  auto failing = [](const Anchor &) -> llvm::Expected<std::vector<double>> {
    return llvm::createStringError("no plan");
  };
  EXPECT_EQ(llvm::toString(fitAnchor({1.}, failing).takeError()), "no plan");
}

double getKernel(const ClusterProfile &profile, const OpCost &cost, const char *kernel) {
  return llvm::cantFail(makeModel(profile, CostForm::ClosedForm)->getSeconds({kernel, {}, "f32", &cost, {}}));
}

/// Each factor scales its own times, and no other.
TEST(Anchor, ScalesTimes) {
  ClusterProfile profile = makeToyPair();
  profile.rates[0].efficiency.values = {0.5};
  profile.host.launchSeconds.fill(1e-3);
  profile.host.kernelSeconds["matmul"] = 2e-3;
  profile.host.countsSeconds = 3e-3;
  profile.kernels = {{"add", "", {}, 2, 50, std::nullopt, {}}};
  profile.tokenExchange.messageSeconds = 1e-6;
  ClusterProfile slow = profile;
  applyAnchor({2, 1.5, 3}, slow);
  EXPECT_DOUBLE_EQ(slow.tokenExchange.messageSeconds, 3e-6);
  EXPECT_DOUBLE_EQ(slow.host.getLaunchSeconds("other", Resource::Memory), 2e-3);
  EXPECT_DOUBLE_EQ(slow.host.getLaunchSeconds("matmul", Resource::Matrix), 4e-3);
  EXPECT_DOUBLE_EQ(*slow.host.countsSeconds, 6e-3);
  OpCost moves, product;
  moves.resource = Resource::Memory;
  moves.bytesRead = 1000;
  product.resource = Resource::Matrix;
  product.gemm = {.groups = 1, .rows = 100, .columns = 100, .depth = 100};
  // 2 s and 1000 bytes at 50 bytes/s; 1000 bytes at 100 bytes/s; 2e6 FLOPs at half of 1000 FLOP/s.
  EXPECT_DOUBLE_EQ(getKernel(profile, moves, "add"), 22);
  EXPECT_DOUBLE_EQ(getKernel(slow, moves, "add"), 33);
  EXPECT_DOUBLE_EQ(getKernel(slow, moves, "other"), 15);
  EXPECT_DOUBLE_EQ(getKernel(profile, product, "matmul"), 4000);
  EXPECT_DOUBLE_EQ(getKernel(slow, product, "matmul"), 6000);
  for (CostForm form : {CostForm::ClosedForm, CostForm::LinkLevel})
    for (const std::vector<int64_t> &ranks : {std::vector<int64_t>{0, 1}, std::vector<int64_t>{0, 2}}) {
      auto exchange = makeExchange(Collective::AllToAll, ranks, 64);
      EXPECT_NEAR(llvm::cantFail(makeModel(slow, form)->getSeconds(exchange)),
                  3 * llvm::cantFail(makeModel(profile, form)->getSeconds(exchange)), 1e-9);
    }
}

/// Products cannot be faster than the peak of the device.
TEST(Anchor, KeepsThePeak) {
  ClusterProfile profile = makeToyDevices(1, 1);
  profile.rates[0].efficiency.values = {0.95};
  applyAnchor({1, 0.9, 1}, profile);
  EXPECT_EQ(profile.rates[0].efficiency.values.front(), 1);
}

/// The range is that of measured pairs, or of the errors that remain if these are larger.
TEST(Anchor, SetsTheRange) {
  ClusterProfile profile = makeToyDevices(1, 1);
  profile.measured.pairError = 0.1;
  profile.measured.classes = {{.low = 0.5, .high = 0.6, .steps = 9, .sources = 2}};
  AnchorFit fit;
  fit.isFitted = {false, true, false};
  fit.after = {1};
  setAnchoredRange({1.05}, fit, profile);
  const StepClass *range = profile.measured.find({});
  ASSERT_TRUE(range);
  EXPECT_DOUBLE_EQ(range->high, std::exp(0.1));
  EXPECT_DOUBLE_EQ(range->low, std::exp(-0.1));
  EXPECT_TRUE(range->isOwn);
  EXPECT_EQ(range->steps, 1);
  setAnchoredRange({1.25}, fit, profile);
  EXPECT_DOUBLE_EQ(profile.measured.find({})->high, 1.25);
  // Without pairs a factor for each step leaves no error to go by.
  profile.measured.pairError = 0;
  setAnchoredRange({1.}, fit, profile);
  EXPECT_FALSE(profile.measured.find({}));
}

} // namespace
