//===- Verify.h - comparing a plan's results with its reference's ---------===//
//
// A plan adds in another order than its reference, so their results differ by rounding. The allowed difference is
// measured, not guessed: both are run again with every value that a kernel computes moved at random by up to one unit
// in the last place (Monte Carlo arithmetic). Rounding explains a difference of up to a few times the change of results
// in these runs.
//
// Rounding also decides near ties in routing. So the reference and all further runs choose the experts that the plan
// chose. A separate check compares these with the reference's own choices, except for near ties. It also decides on
// which side of a jump the derivative of a ReLU or a clamp is taken. If rounding does not explain a difference, the
// reference takes the sides that the plan took, where rounding can move its own arguments across.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_VERIFY_H
#define MOERT_RUN_VERIFY_H

#include "run/Departure.h"

namespace moert::run {

struct Comparison {
  std::string name;
  /// Relative error ||a - b|| / ||b|| to the reference b, or ||a - b|| / ||a|| if b is 0; NaN if either side has NaN.
  double relativeError = 0;
  double bound = 0; ///< largest relative error that rounding explains
  bool ok() const { return relativeError <= bound; }
  /// Whether rounding may change a tenth of the result or more, so that little is tested.
  bool isRounding() const { return bound >= 0.1; }
};

struct Verification {
  std::string dtype; ///< type in which the plan computed
  std::vector<Comparison> values;
  int64_t draws = 0;         ///< number of draws of inputs: 1, or 3 in exact arithmetic
  int64_t roundedRuns = 0;   ///< number of runs that measured rounding; 0 if results are close enough without
  int64_t tokens = 0;        ///< number of tokens whose experts were compared
  int64_t nearTies = 0;      ///< number of these tokens for which rounding chose other experts
  int64_t nearJumps = 0;     ///< number of the reference's arguments that rounding can move across a jump
  int64_t crossed = 0;       ///< number of these that the plan had on the other side, which the reference then took
  bool searchesJumps = true; ///< whether all near jumps were searched for these; false: there are too many
  /// Texts of what failed.
  std::vector<std::string> failures;
  /// Place where exact results begin to differ, if it is found.
  std::optional<Departure> departure = {};

  bool ok() const { return failures.empty(); }
  /// Largest error of the results that are not rounding, and of those that failed.
  double maxError() const;
};

/// 2-norm of the difference of two runs, by result.
using Distances = std::map<std::string, double>;
Distances distancesOf(const RunResult &a, const RunResult &b);

/// Checks that the ranks and the reference have the same arguments and results.
Status checkComparable(const Metadata &metadata);

/// Adds a failure for each input with NaN or Inf.
void checkInputs(const Tensors &inputs, Verification &verification);

/// Compares the results of a plan with those of its reference. A difference between replicas counts as an error.
class Comparisons {
public:
  /// Takes the coarser of a value's own type and `dtype` for its rounding, unless it is an integer: f32 states are made
  /// of bf16 gradients. With `tf32`, f32 counts as tf32.
  Comparisons(const RunResult &plan, const RunResult &reference, int32_t dtype, bool tf32);

  /// Notes that rounding moves results by these distances.
  void addNoise(const Distances &distances);
  /// Whether rounding explains all differences.
  bool isExplained() const;
  /// Returns the differences that rounding explains, of the results that differ by more.
  Distances unexplained() const;
  bool isFinite() const { return finite; }
  /// Adds all values, and a failure for each that is NaN or Inf on either side, or whose difference rounding does not
  /// explain.
  void report(Verification &verification) const;

private:
  struct Item {
    double error, replicas, scale, rounding, noise = 0;
    double bound() const;
  };

  const RunResult &plan;
  const RunResult &reference;
  std::map<std::string, Item> items;
  bool finite = true;
};

/// Runs the reference on the plan's `inputs` and compares its results with `result`. `routing` kept or forced the
/// choices of the plan; `log` may be null.
Status verifyAgainstReference(const Plan &plan, const Options &options, const Tensors &inputs, Routing &routing,
                              std::ostream *log, const RunResult &result, Verification &verification);

/// Compares a plan's gradients with difference quotients. A plan and its reference are made by the same
/// differentiation, so comparing them does not show a wrong rule. `result` is the plan's f64 result on `inputs`. More
/// runs of the plan have arguments that are moved along random directions. The loss is the sum of all results with the
/// role of a loss, and of the products of other results and their cotangents. All runs choose the experts that
/// `routing` kept. If the check of all gradients together fails, each one is checked alone. Fails if the plan returns
/// no gradients.
Status checkGradients(const Plan &plan, const Options &options, const Tensors &inputs, const Routing &routing,
                      const RunResult &result, Verification &verification);

/// Adds a failure for each result whose replicas differ by more than rounding in the plan's type. This check needs no
/// reference.
void checkReplicas(const Metadata &metadata, bool tf32, const RunResult &plan, Verification &verification);

} // namespace moert::run

#endif // MOERT_RUN_VERIFY_H
