//===- StageWork.h - kinds of work of a pipeline's stage --------*- C++ -*-===//
#ifndef MOE_SCHEDULING_STAGEWORK_H
#define MOE_SCHEDULING_STAGEWORK_H

namespace mlir::moe {

/// Kinds of work of a stage on a micro-batch. `weights` computes gradients of weights.
enum class StageWork { forward, backward, weights };

} // namespace mlir::moe

#endif // MOE_SCHEDULING_STAGEWORK_H
