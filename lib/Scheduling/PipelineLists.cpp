//===- PipelineLists.cpp - list schedules of a pipeline -------------------===//
#include "PipelineClock.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;

namespace {
/// A unit that can begin.
struct Choice {
  PipelineUnit unit;
  double begin = 0;
};

class ListScheduler {
public:
  ListScheduler(const PipelineShape &shape, const StageTimes &times, const StageMemory &memory,
                ArrayRef<int64_t> devices, const ListRule &rule)
      : shape(shape), times(times), memory(memory), rule(rule), clock(shape, times, devices), stagesOf(shape.devices),
        next(shape.stages), alive(shape.devices, 0), kept(shape.devices, 0), chosen(shape.devices) {
    for (auto [stage, device] : llvm::enumerate(devices))
      stagesOf[device].push_back(stage);
    schedule.devices.assign(devices.begin(), devices.end());
  }

  std::optional<PipelineSchedule> run();

private:
  using Counts = std::array<int64_t, 3>; ///< number of units that have begun, by work

  int64_t getCount(int64_t stage, StageWork work) const { return next[stage][static_cast<size_t>(work)]; }
  /// The next unit of its kind, if it can begin.
  std::optional<Choice> get(int64_t stage, StageWork work) const;
  int64_t getKept(int64_t stage) const { return memory.most > 0 ? memory.kept[stage] : 0; }
  bool hasRoom(int64_t device, int64_t stage) const;
  /// The best forward or backward.
  std::optional<Choice> chooseFirst(int64_t device) const;
  std::optional<Choice> chooseWeights(int64_t device) const;
  std::optional<Choice> choose(int64_t device) const;
  void begin(const Choice &choice);

  const PipelineShape &shape;
  const StageTimes &times;
  const StageMemory &memory;
  const ListRule &rule;
  PipelineClock clock;
  SmallVector<SmallVector<int64_t>> stagesOf; ///< by device, in order
  SmallVector<Counts> next;                   ///< by stage
  SmallVector<int64_t> alive, kept;           ///< by device: number of micro-batches of a stage, and bytes
  /// Unit that each device would begin, found again when something changes on which it depends.
  SmallVector<std::optional<Choice>> chosen;
  PipelineSchedule schedule;
};
} // namespace

std::optional<Choice> ListScheduler::get(int64_t stage, StageWork work) const {
  PipelineUnit unit{getCount(stage, work), stage, work};
  if (unit.microBatch == shape.microBatches)
    return std::nullopt;
  std::optional<double> begin = clock.getBegin(unit);
  return begin ? std::optional(Choice{unit, *begin}) : std::nullopt;
}

bool ListScheduler::hasRoom(int64_t device, int64_t stage) const {
  int64_t needed = 1, bytes = getKept(stage);
  if (rule.leavesRoom && stage == stagesOf[device].front())
    for (int64_t later : ArrayRef(stagesOf[device]).drop_front()) {
      int64_t others = 1 + getCount(stage, StageWork::forward) - getCount(later, StageWork::forward);
      needed += others;
      bytes += others * getKept(later);
    }
  return alive[device] + needed <= rule.mostAlive && (memory.most == 0 || kept[device] + bytes <= memory.most);
}

std::optional<Choice> ListScheduler::chooseFirst(int64_t device) const {
  std::optional<Choice> best, backward;
  for (int64_t stage : stagesOf[device]) {
    std::optional<Choice> one = get(stage, StageWork::backward);
    if (one && (!backward || one->begin < backward->begin))
      backward = one;
  }
  for (int64_t stage : stagesOf[device]) {
    std::optional<Choice> one = hasRoom(device, stage) ? get(stage, StageWork::forward) : std::nullopt;
    // A forward of a later stage goes first among those that begin at one time.
    if (one && (!best || one->begin <= best->begin))
      best = one;
  }
  if (!best || !backward)
    return best ? best : backward;
  double wait = rule.patienceForBackward * times.forward[best->unit.stage];
  return backward->begin <= best->begin + wait ? backward : best;
}

std::optional<Choice> ListScheduler::chooseWeights(int64_t device) const {
  std::optional<Choice> best;
  for (int64_t stage : stagesOf[device]) {
    std::optional<Choice> one = get(stage, StageWork::weights);
    if (one && (!best || one->unit.microBatch < best->unit.microBatch))
      best = one;
  }
  return best;
}

std::optional<Choice> ListScheduler::choose(int64_t device) const {
  std::optional<Choice> first = chooseFirst(device), weights = chooseWeights(device);
  if (!first || !weights)
    return first ? first : weights;
  double wait = rule.patience * times.weights[weights->unit.stage];
  return weights->begin + wait <= first->begin ? weights : first;
}

void ListScheduler::begin(const Choice &choice) {
  const PipelineUnit &unit = choice.unit;
  schedule.windows.push_back({unit});
  clock.run(schedule.windows.back(), choice.begin);
  ++next[unit.stage][static_cast<size_t>(unit.work)];
  int64_t device = clock.getDevice(unit);
  alive[device] += unit.work == StageWork::forward ? 1 : unit.work == StageWork::weights ? -1 : 0;
  kept[device] += memory.most > 0 ? memory.getMore(unit) : 0;
  chosen[device] = choose(device);
  for (int64_t neighbour : {unit.stage - 1, unit.stage + 1})
    if (neighbour >= 0 && neighbour < shape.stages)
      chosen[schedule.devices[neighbour]] = choose(schedule.devices[neighbour]);
}

std::optional<PipelineSchedule> ListScheduler::run() {
  for (int64_t device = 0; device < shape.devices; ++device)
    chosen[device] = choose(device);
  size_t count = 3 * shape.stages * shape.microBatches;
  while (schedule.windows.size() < count) {
    const std::optional<Choice> *first = nullptr;
    for (const std::optional<Choice> &one : chosen)
      if (one && (!first || one->begin < (*first)->begin))
        first = &one;
    if (!first)
      return std::nullopt;
    begin(Choice(**first));
  }
  schedule.seconds = clock.getSeconds();
  return std::move(schedule);
}

std::optional<PipelineSchedule> mlir::moe::scheduleByList(const PipelineShape &shape, const StageTimes &times,
                                                          const StageMemory &memory, ArrayRef<int64_t> devices,
                                                          const ListRule &rule) {
  return ListScheduler(shape, times, memory, devices, rule).run();
}
