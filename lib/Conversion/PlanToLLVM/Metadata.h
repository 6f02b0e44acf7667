//===- Metadata.h - description of a plan for the runtime -------*- C++ -*-===//
#ifndef MOE_LIB_CONVERSION_PLANTOLLVM_METADATA_H
#define MOE_LIB_CONVERSION_PLANTOLLVM_METADATA_H

#include "mlir/IR/BuiltinOps.h"

#include "moert/moert.h"

namespace mlir::plan {

/// Prefix of the symbols that the runtime looks up in a plan .so.
inline constexpr StringLiteral kSymbolPrefix = "moeplan_";
/// Names of the program of all ranks and of the reference.
inline constexpr StringLiteral kRankProgram = "rank";
inline constexpr StringLiteral kReferenceProgram = "reference";

/// `type` is the element type of a buffer.
moert_dtype getDType(Type type);

/// Prefix of the symbols of a variant's programs; without `variant`, of the programs of a plan of one shape.
std::string getProgramPrefix(std::optional<size_t> variant = std::nullopt);

/// Returns the JSON object of docs/PlanFormat.md for `plan`, with one shape or several. Fails after an error. Requires
/// checkVariants.
FailureOr<std::string> buildMetadata(ModuleOp plan);

} // namespace mlir::plan

#endif // MOE_LIB_CONVERSION_PLANTOLLVM_METADATA_H
