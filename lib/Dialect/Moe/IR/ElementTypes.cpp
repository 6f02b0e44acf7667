//===- ElementTypes.cpp - which values of a program have more bits --------===//
#include "moe/Dialect/Moe/IR/ElementTypes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::moe;

std::optional<int64_t> mlir::moe::getCheckedByteSize(ShapedType type) {
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  for (int64_t size : type.getShape()) {
    if (size == 0)
      return 0;
    if (llvm::MulOverflow(bytes, size, bytes))
      bytes = kMaxTensorBytes + 1;
  }
  return bytes <= kMaxTensorBytes ? std::optional<int64_t>(bytes) : std::nullopt;
}

RankedTensorType mlir::moe::withDim(RankedTensorType type, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return type.clone(shape);
}

RankedTensorType mlir::moe::scaleDim(Value value, int64_t dim, int64_t multiply, int64_t divide) {
  RankedTensorType type = getTensorType(value);
  return withDim(type, dim, type.getDimSize(dim) * multiply / divide);
}

Type mlir::moe::getAccumulatorType(Type elementType) {
  return elementType.isBF16() || elementType.isF16() ? Float32Type::get(elementType.getContext()) : elementType;
}

FloatType mlir::moe::getProgramType(FunctionOpInterface program) {
  FloatType found;
  for (Type type : program.getArgumentTypes())
    if (auto shaped = dyn_cast<ShapedType>(type))
      if (auto element = dyn_cast<FloatType>(shaped.getElementType()))
        found = !found || element.getWidth() < found.getWidth() ? element : found;
  return found;
}

RankedTensorType mlir::moe::getAccumulatorTensor(RankedTensorType tensor, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, getAccumulatorType(tensor.getElementType()));
}

RankedTensorType mlir::moe::getAccumulatorColumn(RankedTensorType tensor) {
  return getAccumulatorTensor(tensor, {tensor.getDimSize(0), 1});
}

LogicalResult mlir::moe::verifyType(Operation *op, StringRef what, Type type, Type expected) {
  if (type == expected)
    return success();
  return op->emitOpError() << "expected " << what << " to be " << expected << " but got " << type;
}

LogicalResult mlir::moe::verifySumType(Operation *op, StringRef what, Type type, RankedTensorType expected) {
  return type == getAccumulatorTensor(expected, expected.getShape()) ? success() : verifyType(op, what, type, expected);
}
