//===- Metadata.h - what a plan says about itself ---------------*- C++ -*-===//
#ifndef MOE_LIB_CONVERSION_PLANTOLLVM_METADATA_H
#define MOE_LIB_CONVERSION_PLANTOLLVM_METADATA_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::plan {

/// Symbols that the runtime looks up in a plan .so are this and a name.
inline constexpr StringLiteral kSymbolPrefix = "moeplan_";
/// The program of all ranks, and the reference.
inline constexpr StringLiteral kRankProgram = "rank";
inline constexpr StringLiteral kReferenceProgram = "reference";

/// The numbers of moert.h: moert_dtype, and MOERT_SPACE_ARGUMENT.
enum class DType : int32_t { f32 = 0, f64 = 1, bf16 = 2, i32 = 3, f16 = 4 };
inline constexpr int32_t kArgumentSpace = 2;

/// `type` is the element type of a buffer.
DType getDType(Type type);

/// What the symbols of a program of variant number `variant` begin with; without one, of a plan of one shape.
std::string getProgramPrefix(std::optional<size_t> variant = std::nullopt);

/// The JSON object of docs/Runtime.md for `plan`, of one shape or several; fails after an error. checkVariants has
/// passed.
FailureOr<std::string> buildMetadata(ModuleOp plan);

} // namespace mlir::plan

#endif // MOE_LIB_CONVERSION_PLANTOLLVM_METADATA_H
