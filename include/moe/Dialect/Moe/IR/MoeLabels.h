//===- MoeLabels.h - layers of ops in text ----------------------*- C++ -*-===//
//
// An op's layer is its location, a NameLoc. Programs are printed without locations, and what a location in text says
// takes the place of the line that an error would name. So programs in text have labels.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_MOE_IR_MOELABELS_H
#define MOE_DIALECT_MOE_IR_MOELABELS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::moe {

/// On an op of the dialect, a string: the name of its layer.
inline constexpr StringLiteral kLabelAttrName = "moe.label";

/// Gives each op a label of its location.
void setLabels(ModuleOp module);
/// Makes locations of labels; the places in the file are kept inside.
void takeLabels(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_MOELABELS_H
