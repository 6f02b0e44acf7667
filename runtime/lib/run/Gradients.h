//===- Gradients.h - gradients against difference quotients ----------------===//
//
// A plan and its reference are made by the same differentiation, so that comparing them does not show a wrong rule. The
// forward alone does: its loss has to change along a direction as the gradients say.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_GRADIENTS_H
#define MOERT_RUN_GRADIENTS_H

#include "run/Verify.h"

namespace moert::run {

/// Runs a plan, which has been run on `inputs` in f64 with `result`, a few times more with its arguments moved along
/// random directions, and compares how its loss changes with its gradients. The loss is all results of that role, and
/// each result that has a cotangent times this. All runs choose the experts that `routing` kept. Where the gradients
/// are wrong in all, each one is tried alone. Fails where the plan has no gradients among its results.
Status checkGradients(const Plan &plan, const Options &options, const Tensors &inputs, const Routing &routing,
                      const RunResult &result, Verification &verification);

} // namespace moert::run

#endif // MOERT_RUN_GRADIENTS_H
