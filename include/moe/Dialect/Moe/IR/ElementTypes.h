//===- ElementTypes.h - types of a program's values ----------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_ELEMENTTYPES_H
#define MOE_DIALECT_MOE_IR_ELEMENTTYPES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::moe {

/// Bytes of the largest tensor that programs may have, more than any machine addresses. Sums of the sizes of a
/// program's values then stay far from overflow.
inline constexpr int64_t kMaxTensorBytes = int64_t(1) << 48;

/// Bytes of a static shape, or none if there are more than kMaxTensorBytes.
std::optional<int64_t> getCheckedByteSize(ShapedType type);

/// Type of a value that is a tensor.
inline RankedTensorType getTensorType(Value value) { return cast<RankedTensorType>(value.getType()); }
/// `type` with dimension `dim` of that size.
RankedTensorType withDim(RankedTensorType type, int64_t dim, int64_t size);
/// `type` with that many columns, its last dimension.
inline RankedTensorType withColumns(RankedTensorType type, int64_t columns) {
  return withDim(type, type.getRank() - 1, columns);
}
/// Type of `value` with dimension `dim` times `multiply` / `divide`.
RankedTensorType scaleDim(Value value, int64_t dim, int64_t multiply, int64_t divide);

/// Type in which a program that computes in `elementType` routes, adds up rows and takes losses: f32 for types of 16
/// bits, and the type itself for others.
Type getAccumulatorType(Type elementType);

/// Floating-point type with the fewest bits among those of the arguments, in which a program computes. Null if there is
/// none.
FloatType getProgramType(FunctionOpInterface program);

/// Tensor type of that shape, with the accumulator type of `tensor` as element type.
RankedTensorType getAccumulatorTensor(RankedTensorType tensor, ArrayRef<int64_t> shape);
/// Type [S, 1] with one such element for each of the rows [S, ..] of `tensor`.
RankedTensorType getAccumulatorColumn(RankedTensorType tensor);

/// Fails with an error if `type` is not `expected`. `what` names the operand or result of `op` in the error.
LogicalResult verifyType(Operation *op, StringRef what, Type type, Type expected);
/// Verifies the type of a sum over rows, which may also be of the accumulator type of `expected`.
LogicalResult verifySumType(Operation *op, StringRef what, Type type, RankedTensorType expected);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_ELEMENTTYPES_H
