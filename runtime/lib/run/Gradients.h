//===- Gradients.h - gradients against difference quotients ----------------===//
//
// A plan and its reference are made by the same differentiation, so comparing them does not show a wrong rule. The
// forward alone does: its loss must change along a direction as the gradients predict.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_GRADIENTS_H
#define MOERT_RUN_GRADIENTS_H

#include "run/Verify.h"

namespace moert::run {

/// Runs a plan a few times more with its arguments moved along random directions, and compares the changes of its loss
/// with its gradients. The plan has been run on `inputs` in f64 with `result`. The loss is the sum of all results of
/// that role, and of each result with a cotangent times this cotangent. All runs choose the experts that `routing`
/// kept. If the gradients are wrong together, each one is tried alone. Fails if the plan has no gradients among its
/// results.
Status checkGradients(const Plan &plan, const Options &options, const Tensors &inputs, const Routing &routing,
                      const RunResult &result, Verification &verification);

} // namespace moert::run

#endif // MOERT_RUN_GRADIENTS_H
