//===- SpmdAnalysis.cpp - over which axes each value varies ---------------===//
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEINSERTTOVARYING
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// Axes of the world, divided further if a group of the program has boundaries of its own, such as one inside a node.
/// If groups do not fit together, the first one counts, and the op of the other one reports an error.
static SpmdAxes getProgramAxes(func::FuncOp function, ParallelAttr parallel) {
  const SpmdAxes ofWorld(parallel);
  SpmdAxes axes = ofWorld;
  for (Operation &op : function.front())
    if (auto kernel = dyn_cast<MoeKernelOpInterface>(op))
      if (GroupAttr group = kernel.getKernelGroup(); group && failed(ofWorld.getAxes(group)))
        (void)axes.refine(group);
  return axes;
}

/// Axes over which a value of that layout varies. Without a layout it is replicated.
static FailureOr<AxisSet> getLayoutAxes(func::FuncOp function, Attribute layout, const SpmdAxes &axes) {
  if (!layout)
    return AxisSet();
  FailureOr<AxisSet> set = axes.getAxes(cast<LayoutAttr>(layout));
  if (failed(set))
    return function.emitError() << "expected the groups of " << layout << " to be groups of the module's "
                                << kParallelAttrName;
  return set;
}

LogicalResult SpmdAnalysis::visitArguments(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    FailureOr<AxisSet> state =
        getLayoutAxes(function, function.getArgAttr(argument.getArgNumber(), kLayoutAttrName), axes);
    if (failed(state))
      return failure();
    states[argument] = *state;
  }
  return success();
}

LogicalResult SpmdAnalysis::visitReturn(func::FuncOp function, Operation &op) {
  SmallVector<AxisSet> &wanted = required[&op];
  for (OpOperand &operand : op.getOpOperands()) {
    FailureOr<AxisSet> state =
        getLayoutAxes(function, function.getResultAttr(operand.getOperandNumber(), kLayoutAttrName), axes);
    if (failed(state))
      return failure();
    wanted.push_back(*state);
  }
  return success();
}

LogicalResult SpmdAnalysis::visit(Operation &op) {
  auto spmd = dyn_cast<MoeSpmdOpInterface>(op);
  if (!spmd)
    return op.emitOpError() << "expected an op of an SPMD program; run moe-partition on a model graph first";
  SmallVector<AxisSet> operands = llvm::map_to_vector(op.getOperands(), [&](Value value) { return getState(value); });
  SmallVector<AxisSet> results;
  if (failed(spmd.inferSpmd(axes, operands, required[&op], results)))
    return failure();
  for (auto [result, state] : llvm::zip_equal(op.getResults(), results))
    states[result] = state;
  return success();
}

FailureOr<SpmdAnalysis> SpmdAnalysis::compute(func::FuncOp function) {
  ParallelAttr parallel = getParallel(function);
  if (!parallel)
    return failure();
  if (!function.getBody().hasOneBlock())
    return function.emitError() << "expected a body of one block but got " << function.getBody().getBlocks().size();
  SpmdAnalysis analysis(getProgramAxes(function, parallel));
  if (failed(analysis.visitArguments(function)))
    return failure();
  for (Operation &op : function.front())
    if (failed(op.hasTrait<OpTrait::IsTerminator>() ? analysis.visitReturn(function, op) : analysis.visit(op)))
      return failure();
  return analysis;
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

LogicalResult mlir::moe::insertToVarying(func::FuncOp function) {
  FailureOr<SpmdAnalysis> analysis = SpmdAnalysis::compute(function);
  if (failed(analysis))
    return failure();
  llvm::DenseMap<std::pair<Value, uint64_t>, Value> casts;
  OpBuilder builder(function.getContext());
  auto castTo = [&](Value value, AxisSet missing) {
    Value &varying = casts[{value, missing.bits}];
    if (varying)
      return varying;
    builder.setInsertionPointAfterValue(value);
    varying = value;
    for (GroupAttr group : analysis->getAxes().getGroups(missing))
      varying = builder.create<ToVaryingOp>(value.getLoc(), varying, group);
    return varying;
  };
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    SmallVector<AxisSet> required = analysis->getRequired(&op);
    for (auto [operand, wanted] : llvm::zip(op.getOpOperands(), required))
      if (AxisSet missing = wanted - analysis->getState(operand.get()); !missing.empty())
        operand.set(castTo(operand.get(), missing));
  }
  return success();
}

namespace {
struct MoeInsertToVarying : moe::impl::MoeInsertToVaryingBase<MoeInsertToVarying> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(insertToVarying(getOperation())))
      signalPassFailure();
  }
};
} // namespace
