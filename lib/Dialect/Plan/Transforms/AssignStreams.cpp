//===- AssignStreams.cpp - plan-assign-streams ----------------------------===//
//
// Puts launches on streams, then turns the dependences that cross streams into records and waits. One walk in program
// order with vector clocks makes a wait only if the stream does not know yet that the other launch is done.
//
//===----------------------------------------------------------------------===//
#include "moe/Dialect/Plan/Transforms/AssignStreams.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include "moe/Dialect/Moe/IR/MoeLabels.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/Transforms/Dependences.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANASSIGNSTREAMS
#include "moe/Dialect/Plan/Transforms/Passes.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

static std::string chooseStream(LaunchOp launch, int64_t nodeRanks, int64_t world) {
  if (std::optional<int64_t> peer = launch.getPeer())
    return ((launch.getOutputs().empty() ? kSendStreamPrefix : kReceiveStreamPrefix) + Twine(*peer)).str();
  if (launch.getCollective())
    return (launch.getGroup()->isInsideNode(nodeRanks, world) ? kIntraStream : kInterStream).str();
  return (launch.getOpCost().resource == moe::Resource::HostLink ? kCopyStream : kComputeStream).str();
}

namespace {
/// Finds launches that accumulate results of exchanges over micro-batches, if no other launch of the same micro-batch
/// reads the sums. They run on the exchanges' stream, so that no computation waits for them.
class SumsOfExchanges {
public:
  explicit SumsOfExchanges(func::FuncOp program);

  /// Stream of the exchanges, if `launch` is such a launch. Expects all launches in their order.
  std::optional<StringRef> getStream(LaunchOp launch);
  /// Records the stream of `launch`.
  void note(LaunchOp launch);

private:
  bool isReadNow(LaunchOp launch) const;

  llvm::DenseMap<Value, SmallVector<LaunchOp>> readers; ///< by memory
  llvm::DenseMap<Value, StringRef> writtenOn;           ///< by memory: stream of its last writer
};
} // namespace

SumsOfExchanges::SumsOfExchanges(func::FuncOp program) {
  program.walk([&](LaunchOp launch) {
    for (Value input : launch.getInputs())
      readers[getMemory(input)].push_back(launch);
  });
}

/// Whether another launch of its micro-batch reads what `launch` writes.
bool SumsOfExchanges::isReadNow(LaunchOp launch) const {
  Attribute own = launch->getAttr(moe::kMicroBatchAttrName);
  return llvm::any_of(launch.getOutputs(), [&](Value output) {
    auto all = readers.find(getMemory(output));
    return all != readers.end() && llvm::any_of(all->second, [&](LaunchOp reader) {
             return reader != launch && reader->getAttr(moe::kMicroBatchAttrName) == own;
           });
  });
}

std::optional<StringRef> SumsOfExchanges::getStream(LaunchOp launch) {
  if (launch.getCollective() || launch.getPeer() || launch.getInputs().size() < 2 ||
      !launch->hasAttr(moe::kMicroBatchAttrName))
    return std::nullopt;
  StringRef stream = writtenOn.lookup(getMemory(launch.getInputs().front()));
  bool isOfExchanges = stream == kIntraStream || stream == kInterStream;
  for (Value input : launch.getInputs())
    isOfExchanges &= writtenOn.lookup(getMemory(input)) == stream;
  if (!isOfExchanges || isReadNow(launch))
    return std::nullopt;
  return stream;
}

void SumsOfExchanges::note(LaunchOp launch) {
  for (Value output : launch.getOutputs())
    writtenOn[getMemory(output)] = launch.getStreamOrDefault();
}

void mlir::plan::assignStreams(func::FuncOp program) {
  int64_t nodeRanks = moe::getClusterRates(program).nodeRanks;
  int64_t world = getWorld(program);
  SumsOfExchanges sums(program);
  program.walk([&](LaunchOp launch) {
    if (!launch.getStream()) {
      std::optional<StringRef> ofSum = sums.getStream(launch);
      launch.setStream(ofSum ? ofSum->str() : chooseStream(launch, nodeRanks, world));
    }
    sums.note(launch);
  });
}

//===----------------------------------------------------------------------===//
// Waits
//===----------------------------------------------------------------------===//

SmallVector<unsigned, 2> WaitPlanner::issue(unsigned launch, unsigned stream, ArrayRef<unsigned> before) {
  // Begins with the latest launch: it may imply earlier ones, but never the reverse.
  SmallVector<unsigned, 8> others(before);
  llvm::sort(others, [&](unsigned a, unsigned b) { return issued[a].number > issued[b].number; });
  SmallVector<unsigned, 2> waits;
  for (unsigned other : others) {
    const Launch &it = issued[other];
    if (clocks.get(stream)[it.stream] >= it.position)
      continue;
    clocks.join(it.done, stream);
    waits.push_back(other);
  }
  int32_t position = clocks.launch(stream);
  issued[launch] = {stream, position, next++, clocks.get(stream)};
  return waits;
}

namespace {
/// Limits the exchanges that are under way and that no launch would hold back or wait for. Their memory could not be
/// shared with values that come long before or after. These are transfers between stages, gathers and reduce_scatters.
/// A gather of arguments could begin with the step. If the arguments are gathered again later, so that the result need
/// not stay, it waits until computation has reached the gathers of the block before its own. The result of a
/// reduce_scatter may not be needed until the end, so computation waits for those of the last block but one.
class FlowControl {
public:
  FlowControl(func::FuncOp program, unsigned streams);

  /// Launches after which the next one, number `number`, has to come.
  SmallVector<unsigned> issue(LaunchOp launch, unsigned number, unsigned stream);

private:
  /// Exchanges of one stream.
  struct Channel {
    /// Numbers of the latest sends, or of the computation before the latest receives.
    SmallVector<unsigned> latest;
    /// A send, or a reduce_scatter, for which computation has yet to wait.
    std::optional<unsigned> sent;
    /// The last reduce_scatter, and the first one of its block.
    std::optional<unsigned> reduced;
    LaunchOp firstReduced;
    /// Computation before the gathers of the last two blocks, and the first gather of the last one.
    std::optional<unsigned> gathered, gatheredBefore;
    LaunchOp firstGathered;
  };

  /// Oldest launch of `channel`, if `number` exceeds the limit.
  static std::optional<unsigned> push(Channel &channel, unsigned number);
  bool gathersAgain(LaunchOp launch) const;
  void issueCollective(LaunchOp launch, unsigned number, Channel &channel, SmallVectorImpl<unsigned> &before);

  std::vector<Channel> channels;
  std::optional<unsigned> computed;        ///< last launch of computation
  llvm::DenseMap<Value, unsigned> gathers; ///< by argument: number of its gathers
};
} // namespace

std::optional<unsigned> FlowControl::push(Channel &channel, unsigned number) {
  channel.latest.push_back(number);
  if (channel.latest.size() <= kMostTransfers)
    return std::nullopt;
  unsigned oldest = channel.latest.front();
  channel.latest.erase(channel.latest.begin());
  return oldest;
}

static bool isGatherOfArguments(LaunchOp launch) {
  return launch.getCollective() && launch.getOpCost().collective == moe::Collective::AllGather &&
         llvm::all_of(launch.getInputs(), [](Value input) { return isa<BlockArgument>(getMemory(input)); });
}

FlowControl::FlowControl(func::FuncOp program, unsigned streams) : channels(streams) {
  program.walk([&](LaunchOp launch) {
    if (isGatherOfArguments(launch))
      for (Value input : launch.getInputs())
        gathers[getMemory(input)] += launch->getParentOfType<LoopOp>() ? 2 : 1;
  });
}

bool FlowControl::gathersAgain(LaunchOp launch) const {
  return isGatherOfArguments(launch) &&
         llvm::any_of(launch.getInputs(), [&](Value input) { return gathers.lookup(getMemory(input)) > 1; });
}

/// Whether a launch is of the block of layers, direction and micro-batch that `first` began. The part of a label before
/// its first dot names the block.
static bool isOfSameBlock(LaunchOp first, LaunchOp launch) {
  if (!first || first == launch || !first.getLabel() || !launch.getLabel())
    return false;
  auto getBlock = [](LaunchOp op) {
    StringRef label = *op.getLabel();
    return std::tuple(label.split('.').first, label.ends_with(moe::kBackwardSuffix),
                      op->getAttr(moe::kMicroBatchAttrName));
  };
  return getBlock(first) == getBlock(launch);
}

void FlowControl::issueCollective(LaunchOp launch, unsigned number, Channel &channel,
                                  SmallVectorImpl<unsigned> &before) {
  if (launch.getOpCost().collective == moe::Collective::ReduceScatter) {
    if (!isOfSameBlock(channel.firstReduced, launch)) {
      channel.sent = channel.reduced;
      channel.firstReduced = launch;
    }
    channel.reduced = number;
  }
  if (!computed || !gathersAgain(launch))
    return;
  if (!isOfSameBlock(channel.firstGathered, launch)) {
    channel.firstGathered = launch;
    if (channel.gathered != computed)
      channel.gatheredBefore = std::exchange(channel.gathered, computed);
  }
  if (channel.gatheredBefore)
    before.push_back(*channel.gatheredBefore);
}

SmallVector<unsigned> FlowControl::issue(LaunchOp launch, unsigned number, unsigned stream) {
  SmallVector<unsigned> before;
  if (!launch.getPeer()) {
    if (launch.getCollective())
      issueCollective(launch, number, channels[stream], before);
    if (launch.getStreamOrDefault() != kComputeStream)
      return before;
    computed = number;
    for (Channel &channel : channels)
      if (std::optional<unsigned> sent = std::exchange(channel.sent, std::nullopt))
        before.push_back(*sent);
  } else if (!launch.getOutputs().empty()) {
    if (std::optional<unsigned> oldest = computed ? push(channels[stream], *computed) : std::nullopt)
      before.push_back(*oldest);
  } else if (std::optional<unsigned> oldest = push(channels[stream], number)) {
    channels[stream].sent = oldest;
  }
  return before;
}

namespace {
/// Inserts the records and waits of one program. All iterations of a loop have the same ones: those that any of them
/// needs.
class Synchronizer {
public:
  Synchronizer(func::FuncOp program, const Dependences &dependences);
  void run();

private:
  /// A launch, and the op of a stream before which the stream waits for its event.
  struct Wait {
    LaunchOp other, op;
    Operation *place;
    /// Number of iterations between the two. After a loop it is the number of iterations from the launch's to the last
    /// one.
    int64_t distance;
  };
  /// An event that launches of a loop record in turn.
  struct Event {
    int64_t first = 0, turns = 1;
  };

  void findWaits();
  void addWait(unsigned number, unsigned other);
  void record(LaunchOp launch, const Event &event);
  void insert(const Wait &wait);

  func::FuncOp program;
  const Dependences &dependences;
  llvm::StringMap<unsigned> numbers;
  WaitPlanner planner;
  llvm::DenseMap<Operation *, int64_t> iterations; ///< by loop: number of iterations that are looked at
  /// Waits by the launch, the op before which its event is waited for, and the stream.
  llvm::MapVector<std::tuple<Operation *, Operation *, unsigned>, Wait> waits;
  llvm::MapVector<Operation *, Event> events;
};
} // namespace

Synchronizer::Synchronizer(func::FuncOp program, const Dependences &dependences)
    : program(program), dependences(dependences),
      planner(dependences.getLaunches().size(), getStreams(program).size()) {
  for (auto [number, stream] : llvm::enumerate(getStreams(program)))
    numbers[stream] = number;
  for (auto loop : program.getOps<LoopOp>())
    iterations[loop] = getRepresentative(loop);
}

void Synchronizer::findWaits() {
  unsigned next = 0;
  FlowControl control(program, numbers.size());
  forEachIssued(
      program, [&](LoopOp loop) { return iterations.lookup(loop); },
      [&](Operation *op, int64_t iteration) {
        if (auto record = dyn_cast<RecordOp>(op)) {
          planner.record(record.getEventAt(iteration), numbers.lookup(record.getStream()));
        } else if (auto wait = dyn_cast<WaitOp>(op)) {
          planner.wait(wait.getEventAt(iteration), numbers.lookup(wait.getStream()));
        } else if (auto launch = dyn_cast<LaunchOp>(op)) {
          unsigned number = next++, stream = numbers.lookup(launch.getStreamOrDefault());
          SmallVector<unsigned> before = control.issue(launch, number, stream);
          llvm::append_range(before, dependences.get(number));
          for (unsigned other : planner.issue(number, stream, before))
            addWait(number, other);
        }
      });
}

void Synchronizer::addWait(unsigned number, unsigned other) {
  LaunchOp op = dependences.getLaunches()[number], otherOp = dependences.getLaunches()[other];
  auto loop = op->getParentOfType<LoopOp>(), otherLoop = otherOp->getParentOfType<LoopOp>();
  Wait wait{otherOp, op, op, 0};
  if (loop && loop == otherLoop)
    wait.distance = dependences.getIteration(number) - dependences.getIteration(other);
  else if (otherLoop)
    wait.distance = iterations.lookup(otherLoop) - 1 - dependences.getIteration(other);
  // Launches before a loop are waited for before the loop.
  if (loop && loop != otherLoop)
    wait.place = loop;
  unsigned stream = numbers.lookup(op.getStreamOrDefault());
  auto [entry, isNew] = waits.insert({{otherOp, wait.place, stream}, wait});
  entry->second.distance = std::min(entry->second.distance, wait.distance);
}

/// Inserts records after the launch. Before a loop, one more record on its stream stands for the iterations that do not
/// exist.
void Synchronizer::record(LaunchOp launch, const Event &event) {
  OpBuilder builder(launch->getContext());
  builder.setInsertionPointAfter(launch);
  IntegerAttr shift, turns;
  if (event.turns > 1) {
    shift = builder.getI64IntegerAttr(0);
    turns = builder.getI64IntegerAttr(event.turns);
  }
  builder.create<RecordOp>(launch.getLoc(), event.first, launch.getStreamOrDefault(), shift, turns);
  if (event.turns > 1)
    builder.setInsertionPoint(launch->getParentOp());
  for (int64_t turn = 1; turn < event.turns; ++turn)
    builder.create<RecordOp>(launch.getLoc(), event.first + turn, launch.getStreamOrDefault());
}

void Synchronizer::insert(const Wait &wait) {
  LaunchOp op = wait.op, other = wait.other;
  const Event &event = events.find(other)->second;
  OpBuilder builder(wait.place);
  IntegerAttr shift, turns;
  if (event.turns > 1) {
    bool isInLoop = op->getParentOp() == other->getParentOp();
    int64_t back = isInLoop ? wait.distance : wait.distance + 1;
    shift = builder.getI64IntegerAttr((event.turns - back % event.turns) % event.turns);
    turns = builder.getI64IntegerAttr(event.turns);
  }
  builder.create<WaitOp>(op.getLoc(), event.first, op.getStreamOrDefault(), shift, turns);
}

void Synchronizer::run() {
  findWaits();
  for (const auto &[key, wait] : waits) {
    LaunchOp op = wait.op, other = wait.other;
    Event &event = events[other];
    if (isa<LoopOp>(other->getParentOp()) && op->getParentOp() == other->getParentOp())
      event.turns = std::max(event.turns, wait.distance + 1);
  }
  int64_t nextEvent = getNumEvents(program);
  for (auto &[launch, event] : events) {
    event.first = nextEvent;
    nextEvent += event.turns;
    record(cast<LaunchOp>(launch), event);
  }
  for (const auto &[key, wait] : waits)
    insert(wait);
}

namespace {
struct PlanAssignStreams : public plan::impl::PlanAssignStreamsBase<PlanAssignStreams> {
  void runOnOperation() override {
    func::FuncOp program = getOperation();
    // Streams of a subprogram are assigned before those of the programs that run it.
    bool isAssigned = isSubprogram(program) && program->hasAttr(kArenasAttrName);
    if (isAssigned || (!isSubprogram(program) && !isRankProgram(program)))
      return;
    if (failed(verifyRankProgram(program)))
      return signalPassFailure();
    WalkResult walk = program.walk([](BufferOp buffer) -> WalkResult {
      if (!buffer.getOffset())
        return WalkResult::advance();
      return buffer.emitOpError(
          "expected no offset before streams are assigned: their order decides which buffers share memory");
    });
    if (walk.wasInterrupted())
      return signalPassFailure();
    Dependences dependences(program);
    if (failed(dependences.verifyProgramOrder()))
      return signalPassFailure();
    assignStreams(program);
    Synchronizer(program, dependences).run();
  }
};
} // namespace
