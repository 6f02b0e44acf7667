//===- MoeGather.cpp - gathers and slices of a group's values -------------===//
#include "MoeComm.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::moe;

void AllGatherOp::build(OpBuilder &builder, OperationState &state, Value input, GroupAttr group, int64_t dim) {
  build(builder, state, scaleDim(input, dim, group.getSize(), 1), input, group, dim);
}
LogicalResult AllGatherOp::verify() {
  return verifyPart(*this, getGroup(), getDim(), getResult().getType(), getInput().getType());
}
SmallVector<Value> AllGatherOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<SliceOp>(getLoc(), cotangents[0], getGroup(), getDim())};
}
OpCost AllGatherOp::getOpCost() { return getExchangeCost(*this, Collective::AllGather, getResult()); }
SmallVector<Attribute> AllGatherOp::getKernelParams() { return {getDimAttr()}; }
SmallVector<CountsRule> AllGatherOp::getCountsRules() {
  if (!isCounts(getResult().getType()))
    return {};
  return {{0, counts::Gather{0, getDim()}}};
}
/// All members have to gather the same block at one time.
bool AllGatherOp::canSplit(int64_t parts, GroupAttr group) {
  int64_t block = group.getStride() * group.getSize() / parts;
  return getDim() != 0 && block % (getGroup().getStride() * getGroup().getSize()) == 0;
}
Value AllGatherOp::buildOnPart(OpBuilder &builder, Value part, int64_t) {
  return builder.create<AllGatherOp>(getLoc(), part, getGroup(), getDim());
}
OpFoldResult AllGatherOp::fold(FoldAdaptor) {
  auto slice = getInput().getDefiningOp<SliceOp>();
  if (slice && slice.getGroup().hasSameRanks(getGroup()) && slice.getDim() == getDim())
    return slice.getInput();
  return {};
}

void SliceOp::build(OpBuilder &builder, OperationState &state, Value input, GroupAttr group, int64_t dim) {
  build(builder, state, scaleDim(input, dim, 1, group.getSize()), input, group, dim);
}
LogicalResult SliceOp::verify() {
  return verifyPart(*this, getGroup(), getDim(), getInput().getType(), getResult().getType());
}
SmallVector<Value> SliceOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<AllGatherOp>(getLoc(), cotangents[0], getGroup(), getDim())};
}
OpCost SliceOp::getOpCost() {
  OpCost cost = getMemoryCost(*this);
  cost.bytesRead = cost.bytesWritten;
  return cost;
}
/// A part along the outermost dimension is one piece of memory.
bool SliceOp::isAlias() { return getDim() == 0; }
std::optional<RankPart> SliceOp::getAliasPart(unsigned) { return RankPart{getGroup(), 0, getGroup().getSize()}; }
SmallVector<Attribute> SliceOp::getKernelParams() { return {getDimAttr()}; }
OpFoldResult SliceOp::fold(FoldAdaptor) {
  auto gather = getInput().getDefiningOp<AllGatherOp>();
  if (gather && gather.getGroup().hasSameRanks(getGroup()) && gather.getDim() == getDim())
    return gather.getInput();
  return {};
}

namespace {
/// Folds all_reduce and a slice over the same group into one reduce_scatter. It is worth it only if no other op needs
/// the whole sum.
struct FoldAllReduceIntoSlice : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp slice, PatternRewriter &rewriter) const override {
    auto reduce = slice.getInput().getDefiningOp<AllReduceOp>();
    if (!reduce || !reduce.getGroup().hasSameRanks(slice.getGroup()))
      return rewriter.notifyMatchFailure(slice, "operand is no all_reduce over the same group");
    if (reduce.getCounts())
      return rewriter.notifyMatchFailure(slice, "a ragged sum has no even parts");
    if (!reduce->hasOneUse())
      return rewriter.notifyMatchFailure(slice, "the whole sum is needed elsewhere");
    DictionaryAttr attributes = slice->getDiscardableAttrDictionary();
    auto scatter = rewriter.replaceOpWithNewOp<ReduceScatterOp>(slice, slice.getType(), reduce.getInput(),
                                                                slice.getGroup(), slice.getDim());
    // The reduce_scatter takes the slice's chunk, stage and ring.
    scatter->setDiscardableAttrs(attributes);
    return success();
  }
};
} // namespace

/// Whether `value` adds up sums over `group` that no other op needs.
static bool isOfSums(Value value, GroupAttr group) {
  if (!value.hasOneUse())
    return false;
  if (auto add = value.getDefiningOp<AddOp>())
    return isOfSums(add->getOperand(0), group) && isOfSums(add->getOperand(1), group);
  auto reduce = value.getDefiningOp<AllReduceOp>();
  auto scatter = reduce ? GroupAttr(reduce.getGroup()) : GroupAttr();
  return reduce && !reduce.getCounts() && scatter.hasSameRanks(group);
}

/// Turns a part of several added sums over ranks into the sum of their parts, each of which is a reduce_scatter.
static LogicalResult sliceTerms(SliceOp slice, PatternRewriter &rewriter) {
  auto add = slice.getInput().getDefiningOp<AddOp>();
  if (!add || !isOfSums(add, slice.getGroup()))
    return failure();
  SmallVector<Value> parts;
  for (Value term : add->getOperands()) {
    // A part belongs to the micro-batch of its term.
    rewriter.setInsertionPointAfterValue(term);
    auto part = rewriter.create<SliceOp>(term.getLoc(), term, slice.getGroup(), slice.getDim());
    part->setDiscardableAttrs(term.getDefiningOp()->getDiscardableAttrDictionary());
    parts.push_back(part);
  }
  rewriter.setInsertionPointAfter(add);
  auto sum = rewriter.create<AddOp>(add.getLoc(), parts[0], parts[1]);
  sum->setDiscardableAttrs(add->getDiscardableAttrDictionary());
  rewriter.replaceOp(slice, sum);
  return success();
}

void SliceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FoldAllReduceIntoSlice>(context);
  patterns.add(sliceTerms);
}

LogicalResult SliceCountsOp::verify() {
  if (getCounts().getType().getDimSize(0) != 1)
    return emitOpError() << "expected counts of one block but got " << getCounts().getType();
  if (int64_t rows = getRows(); rows < 0 || rows % getGroup().getSize() != 0)
    return emitOpError() << "expected rows to be divisible by the group's size " << getGroup().getSize() << " but got "
                         << rows;
  return success();
}
bool SliceCountsOp::canChunk(RowChunk chunk) {
  return chunk.divides(getRows()) && chunk.of(getRows()) % getGroup().getSize() == 0;
}
Operation *SliceCountsOp::buildOnChunk(OpBuilder &builder, IRMapping &mapping, RowChunk chunk) {
  auto clone = cast<SliceCountsOp>(builder.clone(*getOperation(), mapping));
  clone.setRows(chunk.of(getRows()));
  return clone;
}
SmallVector<Attribute> SliceCountsOp::getKernelParams() { return {getRowsAttr()}; }
SmallVector<CountsRule> SliceCountsOp::getCountsRules() { return {{0, counts::SliceRows{0, getRows()}}}; }

void LocalSlotsOp::build(OpBuilder &builder, OperationState &state, Value slots, Value counts, GroupAttr group,
                         int64_t capacity, int64_t room, int64_t copies) {
  build(builder, state, TypeRange{slots.getType(), scaleDim(counts, 1, copies, group.getSize())}, slots, counts, group,
        capacity, room, copies);
}
LogicalResult LocalSlotsOp::verify() {
  int64_t size = getGroup().getSize(), copies = getCopies(), capacity = getCapacity(), room = getRoom();
  if (copies < 1 || size % copies != 0)
    return emitOpError() << "expected copies to divide the group's size " << size << " but got " << copies;
  RankedTensorType routed = getRoutedCounts().getType(), own = getCounts().getType();
  if (routed.getDimSize(0) != 1 || own.getDimSize(0) != 1 || own.getDimSize(1) * size != routed.getDimSize(1) * copies)
    return emitOpError() << "expected routed_counts [1, E] and counts [1, E / " << size / copies << "] but got "
                         << routed << " and " << own;
  if (capacity < 0 || room < 0 || (capacity > 0 && room > 0))
    return emitOpError() << "expected capacity and room of at least 0, one of them 0, but got " << capacity << " and "
                         << room;
  return success();
}
SmallVector<Attribute> LocalSlotsOp::getKernelParams() { return {getCapacityAttr(), getRoomAttr(), getCopiesAttr()}; }
SmallVector<CountsRule> LocalSlotsOp::getCountsRules() {
  return {{getResultNumber(getCounts()), counts::OwnExperts{1, getCopies()}}};
}
