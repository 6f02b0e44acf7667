//===- SplitBackward.cpp - gradients of weights apart from the others -----===//
#include "Stages.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
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

/// What `roots` need of the ops that have their unit.
static llvm::DenseSet<Operation *> findNeeded(SmallVector<Operation *> roots, const PipelineUnit &unit) {
  llvm::DenseSet<Operation *> needed(roots.begin(), roots.end());
  while (!roots.empty())
    for (Value operand : roots.pop_back_val()->getOperands())
      if (Operation *maker = operand.getDefiningOp();
          maker && getPipelineUnit(maker) == unit && needed.insert(maker).second)
        roots.push_back(maker);
  return needed;
}

/// The first stage hands nothing on. Its last op, for the first op of the forward, stands for that.
static SmallVector<Operation *> findRoots(ArrayRef<Operation *> ops, const PipelineUnit &unit) {
  SmallVector<Operation *> roots(llvm::make_filter_range(ops, [&](Operation *op) { return isAwaited(op, unit); }));
  if (roots.empty())
    roots.push_back(ops.back());
  return roots;
}

/// Of the ops of one unit, in program order, those that need values which are computed again.
static llvm::DenseSet<Operation *> findOfRepeated(ArrayRef<Operation *> ops) {
  llvm::DenseSet<Operation *> ofRepeated;
  for (Operation *op : ops)
    if (op->hasAttr(kRepeatedAttrName) || llvm::any_of(op->getOperands(), [&](Value operand) {
          return operand.getDefiningOp() && ofRepeated.contains(operand.getDefiningOp());
        }))
      ofRepeated.insert(op);
  return ofRepeated;
}

/// Whether it makes or uses a value of a ring, whose place another value takes soon.
static bool isOfRing(Operation *op) {
  auto isInRing = [](Operation *maker) { return maker && maker->hasAttr(kRingAttrName); };
  return isInRing(op) ||
         llvm::any_of(op->getOperands(), [&](Value operand) { return isInRing(operand.getDefiningOp()); });
}

namespace {
struct MoeSplitBackward : moe::impl::MoeSplitBackwardBase<MoeSplitBackward> {
  using Base::Base;

  void runOnOperation() override {
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
