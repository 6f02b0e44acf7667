//===- CudnnAttention.h - which attention cuDNN computes ------------------===//
//
// cuDNN computes attention of 16-bit types on Hopper where it can (canUseCudnn); the kernels of KernelsAttention*.cu
// compute the rest. Which of them does depends on shapes alone, so that all ranks choose alike, and a step that becomes
// a graph as the step before it.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_CUDNNATTENTION_H
#define MOERT_CUDA_CUDNNATTENTION_H

#include "core/Shapes.h"
#include "cuda/CudnnGraph.h"

#include <map>
#include <mutex>
#include <string>

namespace moert::cuda {

struct Target;

/// The graphs of one device, for all of its streams and any thread. Each is built once, and kept.
class CudnnGraphs {
public:
  /// Null where cuDNN refuses the shape, of which the first time warns.
  Status find(const Target &target, const CudnnShape &shape, CudnnGraph *&graph);

private:
  Status build(const CudnnShape &shape, std::unique_ptr<CudnnGraph> &graph);

  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
  std::unique_ptr<Cudnn> cudnn;
  std::map<CudnnShape, std::unique_ptr<CudnnGraph>> graphs; ///< null: refused
};

/// A call cut into equal parts, one graph for all of them: parts of the sequences, and of the key heads with their
/// query heads.
struct CudnnParts {
  CudnnShape shape; ///< of a part
  int64_t sequences = 1, heads = 1;
  int64_t firstKeyHead = 0; ///< of those that the rank's queries take
};

/// Whether cuDNN can compute the attention, or its gradients: `parts` is how. Only alignments, which are those of
/// plans' arenas, are no matter of shapes.
bool canUseCudnn(const Target &target, const AttentionInputs &inputs, const AttentionOptions &options, bool isGradient,
                 CudnnParts &parts);

/// Compute what moert_attention and moert_attention_grad do, of checked operands. `isDone` says whether cuDNN did.
Status attentionByCudnn(const Target &target, const AttentionInputs &inputs, View out, View lse,
                        const AttentionOptions &options, bool &isDone);
Status attentionGradByCudnn(const Target &target, const AttentionInputs &inputs, View attended, View lse, View grads,
                            View gradQ, View gradK, View gradV, const AttentionOptions &options, bool &isDone);

} // namespace moert::cuda

#endif // MOERT_CUDA_CUDNNATTENTION_H
