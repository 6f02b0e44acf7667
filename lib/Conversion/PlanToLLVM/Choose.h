//===- Choose.h - the choice among variants ---------------------*- C++ -*-===//
#ifndef MOE_LIB_CONVERSION_PLANTOLLVM_CHOOSE_H
#define MOE_LIB_CONVERSION_PLANTOLLVM_CHOOSE_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::plan {

/// Whether `plan`, of one shape or several, is what moe/Conversion/Variants.h says; errors are emitted at what is not.
LogicalResult checkVariants(ModuleOp plan);

/// Appends `int64_t moeplan_choose(int64_t batch, int64_t sequence)` to `plan`: the index of the variant to run, -1
/// where none has that shape. checkVariants has passed.
void emitChoose(ModuleOp plan);

} // namespace mlir::plan

#endif // MOE_LIB_CONVERSION_PLANTOLLVM_CHOOSE_H
