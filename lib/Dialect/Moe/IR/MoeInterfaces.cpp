//===- MoeInterfaces.cpp - what every op tells the passes -----------------===//
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"

using namespace mlir;
using namespace mlir::moe;

int64_t mlir::moe::getByteSize(Type type) {
  auto shaped = cast<ShapedType>(type);
  return shaped.getNumElements() * shaped.getElementTypeBitWidth() / 8;
}

OpCost mlir::moe::getMemoryCost(Operation *op) {
  OpCost cost;
  cost.resource = Resource::Memory;
  for (Type type : op->getOperandTypes())
    cost.bytesRead += getByteSize(type);
  for (Type type : op->getResultTypes())
    cost.bytesWritten += getByteSize(type);
  return cost;
}

#include "moe/Dialect/Moe/IR/MoeInterfaces.cpp.inc"
