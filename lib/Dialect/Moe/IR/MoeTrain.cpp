//===- MoeTrain.cpp - losses and optimizers -------------------------------===//
#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"

using namespace mlir;
using namespace mlir::moe;

/// Verifies that `column` has one element for each row of `rows`, of its accumulator type.
static LogicalResult verifyColumn(Operation *op, StringRef what, Value column, Value rows) {
  return verifyType(op, what, column.getType(), getAccumulatorColumn(getTensorType(rows)));
}

static LogicalResult verifyLabels(Operation *op, Value rows, Value labels) {
  if (getTensorType(rows).getDimSize(0) == getTensorType(labels).getDimSize(0))
    return success();
  return op->emitOpError() << "expected a label for each of the " << getTensorType(rows).getDimSize(0)
                           << " rows but got " << labels.getType();
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

void CrossEntropyOp::build(OpBuilder &builder, OperationState &state, Value logits, Value labels) {
  build(builder, state, getAccumulatorTensor(getTensorType(logits), {}), logits, labels);
}
LogicalResult CrossEntropyOp::verify() {
  return failure(failed(verifyType(*this, "the loss", getLoss().getType(),
                                   getAccumulatorTensor(getTensorType(getLogits()), {}))) ||
                 failed(verifyLabels(*this, getLogits(), getLabels())));
}

FailureOr<Layouts> CrossEntropyOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  auto layout = [&](ArrayRef<StringRef> groups) { return LayoutAttr::get(getContext(), groups); };
  LayoutAttr rows = LayoutAttr::getRows(parallel), parts = LayoutAttr::getRows(parallel, 2, "mp");
  LayoutAttr column = LayoutAttr::getRows(parallel, 1);
  if (!operands[0])
    operands[0] = rows;
  if (operands[0] != rows && operands[0] != parts)
    return emitOpError() << "expected logits of the layout " << rows << " or " << parts << " but got " << operands[0];
  if (operands[1] && operands[1] != column)
    return emitOpError() << "expected labels of the layout " << column << " but got " << operands[1];
  operands[1] = column;
  return Layouts{layout({})};
}

/// Each member takes the logarithm of its part's sum. All of them, gathered, give that of the whole. One member has the
/// label's logit.
FailureOr<Values> CrossEntropyOp::partition(OpBuilder &builder, const Shards &in) {
  Location loc = getLoc();
  Value logits = in.operands[0], labels = in.operands[1];
  bool isSplit = in.layouts[0].getGroups(1).size() == 1 && in.parallel.getMp() > 1;
  GroupAttr mp = in.parallel.getGroup("mp"), shards = in.parallel.getTokenGroup();
  // It comes first, so that its gradient is added to the logarithm's in place.
  Value target = builder.create<PickOp>(loc, logits, labels, isSplit ? in.parallel.getMp() : 1, mp.getStride());
  Value lse = builder.create<RowLogsumexpOp>(loc, logits);
  if (isSplit) {
    lse = builder.create<RowLogsumexpOp>(loc, builder.create<AllGatherOp>(loc, lse, mp, 1));
    target = builder.create<AllReduceOp>(loc, target.getType(), target, Value(), mp);
  }
  Value rows = builder.create<AddOp>(loc, lse, builder.create<ScaleOp>(loc, target, builder.getF64FloatAttr(-1)));
  auto overAll = [&](Value value) -> Value {
    return builder.create<AllReduceOp>(loc, value.getType(), value, Value(), shards);
  };
  Value sum = builder.create<LabelSumOp>(loc, rows, labels);
  Value count = builder.create<LabelCountOp>(loc, sum.getType(), labels);
  return Values{builder.create<DivideOp>(loc, overAll(sum), overAll(count))};
}

void RowLogsumexpOp::build(OpBuilder &builder, OperationState &state, Value x) {
  build(builder, state, getAccumulatorColumn(getTensorType(x)), x);
}
LogicalResult RowLogsumexpOp::verify() { return verifyColumn(*this, "the result", getResult(), getX()); }
SmallVector<Value> RowLogsumexpOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<RowLogsumexpGradOp>(getLoc(), getX().getType(), getX(), getResult(), cotangents[0])};
}
LogicalResult RowLogsumexpGradOp::verify() {
  return failure(failed(verifyColumn(*this, "lse", getLse(), getX())) ||
                 failed(verifyColumn(*this, "grads", getGrads(), getX())));
}
SmallVector<int64_t> RowLogsumexpGradOp::getInPlaceInputs() { return {0}; }

void PickOp::build(OpBuilder &builder, OperationState &state, Value x, Value labels, int64_t parts, int64_t stride) {
  build(builder, state, getAccumulatorColumn(getTensorType(x)), x, labels, parts, stride);
}
LogicalResult PickOp::verify() {
  return failure(failed(verifyColumn(*this, "the result", getResult(), getX())) ||
                 failed(verifyLabels(*this, getX(), getLabels())));
}
SmallVector<Value> PickOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<PickGradOp>(getLoc(), getX().getType(), getLabels(), cotangents[0], Value(), getPartsAttr(),
                                     getStrideAttr())};
}
/// Reads one element of each row.
OpCost PickOp::getOpCost() {
  OpCost cost = getMemoryCost(*this);
  cost.bytesRead = getByteSize(getLabels().getType()) + getByteSize(getResult().getType());
  return cost;
}
SmallVector<Attribute> PickOp::getKernelParams() { return {getPartsAttr(), getStrideAttr()}; }

LogicalResult PickGradOp::verify() {
  if (failed(verifyColumn(*this, "grads", getGrads(), getResult())) ||
      failed(verifyLabels(*this, getResult(), getLabels())))
    return failure();
  return getAddend() ? verifyType(*this, "the addend", getAddend().getType(), getResult().getType()) : success();
}
/// Writes one element of each row in the addend's memory.
OpCost PickGradOp::getOpCost() {
  OpCost cost = getMemoryCost(*this);
  if (getAddend()) {
    cost.bytesRead -= getByteSize(getAddend().getType()) - getByteSize(getGrads().getType());
    cost.bytesWritten = getByteSize(getGrads().getType());
  }
  return cost;
}
SmallVector<Value> PickGradOp::getKernelInputs() { return {getLabels(), getGrads(), getAddend()}; }
SmallVector<Attribute> PickGradOp::getKernelParams() { return {getPartsAttr(), getStrideAttr()}; }

void LabelSumOp::build(OpBuilder &builder, OperationState &state, Value rows, Value labels) {
  build(builder, state, getAccumulatorTensor(getTensorType(rows), {}), rows, labels);
}
LogicalResult LabelSumOp::verify() {
  RankedTensorType scalar = getAccumulatorTensor(getTensorType(getRows()), {});
  return failure(failed(verifyColumn(*this, "rows", getRows(), getRows())) ||
                 failed(verifyLabels(*this, getRows(), getLabels())) ||
                 failed(verifyType(*this, "sum", getSum().getType(), scalar)));
}
SmallVector<Value> LabelSumOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<LabelSumGradOp>(getLoc(), getRows().getType(), getLabels(), cotangents[0])};
}

LogicalResult LabelSumGradOp::verify() {
  RankedTensorType grad = getTensorType(getGrad());
  return verifyType(*this, "the result", getResult().getType(),
                    grad.clone({getTensorType(getLabels()).getDimSize(0), 1}));
}

SmallVector<Value> DivideOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<DivideOp>(getLoc(), cotangents[0], getB())};
}
SmallVector<int64_t> DivideOp::getInPlaceInputs() { return {0, 1}; }

//===----------------------------------------------------------------------===//
// Losses of routers
//===----------------------------------------------------------------------===//

void RouterMeansOp::build(OpBuilder &builder, OperationState &state, Value logits, int64_t topK, int64_t groups) {
  RankedTensorType type = getTensorType(logits), means = getAccumulatorTensor(type, {groups, type.getDimSize(1)});
  build(builder, state, means, means, getAccumulatorTensor(type, {groups, 1}), logits, topK);
}
LogicalResult RouterMeansOp::verify() {
  RankedTensorType type = getTensorType(getLogits());
  int64_t tokens = type.getDimSize(0), experts = type.getDimSize(1), groups = getTensorType(getLoads()).getDimSize(0);
  if (groups < 1 || tokens % groups != 0)
    return emitOpError() << "expected groups that divide the " << tokens << " tokens but got " << groups;
  if (int64_t k = getTopK(); k < 1 || k > experts)
    return emitOpError() << "expected top_k to be between 1 and " << experts << " but got " << k;
  RankedTensorType means = getAccumulatorTensor(type, {groups, experts});
  return failure(failed(verifyType(*this, "loads", getLoads().getType(), means)) ||
                 failed(verifyType(*this, "shares", getShares().getType(), means)) ||
                 failed(verifyType(*this, "squares", getSquares().getType(), getAccumulatorTensor(type, {groups, 1}))));
}
SmallVector<Attribute> RouterMeansOp::getKernelParams() { return {getTopKAttr()}; }
SmallVector<Value> RouterMeansOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  if (!cotangents[1] && !cotangents[2])
    return {};
  return {
      builder.create<RouterMeansGradOp>(getLoc(), getLogits().getType(), getLogits(), cotangents[1], cotangents[2])};
}
SmallVector<Value> RouterMeansGradOp::getKernelInputs() { return {getLogits(), getGradShares(), getGradSquares()}; }

/// Several groups are sequences, which are whole on a rank or divided over cp. One group has the tokens of all ranks.
FailureOr<Layouts> RouterMeansOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  LayoutAttr rows = LayoutAttr::getRows(parallel);
  LayoutAttr sequences = LayoutAttr::get(getContext(), {StringRef("dp"), StringRef("")});
  if (operands[0] && operands[0] != rows)
    return emitOpError() << "expected logits of the layout " << rows << " but got " << operands[0];
  operands[0] = rows;
  return Layouts(3, getTensorType(getLoads()).getDimSize(0) > 1 ? sequences : LayoutAttr::get(getContext(), 2));
}
FailureOr<Values> RouterMeansOp::partition(OpBuilder &builder, const Shards &in) {
  int64_t groups = getTensorType(getLoads()).getDimSize(0), dp = in.parallel.getDp();
  if (groups > 1 && groups % dp != 0)
    return emitOpError() << "expected one group or a multiple of dp = " << dp << " but got " << groups;
  Value logits = builder.createOrFold<CastOp>(getLoc(), in.operands[0],
                                              getAccumulatorType(getTensorType(in.operands[0]).getElementType()));
  auto means = builder.create<RouterMeansOp>(getLoc(), logits, getTopK(), groups > 1 ? groups / dp : 1);
  Values results;
  GroupAttr shared = groups > 1 ? in.parallel.getGroup("cp") : in.parallel.getTokenGroup();
  for (Value mean : means->getResults()) {
    if (groups == 1 || shared.getSize() > 1) {
      mean =
          builder.create<ScaleOp>(getLoc(), mean, builder.getF64FloatAttr(1.0 / static_cast<double>(shared.getSize())));
      mean = builder.create<AllReduceOp>(getLoc(), mean.getType(), mean, Value(), shared);
    }
    results.push_back(mean);
  }
  return results;
}

LogicalResult RouterLossOp::verify() {
  RankedTensorType loads = getTensorType(getLoads());
  auto like = [&](ArrayRef<int64_t> shape) { return loads.clone(shape); };
  return failure(failed(verifyType(*this, "shares", getShares().getType(), loads)) ||
                 failed(verifyType(*this, "squares", getSquares().getType(), like({loads.getDimSize(0), 1}))) ||
                 failed(verifyType(*this, "the loss", getLoss().getType(), like({}))));
}
FailureOr<Layouts> RouterLossOp::inferLayouts(ParallelAttr, MutableArrayRef<LayoutAttr> operands) {
  bool isOverRanks = getTensorType(getLoads()).getDimSize(0) > 1;
  LayoutAttr wanted = LayoutAttr::get(getContext(), {StringRef(isOverRanks ? "dp" : ""), StringRef("")});
  for (LayoutAttr &operand : operands) {
    if (operand && operand != wanted)
      return emitOpError() << "expected means of the layout " << wanted << " but got " << operand;
    operand = wanted;
  }
  return Layouts{LayoutAttr::get(getContext(), 0)};
}
FailureOr<Values> RouterLossOp::partition(OpBuilder &builder, const Shards &in) {
  Location loc = getLoc();
  RankedTensorType loads = getTensorType(getLoads());
  int64_t groups = loads.getDimSize(0), local = getTensorType(in.operands[0]).getDimSize(0);
  auto scale = [&](Value value, double factor) -> Value {
    return builder.create<ScaleOp>(loc, value, builder.getF64FloatAttr(factor / static_cast<double>(groups)));
  };
  // A part with the coefficient 0 needs no computation.
  double experts = static_cast<double>(loads.getDimSize(1));
  double balance = getBalance().convertToDouble() * experts, square = getSquare().convertToDouble();
  Value rows;
  if (balance != 0 || square == 0)
    rows = scale(builder.create<RowDotOp>(loc, in.operands[0], in.operands[1]), balance);
  if (square != 0) {
    Value squares = scale(in.operands[2], square);
    rows = rows ? builder.create<AddOp>(loc, rows, squares) : squares;
  }
  // No position is negative, so the sum is over all groups.
  auto ids = RankedTensorType::get({local}, builder.getI32Type());
  Value all = builder.create<PositionsOp>(loc, ids, /*period=*/1, CutAttr());
  Value sum = builder.create<LabelSumOp>(loc, rows, all);
  if (groups > 1)
    sum = builder.create<AllReduceOp>(loc, sum.getType(), sum, Value(), in.parallel.getGroup("dp"));
  return Values{sum};
}

//===----------------------------------------------------------------------===//
// Element types
//===----------------------------------------------------------------------===//

void CastOp::build(OpBuilder &builder, OperationState &state, Value input, Type elementType) {
  build(builder, state, getTensorType(input).clone(elementType), input);
}
SmallVector<Value> CastOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<CastOp>(getLoc(), cotangents[0], getInput().getType().getElementType())};
}
OpFoldResult CastOp::fold(FoldAdaptor) { return getInput().getType() == getType() ? getInput() : OpFoldResult(); }

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

SmallVector<Attribute> ClipFactorOp::getKernelParams() { return {getMostAttr()}; }

SmallVector<Value> SgdOp::getKernelInputs() { return {getParam(), getGrad(), getVelocity(), getRate(), getFactor()}; }
SmallVector<Attribute> SgdOp::getKernelParams() { return {getMomentumAttr(), getDecayAttr()}; }

SmallVector<Value> AdamOp::getKernelInputs() {
  return {getParam(), getGrad(), getFirst(), getSecond(), getRate(), getStep(), getFactor()};
}
SmallVector<Attribute> AdamOp::getKernelParams() {
  return {getBeta1Attr(), getBeta2Attr(), getEpsAttr(), getDecayAttr()};
}
