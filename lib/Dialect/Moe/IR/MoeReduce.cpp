//===- MoeReduce.cpp - sums and copies over a group -----------------------===//
#include "MoeComm.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::moe;

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

LogicalResult AllReduceOp::verify() { return verifyCounts(*this, getInput().getType(), getCounts()); }
LogicalResult AllReduceOp::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                     SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
  // Counts give every member the number of rows that take part. They may be in any state.
  if (failed(inferVaryingToReplicated(*this, getGroup(), axes, operands.take_front(), required, results)))
    return failure();
  llvm::append_range(required, operands.drop_front());
  return success();
}
SmallVector<Value> AllReduceOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {builder.create<ToVaryingOp>(getLoc(), cotangents[0], getGroup())};
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

SmallVector<Value> ToVaryingOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  return {
      builder.create<AllReduceOp>(getLoc(), cotangents[0].getType(), cotangents[0], /*counts=*/Value(), getGroup())};
}
bool ToVaryingOp::isAlias() { return true; }

LogicalResult ReduceScatterOp::verify() {
  return verifyPart(*this, getGroup(), getDim(), getInput().getType(), getResult().getType());
}
SmallVector<Value> ReduceScatterOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  Value whole = builder.create<AllGatherOp>(getLoc(), cotangents[0], getGroup(), getDim());
  return {builder.create<ToVaryingOp>(getLoc(), whole, getGroup())};
}
OpCost ReduceScatterOp::getOpCost() { return getReductionCost(*this, Collective::ReduceScatter, getInput()); }
SmallVector<Attribute> ReduceScatterOp::getKernelParams() { return {getDimAttr()}; }

LogicalResult BroadcastOp::verify() { return verifyRoot(*this, getGroup(), getRoot()); }
SmallVector<Value> BroadcastOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  // The cotangent of a replicated value is replicated. Each member holds the whole, so the owner takes its own part,
  // and the sum over the members would count it `size` times.
  Value share = builder.create<ScaleOp>(getLoc(), cotangents[0],
                                        builder.getF64FloatAttr(1.0 / static_cast<double>(getGroup().getSize())));
  Value varying = builder.create<ToVaryingOp>(getLoc(), share, getGroup(), /*shares=*/true);
  return {builder.create<ReduceOp>(getLoc(), varying, getGroup(), getRoot())};
}
OpCost BroadcastOp::getOpCost() {
  OpCost cost = getExchangeCost(*this, Collective::Broadcast, getInput());
  cost.root = getRoot();
  return cost;
}
SmallVector<Attribute> BroadcastOp::getKernelParams() { return {getRootAttr()}; }

LogicalResult ReduceOp::verify() { return verifyRoot(*this, getGroup(), getRoot()); }
SmallVector<Value> ReduceOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  Value whole = builder.create<BroadcastOp>(getLoc(), cotangents[0], getGroup(), getRoot());
  return {builder.create<ToVaryingOp>(getLoc(), whole, getGroup())};
}
OpCost ReduceOp::getOpCost() {
  OpCost cost = getReductionCost(*this, Collective::Reduce, getInput());
  cost.root = getRoot();
  return cost;
}
SmallVector<Attribute> ReduceOp::getKernelParams() { return {getRootAttr()}; }

namespace {
/// Folds the adjoint of broadcast after that of to_varying, which add up twice and divide once, into one reduce.
struct FoldAllReduceIntoReduce : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReduceOp reduce, PatternRewriter &rewriter) const override {
    auto varying = reduce.getInput().getDefiningOp<ToVaryingOp>();
    auto scale = varying ? varying.getInput().getDefiningOp<ScaleOp>() : ScaleOp();
    auto sum = scale ? scale.getInput().getDefiningOp<AllReduceOp>() : AllReduceOp();
    GroupAttr group = reduce.getGroup();
    if (!sum || !varying.getGroup().hasSameRanks(group) || !sum.getGroup().hasSameRanks(group) || sum.getCounts() ||
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

SmallVector<Value> AssumeReplicatedOp::buildAdjoint(OpBuilder &builder, ValueRange cotangents) {
  Value share = builder.create<ScaleOp>(getLoc(), cotangents[0],
                                        builder.getF64FloatAttr(1.0 / static_cast<double>(getGroup().getSize())));
  return {builder.create<ToVaryingOp>(getLoc(), share, getGroup(), /*shares=*/true)};
}
OpCost AssumeReplicatedOp::getOpCost() { return {}; }
StringRef AssumeReplicatedOp::getKernelName() { return "assume_replicated"; }
bool AssumeReplicatedOp::isAlias() { return true; }
