//===- SplitBackward.cpp - gradients of weights apart from the others -----===//
#include "ExpertPath.h"
#include "Stages.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

#include <map>

namespace mlir::moe {
#define GEN_PASS_DEF_MOESPLITBACKWARD
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// Whether another stage's backward of the micro-batch uses a result.
static bool isAwaited(Operation *op, const PipelineUnit &unit) {
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    std::optional<PipelineUnit> its = getPipelineUnit(user);
    return its && its->microBatch == unit.microBatch && its->stage != unit.stage;
  });
}

/// Ops of the unit of `roots` that they need.
static llvm::DenseSet<Operation *> findNeeded(SmallVector<Operation *> roots, const PipelineUnit &unit) {
  llvm::DenseSet<Operation *> needed(roots.begin(), roots.end());
  while (!roots.empty())
    for (Value operand : roots.pop_back_val()->getOperands())
      if (Operation *maker = operand.getDefiningOp();
          maker && getPipelineUnit(maker) == unit && needed.insert(maker).second)
        roots.push_back(maker);
  return needed;
}

/// Roots of the backward. The first stage passes no value on, so its last op, for the first op of the forward, is its
/// root.
static SmallVector<Operation *> findRoots(ArrayRef<Operation *> ops, const PipelineUnit &unit) {
  // A further pass of a layer is one piece of work.
  SmallVector<Operation *> roots(
      llvm::make_filter_range(ops, [&](Operation *op) { return isAwaited(op, unit) || op->hasAttr(kPassAttrName); }));
  if (llvm::none_of(roots, [&](Operation *op) { return isAwaited(op, unit); }))
    roots.push_back(ops.back());
  return roots;
}

/// Ops of one unit, in program order, that need values which are computed again.
static llvm::DenseSet<Operation *> findOfRepeated(ArrayRef<Operation *> ops) {
  llvm::DenseSet<Operation *> ofRepeated;
  for (Operation *op : ops)
    if (op->hasAttr(kRepeatedAttrName) || llvm::any_of(op->getOperands(), [&](Value operand) {
          return operand.getDefiningOp() && ofRepeated.contains(operand.getDefiningOp());
        }))
      ofRepeated.insert(op);
  return ofRepeated;
}

/// Whether an op makes or uses a value of a ring, whose place another value takes soon, directly or by another name.
static bool isOfRing(Operation *op) {
  auto isInRing = [](Operation *maker) {
    while (maker && isAlias(maker) && !maker->hasAttr(kRingAttrName))
      maker = maker->getOperand(0).getDefiningOp();
    return maker && maker->hasAttr(kRingAttrName);
  };
  return isInRing(op) ||
         llvm::any_of(op->getOperands(), [&](Value operand) { return isInRing(operand.getDefiningOp()); });
}

/// Swaps sums. A further pass of a layer adds to the gradients of weights of the first pass. If there are sums of other
/// micro-batches, it adds to these, so that the gradients of the first pass need not exist before.
static void swapSums(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    auto further = dyn_cast<MoeAccumulatingOpInterface>(op);
    if (!further || !op.hasAttr(kPassAttrName) || further.getAddendMutable().empty())
      continue;
    Value sum = further.getAddendMutable()[0].get(), result = op.getResult(0);
    auto first = sum.getDefiningOp<MoeAccumulatingOpInterface>();
    if (!first || first.getAddendMutable().empty() || first->hasAttr(kPassAttrName) || !sum.hasOneUse() ||
        getPipelineUnit(first) != getPipelineUnit(&op))
      continue;
    result.replaceAllUsesWith(sum);
    further.getAddendMutable()[0].set(first.getAddendMutable()[0].get());
    first.getAddendMutable().assign(result);
    first->moveAfter(&op);
  }
}

namespace {
struct MoeSplitBackward : moe::impl::MoeSplitBackwardBase<MoeSplitBackward> {
  using Base::Base;

  void runOnOperation() override {
    swapSums(getOperation());
    std::map<PipelineUnit, SmallVector<Operation *>> backwards;
    for (Operation &op : getOperation().front().without_terminator())
      if (std::optional<PipelineUnit> unit = getPipelineUnit(&op); unit && unit->work == StageWork::backward)
        backwards[*unit].push_back(&op);
    for (const auto &[unit, ops] : backwards) {
      llvm::DenseSet<Operation *> needed = findNeeded(findRoots(ops, unit), unit);
      llvm::DenseSet<Operation *> kept = wholeRepeated ? findOfRepeated(ops) : llvm::DenseSet<Operation *>();
      for (Operation *op : ops)
        if (!needed.contains(op) && !kept.contains(op) && !isOfRing(op))
          op->setAttr(kStageAttrName, StageAttr::get(&getContext(), unit.stage, StageWork::weights));
    }
  }
};
} // namespace
