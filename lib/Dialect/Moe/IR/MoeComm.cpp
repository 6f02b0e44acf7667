//===- MoeComm.cpp - collectives: states, adjoints, costs -----------------===//
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// What they share
//===----------------------------------------------------------------------===//

/// All operands vary over the group; the first result too (`varies`), or it is replicated.
static LogicalResult inferGroupSpmd(Operation *op, GroupAttr group, const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                    bool varies, SmallVectorImpl<AxisSet> &required,
                                    SmallVectorImpl<AxisSet> &results) {
  FailureOr<AxisSet> set = axes.getAxes(op, group);
  if (failed(set))
    return failure();
  AxisSet all = *set;
  for (AxisSet operand : operands)
    all = all | operand;
  required.assign(operands.size(), all);
  results.assign(1, varies ? all : all - *set);
  return success();
}

/// The operands are replicated over the group and the results vary over it.
static LogicalResult inferReplicatedSpmd(Operation *op, GroupAttr group, const SpmdAxes &axes,
                                         ArrayRef<AxisSet> operands, SmallVectorImpl<AxisSet> &required,
                                         SmallVectorImpl<AxisSet> &results) {
  FailureOr<AxisSet> set = axes.getAxes(op, group);
  if (failed(set))
    return failure();
  AxisSet all;
  for (AxisSet operand : operands) {
    if (!(operand & *set).empty())
      return op->emitOpError() << "expected an operand replicated over group '" << group.getName()
                               << "' but it varies over " << axes.describe(operand);
    all = all | operand;
  }
  required.assign(operands.size(), all);
  results.assign(op->getNumResults(), all | *set);
  return success();
}

/// `part` is `whole` with dimension `dim` divided by the group's size.
static LogicalResult verifyPart(Operation *op, GroupAttr group, int64_t dim, RankedTensorType whole,
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

static RankedTensorType scaleDim(Value value, int64_t dim, int64_t multiply, int64_t divide) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = shape[dim] * multiply / divide;
  return RankedTensorType::get(shape, type.getElementType());
}

/// An exchange of the values' `payload`, as Collective says what that is.
static OpCost getExchangeCost(Operation *op, Collective collective, Value payload) {
  OpCost cost = getMemoryCost(op);
  cost.resource = Resource::Network;
  cost.collective = collective;
  cost.payload = getByteSize(payload.getType());
  return cost;
}

/// The same with a sum, one operation for each element of the payload.
static OpCost getReductionCost(Operation *op, Collective collective, Value payload) {
  OpCost cost = getExchangeCost(op, collective, payload);
  cost.flops = static_cast<double>(cast<RankedTensorType>(payload.getType()).getNumElements());
  return cost;
}

static SmallVector<Attribute> getIntParams(MLIRContext *context, ArrayRef<int64_t> values) {
  Builder builder(context);
  return llvm::map_to_vector(values, [&](int64_t value) -> Attribute { return builder.getI64IntegerAttr(value); });
}

static LogicalResult verifyCounts(Operation *op, RankedTensorType rows, Value counts) {
  if (counts && rows.getRank() != 2)
    return op->emitOpError() << "expected 2-D rows with counts but got " << rows;
  return success();
}

static LogicalResult verifyRoot(Operation *op, GroupAttr group, int64_t root) {
  if (root < 0 || root >= group.getSize())
    return op->emitOpError() << "expected root to be between 0 and " << group.getSize() - 1 << " but got " << root;
  return success();
}

/// Groups of one size and stride are the same, whatever their names.
static bool isSameGroup(GroupAttr a, GroupAttr b) {
  return a.getSize() == b.getSize() && a.getStride() == b.getStride();
}

/// Over one rank every collective is the identity.
static OpFoldResult foldSingle(GroupAttr group, Value input) {
  return group.getSize() == 1 ? OpFoldResult(input) : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// AllGatherOp
//===----------------------------------------------------------------------===//

void AllGatherOp::build(OpBuilder &builder, OperationState &state, Value input, GroupAttr group, int64_t dim) {
  build(builder, state, scaleDim(input, dim, group.getSize(), 1), input, group, dim);
}
LogicalResult AllGatherOp::verify() {
  return verifyPart(*this, getGroup(), getDim(), getResult().getType(), getInput().getType());
}
LogicalResult AllGatherOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                     SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferGroupSpmd(*this, getGroup(), axes, operands, /*varies=*/false, required, results);
}
void AllGatherOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents, SmallVectorImpl<Value> &gradients) {
  gradients.push_back(builder.create<SliceOp>(getLoc(), cotangents[0], getGroup(), getDim()));
}
OpCost AllGatherOp::getOpCost() { return getExchangeCost(*this, Collective::AllGather, getResult()); }
SmallVector<Attribute> AllGatherOp::getKernelParams() {
  return getIntParams(getContext(), {static_cast<int64_t>(getDim())});
}
SmallVector<CountsRule> AllGatherOp::getCountsRules() {
  if (!isCounts(getResult().getType()))
    return {};
  return {{0, counts::Gather{0, static_cast<int64_t>(getDim())}}};
}
/// All members have to gather the same block at once.
bool AllGatherOp::canSplit(int64_t parts, GroupAttr group) {
  int64_t block = group.getStride() * group.getSize() / parts;
  return getDim() != 0 && block % (getGroup().getStride() * getGroup().getSize()) == 0;
}
Value AllGatherOp::buildOnPart(OpBuilder &builder, Value part, int64_t) {
  return builder.create<AllGatherOp>(getLoc(), part, getGroup(), getDim());
}
OpFoldResult AllGatherOp::fold(FoldAdaptor) {
  auto slice = getInput().getDefiningOp<SliceOp>();
  if (slice && isSameGroup(slice.getGroup(), getGroup()) && slice.getDim() == getDim())
    return slice.getInput();
  return foldSingle(getGroup(), getInput());
}

//===----------------------------------------------------------------------===//
// SliceOp
//===----------------------------------------------------------------------===//

void SliceOp::build(OpBuilder &builder, OperationState &state, Value input, GroupAttr group, int64_t dim) {
  build(builder, state, scaleDim(input, dim, 1, group.getSize()), input, group, dim);
}
LogicalResult SliceOp::verify() {
  return verifyPart(*this, getGroup(), getDim(), getInput().getType(), getResult().getType());
}
LogicalResult SliceOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands, SmallVectorImpl<AxisSet> &required,
                                 SmallVectorImpl<AxisSet> &results) {
  return inferReplicatedSpmd(*this, getGroup(), axes, operands, required, results);
}
void SliceOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents, SmallVectorImpl<Value> &gradients) {
  gradients.push_back(builder.create<AllGatherOp>(getLoc(), cotangents[0], getGroup(), getDim()));
}
OpCost SliceOp::getOpCost() {
  if (isAlias())
    return {};
  OpCost cost = getMemoryCost(*this);
  cost.bytesRead = cost.bytesWritten;
  return cost;
}
StringRef SliceOp::getKernelName() { return isAlias() ? "" : "slice"; }
/// Along the outermost dimension a part is one piece of memory.
bool SliceOp::isAlias() { return getDim() == 0; }
std::optional<RankPart> SliceOp::getAliasPart(unsigned) { return RankPart{getGroup(), 0, getGroup().getSize()}; }
SmallVector<Attribute> SliceOp::getKernelParams() {
  return getIntParams(getContext(), {static_cast<int64_t>(getDim())});
}
OpFoldResult SliceOp::fold(FoldAdaptor) {
  auto gather = getInput().getDefiningOp<AllGatherOp>();
  if (gather && isSameGroup(gather.getGroup(), getGroup()) && gather.getDim() == getDim())
    return gather.getInput();
  return foldSingle(getGroup(), getInput());
}

namespace {
/// all_reduce, then slice over the same group, is one reduce_scatter; worth it only where nobody else needs the whole
/// sum.
struct FoldAllReduceIntoSlice : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp slice, PatternRewriter &rewriter) const override {
    auto reduce = slice.getInput().getDefiningOp<AllReduceOp>();
    if (!reduce || !isSameGroup(reduce.getGroup(), slice.getGroup()))
      return rewriter.notifyMatchFailure(slice, "operand is no all_reduce over the same group");
    if (reduce.getCounts())
      return rewriter.notifyMatchFailure(slice, "a ragged sum has no even parts");
    if (!reduce->hasOneUse())
      return rewriter.notifyMatchFailure(slice, "the whole sum is needed elsewhere");
    DictionaryAttr attributes = slice->getDiscardableAttrDictionary();
    auto scatter = rewriter.replaceOpWithNewOp<ReduceScatterOp>(slice, slice.getType(), reduce.getInput(),
                                                                slice.getGroup(), slice.getDim());
    // Its chunk, stage and ring are the slice's.
    scatter->setDiscardableAttrs(attributes);
    return success();
  }
};
} // namespace

/// Whether `value` is sums over `group` that nobody else needs, added up.
static bool isOfSums(Value value, GroupAttr group) {
  if (!value.hasOneUse())
    return false;
  if (auto add = value.getDefiningOp<AddOp>())
    return isOfSums(add->getOperand(0), group) && isOfSums(add->getOperand(1), group);
  auto reduce = value.getDefiningOp<AllReduceOp>();
  auto scatter = reduce ? GroupAttr(reduce.getGroup()) : GroupAttr();
  return reduce && !reduce.getCounts() && isSameGroup(scatter, group);
}

/// A part of several sums over ranks is the sum of their parts: then each is a reduce_scatter.
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

//===----------------------------------------------------------------------===//
// AllReduceOp
//===----------------------------------------------------------------------===//

LogicalResult AllReduceOp::verify() { return verifyCounts(*this, getInput().getType(), getCounts()); }
LogicalResult AllReduceOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                     SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  // Counts tell every member how many rows take part; they may be in any state.
  if (failed(inferGroupSpmd(*this, getGroup(), axes, operands.take_front(), /*varies=*/false, required, results)))
    return failure();
  llvm::append_range(required, operands.drop_front());
  return success();
}
void AllReduceOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents, SmallVectorImpl<Value> &gradients) {
  gradients.push_back(builder.create<ToVaryingOp>(getLoc(), cotangents[0], getGroup()));
  gradients.resize(getNumOperands());
}
OpCost AllReduceOp::getOpCost() {
  OpCost cost = getReductionCost(*this, Collective::AllReduce, getInput());
  if (getCounts()) {
    cost.raggedRows = getInput().getType().getDimSize(0);
    cost.countsInput = 1;
  }
  return cost;
}
SmallVector<Value> AllReduceOp::getKernelInputs() { return {getInput(), getCounts()}; }
SmallVector<int64_t> AllReduceOp::getInPlaceInputs() { return {0}; }
OpFoldResult AllReduceOp::fold(FoldAdaptor) { return foldSingle(getGroup(), getInput()); }

//===----------------------------------------------------------------------===//
// ToVaryingOp
//===----------------------------------------------------------------------===//

LogicalResult ToVaryingOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                     SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferReplicatedSpmd(*this, getGroup(), axes, operands, required, results);
}
void ToVaryingOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents, SmallVectorImpl<Value> &gradients) {
  gradients.push_back(
      builder.create<AllReduceOp>(getLoc(), cotangents[0].getType(), cotangents[0], /*counts=*/Value(), getGroup()));
}
OpCost ToVaryingOp::getOpCost() { return {}; }
StringRef ToVaryingOp::getKernelName() { return ""; }
bool ToVaryingOp::isAlias() { return true; }
OpFoldResult ToVaryingOp::fold(FoldAdaptor) { return foldSingle(getGroup(), getInput()); }

//===----------------------------------------------------------------------===//
// ReduceScatterOp
//===----------------------------------------------------------------------===//

LogicalResult ReduceScatterOp::verify() {
  return verifyPart(*this, getGroup(), getDim(), getInput().getType(), getResult().getType());
}
LogicalResult ReduceScatterOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                         SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferGroupSpmd(*this, getGroup(), axes, operands, /*varies=*/true, required, results);
}
void ReduceScatterOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents, SmallVectorImpl<Value> &gradients) {
  Value whole = builder.create<AllGatherOp>(getLoc(), cotangents[0], getGroup(), getDim());
  gradients.push_back(builder.create<ToVaryingOp>(getLoc(), whole, getGroup()));
}
OpCost ReduceScatterOp::getOpCost() { return getReductionCost(*this, Collective::ReduceScatter, getInput()); }
SmallVector<Attribute> ReduceScatterOp::getKernelParams() {
  return getIntParams(getContext(), {static_cast<int64_t>(getDim())});
}
OpFoldResult ReduceScatterOp::fold(FoldAdaptor) { return foldSingle(getGroup(), getInput()); }

//===----------------------------------------------------------------------===//
// AllToAllOp
//===----------------------------------------------------------------------===//

/// The type after the exchange, or null where the dimensions do not allow it.
static RankedTensorType getExchangedType(RankedTensorType input, int64_t size, int64_t splitDim, int64_t concatDim) {
  auto inRange = [&](int64_t dim) { return dim >= 0 && dim < input.getRank(); };
  if (!inRange(splitDim) || !inRange(concatDim) || input.getDimSize(splitDim) % size != 0)
    return {};
  SmallVector<int64_t> shape(input.getShape());
  shape[splitDim] /= size;
  shape[concatDim] *= size;
  return RankedTensorType::get(shape, input.getElementType());
}

void AllToAllOp::build(OpBuilder &builder, OperationState &state, Value input, GroupAttr group, int64_t splitDim,
                       int64_t concatDim) {
  auto type = cast<RankedTensorType>(input.getType());
  build(builder, state, getExchangedType(type, group.getSize(), splitDim, concatDim), input, group, splitDim,
        concatDim);
}
LogicalResult AllToAllOp::verify() {
  RankedTensorType input = getInput().getType(), result = getResult().getType();
  RankedTensorType expected = getExchangedType(input, getGroup().getSize(), getSplitDim(), getConcatDim());
  if (!expected)
    return emitOpError() << "expected split_dim and concat_dim to be dimensions of " << input
                         << ", the first divisible by " << getGroup().getSize() << ", but got "
                         << static_cast<int64_t>(getSplitDim()) << " and " << static_cast<int64_t>(getConcatDim());
  if (result != expected)
    return emitOpError() << "expected the result to be " << expected << " but got " << result;
  return success();
}
LogicalResult AllToAllOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                    SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferGroupSpmd(*this, getGroup(), axes, operands, /*varies=*/true, required, results);
}
void AllToAllOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents, SmallVectorImpl<Value> &gradients) {
  bool floating = isa<FloatType>(getInput().getType().getElementType());
  gradients.push_back(
      floating ? builder.create<AllToAllOp>(getLoc(), cotangents[0], getGroup(), getConcatDim(), getSplitDim())
               : Value());
}
/// What is in memory of `input`, an exchange's parts for `size` members along `splitDim`: itself, or what a moe.dump
/// that made equal parts for neighbouring members made them of.
static Value getStored(Value input, int64_t splitDim, int64_t size) {
  auto dump = input.getDefiningOp<DumpOp>();
  bool whole = dump && static_cast<int64_t>(dump.getDim()) == splitDim &&
               static_cast<int64_t>(dump.getBlocks()) * dump.getCopies() == size;
  return whole ? dump.getInput() : input;
}
Value AllToAllOp::getStoredInput() { return getStored(getInput(), getSplitDim(), getGroup().getSize()); }

/// `phases` of an exchange move what one of them does; of what is stored each byte is read once.
static OpCost getAllToAllCost(Operation *op, Value input, Value stored, int64_t phase, int64_t phases) {
  OpCost cost = getExchangeCost(op, Collective::AllToAll, input);
  cost.payload /= phases;
  cost.bytesRead = getByteSize(stored.getType()) / phases;
  cost.phase = phase;
  cost.phases = phases;
  return cost;
}

/// How many neighbouring members get the same part of what is stored.
static int64_t getCopies(Value input, Value stored, int64_t splitDim) {
  auto parts = [&](Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(splitDim); };
  return parts(stored) ? parts(input) / parts(stored) : 1;
}

/// split_dim, concat_dim, copies, phase, phases.
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
  auto split = static_cast<int64_t>(getSplitDim()), concat = static_cast<int64_t>(getConcatDim());
  return {{0, counts::Exchange{0, split, concat, getCopies(getInput(), getStoredInput(), split)}}};
}
OpFoldResult AllToAllOp::fold(FoldAdaptor) { return foldSingle(getGroup(), getInput()); }

//===----------------------------------------------------------------------===//
// AllToAllPhaseOp, JoinPhasesOp
//===----------------------------------------------------------------------===//

LogicalResult AllToAllPhaseOp::verify() {
  int64_t phase = getPhase(), phases = getPhases(), size = getGroup().getSize();
  if (phases < 1 || size % phases != 0 || phase < 0 || phase >= phases)
    return emitOpError() << "expected phases to divide the group's size " << size
                         << " and phase to be one of them but got phase " << phase << " of " << phases;
  RankedTensorType whole = getExchangedType(getInput().getType(), size, getSplitDim(), getConcatDim());
  if (!whole)
    return emitOpError() << "expected split_dim and concat_dim to be dimensions of " << getInput().getType()
                         << ", the first divisible by " << size << ", but got " << static_cast<int64_t>(getSplitDim())
                         << " and " << static_cast<int64_t>(getConcatDim());
  SmallVector<int64_t> shape(whole.getShape());
  shape[getConcatDim()] /= phases;
  if (getResult().getType() != RankedTensorType::get(shape, whole.getElementType()))
    return emitOpError() << "expected the result to be one of " << phases << " parts of " << whole << " but got "
                         << getResult().getType();
  return success();
}
LogicalResult AllToAllPhaseOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                         SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferGroupSpmd(*this, getGroup(), axes, operands, /*varies=*/true, required, results);
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
  // Members of one block order the parts alike; those of different blocks do not.
  int64_t parts = getParts().size();
  AxisSet blocks = axes.getCovering(
      GroupAttr::get(getContext(), getGroup().getName(), parts, getGroup().getStride() * getGroup().getSize() / parts));
  AxisSet all;
  for (AxisSet operand : operands)
    all = all | operand;
  required.assign(operands.size(), all);
  results.assign(1, all | blocks);
  return success();
}
OpCost JoinPhasesOp::getOpCost() { return {}; }
StringRef JoinPhasesOp::getKernelName() { return ""; }
std::optional<RankPart> JoinPhasesOp::getOperandPart(unsigned operand) {
  return RankPart{getGroup(), operand, static_cast<int64_t>(getParts().size())};
}

//===----------------------------------------------------------------------===//
// AllToAllVOp
//===----------------------------------------------------------------------===//

RankedTensorType AllToAllVOp::getBlockSideType() {
  return getDirection() == Direction::to_experts ? getRows().getType() : getResult().getType();
}
void AllToAllVOp::build(OpBuilder &builder, OperationState &state, Type result, Value rows, Value blockCounts,
                        Value expertCounts, GroupAttr group, Direction direction, int64_t copies) {
  build(builder, state, result, rows, blockCounts, expertCounts, /*addend=*/Value(), group, direction, copies);
}
/// The phase's own and those of its addends are different ones of one exchange.
static LogicalResult verifyAddend(AllToAllVOp op) {
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
  if (failed(verifyAddend(*this)))
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
LogicalResult AllToAllVOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                     SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferGroupSpmd(*this, getGroup(), axes, operands, /*varies=*/true, required, results);
}
void AllToAllVOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents, SmallVectorImpl<Value> &gradients) {
  Direction back = getDirection() == Direction::to_experts ? Direction::from_experts : Direction::to_experts;
  gradients.push_back(builder.create<AllToAllVOp>(getLoc(), getRows().getType(), cotangents[0], getBlockCounts(),
                                                  getExpertCounts(), /*addend=*/Value(), getGroup(), back, getCopies(),
                                                  getPhase(), getPhases()));
  gradients.resize(getNumOperands());
  // What other phases brought does not meet this one's rows.
  if (getAddend())
    gradients.back() = cotangents[0];
}
/// Other phases of this exchange alone: they write other rows of the block side, and leave these zero.
bool AllToAllVOp::canAccumulate(Value addend) {
  int64_t phases = getPhases();
  llvm::SmallBitVector seen(phases);
  for (AllToAllVOp op = *this; op; op = addend.getDefiningOp<AllToAllVOp>()) {
    if (op != *this && (op.getDirection() != getDirection() || !isSameGroup(op.getGroup(), getGroup()) ||
                        op.getBlockCounts() != getBlockCounts() || op.getCopies() != getCopies() ||
                        static_cast<int64_t>(op.getPhases()) != phases))
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
SmallVector<int64_t> AllToAllVOp::getInPlaceInputs() {
  return getAddend() ? SmallVector<int64_t>{3} : SmallVector<int64_t>();
}
/// The block side is divided; the expert side keeps room for as many rows for each that is sent.
bool AllToAllVOp::canChunk(RowChunk chunk) { return chunk.divides(getBlockSideType().getDimSize(0)); }
Operation *AllToAllVOp::buildOnChunk(OpBuilder &builder, IRMapping &mapping, RowChunk chunk) {
  auto type = getResult().getType();
  int64_t rows = type.getDimSize(0);
  rows = getDirection() == Direction::to_experts ? llvm::divideCeil(rows * chunk.part, chunk.whole) : chunk.of(rows);
  Operation *clone = builder.clone(*getOperation(), mapping);
  clone->getResult(0).setType(RankedTensorType::get({rows, type.getDimSize(1)}, type.getElementType()));
  return clone;
}
/// Every member of the smaller group sends all that it has to each.
Operation *AllToAllVOp::buildOnShadows(OpBuilder &builder, IRMapping &mapping, ShadowScope scope) {
  auto clone = cast<AllToAllVOp>(cloneOnShadows(*this, builder, mapping));
  clone.setGroupAttr(scope.getGroup(getGroup()));
  if (getDirection() == Direction::to_experts) {
    int64_t rows = clone.getRows().getType().getDimSize(0) / static_cast<int64_t>(getCopies());
    RankedTensorType type = getResult().getType();
    clone.getResult().setType(
        RankedTensorType::get({rows * clone.getGroup().getSize(), type.getDimSize(1)}, type.getElementType()));
  } else {
    clone.getResult().setType(getResult().getType());
  }
  return clone;
}
OpCost AllToAllVOp::getOpCost() {
  // The block side is always full; how its rows divide over the members is known at run time only. On the way back a
  // member sends what its experts received.
  bool toExperts = getDirection() == Direction::to_experts;
  OpCost cost = getExchangeCost(*this, Collective::AllToAll, toExperts ? Value(getRows()) : Value(getResult()));
  auto phases = static_cast<int64_t>(getPhases());
  int64_t rows = getBlockSideType().getDimSize(0);
  cost.raggedRows = static_cast<int64_t>(llvm::divideCeil(rows, phases));
  cost.payload = rows ? cost.payload / rows * cost.raggedRows : 0;
  cost.bytesRead = cost.bytesWritten = cost.payload;
  cost.phase = static_cast<int64_t>(getPhase());
  cost.phases = phases;
  cost.copies = static_cast<int64_t>(getCopies());
  cost.countsInput = toExperts ? 1 : 2;
  cost.peerDim = toExperts ? 1 : 0;
  return cost;
}
/// Rows of choices; how many choices of each expert they hold is known.
SmallVector<CountsRule> AllToAllVOp::getCountsRules() {
  if (!getResult().getType().getElementType().isInteger())
    return {};
  return {{0, counts::ArrivedChoices{0}}};
}
Value AllToAllVOp::getStoredRows() {
  auto dump = getRows().getDefiningOp<DumpOp>();
  bool whole = dump && getDirection() == Direction::to_experts && dump.getDim() == 0 && dump.getBlocks() == 1 &&
               dump.getCopies() == static_cast<int64_t>(getCopies());
  return whole ? dump.getInput() : getRows();
}
SmallVector<Value> AllToAllVOp::getKernelInputs() {
  return {getStoredRows(), getBlockCounts(), getExpertCounts(), getAddend()};
}
SmallVector<Attribute> AllToAllVOp::getKernelParams() {
  auto copies = static_cast<int64_t>(getCopies());
  return getIntParams(getContext(),
                      {static_cast<int64_t>(getDirection()), copies, getStoredRows() == getRows() ? copies : 1,
                       static_cast<int64_t>(getPhase()), static_cast<int64_t>(getPhases())});
}
OpFoldResult AllToAllVOp::fold(FoldAdaptor) {
  // One block of one rank is already sorted by expert.
  bool identity =
      getBlockCounts().getType().getDimSize(0) == 1 && !getAddend() && getRows().getType() == getResult().getType();
  return identity ? foldSingle(getGroup(), getRows()) : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// PhaseOp
//===----------------------------------------------------------------------===//

void PhaseOp::build(OpBuilder &builder, OperationState &state, Value input, GroupAttr group, int64_t phase,
                    int64_t phases) {
  build(builder, state, scaleDim(input, 0, 1, phases), input, group, phase, phases);
}
LogicalResult PhaseOp::verify() {
  int64_t phase = getPhase(), phases = getPhases(), size = getGroup().getSize();
  if (phases < 1 || size % phases != 0 || phase < 0 || phase >= phases)
    return emitOpError() << "expected phases to divide the group's size " << size
                         << " and phase to be one of them but got phase " << phase << " of " << phases;
  if (getInput().getType() != scaleDim(getResult(), 0, phases, 1))
    return emitOpError() << "expected the input to be " << getResult().getType() << " with dimension 0 times " << phases
                         << " but got " << getInput().getType();
  return success();
}
LogicalResult PhaseOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands, SmallVectorImpl<AxisSet> &required,
                                 SmallVectorImpl<AxisSet> &results) {
  return inferGroupSpmd(*this, getGroup(), axes, operands, /*varies=*/true, required, results);
}
void PhaseOp::buildAdjoint(OpBuilder &, ValueRange, SmallVectorImpl<Value> &gradients) { gradients.resize(1); }
OpCost PhaseOp::getOpCost() { return {}; }
StringRef PhaseOp::getKernelName() { return ""; }
bool PhaseOp::isAlias() { return true; }
std::optional<RankPart> PhaseOp::getAliasPart(unsigned) {
  return RankPart{getGroup(), static_cast<int64_t>(getPhase()), static_cast<int64_t>(getPhases())};
}
OpFoldResult PhaseOp::fold(FoldAdaptor) { return getPhases() == 1 ? OpFoldResult(getInput()) : OpFoldResult(); }

//===----------------------------------------------------------------------===//
// SliceCountsOp
//===----------------------------------------------------------------------===//

LogicalResult SliceCountsOp::verify() {
  if (getCounts().getType().getDimSize(0) != 1)
    return emitOpError() << "expected counts of one block but got " << getCounts().getType();
  if (int64_t rows = getRows(); rows < 0 || rows % getGroup().getSize() != 0)
    return emitOpError() << "expected rows to be divisible by the group's size " << getGroup().getSize() << " but got "
                         << rows;
  return success();
}
LogicalResult SliceCountsOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                       SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferReplicatedSpmd(*this, getGroup(), axes, operands, required, results);
}
void SliceCountsOp::buildAdjoint(OpBuilder &, ValueRange, SmallVectorImpl<Value> &gradients) { gradients.resize(1); }
bool SliceCountsOp::canChunk(RowChunk chunk) {
  return chunk.divides(getRows()) && chunk.of(getRows()) % getGroup().getSize() == 0;
}
Operation *SliceCountsOp::buildOnChunk(OpBuilder &builder, IRMapping &mapping, RowChunk chunk) {
  auto clone = cast<SliceCountsOp>(builder.clone(*getOperation(), mapping));
  clone.setRows(chunk.of(getRows()));
  return clone;
}
OpCost SliceCountsOp::getOpCost() { return getMemoryCost(*this); }
SmallVector<Attribute> SliceCountsOp::getKernelParams() {
  return getIntParams(getContext(), {static_cast<int64_t>(getRows())});
}
SmallVector<CountsRule> SliceCountsOp::getCountsRules() {
  return {{0, counts::SliceRows{0, static_cast<int64_t>(getRows())}}};
}
OpFoldResult SliceCountsOp::fold(FoldAdaptor) { return foldSingle(getGroup(), getCounts()); }

//===----------------------------------------------------------------------===//
// LocalSlotsOp
//===----------------------------------------------------------------------===//

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
LogicalResult LocalSlotsOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                      SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferReplicatedSpmd(*this, getGroup(), axes, operands, required, results);
}
void LocalSlotsOp::buildAdjoint(OpBuilder &, ValueRange, SmallVectorImpl<Value> &gradients) { gradients.resize(2); }
OpCost LocalSlotsOp::getOpCost() { return getMemoryCost(*this); }
SmallVector<Attribute> LocalSlotsOp::getKernelParams() { return {getCapacityAttr(), getRoomAttr(), getCopiesAttr()}; }
SmallVector<CountsRule> LocalSlotsOp::getCountsRules() {
  return {{getResultNumber(getCounts()), counts::OwnExperts{1, static_cast<int64_t>(getCopies())}}};
}

//===----------------------------------------------------------------------===//
// BroadcastOp, ReduceOp
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() { return verifyRoot(*this, getGroup(), getRoot()); }
LogicalResult BroadcastOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                     SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferGroupSpmd(*this, getGroup(), axes, operands, /*varies=*/false, required, results);
}
void BroadcastOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents, SmallVectorImpl<Value> &gradients) {
  // The cotangent of a replicated value is replicated: each member holds the whole, so the owner takes its own, and the
  // sum over the members would count it `size` times.
  Value share = builder.create<ScaleOp>(getLoc(), cotangents[0],
                                        builder.getF64FloatAttr(1.0 / static_cast<double>(getGroup().getSize())));
  Value varying = builder.create<ToVaryingOp>(getLoc(), share, getGroup(), /*shares=*/true);
  gradients.push_back(builder.create<ReduceOp>(getLoc(), varying, getGroup(), getRoot()));
}
OpCost BroadcastOp::getOpCost() {
  OpCost cost = getExchangeCost(*this, Collective::Broadcast, getInput());
  cost.root = static_cast<int64_t>(getRoot());
  return cost;
}
SmallVector<Attribute> BroadcastOp::getKernelParams() {
  return getIntParams(getContext(), {static_cast<int64_t>(getRoot())});
}
OpFoldResult BroadcastOp::fold(FoldAdaptor) { return foldSingle(getGroup(), getInput()); }

LogicalResult ReduceOp::verify() { return verifyRoot(*this, getGroup(), getRoot()); }
LogicalResult ReduceOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands, SmallVectorImpl<AxisSet> &required,
                                  SmallVectorImpl<AxisSet> &results) {
  return inferGroupSpmd(*this, getGroup(), axes, operands, /*varies=*/true, required, results);
}
void ReduceOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents, SmallVectorImpl<Value> &gradients) {
  Value whole = builder.create<BroadcastOp>(getLoc(), cotangents[0], getGroup(), getRoot());
  gradients.push_back(builder.create<ToVaryingOp>(getLoc(), whole, getGroup()));
}
OpCost ReduceOp::getOpCost() {
  OpCost cost = getReductionCost(*this, Collective::Reduce, getInput());
  cost.root = static_cast<int64_t>(getRoot());
  return cost;
}
SmallVector<Attribute> ReduceOp::getKernelParams() {
  return getIntParams(getContext(), {static_cast<int64_t>(getRoot())});
}
OpFoldResult ReduceOp::fold(FoldAdaptor) { return foldSingle(getGroup(), getInput()); }

namespace {
/// The adjoint of broadcast behind that of to_varying sums twice and divides once; one reduce does it.
struct FoldAllReduceIntoReduce : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReduceOp reduce, PatternRewriter &rewriter) const override {
    auto varying = reduce.getInput().getDefiningOp<ToVaryingOp>();
    auto scale = varying ? varying.getInput().getDefiningOp<ScaleOp>() : ScaleOp();
    auto sum = scale ? scale.getInput().getDefiningOp<AllReduceOp>() : AllReduceOp();
    GroupAttr group = reduce.getGroup();
    if (!sum || !isSameGroup(varying.getGroup(), group) || !isSameGroup(sum.getGroup(), group) || sum.getCounts() ||
        scale.getFactor().convertToDouble() != 1.0 / static_cast<double>(group.getSize()))
      return rewriter.notifyMatchFailure(reduce, "operand is no averaged all_reduce over the same group");
    rewriter.modifyOpInPlace(reduce, [&] { reduce.getInputMutable().assign(sum.getInput()); });
    return success();
  }
};
} // namespace

void ReduceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FoldAllReduceIntoReduce>(context);
}

//===----------------------------------------------------------------------===//
// AssumeReplicatedOp
//===----------------------------------------------------------------------===//

LogicalResult AssumeReplicatedOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                            SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferGroupSpmd(*this, getGroup(), axes, operands, /*varies=*/false, required, results);
}
void AssumeReplicatedOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents, SmallVectorImpl<Value> &gradients) {
  Value share = builder.create<ScaleOp>(getLoc(), cotangents[0],
                                        builder.getF64FloatAttr(1.0 / static_cast<double>(getGroup().getSize())));
  gradients.push_back(builder.create<ToVaryingOp>(getLoc(), share, getGroup(), /*shares=*/true));
}
OpCost AssumeReplicatedOp::getOpCost() { return {}; }
bool AssumeReplicatedOp::isAlias() { return true; }
OpFoldResult AssumeReplicatedOp::fold(FoldAdaptor) { return foldSingle(getGroup(), getInput()); }
