//===- Metadata.h - what a plan says about itself ---------------*- C++ -*-===//
#ifndef MOE_LIB_CONVERSION_PLANTOLLVM_METADATA_H
#define MOE_LIB_CONVERSION_PLANTOLLVM_METADATA_H

#include "mlir/IR/BuiltinOps.h"

#include "moert/moert.h"

namespace mlir::plan {

/// Symbols that the runtime looks up in a plan .so are this and a name.
inline constexpr StringLiteral kSymbolPrefix = "moeplan_";
/// The program of all ranks, and the reference.
inline constexpr StringLiteral kRankProgram = "rank";
inline constexpr StringLiteral kReferenceProgram = "reference";

/// `type` is the element type of a buffer.
moert_dtype getDType(Type type);

/// What the symbols of a program of variant number `variant` begin with; without one, of a plan of one shape.
std::string getProgramPrefix(std::optional<size_t> variant = std::nullopt);

/// The JSON object of docs/Runtime.md for `plan`, of one shape or several; fails after an error. checkVariants has
/// passed.
FailureOr<std::string> buildMetadata(ModuleOp plan);

} // namespace mlir::plan

#endif // MOE_LIB_CONVERSION_PLANTOLLVM_METADATA_H
