//===- MoeMemory.cpp - parts of values, and where they lie ----------------===//
#include "mlir/IR/PatternMatch.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"

using namespace mlir;
using namespace mlir::moe;

/// Type with dimension 0 divided by `parts`, or null if that is impossible.
static RankedTensorType getPartType(RankedTensorType type, int64_t parts) {
  if (type.getRank() == 0 || parts < 1 || type.getDimSize(0) % parts != 0)
    return {};
  return withDim(type, 0, type.getDimSize(0) / parts);
}

static LogicalResult verifyParts(Operation *op, RankedTensorType whole, TypeRange parts) {
  RankedTensorType expected = getPartType(whole, static_cast<int64_t>(parts.size()));
  if (!expected)
    return op->emitOpError() << "expected a number of parts that divides dimension 0 of " << whole << " but got "
                             << parts.size();
  for (Type part : parts)
    if (part != expected)
      return op->emitOpError() << "expected each of " << parts.size() << " parts of " << whole << " to be " << expected
                               << " but got " << part;
  return success();
}

void SplitOp::build(OpBuilder &builder, OperationState &state, Value input, int64_t parts) {
  Type part = getPartType(getTensorType(input), parts);
  build(builder, state, SmallVector<Type>(parts, part), input);
}
LogicalResult SplitOp::verify() { return verifyParts(*this, getInput().getType(), getParts().getTypes()); }
SmallVector<Value> SplitOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  SmallVector<Value> parts;
  for (auto [part, cotangent] : llvm::zip_equal(getParts(), cotangents))
    parts.push_back(cotangent ? cotangent
                              : builder.create<ScaleOp>(getLoc(), part, builder.getF64FloatAttr(0.0)).getResult());
  return {builder.create<ConcatOp>(getLoc(), parts)};
}
bool SplitOp::isAlias() { return true; }
std::optional<RankPart> SplitOp::getAliasPart(unsigned result) {
  return RankPart{GroupAttr(), result, static_cast<int64_t>(getParts().size())};
}

static LogicalResult foldSplit(SplitOp split, PatternRewriter &rewriter) {
  if (split.getParts().size() == 1) {
    rewriter.replaceOp(split, split.getInput());
    return success();
  }
  auto concat = split.getInput().getDefiningOp<ConcatOp>();
  if (!concat || concat.getParts().size() != split.getParts().size())
    return failure();
  rewriter.replaceOp(split, concat.getParts());
  return success();
}
void SplitOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) { patterns.add(foldSplit); }

LogicalResult MicroBatchOp::verify() {
  RankedTensorType type = getInput().getType();
  auto expected = type.getRank() > 0 ? RankedTensorType::get(type.getShape().drop_front(), type.getElementType())
                                     : RankedTensorType();
  if (getResult().getType() != expected)
    return emitOpError() << "expected the result to be " << type << " without dimension 0 but got "
                         << getResult().getType();
  int64_t index = getIndex();
  if (index < 0 || index >= type.getDimSize(0))
    return emitOpError() << "expected index from 0 to " << type.getDimSize(0) - 1 << " but got " << index;
  return success();
}
bool MicroBatchOp::isAlias() { return true; }
std::optional<RankPart> MicroBatchOp::getAliasPart(unsigned) {
  return RankPart{GroupAttr(), getIndex(), getInput().getType().getDimSize(0)};
}

void ConcatOp::build(OpBuilder &builder, OperationState &state, ValueRange parts) {
  build(builder, state, scaleDim(parts.front(), 0, static_cast<int64_t>(parts.size()), 1), parts);
}
LogicalResult ConcatOp::verify() { return verifyParts(*this, getResult().getType(), getParts().getTypes()); }
SmallVector<Value> ConcatOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return builder.create<SplitOp>(getLoc(), cotangents[0], static_cast<int64_t>(getParts().size()))->getResults();
}
StringRef ConcatOp::getKernelName() { return ""; }
std::optional<RankPart> ConcatOp::getOperandPart(unsigned operand) {
  return RankPart{GroupAttr(), operand, static_cast<int64_t>(getParts().size())};
}
OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getParts().size() == 1)
    return getParts().front();
  auto split = getParts().front().getDefiningOp<SplitOp>();
  return split && split.getParts() == getParts() ? OpFoldResult(split.getInput()) : OpFoldResult();
}

static int64_t countElements(Type type) { return cast<RankedTensorType>(type).getNumElements(); }

static LogicalResult verifyBucket(Operation *op, RankedTensorType bucket, TypeRange pieces, ArrayAttr layouts) {
  if (layouts.size() != pieces.size())
    return op->emitOpError() << "expected a layout for each of " << pieces.size() << " pieces but got "
                             << layouts.size();
  int64_t elements = 0;
  for (auto [piece, layout] : llvm::zip_equal(pieces, layouts)) {
    auto type = cast<RankedTensorType>(piece);
    auto dims = dyn_cast<LayoutAttr>(layout);
    if (!dims || static_cast<int64_t>(dims.getDims().size()) != type.getRank())
      return op->emitOpError() << "expected a layout of the dimensions of " << type << " but got " << layout;
    if (type.getElementType() != bucket.getElementType())
      return op->emitOpError() << "expected pieces of the bucket's element type " << bucket.getElementType()
                               << " but got " << type;
    elements += type.getNumElements();
  }
  if (elements != bucket.getNumElements())
    return op->emitOpError() << "expected pieces of " << bucket.getNumElements()
                             << " elements in all, as the bucket has, "
                             << "but got " << elements;
  return success();
}

/// The place at which piece `index` begins.
static RankPart getPiece(TypeRange pieces, unsigned index) {
  int64_t at = 0;
  for (Type piece : pieces.take_front(index))
    at += countElements(piece);
  return RankPart::piece(at);
}

LogicalResult UnpackOp::verify() {
  return verifyBucket(*this, getBucket().getType(), getPieces().getTypes(), getLayouts());
}
/// Pieces that no gradient reaches, such as those that fill a bucket up, have zeros.
SmallVector<Value> UnpackOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  SmallVector<Value> pieces;
  Type elementType = getBucket().getType().getElementType();
  for (auto [piece, cotangent] : llvm::zip_equal(getPieces(), cotangents)) {
    Type type = getTensorType(piece).clone(elementType);
    pieces.push_back(cotangent ? cotangent
                               : builder.create<FillOp>(getLoc(), type, builder.getF64FloatAttr(0)).getResult());
  }
  return {builder.create<PackOp>(getLoc(), getBucket().getType(), pieces, getLayouts())};
}
bool UnpackOp::isAlias() { return true; }
std::optional<RankPart> UnpackOp::getAliasPart(unsigned result) { return getPiece(getPieces().getTypes(), result); }

LogicalResult PackOp::verify() {
  return verifyBucket(*this, getBucket().getType(), getPieces().getTypes(), getLayouts());
}
SmallVector<Value> PackOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return builder.create<UnpackOp>(getLoc(), getPieces().getTypes(), cotangents[0], getLayouts())->getResults();
}
/// Zeros are equal in every state.
LogicalResult PackOp::inferSpmd(const SpmdAxes &, ArrayRef<AxisSet> operands, SmallVectorImpl<AxisSet> &required,
                                SmallVectorImpl<AxisSet> &results) {
  AxisSet all;
  for (auto [piece, state] : llvm::zip_equal(getPieces(), operands))
    if (!isZero(piece))
      all = all | state;
  for (auto [piece, state] : llvm::zip_equal(getPieces(), operands))
    required.push_back(isZero(piece) ? state : all);
  results.assign(1, all);
  return success();
}
bool PackOp::isZero(Value piece) {
  auto fill = piece.getDefiningOp<FillOp>();
  return fill && fill.getValue().isZero();
}
StringRef PackOp::getKernelName() { return ""; }
std::optional<RankPart> PackOp::getOperandPart(unsigned operand) { return getPiece(getPieces().getTypes(), operand); }

static OpCost getHostCopyCost(Operation *op) {
  OpCost cost = getMemoryCost(op);
  cost.resource = Resource::HostLink;
  return cost;
}
OpCost OffloadOp::getOpCost() { return getHostCopyCost(*this); }
StringRef OffloadOp::getKernelName() { return kCopyKernel; }
bool OffloadOp::isOnHost() { return true; }
OpCost FetchOp::getOpCost() { return getHostCopyCost(*this); }
StringRef FetchOp::getKernelName() { return kCopyKernel; }
