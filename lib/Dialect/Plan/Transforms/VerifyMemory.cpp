//===- VerifyMemory.cpp - no races, no stale reads ------------------------===//
//
// One walk in program order over byte intervals, as race detectors do. Each interval remembers its last writer and, by
// stream, its last readers since. An access has to come after those that it conflicts with, and transitivity covers
// older ones. Without a race every interleaving reads what the walk reads, so the walk also proves that reads are not
// stale. Views are other bytes on other ranks, so there is one walk for each layout of the views.
//
//===----------------------------------------------------------------------===//
#include "Verify.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>
#include <numeric>
#include <set>

using namespace mlir;
using namespace mlir::plan;

namespace {

/// Bytes of one memory: an arena, an argument, or a buffer that has no offset yet.
struct Range {
  unsigned memory;
  int64_t begin, end;

  bool overlaps(const Range &other) const { return memory == other.memory && begin < other.end && other.begin < end; }
};

/// Bytes with one history. `writer` is absent if the caller wrote them.
struct OwnedSegment {
  int64_t end;
  std::optional<unsigned> writer;
  /// The buffer or argument that holds these bytes now.
  Value owner;
  /// Last launch of each stream that has read them since.
  SmallVector<std::optional<unsigned>, 4> readers;
};

class MemoryChecker {
public:
  /// Checks the memory of `rank`.
  MemoryChecker(const Program &program, int64_t rank);
  LogicalResult run();

private:
  using Segments = std::map<int64_t, OwnedSegment>;

  void addMemories(func::FuncOp function);
  /// Splits the segment around `at`, if any, so that none crosses it.
  void split(Segments &segments, int64_t at);
  /// Splits at both ends of `range`, and returns the first segment in it.
  Segments::iterator carve(const Range &range);

  /// Bytes of `value` where launch number `launch` uses it.
  Range getRange(unsigned launch, Value value) const;
  LogicalResult checkWithin(unsigned launch);
  LogicalResult read(unsigned launch, Value value);
  LogicalResult write(unsigned launch, Value value);
  /// Checks that `launch`, which writes `value`, comes after earlier uses of the segments of `range`, or of those of
  /// `owner` if it is not null.
  LogicalResult checkAfter(unsigned launch, Value value, const Range &range, Value owner);
  LogicalResult reportRace(unsigned launch, StringRef verb, Value value, unsigned other, StringRef otherVerb);

  const HappensBefore &order;
  int64_t rank;
  std::vector<Segments> memories;
  /// Bytes of all buffers and arguments.
  llvm::DenseMap<Value, Range> ranges;
  /// Memories whose slots move with iterations, some of which are left out, and those that are overwritten. With
  /// another number of iterations another slot is the last one. So after the loop a launch that takes bytes of one slot
  /// comes after the users of all, and no launch reads any of them later.
  llvm::DenseSet<Value> rings, overwrittenRings;
};

} // namespace

/// Text for messages: "argument 2" or "the buffer of 64 bytes at offset 0 of device".
static std::string describeValue(Value value) {
  if (auto view = value.getDefiningOp<ViewOp>(); view && view.getAt())
    return "the piece at element " + std::to_string(*view.getAt()) + " of " + describeValue(view.getSource());
  else if (view)
    return "part " + std::to_string(view.getShift()) + " of " + std::to_string(view.getParts()) + " of " +
           describeValue(view.getSource());
  if (auto argument = dyn_cast<BlockArgument>(value))
    return "argument " + std::to_string(argument.getArgNumber());
  auto buffer = value.getDefiningOp<BufferOp>();
  std::string text = "the buffer of " + std::to_string(getByteSize(value)) + " bytes";
  if (auto offset = buffer.getOffset())
    text += " at offset " + std::to_string(*offset);
  return text + " in " + stringifySpace(buffer.getSpace()).str();
}

MemoryChecker::MemoryChecker(const Program &program, int64_t rank) : order(program.order), rank(rank) {
  func::FuncOp function = program.function;
  addMemories(function);
  if (program.isWhole)
    return;
  function.walk([&](ViewOp view) {
    if (Value memory = getMemory(view); view.getStep() && !isa<BlockArgument>(memory))
      rings.insert(memory);
  });
}

void MemoryChecker::addMemories(func::FuncOp function) {
  memories.resize(getMaxEnumValForSpace() + 1);
  auto addOwn = [&](Value value, bool written) {
    Range range{static_cast<unsigned>(memories.size()), 0, getByteSize(value)};
    ranges[value] = range;
    memories.emplace_back();
    if (written && range.end > 0)
      memories.back()[0] = OwnedSegment{range.end, std::nullopt, value, {}};
  };
  for (BlockArgument argument : function.getArguments())
    addOwn(argument, argument.getArgNumber() < getNumInputs(function));
  function.walk([&](BufferOp buffer) {
    if (std::optional<int64_t> offset = buffer.getOffset())
      ranges[buffer] = Range{static_cast<unsigned>(buffer.getSpace()), *offset, *offset + getByteSize(buffer)};
    else
      addOwn(buffer, false);
  });
}

Range MemoryChecker::getRange(unsigned launch, Value value) const {
  Range range = ranges.find(getMemory(value))->second;
  if (auto view = value.getDefiningOp<ViewOp>()) {
    range.begin += view.getByteOffset(rank, order.getIteration(launch));
    range.end = range.begin + getByteSize(value);
  }
  return range;
}

void MemoryChecker::split(Segments &segments, int64_t at) {
  auto it = segments.lower_bound(at);
  if (it == segments.begin() || (--it)->second.end <= at)
    return;
  segments[at] = it->second;
  it->second.end = at;
}

MemoryChecker::Segments::iterator MemoryChecker::carve(const Range &range) {
  Segments &segments = memories[range.memory];
  split(segments, range.begin);
  split(segments, range.end);
  return segments.lower_bound(range.begin);
}

LogicalResult MemoryChecker::run() {
  for (auto [launch, its] : llvm::enumerate(order.getLaunches())) {
    LaunchOp op = its;
    for (Value input : op.getInputs())
      if (failed(read(launch, input)))
        return failure();
    if (failed(checkWithin(launch)))
      return failure();
    for (Value output : op.getOutputs())
      if (failed(write(launch, output)))
        return failure();
  }
  return success();
}

/// Checks that a launch overwrites its own inputs only in place.
LogicalResult MemoryChecker::checkWithin(unsigned launch) {
  LaunchOp op = order.getLaunches()[launch];
  for (auto [number, output] : llvm::enumerate(op.getOutputs())) {
    Range written = getRange(launch, output);
    for (auto [position, input] : llvm::enumerate(op.getInputs())) {
      Range read = getRange(launch, input);
      bool inPlace = number == 0 && op.isInPlace(position) && read.begin == written.begin;
      if (input != output && !inPlace && written.overlaps(read))
        return op.emitOpError("expected ")
               << op.describe() << " to write other bytes than it reads but output " << number << " overlaps input "
               << position << " at " << describeValue(input);
    }
    for (auto [earlier, other] : llvm::enumerate(op.getOutputs().take_front(number)))
      if (written.overlaps(getRange(launch, other)))
        return op.emitOpError("expected the outputs of ") << op.describe() << " not to overlap but " << earlier
                                                          << " and " << number << " do at " << describeValue(output);
  }
  return success();
}

LogicalResult MemoryChecker::reportRace(unsigned launch, StringRef verb, Value value, unsigned other,
                                        StringRef otherVerb) {
  LaunchOp op = order.getLaunches()[launch], otherOp = order.getLaunches()[other];
  InFlightDiagnostic diagnostic = op.emitOpError("race: ")
                                  << op.describe() << " " << verb << " bytes of " << describeValue(value) << " that "
                                  << otherOp.describe() << " " << otherVerb
                                  << ", and no plan.record and plan.wait order the two";
  diagnostic.attachNote(otherOp.getLoc()) << otherOp.describe() << " is here";
  return diagnostic;
}

LogicalResult MemoryChecker::read(unsigned launch, Value value) {
  LaunchOp op = order.getLaunches()[launch];
  Range range = getRange(launch, value);
  bool isBehindLoop = order.getIteration(launch) > 0 && !op->getParentOfType<LoopOp>();
  if (isBehindLoop && overwrittenRings.contains(getMemory(value)))
    return op.emitOpError("stale read: ") << op.describe() << " reads " << describeValue(value)
                                          << " after something else has taken bytes of that buffer";
  Segments &segments = memories[range.memory];
  int64_t known = range.begin;
  for (auto it = carve(range); it != segments.end() && it->first == known && known < range.end; ++it) {
    OwnedSegment &segment = it->second;
    if (segment.writer && !order.isBefore(*segment.writer, launch))
      return reportRace(launch, "reads", value, *segment.writer, "writes");
    if (segment.owner != getMemory(value)) {
      LaunchOp writer = order.getLaunches()[*segment.writer];
      InFlightDiagnostic diagnostic = op.emitOpError("stale read: expected ")
                                      << op.describe() << " to read what was written to " << describeValue(value)
                                      << " but " << writer.describe() << " has put " << describeValue(segment.owner)
                                      << " there";
      diagnostic.attachNote(writer.getLoc()) << writer.describe() << " is here";
      return diagnostic;
    }
    segment.readers.resize(order.getNumStreams());
    segment.readers[order.getStream(launch)] = launch;
    known = segment.end;
  }
  if (known < range.end)
    return op.emitOpError("stale read: ")
           << op.describe() << " reads " << describeValue(value) << " before anything is written there";
  return success();
}

LogicalResult MemoryChecker::checkAfter(unsigned launch, Value value, const Range &range, Value owner) {
  const Segments &segments = memories[range.memory];
  auto begin = segments.lower_bound(range.begin), end = segments.lower_bound(range.end);
  for (const auto &[at, segment] : llvm::make_range(begin, end)) {
    if (owner && segment.owner != owner)
      continue;
    if (segment.writer && !order.isBefore(*segment.writer, launch))
      return reportRace(launch, "writes", value, *segment.writer, "writes");
    for (std::optional<unsigned> reader : segment.readers)
      if (reader && *reader != launch && !order.isBefore(*reader, launch))
        return reportRace(launch, "writes", value, *reader, "reads");
  }
  return success();
}

LogicalResult MemoryChecker::write(unsigned launch, Value value) {
  Range range = getRange(launch, value);
  if (range.begin == range.end)
    return success();
  Segments &segments = memories[range.memory];
  auto begin = carve(range), end = segments.lower_bound(range.end);
  if (failed(checkAfter(launch, value, range, /*owner=*/{})))
    return failure();
  llvm::SmallSetVector<Value, 4> overwritten;
  for (const auto &[at, segment] : llvm::make_range(begin, end))
    if (segment.owner != getMemory(value) && rings.contains(segment.owner))
      overwritten.insert(segment.owner);
  overwrittenRings.insert(overwritten.begin(), overwritten.end());
  for (Value ring : overwritten)
    if (failed(checkAfter(launch, value, ranges.find(ring)->second, ring)))
      return failure();
  segments.erase(begin, end);
  segments[range.begin] = OwnedSegment{range.end, launch, getMemory(value), {}};
  return success();
}

/// Views whose place matters. The views of an argument that are all the same part of it, such as ZeRO's of a parameter,
/// do not count, since no other value is in an argument's memory.
static SmallVector<ViewOp> getMovingViews(func::FuncOp function) {
  llvm::MapVector<Value, SmallVector<ViewOp>> byMemory;
  function.walk([&](ViewOp view) { byMemory[getMemory(view)].push_back(view); });
  SmallVector<ViewOp> moving;
  for (auto &[memory, views] : byMemory) {
    auto isSamePart = [first = views.front()](ViewOp view) mutable {
      return view.getSource() == first.getSource() && view.getProperties() == first.getProperties();
    };
    if (!isa<BlockArgument>(memory) || !llvm::all_of(views, isSamePart))
      llvm::append_range(moving,
                         llvm::make_filter_range(views, [](ViewOp view) { return view.getGroup().has_value(); }));
  }
  return moving;
}

/// Ranks that represent all, each with its views at other places than those before. Places repeat with the least common
/// multiple of the blocks of ranks that their groups divide.
static SmallVector<int64_t> getRepresentatives(func::FuncOp function) {
  SmallVector<ViewOp> views = getMovingViews(function);
  int64_t ranks = 1;
  for (ViewOp view : views)
    ranks = std::min(moe::kMaxWorld, std::lcm(ranks, view.getGroup()->getSize() * view.getGroup()->getStride()));
  std::set<std::vector<int64_t>> seen;
  SmallVector<int64_t> representatives;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<int64_t> parts;
    for (ViewOp view : views)
      parts.push_back(view.getPart(rank));
    if (seen.insert(std::move(parts)).second)
      representatives.push_back(rank);
  }
  return representatives;
}

LogicalResult mlir::plan::verifyMemory(const Program &program) {
  for (int64_t rank : getRepresentatives(program.function))
    if (failed(MemoryChecker(program, rank).run()))
      return failure();
  return success();
}
