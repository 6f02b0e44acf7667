//===- MemoryReport.cpp - what holds the peak -----------------------------===//
#include "moe/Dialect/Plan/Transforms/MemoryReport.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Format.h"

#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"

using namespace mlir;
using namespace mlir::plan;

namespace {
/// A buffer is alive from launch `first` to launch `last`, both included.
struct Interval {
  BufferOp buffer;
  unsigned first, last;
};
} // namespace

/// Whether `output` takes over the bytes of `input`, whose interval then ends one launch earlier, because its launch
/// writes in place.
static bool takesOver(const Interval &output, const Interval &input) {
  BufferOp to = output.buffer, from = input.buffer;
  return output.first == input.last && input.first < input.last && to.getOffset() &&
         to.getOffset() == from.getOffset() && to.getSpace() == from.getSpace();
}

static std::vector<Interval> getIntervals(ArrayRef<LaunchOp> launches) {
  std::vector<Interval> intervals;
  llvm::DenseMap<Value, unsigned> intervalOf;
  for (auto [number, launch] : llvm::enumerate(launches))
    for (Value value : launch->getOperands())
      if (auto buffer = getMemory(value).getDefiningOp<BufferOp>()) {
        auto [it, inserted] = intervalOf.try_emplace(buffer.getMemref(), intervals.size());
        if (inserted)
          intervals.push_back({buffer, static_cast<unsigned>(number), 0});
        intervals[it->second].last = number;
      }
  for (LaunchOp launch : launches)
    for (Value output : launch.getOutputs())
      for (Value input : launch.getInputs())
        if (input != output && intervalOf.contains(input) && intervalOf.contains(output) &&
            takesOver(intervals[intervalOf[output]], intervals[intervalOf[input]]))
          --intervals[intervalOf[input]].last;
  return intervals;
}

static ArenaReport reportArena(Space space, ArrayRef<LaunchOp> launches, ArrayRef<Interval> intervals) {
  ArenaReport report;
  report.space = space;
  std::vector<int64_t> change(launches.size() + 1, 0);
  for (const Interval &interval : intervals)
    if (BufferOp buffer = interval.buffer; buffer.getSpace() == space) {
      change[interval.first] += getByteSize(buffer);
      change[interval.last + 1] -= getByteSize(buffer);
    }
  unsigned peak = 0;
  int64_t bytes = 0;
  for (unsigned launch = 0; launch < launches.size(); ++launch)
    if ((bytes += change[launch]) > report.liveBytes) {
      report.liveBytes = bytes;
      report.peak = launches[launch];
      peak = launch;
    }
  for (const Interval &interval : intervals)
    if (BufferOp buffer = interval.buffer;
        report.liveBytes > 0 && buffer.getSpace() == space && interval.first <= peak && peak <= interval.last)
      report.live.push_back({launches[interval.first], getByteSize(buffer), buffer.getOffset()});
  llvm::stable_sort(report.live, [](const LiveBuffer &a, const LiveBuffer &b) { return a.bytes > b.bytes; });
  return report;
}

SmallVector<ArenaReport, 2> mlir::plan::reportMemory(func::FuncOp program) {
  // One iteration represents a loop: the same buffers are alive in all.
  SmallVector<LaunchOp> launches;
  program.walk([&](LaunchOp launch) { launches.push_back(launch); });
  std::vector<Interval> intervals = getIntervals(launches);
  SmallVector<ArenaReport, 2> reports;
  for (Space space : {Space::device, Space::host_pinned}) {
    reports.push_back(reportArena(space, launches, intervals));
    reports.back().arenaBytes = getArenaBytes(program, space).value_or(0);
  }
  return reports;
}

static void printArena(ArenaReport &arena, raw_ostream &os) {
  os << "arena '" << stringifySpace(arena.space) << "': " << arena.arenaBytes << " bytes";
  if (!arena.peak) {
    os << "\n";
    return;
  }
  // Number of buffers that show what to change. The others are usually small.
  constexpr size_t shown = 10;
  os << ", at most " << arena.liveBytes << " alive, at " << arena.peak.describe() << ":\n";
  for (LiveBuffer &buffer : MutableArrayRef(arena.live).take_front(shown))
    os << llvm::format("%14lld  %s\n", static_cast<long long>(buffer.bytes), buffer.writer.describe().c_str());
  if (arena.live.size() > shown)
    os << "                and " << arena.live.size() - shown << " smaller ones\n";
}

void mlir::plan::printMemory(func::FuncOp program, raw_ostream &os) {
  moe::ProgramMemory memory = moe::getMemory(program);
  os << "memory of one rank: " << memory.getPlanBytes() << " bytes, arguments and results included\n";
  auto print = [&](int64_t bytes, StringRef what) {
    if (bytes > 0)
      os << llvm::format("%14lld  ", static_cast<long long>(bytes)) << what << "\n";
  };
  print(memory.parameters, "parameters");
  print(memory.gradients, "their gradients");
  print(memory.states, "the optimizer's states");
  print(memory.values, "inputs, outputs and their gradients");
  print(memory.arena, "arena 'device'");
  if (memory.getOptimizerStates() > 0)
    os << "with Adam's two states of " << memory.parameters << " bytes: " << memory.getDeviceBytes() << " bytes\n";
  for (ArenaReport &arena : reportMemory(program))
    printArena(arena, os);
}
