//===- MoeComm.cpp - parts that ops share ---------------------------------===//
#include "MoeComm.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::moe;

LogicalResult mlir::moe::inferVaryingToVarying(Operation *op, GroupAttr group, const SpmdAxes &axes,
                                               ArrayRef<AxisSet> operands, SmallVectorImpl<AxisSet> &required,
                                               SmallVectorImpl<AxisSet> &results) {
  FailureOr<AxisSet> set = axes.getAxes(op, group);
  if (failed(set))
    return failure();
  AxisSet all = *set | unite(operands);
  required.assign(operands.size(), all);
  results.assign(op->getNumResults(), all);
  return success();
}

LogicalResult mlir::moe::inferVaryingToReplicated(Operation *op, GroupAttr group, const SpmdAxes &axes,
                                                  ArrayRef<AxisSet> operands, SmallVectorImpl<AxisSet> &required,
                                                  SmallVectorImpl<AxisSet> &results) {
  if (failed(inferVaryingToVarying(op, group, axes, operands, required, results)))
    return failure();
  results.front() = results.front() - *axes.getAxes(group);
  return success();
}

LogicalResult mlir::moe::inferReplicatedToVarying(Operation *op, GroupAttr group, const SpmdAxes &axes,
                                                  ArrayRef<AxisSet> operands, SmallVectorImpl<AxisSet> &required,
                                                  SmallVectorImpl<AxisSet> &results) {
  FailureOr<AxisSet> set = axes.getAxes(op, group);
  if (failed(set))
    return failure();
  for (AxisSet operand : operands)
    if (!(operand & *set).empty())
      return op->emitOpError() << "expected an operand replicated over group '" << group.getName()
                               << "' but it varies over " << axes.describe(operand);
  AxisSet all = unite(operands);
  required.assign(operands.size(), all);
  results.assign(op->getNumResults(), all | *set);
  return success();
}

LogicalResult mlir::moe::verifyPart(Operation *op, GroupAttr group, int64_t dim, RankedTensorType whole,
                                    RankedTensorType part) {
  if (dim < 0 || dim >= whole.getRank())
    return op->emitOpError() << "expected dim to be between 0 and " << whole.getRank() - 1 << " but got " << dim;
  SmallVector<int64_t> shape(part.getShape());
  bool overflows = part.getRank() == whole.getRank() && llvm::MulOverflow(shape[dim], group.getSize(), shape[dim]);
  if (overflows || shape != whole.getShape() || part.getElementType() != whole.getElementType())
    return op->emitOpError() << "expected " << whole << " to be " << part << " times " << group.getSize()
                             << " along dimension " << dim;
  return success();
}

OpCost mlir::moe::getProductCost(Operation *op, GemmShape shape) {
  OpCost cost = getMemoryCost(op);
  cost.resource = Resource::Matrix;
  cost.gemm = shape;
  cost.flops = shape.getFlops();
  return cost;
}

OpCost mlir::moe::getExchangeCost(Operation *op, Collective collective, Value payload) {
  OpCost cost = getMemoryCost(op);
  cost.resource = Resource::Network;
  cost.collective = collective;
  cost.payload = getByteSize(payload.getType());
  return cost;
}

OpCost mlir::moe::getReductionCost(Operation *op, Collective collective, Value payload) {
  OpCost cost = getExchangeCost(op, collective, payload);
  cost.flops = static_cast<double>(getTensorType(payload).getNumElements());
  return cost;
}

SmallVector<Attribute> mlir::moe::getIntParams(MLIRContext *context, ArrayRef<int64_t> values) {
  Builder builder(context);
  return llvm::map_to_vector(values, [&](int64_t value) -> Attribute { return builder.getI64IntegerAttr(value); });
}
