//===- CudnnAttention.h - attention by cuDNN ------------------------------===//
//
// On Hopper and Blackwell, cuDNN computes attention of 16-bit types if it can (canUseCudnn). The kernels of
// KernelsAttention*.cu compute all other calls. The choice depends only on shapes, so that all ranks choose alike and a
// captured step equals the step before it. Calls whose operands are not aligned to 16 bytes never use cuDNN, but plans
// have no such operands.
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

/// Division of a call into equal parts, with one graph for all of them: parts of the sequences, and of the key heads
/// with their query heads.
struct CudnnParts {
  CudnnShape shape; ///< shape of a part
  int64_t sequences = 1, heads = 1;
  int64_t firstKeyHead = 0; ///< the first key head that the rank's queries use
};

/// Graphs of one device, for all of its streams and any thread. Each graph is built once and kept.
class CudnnGraphs {
public:
  /// Finds or builds a graph. Null if cuDNN refuses the shape. The first refusal warns.
  Status find(const Target &target, const CudnnParts &parts, CudnnGraph *&graph);
  /// Largest number of bytes that a call needed so far on its stream, for a graph and for statistics.
  int64_t mostBytes() const;

private:
  Status build(const CudnnShape &shape, std::unique_ptr<CudnnGraph> &graph);

  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
  std::unique_ptr<Cudnn> cudnn;
  std::map<CudnnShape, std::unique_ptr<CudnnGraph>> graphs; ///< null if cuDNN refused the shape
  int64_t most = 0;
};

/// Whether this build has cuDNN and uses its attention on this device: on 9.0, and on the family of 10.0.
bool isCudnnFor(const DeviceContext &device);
/// Whether cuDNN can compute the attention, or its gradients, of aligned operands. `parts` says how the call is cut.
bool canUseCudnn(const Target &target, const AttentionInputs &inputs, const AttentionOptions &options, bool isGradient,
                 CudnnParts &parts);

/// Builds the graph of a call if the call is an attention. Does not access operands.
Status prepareAttention(const Target &target, const Call &call);

/// Computes moert_attention or moert_attention_grad. The caller has checked the operands. `isDone` is false if cuDNN
/// cannot compute the call.
Status attentionByCudnn(const Target &target, const AttentionInputs &inputs, View out, View lse,
                        const AttentionOptions &options, bool &isDone);
Status attentionGradByCudnn(const Target &target, const AttentionInputs &inputs, View attended, View lse, View grads,
                            View gradQ, View gradK, View gradV, const AttentionOptions &options, bool &isDone);

} // namespace moert::cuda

#endif // MOERT_CUDA_CUDNNATTENTION_H
