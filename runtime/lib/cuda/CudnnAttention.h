//===- CudnnAttention.h - which attention cuDNN computes ------------------===//
//
// cuDNN computes attention of 16-bit types on Hopper and Blackwell where it can (canUseCudnn); the kernels of
// KernelsAttention*.cu compute the rest. Which of them does depends on shapes alone, so that all ranks choose alike,
// and a step that becomes a graph as the step before it. Only operands that are not aligned to 16 bytes, which plans do
// not have, are always for those kernels.
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

struct DeviceContext;
struct Target;

/// A call cut into equal parts, one graph for all of them: parts of the sequences, and of the key heads with their
/// query heads.
struct CudnnParts {
  CudnnShape shape; ///< of a part
  int64_t sequences = 1, heads = 1;
  int64_t firstKeyHead = 0; ///< of those that the rank's queries take
};

/// The graphs of one device, for all of its streams and any thread. Each is built once, and kept.
class CudnnGraphs {
public:
  /// Null where cuDNN refuses the shape, of which the first time warns.
  Status find(const Target &target, const CudnnParts &parts, CudnnGraph *&graph);
  /// The most that a call so far needs of its stream: for a graph and for statistics.
  int64_t mostBytes() const;

private:
  Status build(const CudnnShape &shape, std::unique_ptr<CudnnGraph> &graph);

  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
  std::unique_ptr<Cudnn> cudnn;
  std::map<CudnnShape, std::unique_ptr<CudnnGraph>> graphs; ///< null: refused
  int64_t most = 0;
};

/// Whether this build has cuDNN, and the device is one for which its attention is used.
bool isCudnnFor(const DeviceContext &device);
/// Whether cuDNN can compute the attention, or its gradients, of aligned operands: `parts` is how.
bool canUseCudnn(const Target &target, const AttentionInputs &inputs, const AttentionOptions &options, bool isGradient,
                 CudnnParts &parts);

/// Builds the graph that a call will need, if it is an attention; nothing lies at its addresses.
Status prepareAttention(const Target &target, const Call &call);

/// Compute what moert_attention and moert_attention_grad do, of checked operands. `isDone` says whether cuDNN did.
Status attentionByCudnn(const Target &target, const AttentionInputs &inputs, View out, View lse,
                        const AttentionOptions &options, bool &isDone);
Status attentionGradByCudnn(const Target &target, const AttentionInputs &inputs, View attended, View lse, View grads,
                            View gradQ, View gradK, View gradV, const AttentionOptions &options, bool &isDone);

} // namespace moert::cuda

#endif // MOERT_CUDA_CUDNNATTENTION_H
