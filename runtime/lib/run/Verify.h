//===- Verify.h - comparing a plan's results with its reference's ---------===//
//
// A plan adds in another order than its reference, so that their results differ by rounding. How much that may be is
// measured, not guessed: both are run again with every value that a kernel computes moved by up to one unit in the last
// place, at random (Monte Carlo arithmetic). What results then move by, a few times over, is what rounding explains.
//
// Near ties in routing are decided by rounding too. So the reference and all further runs choose the experts that the
// plan chose; that the reference would have chosen alike, but for near ties, is checked apart.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_VERIFY_H
#define MOERT_RUN_VERIFY_H

#include "run/Departure.h"

namespace moert::run {

struct Comparison {
  std::string name;
  double relativeError = 0; ///< NaN where either side has one
  double bound = 0;         ///< the largest relative error that rounding explains
  bool ok() const { return relativeError <= bound; }
  /// Little is tested then: rounding may change a tenth of the result, or all of it.
  bool isRounding() const { return bound >= 0.1; }
};

struct Verification {
  std::string dtype; ///< in which the plan computed
  std::vector<Comparison> values;
  int64_t draws = 0;       ///< of inputs: 1, or 3 in exact arithmetic
  int64_t roundedRuns = 0; ///< runs that measured rounding; 0 where results are close enough without
  int64_t tokens = 0;      ///< whose experts were compared
  int64_t nearTies = 0;    ///< of these, those for which rounding chose other experts
  /// What failed, a line each.
  std::vector<std::string> failures;
  /// In exact arithmetic, where results differ: where they begin to, if that is found.
  std::optional<Departure> departure = {};

  bool ok() const { return failures.empty(); }
  /// Of the results that are not rounding, and of those that failed.
  double maxError() const;
};

/// ||a - b|| / ||b||; where b is 0, ||a - b|| / ||a||; 0 for equal ones.
double relativeError(const Tensor &a, const Tensor &b);

/// By result, how far two runs lie apart: the 2-norm of the difference.
using Distances = std::map<std::string, double>;
Distances distancesOf(const RunResult &a, const RunResult &b);

/// A plan can be verified where its ranks and its reference know the same arguments and results.
Status checkComparable(const Metadata &metadata);

/// Notes inputs that hold NaN or Inf.
void checkInputs(const Tensors &inputs, Verification &verification);

/// The results of a plan against those of its reference. Replicas that lie apart count as an error.
class Comparisons {
public:
  /// A value is stored, and computed, in its own type or in `dtype` where that is coarser and it is no integer: f32
  /// states are made of bf16 gradients. With `tf32` f32 counts as tf32.
  Comparisons(const RunResult &plan, const RunResult &reference, int32_t dtype, bool tf32);

  /// That rounding moves results by these distances.
  void addNoise(const Distances &distances);
  /// Whether rounding explains all differences, and whether further noise may still do so: not where there is NaN.
  bool isExplained() const;
  bool isFinite() const { return finite; }
  /// Adds all values, and a failure for each that is NaN or Inf on either side, or further apart than rounding
  /// explains.
  void report(Verification &verification) const;

private:
  struct Item {
    double error, replicas, scale, rounding, noise = 0;
    double bound() const;
  };

  Comparison compare(const std::string &name, const Item &item) const;

  const RunResult &plan;
  const RunResult &reference;
  std::map<std::string, Item> items;
  bool finite = true;
};

/// Runs the reference on the plan's `inputs` and compares the plan's `result` with its. `routing` kept or was told what
/// the plan chose; `log` may be null.
Status verifyAgainstReference(const Plan &plan, const Options &options, const Tensors &inputs, Routing &routing,
                              std::ostream *log, const RunResult &result, Verification &verification);

/// Notes results whose replicas lie apart by more than rounding in the plan's type: the check without a reference.
void checkReplicas(const Metadata &metadata, bool tf32, const RunResult &plan, Verification &verification);

} // namespace moert::run

#endif // MOERT_RUN_VERIFY_H
