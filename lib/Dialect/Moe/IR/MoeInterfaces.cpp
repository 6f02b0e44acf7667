//===- MoeInterfaces.cpp - what every op tells the passes -----------------===//
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"

using namespace mlir;
using namespace mlir::moe;

bool mlir::moe::isCounts(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped && shaped.hasRank() && shaped.getRank() == 2 && shaped.getElementType().isSignlessInteger(32);
}

int64_t mlir::moe::getByteSize(Type type) {
  // A larger value is refused where it would get memory.
  return getCheckedByteSize(cast<ShapedType>(type)).value_or(kMaxTensorBytes);
}

OpCost mlir::moe::getMemoryCost(Operation *op) {
  OpCost cost;
  if (auto kernel = dyn_cast<MoeKernelOpInterface>(op); kernel && kernel.getKernelName().empty())
    return cost;
  cost.resource = Resource::Memory;
  for (Type type : op->getOperandTypes())
    cost.bytesRead += getByteSize(type);
  for (Type type : op->getResultTypes())
    cost.bytesWritten += getByteSize(type);
  return cost;
}

SmallVector<int64_t> mlir::moe::getAddendInput(MoeKernelOpInterface op) {
  auto sum = dyn_cast<MoeAccumulatingOpInterface>(op.getOperation());
  if (!sum || sum.getAddendMutable().empty())
    return {};
  return {static_cast<int64_t>(op.getKernelInputs().size()) - 1};
}

OpCost mlir::moe::withRows(OpCost cost, Value counts, RankedTensorType rows, MoeKernelOpInterface kernel) {
  if (counts) {
    cost.raggedRows = rows.getDimSize(0);
    SmallVector<Value> inputs = kernel.getKernelInputs();
    cost.countsInput = llvm::find(inputs, counts) - inputs.begin();
  }
  return cost;
}

Value mlir::moe::cloneWide(Operation *op, OpBuilder &builder) {
  Operation *wide = builder.clone(*op);
  auto type = getTensorType(wide->getResult(0));
  wide->getResult(0).setType(getAccumulatorTensor(type, type.getShape()));
  return wide->getResult(0);
}

unsigned mlir::moe::getRowDim(Type rows) { return cast<RankedTensorType>(rows).getRank() == 3 ? 1 : 0; }

static int64_t countRows(Type type) { return cast<RankedTensorType>(type).getDimSize(getRowDim(type)); }

/// Whether a value has rows. Counts have none: they keep their shape.
static bool hasRows(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return isa<FloatType>(tensor.getElementType()) && tensor.getRank() >= 2;
}

/// Whether the result has as many rows as the first operand. Otherwise it has the chunk's part of its former rows.
static bool keepsRows(Operation *op, Type result) {
  Type input = op->getOperand(0).getType();
  return hasRows(input) && getRowDim(input) == getRowDim(result) && countRows(input) == countRows(result);
}

bool mlir::moe::canScaleRows(Operation *op, RowChunk chunk) {
  return llvm::all_of(op->getResultTypes(), [&](Type type) {
    return !hasRows(type) || keepsRows(op, type) || chunk.divides(countRows(type));
  });
}

Operation *mlir::moe::cloneOnChunk(Operation *op, OpBuilder &builder, IRMapping &mapping, RowChunk chunk) {
  Operation *clone = builder.clone(*op, mapping);
  for (OpResult result : clone->getResults()) {
    auto type = getTensorType(result);
    if (!hasRows(type))
      continue;
    int64_t rows = keepsRows(op, type) ? countRows(clone->getOperand(0).getType()) : chunk.of(countRows(type));
    result.setType(withDim(type, getRowDim(type), rows));
  }
  return clone;
}

GroupAttr ShadowScope::getGroup(GroupAttr group) const {
  MLIRContext *context = group.getContext();
  if (group.hasSameRanks(ep))
    return GroupAttr::get(context, "self", 1, 1);
  bool both = group.getStride() == esp.getStride() && group.getSize() == ep.getSize() * esp.getSize();
  return both ? esp : group;
}

/// Size of dimension `dim`: `after`, times the ratio of `result` to `before`.
static int64_t rescale(RankedTensorType result, RankedTensorType before, RankedTensorType after, int64_t dim) {
  int64_t size = result.getDimSize(dim);
  if (dim >= before.getRank() || before.getDimSize(dim) == after.getDimSize(dim))
    return size;
  return size * after.getDimSize(dim) / before.getDimSize(dim);
}

Operation *mlir::moe::cloneOnShadows(Operation *op, OpBuilder &builder, IRMapping &mapping) {
  Operation *clone = builder.clone(*op, mapping);
  auto before = getTensorType(op->getOperand(0));
  auto after = getTensorType(clone->getOperand(0));
  for (OpResult result : clone->getResults()) {
    auto type = getTensorType(result);
    SmallVector<int64_t> shape;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      shape.push_back(rescale(type, before, after, dim));
    result.setType(type.clone(shape));
  }
  return clone;
}

bool mlir::moe::hasRowsFor(Type type, GroupAttr group) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getRank() == 2 && tensor.getDimSize(0) % group.getSize() == 0;
}

Value mlir::moe::cloneOnRowPart(Operation *op, OpBuilder &builder, ValueRange rows) {
  Operation *clone = builder.clone(*op);
  clone->setOperands(0, rows.size(), rows);
  OpResult result = clone->getResult(0);
  result.setType(withDim(getTensorType(result), 0, getTensorType(rows[0]).getDimSize(0)));
  return result;
}

Layouts mlir::moe::inferElementwiseLayouts(Operation *op, MutableArrayRef<LayoutAttr> operands) {
  if (!operands[0])
    operands[0] = LayoutAttr::get(op->getContext(), getTensorType(op->getResult(0)).getRank());
  return {operands[0]};
}

Values mlir::moe::cloneOnShard(Operation *op, OpBuilder &builder, ValueRange operands) {
  Operation *clone = builder.clone(*op);
  clone->setOperands(operands);
  clone->getResult(0).setType(operands[0].getType());
  return {clone->getResult(0)};
}

#include "moe/Dialect/Moe/IR/MoeInterfaces.cpp.inc"
