//===- Dependences.cpp - what has to come before what ---------------------===//
#include "moe/Dialect/Plan/Transforms/Dependences.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::plan;

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

namespace {
/// Byte range of a buffer or argument, with its last writer and its readers since then.
struct UsedSegment {
  int64_t begin, end;
  std::optional<unsigned> writer;
  SmallVector<unsigned, 2> readers;
};

/// Uses of one buffer or argument up to some place of the program. Segments are sorted and disjoint. Each has its own
/// writer and readers.
class Memory {
public:
  explicit Memory(int64_t bytes) { segments.push_back({0, bytes, std::nullopt, {}}); }

  /// Appends the launches that must precede `reader`.
  void read(int64_t begin, int64_t end, unsigned reader, SmallVectorImpl<unsigned> &before);
  void write(int64_t begin, int64_t end, unsigned writer, SmallVectorImpl<unsigned> &before);

private:
  /// Splits the segment around `at`, if any, and returns the first that begins there or later.
  size_t split(int64_t at);

  SmallVector<UsedSegment, 1> segments;
};
} // namespace

size_t Memory::split(int64_t at) {
  size_t i = llvm::find_if(segments, [&](const UsedSegment &segment) { return segment.end > at; }) - segments.begin();
  if (i == segments.size() || segments[i].begin >= at)
    return i;
  UsedSegment rest = segments[i];
  rest.begin = segments[i].end = at;
  segments.insert(segments.begin() + i + 1, std::move(rest));
  return i + 1;
}

void Memory::read(int64_t begin, int64_t end, unsigned reader, SmallVectorImpl<unsigned> &before) {
  split(end);
  for (size_t i = split(begin); i < segments.size() && segments[i].begin < end; ++i) {
    if (segments[i].writer)
      before.push_back(*segments[i].writer);
    segments[i].readers.push_back(reader);
  }
}

void Memory::write(int64_t begin, int64_t end, unsigned writer, SmallVectorImpl<unsigned> &before) {
  if (begin == end)
    return;
  split(end);
  size_t first = split(begin), last = first;
  for (; last < segments.size() && segments[last].begin < end; ++last) {
    // The readers already come after the writer.
    if (segments[last].writer && segments[last].readers.empty())
      before.push_back(*segments[last].writer);
    llvm::append_range(before, segments[last].readers);
  }
  segments.erase(segments.begin() + first + 1, segments.begin() + last);
  segments[first] = {begin, end, writer, {}};
}

/// Bytes of a value in getMemory(), in an iteration of the loop around its user.
static std::pair<int64_t, int64_t> getByteRange(Value value, int64_t iteration) {
  // Only the last view of a chain may have a group.
  if (auto view = value.getDefiningOp<ViewOp>(); view && view.getGroup())
    value = view.getSource();
  auto view = value.getDefiningOp<ViewOp>();
  int64_t begin = view ? view.getByteOffset(/*rank=*/0, iteration) : 0;
  return {begin, begin + getByteSize(value)};
}

//===----------------------------------------------------------------------===//
// Dependences
//===----------------------------------------------------------------------===//

static void makeUnique(SmallVectorImpl<unsigned> &numbers) {
  llvm::sort(numbers);
  numbers.erase(llvm::unique(numbers), numbers.end());
}

Dependences::Dependences(func::FuncOp program) {
  forEachIssued(program, getRepresentative, [&](Operation *op, int64_t iteration) {
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      launches.push_back(launch);
      iterationOf.push_back(iteration);
    }
  });
  before.resize(launches.size());
  llvm::DenseMap<Value, unsigned> numbers;
  std::vector<Memory> memories;
  auto getMemoryOf = [&](Value value) -> Memory & {
    Value memory = getMemory(value);
    auto [entry, isNew] = numbers.try_emplace(memory, memories.size());
    if (isNew)
      memories.emplace_back(getByteSize(memory));
    return memories[entry->second];
  };
  for (auto [number, launch] : llvm::enumerate(launches)) {
    for (Value input : launch.getInputs()) {
      auto [begin, end] = getByteRange(input, iterationOf[number]);
      getMemoryOf(input).read(begin, end, number, before[number]);
    }
    for (Value output : launch.getOutputs()) {
      auto [begin, end] = getByteRange(output, iterationOf[number]);
      getMemoryOf(output).write(begin, end, number, before[number]);
    }
  }
  addRings(program);
  for (auto [number, others] : llvm::enumerate(before)) {
    llvm::erase(others, static_cast<unsigned>(number));
    makeUnique(others);
  }
}

void Dependences::addRings(func::FuncOp program) {
  llvm::DenseMap<Operation *, unsigned> numbers;
  llvm::MapVector<StringRef, Ring> found;
  for (auto buffer : program.getOps<BufferOp>()) {
    moe::RingAttr attribute = buffer.getRingAttr();
    if (!attribute)
      continue;
    if (numbers.empty())
      for (auto [number, launch] : llvm::enumerate(launches))
        numbers[launch] = number;
    Ring::Turn turn;
    for (LaunchOp user : plan::getLaunches(buffer))
      turn.users.push_back(numbers.lookup(user));
    makeUnique(turn.users);
    auto writer = llvm::find_if(turn.users, [&](unsigned user) {
      return llvm::is_contained(llvm::map_range(launches[user].getOutputs(), getMemory), buffer.getMemref());
    });
    if (writer == turn.users.end())
      continue;
    turn.firstWriter = *writer;
    // Buffers of one ring have one depth. If depths differ, the least is the safe one.
    Ring &ring = found.try_emplace(attribute.getName(), Ring{attribute.getDepth()}).first->second;
    ring.depth = std::min(ring.depth, attribute.getDepth());
    ring.turns.push_back(std::move(turn));
  }
  for (auto &entry : found) {
    llvm::stable_sort(entry.second.turns,
                      [](const Ring::Turn &a, const Ring::Turn &b) { return a.firstWriter < b.firstWriter; });
    addTurns(entry.second);
    rings.push_back(std::move(entry.second));
  }
}

/// A launch that uses a buffer and writes the one that takes its place does both at once, so the two lie apart.
void Dependences::addTurns(const Ring &ring) {
  for (size_t later = ring.depth; later < ring.turns.size(); ++later) {
    const Ring::Turn &earlier = ring.turns[later - ring.depth];
    for (unsigned user : ring.turns[later].users)
      // Launches that only read the later buffer come after its first writer.
      if (user == ring.turns[later].firstWriter || !llvm::is_contained(before[user], ring.turns[later].firstWriter))
        llvm::append_range(before[user], earlier.users);
  }
}

LogicalResult Dependences::verifyProgramOrder() const {
  for (auto [number, others] : llvm::enumerate(before)) {
    if (others.empty() || others.back() < number)
      continue;
    LaunchOp launch = launches[number], other = launches[others.back()];
    InFlightDiagnostic diagnostic = launch.emitOpError("expected ")
                                    << launch.describe() << " to come after " << other.describe()
                                    << ", which uses the earlier buffer at the same place of the ring";
    diagnostic.attachNote(other.getLoc()) << other.describe() << " is here";
    return diagnostic;
  }
  return success();
}
