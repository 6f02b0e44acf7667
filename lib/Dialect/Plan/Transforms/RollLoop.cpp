//===- RollLoop.cpp - plan-roll-loop --------------------------------------===//
//
// In the steady state of a step, the launches of some micro-batches equal those of the micro-batches before them. Two
// such periods define an iteration of a loop. A value that lives within one iteration becomes a buffer of the loop's
// body. A value that lives from one iteration to another gets a slot of a ring.
//
//===----------------------------------------------------------------------===//
#include "moe/Dialect/Plan/Transforms/RollLoop.h"

#include "RingSlots.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/AssignStreams.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace mlir::plan {
#define GEN_PASS_DEF_PLANROLLLOOP
#include "moe/Dialect/Plan/Transforms/Passes.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

/// A launch by its kind and micro-batch.
struct Step {
  LaunchOp launch;
  /// Number that is equal for launches that do the same with operands of the same types.
  unsigned kind;
  int64_t microBatch; ///< -1 if it has none
};

/// Two or more equal periods of launches, one after another.
struct Periods {
  size_t begin = 0, length = 0, count = 0;
  /// Number of steps that are equal to those of a period later.
  size_t run = 0;
  /// Number of micro-batches that a period is ahead of the one before.
  int64_t microBatches = 0;

  size_t getEnd() const { return begin + length * count; }
};

/// Buffers that launches of one kind write for different micro-batches.
struct Family {
  std::map<int64_t, Value> members; ///< by micro-batch
  /// Number of the ring that replaces the members, or none if each is a buffer of its own.
  std::optional<size_t> ring;
};

/// Values of one type that live from one iteration to another. They share slots, which take turns.
struct Ring {
  Value buffer;
  RingSlots slots;
  /// Number of values in a slot, more than one if values have few bytes. Slots begin at aligned places.
  int64_t perSlot = 1;
  /// Numbers of the values, by family and by micro-batch of an iteration.
  std::map<std::pair<size_t, int64_t>, unsigned> values;
  /// Values that the loop does not use, as of iteration 0, by family and micro-batch.
  std::map<std::pair<size_t, int64_t>, unsigned> outside;
};

/// Place of a value among the buffers of a family.
struct Member {
  size_t family;
  int64_t microBatch;
};

/// Alignment of slots where it costs little, and the least alignment, which vector loads need.
constexpr int64_t kAlignment = 256, kLeastAlignment = 16, kMostPadded = 64 << 10;

class LoopRoller {
public:
  explicit LoopRoller(func::FuncOp program) : program(program) {}

  LogicalResult run();

private:
  enum class Part { Before, Inside, Behind };

  InFlightDiagnostic fail() { return program.emitError("expected a step whose micro-batches repeat: "); }
  void findSteps();
  void findUnderWay();
  Periods findPeriods(int64_t shift, size_t length) const;
  LogicalResult findPeriods();
  void chooseBegin();

  void findFamilies();
  /// Returns the first launch whose operands differ from those of the period before, or null.
  LaunchOp matchPeriods();
  LogicalResult match(Value first, Value second);
  LogicalResult matchBuffers(Value first, Value second);

  Part getPart(size_t step) const;
  LogicalResult checkUses();
  bool isLocal(const Family &family) const;
  std::pair<int64_t, int64_t> divide(int64_t microBatch) const;
  void chooseSlots(Ring &ring, ArrayRef<size_t> ofRing);
  LogicalResult makeRing(MemRefType type, ArrayRef<size_t> ofRing);
  LogicalResult makeRings();

  Value makeMoving(OpBuilder &builder, Location loc, Type type, Value source, int64_t place, int64_t step,
                   int64_t parts, Part part);
  Value getSlot(OpBuilder &builder, const Member &member, Part part);
  Value rewrite(OpBuilder &builder, Value value, bool isOfMicroBatch, Part part);
  Value makeValue(OpBuilder &builder, Value value, bool isOfMicroBatch, Part part);
  void rewrite(const Step &step, Part part);
  void makeLoop();

  func::FuncOp program;
  std::vector<Step> steps;
  /// Steps, by step, between which it may be under way.
  std::vector<std::pair<size_t, size_t>> underWay;
  int64_t written = 0, count = 0; ///< micro-batches
  Periods periods;
  std::vector<Family> families;
  std::vector<Ring> rings;
  llvm::DenseMap<Value, Member> memberOf;
  /// Buffers that all periods share, and those that differ in each period.
  llvm::DenseSet<Value> staying, moving;
  /// Steps that use a buffer, rising.
  llvm::MapVector<Value, SmallVector<size_t>> users;
  /// Arguments with a part for each micro-batch, and their numbers of parts.
  llvm::DenseSet<std::pair<Value, int64_t>> inputs;
  LoopOp loop;
  /// Replacements of values in a part, for launches of a micro-batch and for others.
  llvm::DenseMap<Value, Value> rewritten[3][2];
};

} // namespace

//===----------------------------------------------------------------------===//
// Periods
//===----------------------------------------------------------------------===//

void LoopRoller::findSteps() {
  llvm::DenseMap<std::pair<Attribute, Type>, unsigned> kinds;
  Builder builder(program.getContext());
  for (auto launch : program.getOps<LaunchOp>()) {
    NamedAttrList attributes(launch->getAttrs());
    auto place = dyn_cast_or_null<moe::ChunkAttr>(attributes.erase(moe::kMicroBatchAttrName));
    if (place) {
      count = place.getChunks();
      written = std::max(written, place.getIndex() + 1);
    }
    Type types = builder.getFunctionType(launch.getInputs().getTypes(), launch.getOutputs().getTypes());
    std::pair<Attribute, Type> key{attributes.getDictionary(program.getContext()), types};
    unsigned kind = kinds.try_emplace(key, kinds.size()).first->second;
    for (Value value : launch->getOperands())
      if (Value memory = getMemory(value); memory.getDefiningOp())
        if (SmallVector<size_t> &known = users[memory]; known.empty() || known.back() != steps.size())
          known.push_back(steps.size());
    steps.push_back({launch, kind, place ? place.getIndex() : -1});
  }
  findUnderWay();
}

/// Finds when transfers are under way. A receive may begin as early as the second one before it on its channel, and a
/// send end as late as the second one after it. If their memory were taken until the last moment, they would wait for
/// it.
void LoopRoller::findUnderWay() {
  std::map<std::pair<int64_t, bool>, SmallVector<size_t>> channels;
  for (auto [number, step] : llvm::enumerate(steps)) {
    underWay.push_back({number, number});
    if (std::optional<int64_t> peer = step.launch.getPeer())
      channels[{*peer, step.launch.getOutputs().empty()}].push_back(number);
  }
  for (const auto &[channel, transfers] : channels)
    for (size_t i = 0; i < transfers.size(); ++i) {
      if (channel.second)
        underWay[transfers[i]].second = transfers[std::min(i + kMostTransfers, transfers.size() - 1)];
      else
        underWay[transfers[i]].first = transfers[i - std::min(i, kMostTransfers)];
    }
}

/// Longest sequence of steps that equal those of `length` steps later, but for `shift` micro-batches.
Periods LoopRoller::findPeriods(int64_t shift, size_t length) const {
  Periods longest;
  size_t run = 0, most = 0;
  for (size_t i = 0; i + length < steps.size(); ++i) {
    const Step &first = steps[i], &second = steps[i + length];
    bool isEqual = first.microBatch >= 0 && first.kind == second.kind && first.microBatch + shift == second.microBatch;
    run = isEqual ? run + 1 : 0;
    if (run <= most)
      continue;
    most = run;
    longest = {i + 1 - run, length, run / length + 1, run, shift};
  }
  return longest;
}

/// Finds the shortest periods.
LogicalResult LoopRoller::findPeriods() {
  std::vector<size_t> lengths(written, 0);
  for (const Step &step : steps)
    if (step.microBatch >= 0)
      ++lengths[step.microBatch];
  // The first and the last micro-batch may differ from the others.
  size_t length = written > 2 ? lengths[written / 2] : 0;
  for (int64_t shift = 1; length > 0 && shift <= written / 2; ++shift) {
    if ((count - written) % shift != 0)
      continue;
    periods = findPeriods(shift, shift * length);
    if (periods.count < 2)
      continue;
    chooseBegin();
    return success();
  }
  return fail() << "of " << written << " micro-batches, no launches are those of the micro-batches before them";
}

/// Lets the loop begin at the step of a period at which the least memory lives from one iteration to the next.
void LoopRoller::chooseBegin() {
  std::vector<int64_t> alive(steps.size() + 1, 0); // differences first
  for (const auto &[memory, uses] : users) {
    int64_t bytes = getByteSize(memory);
    alive[uses.front() + 1] += bytes;
    alive[uses.back() + 1] -= bytes;
  }
  std::partial_sum(alive.begin(), alive.end(), alive.begin());
  auto begin = alive.begin() + static_cast<ptrdiff_t>(periods.begin);
  size_t choices = std::min(periods.length - 1, periods.run - periods.length) + 1;
  size_t ahead = std::min_element(begin, begin + static_cast<ptrdiff_t>(choices)) - begin;
  periods.begin += ahead;
  periods.run -= ahead;
  periods.count = periods.run / periods.length + 1;
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

void LoopRoller::findFamilies() {
  // The number of launches before it tells a launch from others of its kind and micro-batch.
  std::map<std::pair<unsigned, int64_t>, unsigned> seen;
  std::map<std::tuple<unsigned, unsigned, unsigned>, size_t> known;
  for (const Step &step : steps) {
    if (step.microBatch < 0)
      continue;
    LaunchOp launch = step.launch;
    unsigned number = seen[{step.kind, step.microBatch}]++;
    for (auto [index, output] : llvm::enumerate(launch.getOutputs())) {
      // The writer of the first piece of a bucket represents all writers.
      Value buffer = getMemory(output);
      if (!buffer.getDefiningOp<BufferOp>() || memberOf.contains(buffer))
        continue;
      auto [entry, isNew] = known.try_emplace({step.kind, number, index}, families.size());
      if (isNew)
        families.emplace_back();
      families[entry->second].members[step.microBatch] = buffer;
      memberOf[buffer] = {entry->second, step.microBatch};
    }
  }
}

LogicalResult LoopRoller::matchBuffers(Value first, Value second) {
  if (staying.contains(first) || staying.contains(second) || first.getType() != second.getType())
    return failure();
  bool isNew = moving.insert(first).second;
  auto its = memberOf.find(second);
  if (its == memberOf.end())
    return failure();
  Member expected{its->second.family, its->second.microBatch - periods.microBatches};
  auto own = memberOf.find(first);
  if (own != memberOf.end() && own->second.family == expected.family)
    return success(own->second.microBatch == expected.microBatch);
  // The first micro-batch may make its value in another way, such as a gradient to which no other is added. It cannot
  // also be a value that others make in that way.
  if (!isNew || !families[expected.family].members.try_emplace(expected.microBatch, first).second)
    return failure();
  if (own != memberOf.end())
    families[own->second.family].members.erase(own->second.microBatch);
  memberOf[first] = expected;
  return success();
}

/// Whether `second` has the role in a period that `first` has in the one before.
LogicalResult LoopRoller::match(Value first, Value second) {
  if (first == second) {
    // A value to which each micro-batch adds is the same for all of them.
    Value memory = getMemory(first);
    if (auto member = memberOf.find(memory); member != memberOf.end()) {
      families[member->second.family].members.erase(member->second.microBatch);
      memberOf.erase(member);
    }
    staying.insert(memory);
    return success(!moving.contains(memory));
  }
  auto view = first.getDefiningOp<ViewOp>(), other = second.getDefiningOp<ViewOp>();
  if (!view && !other)
    return matchBuffers(first, second);
  if (!view || !other || view.getParts() != other.getParts() || view.getGroup() != other.getGroup() ||
      view.getAt() != other.getAt())
    return failure();
  if (view.getShift() == other.getShift())
    return match(view.getSource(), other.getSource());
  if (view.getSource() != other.getSource() || !isa<BlockArgument>(view.getSource()) || view.getGroup() ||
      other.getShift() - view.getShift() != periods.microBatches)
    return failure();
  inputs.insert({view.getSource(), view.getParts()});
  return success();
}

/// Matches the operands of each period with those of the one before.
LaunchOp LoopRoller::matchPeriods() {
  families.clear();
  memberOf.clear();
  staying.clear();
  moving.clear();
  inputs.clear();
  findFamilies();
  for (size_t i = periods.begin; i + periods.length < periods.getEnd(); ++i) {
    LaunchOp first = steps[i].launch, second = steps[i + periods.length].launch;
    for (auto [own, other] : llvm::zip_equal(first->getOperands(), second->getOperands()))
      if (failed(match(own, other)))
        return first;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

LoopRoller::Part LoopRoller::getPart(size_t step) const {
  return step < periods.begin ? Part::Before : step < periods.getEnd() ? Part::Inside : Part::Behind;
}

/// Checks uses after the loop. Launches there are those of later micro-batches than they state, so the values that they
/// use have to be, too.
LogicalResult LoopRoller::checkUses() {
  for (const auto &[buffer, uses] : users) {
    auto member = memberOf.find(buffer);
    if (member == memberOf.end() || getPart(uses.front()) == Part::Behind)
      continue;
    bool isInRing = families[member->second.family].ring.has_value(), isLast = member->second.microBatch == written - 1;
    for (size_t number : uses) {
      Step step = steps[number];
      bool isOfMicroBatch = step.microBatch >= 0;
      if (getPart(number) == Part::Behind && isInRing != isOfMicroBatch && !(isInRing && isLast))
        return fail() << step.launch.describe() << " uses a value that an earlier micro-batch leaves";
    }
  }
  return success();
}

/// Whether each period uses its own members alone, no other launch uses these, and they are in use one after another.
/// If several are in use at once, they and others of their type share slots better than buffers of a body could.
bool LoopRoller::isLocal(const Family &family) const {
  size_t lastUse = 0;
  return llvm::all_of(family.members, [&](const auto &one) {
    ArrayRef<size_t> uses = users.find(one.second)->second;
    if (getPart(uses.front()) != Part::Inside && getPart(uses.back()) != Part::Inside)
      return getPart(uses.front()) == getPart(uses.back());
    auto getPeriod = [&](size_t step) { return (step - periods.begin) / periods.length; };
    bool isAlone = uses.front() >= std::exchange(lastUse, uses.back());
    return isAlone && getPart(uses.front()) == Part::Inside && getPart(uses.back()) == Part::Inside &&
           getPeriod(uses.front()) == getPeriod(uses.back());
  });
}

/// Whether `launch` may write its first output over `input`.
static bool isInPlace(LaunchOp launch, Value input, Value output) {
  if (launch.getOutputs().empty() || launch.getOutputs().front() != output)
    return false;
  return llvm::all_of(llvm::enumerate(launch.getInputs()), [&](auto one) {
    return getMemory(one.value()) != input || (one.value() == input && launch.isInPlace(one.index()));
  });
}

/// Iteration of a micro-batch, and its number in that iteration.
std::pair<int64_t, int64_t> LoopRoller::divide(int64_t microBatch) const {
  return {microBatch / periods.microBatches, microBatch % periods.microBatches};
}

/// Chooses slots by the uses in the loop. Members that only launches before or after it use get any free slot.
void LoopRoller::chooseSlots(Ring &ring, ArrayRef<size_t> ofRing) {
  std::vector<SlotUse> uses;
  std::vector<Value> buffers;
  std::vector<Member> outside;
  auto add = [&](Value buffer, unsigned value, int64_t iteration) {
    ArrayRef<size_t> launches = users.find(buffer)->second;
    SlotUse use{value, iteration, launches.front(), launches.back()};
    for (size_t launch : launches) {
      use.first = std::min(use.first, underWay[launch].first);
      use.last = std::max(use.last, underWay[launch].second);
    }
    uses.push_back(use);
    buffers.push_back(buffer);
  };
  auto mayTakeOver = [&](size_t a, size_t b) { return isInPlace(steps[uses[b].first].launch, buffers[a], buffers[b]); };
  for (size_t family : ofRing)
    for (auto [microBatch, buffer] : families[family].members) {
      ArrayRef<size_t> launches = users.find(buffer)->second;
      auto [iteration, ofIteration] = divide(microBatch);
      if (getPart(launches.front()) != Part::Inside && getPart(launches.front()) == getPart(launches.back()))
        outside.push_back({family, microBatch});
      else
        add(buffer, ring.values.try_emplace({family, ofIteration}, ring.values.size()).first->second, iteration);
    }
  ring.slots = plan::chooseSlots(ring.values.size(), uses, {periods.begin, periods.length}, mayTakeOver);
  for (auto [family, microBatch] : outside) {
    Value buffer = families[family].members[microBatch];
    auto value = static_cast<unsigned>(ring.slots.first.size());
    add(buffer, value, /*iteration=*/0);
    if (std::optional<int64_t> slot = findFreeSlot(ring.slots, uses, mayTakeOver)) {
      ring.slots.first.push_back(*slot);
      ring.outside[{family, microBatch}] = value;
      continue;
    }
    uses.pop_back();
    buffers.pop_back();
    families[family].members.erase(microBatch);
    memberOf.erase(buffer);
  }
}

static MemRefType withShape(MemRefType type, ArrayRef<int64_t> shape) {
  return MemRefType::get(shape, type.getElementType(), MemRefLayoutAttrInterface(), type.getMemorySpace());
}

LogicalResult LoopRoller::makeRing(MemRefType type, ArrayRef<size_t> ofRing) {
  Ring &ring = rings.emplace_back();
  for (size_t family : ofRing)
    families[family].ring = rings.size() - 1;
  chooseSlots(ring, ofRing);
  int64_t depth = ring.slots.depth, bytes = std::max<int64_t>(getByteSize(type), 1);
  auto getPerSlot = [&](int64_t alignment) { return alignment / std::gcd(alignment, bytes); };
  if (depth > 1) {
    ring.perSlot = getPerSlot(kAlignment);
    if (ring.perSlot * bytes > kMostPadded)
      ring.perSlot = getPerSlot(kLeastAlignment);
  }
  if (ring.perSlot > 1 && ring.perSlot * bytes > kMostPadded)
    return fail() << "a value of " << bytes << " bytes has no aligned place in a ring";
  SmallVector<int64_t> shape(type.getShape());
  if (shape.empty() && depth > 1)
    shape.push_back(1);
  if (depth > 1)
    shape[0] *= depth * ring.perSlot;
  auto builder = OpBuilder::atBlockBegin(&program.getBody().front());
  MemRefType ringType = withShape(type, shape);
  if (!isBufferType(ringType))
    return fail() << "a ring of " << depth << " values of type " << type << " is too large";
  ring.buffer = builder.create<BufferOp>(program.getLoc(), ringType, IntegerAttr(), moe::RingAttr());
  return success();
}

LogicalResult LoopRoller::makeRings() {
  std::set<size_t> used;
  for (size_t i = periods.begin; i < periods.begin + periods.length; ++i)
    for (Value value : steps[i].launch->getOperands())
      if (auto member = memberOf.find(getMemory(value)); member != memberOf.end())
        used.insert(member->second.family);
  llvm::MapVector<Type, SmallVector<size_t>> byType;
  for (size_t number : used)
    if (const Family &family = families[number]; !isLocal(family))
      byType[family.members.begin()->second.getType()].push_back(number);
  for (const auto &[type, ofType] : byType)
    if (failed(makeRing(cast<MemRefType>(type), ofType)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

/// Makes a view of part number `place` of a value for launches of an iteration. Inside the loop it moves by `step` with
/// each iteration. After the loop all iterations are counted.
Value LoopRoller::makeMoving(OpBuilder &builder, Location loc, Type type, Value source, int64_t place, int64_t step,
                             int64_t parts, Part part) {
  if (part == Part::Behind)
    place -= static_cast<int64_t>(periods.count) * step;
  place = (place % parts + parts) % parts;
  IntegerAttr moves = part == Part::Before ? IntegerAttr() : builder.getI64IntegerAttr(step);
  return builder.create<ViewOp>(loc, type, source, place, parts, moe::GroupAttr(), moves, /*at=*/IntegerAttr());
}

Value LoopRoller::getSlot(OpBuilder &builder, const Member &member, Part part) {
  const Family &family = families[member.family];
  const Ring &ring = rings[*family.ring];
  if (ring.slots.depth == 1)
    return ring.buffer;
  auto type = cast<MemRefType>(family.members.begin()->second.getType());
  Location loc = ring.buffer.getLoc();
  SmallVector<int64_t> shape(type.getShape());
  if (shape.empty())
    shape.push_back(1);
  shape[0] *= ring.perSlot;
  // Views begin at the first of several values in a slot.
  MemRefType slotType = ring.perSlot > 1 ? withShape(type, shape) : type;
  auto [iteration, ofIteration] = divide(member.microBatch);
  auto outside = ring.outside.find({member.family, member.microBatch});
  int64_t place = outside != ring.outside.end()
                      ? ring.slots.get(outside->second, 0)
                      : ring.slots.get(ring.values.at({member.family, ofIteration}), iteration);
  Value slot = makeMoving(builder, loc, slotType, ring.buffer, place, /*step=*/1, ring.slots.depth, part);
  if (ring.perSlot > 1)
    slot = builder.create<ViewOp>(loc, slot, moe::RankPart{moe::GroupAttr(), 0, ring.perSlot}, type);
  return slot;
}

/// Replacement of `value` for a launch in the loop, before it or after it.
Value LoopRoller::rewrite(OpBuilder &builder, Value value, bool isOfMicroBatch, Part part) {
  llvm::DenseMap<Value, Value> &known = rewritten[static_cast<size_t>(part)][isOfMicroBatch];
  if (auto it = known.find(value); it != known.end())
    return it->second;
  Value made = makeValue(builder, value, isOfMicroBatch, part);
  return known[value] = made;
}

Value LoopRoller::makeValue(OpBuilder &builder, Value value, bool isOfMicroBatch, Part part) {
  if (auto view = value.getDefiningOp<ViewOp>()) {
    if (isOfMicroBatch && !view.getGroup() && inputs.contains({view.getSource(), view.getParts()}))
      return makeMoving(builder, view.getLoc(), view.getType(), view.getSource(), view.getShift(), periods.microBatches,
                        view.getParts(), part);
    Value source = rewrite(builder, view.getSource(), isOfMicroBatch, part);
    if (source == view.getSource())
      return value;
    return builder.create<ViewOp>(view.getLoc(), view.getType(), source, view.getShift(), view.getParts(),
                                  view.getGroup().value_or(moe::GroupAttr()), /*step=*/IntegerAttr(), view.getAtAttr());
  }
  auto member = memberOf.find(value);
  if (member == memberOf.end())
    return value;
  if (families[member->second.family].ring)
    return getSlot(builder, member->second, part);
  // A buffer of the loop's body stands before all its users.
  return part == Part::Inside ? OpBuilder::atBlockBegin(builder.getBlock()).clone(*value.getDefiningOp())->getResult(0)
                              : value;
}

void LoopRoller::rewrite(const Step &step, Part part) {
  OpBuilder builder(step.launch);
  for (OpOperand &operand : step.launch->getOpOperands())
    operand.set(rewrite(builder, operand.get(), step.microBatch >= 0, part));
  if (part == Part::Behind && step.microBatch >= 0)
    step.launch->setAttr(moe::kMicroBatchAttrName,
                         moe::ChunkAttr::get(program.getContext(), step.microBatch + count - written, count));
}

void LoopRoller::makeLoop() {
  OpBuilder builder(steps[periods.begin].launch);
  int64_t left = (count - written) / periods.microBatches;
  loop = builder.create<LoopOp>(program.getLoc(), builder.getI64IntegerAttr(static_cast<int64_t>(periods.count) + left),
                                builder.getI64IntegerAttr(periods.microBatches), /*times=*/Value());
  Block &body = loop.getBody().emplaceBlock();
  // Buffers outside of iterations come before all their users.
  Operation *begin = &program.getBody().front().front();
  SmallVector<Operation *> places;
  for (Operation &op : program.getOps())
    if (isa<BufferOp, ViewOp>(op))
      places.push_back(&op);
  for (Operation *op : places)
    op->moveBefore(begin);
  for (auto [number, step] : llvm::enumerate(steps))
    if (Part part = getPart(number); part != Part::Inside)
      rewrite(step, part);
  for (size_t i = periods.begin; i < periods.getEnd(); ++i) {
    if (i >= periods.begin + periods.length) {
      steps[i].launch->erase();
      continue;
    }
    steps[i].launch->moveBefore(&body, body.end());
    rewrite(steps[i], Part::Inside);
  }
  for (Operation *op : llvm::reverse(places))
    if (op->use_empty())
      op->erase();
}

LogicalResult LoopRoller::run() {
  for (auto buffer : program.getOps<BufferOp>())
    if (buffer.getRing())
      return fail() << "a layer's chunks already take turns in the ring '" << buffer.getRing()->getName() << "'";
  findSteps();
  if (failed(findPeriods()))
    return failure();
  // Values of the first micro-batch may be used differently from those of others: the first sum is its gradient.
  while (LaunchOp other = matchPeriods()) {
    periods.begin += periods.length;
    if (--periods.count < 2)
      return fail() << other.describe() << " does not use what it uses in the micro-batches before";
  }
  if (failed(makeRings()) || failed(checkUses()))
    return failure();
  makeLoop();
  return success();
}

LogicalResult mlir::plan::rollLoop(func::FuncOp program) { return LoopRoller(program).run(); }

namespace {
struct PlanRollLoop : public plan::impl::PlanRollLoopBase<PlanRollLoop> {
  void runOnOperation() override {
    func::FuncOp program = getOperation();
    if (isRankProgram(program) && (failed(verifyRankProgram(program)) || failed(rollLoop(program))))
      signalPassFailure();
  }
};
} // namespace
