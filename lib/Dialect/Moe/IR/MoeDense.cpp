//===- MoeDense.cpp - dense ops: checks, adjoints, costs, calls -----------===//
#include "MoeComm.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::moe;

static int64_t getRows(Value value) { return getTensorType(value).getDimSize(0); }
static int64_t getColumns(Value value) { return getTensorType(value).getDimSize(1); }

static Attribute getInt(Operation *op, int64_t value) { return Builder(op->getContext()).getI64IntegerAttr(value); }

/// Verifies that `value` has the shape `shape` and the element type of `like`.
static LogicalResult verifyShape(Operation *op, StringRef what, Value value, ArrayRef<int64_t> shape, Value like) {
  return verifyType(op, what, value.getType(), RankedTensorType::get(shape, getTensorType(like).getElementType()));
}

/// Parameters of `cut`: the number of parts of a sequence, the stride of the ranks that have them, and whether it is
/// zigzag.
static SmallVector<Attribute> getCutParams(Operation *op, CutAttr cut) {
  if (!cut)
    return getIntParams(op->getContext(), {1, 1, 0});
  return getIntParams(op->getContext(), {cut.getGroup().getSize(), cut.getGroup().getStride(), cut.getZigzag()});
}

/// Number of parts into which a sequence is cut.
static int64_t getCutParts(CutAttr cut) { return cut ? cut.getGroup().getSize() : 1; }

/// Builds `op` on `x` in the other direction.
template <typename Op> static Op buildInverse(OpBuilder &builder, Op op, Value x) {
  auto inverse = cast<Op>(builder.clone(*op));
  inverse.getXMutable().assign(x);
  inverse.setInverse(!op.getInverse());
  return inverse;
}

static LogicalResult verifyCut(Operation *op, CutAttr cut, StringRef what, int64_t rows) {
  if (cut && cut.getZigzag() && rows % 2 != 0)
    return op->emitOpError() << "expected an even " << what << " with a zigzag cut but got " << rows;
  return success();
}

//===----------------------------------------------------------------------===//
// Indices, constants
//===----------------------------------------------------------------------===//

LogicalResult PositionsOp::verify() {
  int64_t tokens = getRows(getResult()), period = getPeriod();
  if (period < 1 || tokens % period != 0)
    return emitOpError() << "expected period to divide the " << tokens << " tokens but got " << period;
  return verifyCut(*this, getCutAttr(), "period", period);
}
SmallVector<Attribute> PositionsOp::getKernelParams() {
  SmallVector<Attribute> params = {getPeriodAttr()};
  llvm::append_range(params, getCutParams(*this, getCutAttr()));
  return params;
}

SmallVector<Attribute> IndexAffineOp::getKernelParams() { return {getFactorAttr(), getOffsetAttr()}; }
SmallVector<int64_t> IndexAffineOp::getInPlaceInputs() { return {0}; }

SmallVector<Attribute> FillOp::getKernelParams() { return {getValueAttr()}; }

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

/// Verifies the padding of an embedding or its gradient. `table` is one of `parts`.
static LogicalResult verifyPadding(Operation *op, int64_t padding, Value table, int64_t parts) {
  int64_t rows;
  if (!llvm::MulOverflow(getRows(table), parts, rows) && padding >= rows)
    return op->emitOpError() << "expected padding below the " << rows << " rows of the whole table but got " << padding;
  return success();
}

LogicalResult EmbeddingOp::verify() {
  if (failed(verifyPadding(*this, getPadding(), getTable(), getParts())))
    return failure();
  return verifyShape(*this, "the result", getResult(), {getRows(getIds()), getColumns(getTable())}, getTable());
}
SmallVector<Value> EmbeddingOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {Value(), builder.create<EmbeddingGradOp>(getLoc(), getTable().getType(), getIds(), cotangents[0], Value(),
                                                   getPartsAttr(), getStrideAttr(), getPaddingAttr())};
}
/// Only the tokens' rows of the table are read.
OpCost EmbeddingOp::getOpCost() {
  OpCost cost = getMemoryCost(*this);
  cost.bytesRead = getByteSize(getIds().getType()) + getByteSize(getResult().getType());
  return cost;
}
SmallVector<Attribute> EmbeddingOp::getKernelParams() { return {getPartsAttr(), getStrideAttr()}; }

LogicalResult EmbeddingGradOp::verify() {
  if (failed(verifyPadding(*this, getPadding(), getResult(), getParts())))
    return failure();
  RankedTensorType result = getTensorType(getResult());
  if (failed(verifyShape(*this, "grads", getGrads(), {getRows(getIds()), getColumns(getResult())}, getGrads())))
    return failure();
  return verifySumType(*this, "the result", result, result.clone(getTensorType(getGrads()).getElementType()));
}
SmallVector<Value> EmbeddingGradOp::getKernelInputs() { return {getIds(), getGrads(), getAddend()}; }
SmallVector<Attribute> EmbeddingGradOp::getKernelParams() {
  return {getPartsAttr(), getStrideAttr(), getPaddingAttr()};
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

LogicalResult NormOp::verify() {
  int64_t columns = getColumns(getX()), block = getRows(getGamma());
  if (block < 1 || columns % block != 0)
    return emitOpError() << "expected gamma's size to divide the " << columns << " columns but got " << block;
  if (getBeta() && (block != columns || getBeta().getType() != getGamma().getType()))
    return emitOpError() << "expected beta, of gamma's type, only with a gamma for each of the " << columns
                         << " columns but got " << getBeta().getType();
  if (!(getEps().convertToDouble() >= 0))
    return emitOpError() << "expected eps of at least 0 but got " << getEps().convertToDouble();
  return verifyShape(*this, "gamma", getGamma(), {block}, getX());
}
SmallVector<Value> NormOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  Value grads = cotangents[0];
  Type block = getGamma().getType();
  SmallVector<Value> gradients = {
      builder.create<NormGradOp>(getLoc(), getX().getType(), getX(), getGamma(), grads, getKindAttr(), getEpsAttr()),
      builder.create<NormWgradOp>(getLoc(), block, getX(), grads, Value(), getKindAttr(), getEpsAttr())};
  if (getBeta())
    gradients.push_back(
        builder.create<BiasGradOp>(getLoc(), block, grads, Value(), Value(), builder.getF64FloatAttr(1.0)));
  return gradients;
}
SmallVector<Value> NormOp::getKernelInputs() { return {getX(), getGamma(), getBeta()}; }
static SmallVector<Attribute> getNormParams(Operation *op, Norm kind, FloatAttr eps) {
  return {getInt(op, static_cast<int64_t>(kind)), eps};
}
SmallVector<Attribute> NormOp::getKernelParams() { return getNormParams(*this, getKind(), getEpsAttr()); }
SmallVector<int64_t> NormOp::getInPlaceInputs() { return {0}; }

SmallVector<Attribute> NormGradOp::getKernelParams() { return getNormParams(*this, getKind(), getEpsAttr()); }
SmallVector<int64_t> NormGradOp::getInPlaceInputs() { return {2}; }

SmallVector<Value> NormWgradOp::getKernelInputs() { return {getX(), getGrads(), getAddend()}; }
SmallVector<Attribute> NormWgradOp::getKernelParams() { return getNormParams(*this, getKind(), getEpsAttr()); }

SmallVector<Value> InverseRootOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<InverseRootGradOp>(getLoc(), getResult(), cotangents[0], getScaleAttr())};
}
SmallVector<Attribute> InverseRootOp::getKernelParams() { return {getScaleAttr(), getEpsAttr()}; }
SmallVector<int64_t> InverseRootOp::getInPlaceInputs() { return {0}; }
SmallVector<Attribute> InverseRootGradOp::getKernelParams() { return {getScaleAttr()}; }
SmallVector<int64_t> InverseRootGradOp::getInPlaceInputs() { return {0, 1}; }

LogicalResult ClampOp::verify() {
  if (!(getLimit().convertToDouble() > 0))
    return emitOpError() << "expected limit to be positive but got " << getLimit().convertToDouble();
  return success();
}
SmallVector<Value> ClampOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<ClampGradOp>(getLoc(), getInput(), cotangents[0], getLimitAttr())};
}
SmallVector<Attribute> ClampOp::getKernelParams() { return {getLimitAttr()}; }
SmallVector<int64_t> ClampOp::getInPlaceInputs() { return {0}; }
SmallVector<Attribute> ClampGradOp::getKernelParams() { return {getLimitAttr()}; }
SmallVector<int64_t> ClampGradOp::getInPlaceInputs() { return {0, 1}; }

//===----------------------------------------------------------------------===//
// Linear
//===----------------------------------------------------------------------===//

LogicalResult LinearOp::verify() {
  int64_t inner = getColumns(getX()), columns = getColumns(getY()), unit = getColumn();
  SmallVector<int64_t> shape = {inner, columns};
  if (getTransposeWeights())
    std::swap(shape[0], shape[1]);
  if (failed(verifyShape(*this, "weights", getWeights(), shape, getX())) ||
      (getBias() && failed(verifyShape(*this, "bias", getBias(), {columns}, getX()))))
    return failure();
  if (unit < 0 || (unit > 0 && columns % unit != 0))
    return emitOpError() << "expected column to divide the " << columns << " columns of y but got " << unit;
  return verifyShape(*this, "y", getY(), {getRows(getX()), columns}, getX());
}
OpCost LinearOp::getOpCost() {
  return getProductCost(*this, {1, getRows(getX()), getColumns(getY()), getColumns(getX())});
}

//===----------------------------------------------------------------------===//
// Rotary positions
//===----------------------------------------------------------------------===//

/// Verifies (C3) and (C4).
static LogicalResult verifyRotaryScaling(RotaryOp op) {
  double base = op.getBase().convertToDouble(), factor = op.getFactor().convertToDouble();
  double low = op.getLow().convertToDouble(), high = op.getHigh().convertToDouble();
  double reach = op.getReach().convertToDouble(), span = op.getSpan().convertToDouble();
  if (!(base > 0) || !(factor > 0) || !(reach >= 0) || !(span > 0))
    return op.emitOpError() << "expected base, factor and span to be positive and reach to be at least 0";
  if (factor != 1 && !(reach > 0 ? low > high : low < high))
    return op.emitOpError() << "expected low " << (reach > 0 ? "above" : "below") << " high but got " << low << " and "
                            << high;
  return success();
}
LogicalResult RotaryOp::verify() {
  int64_t head = getHeadDim(), begin = getBegin(), rotary = getRotaryDim(), period = getPeriod();
  if (head < 1 || getColumns(getX()) % head != 0)
    return emitOpError() << "expected head_dim to divide the " << getColumns(getX()) << " columns but got " << head;
  if (begin < 0 || rotary < 0 || rotary % 2 != 0 || rotary > head - begin)
    return emitOpError() << "expected an even rotary_dim within the " << head
                         << " columns of a head from begin on but got " << rotary << " from " << begin << " on";
  if (period < 1 || getRows(getX()) % period != 0)
    return emitOpError() << "expected period to divide the " << getRows(getX()) << " rows but got " << period;
  if (failed(verifyCut(*this, getCutAttr(), "period", period)))
    return failure();
  return verifyRotaryScaling(*this);
}
/// A rotation's transpose is its inverse; `scale` stays.
SmallVector<Value> RotaryOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {buildInverse(builder, *this, cotangents[0])};
}
SmallVector<Attribute> RotaryOp::getKernelParams() {
  int64_t direction = getUnrotated() ? 0 : getInverse() ? -1 : 1;
  SmallVector<Attribute> params =
      getIntParams(getContext(), {getPeriod(), getHeadDim(), getBegin(), getRotaryDim(), getInterleaved(), direction});
  llvm::append_range(params, getCutParams(*this, getCutAttr()));
  params.append({getBaseAttr(), getFactorAttr(), getLowAttr(), getHighAttr(), getScaleAttr(), getReachAttr(),
                 getTemperatureAttr(), getSpanAttr()});
  return params;
}
SmallVector<int64_t> RotaryOp::getInPlaceInputs() { return {0}; }

//===----------------------------------------------------------------------===//
// Divided sequences
//===----------------------------------------------------------------------===//

LogicalResult JoinSequencesOp::verify() {
  int64_t rows = getRows(getX()), sequences = getSequences(), length = getLength();
  int64_t set = getCutParts(getCut()) * sequences * length;
  if (sequences < 1 || length < 1 || rows % set != 0)
    return emitOpError() << "expected rows of " << getCutParts(getCut()) << " members, each with " << sequences
                         << " sequences of " << length << " rows, but got " << rows;
  return verifyCut(*this, getCut(), "length", length);
}
/// The adjoint moves rows back to their places.
SmallVector<Value> JoinSequencesOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {buildInverse(builder, *this, cotangents[0])};
}
SmallVector<Attribute> JoinSequencesOp::getKernelParams() {
  return getIntParams(getContext(),
                      {getCutParts(getCut()), getSequences(), getLength(), getCut().getZigzag(), getInverse()});
}

//===----------------------------------------------------------------------===//
// Heads with shared columns
//===----------------------------------------------------------------------===//

/// Verifies that `x` [S, H D], `shared` [S, R] and `all` [S, H (D + R)] belong together.
static LogicalResult verifyAppended(Operation *op, Value x, Value shared, Value all) {
  int64_t rows = getRows(all), own = getColumns(x), common = getColumns(shared), columns = getColumns(all);
  if (failed(verifyShape(op, "the heads' own columns", x, {rows, own}, all)) ||
      failed(verifyShape(op, "the shared columns", shared, {rows, common}, all)))
    return failure();
  int64_t heads = common > 0 ? (columns - own) / common : 0;
  if (heads < 1 || own < 1 || own % heads != 0 || columns != own + heads * common)
    return op->emitOpError() << "expected heads that divide the " << own << " own columns equally and have " << common
                             << " shared columns each but got " << columns << " columns";
  return success();
}
LogicalResult AppendToHeadsOp::verify() { return verifyAppended(*this, getX(), getShared(), getResult()); }
LogicalResult AppendToHeadsGradOp::verify() { return verifyAppended(*this, getGradX(), getGradShared(), getGrads()); }
SmallVector<Value> AppendToHeadsOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return builder.create<AppendToHeadsGradOp>(getLoc(), getX().getType(), getShared().getType(), cotangents[0])
      ->getResults();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

static LogicalResult verifyAttentionLengths(AttentionOp op) {
  int64_t queries = getRows(op.getQ()), keys = getRows(op.getK()), q = op.getQLength(), k = op.getKLength();
  if (q < 1 || k < 1 || queries % q != 0 || keys % k != 0 || queries / q != keys / k)
    return op.emitOpError()
           << "expected whole sequences of q_length queries and k_length keys, and the same number of both, but got "
           << queries << " rows of " << q << " and " << keys << " of " << k;
  return success();
}
/// Number of key heads that exist. They are as large as query heads.
template <typename Op> static int64_t getHeldKeyHeads(Op op) {
  int64_t head = getColumns(op.getQ()) / op.getHeads();
  return getColumns(op.getK()) / head;
}
static LogicalResult verifyAttentionHeads(AttentionOp op) {
  int64_t heads = op.getHeads(), kHeads = op.getKHeads(), parts = op.getParts(), stride = op.getStride();
  if (heads < 1 || kHeads < 1 || parts < 1 || stride < 1)
    return op.emitOpError() << "expected heads, k_heads, parts and stride of at least 1";
  int64_t q = getColumns(op.getQ()), k = getColumns(op.getK()), v = getColumns(op.getV());
  if (q < heads || q % heads != 0 || k % (q / heads) != 0)
    return op.emitOpError() << "expected whole heads of one size but got " << q << " columns of " << heads
                            << " query heads and " << k << " of keys";
  int64_t held = getHeldKeyHeads(op);
  bool all = held == kHeads && heads * parts % kHeads == 0,
       own = held * parts == kHeads && held > 0 && heads % held == 0;
  if (!all && !own)
    return op.emitOpError() << "expected the keys of all " << kHeads << " heads or of one of their " << parts
                            << " parts, in a number that divides the query heads, but got keys of " << held << " heads";
  if (v % held != 0)
    return op.emitOpError() << "expected values of " << held << " heads but got " << v << " columns";
  return success();
}
/// Verifies the logarithm of the sum of exponentials of each row of `rows` and each head.
static LogicalResult verifyLse(Operation *op, Value lse, Value rows, int64_t heads) {
  return verifyType(op, "lse", lse.getType(), getAccumulatorTensor(getTensorType(rows), {getRows(rows), heads}));
}
LogicalResult AttentionOp::verify() {
  if (failed(verifyAttentionLengths(*this)) || failed(verifyAttentionHeads(*this)))
    return failure();
  int64_t heads = getHeads(), rows = getRows(getQ());
  double p = getDropout().convertToDouble();
  if (!(p >= 0 && p < 1) || (p > 0 && !getStep()))
    return emitOpError() << "expected dropout of at least 0 and below 1, with step where it is not 0, but got " << p;
  if (getWindow() < 0)
    return emitOpError() << "expected window of at least 0 but got " << getWindow();
  int64_t qLength = getQLength(), kLength = getKLength();
  if (failed(verifyCut(*this, getCutAttr(), "q_length", qLength)))
    return failure();
  bool isOfMembers = getKeyShift() >= 0;
  if ((isOfMembers || getRing()) && (!getCut() || getBias() || getStep() || (isOfMembers && getRing())))
    return emitOpError() << "expected key_shift or ring with a cut, and without each other, bias and dropout";
  if (getBlock() < 0)
    return emitOpError() << "expected block of at least 0 but got " << getBlock();
  if ((getBias() &&
       failed(verifyShape(*this, "bias", getBias(), {heads, qLength * getCutParts(getCutAttr()), kLength}, getQ()))) ||
      (getSinks() && failed(verifyShape(*this, "sinks", getSinks(), {heads}, getQ()))) ||
      failed(verifyLse(*this, getLse(), getQ(), heads)))
    return failure();
  return verifyShape(*this, "the result", getResult(), {rows, getColumns(getV()) / getHeldKeyHeads(*this) * heads},
                     getQ());
}

LogicalResult MergeAttentionOp::verify() {
  RankedTensorType rows = getTensorType(getA()), lse = getTensorType(getLse());
  int64_t heads = lse.getDimSize(1);
  if (heads < 1 || rows.getDimSize(1) % heads != 0)
    return emitOpError() << "expected whole heads but got " << rows.getDimSize(1) << " columns of " << heads
                         << " heads";
  return verifyLse(*this, getLse(), getA(), heads);
}
SmallVector<int64_t> MergeAttentionOp::getInPlaceInputs() { return {0}; }

LogicalResult AttentionGradOp::verify() { return verifyLse(*this, getLse(), getQ(), getHeads()); }
LogicalResult AttentionBiasGradOp::verify() { return verifyLse(*this, getLse(), getQ(), getHeads()); }
LogicalResult AttentionSinksGradOp::verify() { return verifyLse(*this, getLse(), getGrads(), getRows(getSinks())); }

/// Attributes of one op of attention without those for the number of operands of each kind.
static SmallVector<NamedAttribute> getAttentionAttributes(Operation *op) {
  return llvm::to_vector(llvm::make_filter_range(op->getAttrs(), [](NamedAttribute attribute) {
    return attribute.getName() != OpTrait::AttrSizedOperandSegments<void>::getOperandSegmentSizeAttr();
  }));
}

/// Builds an op of the gradient of `op` from its operands, its results and the cotangents.
template <typename Op>
static Op buildAttentionGrad(OpBuilder &builder, AttentionOp op, TypeRange results, Value grads) {
  OperationState state(op.getLoc(), Op::getOperationName());
  state.addTypes(results);
  state.addOperands(op->getOperands());
  state.addOperands({op.getResult(), op.getLse(), grads});
  state.addAttributes(getAttentionAttributes(op));
  auto has = [](Value value) { return static_cast<int32_t>(static_cast<bool>(value)); };
  int32_t segments[] = {1, 1, 1, has(op.getBias()), has(op.getSinks()), has(op.getStep()), 1, 1, 1};
  state.addAttribute(Op::getOperandSegmentSizeAttr(), builder.getDenseI32ArrayAttr(segments));
  return cast<Op>(builder.create(state));
}

SmallVector<Value> AttentionOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  // No op but the backward reads lse.
  assert(cotangents[0] && !cotangents[1]);
  Value grads = cotangents[0];
  auto main = buildAttentionGrad<AttentionGradOp>(builder, *this,
                                                  {getQ().getType(), getK().getType(), getV().getType()}, grads);
  SmallVector<Value> gradients = main->getResults();
  if (getBias())
    gradients.push_back(
        buildAttentionGrad<AttentionBiasGradOp>(builder, *this, getBias().getType(), grads).getResult());
  if (getSinks())
    gradients.push_back(
        builder.create<AttentionSinksGradOp>(getLoc(), getSinks().getType(), getSinks(), getLse(), getResult(), grads));
  return gradients;
}

template <typename Op> static int64_t getKeyDim(Op op) { return getColumns(op.getK()) / getHeldKeyHeads(op); }
template <typename Op> static int64_t getValueDim(Op op) { return getColumns(op.getV()) / getHeldKeyHeads(op); }

/// Average number of keys that a query sees, on the rank whose queries see the most.
template <typename Op> static int64_t getSeenKeys(Op op) {
  int64_t q = op.getQLength(), k = op.getKLength(), window = op.getWindow(), block = op.getBlock();
  CutAttr cut = op.getCutAttr();
  if (op.getRing())
    k *= getCutParts(cut);
  int64_t seen = k;
  if (block > 0)
    seen = op.getCausal() ? (block + 1) / 2 : block;
  else if (op.getCausal())
    // The last of several consecutive parts sees the most keys. In zigzag all parts see the same number.
    seen = cut && !cut.getZigzag() ? k - (q - 1) / 2 : (k + 1) / 2;
  return window > 0 ? std::min(k, static_cast<int64_t>(window)) : seen;
}

/// Cost of the products of scores with `keys` matrices of keys' columns and `values` of values' columns. Causal
/// products are halves.
template <typename Op> static OpCost getAttentionCost(Op op, int64_t keys, int64_t values) {
  int64_t q = op.getQLength(), sequences = getRows(op.getQ()) / q;
  OpCost cost = getProductCost(
      op, {sequences * op.getHeads(), q, getSeenKeys(op), keys * getKeyDim(op) + values * getValueDim(op)});
  cost.attention = {std::max(getKeyDim(op), getValueDim(op)), keys + values};
  return cost;
}

OpCost AttentionOp::getOpCost() { return getAttentionCost(*this, 1, 1); }
/// Computes the scores again, and the gradients of weights, values, queries and keys.
OpCost AttentionGradOp::getOpCost() { return getAttentionCost(*this, 3, 2); }
OpCost AttentionBiasGradOp::getOpCost() { return getAttentionCost(*this, 1, 1); }

template <typename Op> static SmallVector<Attribute> getAttentionParams(Op op) {
  SmallVector<Attribute> params =
      getIntParams(op.getContext(),
                   {op.getQLength(), op.getKLength(), op.getHeads(), op.getKHeads(), op.getParts(), op.getStride(),
                    op.getCausal(), op.getWindow(), op.getSeed(), op.getRowParts(), op.getRowStride(), op.getBlock()});
  llvm::append_range(params, getCutParams(op, op.getCutAttr()));
  // The runtime refuses a ring that no pass has expanded.
  params.push_back(getInt(op, op.getRing() ? -2 : op.getKeyShift()));
  params.append({op.getScaleAttr(), op.getDropoutAttr()});
  return params;
}
SmallVector<Attribute> AttentionOp::getKernelParams() { return getAttentionParams(*this); }
SmallVector<Attribute> AttentionGradOp::getKernelParams() { return getAttentionParams(*this); }
SmallVector<Attribute> AttentionBiasGradOp::getKernelParams() { return getAttentionParams(*this); }

SmallVector<Value> AttentionOp::getKernelInputs() { return {getQ(), getK(), getV(), getBias(), getSinks(), getStep()}; }
template <typename Op> static SmallVector<Value> getAttentionGradInputs(Op op) {
  return {op.getQ(),    op.getK(),        op.getV(),   op.getBias(), op.getSinks(),
          op.getStep(), op.getAttended(), op.getLse(), op.getGrads()};
}
SmallVector<Value> AttentionGradOp::getKernelInputs() { return getAttentionGradInputs(*this); }
SmallVector<Value> AttentionBiasGradOp::getKernelInputs() { return getAttentionGradInputs(*this); }

//===----------------------------------------------------------------------===//
// Relative positions, dropout
//===----------------------------------------------------------------------===//

LogicalResult RelativeBiasOp::verify() {
  ArrayRef<int64_t> shape = getTensorType(getResult()).getShape();
  return verifyShape(*this, "the result", getResult(), {getColumns(getTable()), shape[1], shape[2]}, getTable());
}
SmallVector<Value> RelativeBiasOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<RelativeBiasGradOp>(getLoc(), getTable().getType(), cotangents[0], Value(),
                                             getBidirectionalAttr(), getMaxDistanceAttr())};
}
SmallVector<Attribute> RelativeBiasOp::getKernelParams() {
  return {getInt(*this, getBidirectional()), getMaxDistanceAttr()};
}
SmallVector<Value> RelativeBiasGradOp::getKernelInputs() { return {getGrads(), getAddend()}; }
SmallVector<Attribute> RelativeBiasGradOp::getKernelParams() {
  return {getInt(*this, getBidirectional()), getMaxDistanceAttr()};
}

LogicalResult DropoutOp::verify() {
  double p = getP().convertToDouble();
  if (!(p >= 0 && p < 1))
    return emitOpError() << "expected p of at least 0 and below 1 but got " << p;
  return verifyCut(*this, getCutAttr(), "length", getLength());
}
/// The adjoint multiplies the same elements by the same factors.
SmallVector<Value> DropoutOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  auto adjoint = cast<DropoutOp>(builder.clone(*getOperation()));
  adjoint.getXMutable().assign(cotangents[0]);
  return {adjoint};
}
/// Rows can be divided if the parts of `group` lie inside one of the parts of the op.
bool DropoutOp::canDivideRows(GroupAttr group) {
  bool isInside = getRowParts() == 1 || getRowStride() == group.getStride() * group.getSize();
  return isInside && hasRowsFor(getResult().getType(), group);
}
Value DropoutOp::buildOnRowPart(OpBuilder &builder, ValueRange rows, GroupAttr group) {
  Value part = cloneOnRowPart(*this, builder, rows);
  auto op = part.getDefiningOp<DropoutOp>();
  op.setRowParts(getRowParts() * group.getSize());
  op.setRowStride(group.getStride());
  return part;
}
SmallVector<Attribute> DropoutOp::getKernelParams() {
  bool zigzag = getCutAttr() && getCutAttr().getZigzag();
  SmallVector<Attribute> params =
      getIntParams(getContext(), {getSeed(), getRowParts(), getRowStride(), getColumnParts(), getColumnStride(),
                                  getJitter(), getCutParts(getCutAttr()), getSequences(), getLength(), zigzag});
  params.push_back(getPAttr());
  return params;
}
SmallVector<int64_t> DropoutOp::getInPlaceInputs() { return {0}; }
