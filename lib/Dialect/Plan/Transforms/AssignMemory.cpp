//===- AssignMemory.cpp - plan-assign-memory ------------------------------===//
//
// Buffers that share memory in place become one *block*; blocks are placed first-fit by decreasing size. Two blocks may
// overlap only where all uses of one surely come before all uses of the other, so no placement can add a race.
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

/// When a block is used, as two vector clocks: it is free for good once each stream has done `last` launches, and
/// needed only after each stream has surely done `first` launches.
struct Lifetime {
  Clock first, last;

  bool isBefore(const Lifetime &other) const {
    return llvm::all_of(llvm::zip(last, other.first), [](auto pair) { return std::get<0>(pair) <= std::get<1>(pair); });
  }
  void join(const Lifetime &other) {
    for (auto [mine, theirs] : llvm::zip(first, other.first))
      mine = std::min(mine, theirs);
    for (auto [mine, theirs] : llvm::zip(last, other.last))
      mine = std::max(mine, theirs);
  }
};

/// Buffers that start at one offset.
struct Block {
  SmallVector<BufferOp, 1> buffers;
  Space space;
  int64_t bytes;
  Lifetime lifetime;
  int64_t offset = 0;
};

class MemoryPlanner {
public:
  MemoryPlanner(func::FuncOp program, int64_t alignment) : program(program), order(program), alignment(alignment) {}
  void run();

private:
  void makeBlocks();
  Lifetime getLifetime(BufferOp buffer) const;
  void shareInPlace();
  /// The first input of `launch` whose memory its first output can take, or null.
  BufferOp findInPlaceInput(LaunchOp launch);
  /// Whether every launch that uses `buffer` is `launch` or, per `before`, comes surely before or after it.
  bool isUsedOnly(BufferOp buffer, LaunchOp launch, bool before) const;
  void merge(unsigned from, unsigned into);
  /// Places all blocks of `space`; returns the bytes that they need.
  int64_t place(Space space);
  int64_t findOffset(const Block &block, ArrayRef<unsigned> placed) const;

  func::FuncOp program;
  HappensBefore order;
  int64_t alignment;
  std::vector<Block> blocks;
  llvm::DenseMap<Operation *, unsigned> blockOf;
};

} // namespace

static MemRefType getType(BufferOp buffer) { return cast<MemRefType>(buffer.getMemref().getType()); }
static Space getSpace(BufferOp buffer) { return cast<SpaceAttr>(getType(buffer).getMemorySpace()).getValue(); }

Lifetime MemoryPlanner::getLifetime(BufferOp buffer) const {
  unsigned streams = order.getNumStreams();
  Lifetime lifetime{Clock(streams, std::numeric_limits<int32_t>::max()), Clock(streams, 0)};
  for (LaunchOp user : getLaunches(buffer)) {
    unsigned launch = order.getIndex(user);
    for (auto [first, done] : llvm::zip(lifetime.first, order.getClock(launch)))
      first = std::min(first, done);
    int32_t &last = lifetime.last[order.getStream(launch)];
    last = std::max(last, order.getPosition(launch));
  }
  return lifetime;
}

void MemoryPlanner::makeBlocks() {
  for (auto buffer : program.getOps<BufferOp>()) {
    blockOf[buffer] = blocks.size();
    blocks.push_back({{buffer}, getSpace(buffer), getByteSize(getType(buffer)), getLifetime(buffer)});
  }
}

bool MemoryPlanner::isUsedOnly(BufferOp buffer, LaunchOp launch, bool before) const {
  unsigned here = order.getIndex(launch);
  return llvm::all_of(getLaunches(buffer), [&](LaunchOp user) {
    unsigned there = order.getIndex(user);
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
    if (!input || getSpace(input) != getSpace(output) || getByteSize(getType(input)) < getByteSize(getType(output)))
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

void MemoryPlanner::merge(unsigned from, unsigned into) {
  for (BufferOp buffer : blocks[from].buffers)
    blockOf[buffer] = into;
  blocks[into].buffers.append(blocks[from].buffers);
  blocks[into].bytes = std::max(blocks[into].bytes, blocks[from].bytes);
  blocks[into].lifetime.join(blocks[from].lifetime);
  blocks[from].buffers.clear();
}

void MemoryPlanner::shareInPlace() {
  // In program order an output is alone in its block when its writer is met, so merging is linear over all.
  for (LaunchOp launch : order.getLaunches())
    if (BufferOp input = findInPlaceInput(launch))
      merge(blockOf[launch.getOutputs().front().getDefiningOp()], blockOf[input]);
}

int64_t MemoryPlanner::findOffset(const Block &block, ArrayRef<unsigned> placed) const {
  int64_t offset = 0;
  for (unsigned index : placed) {
    const Block &other = blocks[index];
    if (other.offset + other.bytes <= offset)
      continue;
    if (other.offset >= offset + block.bytes)
      break;
    if (block.lifetime.isBefore(other.lifetime) || other.lifetime.isBefore(block.lifetime))
      continue;
    offset = llvm::alignTo(other.offset + other.bytes, alignment);
  }
  return offset;
}

int64_t MemoryPlanner::place(Space space) {
  SmallVector<unsigned> bySize;
  for (auto [index, block] : llvm::enumerate(blocks))
    if (block.space == space && !block.buffers.empty())
      bySize.push_back(index);
  llvm::stable_sort(bySize, [&](unsigned a, unsigned b) { return blocks[a].bytes > blocks[b].bytes; });
  int64_t total = 0;
  SmallVector<unsigned> placed;
  auto byOffset = [&](unsigned a, unsigned b) { return blocks[a].offset < blocks[b].offset; };
  for (unsigned index : bySize) {
    Block &block = blocks[index];
    block.offset = findOffset(block, placed);
    total = std::max(total, block.offset + block.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index, byOffset), index);
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
  for (const Block &block : blocks)
    for (BufferOp buffer : block.buffers)
      buffer.setOffset(block.offset);
  program->setAttr(kArenasAttrName, arenas.getDictionary(program.getContext()));
}

namespace {
struct PlanAssignMemory : public plan::impl::PlanAssignMemoryBase<PlanAssignMemory> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp program = getOperation();
    if (!isRankProgram(program))
      return;
    if (alignment < 1 || !llvm::isPowerOf2_64(alignment)) {
      program.emitError() << "expected alignment to be a power of two but got " << alignment.getValue();
      return signalPassFailure();
    }
    if (failed(verifyRankProgram(program)))
      return signalPassFailure();
    MemoryPlanner(program, alignment).run();
  }
};
} // namespace
