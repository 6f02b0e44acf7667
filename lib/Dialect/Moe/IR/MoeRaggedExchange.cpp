//===- MoeRaggedExchange.cpp - exchanges of rows that experts count -------===//
#include "MoeComm.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::moe;

RankedTensorType AllToAllVOp::getBlockSideType() {
  return getDirection() == Direction::to_experts ? getRows().getType() : getResult().getType();
}
void AllToAllVOp::build(OpBuilder &builder, OperationState &state, Type result, Value rows, Value blockCounts,
                        Value expertCounts, GroupAttr group, Direction direction, int64_t copies) {
  build(builder, state, result, rows, blockCounts, expertCounts, /*addend=*/Value(), group, direction, copies);
}
/// Verifies that the phase and those of its addends are different phases of one exchange.
static LogicalResult verifyOtherPhases(AllToAllVOp op) {
  if (!op.getAddend())
    return success();
  if (op.getDirection() != Direction::from_experts)
    return op.emitOpError() << "expected no addend with direction to_experts";
  if (op.getAddend().getType() != op.getResult().getType())
    return op.emitOpError() << "expected an addend of type " << op.getResult().getType() << " but got "
                            << op.getAddend().getType();
  if (!op.canAccumulate(op.getAddend()))
    return op.emitOpError()
           << "expected the addend to be the result of other phases of the same exchange from the experts";
  return success();
}
LogicalResult AllToAllVOp::verify() {
  RankedTensorType blockCounts = getBlockCounts().getType(), expertCounts = getExpertCounts().getType();
  int64_t size = getGroup().getSize(), copies = getCopies(), phase = getPhase(), phases = getPhases();
  if (copies < 1 || size % copies != 0)
    return emitOpError() << "expected copies to divide the group's size " << size << " but got " << copies;
  if (phases < 1 || size / copies % phases != 0 || phase < 0 || phase >= phases)
    return emitOpError() << "expected phases to divide " << size / copies
                         << ", the group's size over copies, and phase to be one of them but got phase " << phase
                         << " of " << phases;
  if (blockCounts.getDimSize(0) < 1)
    return emitOpError() << "expected at least one block but got block_counts " << blockCounts;
  if (expertCounts.getDimSize(0) * phases != size * blockCounts.getDimSize(0) ||
      expertCounts.getDimSize(1) * size != blockCounts.getDimSize(1) * copies)
    return emitOpError() << "expected expert_counts to be [" << size / phases << " B, E / " << size / copies
                         << "] for block_counts [B, E] " << blockCounts << " but got " << expertCounts;
  if (failed(verifyOtherPhases(*this)))
    return failure();
  RankedTensorType blocks = getBlockSideType();
  if (blocks.getDimSize(0) % (blockCounts.getDimSize(0) * copies) != 0)
    return emitOpError() << "expected the block side to have a multiple of " << blockCounts.getDimSize(0) * copies
                         << " rows but got " << blocks;
  if (getRows().getType().getDimSize(1) != getResult().getType().getDimSize(1) ||
      getRows().getType().getElementType() != getResult().getType().getElementType())
    return emitOpError() << "expected rows and result to have the same columns but got " << getRows().getType()
                         << " and " << getResult().getType();
  return success();
}
SmallVector<Value> AllToAllVOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  Direction back = getDirection() == Direction::to_experts ? Direction::from_experts : Direction::to_experts;
  Value rows =
      builder.create<AllToAllVOp>(getLoc(), getRows().getType(), cotangents[0], getBlockCounts(), getExpertCounts(),
                                  /*addend=*/Value(), getGroup(), back, getCopies(), getPhase(), getPhases());
  // Rows of other phases do not overlap with the rows of this one.
  return {rows, Value(), Value(), getAddend() ? cotangents[0] : Value()};
}
/// Accepts only other phases of this exchange: they write other rows of the block side, and leave these zero.
bool AllToAllVOp::canAccumulate(Value addend) {
  int64_t phases = getPhases();
  llvm::SmallBitVector seen(phases);
  for (AllToAllVOp op = *this; op; op = addend.getDefiningOp<AllToAllVOp>()) {
    if (op != *this &&
        (op.getDirection() != getDirection() || !op.getGroup().hasSameRanks(getGroup()) ||
         op.getBlockCounts() != getBlockCounts() || op.getCopies() != getCopies() || op.getPhases() != phases))
      return false;
    if (getDirection() != Direction::from_experts || seen.test(op.getPhase()))
      return false;
    seen.set(op.getPhase());
    if (op != *this)
      addend = op.getAddend();
    if (!addend)
      return true;
  }
  return false;
}
/// Divides the block side. The expert side keeps room for the same number of rows for each row that is sent.
bool AllToAllVOp::canChunk(RowChunk chunk) { return chunk.divides(getBlockSideType().getDimSize(0)); }
Operation *AllToAllVOp::buildOnChunk(OpBuilder &builder, IRMapping &mapping, RowChunk chunk) {
  auto type = getResult().getType();
  int64_t rows = type.getDimSize(0);
  rows = getDirection() == Direction::to_experts ? llvm::divideCeil(rows * chunk.part, chunk.whole) : chunk.of(rows);
  Operation *clone = builder.clone(*getOperation(), mapping);
  clone->getResult(0).setType(type.clone({rows, type.getDimSize(1)}));
  return clone;
}
/// Every member of the smaller group sends all of its rows to each member.
Operation *AllToAllVOp::buildOnShadows(OpBuilder &builder, IRMapping &mapping, ShadowScope scope) {
  auto clone = cast<AllToAllVOp>(cloneOnShadows(*this, builder, mapping));
  clone.setGroupAttr(scope.getGroup(getGroup()));
  if (getDirection() == Direction::to_experts) {
    int64_t rows = clone.getRows().getType().getDimSize(0) / getCopies();
    RankedTensorType type = getResult().getType();
    clone.getResult().setType(type.clone({rows * clone.getGroup().getSize(), type.getDimSize(1)}));
  } else {
    clone.getResult().setType(getResult().getType());
  }
  return clone;
}
OpCost AllToAllVOp::getOpCost() {
  // The block side is always full. The division of its rows over the members is known at run time only. On the exchange
  // back a member sends the rows that its experts received.
  bool toExperts = getDirection() == Direction::to_experts;
  OpCost cost = getExchangeCost(*this, Collective::AllToAll, toExperts ? Value(getRows()) : Value(getResult()));
  int64_t phases = getPhases();
  int64_t rows = getBlockSideType().getDimSize(0);
  cost.raggedRows = static_cast<int64_t>(llvm::divideCeil(rows, phases));
  cost.payload = rows ? cost.payload / rows * cost.raggedRows : 0;
  cost.bytesRead = cost.bytesWritten = cost.payload;
  cost.phase = getPhase();
  cost.phases = phases;
  cost.copies = getCopies();
  cost.countsInput = toExperts ? 1 : 2;
  cost.peerDim = toExperts ? 1 : 0;
  return cost;
}
/// Rule of rows of choices, of which the number for each expert is known.
SmallVector<CountsRule> AllToAllVOp::getCountsRules() {
  if (!getResult().getType().getElementType().isInteger())
    return {};
  return {{0, counts::ArrivedChoices{0}}};
}
Value AllToAllVOp::getStoredRows() {
  auto dump = getRows().getDefiningOp<DumpOp>();
  bool whole = dump && getDirection() == Direction::to_experts && dump.getDim() == 0 && dump.getBlocks() == 1 &&
               dump.getCopies() == getCopies();
  return whole ? dump.getInput() : getRows();
}
SmallVector<Value> AllToAllVOp::getKernelInputs() {
  return {getStoredRows(), getBlockCounts(), getExpertCounts(), getAddend()};
}
SmallVector<Attribute> AllToAllVOp::getKernelParams() {
  int64_t copies = getCopies();
  return getIntParams(getContext(), {static_cast<int64_t>(getDirection()), copies,
                                     getStoredRows() == getRows() ? copies : 1, getPhase(), getPhases()});
}
OpFoldResult AllToAllVOp::fold(FoldAdaptor) {
  // One block of one rank is already sorted by expert.
  bool identity =
      getBlockCounts().getType().getDimSize(0) == 1 && !getAddend() && getRows().getType() == getResult().getType();
  return identity && getGroup().getSize() == 1 ? OpFoldResult(getRows()) : OpFoldResult();
}
