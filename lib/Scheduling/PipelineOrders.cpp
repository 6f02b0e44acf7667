//===- PipelineOrders.cpp - the orders of a pipeline's units --------------===//
#include "PipelineClock.h"

#include "llvm/ADT/STLExtras.h"

#include <deque>

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// 1F1B
//===----------------------------------------------------------------------===//

/// Unit `number` of device `device` among its forwards or its backwards. As many micro-batches as there are devices go
/// through one of its stages before the next stage.
static PipelineUnit getUnit(int64_t number, int64_t device, const PipelineShape &shape, StageWork work) {
  int64_t devices = shape.devices, chunks = shape.getStagesPerDevice();
  int64_t round = number / (devices * chunks), inRound = number % (devices * chunks);
  int64_t chunk = inRound / devices;
  if (work == StageWork::backward)
    chunk = chunks - 1 - chunk;
  // One stage takes the micro-batches one after the other.
  int64_t microBatch = chunks == 1 ? number : round * devices + inRound % devices;
  return {microBatch, chunk * devices + device, work};
}

/// 1F1B: forwards until the first backward arrives, then one forward and one backward in turn, or both in a window. The
/// two of a window start together. So a device then first does as many more forwards as it takes that neither waits for
/// the neighbour's window of the same number.
static SmallVector<PipelineWindow> getOneForwardOneBackward(int64_t device, const PipelineShape &shape,
                                                            bool inWindows) {
  int64_t devices = shape.devices, chunks = shape.getStagesPerDevice(), units = shape.microBatches * chunks;
  int64_t first = chunks == 1 && !inWindows ? devices - 1 - device
                                            : 2 * (devices - 1 - device) + (chunks - 1) * devices + inWindows;
  int64_t warmUp = shape.hasBackward ? std::min(units, first) : units;
  SmallVector<PipelineWindow> order;
  for (int64_t unit = 0; unit < warmUp; ++unit)
    order.push_back({getUnit(unit, device, shape, StageWork::forward)});
  for (int64_t unit = 0; unit < units && shape.hasBackward; ++unit) {
    bool hasForward = unit + warmUp < units;
    if (hasForward)
      order.push_back({getUnit(unit + warmUp, device, shape, StageWork::forward)});
    if (!hasForward || !inWindows)
      order.emplace_back();
    order.back().push_back(getUnit(unit, device, shape, StageWork::backward));
    order.back().back().isWhole = true;
  }
  return order;
}

/// Forward and backward of one micro-batch after the other.
static SmallVector<PipelineWindow> getOrderInTurn(const PipelineShape &shape) {
  SmallVector<PipelineWindow> order;
  for (int64_t microBatch = 0; microBatch < shape.microBatches; ++microBatch) {
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      order.push_back({{microBatch, stage, StageWork::forward}});
    for (int64_t stage = shape.stages; shape.hasBackward && stage > 0; --stage)
      order.push_back({{microBatch, stage - 1, StageWork::backward, /*isWhole=*/true}});
  }
  return order;
}

//===----------------------------------------------------------------------===//
// Orders that split the backward
//===----------------------------------------------------------------------===//

/// 1F1B in which device d postpones the gradients of weights of a micro-batch until d more micro-batches have come
/// back.
static SmallVector<PipelineWindow> getZbH1(int64_t device, const PipelineShape &shape) {
  int64_t count = shape.microBatches, warmUp = shape.devices - 1 - device;
  SmallVector<PipelineWindow> order;
  for (int64_t microBatch = 0; microBatch < std::min(warmUp, count); ++microBatch)
    order.push_back({{microBatch, device, StageWork::forward}});
  for (int64_t microBatch = 0; microBatch < count; ++microBatch) {
    if (microBatch + warmUp < count)
      order.push_back({{microBatch + warmUp, device, StageWork::forward}});
    order.push_back({{microBatch, device, StageWork::backward}});
    if (microBatch >= device)
      order.push_back({{microBatch - device, device, StageWork::weights}});
  }
  for (int64_t microBatch = std::max<int64_t>(0, count - device); microBatch < count; ++microBatch)
    order.push_back({{microBatch, device, StageWork::weights}});
  return order;
}

namespace {
/// The order of one device of DualPipeV, step by step. Its two stages are `down`, the first half of the model, and
/// `up`.
class DualPipeV {
public:
  DualPipeV(int64_t device, const PipelineShape &shape)
      : device(device), after(shape.devices - 1 - device), shape(shape), down{device}, up{shape.stages - 1 - device} {}

  SmallVector<PipelineWindow> run();

private:
  struct Half {
    int64_t stage, forwards = 0, backwards = 0;
  };
  PipelineUnit takeForward(Half &half) { return {half.forwards++, half.stage, StageWork::forward}; }
  PipelineUnit takeBackward(Half &half, bool isWhole) {
    return {half.backwards++, half.stage, StageWork::backward, isWhole};
  }
  void forward(Half &half) { order.push_back({takeForward(half)}); }
  /// Postpones the gradients of its weights.
  void backward(Half &half) {
    order.push_back({takeBackward(half, /*isWhole=*/false)});
    waiting.push_back({order.back().front().microBatch, half.stage, StageWork::weights});
  }
  void wholeBackward(Half &half) { order.push_back({takeBackward(half, /*isWhole=*/true)}); }
  void weights() {
    order.push_back({waiting.front()});
    waiting.pop_front();
  }
  void window(Half &ahead, Half &back) { order.push_back({takeForward(ahead), takeBackward(back, /*isWhole=*/true)}); }
  void fill();
  void goOn();
  void drain();

  int64_t device, after; ///< `after`: number of devices after this one
  const PipelineShape &shape;
  Half down, up;
  SmallVector<PipelineWindow> order;
  std::deque<PipelineUnit> waiting; ///< postponed gradients of weights
};
} // namespace

void DualPipeV::fill() {
  for (int64_t i = 0; i < 2 * after; ++i)
    forward(down);
  for (int64_t i = 0; i <= device; ++i) {
    forward(down);
    forward(up);
  }
  for (int64_t i = 0; i < after; ++i) {
    backward(up);
    weights();
    forward(up);
  }
}

void DualPipeV::goOn() {
  for (int64_t i = 0; i < shape.microBatches - 2 * shape.devices + device + 1; ++i) {
    // The other devices wait for the last one's first backward.
    if (i == 0 && after == 0) {
      forward(down);
      wholeBackward(up);
    } else {
      window(down, up);
    }
    window(up, down);
  }
  for (int64_t i = 0; i < after; ++i) {
    wholeBackward(up);
    window(up, down);
  }
}

/// Runs the remaining backwards. Those of the second half postpone their weight gradients.
void DualPipeV::drain() {
  for (int64_t i = 0; i <= device; ++i)
    for (Half *half : {&up, &down}) {
      bool isLater = i > (device + 1) / 2 || (i == (device + 1) / 2 && (device % 2 == 1 || half == &down));
      isLater ? backward(*half) : wholeBackward(*half);
    }
  for (int64_t i = 0; i < after; ++i) {
    weights();
    backward(down);
  }
  while (!waiting.empty())
    weights();
}

SmallVector<PipelineWindow> DualPipeV::run() {
  fill();
  goOn();
  drain();
  return std::move(order);
}

/// Moves the weight gradients of a backward that shares a window with a forward to the device's next window. Both units
/// of a window begin with exchanges, which then run beside this computation.
static DeviceOrders postponeWeights(const DeviceOrders &orders) {
  DeviceOrders all;
  for (ArrayRef<PipelineWindow> order : orders) {
    SmallVector<PipelineWindow> &its = all.emplace_back();
    std::optional<PipelineUnit> weights;
    for (PipelineWindow window : order) {
      std::optional<PipelineUnit> before = std::exchange(weights, std::nullopt);
      if (PipelineUnit &last = window.back(); window.size() == 2 && last.isWhole) {
        last.isWhole = false;
        weights = {last.microBatch, last.stage, StageWork::weights};
      }
      // They come before those of later micro-batches, which are added to them.
      if (before)
        window.insert(window.begin(), *before);
      its.push_back(std::move(window));
    }
    if (weights)
      its.push_back({*weights});
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

static DeviceOrders getNamedOrders(const PipelineShape &shape, PipelineOrder order) {
  DeviceOrders orders;
  for (int64_t device = 0; device < shape.devices; ++device)
    orders.push_back(order == PipelineOrder::ZbH1 ? getZbH1(device, shape)
                     : order == PipelineOrder::DualPipeV
                         ? DualPipeV(device, shape).run()
                         : getOneForwardOneBackward(device, shape, isOverlapped(order)));
  // No device waits for input gradients of the first device, so its backwards are not split.
  if (order == PipelineOrder::ZbH1)
    orders.front() = joinBackwards({orders.front()}).front();
  return orders;
}

namespace {
/// Finds the fastest schedule within the limit of memory, or the one that keeps least if none is within it. The first
/// of equal schedules wins.
class Fastest {
public:
  Fastest(const PipelineShape &shape, const StageTimes &times, const StageMemory &memory)
      : shape(shape), times(times), memory(memory) {}

  void add(PipelineSchedule schedule) {
    int64_t tooMuch = memory.most > 0 ? std::max<int64_t>(0, getMostKept(schedule, memory) - memory.most) : 0;
    bool isFaster = schedule.seconds < best.seconds * (1 - kTolerance);
    if (!best.windows.empty() && (tooMuch > bestTooMuch || (tooMuch == bestTooMuch && !isFaster)))
      return;
    best = std::move(schedule);
    bestTooMuch = tooMuch;
  }
  void addNamed(PipelineOrder order) {
    ArrayRef<int64_t> devices = order == PipelineOrder::DualPipeV ? vDevices : cyclicDevices;
    DeviceOrders orders = getNamedOrders(shape, order);
    PipelineSchedule schedule = mergeOrders(shape, times, devices, orders);
    if (isOverlapped(order) && times.together && shape.microBatches > 2) {
      PipelineSchedule later = mergeOrders(shape, times, devices, postponeWeights(orders));
      if (later.seconds * getMemory(later) < schedule.seconds * getMemory(schedule))
        schedule = std::move(later);
      else if (memory.most > 0)
        add(std::move(later));
    }
    add(std::move(schedule));
  }
  /// Bytes that are kept, for comparisons.
  double getMemory(const PipelineSchedule &schedule) const {
    return memory.kept.empty() ? 1 : static_cast<double>(getMostKept(schedule, memory));
  }
  /// Adds list schedules by all rules. Each device keeps at most `mostAlive` micro-batches.
  void addLists(ArrayRef<int64_t> devices, int64_t mostAlive) {
    addLists(devices, mostAlive, {});
    if (memory.most > 0)
      addLists(devices, mostAlive, memory);
    // No backward exceeds the limit if each forward leaves room for what its backward makes.
    if (bestTooMuch > 0)
      addLists(devices, mostAlive, getCareful(devices));
  }
  void addLists(ArrayRef<int64_t> devices, int64_t mostAlive, const StageMemory &within) {
    for (double patience : {0.25, 0.5, 0.75, 1.0})
      for (double forBackward : {0.0, 0.5})
        for (bool leavesRoom : {false, true})
          if (auto schedule =
                  scheduleByList(shape, times, within, devices, {mostAlive, patience, forBackward, leavesRoom})) {
            DeviceOrders orders(shape.devices);
            for (const PipelineWindow &window : schedule->windows)
              orders[devices[window.front().stage]].push_back(window);
            add(mergeOrders(shape, times, devices, joinBackwards(orders)));
            add(std::move(*schedule));
          }
  }
  /// Memory with room for a micro-batch on each device, even beyond the limit.
  StageMemory getCareful(ArrayRef<int64_t> devices) const {
    StageMemory careful = memory;
    SmallVector<int64_t> least(shape.devices, 0);
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      int64_t most = std::max(memory.kept[stage], memory.waiting[stage]);
      careful.kept[stage] = careful.waiting[stage] = most;
      least[devices[stage]] += most;
    }
    careful.most = std::max(careful.most, *llvm::max_element(least));
    return careful;
  }
  void addV() { addLists(vDevices, shape.stages); }
  void addAll();
  PipelineSchedule take() { return std::move(best); }

private:
  static constexpr double kTolerance = 1e-9;

  const PipelineShape &shape;
  const StageTimes &times;
  const StageMemory &memory;
  SmallVector<int64_t> cyclicDevices = getDevices(shape, /*inV=*/false), vDevices = getDevices(shape, /*inV=*/true);
  PipelineSchedule best;
  int64_t bestTooMuch = 0; ///< bytes that it keeps beyond the limit
};
} // namespace

void Fastest::addAll() {
  auto isPossible = [&](PipelineOrder order) {
    PipelineShape named = shape;
    named.order = order;
    return named.check().empty();
  };
  for (PipelineOrder order : {PipelineOrder::OneForwardOneBackward, PipelineOrder::Overlapped1F1B, PipelineOrder::ZbH1,
                              PipelineOrder::DualPipeV})
    if (isPossible(order))
      addNamed(order);
  // As many micro-batches are alive as on the first device of 1F1B.
  if (shape.getStagesPerDevice() == 2)
    addV();
  addLists(cyclicDevices, shape.stages + (shape.getStagesPerDevice() > 1 ? shape.devices - 1 : 0));
}

PipelineSchedule mlir::moe::getPipelineSchedule(const PipelineProblem &problem) {
  assert(problem.check().empty() && "expected a problem without a mistake");
  const PipelineShape &shape = problem.shape;
  if (shape.devices == 1 && shape.order != PipelineOrder::Overlapped1F1B)
    return mergeOrders(shape, problem.times, getDevices(shape, /*inV=*/false), {getOrderInTurn(shape)});
  Fastest fastest(shape, problem.times, problem.memory);
  if (shape.order == PipelineOrder::Search)
    fastest.addAll();
  else if (shape.order == PipelineOrder::ZbV)
    fastest.addV();
  else
    fastest.addNamed(shape.order);
  return fastest.take();
}
