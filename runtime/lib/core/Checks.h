//===- Checks.h - the checks of kernels' operands -------------------------===//
//
// Shapes, types, attributes, and which operands must be there: all that can be said without reading what operands hold,
// which may lie in a device's memory. Slots, counts, ids, labels and steps are the kernels' own to check. One function
// for each kernel of core/Kernels.h, with the same arguments. An error says what was expected: "'kernel': expected ..".
// All floating types pass: f32, f64, bf16 and f16. Beside 16-bit floats what is an accumulator (Checker.h) may be f32;
// so may biases, parameters beside 16-bit gradients, and an optimizer's state beside either.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_CHECKS_H
#define MOERT_CORE_CHECKS_H

#include "core/Kernels.h"

namespace moert {

// --- Dense compute -----------------------------------------------------------

Status checkMatmul(View a, View b, View c, bool transposeA, bool transposeB);
Status checkAdd(View a, View b, View out);
Status checkScale(View in, View out, double factor);
Status checkCopy(View in, View out);
Status checkRowScale(View rows, View factors, View out);
Status checkRowDot(View a, View b, View out);
Status checkSlice(View in, View out, int64_t dim, int64_t index, int64_t size);
Status checkDump(View in, View out, int64_t dim, int64_t blocks);
Status checkLocalReduce(View in, View out, int64_t dim, int64_t blocks);

// --- Experts -----------------------------------------------------------------

Status checkGroupedMatmul(View rows, View weights, View counts, View out, bool transposeWeights);
Status checkGroupedMatmulWgrad(View rows, View grads, View counts, View addend, View out);
Status checkBiasAdd(View rows, View bias, View counts, View out, double scale);
Status checkBiasGrad(View grads, View counts, View addend, View out, double scale);
Status checkActivation(View in, View counts, View out, int64_t kind);
Status checkActivationGrad(View in, View grad, View counts, View out, int64_t kind);

// --- Routing -----------------------------------------------------------------

Status checkRoute(View logits, View selectionBias, View scores, View experts, View slots, View weights, View counts,
                  View aux, const RouteOptions &options, View forced);
Status checkRouteGrad(View scores, View experts, View gradWeights, View gradAux, View gradLogits, int64_t score,
                      bool renormalize, int64_t groups, double routingScale);
Status checkDispatch(View tokens, View slots, View weights, View out);
Status checkCombine(View rows, View slots, View weights, View out);
Status checkSlotDot(View tokens, View rows, View slots, View out);
Status checkSliceCounts(View counts, View out, int64_t rows, int64_t index, int64_t size);
Status checkLocalSlots(View slots, View counts, View localSlots, View localCounts, const LocalOptions &options);

// --- Shadows -----------------------------------------------------------------

Status checkChooseShadows(View counts, View shadows, int64_t policy, moert_shadow_costs costs);
Status checkDivideChoices(View experts, View shadows, View slots, View counts, View shadowSlots, View shadowCounts,
                          int64_t chunks, int64_t chunkRows);

// --- Tokens and their rows ---------------------------------------------------

Status checkPositions(View out, int64_t period);
Status checkIndexAffine(View in, View out, int64_t factor, int64_t offset);
Status checkFill(View out, double value);
Status checkCast(View in, View out);
Status checkEmbedding(View ids, View table, View out, Part part);
Status checkEmbeddingGrad(View ids, View grads, View addend, View out, Part part);

// --- Norms -------------------------------------------------------------------

Status checkNorm(View x, View gamma, View beta, View out, int64_t kind, double eps);
Status checkNormGrad(View x, View gamma, View grads, View out, int64_t kind, double eps);
Status checkNormWgrad(View x, View grads, View addend, View out, int64_t kind, double eps);
Status checkInverseRoot(View in, View out, double scale, double eps);
Status checkInverseRootGrad(View root, View grads, View out, double scale);

// --- Heads and attention -----------------------------------------------------

Status checkRotary(View x, View out, const RotaryOptions &options);
Status checkAppendToHeads(View x, View shared, View out);
Status checkAppendToHeadsGrad(View grads, View gradX, View gradShared);
Status checkAttention(const AttentionInputs &inputs, View out, View lse, const AttentionOptions &options);
Status checkAttentionGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View gradQ, View gradK,
                          View gradV, const AttentionOptions &options);
Status checkAttentionBiasGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View out,
                              const AttentionOptions &options);
Status checkAttentionSinksGrad(View sinks, View lse, View attended, View grads, View out);
Status checkRelativeBias(View table, View out, bool bidirectional, int64_t maxDistance);
Status checkRelativeBiasGrad(View grads, View addend, View out, bool bidirectional, int64_t maxDistance);
Status checkDropout(View x, View step, View out, int64_t seed, Part rows, Part columns, double p);

// --- Losses ------------------------------------------------------------------

Status checkRowLogsumexp(View x, View out);
Status checkRowLogsumexpGrad(View x, View lse, View grads, View out);
Status checkPick(View x, View labels, View out, Part part);
Status checkPickGrad(View labels, View grads, View addend, View out, Part part);
Status checkLabelSum(View rows, View labels, View sum, View count);
Status checkLabelSumGrad(View labels, View grad, View out);
Status checkDivide(View a, View b, View out);

// --- Optimizers --------------------------------------------------------------

Status checkSumSquares(View in, View out);
Status checkClipFactor(View sumSquares, View out, double most);
Status checkSquareRoot(View in, View out);
Status checkSgd(View param, View grad, View velocity, View rate, View factor, View paramOut, View velocityOut,
                double momentum, double decay);
Status checkAdam(View param, View grad, View first, View second, View rate, View step, View factor, View paramOut,
                 View firstOut, View secondOut, const AdamOptions &options);

} // namespace moert

#endif // MOERT_CORE_CHECKS_H
