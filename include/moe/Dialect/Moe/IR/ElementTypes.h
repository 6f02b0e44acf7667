//===- ElementTypes.h - types of a program's values ----------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_ELEMENTTYPES_H
#define MOE_DIALECT_MOE_IR_ELEMENTTYPES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace mlir::moe {

/// Bytes of the largest tensor that programs may have, more than any machine addresses. Sums of the sizes of a
/// program's values then stay far from overflow.
inline constexpr int64_t kMaxTensorBytes = int64_t(1) << 48;

/// Bytes of a static shape; nothing where it has more than kMaxTensorBytes.
std::optional<int64_t> getCheckedByteSize(ShapedType type);

/// Type of a value that is a tensor.
inline RankedTensorType getTensorType(Value value) { return cast<RankedTensorType>(value.getType()); }
/// Type of `value` with dimension `dim` times `multiply` / `divide`.
RankedTensorType scaleDim(Value value, int64_t dim, int64_t multiply, int64_t divide);

/// What a program that computes in `elementType` routes, sums over rows and takes losses in: f32 for types of 16 bits,
/// else the type itself.
Type getAccumulatorType(Type elementType);

/// A tensor of that shape, of the accumulator type of `tensor`.
RankedTensorType getAccumulatorTensor(RankedTensorType tensor, ArrayRef<int64_t> shape);
/// One such element for each of the rows [S, ..] of `tensor`: [S, 1].
RankedTensorType getAccumulatorColumn(RankedTensorType tensor);

/// Fails with an error where the type of what `op` calls `what` is not as expected.
LogicalResult verifyType(Operation *op, StringRef what, Type type, Type expected);
/// The same of a sum over rows, which may be of the accumulator type of `expected` too.
LogicalResult verifySumType(Operation *op, StringRef what, Type type, RankedTensorType expected);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_ELEMENTTYPES_H
