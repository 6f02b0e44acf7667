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

unsigned mlir::moe::getRowDim(Type rows) { return cast<RankedTensorType>(rows).getRank() == 3 ? 1 : 0; }

static int64_t getRows(Type type) { return cast<RankedTensorType>(type).getDimSize(getRowDim(type)); }

/// Counts keep their shape.
static bool hasRows(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return isa<FloatType>(tensor.getElementType()) && tensor.getRank() >= 2;
}

/// Rank-local ops have as many rows as they get; others the chunk's part of what they had.
static bool keepsRows(Operation *op, Type result) {
  Type input = op->getOperand(0).getType();
  return hasRows(input) && getRowDim(input) == getRowDim(result) && getRows(input) == getRows(result);
}

bool mlir::moe::canScaleRows(Operation *op, RowChunk chunk) {
  return llvm::all_of(op->getResultTypes(),
                      [&](Type type) { return !hasRows(type) || keepsRows(op, type) || chunk.divides(getRows(type)); });
}

Operation *mlir::moe::cloneOnChunk(Operation *op, OpBuilder &builder, IRMapping &mapping, RowChunk chunk) {
  Operation *clone = builder.clone(*op, mapping);
  for (OpResult result : clone->getResults()) {
    auto type = cast<RankedTensorType>(result.getType());
    if (!hasRows(type))
      continue;
    SmallVector<int64_t> shape(type.getShape());
    int64_t &rows = shape[getRowDim(type)];
    rows = keepsRows(op, type) ? getRows(clone->getOperand(0).getType()) : chunk.of(rows);
    result.setType(RankedTensorType::get(shape, type.getElementType()));
  }
  return clone;
}

#include "moe/Dialect/Moe/IR/MoeInterfaces.cpp.inc"
