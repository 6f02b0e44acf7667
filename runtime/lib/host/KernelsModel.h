//===- KernelsModel.h - kernels of whole models and of optimizers ----------===//
//
// The sections "Whole models" and "Optimizers" of moert.h, by the conventions of Kernels.h. An id or label out of range
// is an error that names it and its place. What is summed over rows or heads, gradients and losses, is summed in double
// where it is f32.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_KERNELSMODEL_H
#define MOERT_HOST_KERNELSMODEL_H

#include "core/Kernels.h"

namespace moert::host {

// --- Tokens and their rows ---------------------------------------------------

Status positions(View out, int64_t period);
Status indexAffine(View in, View out, int64_t factor, int64_t offset);
Status fill(View out, double value);
/// bf16 and f16 too.
Status cast(View in, View out);
Status embedding(View ids, View table, View out, Part part);
Status embeddingGrad(View ids, View grads, View addend, View out, Part part);

// --- Norms -------------------------------------------------------------------

Status norm(View x, View gamma, View beta, View out, int64_t kind, double eps);
Status normGrad(View x, View gamma, View grads, View out, int64_t kind, double eps);
Status normWgrad(View x, View grads, View addend, View out, int64_t kind, double eps);
Status inverseRoot(View in, View out, double scale, double eps);
Status inverseRootGrad(View root, View grads, View out, double scale);

// --- Positions ---------------------------------------------------------------

Status rotary(View x, View out, const RotaryOptions &options);
Status relativeBias(View table, View out, bool bidirectional, int64_t maxDistance);
Status relativeBiasGrad(View grads, View addend, View out, bool bidirectional, int64_t maxDistance);

// --- Attention ---------------------------------------------------------------

Status appendToHeads(View x, View shared, View out);
Status appendToHeadsGrad(View grads, View gradX, View gradShared);
/// Memory besides is bounded by a block of queries.
Status attention(const AttentionInputs &inputs, View out, View lse, const AttentionOptions &options);
Status attentionGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View gradQ, View gradK,
                     View gradV, const AttentionOptions &options);
Status attentionBiasGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View out,
                         const AttentionOptions &options);
Status attentionSinksGrad(View sinks, View lse, View attended, View grads, View out);

// --- Dropout -----------------------------------------------------------------

Status dropout(View x, View step, View out, int64_t seed, Part rows, Part columns, double p);

// --- Losses ------------------------------------------------------------------

Status rowLogsumexp(View x, View out);
Status rowLogsumexpGrad(View x, View lse, View grads, View out);
Status pick(View x, View labels, View out, Part part);
Status pickGrad(View labels, View grads, View addend, View out, Part part);
Status labelSum(View rows, View labels, View sum, View count);
Status labelSumGrad(View labels, View grad, View out);
Status divide(View a, View b, View out);

// --- Optimizers --------------------------------------------------------------

Status sumSquares(View in, View out);
Status clipFactor(View sumSquares, View out, double most);
Status squareRoot(View in, View out);
Status sgd(View param, View grad, View velocity, View rate, View factor, View paramOut, View velocityOut,
           double momentum, double decay);
Status adam(View param, View grad, View first, View second, View rate, View step, View factor, View paramOut,
            View firstOut, View secondOut, const AdamOptions &options);

} // namespace moert::host

#endif // MOERT_HOST_KERNELSMODEL_H
