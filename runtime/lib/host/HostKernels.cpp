//===- HostKernels.cpp - the host's kernels as a device's ------------------===//

#include "host/HostKernels.h"
#include "host/Kernels.h"
#include "host/KernelsModel.h"

namespace moert::host {

Status HostKernels::matmul(View a, View b, View c, bool transposeA, bool transposeB) {
  return host::matmul(a, b, c, transposeA, transposeB);
}

Status HostKernels::add(View a, View b, View out) { return host::add(a, b, out); }

Status HostKernels::scale(View in, View out, double factor) { return host::scale(in, out, factor); }

Status HostKernels::copy(View in, View out) { return host::copy(in, out); }

Status HostKernels::rowScale(View rows, View factors, View out) { return host::rowScale(rows, factors, out); }

Status HostKernels::rowDot(View a, View b, View out) { return host::rowDot(a, b, out); }

Status HostKernels::slice(View in, View out, int64_t dim, int64_t index, int64_t size) {
  return host::slice(in, out, dim, index, size);
}

Status HostKernels::dump(View in, View out, int64_t dim, int64_t blocks) { return host::dump(in, out, dim, blocks); }

Status HostKernels::localReduce(View in, View out, int64_t dim, int64_t blocks) {
  return host::localReduce(in, out, dim, blocks);
}

Status HostKernels::groupedMatmul(View rows, View weights, View counts, View out, bool transposeWeights) {
  return host::groupedMatmul(rows, weights, counts, out, transposeWeights);
}

Status HostKernels::groupedMatmulWgrad(View rows, View grads, View counts, View addend, View out) {
  return host::groupedMatmulWgrad(rows, grads, counts, addend, out);
}

Status HostKernels::biasAdd(View rows, View bias, View counts, View out, double scale) {
  return host::biasAdd(rows, bias, counts, out, scale);
}

Status HostKernels::biasGrad(View grads, View counts, View addend, View out, double scale) {
  return host::biasGrad(grads, counts, addend, out, scale);
}

Status HostKernels::activation(View in, View counts, View out, int64_t kind) {
  return host::activation(in, counts, out, kind);
}

Status HostKernels::activationGrad(View in, View grad, View counts, View out, int64_t kind) {
  return host::activationGrad(in, grad, counts, out, kind);
}

Status HostKernels::route(View logits, View selectionBias, View scores, View experts, View slots, View weights,
                          View counts, View aux, const RouteOptions &options, View forced) {
  return host::route(logits, selectionBias, scores, experts, slots, weights, counts, aux, options, forced);
}

Status HostKernels::forcedChoices(RoutingPage &page, View experts, View &forced) {
  forced = experts;
  forced.data = page.forced.data();
  return {};
}

Status HostKernels::recordChoices(View experts, RoutingPage &page) {
  page.chosen.assign(experts.as<int32_t>(), experts.as<int32_t>() + experts.elements());
  return {};
}

Status HostKernels::routeGrad(View scores, View experts, View gradWeights, View gradAux, View gradLogits, int64_t score,
                              bool renormalize, int64_t groups, double routingScale) {
  return host::routeGrad(scores, experts, gradWeights, gradAux, gradLogits, score, renormalize, groups, routingScale);
}

Status HostKernels::dispatch(View tokens, View slots, View weights, View out) {
  return host::dispatch(tokens, slots, weights, out);
}

Status HostKernels::combine(View rows, View slots, View weights, View out) {
  return host::combine(rows, slots, weights, out);
}

Status HostKernels::slotDot(View tokens, View rows, View slots, View out) {
  return host::slotDot(tokens, rows, slots, out);
}

Status HostKernels::sliceCounts(View counts, View out, int64_t rows, int64_t index, int64_t size) {
  return host::sliceCounts(counts, out, rows, index, size);
}

Status HostKernels::localSlots(View slots, View counts, View localSlots, View localCounts,
                               const LocalOptions &options) {
  return host::localSlots(slots, counts, localSlots, localCounts, options);
}

Status HostKernels::chooseShadows(View counts, View shadows, int64_t policy, moert_shadow_costs costs) {
  return host::chooseShadows(counts, shadows, policy, costs);
}

Status HostKernels::divideChoices(View experts, View shadows, View slots, View counts, View shadowSlots,
                                  View shadowCounts, int64_t chunks, int64_t chunkRows) {
  return host::divideChoices(experts, shadows, slots, counts, shadowSlots, shadowCounts, chunks, chunkRows);
}

Status HostKernels::positions(View out, int64_t period) { return host::positions(out, period); }

Status HostKernels::indexAffine(View in, View out, int64_t factor, int64_t offset) {
  return host::indexAffine(in, out, factor, offset);
}

Status HostKernels::fill(View out, double value) { return host::fill(out, value); }

Status HostKernels::cast(View in, View out) { return host::cast(in, out); }

Status HostKernels::embedding(View ids, View table, View out, Part part) {
  return host::embedding(ids, table, out, part);
}

Status HostKernels::embeddingGrad(View ids, View grads, View addend, View out, Part part) {
  return host::embeddingGrad(ids, grads, addend, out, part);
}

Status HostKernels::norm(View x, View gamma, View beta, View out, int64_t kind, double eps) {
  return host::norm(x, gamma, beta, out, kind, eps);
}

Status HostKernels::normGrad(View x, View gamma, View grads, View out, int64_t kind, double eps) {
  return host::normGrad(x, gamma, grads, out, kind, eps);
}

Status HostKernels::normWgrad(View x, View grads, View addend, View out, int64_t kind, double eps) {
  return host::normWgrad(x, grads, addend, out, kind, eps);
}

Status HostKernels::inverseRoot(View in, View out, double scale, double eps) {
  return host::inverseRoot(in, out, scale, eps);
}

Status HostKernels::inverseRootGrad(View root, View grads, View out, double scale) {
  return host::inverseRootGrad(root, grads, out, scale);
}

Status HostKernels::rotary(View x, View out, const RotaryOptions &options) { return host::rotary(x, out, options); }

Status HostKernels::appendToHeads(View x, View shared, View out) { return host::appendToHeads(x, shared, out); }

Status HostKernels::appendToHeadsGrad(View grads, View gradX, View gradShared) {
  return host::appendToHeadsGrad(grads, gradX, gradShared);
}

Status HostKernels::attention(const AttentionInputs &inputs, View out, View lse, const AttentionOptions &options) {
  return host::attention(inputs, out, lse, options);
}

Status HostKernels::attentionGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View gradQ,
                                  View gradK, View gradV, const AttentionOptions &options) {
  return host::attentionGrad(inputs, attended, lse, grads, gradQ, gradK, gradV, options);
}

Status HostKernels::attentionBiasGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View out,
                                      const AttentionOptions &options) {
  return host::attentionBiasGrad(inputs, attended, lse, grads, out, options);
}

Status HostKernels::attentionSinksGrad(View sinks, View lse, View attended, View grads, View out) {
  return host::attentionSinksGrad(sinks, lse, attended, grads, out);
}

Status HostKernels::relativeBias(View table, View out, bool bidirectional, int64_t maxDistance) {
  return host::relativeBias(table, out, bidirectional, maxDistance);
}

Status HostKernels::relativeBiasGrad(View grads, View addend, View out, bool bidirectional, int64_t maxDistance) {
  return host::relativeBiasGrad(grads, addend, out, bidirectional, maxDistance);
}

Status HostKernels::dropout(View x, View step, View out, int64_t seed, Part rows, Part columns, double p) {
  return host::dropout(x, step, out, seed, rows, columns, p);
}

Status HostKernels::rowLogsumexp(View x, View out) { return host::rowLogsumexp(x, out); }

Status HostKernels::rowLogsumexpGrad(View x, View lse, View grads, View out) {
  return host::rowLogsumexpGrad(x, lse, grads, out);
}

Status HostKernels::pick(View x, View labels, View out, Part part) { return host::pick(x, labels, out, part); }

Status HostKernels::pickGrad(View labels, View grads, View addend, View out, Part part) {
  return host::pickGrad(labels, grads, addend, out, part);
}

Status HostKernels::labelSum(View rows, View labels, View sum, View count) {
  return host::labelSum(rows, labels, sum, count);
}

Status HostKernels::labelSumGrad(View labels, View grad, View out) { return host::labelSumGrad(labels, grad, out); }

Status HostKernels::divide(View a, View b, View out) { return host::divide(a, b, out); }

Status HostKernels::sumSquares(View in, View out) { return host::sumSquares(in, out); }

Status HostKernels::clipFactor(View sumSquares, View out, double most) {
  return host::clipFactor(sumSquares, out, most);
}

Status HostKernels::squareRoot(View in, View out) { return host::squareRoot(in, out); }

Status HostKernels::sgd(View param, View grad, View velocity, View rate, View factor, View paramOut, View velocityOut,
                        double momentum, double decay) {
  return host::sgd(param, grad, velocity, rate, factor, paramOut, velocityOut, momentum, decay);
}

Status HostKernels::adam(View param, View grad, View first, View second, View rate, View step, View factor,
                         View paramOut, View firstOut, View secondOut, const AdamOptions &options) {
  return host::adam(param, grad, first, second, rate, step, factor, paramOut, firstOut, secondOut, options);
}

} // namespace moert::host
