//===- Verify.h - comparing a plan's results with its reference's ---------===//
#ifndef MOERT_RUN_VERIFY_H
#define MOERT_RUN_VERIFY_H

#include "run/Runner.h"

namespace moert::run {

struct Comparison {
  std::string name;
  double relativeError = 0; ///< NaN where either side has one
  double tolerance = 0;
  bool ok() const { return relativeError <= tolerance; }
};

struct Verification {
  double tolerance = 0; ///< of the plan's dtype
  std::vector<Comparison> values;
  /// What failed, a line each.
  std::vector<std::string> failures;

  bool ok() const { return failures.empty(); }
  double maxError() const;
};

/// ||a - b|| / ||b||, where ||b|| counts as at least that of as many elements of `scale`; where that is 0, ||a - b|| /
/// ||a||; 0 for equal ones.
double relativeError(const Tensor &a, const Tensor &b, double scale = 0);

/// How far results of rounding alone may lie apart in a plan that computes in its dtype, or in tf32 for f32.
double planTolerance(const Metadata &metadata, bool tf32);

/// A plan can be verified where its ranks and its reference know the same arguments and results.
Status checkComparable(const Metadata &metadata);

/// Notes inputs that hold NaN or Inf.
void checkInputs(const Tensors &inputs, Verification &verification);

/// Compares all results of `program`, each on a scale of at least a thousandth of the largest of its role, and with the
/// tolerance of its dtype, or where that is wider and it is no integer, of verification.tolerance: f32 states are made
/// of bf16 gradients. Replicas that lie apart count as an error, NaN and Inf on either side as a failure.
void compareResults(const Program &program, const RunResult &plan, const RunResult &reference,
                    Verification &verification);

/// Runs the reference on the plan's `inputs` and compares the plan's `result` with its. `routing` and `log` may be
/// null.
Status verifyAgainstReference(const Plan &plan, const Options &options, const Tensors &inputs, Routing *routing,
                              std::ostream *log, const RunResult &result, Verification &verification);

/// Notes results whose replicas lie apart by more than rounding: the check without a reference.
void checkReplicas(const RunResult &plan, Verification &verification);

} // namespace moert::run

#endif // MOERT_RUN_VERIFY_H
