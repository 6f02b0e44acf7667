//===- PipelineOrder.cpp - stages of a pipeline, and their order ----------===//
#include "moe/Dialect/Moe/Transforms/PipelineOrder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// In parts of a thousand millionth of all, so that sums are exact: which of two cuts that come to the same is taken
/// must not depend on how sums are rounded.
static SmallVector<int64_t> makeWhole(ArrayRef<double> seconds, double all) {
  constexpr double units = 1e9;
  return llvm::map_to_vector(
      seconds, [&](double one) { return static_cast<int64_t>(all > 0 ? std::llround(one / all * units) : 0); });
}

SmallVector<size_t> mlir::moe::cutIntoStages(const ProgramParts &parts, int64_t stages) {
  size_t count = parts.seconds.size();
  if (count < static_cast<size_t>(stages))
    return {};
  double all = std::accumulate(parts.seconds.begin(), parts.seconds.end(), 0.0);
  SmallVector<int64_t> before = {0}, receive = makeWhole(parts.receive, all);
  for (int64_t units : makeWhole(parts.seconds, all))
    before.push_back(before.back() + units);
  auto getUnits = [&](size_t from, size_t to) { return before[to] - before[from] + receive[from]; };
  // best[k][to]: the slowest of k + 1 stages of the parts before `to`; from[k][to]: where the last of them begins.
  constexpr int64_t never = std::numeric_limits<int64_t>::max();
  std::vector<std::vector<int64_t>> best(stages, std::vector<int64_t>(count + 1, never));
  std::vector<std::vector<size_t>> from(stages, std::vector<size_t>(count + 1, 0));
  for (size_t to = 1; to <= count; ++to)
    best[0][to] = getUnits(0, to);
  for (int64_t stage = 1; stage < stages; ++stage)
    for (size_t to = stage + 1; to <= count; ++to)
      // The sooner a stage begins the longer it takes. Of the best the longest is taken.
      for (size_t begin = to - 1; begin >= static_cast<size_t>(stage); --begin) {
        if (before[to] - before[begin] > best[stage][to])
          break;
        if (int64_t slowest = std::max(best[stage - 1][begin], getUnits(begin, to)); slowest <= best[stage][to]) {
          best[stage][to] = slowest;
          from[stage][to] = begin;
        }
      }
  SmallVector<size_t> first(stages, 0);
  for (size_t stage = stages - 1, to = count; stage > 0; --stage)
    to = first[stage] = from[stage][to];
  return first;
}

//===----------------------------------------------------------------------===//
// The order of units
//===----------------------------------------------------------------------===//

/// Unit `number` of device `device` among its forwards, or its backwards: as many micro-batches as there are devices
/// pass one of its stages, then the next one.
static PipelineUnit getUnit(int64_t number, int64_t device, int64_t devices, int64_t chunks, bool backward) {
  int64_t round = number / (devices * chunks), inRound = number % (devices * chunks);
  int64_t chunk = inRound / devices;
  if (backward)
    chunk = chunks - 1 - chunk;
  // Without chunks, one after the other.
  int64_t microBatch = chunks == 1 ? number : round * devices + inRound % devices;
  return {microBatch, chunk * devices + device, backward};
}

/// As many forwards as it takes until the first backward arrives, then one forward and one backward in turn.
static SmallVector<PipelineUnit> getDeviceOrder(int64_t device, int64_t devices, int64_t chunks, int64_t microBatches,
                                                bool hasBackward) {
  int64_t units = microBatches * chunks;
  int64_t first = chunks == 1 ? devices - 1 - device : 2 * (devices - 1 - device) + (chunks - 1) * devices;
  int64_t warmUp = hasBackward ? std::min(units, first) : units;
  SmallVector<PipelineUnit> order;
  for (int64_t unit = 0; unit < warmUp; ++unit)
    order.push_back(getUnit(unit, device, devices, chunks, false));
  for (int64_t unit = warmUp; unit < units + warmUp && hasBackward; ++unit) {
    if (unit < units)
      order.push_back(getUnit(unit, device, devices, chunks, false));
    order.push_back(getUnit(unit - warmUp, device, devices, chunks, true));
  }
  return order;
}

/// Forward and backward of one micro-batch after the other.
static SmallVector<PipelineUnit> getOrderInTurn(int64_t stages, int64_t microBatches, bool hasBackward) {
  SmallVector<PipelineUnit> order;
  for (int64_t microBatch = 0; microBatch < microBatches; ++microBatch) {
    for (int64_t stage = 0; stage < stages; ++stage)
      order.push_back({microBatch, stage, false});
    for (int64_t stage = stages; hasBackward && stage > 0; --stage)
      order.push_back({microBatch, stage - 1, true});
  }
  return order;
}

namespace {
/// Plays the devices' orders, a backward taking twice the time of a forward.
class PipelineClock {
public:
  PipelineClock(int64_t stages, int64_t microBatches) : stages(stages), ends(stages * microBatches * 2, kNever) {}

  /// When what the unit needs is there; none while that is not known.
  std::optional<int64_t> getReady(const PipelineUnit &unit) const {
    if (!unit.backward)
      return unit.stage == 0 ? std::optional<int64_t>(0) : getEnd({unit.microBatch, unit.stage - 1, false});
    if (unit.stage == stages - 1)
      return getEnd({unit.microBatch, unit.stage, false});
    return getEnd({unit.microBatch, unit.stage + 1, true});
  }
  int64_t run(const PipelineUnit &unit, int64_t begin) {
    return ends[getIndex(unit)] = begin + (unit.backward ? 2 : 1);
  }

private:
  static constexpr int64_t kNever = -1;
  size_t getIndex(const PipelineUnit &unit) const {
    return (unit.microBatch * stages + unit.stage) * 2 + unit.backward;
  }
  std::optional<int64_t> getEnd(const PipelineUnit &unit) const {
    int64_t end = ends[getIndex(unit)];
    return end == kNever ? std::nullopt : std::optional<int64_t>(end);
  }

  int64_t stages;
  std::vector<int64_t> ends;
};
} // namespace

SmallVector<PipelineUnit> mlir::moe::getPipelineOrder(int64_t devices, int64_t stages, int64_t microBatches,
                                                      bool hasBackward) {
  if (devices == 1)
    return getOrderInTurn(stages, microBatches, hasBackward);
  SmallVector<SmallVector<PipelineUnit>> orders;
  for (int64_t device = 0; device < devices; ++device)
    orders.push_back(getDeviceOrder(device, devices, stages / devices, microBatches, hasBackward));
  PipelineClock clock(stages, microBatches);
  SmallVector<int64_t> free(devices, 0);
  SmallVector<size_t> next(devices, 0);
  SmallVector<PipelineUnit> order;
  // The one that can begin first goes first.
  while (true) {
    std::optional<std::pair<int64_t, int64_t>> best;
    for (int64_t device = 0; device < devices; ++device) {
      if (next[device] == orders[device].size())
        continue;
      if (std::optional<int64_t> ready = clock.getReady(orders[device][next[device]]))
        best = best ? std::min(*best, {std::max(*ready, free[device]), device})
                    : std::pair(std::max(*ready, free[device]), device);
    }
    if (!best)
      return order;
    auto [begin, device] = *best;
    order.push_back(orders[device][next[device]++]);
    free[device] = clock.run(order.back(), begin);
  }
}
