//===- Anchor.h - a profile that agrees with measured steps -----*- C++ -*-===//
//
// A user's own steps say what neither a profile nor the description of a framework knows: the speed of the hosts, the
// framework's kernels at the clock of long runs, and the load of the network. At most three factors on the times of a
// profile are fitted to such steps, and change the profile as FrameworkProfile::apply() does.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_ANCHOR_H
#define MOE_COST_ANCHOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <array>
#include <vector>

namespace mlir::moe {
struct ClusterProfile;

/// A factor on times, and its bounds (docs/Clusters.md, "Anchored in your own run").
struct AnchorFactor {
  llvm::StringLiteral name;
  double least, most;
};
/// On the host's times of launches, the times of kernels, and the times of exchanges.
inline constexpr std::array<AnchorFactor, 3> kAnchorFactors = {
    {{"host", 0.5, 2}, {"kernels", 0.9, 2}, {"network", 0.9, 3}}};

/// Values of kAnchorFactors.
using Anchor = std::array<double, kAnchorFactors.size()>;
inline constexpr Anchor kNoAnchor = {1, 1, 1};

/// Multiplies the times of `profile`. Products stay below the peak rate of the device.
void applyAnchor(const Anchor &anchor, ClusterProfile &profile);

struct AnchorFit {
  Anchor anchor = kNoAnchor;
  std::array<bool, kAnchorFactors.size()> isFitted{}; ///< the others stay 1
  std::vector<double> before, after;                  ///< predicted seconds of the measured steps

  /// Whether a fitted factor is on one of its bounds.
  bool isOnBound(size_t factor) const;
};

/// Predicts the seconds of all measured steps.
using AnchorPredictor = llvm::function_ref<llvm::Expected<std::vector<double>>(const Anchor &)>;

/// Fits factors within their bounds, so that the sum of the squares of ln(predicted / measured) is the least. It fits
/// no more factors than there are steps: those that change some step the most, and by at least 2% for a factor of 1.1.
/// Fails if `predict` does.
llvm::Expected<AnchorFit> fitAnchor(llvm::ArrayRef<double> measuredSeconds, AnchorPredictor predict);

/// Lets the range of predictions on `profile` rest on the fitted steps: it is as wide as the largest error that
/// remains, and at least as the error of measured pairs. It is unknown if there are no pairs, and no more steps than
/// factors.
void setAnchoredRange(llvm::ArrayRef<double> measuredSeconds, const AnchorFit &fit, ClusterProfile &profile);

} // namespace mlir::moe

#endif // MOE_COST_ANCHOR_H
