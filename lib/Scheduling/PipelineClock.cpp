//===- PipelineClock.cpp - when the units of a pipeline can begin ---------===//
#include "PipelineClock.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;

StageTimes StageTimes::getEqual(int64_t stages) {
  SmallVector<double> equal(stages, 1);
  return {equal, equal, equal, SmallVector<double>(stages, 2), 0, {}};
}

double StageTimes::get(const PipelineWindow &window) const {
  if (window.size() > 1 && together)
    return together(window);
  double seconds = 0;
  for (const auto &[microBatch, stage, work, isWhole] : window)
    seconds += work == StageWork::forward   ? forward[stage]
               : work == StageWork::weights ? weights[stage]
               : isWhole                    ? wholeBackward[stage]
                                            : backward[stage];
  return seconds;
}

SmallVector<PipelineUnit> PipelineSchedule::getUnits() const {
  SmallVector<PipelineUnit> units;
  for (const PipelineWindow &window : windows)
    llvm::append_range(units, window);
  return units;
}

int64_t StageMemory::getMore(const PipelineUnit &unit) const {
  if (unit.work == StageWork::forward)
    return kept[unit.stage];
  if (unit.work == StageWork::weights)
    return -waiting[unit.stage];
  return (unit.isWhole ? 0 : waiting[unit.stage]) - kept[unit.stage];
}

int64_t mlir::moe::getMostKept(const PipelineSchedule &schedule, const StageMemory &memory) {
  SmallVector<int64_t> its(schedule.devices.size(), 0);
  int64_t most = 0;
  for (const PipelineWindow &window : schedule.windows) {
    int64_t &kept = its[schedule.devices[window.front().stage]];
    for (const PipelineUnit &unit : window)
      kept += memory.getMore(unit);
    most = std::max(most, kept);
  }
  return most;
}

std::optional<double> PipelineClock::getBegin(const PipelineUnit &unit) const {
  int64_t device = getDevice(unit);
  double begin = free[device];
  for (const PipelineUnit &maker : getNeeds(unit, shape.stages)) {
    double arrival = getArrival(maker, device);
    if (arrival == kNever)
      return std::nullopt;
    begin = std::max(begin, arrival);
  }
  return begin;
}

std::optional<double> PipelineClock::getBegin(const PipelineWindow &window) const {
  double begin = 0;
  for (const PipelineUnit &unit : window) {
    std::optional<double> its = getBegin(unit);
    if (!its)
      return std::nullopt;
    begin = std::max(begin, *its);
  }
  return begin;
}

void PipelineClock::run(const PipelineWindow &window, double begin) {
  double end = begin + times.get(window);
  for (const PipelineUnit &unit : window)
    free[getDevice(unit)] = ends[getIndex(unit)] = end;
}

DeviceOrders mlir::moe::joinBackwards(const DeviceOrders &orders) {
  DeviceOrders joined;
  auto isWeightsOf = [](const PipelineWindow &window, const PipelineWindow &before) {
    const PipelineUnit &unit = window.front(), &other = before.back();
    return window.size() == 1 && before.size() == 1 && unit.work == StageWork::weights &&
           other.work == StageWork::backward && other.microBatch == unit.microBatch && other.stage == unit.stage;
  };
  for (ArrayRef<PipelineWindow> order : orders) {
    SmallVector<PipelineWindow> &its = joined.emplace_back();
    for (const PipelineWindow &window : order)
      if (!its.empty() && isWeightsOf(window, its.back()))
        its.back().front().isWhole = true;
      else
        its.push_back(window);
  }
  return joined;
}

PipelineSchedule mlir::moe::mergeOrders(const PipelineShape &shape, const StageTimes &times, ArrayRef<int64_t> devices,
                                        const DeviceOrders &orders) {
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
    schedule.windows.push_back(orders[device][next[device]++]);
    clock.run(schedule.windows.back(), begin);
  }
  assert(llvm::all_of(llvm::zip_equal(orders, next),
                      [](const auto &its) { return std::get<0>(its).size() == std::get<1>(its); }) &&
         "the devices' orders wait for each other");
  schedule.seconds = clock.getSeconds();
  return schedule;
}
