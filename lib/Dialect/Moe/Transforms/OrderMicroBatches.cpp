//===- OrderMicroBatches.cpp - which micro-batch and stage comes when -----===//
#include "Stages.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

#include <map>

namespace mlir::moe {
#define GEN_PASS_DEF_MOEORDERMICROBATCHES
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Moves ops, each behind those whose results it takes, to the end of the block.
class Mover {
public:
  explicit Mover(Operation *terminator) : terminator(terminator) {}

  /// `root`, after what it needs; without recursion, since programs are long.
  void move(Operation *root) {
    SmallVector<Operation *> open = {root};
    while (!open.empty()) {
      Operation *op = open.back();
      size_t before = open.size();
      if (!moved.contains(op))
        for (Value operand : op->getOperands())
          if (Operation *maker = operand.getDefiningOp(); maker && !moved.contains(maker))
            open.push_back(maker);
      if (open.size() > before)
        continue;
      open.pop_back();
      if (moved.insert(op).second)
        op->moveBefore(terminator);
    }
  }

private:
  Operation *terminator;
  llvm::DenseSet<Operation *> moved;
};

/// Which unit an op belongs to; without stages a micro-batch is one.
std::optional<PipelineUnit> getUnit(Operation &op) {
  auto place = op.getAttrOfType<ChunkAttr>(kMicroBatchAttrName);
  auto stage = op.getAttrOfType<StageAttr>(kStageAttrName);
  if (!place && !stage)
    return std::nullopt;
  return PipelineUnit{place ? place.getIndex() : 0, stage ? stage.getIndex() : 0, stage && stage.getBackward()};
}

struct MoeOrderMicroBatches : moe::impl::MoeOrderMicroBatchesBase<MoeOrderMicroBatches> {
  using Base::Base;

  void runOnOperation() override {
    Block &body = getOperation().front();
    std::map<PipelineUnit, SmallVector<Operation *>> units;
    SmallVector<Operation *> others;
    for (Operation &op : body.without_terminator())
      if (std::optional<PipelineUnit> unit = getUnit(op))
        units[*unit].push_back(&op);
      else
        others.push_back(&op);
    FailureOr<SmallVector<PipelineUnit>> order = getOrder(units);
    if (failed(order))
      return signalPassFailure();
    Mover mover(body.getTerminator());
    for (const PipelineUnit &unit : *order)
      for (Operation *op : units[unit])
        mover.move(op);
    for (Operation *op : others)
      mover.move(op);
  }

  FailureOr<SmallVector<PipelineUnit>> getOrder(const std::map<PipelineUnit, SmallVector<Operation *>> &units) {
    int64_t microBatches = 1, stages = 1;
    bool hasBackward = false;
    SmallVector<PipelineUnit> inTurn;
    for (const auto &[unit, ops] : units) {
      microBatches = std::max(microBatches, unit.microBatch + 1);
      stages = std::max(stages, unit.stage + 1);
      hasBackward |= unit.backward;
      inTurn.push_back(unit);
    }
    if (stages == 1)
      return inTurn;
    if (stages % devices != 0 || (stages > devices && microBatches % devices != 0))
      return getOperation().emitError()
             << "expected stages, and micro-batches where there are more stages than devices, "
                "to be multiples of "
             << int64_t(devices) << " devices but got " << stages << " stages and " << microBatches << " micro-batches";
    return getPipelineOrder(devices, stages, microBatches, hasBackward);
  }
};
} // namespace
