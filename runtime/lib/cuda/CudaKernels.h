//===- CudaKernels.h - the kernels of CUDA devices ------------------------===//
#ifndef MOERT_CUDA_CUDAKERNELS_H
#define MOERT_CUDA_CUDAKERNELS_H

#include "core/Kernels.h"
#include "cuda/Context.h"

namespace moert::cuda {

/// Enqueues kernels on a stream of the current device. It is made for one call, whose kind and op are the target's.
/// Sums over rows are made in a fixed order, so that runs give the same bits. A fault that only the data shows is noted
/// in the device's Faults instead of returned.
class CudaKernels final : public Kernels {
public:
  explicit CudaKernels(Target target) : target(target) {}

  Status matmul(View a, View b, View c, bool transposeA, bool transposeB) override;
  Status add(View a, View b, View out) override;
  Status scale(View in, View out, double factor) override;
  Status copy(View in, View out) override;
  Status rowScale(View rows, View factors, View out) override;
  Status rowDot(View a, View b, View out) override;
  Status slice(View in, View out, int64_t dim, int64_t index, int64_t size) override;
  Status dump(View in, View out, int64_t dim, int64_t blocks) override;
  Status localReduce(View in, View out, int64_t dim, int64_t blocks) override;
  Status groupedMatmul(View rows, View weights, View counts, View out, bool transposeWeights) override;
  Status groupedMatmulWgrad(View rows, View grads, View counts, View addend, View out) override;
  Status biasAdd(View rows, View bias, View counts, View out, double scale) override;
  Status biasGrad(View grads, View counts, View addend, View out, double scale) override;
  Status activation(View in, View counts, View out, int64_t kind) override;
  Status activationGrad(View in, View grad, View counts, View out, int64_t kind) override;
  Status route(View logits, View selectionBias, View scores, View experts, View slots, View weights, View counts,
               View aux, const RouteOptions &options, View forced) override;
  Status forcedChoices(RoutingPage &page, View experts, View &forced) override;
  Status recordChoices(View experts, RoutingPage &page) override;
  Status routeGrad(View scores, View experts, View gradWeights, View gradAux, View gradLogits, int64_t score,
                   bool renormalize, int64_t groups, double routingScale) override;
  Status dispatch(View tokens, View slots, View weights, View out) override;
  Status combine(View rows, View slots, View weights, View out) override;
  Status slotDot(View tokens, View rows, View slots, View out) override;
  Status sliceCounts(View counts, View out, int64_t rows, int64_t index, int64_t size) override;
  Status localSlots(View slots, View counts, View localSlots, View localCounts, const LocalOptions &options) override;
  Status chooseShadows(View counts, View shadows, int64_t policy, moert_shadow_costs costs) override;
  Status divideChoices(View experts, View shadows, View slots, View counts, View shadowSlots, View shadowCounts,
                       int64_t chunks, int64_t chunkRows) override;
  Status positions(View out, int64_t period) override;
  Status indexAffine(View in, View out, int64_t factor, int64_t offset) override;
  Status fill(View out, double value) override;
  Status cast(View in, View out) override;
  Status embedding(View ids, View table, View out, Part part) override;
  Status embeddingGrad(View ids, View grads, View addend, View out, Part part) override;
  Status norm(View x, View gamma, View beta, View out, int64_t kind, double eps) override;
  Status normGrad(View x, View gamma, View grads, View out, int64_t kind, double eps) override;
  Status normWgrad(View x, View grads, View addend, View out, int64_t kind, double eps) override;
  Status inverseRoot(View in, View out, double scale, double eps) override;
  Status inverseRootGrad(View root, View grads, View out, double scale) override;
  Status rotary(View x, View out, const RotaryOptions &options) override;
  Status appendToHeads(View x, View shared, View out) override;
  Status appendToHeadsGrad(View grads, View gradX, View gradShared) override;
  Status attention(const AttentionInputs &inputs, View out, View lse, const AttentionOptions &options) override;
  Status attentionGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View gradQ, View gradK,
                       View gradV, const AttentionOptions &options) override;
  Status attentionBiasGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View out,
                           const AttentionOptions &options) override;
  Status attentionSinksGrad(View sinks, View lse, View attended, View grads, View out) override;
  Status relativeBias(View table, View out, bool bidirectional, int64_t maxDistance) override;
  Status relativeBiasGrad(View grads, View addend, View out, bool bidirectional, int64_t maxDistance) override;
  Status dropout(View x, View step, View out, int64_t seed, Part rows, Part columns, double p) override;
  Status rowLogsumexp(View x, View out) override;
  Status rowLogsumexpGrad(View x, View lse, View grads, View out) override;
  Status pick(View x, View labels, View out, Part part) override;
  Status pickGrad(View labels, View grads, View addend, View out, Part part) override;
  Status labelSum(View rows, View labels, View sum, View count) override;
  Status labelSumGrad(View labels, View grad, View out) override;
  Status divide(View a, View b, View out) override;
  Status sumSquares(View in, View out) override;
  Status clipFactor(View sumSquares, View out, double most) override;
  Status squareRoot(View in, View out) override;
  Status sgd(View param, View grad, View velocity, View rate, View factor, View paramOut, View velocityOut,
             double momentum, double decay) override;
  Status adam(View param, View grad, View first, View second, View rate, View step, View factor, View paramOut,
              View firstOut, View secondOut, const AdamOptions &options) override;

private:
  Target target;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_CUDAKERNELS_H
