//===- ElementTypes.cpp - which values of a program have more bits --------===//
#include "moe/Dialect/Moe/IR/ElementTypes.h"

using namespace mlir;
using namespace mlir::moe;

Type mlir::moe::getAccumulatorType(Type elementType) {
  return elementType.isBF16() || elementType.isF16() ? Float32Type::get(elementType.getContext()) : elementType;
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
