//===- Choose.h - the choice among variants ---------------------*- C++ -*-===//
#ifndef MOE_LIB_CONVERSION_PLANTOLLVM_CHOOSE_H
#define MOE_LIB_CONVERSION_PLANTOLLVM_CHOOSE_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::plan {

/// Checks that `plan`, with one shape or several, follows the rules of moe/Conversion/Variants.h. Emits errors at the
/// ops that break them.
LogicalResult checkVariants(ModuleOp plan);

/// Appends `int64_t moeplan_choose(int64_t batch, int64_t sequence)` to `plan`. The function returns the index of the
/// variant to run, or -1 if no variant has that shape. Requires checkVariants.
void emitChoose(ModuleOp plan);

} // namespace mlir::plan

#endif // MOE_LIB_CONVERSION_PLANTOLLVM_CHOOSE_H
