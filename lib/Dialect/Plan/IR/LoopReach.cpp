//===- LoopReach.cpp - how far apart iterations of a loop meet ------------===//
//
// Moving views and events of a loop are uniform under one condition: whether two ops meet, in a slot or an event,
// depends only on the number of iterations between them or, after the loop, between the op and the loop's end. Then a
// few iterations show all that any number of them do.
//
//===----------------------------------------------------------------------===//
#include "moe/Dialect/Plan/IR/RankProgram.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;
using namespace mlir::plan;

namespace {
/// Slots of a buffer with moving views.
struct Ring {
  int64_t parts = 0, step = 0;
  /// Slots in the first iteration: of views that launches use, in the loop or after it, and of views that the loop
  /// writes.
  SmallVector<int64_t> used = {}, written = {};
};

/// Events that a loop records in turn.
struct Turns {
  int64_t first, count;
  bool overlaps(const Turns &other) const { return other.first < first + count && first < other.first + other.count; }
  bool operator==(const Turns &) const = default;
};

class LoopReach {
public:
  explicit LoopReach(LoopOp loop) : loop(loop), program(loop->getParentOfType<func::FuncOp>()) {}

  /// Returns none if the loop is not uniform.
  std::optional<int64_t> find();

private:
  bool isInLoop(Operation *op) const { return op->getParentOp() == loop; }
  bool isBefore(Operation *op) const { return !isInLoop(op) && op->isBeforeInBlock(loop); }
  bool findRings();
  bool findUse(LaunchOp launch, Value value, bool isWritten);
  bool sharesBytes() const;
  bool findTurns();
  std::optional<int64_t> getReach(const Ring &ring) const;

  LoopOp loop;
  func::FuncOp program;
  llvm::MapVector<Value, Ring> rings; ///< by memory
  llvm::SetVector<Value> usedInLoop;  ///< memories
  SmallVector<Turns> turns;
};
} // namespace

bool LoopReach::findRings() {
  llvm::DenseSet<Value> written;
  program.walk([&](LaunchOp launch) {
    for (Value output : launch.getOutputs())
      written.insert(getMemory(output));
  });
  WalkResult walk = program.walk([&](ViewOp view) {
    Value memory = getMemory(view.getResult());
    // A model's inputs have a part for each micro-batch, and no launch writes them.
    if (!view.getStep() || !written.contains(memory))
      return WalkResult::advance();
    const Ring &ring = rings.try_emplace(memory, Ring{view.getParts(), *view.getStep()}).first->second;
    bool isAlike = ring.parts == view.getParts() && ring.step == *view.getStep();
    return isAlike && !view.getGroup() && view.getSource() == memory ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !walk.wasInterrupted();
}

/// Records a use of a ring. Returns false if the loop is then not uniform: only launches before the loop may use a
/// fixed slot, and launches after it may use the whole ring.
bool LoopReach::findUse(LaunchOp launch, Value value, bool isWritten) {
  auto ring = rings.find(getMemory(value));
  if (isInLoop(launch))
    usedInLoop.insert(getMemory(value));
  if (ring == rings.end() || isBefore(launch))
    return true;
  auto view = value.getDefiningOp<ViewOp>();
  while (view && view.getSource().getDefiningOp<ViewOp>())
    view = view.getSource().getDefiningOp<ViewOp>();
  if (!view || !view.getStep())
    return !view && !isInLoop(launch);
  ring->second.used.push_back(view.getPart(/*rank=*/0));
  if (isWritten && isInLoop(launch))
    ring->second.written.push_back(view.getPart(/*rank=*/0));
  return true;
}

/// Whether a ring shares bytes with another memory that the loop uses.
bool LoopReach::sharesBytes() const {
  struct Bytes {
    Space space;
    int64_t begin, end;
    bool isRing;
  };
  SmallVector<Bytes> all;
  for (Value memory : usedInLoop)
    if (auto buffer = memory.getDefiningOp<BufferOp>(); buffer && buffer.getOffset())
      all.push_back(
          {buffer.getSpace(), *buffer.getOffset(), *buffer.getOffset() + getByteSize(memory), rings.contains(memory)});
  llvm::sort(all,
             [](const Bytes &a, const Bytes &b) { return std::pair(a.space, a.begin) < std::pair(b.space, b.begin); });
  // Bytes that begin earlier end here at the latest.
  int64_t endOfRings = 0, endOfOthers = 0;
  std::optional<Space> space;
  for (const Bytes &one : all) {
    if (space != one.space)
      endOfRings = endOfOthers = 0;
    space = one.space;
    if (one.begin < endOfRings || (one.isRing && one.begin < endOfOthers))
      return true;
    int64_t &end = one.isRing ? endOfRings : endOfOthers;
    end = std::max(end, one.end);
  }
  return false;
}

/// Expects one record in the loop for each range of events, and later references only from ops that take their turns.
bool LoopReach::findTurns() {
  auto getTurns = [](auto op) { return Turns{op.getEvent(), op.getTurns().value_or(1)}; };
  bool areUniform = true;
  for (auto record : loop.getBody().getOps<RecordOp>()) {
    Turns own = getTurns(record);
    for (const Turns &other : turns)
      areUniform &= !other.overlaps(own);
    turns.push_back(own);
  }
  auto check = [&](auto op) {
    if (!isBefore(op))
      for (Turns its = getTurns(op); const Turns &own : turns)
        areUniform &= !own.overlaps(its) || own == its;
  };
  program.walk([&](WaitOp wait) { check(wait); });
  program.walk([&](RecordOp record) { check(record); });
  return areUniform;
}

/// The most iterations until a slot is written, for the first time or again. That write orders uses that lie further
/// apart. None if the loop does not write all slots that are used: each of these keeps its value from before.
std::optional<int64_t> LoopReach::getReach(const Ring &ring) const {
  int64_t common = std::gcd(ring.parts, ring.step), period = ring.parts / common, reach = 1;
  for (int64_t slot = 0; slot < ring.parts; ++slot) {
    auto isOfSlot = [&](int64_t first) { return (first - slot) % common == 0; };
    if (llvm::none_of(ring.used, isOfSlot))
      continue;
    auto isWritten = [&](int64_t distance) {
      return llvm::any_of(ring.written,
                          [&](int64_t first) { return (first + distance * ring.step - slot) % ring.parts == 0; });
    };
    int64_t distance = 1;
    while (distance <= period && !isWritten(distance))
      ++distance;
    if (distance > period)
      return std::nullopt;
    reach = std::max(reach, distance);
  }
  return reach;
}

std::optional<int64_t> LoopReach::find() {
  bool areUniform = findRings();
  program.walk([&](LaunchOp launch) {
    for (Value input : launch.getInputs())
      areUniform = areUniform && findUse(launch, input, /*isWritten=*/false);
    for (Value output : launch.getOutputs())
      areUniform = areUniform && findUse(launch, output, /*isWritten=*/true);
  });
  if (!areUniform || !findTurns() || sharesBytes())
    return std::nullopt;
  int64_t reach = 1;
  for (const auto &[memory, ring] : rings) {
    std::optional<int64_t> its = getReach(ring);
    if (!its)
      return std::nullopt;
    reach = std::max(reach, *its);
  }
  for (const Turns &one : turns)
    reach = std::max(reach, one.count);
  return reach;
}

int64_t mlir::plan::getRepresentative(LoopOp loop) {
  std::optional<int64_t> reach = LoopReach(loop).find();
  return reach ? std::min(loop.getCount(), *reach + 2) : loop.getCount();
}
