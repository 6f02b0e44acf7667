//===- CudnnGraph.h - attention as a graph of cuDNN -----------------------===//
#ifndef MOERT_CUDA_CUDNNGRAPH_H
#define MOERT_CUDA_CUDNNGRAPH_H

#include "cuda/Cuda.h"

#include <compare>

namespace moert::cuda {

/// All facts on which a graph depends. Rows of an operand follow each other in sequences, and heads in rows: row i of
/// sequence b and head h begins at element (b * rows + i) * stride + h * columns. `heads` is a multiple of keyHeads,
/// and neighbouring heads share a key head. Statistics are f32 [sequences, heads, queries]: the natural logarithm of
/// the sum of exp(scale * product), as `lse` of moert_attention.
struct CudnnShape {
  int32_t dtype = 0; ///< bf16 or f16
  bool isGradient = false;
  int64_t sequences = 0, queries = 0, keys = 0; ///< queries and keys of one sequence
  int64_t heads = 0, keyHeads = 0;
  int64_t width = 0, valueWidth = 0;                                         ///< columns of a head
  int64_t queryStride = 0, keyStride = 0, valueStride = 0, resultStride = 0; ///< elements between rows
  bool causal = false;                                                       ///< key j <= i + keys - queries
  int64_t window = 0; ///< j > i + keys - queries - window; 0: all
  double scale = 1;
  bool hasSinks = false;        ///< only without isGradient: `stats` already have the sinks
  bool isDeterministic = false; ///< only with isGradient: sums have a fixed order

  auto operator<=>(const CudnnShape &) const = default;
};

/// Operands of a graph, aligned to 16 bytes. `grads` and the gradients are those of graphs of gradients alone.
struct CudnnOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void *result = nullptr; ///< inputs of a graph of gradients
  float *stats = nullptr;
  const void *grads = nullptr;
  void *gradQ = nullptr, *gradK = nullptr, *gradV = nullptr;
  const float *sinks = nullptr; ///< [heads]
};

/// Largest workspace of a graph. Deterministic gradients of 8192 tokens need this much for 4 query heads of one key
/// head.
inline constexpr int64_t kMostCudnnBytes = int64_t(512) << 20;

class CudnnGraph {
public:
  virtual ~CudnnGraph() = default;

  int64_t workspaceBytes() const { return bytes; }
  /// Enqueues the graph.
  virtual Status run(cudaStream_t stream, const CudnnOperands &operands, void *workspace) = 0;

protected:
  int64_t bytes = 0;
};

/// cuDNN on one device. It outlives its graphs.
class Cudnn {
public:
  virtual ~Cudnn() = default;

  /// Builds a graph, which takes milliseconds and allocates. The error names cuDNN's version, and says why it has no
  /// graph of the shape. Prefers a plan of cuDNN whose workspace is within the limit.
  virtual Status build(const CudnnShape &shape, std::unique_ptr<CudnnGraph> &graph) = 0;

  /// Opens cuDNN on the current device.
  static Status open(std::unique_ptr<Cudnn> &cudnn);
};

} // namespace moert::cuda

#endif // MOERT_CUDA_CUDNNGRAPH_H
