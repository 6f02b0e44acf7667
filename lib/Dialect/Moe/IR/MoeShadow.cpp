//===- MoeShadow.cpp - experts on other ranks for a step ------------------===//
#include "MoeComm.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::moe;

/// Verifies that `shadows` is [1, experts].
static LogicalResult verifyShadows(Operation *op, Value shadows, int64_t experts) {
  auto type = getTensorType(shadows);
  if (type.getDimSize(0) != 1 || type.getDimSize(1) != experts)
    return op->emitOpError() << "expected shadows to be [1, " << experts << "] but got " << type;
  return success();
}

LogicalResult ChooseShadowsOp::verify() {
  RankedTensorType counts = getCounts().getType();
  int64_t workers = getWorkers(), nodeWorkers = getNodeWorkers(), experts = counts.getDimSize(1), most = getMost();
  if (workers < 1 || counts.getDimSize(0) % workers != 0 || experts % workers != 0)
    return emitOpError() << "expected workers to divide both dimensions of " << counts << " but got " << workers;
  if (nodeWorkers < 1 || workers % nodeWorkers != 0)
    return emitOpError() << "expected node_workers to divide the " << workers << " workers but got " << nodeWorkers;
  if (most < 1 || most > experts)
    return emitOpError() << "expected most to be between 1 and " << experts << " but got " << most;
  if (getRoom() < 0 || getPhases() < 1)
    return emitOpError() << "expected room of at least 0 and phases of at least 1 but got " << getRoom() << " and "
                         << getPhases();
  for (APFloat seconds : {getRowCompute(), getRowSend(), getRowLocal(), getRowNode(), getExpert(), getStart()})
    if (!seconds.isFinite() || seconds.isNegative())
      return emitOpError() << "expected times of at least 0 but got " << seconds.convertToDouble();
  return verifyShadows(*this, getShadows(), experts);
}
SmallVector<Attribute> ChooseShadowsOp::getKernelParams() {
  return {Builder(getContext()).getI64IntegerAttr(static_cast<int64_t>(getPolicy())),
          getWorkersAttr(),
          getNodeWorkersAttr(),
          getMostAttr(),
          getRoomAttr(),
          getPhasesAttr(),
          getRowComputeAttr(),
          getRowSendAttr(),
          getRowLocalAttr(),
          getRowNodeAttr(),
          getExpertAttr(),
          getStartAttr()};
}
SmallVector<CountsRule> ChooseShadowsOp::getCountsRules() {
  counts::ChooseShadows rule;
  rule.policy = static_cast<int64_t>(getPolicy());
  rule.workers = getWorkers();
  rule.nodeWorkers = getNodeWorkers();
  rule.most = getMost();
  rule.room = getRoom();
  rule.phases = getPhases();
  rule.rowCompute = getRowCompute().convertToDouble();
  rule.rowSend = getRowSend().convertToDouble();
  rule.rowLocal = getRowLocal().convertToDouble();
  rule.rowNode = getRowNode().convertToDouble();
  rule.expert = getExpert().convertToDouble();
  rule.start = getStart().convertToDouble();
  return {{0, rule}};
}

void DivideChoicesOp::build(OpBuilder &builder, OperationState &state, Value experts, Value shadows, int64_t places) {
  auto counts = [&](int64_t columns) { return RankedTensorType::get({1, columns}, builder.getI32Type()); };
  Type choices = experts.getType();
  build(builder, state, TypeRange{choices, counts(getTensorType(shadows).getDimSize(1)), choices, counts(places)},
        experts, shadows);
}
LogicalResult DivideChoicesOp::verify() {
  RankedTensorType choices = getExperts().getType(), counts = getCounts().getType();
  if (getSlots().getType() != choices || getShadowSlots().getType() != choices)
    return emitOpError() << "expected slots and shadow_slots to be " << choices << " but got " << getSlots().getType()
                         << " and " << getShadowSlots().getType();
  int64_t chunks = getChunks(), chunkRows = getChunkRows();
  if (chunks < 1 || counts.getDimSize(0) != chunks)
    return emitOpError() << "expected counts of " << chunks << " chunks but got " << counts;
  int64_t most = choices.getDimSize(1) * static_cast<int64_t>(llvm::divideCeil(choices.getDimSize(0), chunks));
  if (chunks > 1 && chunkRows < most)
    return emitOpError() << "expected room for " << most << " rows in a chunk but got chunk_rows " << chunkRows;
  if (getShadowCounts().getType().getDimSize(0) != 1)
    return emitOpError() << "expected shadow_counts to be [1, R] but got " << getShadowCounts().getType();
  return verifyShadows(*this, getShadows(), counts.getDimSize(1));
}
SmallVector<Attribute> DivideChoicesOp::getKernelParams() { return {getChunksAttr(), getChunkRowsAttr()}; }
SmallVector<CountsRule> DivideChoicesOp::getCountsRules() {
  return {{getResultNumber(getCounts()), counts::KeptChoices{0, 1}},
          {getResultNumber(getShadowCounts()), counts::ShadowChoices{0, 1}}};
}

/// The values vary over the group, and the shadows do not: members that decide differently would wait for each other.
static LogicalResult inferShadowSpmd(Operation *op, GroupAttr group, const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                     SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  if (failed(inferVaryingToVarying(op, group, axes, operands, required, results)))
    return failure();
  if (!(operands[1] & *axes.getAxes(group)).empty())
    return op->emitOpError() << "expected shadows that are replicated over group '" << group.getName()
                             << "' but they vary over " << axes.describe(operands[1]);
  required[1] = operands[1];
  return success();
}

/// Verifies that `local` is [n, ..] and `shadow` is [R, ..].
static LogicalResult verifyShadowExchange(Operation *op, GroupAttr group, RankedTensorType local, Value shadows,
                                          RankedTensorType shadow) {
  bool alike = local.getRank() > 0 && local.getRank() == shadow.getRank() &&
               local.getShape().drop_front() == shadow.getShape().drop_front() &&
               local.getElementType() == shadow.getElementType();
  if (!alike)
    return op->emitOpError() << "expected the shadows' values to have the experts' type " << local
                             << " except for dimension 0 but got " << shadow;
  return verifyShadows(op, shadows, local.getDimSize(0) * group.getSize());
}

/// Cost of one place after the other, as far as they are used.
static OpCost getShadowExchangeCost(Operation *op, Collective collective, Value places) {
  OpCost cost = getExchangeCost(op, collective, places);
  cost.bytesRead = cost.bytesWritten = cost.payload;
  cost.raggedRows = getTensorType(places).getDimSize(0);
  cost.countsInput = 1;
  return cost;
}

void BroadcastExpertsOp::build(OpBuilder &builder, OperationState &state, Value values, Value shadows, int64_t places,
                               GroupAttr group) {
  build(builder, state, withDim(getTensorType(values), 0, places), values, shadows, group);
}
LogicalResult BroadcastExpertsOp::verify() {
  return verifyShadowExchange(*this, getGroup(), getTensorType(getValues()), getShadows(), getTensorType(getResult()));
}
LogicalResult BroadcastExpertsOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                            SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferShadowSpmd(*this, getGroup(), axes, operands, required, results);
}
SmallVector<Value> BroadcastExpertsOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<ReduceExpertsOp>(getLoc(), getValues().getType(), cotangents[0], getShadows(),
                                          /*addend=*/Value(), getGroup())};
}
OpCost BroadcastExpertsOp::getOpCost() { return getShadowExchangeCost(*this, Collective::Broadcast, getResult()); }

LogicalResult ReduceExpertsOp::verify() {
  if (getAddend() && getAddend().getType() != getResult().getType())
    return emitOpError() << "expected an addend of type " << getResult().getType() << " but got "
                         << getAddend().getType();
  return verifyShadowExchange(*this, getGroup(), getTensorType(getResult()), getShadows(), getTensorType(getValues()));
}
LogicalResult ReduceExpertsOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                         SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferShadowSpmd(*this, getGroup(), axes, operands, required, results);
}
SmallVector<Value> ReduceExpertsOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  Value values =
      builder.create<BroadcastExpertsOp>(getLoc(), getValues().getType(), cotangents[0], getShadows(), getGroup());
  return {values, Value(), getAddend() ? cotangents[0] : Value()};
}
OpCost ReduceExpertsOp::getOpCost() {
  OpCost cost = getShadowExchangeCost(*this, Collective::Reduce, getValues());
  cost.flops = static_cast<double>(getTensorType(getValues()).getNumElements());
  return cost;
}
SmallVector<Value> ReduceExpertsOp::getKernelInputs() { return {getValues(), getShadows(), getAddend()}; }
