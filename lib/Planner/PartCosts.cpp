//===- PartCosts.cpp - the costs of a program, part by part ---------------===//
//
// A unit is the work of a part for one micro-batch, in the forward or in the backward. Each launch belongs to a unit,
// or to the tail of the step. The seconds of a unit are the time by which its launches advance the clock of the
// program. Bytes of a buffer are held, kept or passing: its first and its last launch decide.
//
//===----------------------------------------------------------------------===//
#include "PartCosts.h"

#include "llvm/ADT/StringMap.h"

#include <map>

using namespace mlir;
using namespace mlir::moe;

namespace {
/// The unit of a launch; a part of -1 is the tail.
struct Unit {
  int32_t microBatch = -1, part = -1;
  bool isBackward = false;

  bool isTail() const { return part < 0; }
};

/// Buffers that follow one another in one place.
struct Block {
  double bytes = 0;
  int32_t first = 0, last = 0; ///< launches
  bool isArgument = false;
  bool isGathered = false; ///< whether it is gathered from arguments, and does not pass
};

class PartCosts {
public:
  PartCosts(const SimResult &step, const HostIssue &host, size_t numParts)
      : step(step), program(step.programs[step.ranks.front().program]), host(host), parts(numParts) {}

  SmallVector<PartCost> get(const ProgramMemory &memory);

private:
  void findUnits();
  void addSeconds();
  void moveSlowdown();
  void findBlocks();
  void findGathered();
  void assignTail();
  void addBytes(const ProgramMemory &memory);
  void addPassing();
  void addTail();
  void setLayers(ArrayRef<double> seconds);
  /// The blocks of the operands of a launch.
  SmallVector<size_t> getBlocks(const SimLaunch &launch) const;
  SmallVector<size_t> getBlocks(ArrayRef<int32_t> buffers) const;
  /// Whether a block passes: only one direction of one micro-batch needs it.
  bool isPassing(const Block &block) const;
  PartCost &getPart(int32_t part) { return part < 0 ? parts.back() : parts[part]; }

  const SimResult &step;
  const SimProgram &program;
  const HostIssue &host;
  SmallVector<PartCost> parts;
  std::vector<Unit> units;  ///< by launch
  std::vector<bool> isOnce; ///< by launch: part of a unit of the first micro-batch alone
  int32_t lastMicroBatch = 0;
  std::vector<Block> blocks;
  std::vector<int32_t> blockOf;    ///< by buffer; -1: none
  std::vector<int32_t> partOf;     ///< by block; -1: not known
  std::vector<int32_t> tailPartOf; ///< by launch of the tail; -1: of no part
};
} // namespace

/// Gives launches without a part that of the launches after them, which they serve.
void PartCosts::findUnits() {
  units.resize(program.launches.size());
  Unit next;
  for (size_t launch = units.size(); launch-- > 0;) {
    const SimLaunch &one = program.launches[launch];
    if (one.stage >= 0)
      next = {std::max(0, one.microBatch), one.stage, one.isBackward};
    units[launch] = next;
    lastMicroBatch = std::max(lastMicroBatch, next.microBatch);
  }
}

//===----------------------------------------------------------------------===//
// Seconds
//===----------------------------------------------------------------------===//

/// Shares of the launches that name the part. Without any time, launches are counted.
void PartCosts::setLayers(ArrayRef<double> seconds) {
  constexpr double little = 1e-12;
  std::vector<llvm::StringMap<double>> layers(parts.size());
  for (auto [launch, took] : llvm::zip(program.launches, seconds))
    if (launch.stage >= 0 && !launch.isBackward && !launch.label.empty())
      layers[launch.stage][StringRef(launch.label).split('.').first] += took + little;
  for (auto [part, names] : llvm::zip(parts, layers))
    if (!names.empty())
      part.layer = llvm::max_element(names, [](const auto &a, const auto &b) { return a.second < b.second; })->first();
}

void PartCosts::addSeconds() {
  std::vector<double> ends(units.size(), 0), took(units.size(), 0), each(units.size(), 0);
  for (const SimTime &time : step.times)
    if (time.rank == 0) {
      ends[time.launch] = time.end;
      each[time.launch] = time.end - time.begin;
    }
  double clock = 0;
  for (auto [end, seconds] : llvm::zip(ends, took)) {
    seconds = std::max(0.0, end - clock);
    clock = std::max(clock, end);
  }
  for (auto [launch, unit] : llvm::enumerate(units)) {
    if (unit.isTail()) {
      getPart(tailPartOf[launch]).once += took[launch];
      continue;
    }
    PartCost &part = parts[unit.part];
    part.once += took[launch];
    if (unit.microBatch != lastMicroBatch || isOnce[launch])
      continue;
    const SimLaunch &one = program.launches[launch];
    (unit.isBackward ? part.backward : part.forward) += took[launch];
    (unit.isBackward ? part.backwardIssue : part.forwardIssue) += host.getLaunchSeconds(one.kernel, one.cost.resource);
    if (one.cost.resource != Resource::Network)
      continue;
    (unit.isBackward ? part.backwardExposed : part.forwardExposed) += took[launch];
    (unit.isBackward ? part.backwardExchange : part.forwardExchange) += each[launch];
  }
  moveSlowdown();
  for (PartCost &part : parts)
    part.once -= (part.forward + part.backward) * (lastMicroBatch + 1);
  setLayers(took);
}

/// Moves the seconds by which exchanges that are done once slow the work beside them to the part that exchanges. A
/// sample has few layers, so that exchanges of gradients and of parameters run beside a larger share of each than in
/// the model.
void PartCosts::moveSlowdown() {
  std::vector<const SimTime *> once, each;
  for (const SimTime &time : step.times)
    if (time.rank == 0 && program.launches[time.launch].cost.resource == Resource::Network)
      (units[time.launch].isTail() || isOnce[time.launch] ? once : each).push_back(&time);
  auto findBeside = [](ArrayRef<const SimTime *> exchanges, const SimTime &work) {
    auto found =
        llvm::find_if(exchanges, [&](const SimTime *one) { return one->begin < work.end && work.begin < one->end; });
    return found == exchanges.end() ? nullptr : *found;
  };
  for (const SimTime &time : step.times) {
    const Unit &unit = units[time.launch];
    double slowdown = time.end - time.begin - time.alone;
    if (time.rank != 0 || unit.isTail() || time.alone == 0 || slowdown <= 0 || findBeside(each, time))
      continue;
    const SimTime *exchange = findBeside(once, time);
    if (!exchange)
      continue;
    PartCost &part = parts[unit.part];
    if (unit.microBatch == lastMicroBatch)
      (unit.isBackward ? part.backward : part.forward) -= slowdown;
    part.once -= slowdown;
    getPart(units[exchange->launch].isTail() ? tailPartOf[exchange->launch] : units[exchange->launch].part).once +=
        slowdown;
  }
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

/// A buffer that begins where another one ends, at the launch that ends it, takes its place.
void PartCosts::findBlocks() {
  blockOf.assign(program.buffers.size(), -1);
  std::map<int64_t, SmallVector<size_t>> atOffset;
  for (auto [number, buffer] : llvm::enumerate(program.buffers)) {
    if (buffer.base >= 0 || buffer.isHost || buffer.firstLaunch < 0)
      continue;
    if (!buffer.isArgument) {
      atOffset[buffer.offset].push_back(number);
      continue;
    }
    blockOf[number] = static_cast<int32_t>(blocks.size());
    blocks.push_back({static_cast<double>(buffer.bytes), buffer.firstLaunch, buffer.lastLaunch, true});
  }
  for (auto &[offset, buffers] : atOffset) {
    llvm::stable_sort(
        buffers, [&](size_t a, size_t b) { return program.buffers[a].firstLaunch < program.buffers[b].firstLaunch; });
    for (auto [index, number] : llvm::enumerate(buffers)) {
      const SimBuffer &buffer = program.buffers[number];
      if (index == 0 || blocks.back().last != buffer.firstLaunch)
        blocks.push_back({0, buffer.firstLaunch, buffer.lastLaunch, false});
      Block &block = blocks.back();
      block.bytes = std::max(block.bytes, static_cast<double>(buffer.bytes));
      block.last = std::max(block.last, buffer.lastLaunch);
      blockOf[number] = static_cast<int32_t>(blocks.size()) - 1;
    }
  }
}

SmallVector<size_t> PartCosts::getBlocks(ArrayRef<int32_t> buffers) const {
  SmallVector<size_t> result;
  for (int32_t buffer : buffers) {
    if (buffer < 0)
      continue;
    int32_t base = program.buffers[buffer].base;
    if (int32_t block = blockOf[base < 0 ? buffer : base]; block >= 0)
      result.push_back(block);
  }
  return result;
}

SmallVector<size_t> PartCosts::getBlocks(const SimLaunch &launch) const {
  SmallVector<size_t> result = getBlocks(launch.inputs);
  llvm::append_range(result, getBlocks(launch.outputs));
  return result;
}

bool PartCosts::isPassing(const Block &block) const {
  const Unit &first = units[block.first], &last = units[block.last];
  return !block.isArgument && !first.isTail() && first.microBatch == last.microBatch &&
         first.isBackward == last.isBackward;
}

/// Finds parameters that are gathered before their first use, and stay for all micro-batches (ZeRO-1).
void PartCosts::findGathered() {
  isOnce.assign(units.size(), false);
  for (auto [number, launch] : llvm::enumerate(program.launches)) {
    SmallVector<size_t> from = getBlocks(launch.inputs), to = getBlocks(launch.outputs);
    if (launch.cost.collective != Collective::AllGather || from.empty() || to.empty() ||
        !llvm::all_of(from, [&](size_t block) { return blocks[block].isArgument; }) ||
        llvm::all_of(to, [&](size_t block) { return isPassing(blocks[block]); }))
      continue;
    isOnce[number] = true;
    for (size_t block : to)
      blocks[block].isGathered = true;
  }
}

/// Gives a launch of the tail, and its other operands, the part of its largest operand, as moe-split-stages does.
void PartCosts::assignTail() {
  partOf.assign(blocks.size(), -1);
  for (auto [number, block] : llvm::enumerate(blocks))
    partOf[number] = units[block.first].part;
  tailPartOf.assign(units.size(), -1);
  for (auto [number, launch] : llvm::enumerate(program.launches)) {
    if (!units[number].isTail())
      continue;
    SmallVector<size_t> operands = getBlocks(launch);
    double most = -1;
    for (size_t block : operands)
      if (partOf[block] >= 0 && blocks[block].bytes > most) {
        most = blocks[block].bytes;
        tailPartOf[number] = partOf[block];
      }
    for (size_t block : operands)
      if (partOf[block] < 0)
        partOf[block] = tailPartOf[number];
  }
}

void PartCosts::addBytes(const ProgramMemory &memory) {
  // Optimizer states that the runtime's user holds are in proportion to the arguments.
  double arguments = 0;
  for (const Block &block : blocks)
    arguments += block.isArgument ? block.bytes : 0;
  double factor = arguments > 0 ? 1 + static_cast<double>(memory.getOptimizerStates()) / arguments : 1;
  for (auto [number, block] : llvm::enumerate(blocks)) {
    Unit first = units[block.first], last = units[block.last];
    if (block.isArgument)
      getPart(partOf[number]).held += block.bytes * factor;
    else if (block.isGathered)
      getPart(partOf[number]).held += block.bytes;
    else if (!first.isTail() && (last.isTail() || first.microBatch != last.microBatch))
      (first.isBackward ? parts[first.part].gradients : parts[first.part].held) += block.bytes;
    else if (first.microBatch == lastMicroBatch && !first.isBackward && last.isBackward)
      // The stage that uses a value last holds it, not the one that makes it.
      parts[last.part].kept += block.bytes;
  }
}

/// The buffers that are neither held nor kept, launch by launch.
void PartCosts::addPassing() {
  std::vector<double> change(units.size() + 1, 0);
  for (const Block &block : blocks) {
    if (!isPassing(block))
      continue;
    change[block.first] += block.bytes;
    change[block.last + 1] -= block.bytes;
  }
  double bytes = 0;
  for (auto [launch, unit] : llvm::enumerate(units)) {
    bytes += change[launch];
    if (unit.isTail() || unit.microBatch != lastMicroBatch)
      continue;
    PartCost &part = parts[unit.part];
    double &peak = unit.isBackward ? part.backwardPeak : part.forwardPeak;
    peak = std::max(peak, bytes);
  }
}

/// Bytes of each part at the moment at which the tail needs the most.
void PartCosts::addTail() {
  std::vector<double> change(units.size() + 1, 0);
  auto isOfTail = [&](const Block &block) {
    return !block.isArgument && units[block.last].isTail() &&
           (units[block.first].isTail() || units[block.first].isBackward);
  };
  for (const Block &block : blocks)
    if (isOfTail(block)) {
      change[block.first] += block.bytes;
      change[block.last + 1] -= block.bytes;
    }
  double bytes = 0, most = -1;
  int32_t peak = -1;
  for (auto [launch, unit] : llvm::enumerate(units)) {
    bytes += change[launch];
    if (unit.isTail() && bytes > most) {
      most = bytes;
      peak = static_cast<int32_t>(launch);
    }
  }
  for (auto [number, block] : llvm::enumerate(blocks))
    if (isOfTail(block) && block.first <= peak && peak <= block.last)
      getPart(partOf[number]).tail += block.bytes;
}

SmallVector<PartCost> PartCosts::get(const ProgramMemory &memory) {
  findUnits();
  findBlocks();
  findGathered();
  assignTail();
  addSeconds();
  addBytes(memory);
  addPassing();
  addTail();
  return std::move(parts);
}

SmallVector<PartCost> mlir::moe::getPartCosts(const SimResult &step, const ProgramMemory &memory, const HostIssue &host,
                                              size_t numParts) {
  return PartCosts(step, host, numParts).get(memory);
}
