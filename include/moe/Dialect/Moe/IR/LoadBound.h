//===- LoadBound.h - the rows that a plan has room for ----------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_LOADBOUND_H
#define MOE_DIALECT_MOE_IR_LOADBOUND_H

#include "mlir/IR/BuiltinOps.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"

#include <optional>
#include <string>

namespace mlir::moe {

/// Attribute (f64) of the module of a model or its plan: the default `max_load` of the dropless layers.
inline constexpr llvm::StringLiteral kDefaultMaxLoadAttrName = "moe.default_max_load";

/// "room for 2 times the even load of a rank, by default (..)". Empty without a default bound, and if the groups do not
/// divide the experts, so that nothing is bounded. `parallel` may be null.
std::string describeDefaultMaxLoad(std::optional<double> load, ParallelAttr parallel);
/// The same of a module.
std::string describeDefaultMaxLoad(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_LOADBOUND_H
