//===- BatchShapes.h - plans of several batch shapes ------------*- C++ -*-===//
#ifndef MOE_PLANNER_BATCHSHAPES_H
#define MOE_PLANNER_BATCHSHAPES_H

#include <optional>

#include "moe/Planner/Planner.h"

namespace mlir::moe {

/// A plan of one shape (moe/Conversion/Variants.h) to be put beside others.
struct Variant {
  OwningOpRef<ModuleOp> module;
  /// Sequences of a data-parallel rank, and tokens of a sequence.
  int64_t batch = 0, sequence = 0;
  /// Predicted seconds: alpha + beta * (batch * sequence). All variants have it if several are for one shape.
  std::optional<std::pair<double, double>> seconds;
};

/// Makes one module of all `variants`, and takes their modules. moeplan_choose returns indices in their order.
OwningOpRef<ModuleOp> mergeVariants(MLIRContext *context, MutableArrayRef<Variant> variants);

/// Compiles a graph to the variants of its shape: one of options.schedule; for 'parm-auto' one for S1 and one for S2,
/// with Eq. 13 and 14 as their seconds (Parm); for 'chunks:auto' one for each chunk count, with the seconds of a
/// predicted step. Batch and sequence are the caller's to set. Errors are reported at the ops.
LogicalResult compileVariants(ModuleOp graph, const PlanOptions &options, SmallVectorImpl<Variant> &variants);

} // namespace mlir::moe

#endif // MOE_PLANNER_BATCHSHAPES_H
