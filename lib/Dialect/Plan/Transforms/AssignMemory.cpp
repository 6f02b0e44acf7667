//===- AssignMemory.cpp - plan-assign-memory ------------------------------===//
//
// Buffers that share memory in place become one *block*. Blocks are placed first-fit by decreasing size. Two blocks may
// overlap only if all uses of one surely come before all uses of the other, so no placement can add a race. A loop uses
// a block again in each iteration, so two of its blocks may overlap if they take turns.
//
//===----------------------------------------------------------------------===//
#include "moe/Dialect/Plan/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/Transforms/HappensBefore.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANASSIGNMEMORY
#include "moe/Dialect/Plan/Transforms/Passes.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

/// Times of use of blocks, each as two vector clocks. A block is free for good once each stream has done `last`
/// launches, and needed only after each stream has surely done `first` launches.
class Lifetimes {
public:
  explicit Lifetimes(unsigned streams) : streams(streams) {}

  /// Adds a block without uses.
  void add() {
    first.insert(first.end(), streams, std::numeric_limits<int32_t>::max());
    last.insert(last.end(), streams, 0);
  }
  MutableArrayRef<int32_t> getFirst(unsigned block) { return MutableArrayRef(first).slice(block * streams, streams); }
  MutableArrayRef<int32_t> getLast(unsigned block) { return MutableArrayRef(last).slice(block * streams, streams); }
  /// Whether all uses of `a` are surely done before the first use of `b`, a block of `others`.
  bool isBefore(unsigned a, const Lifetimes &others, unsigned b) const {
    return std::equal(last.begin() + a * streams, last.begin() + (a + 1) * streams, others.first.begin() + b * streams,
                      std::less_equal<>());
  }
  void join(unsigned from, unsigned into) {
    for (auto [mine, theirs] : llvm::zip(getFirst(into), getFirst(from)))
      mine = std::min(mine, theirs);
    for (auto [mine, theirs] : llvm::zip(getLast(into), getLast(from)))
      mine = std::max(mine, theirs);
  }

private:
  size_t streams;
  std::vector<int32_t> first, last;
};

/// Buffers that start at one offset.
struct MemoryBlock {
  SmallVector<BufferOp, 1> buffers;
  Space space;
  int64_t bytes;
  LoopOp loop;        ///< loop of the buffers, or null outside of loops
  int64_t iterations; ///< number of its iterations that are looked at
  int64_t offset = 0;
};

/// Uses of a block that are looked at: all of them, or those in one iteration of a loop. The first iteration follows
/// the ops before the loop, and the last two follow each other.
enum class When { Always, First, LastButOne, Last };
using LifetimesByWhen = std::vector<Lifetimes>;

/// Looks at two iterations at least, so that one follows another.
int64_t getLookedAt(LoopOp loop) { return std::min(loop.getCount(), std::max<int64_t>(getRepresentative(loop), 2)); }

ArrayRef<When> getWhens(LoopOp loop) {
  static constexpr When always[] = {When::Always}, iterations[] = {When::First, When::LastButOne, When::Last};
  return loop ? ArrayRef(iterations) : ArrayRef(always);
}

/// Whether `iteration` of `iterations` is the one that `when` means.
bool isAt(When when, int64_t iteration, int64_t iterations) {
  return when == When::Always || (when == When::First && iteration == 0) ||
         (when == When::Last && iteration == iterations - 1) ||
         (when == When::LastButOne && iteration == std::max<int64_t>(iterations - 2, 0));
}

void forEachUse(const HappensBefore &order, const MemoryBlock &block, When when, function_ref<void(unsigned)> visit) {
  for (BufferOp buffer : block.buffers)
    for (LaunchOp user : getLaunches(buffer))
      for (unsigned launch : order.getIndices(user))
        if (isAt(when, order.getIteration(launch), block.iterations))
          visit(launch);
}

/// Bytes from `begin` to before `end` that blocks take.
struct Place {
  int64_t begin, end;
};
/// Places that rise and are apart.
using Places = ArrayRef<Place>;

/// Numbers from `begin` to before `end`, of launches in program order or on a stream.
struct Span {
  unsigned begin = std::numeric_limits<unsigned>::max(), end = 0;

  void add(unsigned number) {
    begin = std::min(begin, number);
    end = std::max(end, number + 1);
  }
  bool isEmpty() const { return begin >= end; }
};

/// Segment tree of places by spans of launches. Node 1 covers all launches, nodes 2 and 3 a half of them each, and so
/// on down to single launches. Each node joins its places to few ranges, and a query meets few nodes.
class PlacesBySpan {
public:
  explicit PlacesBySpan(size_t launches)
      : leaves(llvm::PowerOf2Ceil(launches)), throughout(2 * leaves), inside(2 * leaves) {}

  void insert(Span span, const Place &place);
  /// Appends the places whose spans share a launch with `span`.
  void find(Span span, SmallVectorImpl<Places> &found) const;

private:
  using Ranges = SmallVector<Place, 0>;

  /// Visits the largest nodes that make up `span`.
  void forEachPart(Span span, function_ref<void(size_t)> visit) const;
  /// Visits the first and the last launch of `span`, and the nodes above them.
  void forEachAbove(Span span, function_ref<void(size_t)> visit) const;
  static void join(Ranges &ranges, const Place &place);

  size_t leaves;
  std::vector<Ranges> throughout; ///< by node: places of spans that contain it
  std::vector<Ranges> inside;     ///< by node: places of spans that overlap it
};

/// Placed blocks by their times of use. Two blocks conflict if their spans share a launch in program order, or if one
/// spans a launch on a stream that may run at the same time as the other. Neither surely comes before the other then.
/// Otherwise one does: if a block comes first in program order and not surely, its last launch on some stream may run
/// at the same time as the other.
class PlacedBlocks {
public:
  PlacedBlocks(const HappensBefore &order, LifetimesByWhen &lifetimes);
  void insert(const MemoryBlock &block, const Place &place);
  /// Appends the places of all blocks that may be in use at the same time as `block`, which is number `index`.
  void findNear(const MemoryBlock &block, unsigned index, SmallVectorImpl<Places> &near) const;

private:
  /// Launches that use `block` then, in program order.
  Span getUses(const MemoryBlock &block, When when) const;
  /// Uses on each stream.
  SmallVector<Span, 4> getStreamUses(const MemoryBlock &block, When when) const;
  /// Launches of `stream` that may run at the same time as the uses of block number `index` then.
  Span getBeside(unsigned index, When when, unsigned stream) const;

  const HappensBefore &order;
  LifetimesByWhen &lifetimes;
  std::vector<std::vector<unsigned>> launchesOf; ///< launches by stream
  PlacesBySpan inProgram;
  std::vector<PlacesBySpan> onStream;
};

class MemoryPlanner {
public:
  MemoryPlanner(func::FuncOp program, int64_t alignment)
      : program(program), order(program, getLookedAt), lifetimes(4, Lifetimes(order.getNumStreams())),
        alignment(alignment) {}
  void run();

private:
  void makeBlocks();
  void use(When when, unsigned launch);
  void shareInPlace();
  /// First input of `launch` whose memory its first output can take, or null.
  BufferOp findInPlaceInput(LaunchOp launch);
  /// Whether every launch that uses `buffer` is `launch` itself, or surely comes before it (`before`) or after it.
  bool isUsedOnly(BufferOp buffer, LaunchOp launch, bool before) const;
  bool canMerge(BufferOp output, BufferOp input) const;
  void merge(unsigned from, unsigned into);
  /// Places all blocks of `space`; returns the bytes that they need.
  int64_t place(Space space);

  func::FuncOp program;
  HappensBefore order;
  LifetimesByWhen lifetimes; ///< uses of `blocks`
  int64_t alignment;
  std::vector<MemoryBlock> blocks;
  llvm::DenseMap<Operation *, unsigned> blockOf;
};

} // namespace

/// Records that `launch` uses the newest block.
void MemoryPlanner::use(When when, unsigned launch) {
  Lifetimes &uses = lifetimes[static_cast<size_t>(when)];
  unsigned block = blocks.size();
  for (auto [first, done] : llvm::zip(uses.getFirst(block), order.getClock(launch)))
    first = std::min(first, done);
  int32_t &last = uses.getLast(block)[order.getStream(launch)];
  last = std::max(last, order.getPosition(launch));
}

void MemoryPlanner::makeBlocks() {
  llvm::DenseMap<Operation *, int64_t> iterations;
  for (auto loop : program.getOps<LoopOp>())
    iterations[loop] = getLookedAt(loop);
  program.walk([&](BufferOp buffer) {
    auto loop = buffer->getParentOfType<LoopOp>();
    MemoryBlock block{{buffer}, buffer.getSpace(), getByteSize(buffer), loop, loop ? iterations.lookup(loop) : 0};
    for (Lifetimes &uses : lifetimes)
      uses.add();
    for (When when : {When::Always, When::First, When::LastButOne, When::Last})
      if (when == When::Always || loop)
        forEachUse(order, block, when, [&](unsigned launch) { use(when, launch); });
    blockOf[buffer] = blocks.size();
    blocks.push_back(std::move(block));
  });
}

bool MemoryPlanner::isUsedOnly(BufferOp buffer, LaunchOp launch, bool before) const {
  unsigned here = order.getIndices(launch).back();
  return llvm::all_of(getLaunches(buffer), [&](LaunchOp user) {
    unsigned there = order.getIndices(user).back();
    return there == here || (before ? order.isBefore(there, here) : order.isBefore(here, there));
  });
}

BufferOp MemoryPlanner::findInPlaceInput(LaunchOp launch) {
  ArrayRef<int64_t> candidates = launch.getInPlaceInputs();
  if (candidates.empty() || launch.getOutputs().empty())
    return {};
  auto output = launch.getOutputs().front().getDefiningOp<BufferOp>();
  auto touches = [](ValueRange values, BufferOp buffer) {
    return llvm::any_of(values, [&](Value value) { return getMemory(value) == buffer.getMemref(); });
  };
  if (!output || touches(launch.getInputs(), output) || !isUsedOnly(output, launch, false))
    return {};
  for (int64_t position : candidates) {
    auto input = launch.getInputs()[position].getDefiningOp<BufferOp>();
    if (!input || input.getSpace() != output.getSpace() || getByteSize(input) < getByteSize(output) ||
        !canMerge(output, input))
      continue;
    bool everyReadInPlace = llvm::all_of(llvm::enumerate(launch.getInputs()), [&](auto read) {
      return getMemory(read.value()) != input.getMemref() ||
             (read.value() == input.getMemref() && launch.isInPlace(read.index()));
    });
    if (everyReadInPlace && !touches(launch.getOutputs(), input) && isUsedOnly(input, launch, true))
      return input;
  }
  return {};
}

/// In a loop, the last use of one buffer has to come before the first use of the other in the next iteration.
bool MemoryPlanner::canMerge(BufferOp output, BufferOp input) const {
  unsigned from = blockOf.lookup(output), into = blockOf.lookup(input);
  if (blocks[from].loop != blocks[into].loop)
    return false;
  const Lifetimes &next = lifetimes[static_cast<size_t>(When::Last)];
  return !blocks[from].loop || lifetimes[static_cast<size_t>(When::LastButOne)].isBefore(from, next, into);
}

void MemoryPlanner::merge(unsigned from, unsigned into) {
  for (BufferOp buffer : blocks[from].buffers)
    blockOf[buffer] = into;
  blocks[into].buffers.append(blocks[from].buffers);
  blocks[into].bytes = std::max(blocks[into].bytes, blocks[from].bytes);
  for (Lifetimes &uses : lifetimes)
    uses.join(from, into);
  blocks[from].buffers.clear();
}

void MemoryPlanner::shareInPlace() {
  // An output is alone in its block when its writer is met in program order, so merging is linear over all.
  program.walk([&](LaunchOp launch) {
    if (BufferOp input = findInPlaceInput(launch))
      merge(blockOf[launch.getOutputs().front().getDefiningOp()], blockOf[input]);
  });
}

/// Least offset at which `bytes` bytes are free in all of `near`.
static int64_t findOffset(int64_t bytes, SmallVectorImpl<Places> &near) {
  int64_t offset = 0;
  for (size_t free = 0, next = 0; free < near.size(); next = (next + 1) % near.size()) {
    Places &places = near[next];
    places = places.drop_while([&](const Place &place) { return place.end <= offset; });
    ++free;
    if (places.empty() || places.front().begin >= offset + bytes)
      continue;
    offset = places.front().end;
    free = 0;
  }
  return offset;
}

//===----------------------------------------------------------------------===//
// Placed blocks
//===----------------------------------------------------------------------===//

void PlacesBySpan::forEachPart(Span span, function_ref<void(size_t)> visit) const {
  size_t first = leaves + span.begin, end = leaves + span.end;
  for (; first < end; first /= 2, end /= 2) {
    if (first % 2 == 1)
      visit(first++);
    if (end % 2 == 1)
      visit(--end);
  }
}

void PlacesBySpan::forEachAbove(Span span, function_ref<void(size_t)> visit) const {
  size_t first = leaves + span.begin, last = leaves + span.end - 1;
  for (; first > 0; first /= 2, last /= 2) {
    visit(first);
    if (first != last)
      visit(last);
  }
}

/// Joins `place` with the ranges that it meets.
void PlacesBySpan::join(Ranges &ranges, const Place &place) {
  auto *first = llvm::partition_point(ranges, [&](const Place &other) { return other.end < place.begin; });
  auto *last = std::find_if(first, ranges.end(), [&](const Place &other) { return other.begin > place.end; });
  if (first == last) {
    ranges.insert(first, place);
    return;
  }
  first->begin = std::min(first->begin, place.begin);
  first->end = std::max(std::prev(last)->end, place.end);
  ranges.erase(std::next(first), last);
}

void PlacesBySpan::insert(Span span, const Place &place) {
  if (span.isEmpty())
    return;
  forEachPart(span, [&](size_t node) {
    join(throughout[node], place);
    join(inside[node], place);
  });
  forEachAbove(span, [&](size_t node) { join(inside[node], place); });
}

void PlacesBySpan::find(Span span, SmallVectorImpl<Places> &found) const {
  if (span.isEmpty())
    return;
  auto add = [&](const Ranges &ranges) {
    if (!ranges.empty())
      found.push_back(ranges);
  };
  forEachPart(span, [&](size_t node) { add(inside[node]); });
  forEachAbove(span, [&](size_t node) { add(throughout[node]); });
}

PlacedBlocks::PlacedBlocks(const HappensBefore &order, LifetimesByWhen &lifetimes)
    : order(order), lifetimes(lifetimes), launchesOf(order.getNumStreams()), inProgram(order.getLaunches().size()) {
  for (unsigned launch = 0; launch < order.getLaunches().size(); ++launch)
    launchesOf[order.getStream(launch)].push_back(launch);
  for (const auto &launches : launchesOf)
    onStream.emplace_back(launches.size());
}

Span PlacedBlocks::getUses(const MemoryBlock &block, When when) const {
  Span span;
  forEachUse(order, block, when, [&](unsigned launch) { span.add(launch); });
  return span;
}

SmallVector<Span, 4> PlacedBlocks::getStreamUses(const MemoryBlock &block, When when) const {
  SmallVector<Span, 4> spans(order.getNumStreams());
  forEachUse(order, block, when,
             [&](unsigned launch) { spans[order.getStream(launch)].add(order.getPosition(launch) - 1); });
  return spans;
}

Span PlacedBlocks::getBeside(unsigned index, When when, unsigned stream) const {
  Lifetimes &uses = lifetimes[static_cast<size_t>(when)];
  ArrayRef<int32_t> last = uses.getLast(index);
  auto isAfter = [&](unsigned launch) {
    return llvm::all_of(llvm::zip(last, order.getClock(launch)),
                        [](auto pair) { return std::get<0>(pair) <= std::get<1>(pair); });
  };
  ArrayRef<unsigned> launches = launchesOf[stream];
  // The clocks of a stream rise, so the search is binary.
  const unsigned *after = llvm::partition_point(launches, [&](unsigned launch) { return !isAfter(launch); });
  return {static_cast<unsigned>(uses.getFirst(index)[stream]), static_cast<unsigned>(after - launches.begin())};
}

void PlacedBlocks::insert(const MemoryBlock &block, const Place &place) {
  for (When when : getWhens(block.loop)) {
    inProgram.insert(getUses(block, when), place);
    for (auto [places, span] : llvm::zip(onStream, getStreamUses(block, when)))
      places.insert(span, place);
  }
}

void PlacedBlocks::findNear(const MemoryBlock &block, unsigned index, SmallVectorImpl<Places> &near) const {
  for (When when : getWhens(block.loop)) {
    inProgram.find(getUses(block, when), near);
    for (auto [stream, places] : llvm::enumerate(onStream))
      places.find(getBeside(index, when, stream), near);
  }
}

//===----------------------------------------------------------------------===//
// All blocks
//===----------------------------------------------------------------------===//

int64_t MemoryPlanner::place(Space space) {
  SmallVector<unsigned> bySize;
  for (auto [index, block] : llvm::enumerate(blocks))
    if (block.space == space && !block.buffers.empty())
      bySize.push_back(index);
  llvm::stable_sort(bySize, [&](unsigned a, unsigned b) { return blocks[a].bytes > blocks[b].bytes; });
  int64_t total = 0;
  PlacedBlocks placed(order, lifetimes);
  SmallVector<Places> near;
  for (unsigned index : bySize) {
    MemoryBlock &block = blocks[index];
    near.clear();
    placed.findNear(block, index, near);
    block.offset = findOffset(block.bytes, near);
    total = std::max(total, block.offset + block.bytes);
    placed.insert(block, {block.offset, static_cast<int64_t>(llvm::alignTo(block.offset + block.bytes, alignment))});
  }
  return total;
}

void MemoryPlanner::run() {
  makeBlocks();
  shareInPlace();
  Builder builder(program.getContext());
  NamedAttrList arenas;
  for (Space space : {Space::device, Space::host_pinned})
    arenas.append(stringifySpace(space), builder.getI64IntegerAttr(place(space)));
  for (const MemoryBlock &block : blocks)
    for (BufferOp buffer : block.buffers)
      buffer.setOffset(block.offset);
  program->setAttr(kArenasAttrName, arenas.getDictionary(program.getContext()));
}

static constexpr int64_t kMaxAlignment = int64_t(1) << 30;

/// Verifies that offsets, which are sums of sizes, cannot overflow.
static LogicalResult verifyTotal(func::FuncOp program) {
  int64_t total = 0;
  WalkResult walk = program.walk([&](BufferOp buffer) -> WalkResult {
    if (!llvm::AddOverflow(total, getByteSize(buffer) + kMaxAlignment, total) && total <= kMaxArenaBytes)
      return WalkResult::advance();
    return buffer.emitOpError("expected all buffers together to have at most 2^62 bytes");
  });
  return failure(walk.wasInterrupted());
}

namespace {
struct PlanAssignMemory : public plan::impl::PlanAssignMemoryBase<PlanAssignMemory> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp program = getOperation();
    bool isAssigned = isSubprogram(program) && program->hasAttr(kArenasAttrName);
    if (isAssigned || (!isSubprogram(program) && !isRankProgram(program)))
      return;
    if (alignment < 1 || alignment > kMaxAlignment || !llvm::isPowerOf2_64(alignment)) {
      program.emitError() << "expected alignment to be a power of two up to " << kMaxAlignment << " but got "
                          << alignment.getValue();
      return signalPassFailure();
    }
    if (failed(verifyRankProgram(program)) || failed(verifyTotal(program)))
      return signalPassFailure();
    MemoryPlanner(program, alignment).run();
  }
};
} // namespace
