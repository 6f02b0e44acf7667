//===- AttentionCase.h - cases of attention for tests ---------------------===//
#ifndef MOERT_TEST_CUDA_ATTENTIONCASE_H
#define MOERT_TEST_CUDA_ATTENTIONCASE_H

#include "CudaKernelsTest.h"

namespace moert::cuda {

using Views = std::vector<View>;

/// Sizes and options of a case.
struct Case {
  AttentionOptions options;
  int64_t sequences = 1, width = 16, valueWidth = 16;
  bool hasBias = false, hasSinks = false;

  Case(int64_t queries, int64_t keys, int64_t heads, int64_t keyHeads) {
    options.qLength = queries;
    options.kLength = keys;
    options.heads = heads;
    options.kHeads = keyHeads;
    options.scale = 0.3;
    options.seed = 5;
  }
};

/// q, k, v, bias, sinks, step, out, lse, grads, gradients of q, k, v, bias and sinks.
enum Place { Q, K, V, Bias, Sinks, Step, Out, Lse, Grads, GradQ, GradK, GradV, GradBias, GradSinks };

inline AttentionInputs inputsOf(const Views &v) { return {v[Q], v[K], v[V], v[Bias], v[Sinks], v[Step]}; }

inline std::vector<Operand> operandsOf(const Case &c, int32_t dtype, int32_t lseType) {
  const AttentionOptions &o = c.options;
  const int64_t rows = c.sequences * o.qLength, keyRows = c.sequences * o.kLength;
  const std::vector<int64_t> q{rows, o.heads * c.width}, k{keyRows, o.kHeads * c.width};
  const std::vector<int64_t> v{keyRows, o.kHeads * c.valueWidth}, out{rows, o.heads * c.valueWidth};
  const std::vector<int64_t> bias{o.heads, o.cut.parts * o.qLength, o.kLength};
  return {randomOperand(dtype, q, 1),
          randomOperand(dtype, k, 2),
          randomOperand(dtype, v, 3),
          c.hasBias ? randomOperand(dtype, bias, 4) : absent(),
          c.hasSinks ? randomOperand(dtype, {o.heads}, 5) : absent(),
          o.dropout > 0 ? indices({}, {12}) : absent(),
          filledOperand(dtype, out, 9),
          filledOperand(lseType, {rows, o.heads}, 9),
          randomOperand(dtype, out, 6),
          filledOperand(dtype, q, 9),
          filledOperand(dtype, k, 9),
          filledOperand(dtype, v, 9),
          filledOperand(dtype, bias, 9),
          filledOperand(dtype, {o.heads}, 9)};
}

} // namespace moert::cuda

#endif // MOERT_TEST_CUDA_ATTENTIONCASE_H
