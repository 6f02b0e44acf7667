//===- PipelineClock.cpp - when the units of a pipeline can begin ---------===//
#include "PipelineClock.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;

StageTimes StageTimes::getEqual(int64_t stages) {
  SmallVector<double> equal(stages, 1);
  return {equal, equal, equal, SmallVector<double>(stages, 2), 0};
}

double StageTimes::get(const PipelineUnit &unit) const {
  switch (unit.work) {
  case StageWork::forward:
    return forward[unit.stage];
  case StageWork::backward:
    return unit.isWhole ? wholeBackward[unit.stage] : backward[unit.stage];
  case StageWork::weights:
    return weights[unit.stage];
  }
  llvm_unreachable("unknown work");
}

std::optional<double> PipelineClock::getBegin(const PipelineUnit &unit) const {
  auto [microBatch, stage, work, isWhole] = unit;
  int64_t device = getDevice(unit);
  double begin = free[device];
  auto needs = [&](const PipelineUnit &maker) {
    double arrival = getArrival(maker, device);
    begin = arrival == kNever || begin == kNever ? kNever : std::max(begin, arrival);
  };
  if (work == StageWork::forward && stage > 0)
    needs({microBatch, stage - 1, StageWork::forward});
  if (work == StageWork::backward)
    needs({microBatch, stage, StageWork::forward});
  if (work == StageWork::backward && stage + 1 < shape.stages)
    needs({microBatch, stage + 1, StageWork::backward});
  if (work == StageWork::weights)
    needs({microBatch, stage, StageWork::backward});
  return begin == kNever ? std::nullopt : std::optional(begin);
}

double PipelineClock::run(const PipelineUnit &unit, double begin) {
  return free[getDevice(unit)] = ends[getIndex(unit)] = begin + times.get(unit);
}

DeviceOrders mlir::moe::joinBackwards(const DeviceOrders &orders) {
  DeviceOrders joined;
  for (ArrayRef<PipelineUnit> order : orders) {
    SmallVector<PipelineUnit> &its = joined.emplace_back();
    for (const PipelineUnit &unit : order)
      if (unit.work == StageWork::weights && !its.empty() && its.back().work == StageWork::backward &&
          its.back().microBatch == unit.microBatch && its.back().stage == unit.stage)
        its.back().isWhole = true;
      else
        its.push_back(unit);
  }
  return joined;
}

PipelineSchedule mlir::moe::mergeOrders(const PipelineShape &shape, const StageTimes &times,
                                        ArrayRef<int64_t> devices, const DeviceOrders &orders) {
  PipelineClock clock(shape, times, devices);
  PipelineSchedule schedule{{}, SmallVector<int64_t>(devices), 0};
  SmallVector<size_t> next(shape.devices, 0);
  while (true) {
    std::optional<std::pair<double, int64_t>> first;
    for (int64_t device = 0; device < shape.devices; ++device)
      if (next[device] < orders[device].size())
        if (std::optional<double> begin = clock.getBegin(orders[device][next[device]]))
          first = first ? std::min(*first, {*begin, device}) : std::pair(*begin, device);
    if (!first)
      break;
    auto [begin, device] = *first;
    schedule.units.push_back(orders[device][next[device]++]);
    clock.run(schedule.units.back(), begin);
  }
  schedule.seconds = clock.getSeconds();
  return schedule;
}
