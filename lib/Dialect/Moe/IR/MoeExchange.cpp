//===- MoeExchange.cpp - exchanges of equal parts -------------------------===//
#include "MoeComm.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::moe;

/// Type after the exchange, or null if the dimensions do not allow it.
static RankedTensorType getExchangedType(RankedTensorType input, int64_t size, int64_t splitDim, int64_t concatDim) {
  auto inRange = [&](int64_t dim) { return dim >= 0 && dim < input.getRank(); };
  if (!inRange(splitDim) || !inRange(concatDim) || input.getDimSize(splitDim) % size != 0)
    return {};
  SmallVector<int64_t> shape(input.getShape());
  shape[splitDim] /= size;
  shape[concatDim] *= size;
  return input.clone(shape);
}

void AllToAllOp::build(OpBuilder &builder, OperationState &state, Value input, GroupAttr group, int64_t splitDim,
                       int64_t concatDim) {
  auto type = getTensorType(input);
  build(builder, state, getExchangedType(type, group.getSize(), splitDim, concatDim), input, group, splitDim,
        concatDim);
}
LogicalResult AllToAllOp::verify() {
  RankedTensorType input = getInput().getType(), result = getResult().getType();
  RankedTensorType expected = getExchangedType(input, getGroup().getSize(), getSplitDim(), getConcatDim());
  if (!expected)
    return emitOpError() << "expected split_dim and concat_dim to be dimensions of " << input
                         << ", the first divisible by " << getGroup().getSize() << ", but got " << getSplitDim()
                         << " and " << getConcatDim();
  if (result != expected)
    return emitOpError() << "expected the result to be " << expected << " but got " << result;
  return success();
}
SmallVector<Value> AllToAllOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  bool floating = isa<FloatType>(getInput().getType().getElementType());
  return {floating ? builder.create<AllToAllOp>(getLoc(), cotangents[0], getGroup(), getConcatDim(), getSplitDim())
                   : Value()};
}
/// The value in memory for `input`, which has an exchange's parts for `size` members along `splitDim`: the input, or
/// the operand of a moe.dump that made equal parts for neighbouring members.
static Value getStored(Value input, int64_t splitDim, int64_t size) {
  auto dump = input.getDefiningOp<DumpOp>();
  bool whole = dump && dump.getDim() == splitDim && dump.getBlocks() * dump.getCopies() == size;
  return whole ? dump.getInput() : input;
}
Value AllToAllOp::getStoredInput() { return getStored(getInput(), getSplitDim(), getGroup().getSize()); }

/// Cost of one of `phases` phases, which together move what the whole exchange moves. Each byte in memory is read once.
static OpCost getAllToAllCost(Operation *op, Value input, Value stored, int64_t phase, int64_t phases) {
  OpCost cost = getExchangeCost(op, Collective::AllToAll, input);
  cost.payload /= phases;
  cost.bytesRead = getByteSize(stored.getType()) / phases;
  cost.phase = phase;
  cost.phases = phases;
  return cost;
}

/// Number of neighbouring members that get the same part of the value in memory.
static int64_t getCopies(Value input, Value stored, int64_t splitDim) {
  auto parts = [&](Value value) { return getTensorType(value).getDimSize(splitDim); };
  return parts(stored) ? parts(input) / parts(stored) : 1;
}

/// Parameters split_dim, concat_dim, copies, phase and phases.
static SmallVector<Attribute> getAllToAllParams(Value input, Value stored, int64_t splitDim, int64_t concatDim,
                                                int64_t phase, int64_t phases) {
  return getIntParams(input.getContext(), {splitDim, concatDim, getCopies(input, stored, splitDim), phase, phases});
}

Operation *AllToAllOp::buildOnShadows(OpBuilder &builder, IRMapping &mapping, ShadowScope scope) {
  auto exchange = builder.create<AllToAllOp>(getLoc(), mapping.lookupOrDefault(getInput()), scope.getGroup(getGroup()),
                                             getSplitDim(), getConcatDim());
  mapping.map(getResult(), exchange.getResult());
  return exchange;
}
OpCost AllToAllOp::getOpCost() { return getAllToAllCost(*this, getInput(), getStoredInput(), 0, 1); }
SmallVector<Value> AllToAllOp::getKernelInputs() { return {getStoredInput()}; }
SmallVector<Attribute> AllToAllOp::getKernelParams() {
  return getAllToAllParams(getInput(), getStoredInput(), getSplitDim(), getConcatDim(), 0, 1);
}
SmallVector<CountsRule> AllToAllOp::getCountsRules() {
  if (!isCounts(getResult().getType()))
    return {};
  int64_t split = getSplitDim(), concat = getConcatDim();
  return {{0, counts::Exchange{0, split, concat, getCopies(getInput(), getStoredInput(), split)}}};
}

static LogicalResult verifyPhase(Operation *op, int64_t phase, int64_t phases, int64_t size) {
  if (phases >= 1 && size % phases == 0 && phase >= 0 && phase < phases)
    return success();
  return op->emitOpError() << "expected phases to divide the group's size " << size
                           << " and phase to be one of them but got phase " << phase << " of " << phases;
}

LogicalResult AllToAllPhaseOp::verify() {
  int64_t phases = getPhases(), size = getGroup().getSize();
  if (failed(verifyPhase(*this, getPhase(), phases, size)))
    return failure();
  RankedTensorType whole = getExchangedType(getInput().getType(), size, getSplitDim(), getConcatDim());
  if (!whole)
    return emitOpError() << "expected split_dim and concat_dim to be dimensions of " << getInput().getType()
                         << ", the first divisible by " << size << ", but got " << getSplitDim() << " and "
                         << getConcatDim();
  if (getResult().getType() != withDim(whole, getConcatDim(), whole.getDimSize(getConcatDim()) / phases))
    return emitOpError() << "expected the result to be one of " << phases << " parts of " << whole << " but got "
                         << getResult().getType();
  return success();
}
Value AllToAllPhaseOp::getStoredInput() { return getStored(getInput(), getSplitDim(), getGroup().getSize()); }
OpCost AllToAllPhaseOp::getOpCost() {
  return getAllToAllCost(*this, getInput(), getStoredInput(), getPhase(), getPhases());
}
StringRef AllToAllPhaseOp::getKernelName() { return "all_to_all"; }
SmallVector<Value> AllToAllPhaseOp::getKernelInputs() { return {getStoredInput()}; }
SmallVector<Attribute> AllToAllPhaseOp::getKernelParams() {
  return getAllToAllParams(getInput(), getStoredInput(), getSplitDim(), getConcatDim(), getPhase(), getPhases());
}

void JoinPhasesOp::build(OpBuilder &builder, OperationState &state, ValueRange parts, GroupAttr group) {
  build(builder, state, scaleDim(parts.front(), 0, static_cast<int64_t>(parts.size()), 1), parts, group);
}
LogicalResult JoinPhasesOp::verify() {
  int64_t parts = getParts().size();
  if (parts == 0 || getGroup().getSize() % parts != 0)
    return emitOpError() << "expected the number of parts to divide the group's size " << getGroup().getSize()
                         << " but got " << parts;
  auto part = cast<RankedTensorType>(getParts().front().getType());
  if (part.getRank() == 0 || getResult().getType() != scaleDim(getParts().front(), 0, parts, 1))
    return emitOpError() << "expected the result to be " << part << " with dimension 0 times " << parts << " but got "
                         << getResult().getType();
  return success();
}
LogicalResult JoinPhasesOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                      SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  if (failed(axes.getAxes(*this, getGroup())))
    return failure();
  // Members of one block order the parts alike. Those of different blocks do not.
  int64_t parts = getParts().size();
  AxisSet blocks = axes.getCovering(
      GroupAttr::get(getContext(), getGroup().getName(), parts, getGroup().getStride() * getGroup().getSize() / parts));
  AxisSet all = unite(operands);
  required.assign(operands.size(), all);
  results.assign(1, all | blocks);
  return success();
}
StringRef JoinPhasesOp::getKernelName() { return ""; }
std::optional<RankPart> JoinPhasesOp::getOperandPart(unsigned operand) {
  return RankPart{getGroup(), operand, static_cast<int64_t>(getParts().size())};
}

void PhaseOp::build(OpBuilder &builder, OperationState &state, Value input, GroupAttr group, int64_t phase,
                    int64_t phases) {
  build(builder, state, scaleDim(input, 0, 1, phases), input, group, phase, phases);
}
LogicalResult PhaseOp::verify() {
  if (failed(verifyPhase(*this, getPhase(), getPhases(), getGroup().getSize())))
    return failure();
  if (getInput().getType() != scaleDim(getResult(), 0, getPhases(), 1))
    return emitOpError() << "expected the input to be " << getResult().getType() << " with dimension 0 times "
                         << getPhases() << " but got " << getInput().getType();
  return success();
}
bool PhaseOp::isAlias() { return true; }
std::optional<RankPart> PhaseOp::getAliasPart(unsigned) { return RankPart{getGroup(), getPhase(), getPhases()}; }
OpFoldResult PhaseOp::fold(FoldAdaptor) { return getPhases() == 1 ? OpFoldResult(getInput()) : OpFoldResult(); }
