//===- MoeCompute.cpp - rank-local computation ----------------------------===//
#include "MoeComm.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::moe;

static double getElements(Value value) { return static_cast<double>(getTensorType(value).getNumElements()); }

static OpCost getElementwiseCost(Operation *op, double flopsPerElement, Value elements) {
  OpCost cost = getMemoryCost(op);
  cost.flops = flopsPerElement * getElements(elements);
  return cost;
}

/// Rows of each expert: C of [E, C, ..], or an E-th of rows with counts.
static int64_t getRowsPerExpert(RankedTensorType rows, int64_t experts) {
  return rows.getRank() == 3 ? rows.getDimSize(1) : llvm::divideCeil(rows.getDimSize(0), experts);
}

static LogicalResult verifyAddend(Operation *op, Value addend, Value result) {
  return addend ? verifyType(op, "the addend", getTensorType(addend), getTensorType(result)) : success();
}

/// Type of op(a) op(b), or null if the inner dimensions or element types differ.
static RankedTensorType getProductType(RankedTensorType a, RankedTensorType b, bool transposeA, bool transposeB) {
  if (a.getDimSize(transposeA ? 0 : 1) != b.getDimSize(transposeB ? 1 : 0) || a.getElementType() != b.getElementType())
    return {};
  return RankedTensorType::get({a.getDimSize(transposeA ? 1 : 0), b.getDimSize(transposeB ? 0 : 1)},
                               a.getElementType());
}

void MatmulOp::build(OpBuilder &builder, OperationState &state, Value a, Value b, bool transposeA, bool transposeB) {
  build(builder, state, getProductType(getTensorType(a), getTensorType(b), transposeA, transposeB), a, b, transposeA,
        transposeB);
}
LogicalResult MatmulOp::verify() {
  RankedTensorType expected = getProductType(getA().getType(), getB().getType(), getTransposeA(), getTransposeB());
  if (!expected)
    return emitOpError() << "expected operands whose inner dimensions and element types agree but got "
                         << getA().getType() << " and " << getB().getType();
  if (getResult().getType() != expected)
    return emitOpError() << "expected the result to be " << expected << " but got " << getResult().getType();
  return success();
}
SmallVector<Value> MatmulOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  bool ta = getTransposeA(), tb = getTransposeB();
  Value ct = cotangents[0];
  Value a = ta ? builder.create<MatmulOp>(getLoc(), getB(), ct, tb, true)
               : builder.create<MatmulOp>(getLoc(), ct, getB(), false, !tb);
  if (ta)
    return {a, tb ? builder.create<MatmulOp>(getLoc(), ct, getA(), true, true)
                  : builder.create<MatmulOp>(getLoc(), getA(), ct, false, false)};
  // `b` is usually a matrix of parameters, whose gradients are added up over micro-batches.
  Value rows = tb ? ct : getA(), grads = tb ? getA() : ct;
  return {a, builder.create<MatmulWgradOp>(getLoc(), getB().getType(), rows, grads, Value())};
}
OpCost MatmulOp::getOpCost() {
  RankedTensorType result = getResult().getType();
  return getProductCost(
      *this, {1, result.getDimSize(0), result.getDimSize(1), getA().getType().getDimSize(getTransposeA() ? 0 : 1)});
}
SmallVector<Attribute> MatmulOp::getKernelParams() {
  return getIntParams(getContext(), {getTransposeA(), getTransposeB()});
}

LogicalResult MatmulWgradOp::verify() {
  RankedTensorType expected = getProductType(getRows().getType(), getGrads().getType(), /*transposeA=*/true, false);
  if (!expected)
    return emitOpError() << "expected rows and grads of as many rows and of one element type but got "
                         << getRows().getType() << " and " << getGrads().getType();
  return failure(failed(verifySumType(*this, "the result", getResult().getType(), expected)) ||
                 failed(verifyAddend(*this, getAddend(), getResult())));
}
OpCost MatmulWgradOp::getOpCost() {
  RankedTensorType result = getResult().getType();
  return getProductCost(*this, {1, result.getDimSize(0), result.getDimSize(1), getRows().getType().getDimSize(0)});
}
SmallVector<Value> MatmulWgradOp::getKernelInputs() { return {getRows(), getGrads(), getAddend()}; }

SmallVector<Value> AddOp::buildAdjoint(OpBuilder &, ValueRange cotangents) { return {cotangents[0], cotangents[0]}; }

namespace {
/// Lets an op add the other operand of a sum by itself, if no other op needs its result.
struct FoldAddIntoAddend : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp add, PatternRewriter &rewriter) const override {
    for (bool swap : {false, true}) {
      Value addend = swap ? add.getRhs() : add.getLhs();
      Operation *op = (swap ? add.getLhs() : add.getRhs()).getDefiningOp();
      auto accumulating = dyn_cast_or_null<MoeAccumulatingOpInterface>(op);
      if (!accumulating || !op->hasOneUse() || !accumulating.getAddendMutable().empty() || addend == op->getResult(0) ||
          !accumulating.canAccumulate(addend))
        continue;
      Operation *other = addend.getDefiningOp();
      if (other && (other->getBlock() != op->getBlock() || !other->isBeforeInBlock(op)))
        continue;
      rewriter.modifyOpInPlace(op, [&] { accumulating.getAddendMutable().assign(addend); });
      rewriter.replaceOp(add, op->getResults());
      return success();
    }
    return rewriter.notifyMatchFailure(add, "no operand is computed by an op that can add the other");
  }
};
} // namespace

void AddOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FoldAddIntoAddend>(context);
}

unsigned AddOp::getNumRowOperands() { return 2; }
OpCost AddOp::getOpCost() { return getElementwiseCost(*this, 1, getResult()); }
SmallVector<int64_t> AddOp::getInPlaceInputs() { return {0, 1}; }
FailureOr<Layouts> AddOp::inferLayouts(ParallelAttr, MutableArrayRef<LayoutAttr> operands) {
  LayoutAttr layout = operands[0] ? operands[0] : operands[1];
  if (!layout)
    layout = LayoutAttr::get(getContext(), getTensorType(getResult()).getRank());
  for (LayoutAttr &operand : operands) {
    if (operand && operand != layout)
      return emitOpError() << "expected both operands to have one layout but got " << operands[0] << " and "
                           << operands[1];
    operand = layout;
  }
  return Layouts{layout};
}
FailureOr<Values> AddOp::partition(OpBuilder &builder, const Shards &in) {
  return Values{builder.create<AddOp>(getLoc(), in.operands[0], in.operands[1])};
}

SmallVector<Value> ScaleOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<ScaleOp>(getLoc(), cotangents[0], getFactorAttr())};
}
OpCost ScaleOp::getOpCost() { return getElementwiseCost(*this, 1, getResult()); }
SmallVector<Attribute> ScaleOp::getKernelParams() { return {getFactorAttr()}; }
SmallVector<int64_t> ScaleOp::getInPlaceInputs() { return {0}; }
OpFoldResult ScaleOp::fold(FoldAdaptor) {
  return getFactor().isExactlyValue(1.0) ? OpFoldResult(getInput()) : OpFoldResult();
}

/// Verifies values of rows, one of each row or of each head of `headDim` columns.
static LogicalResult verifyOfHeads(Operation *op, StringRef what, Value values, RankedTensorType rows,
                                   int64_t headDim) {
  int64_t columns = rows.getDimSize(1);
  if (headDim < 0 || (headDim > 0 && columns % headDim != 0))
    return op->emitOpError() << "expected head_dim to divide the " << columns << " columns of the rows but got "
                             << headDim;
  if (headDim == 0)
    return verifyType(op, what, values.getType(), getAccumulatorColumn(rows));
  return verifySumType(op, what, values.getType(), rows.clone({rows.getDimSize(0), columns / headDim}));
}

LogicalResult RowScaleOp::verify() {
  return verifyOfHeads(*this, "factors", getFactors(), getRows().getType(), getHeadDim());
}
SmallVector<Value> RowScaleOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<RowScaleOp>(getLoc(), cotangents[0], getFactors(), getHeadDim()),
          builder.create<RowDotOp>(getLoc(), getFactors().getType(), cotangents[0], getRows(), getHeadDim())};
}
OpCost RowScaleOp::getOpCost() { return getElementwiseCost(*this, 1, getResult()); }
SmallVector<int64_t> RowScaleOp::getInPlaceInputs() { return {0}; }

void RowDotOp::build(OpBuilder &builder, OperationState &state, Value lhs, Value rhs) {
  build(builder, state, getAccumulatorColumn(getTensorType(lhs)), lhs, rhs);
}
LogicalResult RowDotOp::verify() {
  return verifyOfHeads(*this, "the result", getResult(), getLhs().getType(), getHeadDim());
}
SmallVector<Value> RowDotOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<RowScaleOp>(getLoc(), getRhs(), cotangents[0], getHeadDim()),
          builder.create<RowScaleOp>(getLoc(), getLhs(), cotangents[0], getHeadDim())};
}
OpCost RowDotOp::getOpCost() { return getElementwiseCost(*this, 2, getLhs()); }

/// Verifies rows: [E, C, K], or [R, K] with counts [B, E].
static LogicalResult verifyRows(Operation *op, RankedTensorType rows, Value counts, int64_t experts) {
  if (counts ? rows.getRank() != 2 : rows.getRank() != 3)
    return op->emitOpError() << "expected " << (counts ? "2-D rows with counts" : "3-D rows without counts")
                             << " but got " << rows;
  int64_t found = counts ? getTensorType(counts).getDimSize(1) : rows.getDimSize(0);
  if (found != experts)
    return op->emitOpError() << "expected rows of " << experts << " experts but got " << found;
  return success();
}

void GroupedMatmulOp::build(OpBuilder &builder, OperationState &state, Value rows, Value weights, Value counts,
                            bool transposeWeights) {
  RankedTensorType type = withColumns(getTensorType(rows), getTensorType(weights).getDimSize(transposeWeights ? 1 : 2));
  build(builder, state, type, rows, weights, counts, transposeWeights);
}
LogicalResult GroupedMatmulOp::verify() {
  RankedTensorType rows = getRows().getType(), weights = getWeights().getType();
  if (failed(verifyRows(*this, rows, getCounts(), weights.getDimSize(0))))
    return failure();
  bool transpose = getTransposeWeights();
  if (weights.getDimSize(transpose ? 2 : 1) != rows.getShape().back() ||
      weights.getElementType() != rows.getElementType())
    return emitOpError() << "expected weights with inner dimension " << rows.getShape().back() << " and elements "
                         << rows.getElementType() << " but got " << weights;
  return verifyType(*this, "the result", getResult().getType(),
                    withColumns(rows, weights.getDimSize(transpose ? 1 : 2)));
}
SmallVector<Value> GroupedMatmulOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  Value ct = cotangents[0];
  bool transpose = getTransposeWeights();
  return {builder.create<GroupedMatmulOp>(getLoc(), ct, getWeights(), getCounts(), !transpose),
          builder.create<GroupedMatmulWgradOp>(getLoc(), getWeights().getType(), transpose ? ct : getRows(),
                                               transpose ? getRows() : ct, getCounts(), Value())};
}
OpCost GroupedMatmulOp::getOpCost() {
  RankedTensorType rows = getRows().getType(), result = getResult().getType();
  int64_t experts = getWeights().getType().getDimSize(0);
  OpCost cost = getProductCost(
      *this, {experts, getRowsPerExpert(rows, experts), result.getShape().back(), rows.getShape().back()});
  cost.flops = 2 * getElements(getResult()) * static_cast<double>(rows.getShape().back());
  return withRows(cost, getCounts(), getRows().getType(), *this);
}
SmallVector<Value> GroupedMatmulOp::getKernelInputs() { return {getRows(), getWeights(), getCounts()}; }
SmallVector<Attribute> GroupedMatmulOp::getKernelParams() {
  return getIntParams(getContext(), {getTransposeWeights()});
}

LogicalResult GroupedMatmulWgradOp::verify() {
  if (failed(verifyAddend(*this, getAddend(), getResult())))
    return failure();
  RankedTensorType rows = getRows().getType(), grads = getGrads().getType(), result = getResult().getType();
  if (failed(verifyRows(*this, rows, getCounts(), result.getDimSize(0))) ||
      failed(verifyType(*this, "grads", grads, withColumns(rows, grads.getShape().back()))))
    return failure();
  return verifySumType(*this, "the result", result,
                       RankedTensorType::get({result.getDimSize(0), rows.getShape().back(), grads.getShape().back()},
                                             rows.getElementType()));
}
OpCost GroupedMatmulWgradOp::getOpCost() {
  RankedTensorType rows = getRows().getType(), result = getResult().getType();
  int64_t experts = result.getDimSize(0);
  OpCost cost =
      getProductCost(*this, {experts, result.getDimSize(1), result.getDimSize(2), getRowsPerExpert(rows, experts)});
  cost.raggedDepth = true;
  cost.flops = 2 * getElements(getRows()) * static_cast<double>(result.getDimSize(2));
  return withRows(cost, getCounts(), getRows().getType(), *this);
}
SmallVector<Value> GroupedMatmulWgradOp::getKernelInputs() { return {getRows(), getGrads(), getCounts(), getAddend()}; }

/// Type of the bias of rows: [N] for dense ones, [E, N] for those of experts. Null, with an error, for counts of other
/// rows.
static RankedTensorType getBiasType(Operation *op, RankedTensorType rows, Value counts) {
  SmallVector<int64_t> shape = {rows.getShape().back()};
  if (counts)
    shape.insert(shape.begin(), getTensorType(counts).getDimSize(1));
  else if (rows.getRank() == 3)
    shape.insert(shape.begin(), rows.getDimSize(0));
  if (counts && rows.getRank() != 2) {
    op->emitOpError() << "expected 2-D rows with counts but got " << rows;
    return {};
  }
  return rows.clone(shape);
}

LogicalResult BiasAddOp::verify() {
  RankedTensorType bias = getBiasType(*this, getRows().getType(), getCounts());
  return bias ? verifyType(*this, "the bias", getBias().getType(), bias) : failure();
}
SmallVector<Value> BiasAddOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {cotangents[0], builder.create<BiasGradOp>(getLoc(), getBias().getType(), cotangents[0], getCounts(), Value(),
                                                    getScaleAttr())};
}
/// Rows with counts belong to experts and not to tokens.
bool BiasAddOp::canDivideRows(GroupAttr group) { return !getCounts() && hasRowsFor(getResult().getType(), group); }
OpCost BiasAddOp::getOpCost() {
  return withRows(getElementwiseCost(*this, 1, getResult()), getCounts(), getRows().getType(), *this);
}
SmallVector<Value> BiasAddOp::getKernelInputs() { return {getRows(), getBias(), getCounts()}; }
SmallVector<Attribute> BiasAddOp::getKernelParams() { return {getScaleAttr()}; }
SmallVector<int64_t> BiasAddOp::getInPlaceInputs() { return {0}; }

LogicalResult BiasGradOp::verify() {
  if (failed(verifyAddend(*this, getAddend(), getResult())))
    return failure();
  RankedTensorType bias = getBiasType(*this, getGrads().getType(), getCounts());
  return bias ? verifySumType(*this, "the bias", getResult().getType(), bias) : failure();
}
OpCost BiasGradOp::getOpCost() {
  return withRows(getElementwiseCost(*this, 1, getGrads()), getCounts(), getGrads().getType(), *this);
}
SmallVector<Value> BiasGradOp::getKernelInputs() { return {getGrads(), getCounts(), getAddend()}; }
SmallVector<Attribute> BiasGradOp::getKernelParams() { return {getScaleAttr()}; }

static LogicalResult verifyActivation(Operation *op, Activation kind, RankedTensorType input, RankedTensorType output,
                                      Value counts, StringRef what) {
  int64_t width = getActivationWidth(kind);
  if (counts && input.getRank() != 2)
    return op->emitOpError() << "expected 2-D rows with counts but got " << input;
  if (input.getShape().back() % width != 0)
    return op->emitOpError() << "expected an even number of columns for '" << stringifyActivation(kind) << "' but got "
                             << input;
  return verifyType(op, what, output, withColumns(input, input.getShape().back() / width));
}

// Rough number of operations per element, where exp counts as about ten. Memory bounds these ops.
static double getActivationFlops(Activation kind) { return kind == Activation::relu ? 1 : 12; }

/// Attributes of moe.activation or its gradient, in the order of the call.
template <class Op> static SmallVector<Attribute> getActivationForm(Op op) {
  return {Builder(op.getContext()).getI64IntegerAttr(static_cast<int64_t>(op.getKind())), op.getAlphaAttr(),
          op.getLimitAttr()};
}

LogicalResult ActivationOp::verify() {
  if (!(getAlpha().convertToDouble() > 0) || !(getLimit().convertToDouble() > 0))
    return emitOpError() << "expected alpha and limit to be positive but got " << getAlpha().convertToDouble()
                         << " and " << getLimit().convertToDouble();
  return verifyActivation(*this, getKind(), getInput().getType(), getResult().getType(), getCounts(), "the result");
}
SmallVector<Value> ActivationOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<ActivationGradOp>(getLoc(), getInput().getType(), getInput(), cotangents[0], getCounts(),
                                           getKindAttr(), getAlphaAttr(), getLimitAttr())};
}
OpCost ActivationOp::getOpCost() {
  return withRows(getElementwiseCost(*this, getActivationFlops(getKind()), getInput()), getCounts(),
                  getInput().getType(), *this);
}
SmallVector<Value> ActivationOp::getKernelInputs() { return {getInput(), getCounts()}; }
SmallVector<Attribute> ActivationOp::getKernelParams() { return getActivationForm(*this); }
SmallVector<int64_t> ActivationOp::getInPlaceInputs() {
  return getActivationWidth(getKind()) == 1 ? SmallVector<int64_t>{0} : SmallVector<int64_t>();
}

LogicalResult ActivationGradOp::verify() {
  return verifyActivation(*this, getKind(), getInput().getType(), getGrad().getType(), getCounts(), "grad");
}
OpCost ActivationGradOp::getOpCost() {
  return withRows(getElementwiseCost(*this, 2 * getActivationFlops(getKind()), getInput()), getCounts(),
                  getInput().getType(), *this);
}
SmallVector<Value> ActivationGradOp::getKernelInputs() { return {getInput(), getGrad(), getCounts()}; }
SmallVector<Attribute> ActivationGradOp::getKernelParams() { return getActivationForm(*this); }
SmallVector<int64_t> ActivationGradOp::getInPlaceInputs() { return {0}; }

/// Verifies that `large` is `small` with dimension `dim` multiplied, where `small` has `blocks` equal parts.
static LogicalResult verifyBlocks(Operation *op, RankedTensorType small, RankedTensorType large, int64_t dim,
                                  int64_t blocks) {
  if (dim < 0 || dim >= small.getRank())
    return op->emitOpError() << "expected dim to be a dimension of " << small << " but got " << dim;
  if (blocks < 1 || small.getDimSize(dim) == 0 || small.getDimSize(dim) % blocks != 0)
    return op->emitOpError() << "expected blocks to divide dimension " << dim << " of " << small << " but got "
                             << blocks;
  SmallVector<int64_t> shape(large.getShape());
  if (large.getRank() == small.getRank() && shape[dim] > 0 && shape[dim] % small.getDimSize(dim) == 0)
    shape[dim] = small.getDimSize(dim);
  if (shape != small.getShape() || large.getElementType() != small.getElementType())
    return op->emitOpError() << "expected " << large << " to be " << small << " with dimension " << dim
                             << " multiplied";
  return success();
}

void DumpOp::build(OpBuilder &builder, OperationState &state, Value input, int64_t dim, int64_t blocks,
                   int64_t copies) {
  build(builder, state, scaleDim(input, dim, copies, 1), input, dim, blocks);
}
LogicalResult DumpOp::verify() {
  return verifyBlocks(*this, getTensorType(getInput()), getTensorType(getResult()), getDim(), getBlocks());
}
int64_t DumpOp::getCopies() {
  int64_t dim = getDim();
  return getTensorType(getResult()).getDimSize(dim) / getTensorType(getInput()).getDimSize(dim);
}
bool DumpOp::isVirtual() {
  return llvm::all_of(getResult().getUsers(), [](Operation *user) {
    if (auto exchange = dyn_cast<AllToAllOp>(user))
      return exchange.getStoredInput() != exchange.getInput();
    if (auto phase = dyn_cast<AllToAllPhaseOp>(user))
      return phase.getStoredInput() != phase.getInput();
    auto ragged = dyn_cast<AllToAllVOp>(user);
    return ragged && ragged.getStoredRows() != ragged.getRows();
  });
}
SmallVector<Value> DumpOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<LocalReduceOp>(getLoc(), cotangents[0], getDim(), getBlocks(), getCopies())};
}
/// Counts are repeated for the members that hold each expert. All members hold the shadows.
Operation *DumpOp::buildOnShadows(OpBuilder &builder, IRMapping &mapping, ShadowScope scope) {
  int64_t blocks = getBlocks();
  auto dump = builder.create<DumpOp>(getLoc(), mapping.lookupOrDefault(getInput()), getDim(),
                                     blocks == scope.ep.getSize() ? 1 : blocks, getCopies());
  mapping.map(getResult(), dump.getResult());
  return dump;
}
bool DumpOp::isAlias() { return isVirtual(); }
SmallVector<Attribute> DumpOp::getKernelParams() { return {getDimAttr(), getBlocksAttr()}; }
SmallVector<CountsRule> DumpOp::getCountsRules() {
  if (!isCounts(getResult().getType()))
    return {};
  return {{0, counts::Repeat{0, getDim(), getBlocks()}}};
}
OpFoldResult DumpOp::fold(FoldAdaptor) { return getInput().getType() == getType() ? getInput() : OpFoldResult(); }

void LocalReduceOp::build(OpBuilder &builder, OperationState &state, Value input, int64_t dim, int64_t blocks,
                          int64_t copies) {
  build(builder, state, scaleDim(input, dim, 1, copies), input, dim, blocks);
}
LogicalResult LocalReduceOp::verify() {
  return verifyBlocks(*this, getTensorType(getResult()), getTensorType(getInput()), getDim(), getBlocks());
}
SmallVector<Value> LocalReduceOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  int64_t dim = getDim();
  int64_t copies = getTensorType(getInput()).getDimSize(dim) / getTensorType(getResult()).getDimSize(dim);
  return {builder.create<DumpOp>(getLoc(), cotangents[0], dim, getBlocks(), copies)};
}
OpCost LocalReduceOp::getOpCost() { return getElementwiseCost(*this, 1, getInput()); }
SmallVector<Attribute> LocalReduceOp::getKernelParams() { return {getDimAttr(), getBlocksAttr()}; }
OpFoldResult LocalReduceOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? getInput() : OpFoldResult();
}
bool LocalReduceOp::canSplit(int64_t parts, GroupAttr) { return getDim() == 0 && getBlocks() % parts == 0; }
Value LocalReduceOp::buildOnPart(OpBuilder &builder, Value part, int64_t parts) {
  int64_t copies = getTensorType(getInput()).getDimSize(0) / getTensorType(getResult()).getDimSize(0);
  return builder.create<LocalReduceOp>(getLoc(), part, 0, getBlocks() / parts, copies);
}
