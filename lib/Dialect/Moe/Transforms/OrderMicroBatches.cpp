//===- OrderMicroBatches.cpp - which micro-batch and stage comes when -----===//
#include "EndOfStep.h"
#include "OrderWindow.h"

#include "llvm/ADT/SmallVectorExtras.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

#include <algorithm>
#include <map>
#include <memory>

namespace mlir::moe {
#define GEN_PASS_DEF_MOEORDERMICROBATCHES
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Moves ops to the end of the block, each after the ops whose results it takes.
class Mover {
public:
  explicit Mover(Operation *terminator) : terminator(terminator) {}

  /// Moves `root` after the ops that it needs, without recursion, since programs are long.
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

/// Shape of a step in which `sideBySide` neighbouring micro-batches are one.
PipelineShape getShape(const UnitOps &units, int64_t devices, PipelineOrder order, int64_t sideBySide) {
  PipelineShape shape{devices, 1, 1, /*hasBackward=*/false, order};
  for (const auto &[unit, ops] : units) {
    shape.microBatches = std::max(shape.microBatches, unit.microBatch + 1);
    shape.stages = std::max(shape.stages, unit.stage + 1);
    shape.hasBackward |= unit.work != StageWork::forward;
  }
  shape.microBatches /= sideBySide;
  return shape;
}

/// The units of `sideBySide` micro-batches for each unit of a window.
PipelineWindow widen(const PipelineWindow &window, int64_t sideBySide) {
  PipelineWindow wide;
  for (const PipelineUnit &unit : window)
    for (int64_t number = 0; number < sideBySide; ++number) {
      wide.push_back(unit);
      wide.back().microBatch = unit.microBatch * sideBySide + number;
    }
  return wide;
}

/// Bytes of results of `ops`, which belong to a stage, that another stage uses.
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

/// Times of the first micro-batches. The result refers to `units`.
StageTimes getTimes(func::FuncOp function, const UnitOps &units, int64_t stages, int64_t sideBySide) {
  StageTimes times = StageTimes::getEqual(stages);
  auto orderer = std::make_shared<WindowOrderer>(units, OpTimer(function));
  int64_t mostSent = 0;
  for (int64_t stage = 0; stage < stages; ++stage) {
    auto get = [&](StageWork work, bool isWhole = false) {
      PipelineUnit unit{0, stage, work, isWhole};
      mostSent = std::max(mostSent, countSentBytes(getOps(units, unit), stage));
      return orderer->getSeconds(widen({unit}, sideBySide));
    };
    times.forward[stage] = get(StageWork::forward);
    times.backward[stage] = get(StageWork::backward);
    times.weights[stage] = get(StageWork::weights);
    times.wholeBackward[stage] = get(StageWork::backward, /*isWhole=*/true);
  }
  times.transfer = static_cast<double>(mostSent) / getClusterRates(function).outsideBytes;
  // All micro-batches take the same time. Their units do not need each other, so the last unit of a window counts as
  // one of the first micro-batch.
  std::map<PipelineWindow, double> known;
  times.together = [orderer, known, sideBySide](PipelineWindow window) mutable {
    for (auto [number, unit] : llvm::enumerate(llvm::reverse(window)))
      unit.microBatch = static_cast<int64_t>(number);
    auto [it, isNew] = known.try_emplace(window, 0);
    if (isNew)
      it->second = orderer->getSeconds(widen(window, sideBySide));
    return it->second;
  };
  return times;
}

/// Bytes of results of earlier kinds of work on the first micro-batch that a stage's `work` and its gradients of
/// weights need.
int64_t countNeeded(const UnitOps &units, int64_t stage, StageWork work) {
  int64_t bytes = 0;
  llvm::DenseSet<Value> counted;
  for (StageWork user : {work, StageWork::weights})
    for (Operation *op : getOps(units, {0, stage, user}))
      for (Value operand : op->getOperands()) {
        Operation *maker = operand.getDefiningOp();
        std::optional<PipelineUnit> unit = maker ? getPipelineUnit(maker) : std::nullopt;
        if (unit && unit->work < work && counted.insert(operand).second)
          bytes += getByteSize(operand.getType());
      }
  return bytes;
}

StageMemory getMemory(const UnitOps &units, int64_t stages, int64_t most, int64_t sideBySide) {
  StageMemory memory{{}, {}, most};
  for (int64_t stage = 0; stage < stages; ++stage) {
    memory.kept.push_back(sideBySide * countNeeded(units, stage, StageWork::backward));
    memory.waiting.push_back(sideBySide * countNeeded(units, stage, StageWork::weights));
  }
  return memory;
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
    FailureOr<PipelineSchedule> schedule = getOrder(units);
    if (failed(schedule))
      return signalPassFailure();
    // Places in the block change with the first move.
    SmallVector<Operation *> ordered = getOps(*schedule, units, others);
    for (Operation &op : body) {
      op.removeAttr(kSecondsAttrName);
      divideRing(&op);
    }
    Mover mover(body.getTerminator());
    for (Operation *op : ordered)
      mover.move(op);
    for (Operation *op : others)
      mover.move(op);
  }

  /// Gives rings of micro-batches side by side names of their own. These are ordered together, and no turns in one ring
  /// are right in all orders.
  void divideRing(Operation *op) const {
    auto ring = op->getAttrOfType<RingAttr>(kRingAttrName);
    auto place = op->getAttrOfType<ChunkAttr>(kMicroBatchAttrName);
    if (!ring || !place || sideBySide == 1)
      return;
    std::string name = ring.getName().str() + "." + std::to_string(place.getIndex() % sideBySide);
    op->setAttr(kRingAttrName, RingAttr::get(op->getContext(), name, ring.getDepth()));
  }

  /// Ops of all windows in order. A window that is not the last one of its device is followed by ops of the end of the
  /// step that can run there.
  SmallVector<Operation *> getOps(const PipelineSchedule &schedule, const UnitOps &units,
                                  ArrayRef<Operation *> others) {
    OpTimer timer(getOperation());
    WindowOrderer orderer(units, timer);
    // The end of the step belongs to no part, if stages only mark parts.
    if (getOperation()->hasAttr(kPartBytesAttrName))
      others = {};
    EndOfStep end(getOperation(), others, timer, devices);
    auto getDevice = [&](const PipelineWindow &window) { return schedule.devices[window.front().stage]; };
    SmallVector<size_t> left(devices, 0);
    for (const PipelineWindow &window : schedule.windows)
      ++left[getDevice(window)];
    SmallVector<Operation *> ordered;
    for (const PipelineWindow &window : schedule.windows) {
      int64_t device = getDevice(window);
      for (Operation *op : orderer.getOrder(widen(window, sideBySide))) {
        ordered.push_back(op);
        end.place(op, device);
      }
      if (--left[device] > 0)
        llvm::append_range(ordered, end.take(device));
    }
    return ordered;
  }

  FailureOr<PipelineSchedule> getOrder(const UnitOps &units) {
    int64_t microBatches = getShape(units, devices, order, 1).microBatches;
    if (sideBySide < 1 || microBatches % sideBySide != 0)
      return getOperation().emitError() << "expected 'side-by-side' to divide the number of micro-batches, "
                                        << microBatches << ", but got " << sideBySide.getValue();
    PipelineShape shape = getShape(units, devices, order, sideBySide);
    if (shape.stages == 1 && sideBySide == 1 && order != PipelineOrder::Overlapped1F1B)
      return PipelineSchedule{
          llvm::map_to_vector(units, [](const auto &one) { return PipelineWindow{one.first}; }), {0}, 0};
    if (std::string mistake = shape.check(); !mistake.empty())
      return getOperation().emitError() << mistake;
    bool needsTimes = order != PipelineOrder::OneForwardOneBackward && order != PipelineOrder::ZbH1;
    PipelineProblem problem(shape,
                            needsTimes ? getTimes(getOperation(), units, shape.stages, sideBySide)
                                       : StageTimes::getEqual(shape.stages),
                            getMemory(units, shape.stages, mostKept, sideBySide));
    PipelineSchedule schedule = getPipelineSchedule(problem);
    if (std::string mistake = problem.verify(schedule); !mistake.empty())
      return getOperation().emitError() << mistake;
    auto isCyclic = [&](int64_t stage) { return schedule.devices[stage] == stage % devices; };
    if (!llvm::all_of(llvm::seq(shape.stages), isCyclic))
      getOperation()->setAttr(kStageDevicesAttrName, Builder(&getContext()).getDenseI64ArrayAttr(schedule.devices));
    return schedule;
  }
};
} // namespace
