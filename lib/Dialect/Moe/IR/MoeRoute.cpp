//===- MoeRoute.cpp - routing, dispatch, combine --------------------------===//
#include "MoeComm.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::moe;

static LogicalResult verifyRouteShape(Operation *op, StringRef what, Value value, ArrayRef<int64_t> shape) {
  auto type = getTensorType(value);
  if (type.getShape() == shape)
    return success();
  InFlightDiagnostic error = op->emitOpError() << "expected " << what << " to be [";
  llvm::interleaveComma(shape, error);
  return error << "] but got " << type;
}

/// Verifies that `value` is a tensor of that shape and of the accumulator type of `like`.
static LogicalResult verifyAccumulator(Operation *op, StringRef what, Value value, ArrayRef<int64_t> shape,
                                       RankedTensorType like) {
  return verifyType(op, what, value.getType(), getAccumulatorTensor(like, shape));
}

LogicalResult mlir::moe::verifyExpertGroups(Operation *op, int64_t experts, int64_t k, int64_t expertGroups,
                                            int64_t topGroups, GroupScore groupScore) {
  if (expertGroups < 1 || experts % expertGroups != 0)
    return op->emitOpError() << "expected expert_groups to divide the " << experts << " experts but got "
                             << expertGroups;
  if (topGroups < 1 || topGroups > expertGroups || topGroups * (experts / expertGroups) < k)
    return op->emitOpError() << "expected top_groups to be at most " << expertGroups
                             << " and to hold at least top_k = " << k << " experts but got " << topGroups << " of "
                             << experts / expertGroups << " experts each";
  if (expertGroups > 1 && groupScore == GroupScore::top2 && experts / expertGroups < 2)
    return op->emitOpError() << "expected at least two experts in a group scored by top2 but got one";
  return success();
}

static LogicalResult verifyChunks(RouteOp route, int64_t tokens, int64_t k) {
  int64_t chunks = route.getChunks(), reserved = route.getChunkRows();
  int64_t rows = route.getGroups() * route.getCapacity();
  if (chunks < 1 || (rows > 0 && reserved == 0 && rows % chunks != 0))
    return route.emitOpError() << "expected chunks to divide the " << rows << " rows of an expert but got " << chunks;
  // Largest number of rows in a chunk: of one expert if there is a capacity, of all experts otherwise.
  int64_t most = static_cast<int64_t>(rows > 0 ? llvm::divideCeil(rows, chunks) : k * llvm::divideCeil(tokens, chunks));
  bool isNeeded = reserved != 0 || (rows == 0 && chunks > 1);
  if (isNeeded && reserved < most)
    return route.emitOpError() << "expected room for " << most << " rows in a chunk but got chunk_rows " << reserved;
  return success();
}
static LogicalResult verifyHomes(RouteOp route, int64_t experts, int64_t k) {
  int64_t homes = route.getHomes(), stride = route.getHomeStride(), span = route.getHomeSpan();
  if (homes < 1 || experts % homes != 0 || stride < 1 || span < 1)
    return route.emitOpError() << "expected homes to divide the " << experts
                               << " experts and home_stride and home_span of at least 1 but got " << homes << ", "
                               << stride << " and " << span;
  bool limits = route.getLeave() >= 0;
  if (limits && (route.getExpertGroups() != 1 || k > experts / homes))
    return route.emitOpError() << "expected with leave that expert_groups is 1 and that at least " << k
                               << " experts, a token's choices, are at home, but got " << route.getExpertGroups()
                               << " and " << experts / homes;
  return success();
}
/// Equal tokens are routed differently on two ranks of different homes, if homes depend on the rank.
LogicalResult RouteOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands, SmallVectorImpl<AxisSet> &required,
                                 SmallVectorImpl<AxisSet> &results) {
  AxisSet all = unite(operands);
  if (getLeave() >= 0 && getHomes() > 1)
    all = all | axes.getCovering(GroupAttr::get(getContext(), "home", getHomes(), getHomeStride()));
  required.assign(operands.size(), all);
  results.assign(getNumResults(), all);
  return success();
}
LogicalResult RouteOp::verify() {
  int64_t tokens = getLogits().getType().getDimSize(0), experts = getLogits().getType().getDimSize(1);
  int64_t k = getExperts().getType().getDimSize(1);
  if (k < 1 || k > std::min(kMaxTopK, experts))
    return emitOpError() << "expected between 1 and " << std::min(kMaxTopK, experts) << " choices"
                         << (experts < kMaxTopK ? ", the number of experts," : ", MoePlan's limit,") << " but got "
                         << k;
  if (failed(verifyAccumulator(*this, "scores", getScores(), {tokens, experts}, getLogits().getType())) ||
      failed(verifyRouteShape(*this, "experts", getExperts(), {tokens, k})) ||
      failed(verifyRouteShape(*this, "slots", getSlots(), {tokens, k})) ||
      failed(verifyAccumulator(*this, "weights", getWeights(), {tokens, k}, getLogits().getType())) ||
      failed(verifyRouteShape(*this, "counts", getCounts(), {getChunks(), experts})) ||
      failed(verifyAccumulator(*this, "aux", getAux(), {}, getLogits().getType())))
    return failure();
  if (getSelectionBias() &&
      failed(verifyAccumulator(*this, "selection_bias", getSelectionBias(), {experts}, getLogits().getType())))
    return failure();
  int64_t groups = getGroups();
  if (groups < 1 || tokens % groups != 0)
    return emitOpError() << "expected groups to divide the " << tokens << " tokens but got " << groups;
  if (getCapacity() < 0)
    return emitOpError() << "expected a capacity of at least 0 but got " << getCapacity();
  if (failed(verifyChunks(*this, tokens, k)) || failed(verifyHomes(*this, experts, k)))
    return failure();
  return verifyExpertGroups(*this, experts, k, getExpertGroups(), getTopGroups(), getGroupScore());
}
SmallVector<Value> RouteOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  // No gradient flows through scores, experts, slots and counts, which only the backward and the exchange use.
  Value weights = cotangents[3], aux = cotangents[5];
  if (!weights && !aux)
    return {};
  return {builder.create<RouteGradOp>(getLoc(), getScores().getType(), getScores(), getExperts(), weights, aux,
                                      getScoreAttr(), getRenormalizeAttr(), getRoutingScaleAttr(), getGroupsAttr())};
}
OpCost RouteOp::getOpCost() {
  OpCost cost = getMemoryCost(*this);
  // Rough cost of exp and the top-k scan, which memory and branches bound.
  cost.flops = 20.0 * static_cast<double>(getLogits().getType().getNumElements());
  return cost;
}
SmallVector<CountsRule> RouteOp::getCountsRules() {
  CountsRule rule{getResultNumber(getCounts()), {}};
  int64_t tokens = getExperts().getType().getDimSize(0), topK = getExperts().getType().getDimSize(1);
  int64_t leave = getLeave(), homes = getHomes();
  int64_t groups = getExpertGroups(), top = getTopGroups();
  bool isLimited = leave >= 0 && homes > 1; // with one home no choice leaves it
  if (!isLimited && top < groups)
    rule.how = counts::RouteInGroups{tokens, topK, groups, top};
  else if (!isLimited)
    rule.how = counts::Route{tokens, topK};
  else
    rule.how = counts::RouteNearHome{tokens, topK, getGroups(), leave, homes, getHomeStride(), getHomeSpan()};
  return {rule};
}
SmallVector<Value> RouteOp::getKernelInputs() { return {getLogits(), getSelectionBias()}; }
SmallVector<Attribute> RouteOp::getKernelParams() {
  SmallVector<Attribute> params =
      getIntParams(getContext(), {static_cast<int64_t>(getScore()), getRenormalize(), getExpertGroups(), getTopGroups(),
                                  static_cast<int64_t>(getGroupScore()), getCapacity(), getGroups(), getChunks(),
                                  getChunkRows(), getLeave(), getHomes(), getHomeStride(), getHomeSpan()});
  params.push_back(getRoutingScaleAttr());
  return params;
}

/// A worker's rows are at most all choices of a chunk's tokens, and at most one of a token for each of its experts.
int64_t WindowSizes::countMostPasses(RankedTensorType slots, int64_t members, int64_t experts) const {
  int64_t tokens = llvm::divideCeil(slots.getDimSize(0), chunks);
  int64_t most = members / phases * tokens * std::min(slots.getDimSize(1), experts / workers);
  return std::max<int64_t>(1, llvm::divideCeil(most, rows));
}

void WindowOp::build(OpBuilder &builder, OperationState &state, Value slots, Value gathered, Value before,
                     GroupAttr group, const WindowSizes &sizes) {
  auto counts = [&](ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, builder.getI32Type()); };
  int64_t experts = getTensorType(gathered).getDimSize(1);
  build(builder, state, TypeRange{counts({1}), slots.getType(), counts({sizes.chunks, experts})}, slots, gathered,
        before, group, sizes.workers, sizes.rows, sizes.chunkRows, sizes.phases);
}
WindowSizes WindowOp::getSizes() {
  return {getWorkers(), getRows(), getCounts().getType().getDimSize(0), getChunkRows(), getPhases()};
}
LogicalResult WindowOp::verify() {
  auto [workers, rows, chunks, chunkRows, phases] = getSizes();
  int64_t experts = getGathered().getType().getDimSize(1), members = getGroup().getSize();
  RankedTensorType slots = getRoutedSlots().getType();
  if (getSlots().getType() != slots)
    return emitOpError() << "expected slots to be " << slots << " but got " << getSlots().getType();
  if (failed(verifyRouteShape(*this, "gathered", getGathered(), {members * chunks, experts})) ||
      failed(verifyRouteShape(*this, "counts", getCounts(), {chunks, experts})) ||
      failed(verifyRouteShape(*this, "left", getLeft(), {1})) ||
      (getBefore() && failed(verifyRouteShape(*this, "before", getBefore(), {1}))))
    return failure();
  if (workers < 1 || experts % workers != 0)
    return emitOpError() << "expected workers to divide the " << experts << " experts but got " << workers;
  if (rows < 1)
    return emitOpError() << "expected rows of at least 1 but got " << rows;
  if (phases < 1 || members % phases != 0)
    return emitOpError() << "expected phases to divide the " << members << " members but got " << phases;
  int64_t least = slots.getDimSize(1) * static_cast<int64_t>(llvm::divideCeil(slots.getDimSize(0), chunks));
  if (chunks > 1 && chunkRows < least)
    return emitOpError() << "expected chunk_rows of at least " << least << " but got " << chunkRows;
  return success();
}
/// Members that disagree about the number of passes would wait for each other.
LogicalResult WindowOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands, SmallVectorImpl<AxisSet> &required,
                                  SmallVectorImpl<AxisSet> &results) {
  FailureOr<AxisSet> set = axes.getAxes(*this, getGroup());
  if (failed(set))
    return failure();
  if (!(operands[1] & *set).empty())
    return emitOpError() << "expected gathered counts that are replicated over group '" << getGroup().getName()
                         << "' but they vary over " << axes.describe(operands[1]);
  AxisSet left = unite(operands.drop_front()), all = *set | unite(operands);
  required.assign(operands.size(), left);
  required.front() = all;
  results.assign(3, all);
  results.front() = left;
  return success();
}
SmallVector<Value> WindowOp::getKernelInputs() { return {getRoutedSlots(), getGathered(), getBefore()}; }
SmallVector<Attribute> WindowOp::getKernelParams() {
  return {getWorkersAttr(), getRowsAttr(), getChunkRowsAttr(), getPhasesAttr()};
}
GroupAttr WindowOp::getKernelGroup() { return getGroup(); }
SmallVector<int64_t> WindowOp::getInPlaceInputs() {
  return getBefore() ? SmallVector<int64_t>{2} : SmallVector<int64_t>();
}
SmallVector<CountsRule> WindowOp::getCountsRules() {
  return {{getResultNumber(getCounts()), counts::Window{1, getWorkers(), getRows(), getPhases()}}};
}

void MergeChoicesOp::build(OpBuilder &builder, OperationState &state, Value chosen, Value routedSlots, Value used,
                           GroupAttr group, int64_t experts, int64_t copies, int64_t holders, int64_t rows) {
  auto type = [&](ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, builder.getI32Type()); };
  int64_t k = getTensorType(chosen).getDimSize(1);
  build(builder, state, TypeRange{chosen.getType(), type({1, holders}), type({rows, k})}, chosen, routedSlots, used,
        group, experts, copies);
}
LogicalResult MergeChoicesOp::verify() {
  RankedTensorType chosen = getChosen().getType(), counts = getCounts().getType();
  if (getSlots().getType() != chosen || (getRoutedSlots() && getRoutedSlots().getType() != chosen))
    return emitOpError() << "expected all slots to be " << chosen << " but got " << getSlots().getType();
  if (counts.getDimSize(0) != 1 || getSent().getType().getDimSize(1) != chosen.getDimSize(1))
    return emitOpError() << "expected counts [1, H] and sent [R, " << chosen.getDimSize(1) << "] but got " << counts
                         << " and " << getSent().getType();
  int64_t size = getGroup().getSize(), copies = getCopies(), experts = getExperts(), holders = counts.getDimSize(1);
  if (copies < 1 || size % copies != 0)
    return emitOpError() << "expected copies to divide the group's size " << size << " but got " << copies;
  if (experts < 1 || experts % (size / copies * holders) != 0)
    return emitOpError() << "expected experts to be a multiple of " << size / copies * holders
                         << ", all holders, but got " << experts;
  return success();
}
/// Each member has experts of its own.
LogicalResult MergeChoicesOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                        SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  return inferVaryingToVarying(*this, getGroup(), axes, operands, required, results);
}
SmallVector<Value> MergeChoicesOp::getKernelInputs() { return {getChosen(), getRoutedSlots(), getUsed()}; }
SmallVector<Attribute> MergeChoicesOp::getKernelParams() { return {getExpertsAttr(), getCopiesAttr()}; }
GroupAttr MergeChoicesOp::getKernelGroup() { return getGroup(); }
SmallVector<CountsRule> MergeChoicesOp::getCountsRules() {
  counts::MergedRows rows;
  rows.dropped = getRoutedSlots() ? 1 : -1;
  rows.experts = getExperts();
  rows.holders = getCopies();
  rows.topK = getChosen().getType().getDimSize(1);
  // Casts, exchanges and other merges take the choices as their first operand.
  Operation *maker = getChosen().getDefiningOp();
  while (maker && !isa<RouteOp>(maker) && maker->getNumOperands() > 0)
    maker = maker->getOperand(0).getDefiningOp();
  if (auto route = dyn_cast_or_null<RouteOp>(maker)) {
    rows.groups = route.getExpertGroups();
    rows.topGroups = route.getTopGroups();
  }
  return {{getResultNumber(getCounts()), rows}, {getResultNumber(getSent()), counts::SentChoices{0, rows.dropped}}};
}

LogicalResult RouteGradOp::verify() {
  int64_t tokens = getScores().getType().getDimSize(0);
  if (getExperts().getType().getDimSize(0) != tokens)
    return emitOpError() << "expected experts of " << tokens << " tokens but got " << getExperts().getType();
  RankedTensorType scores = getScores().getType();
  if (getGradWeights() &&
      failed(verifyAccumulator(*this, "grad_weights", getGradWeights(), getExperts().getType().getShape(), scores)))
    return failure();
  if (getGradAux() && failed(verifyAccumulator(*this, "grad_aux", getGradAux(), {}, scores)))
    return failure();
  if (getGroups() < 1 || tokens % getGroups() != 0)
    return emitOpError() << "expected groups to divide the " << tokens << " tokens but got " << getGroups();
  return success();
}
OpCost RouteGradOp::getOpCost() {
  OpCost cost = getMemoryCost(*this);
  cost.flops = 4.0 * static_cast<double>(getScores().getType().getNumElements());
  return cost;
}
SmallVector<Value> RouteGradOp::getKernelInputs() {
  return {getScores(), getExperts(), getGradWeights(), getGradAux()};
}
SmallVector<Attribute> RouteGradOp::getKernelParams() {
  SmallVector<Attribute> params =
      getIntParams(getContext(), {static_cast<int64_t>(getScore()), getRenormalize(), getGroups()});
  params.push_back(getRoutingScaleAttr());
  return params;
}

static LogicalResult verifySlots(Operation *op, RankedTensorType tokens, RankedTensorType rows, RankedTensorType slots,
                                 Value weights, Value used) {
  if (slots.getDimSize(0) != tokens.getDimSize(0))
    return op->emitOpError() << "expected slots of " << tokens.getDimSize(0) << " tokens but got " << slots;
  if (rows.getShape().back() != tokens.getDimSize(1) || rows.getElementType() != tokens.getElementType())
    return op->emitOpError() << "expected rows with the columns and elements of the tokens " << tokens << " but got "
                             << rows;
  if (used && rows.getRank() != 2)
    return op->emitOpError() << "expected rows of two dimensions, of which the first are used, but got " << rows;
  return weights ? verifyAccumulator(op, "weights", weights, slots.getShape(), tokens) : success();
}

/// Cost of `flops` operations for each element that a choice touches. If the number of used rows is known, as many are
/// read and written.
static OpCost getSlotCost(MoeKernelOpInterface op, RankedTensorType rows, RankedTensorType slots, double flops,
                          Value used) {
  OpCost cost = getMemoryCost(op);
  cost.flops = flops * static_cast<double>(slots.getNumElements()) * static_cast<double>(rows.getShape().back());
  if (used) {
    cost.flops = flops * static_cast<double>(rows.getNumElements());
    cost.bytesRead = cost.bytesWritten = getByteSize(rows);
  }
  return withRows(cost, used, rows, op);
}

LogicalResult DispatchOp::verify() {
  return verifySlots(*this, getTokens().getType(), getResult().getType(), getSlots().getType(), getWeights(),
                     getUsed());
}
SmallVector<Value> DispatchOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  Value tokens =
      builder.create<CombineOp>(getLoc(), getTokens().getType(), cotangents[0], getSlots(), getWeights(), getUsed());
  if (!getWeights())
    return {tokens};
  return {tokens, Value(), builder.create<SlotDotOp>(getLoc(), getTokens(), cotangents[0], getSlots(), getUsed())};
}
OpCost DispatchOp::getOpCost() {
  return getSlotCost(*this, getResult().getType(), getSlots().getType(), /*flops=*/0, getUsed());
}
SmallVector<Value> DispatchOp::getKernelInputs() { return {getTokens(), getSlots(), getWeights(), getUsed()}; }

LogicalResult CombineOp::verify() {
  return verifySlots(*this, getResult().getType(), getRows().getType(), getSlots().getType(), getWeights(), getUsed());
}
SmallVector<Value> CombineOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  Value rows =
      builder.create<DispatchOp>(getLoc(), getRows().getType(), cotangents[0], getSlots(), getWeights(), getUsed());
  if (!getWeights())
    return {rows};
  return {rows, Value(), builder.create<SlotDotOp>(getLoc(), cotangents[0], getRows(), getSlots(), getUsed())};
}
OpCost CombineOp::getOpCost() {
  return getSlotCost(*this, getRows().getType(), getSlots().getType(), /*flops=*/2, getUsed());
}
SmallVector<Value> CombineOp::getKernelInputs() { return {getRows(), getSlots(), getWeights(), getUsed()}; }

void SlotDotOp::build(OpBuilder &builder, OperationState &state, Value tokens, Value rows, Value slots, Value used) {
  auto shape = getTensorType(slots).getShape();
  build(builder, state, getAccumulatorTensor(getTensorType(tokens), shape), tokens, rows, slots, used);
}
LogicalResult SlotDotOp::verify() {
  if (failed(verifySlots(*this, getTokens().getType(), getRows().getType(), getSlots().getType(), {}, getUsed())))
    return failure();
  return verifyAccumulator(*this, "the result", getResult(), getSlots().getType().getShape(), getTokens().getType());
}
OpCost SlotDotOp::getOpCost() {
  return getSlotCost(*this, getRows().getType(), getSlots().getType(), /*flops=*/2, getUsed());
}
SmallVector<Value> SlotDotOp::getKernelInputs() { return {getTokens(), getRows(), getSlots(), getUsed()}; }
