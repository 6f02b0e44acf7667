//===- OrderMicroBatches.cpp - which micro-batch and stage comes when -----===//
#include "Stages.h"

#include "llvm/ADT/SmallVectorExtras.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

#include <algorithm>
#include <map>
#include <utility>

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

/// By unit its ops, in program order. No backward is whole.
using UnitOps = std::map<PipelineUnit, SmallVector<Operation *>>;

/// Also of a whole backward, in program order.
SmallVector<Operation *> getOps(const UnitOps &units, PipelineUnit unit) {
  bool isWhole = std::exchange(unit.isWhole, false);
  auto find = [&](StageWork work) {
    auto found = units.find({unit.microBatch, unit.stage, work});
    return found == units.end() ? ArrayRef<Operation *>() : ArrayRef(found->second);
  };
  ArrayRef<Operation *> own = find(unit.work), weights = isWhole ? find(StageWork::weights) : ArrayRef<Operation *>();
  SmallVector<Operation *> ops;
  std::merge(own.begin(), own.end(), weights.begin(), weights.end(), std::back_inserter(ops),
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ops;
}

PipelineShape getShape(const UnitOps &units, int64_t devices, PipelineOrder order) {
  PipelineShape shape{devices, 1, 1, /*hasBackward=*/false, order};
  for (const auto &[unit, ops] : units) {
    shape.microBatches = std::max(shape.microBatches, unit.microBatch + 1);
    shape.stages = std::max(shape.stages, unit.stage + 1);
    shape.hasBackward |= unit.work != StageWork::forward;
  }
  return shape;
}

/// Bytes of what `ops` of a stage make and another stage uses.
int64_t countSentBytes(ArrayRef<Operation *> ops, int64_t stage) {
  int64_t bytes = 0;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            std::optional<PipelineUnit> unit = getPipelineUnit(user);
            return unit && unit->stage != stage;
          }))
        bytes += getByteSize(result.getType());
  return bytes;
}

/// Seconds of ops that run one after the other, but exchanges beside computation.
class UnitTimer {
public:
  explicit UnitTimer(func::FuncOp function) : timer(function) {}

  double getSeconds(ArrayRef<Operation *> ops) {
    double computed = 0, exchanged = 0;
    llvm::DenseMap<Operation *, double> ends;
    for (Operation *op : ops) {
      auto priced = dyn_cast<MoeCostOpInterface>(op);
      bool exchanges = priced && priced.getOpCost().resource == Resource::Network;
      double &end = exchanges ? exchanged : computed;
      for (Value operand : op->getOperands())
        if (auto maker = ends.find(operand.getDefiningOp()); operand.getDefiningOp() && maker != ends.end())
          end = std::max(end, maker->second);
      ends[op] = end += timer.getSeconds(op);
    }
    return std::max(computed, exchanged);
  }

private:
  OpTimer timer;
};

/// Of the first micro-batch.
StageTimes getTimes(func::FuncOp function, const UnitOps &units, int64_t stages) {
  StageTimes times = StageTimes::getEqual(stages);
  UnitTimer timer(function);
  int64_t mostSent = 0;
  for (int64_t stage = 0; stage < stages; ++stage) {
    auto get = [&](StageWork work, bool isWhole = false) {
      SmallVector<Operation *> ops = getOps(units, {0, stage, work, isWhole});
      mostSent = std::max(mostSent, countSentBytes(ops, stage));
      return timer.getSeconds(ops);
    };
    times.forward[stage] = get(StageWork::forward);
    times.backward[stage] = get(StageWork::backward);
    times.weights[stage] = get(StageWork::weights);
    times.wholeBackward[stage] = get(StageWork::backward, /*isWhole=*/true);
  }
  times.transfer = static_cast<double>(mostSent) / getClusterRates(function).outsideBytes;
  return times;
}

struct MoeOrderMicroBatches : moe::impl::MoeOrderMicroBatchesBase<MoeOrderMicroBatches> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    Block &body = function.front();
    UnitOps units;
    SmallVector<Operation *> others;
    for (Operation &op : body.without_terminator())
      if (std::optional<PipelineUnit> unit = getPipelineUnit(&op))
        units[*unit].push_back(&op);
      else
        others.push_back(&op);
    FailureOr<SmallVector<PipelineUnit>> inOrder = getOrder(units);
    if (failed(inOrder))
      return signalPassFailure();
    // Places in the block change with the first move.
    SmallVector<Operation *> ordered;
    for (const PipelineUnit &unit : *inOrder)
      llvm::append_range(ordered, getOps(units, unit));
    Mover mover(body.getTerminator());
    for (Operation *op : ordered)
      mover.move(op);
    for (Operation *op : others)
      mover.move(op);
  }

  FailureOr<SmallVector<PipelineUnit>> getOrder(const UnitOps &units) {
    PipelineShape shape = getShape(units, devices, order);
    if (shape.stages == 1)
      return llvm::map_to_vector(units, [](const auto &one) { return one.first; });
    if (std::string mistake = describeMistake(shape); !mistake.empty())
      return getOperation().emitError() << mistake;
    bool needsTimes = order == PipelineOrder::ZbV || order == PipelineOrder::Search;
    PipelineSchedule schedule = getPipelineSchedule(
        shape, needsTimes ? getTimes(getOperation(), units, shape.stages) : StageTimes::getEqual(shape.stages));
    auto isCyclic = [&](int64_t stage) { return schedule.devices[stage] == stage % devices; };
    if (!llvm::all_of(llvm::seq(shape.stages), isCyclic))
      getOperation()->setAttr(kStageDevicesAttrName, Builder(&getContext()).getDenseI64ArrayAttr(schedule.devices));
    return std::move(schedule.units);
  }
};
} // namespace
