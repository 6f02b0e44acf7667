//===- MoeLabels.h - layers of ops in text ----------------------*- C++ -*-===//
//
// The location of an op, a NameLoc, names its layer. Programs are printed without locations, because a location in the
// text would replace the line that an error names. Programs in text therefore have labels.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_MOE_IR_MOELABELS_H
#define MOE_DIALECT_MOE_IR_MOELABELS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::moe {

/// Name of the layer (string) of an op of the dialect.
inline constexpr StringLiteral kLabelAttrName = "moe.label";

/// Ends the labels of a layer's backward.
inline constexpr StringLiteral kBackwardSuffix = ".grad";
/// Name of the layer whose forward or backward has this label.
inline StringRef getLayerOfLabel(StringRef label) {
  label.consume_back(kBackwardSuffix);
  return label;
}

/// Gives each op a label from its location.
void setLabels(ModuleOp module);
/// Turns labels into locations, inside which it keeps the places in the file.
void takeLabels(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_MOELABELS_H
