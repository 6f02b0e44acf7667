//===- Anchor.cpp - a profile that agrees with measured steps -------------===//
#include "moe/Cost/Anchor.h"

#include "moe/Cost/ClusterProfile.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir::moe;
using llvm::ArrayRef;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Changing a profile
//===----------------------------------------------------------------------===//

static void scaleHost(HostIssue &host, double times) {
  for (double &seconds : host.launchSeconds)
    seconds *= times;
  for (auto &kernel : host.kernelSeconds)
    kernel.second *= times;
  if (host.countsSeconds)
    *host.countsSeconds *= times;
}

/// Divides fractions of a peak rate, which stay at most 1.
static void divide(std::vector<double> &fractions, double times) {
  for (double &fraction : fractions)
    fraction = std::min(fraction / times, std::max(fraction, 1.0));
}

static void scaleKernels(ClusterProfile &profile, double times) {
  for (DeviceRate &rate : profile.rates) {
    divide(rate.efficiency.values, times);
    for (SpecialCurve &special : rate.special)
      divide(special.efficiency.values, times);
    if (rate.grouped)
      divide(rate.grouped->values, times);
  }
  for (AttentionCurve &curve : profile.attention)
    divide(curve.values, times);
  for (KernelRate &kernel : profile.kernels) {
    kernel.latency *= times;
    kernel.bytesPerSecond /= times;
  }
  for (NarrowProduct &product : profile.precision.products)
    product.fixedSeconds *= times;
  profile.memoryBytesPerSecond /= times;
  profile.kernelSeconds *= times;
}

static void scaleNetwork(ClusterProfile &profile, double times) {
  for (LinkPattern &link : profile.links) {
    link.bytesPerSecond /= times;
    link.backBytesPerSecond /= times;
    link.latency *= times;
    link.post *= times;
  }
  for (FabricLevel &level : profile.fabric) {
    level.bytesPerSecond /= times;
    level.latency *= times;
  }
  for (Protocol &protocol : profile.protocols)
    protocol.base *= times;
  for (CollectiveFit &fit : profile.collectives) {
    fit.alpha *= times;
    fit.perMember *= times;
    fit.beta *= times;
    for (MeasuredPoint &point : fit.points)
      point.seconds *= times;
  }
  profile.tokenExchange.fixedSeconds *= times;
  profile.tokenExchange.messageSeconds *= times;
}

void mlir::moe::applyAnchor(const Anchor &anchor, ClusterProfile &profile) {
  auto [host, kernels, network] = anchor;
  scaleHost(profile.host, host);
  scaleKernels(profile, kernels);
  scaleNetwork(profile, network);
}

//===----------------------------------------------------------------------===//
// Fitting
//===----------------------------------------------------------------------===//

namespace {
/// Logarithms of factors, or distances between such.
using Logs = std::array<double, kAnchorFactors.size()>;

/// A Gauss-Newton method in logarithms. The step is a maximum of sums of times, so that it is convex in the factors.
class Fitting {
public:
  Fitting(ArrayRef<double> measured, AnchorPredictor predict) : measured(measured), predict(predict) {}

  Expected<AnchorFit> run();

private:
  /// Logarithms of predicted / measured.
  Expected<std::vector<double>> getErrors(const Logs &logs);
  /// Computes how the logarithms of steps change with those of the fitted factors, on the side of the errors.
  llvm::Error findSlopes(const Logs &logs, ArrayRef<double> errors);
  void chooseFactors();
  /// The change of the factors with the least sum, by the slopes.
  Logs findChange(const Logs &logs, ArrayRef<double> errors) const;
  double getSum(const Logs &logs, ArrayRef<double> errors) const;
  /// Moves the factors so that the sum is less. False if they hardly move.
  Expected<bool> improve(Logs &logs, std::vector<double> &errors);

  /// Weight of ln(factor) squared. It decides what steps that are alike leave open, and moves others by less than 1%.
  static constexpr double kWeight = 1e-3;

  ArrayRef<double> measured;
  AnchorPredictor predict;
  std::array<std::vector<double>, kAnchorFactors.size()> slopes; ///< by factor and step
  AnchorFit fit;
};
} // namespace

Expected<std::vector<double>> Fitting::getErrors(const Logs &logs) {
  Anchor anchor;
  llvm::transform(logs, anchor.begin(), [](double log) { return std::exp(log); });
  Expected<std::vector<double>> seconds = predict(anchor);
  if (!seconds)
    return seconds.takeError();
  for (auto [predicted, its] : llvm::zip_equal(*seconds, measured))
    predicted = std::log(predicted / its);
  return std::move(*seconds);
}

llvm::Error Fitting::findSlopes(const Logs &logs, ArrayRef<double> errors) {
  const double span = std::log(1.1);
  bool isTooFast = std::accumulate(errors.begin(), errors.end(), 0.0) < 0;
  for (size_t factor = 0; factor < logs.size(); ++factor) {
    slopes[factor].assign(errors.size(), 0);
    if (!fit.isFitted[factor])
      continue;
    Logs moved = logs;
    moved[factor] += isTooFast ? span : -span;
    Expected<std::vector<double>> there = getErrors(moved);
    if (!there)
      return there.takeError();
    for (size_t step = 0; step < errors.size(); ++step)
      slopes[factor][step] = ((*there)[step] - errors[step]) / (moved[factor] - logs[factor]);
  }
  return llvm::Error::success();
}

void Fitting::chooseFactors() {
  // Change of a step, in logarithms, for one of a factor.
  constexpr double least = 0.2;
  auto getLargest = [&](size_t factor) { return *llvm::max_element(slopes[factor]); };
  llvm::SmallVector<size_t, 3> order = {0, 1, 2};
  llvm::stable_sort(order, [&](size_t a, size_t b) { return getLargest(a) > getLargest(b); });
  fit.isFitted.fill(false);
  for (size_t factor : ArrayRef<size_t>(order).take_front(measured.size()))
    fit.isFitted[factor] = getLargest(factor) >= least;
}

double Fitting::getSum(const Logs &logs, ArrayRef<double> errors) const {
  double sum = 0;
  for (double error : errors)
    sum += error * error;
  for (double log : logs)
    sum += kWeight * log * log;
  return sum;
}

Logs Fitting::findChange(const Logs &logs, ArrayRef<double> errors) const {
  constexpr int sweeps = 200;
  Logs change{};
  std::vector<double> left = errors.vec();
  for (int sweep = 0; sweep < sweeps; ++sweep)
    for (size_t factor = 0; factor < logs.size(); ++factor) {
      if (!fit.isFitted[factor])
        continue;
      double along = kWeight * (logs[factor] + change[factor]), square = kWeight;
      for (auto [slope, error] : llvm::zip_equal(slopes[factor], left)) {
        along += slope * error;
        square += slope * slope;
      }
      auto [name, least, most] = kAnchorFactors[factor];
      double next = std::clamp(logs[factor] + change[factor] - along / square, std::log(least), std::log(most));
      double moved = next - logs[factor] - change[factor];
      change[factor] += moved;
      for (auto [slope, error] : llvm::zip_equal(slopes[factor], left))
        error += slope * moved;
    }
  return change;
}

Expected<bool> Fitting::improve(Logs &logs, std::vector<double> &errors) {
  constexpr int halvings = 3;
  constexpr double close = 0.005;
  Logs change = findChange(logs, errors);
  for (int halving = 0; halving <= halvings; ++halving) {
    Logs next = logs;
    for (size_t factor = 0; factor < logs.size(); ++factor)
      next[factor] += change[factor] / (1 << halving);
    Expected<std::vector<double>> there = getErrors(next);
    if (!there)
      return there.takeError();
    if (getSum(next, *there) < getSum(logs, errors)) {
      logs = next;
      errors = std::move(*there);
      return llvm::any_of(change, [](double one) { return std::abs(one) > close; });
    }
  }
  return false;
}

Expected<AnchorFit> Fitting::run() {
  constexpr int rounds = 4;
  Logs logs{};
  Expected<std::vector<double>> errors = getErrors(logs);
  if (!errors)
    return errors.takeError();
  auto getSeconds = [&] {
    std::vector<double> seconds;
    for (auto [error, its] : llvm::zip_equal(*errors, measured))
      seconds.push_back(its * std::exp(error));
    return seconds;
  };
  fit.before = getSeconds();
  fit.isFitted.fill(true);
  bool mayImprove = true;
  for (int round = 0; round < rounds && mayImprove; ++round) {
    if (llvm::Error error = findSlopes(logs, *errors))
      return error;
    if (round == 0)
      chooseFactors();
    Expected<bool> improved = improve(logs, *errors);
    if (!improved)
      return improved.takeError();
    mayImprove = *improved;
  }
  fit.after = getSeconds();
  llvm::transform(logs, fit.anchor.begin(), [](double log) { return std::exp(log); });
  return std::move(fit);
}

Expected<AnchorFit> mlir::moe::fitAnchor(ArrayRef<double> measuredSeconds, AnchorPredictor predict) {
  return Fitting(measuredSeconds, predict).run();
}

bool AnchorFit::isOnBound(size_t factor) const {
  auto [name, least, most] = kAnchorFactors[factor];
  constexpr double rounding = 1e-6;
  return isFitted[factor] && (anchor[factor] <= least + rounding || anchor[factor] >= most - rounding);
}

void mlir::moe::setAnchoredRange(ArrayRef<double> measuredSeconds, const AnchorFit &fit, ClusterProfile &profile) {
  double error = profile.measured.pairError;
  for (auto [predicted, its] : llvm::zip_equal(fit.after, measuredSeconds))
    error = std::max(error, std::abs(std::log(its / predicted)));
  bool isKnown =
      profile.measured.pairError > 0 || measuredSeconds.size() > static_cast<size_t>(llvm::count(fit.isFitted, true));
  profile.measured.classes.clear();
  if (isKnown)
    profile.measured.classes.push_back({.low = std::exp(-error),
                                        .high = std::exp(error),
                                        .steps = static_cast<int64_t>(measuredSeconds.size()),
                                        .sources = 1,
                                        .isOwn = true});
}
