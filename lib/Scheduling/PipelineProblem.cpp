//===- PipelineProblem.cpp - shapes and legal orders of pipelines ---------===//
#include "PipelineClock.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <set>

using namespace mlir;
using namespace mlir::moe;

static constexpr std::pair<PipelineOrder, StringLiteral> kOrderNames[] = {
    {PipelineOrder::OneForwardOneBackward, "1f1b"},
    {PipelineOrder::Overlapped1F1B, "1f1b-overlap"},
    {PipelineOrder::ZbH1, "zb-h1"},
    {PipelineOrder::ZbV, "zb-v"},
    {PipelineOrder::DualPipeV, "dualpipe-v"},
    {PipelineOrder::Search, "search"}};

StringRef mlir::moe::getName(PipelineOrder order) {
  return llvm::find_if(kOrderNames, [&](const auto &one) { return one.first == order; })->second;
}

std::optional<PipelineOrder> mlir::moe::parsePipelineOrder(StringRef name) {
  for (const auto &[order, known] : kOrderNames)
    if (name == known)
      return order;
  return std::nullopt;
}

bool mlir::moe::splitsBackward(PipelineOrder order) { return order != PipelineOrder::OneForwardOneBackward; }

bool mlir::moe::isOverlapped(PipelineOrder order) {
  return order == PipelineOrder::Overlapped1F1B || order == PipelineOrder::DualPipeV;
}

static bool isV(PipelineOrder order) { return order == PipelineOrder::ZbV || order == PipelineOrder::DualPipeV; }

std::optional<int64_t> mlir::moe::getStagesPerDevice(PipelineOrder order) {
  if (order == PipelineOrder::ZbH1)
    return 1;
  return isV(order) ? std::optional<int64_t>(2) : std::nullopt;
}

std::string PipelineShape::check() const {
  std::string name = "the pipeline order " + getName(order).str(), count = std::to_string(microBatches);
  if (stages % devices != 0)
    return "expected stages to be a multiple of " + std::to_string(devices) + " devices but got " +
           std::to_string(stages) + " stages";
  if (!hasBackward && splitsBackward(order))
    return "expected a backward for " + name + "; forwards alone are in the order 1f1b";
  if (devices == 1)
    return "";
  if (std::optional<int64_t> needed = moe::getStagesPerDevice(order); needed && *needed != getStagesPerDevice())
    return "expected " + std::to_string(*needed) + (*needed == 1 ? " stage" : " stages") + " on each device for " +
           name + " but got " + std::to_string(getStagesPerDevice());
  bool isInterleaved = (order == PipelineOrder::OneForwardOneBackward || order == PipelineOrder::Overlapped1F1B) &&
                       getStagesPerDevice() > 1;
  if (isInterleaved && microBatches % devices != 0)
    return "expected micro-batches to be a multiple of " + std::to_string(devices) +
           " devices, where these have several stages, but got " + count;
  if (order == PipelineOrder::DualPipeV && microBatches < 2 * devices)
    return "expected at least " + std::to_string(2 * devices) + " micro-batches for " + name + " on " +
           std::to_string(devices) + " devices but got " + count;
  return "";
}

SmallVector<int64_t> mlir::moe::getDevices(const PipelineShape &shape, bool inV) {
  return llvm::map_to_vector(llvm::seq(shape.stages), [&](int64_t stage) {
    return inV ? std::min(stage, shape.stages - 1 - stage) : stage % shape.devices;
  });
}

SmallVector<int64_t> mlir::moe::getStageDevices(const PipelineShape &shape) {
  return getDevices(shape, isV(shape.order));
}

std::string PipelineProblem::check() const {
  if (std::string mistake = shape.check(); !mistake.empty())
    return mistake;
  auto stages = static_cast<size_t>(shape.stages);
  auto hasAll = [&](const auto &values) { return values.size() == stages; };
  if (!hasAll(times.forward) || !hasAll(times.backward) || !hasAll(times.weights) || !hasAll(times.wholeBackward))
    return "expected times of " + std::to_string(stages) + " stages";
  if (memory.most > 0 && (!hasAll(memory.kept) || !hasAll(memory.waiting)))
    return "expected the memory of " + std::to_string(stages) + " stages";
  return "";
}

static std::string describe(const PipelineUnit &unit) {
  static constexpr StringLiteral works[] = {"forward", "backward", "gradients of weights"};
  return "the " + works[static_cast<size_t>(unit.work)].str() + " of micro-batch " + std::to_string(unit.microBatch) +
         " in stage " + std::to_string(unit.stage);
}

SmallVector<PipelineUnit, 3> mlir::moe::getNeeds(const PipelineUnit &unit, int64_t stages) {
  auto [microBatch, stage, work, isWhole] = unit;
  SmallVector<PipelineUnit, 3> needs;
  if (work == StageWork::forward && stage > 0)
    needs.push_back({microBatch, stage - 1, StageWork::forward});
  if (work == StageWork::backward)
    needs.push_back({microBatch, stage, StageWork::forward});
  if (work == StageWork::backward && stage + 1 < stages)
    needs.push_back({microBatch, stage + 1, StageWork::backward});
  if (work == StageWork::weights)
    needs.push_back({microBatch, stage, StageWork::backward});
  return needs;
}

std::string PipelineProblem::verify(const PipelineSchedule &schedule) const {
  if (schedule.devices.size() != static_cast<size_t>(shape.stages))
    return "expected a device for each of " + std::to_string(shape.stages) + " stages but got " +
           std::to_string(schedule.devices.size());
  std::set<PipelineUnit> done;
  for (const PipelineWindow &window : schedule.windows)
    for (const PipelineUnit &unit : window) {
      if (schedule.devices[unit.stage] != schedule.devices[window.front().stage])
        return "expected a window of one device but got " + describe(window.front()) + " and " + describe(unit);
      SmallVector<PipelineUnit, 3> needs = getNeeds(unit, shape.stages);
      // Gradients of weights are added up in the order of micro-batches.
      if ((unit.work == StageWork::weights || unit.isWhole) && unit.microBatch > 0)
        needs.push_back({unit.microBatch - 1, unit.stage, StageWork::weights});
      for (const PipelineUnit &need : needs)
        if (!done.contains(need))
          return "expected " + describe(need) + " before " + describe(unit);
      PipelineUnit own{unit.microBatch, unit.stage, unit.work},
          weights{unit.microBatch, unit.stage, StageWork::weights};
      if (!done.insert(own).second || (unit.isWhole && !done.insert(weights).second))
        return "expected " + describe(unit) + " once";
    }
  auto units = static_cast<size_t>(shape.stages * shape.microBatches * (shape.hasBackward ? 3 : 1));
  if (done.size() != units)
    return "expected " + std::to_string(units) + " units but got " + std::to_string(done.size());
  if (memory.most == 0)
    return "";
  if (int64_t bytes = getMostKept(schedule, memory); bytes > memory.most)
    return "expected a device to keep at most " + std::to_string(memory.most) +
           " bytes for gradients but in the order " + getName(shape.order).str() + " it keeps " + std::to_string(bytes);
  return "";
}
