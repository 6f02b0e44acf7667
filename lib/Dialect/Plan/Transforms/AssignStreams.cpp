//===- AssignStreams.cpp - plan-assign-streams ----------------------------===//
//
// Puts launches on streams, then turns the dependences that cross streams into records and waits. One walk in program
// order with vector clocks: a wait is made only where the stream does not know yet that the other launch is done.
//
//===----------------------------------------------------------------------===//
#include "moe/Dialect/Plan/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/Transforms/HappensBefore.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANASSIGNSTREAMS
#include "moe/Dialect/Plan/Transforms/Passes.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

bool mlir::plan::isInsideNode(moe::GroupAttr group, int64_t devicesPerNode, int64_t world) {
  int64_t block = group.getSize() * group.getStride();
  return group.getSize() == 1 || (world > 0 && world <= devicesPerNode) || devicesPerNode % block == 0;
}

static int64_t getWorld(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto parallel = op->getAttrOfType<moe::ParallelAttr>(moe::kParallelAttrName))
      return parallel.getWorld();
  return 0;
}

namespace {

/// Inserts the records and waits of one program.
class Synchronizer {
public:
  explicit Synchronizer(func::FuncOp program);
  void run();

private:
  /// The launches that the next user of a value may have to wait for.
  struct Uses {
    std::optional<unsigned> writer;
    /// By stream, the last reader since the writer.
    SmallVector<std::optional<unsigned>, 4> readers;
  };
  struct Launch {
    LaunchOp op;
    unsigned stream;
    int32_t position;
    /// What is done when the launch is.
    Clock done;
    std::optional<int64_t> event;
  };

  void visit(LaunchOp op);
  /// The launches that `op` depends on, the last of each stream.
  SmallVector<unsigned> getDependences(LaunchOp op);
  void noteUses(LaunchOp op, unsigned index, unsigned stream);
  void waitFor(unsigned dependence, LaunchOp op, unsigned stream);
  Uses &usesOf(Value value);

  func::FuncOp program;
  SmallVector<StringRef> streams;
  llvm::StringMap<unsigned> numbers;
  StreamClocks clocks;
  std::vector<Launch> launches;
  llvm::DenseMap<Value, Uses> uses;
  int64_t nextEvent = 0;
};

} // namespace

Synchronizer::Synchronizer(func::FuncOp program)
    : program(program), streams(getStreams(program)), clocks(streams.size()) {
  for (auto [number, stream] : llvm::enumerate(streams))
    numbers[stream] = number;
  for (auto record : program.getOps<RecordOp>())
    nextEvent = std::max<int64_t>(nextEvent, record.getEvent() + 1);
}

void Synchronizer::run() {
  for (Operation &op : llvm::make_early_inc_range(program.getOps())) {
    if (auto record = dyn_cast<RecordOp>(op))
      clocks.record(record.getEvent(), numbers.lookup(record.getStream()));
    else if (auto wait = dyn_cast<WaitOp>(op))
      clocks.wait(wait.getEvent(), numbers.lookup(wait.getStream()));
    else if (auto launch = dyn_cast<LaunchOp>(op))
      visit(launch);
  }
}

void Synchronizer::visit(LaunchOp op) {
  unsigned stream = numbers.lookup(op.getStreamOrDefault());
  // From the latest on: a later launch may imply an earlier one, never the other way round.
  for (unsigned dependence : getDependences(op))
    if (const Launch &other = launches[dependence]; clocks.get(stream)[other.stream] < other.position)
      waitFor(dependence, op, stream);
  int32_t position = clocks.launch(stream);
  unsigned index = launches.size();
  launches.push_back({op, stream, position, clocks.get(stream), std::nullopt});
  noteUses(op, index, stream);
}

/// Parts of one memory count as all of it: which bytes they are depends on the rank.
Synchronizer::Uses &Synchronizer::usesOf(Value value) {
  Uses &entry = uses[getMemory(value)];
  entry.readers.resize(streams.size());
  return entry;
}

SmallVector<unsigned> Synchronizer::getDependences(LaunchOp op) {
  SmallVector<std::optional<unsigned>, 4> last(streams.size());
  auto add = [&](std::optional<unsigned> index) {
    if (index)
      last[launches[*index].stream] = std::max(last[launches[*index].stream], index);
  };
  for (Value input : op.getInputs())
    add(usesOf(input).writer);
  for (Value output : op.getOutputs()) {
    add(usesOf(output).writer);
    llvm::for_each(usesOf(output).readers, add);
  }
  SmallVector<unsigned> dependences;
  for (std::optional<unsigned> index : last)
    if (index)
      dependences.push_back(*index);
  llvm::sort(dependences, std::greater<>());
  return dependences;
}

void Synchronizer::noteUses(LaunchOp op, unsigned index, unsigned stream) {
  for (Value input : op.getInputs())
    usesOf(input).readers[stream] = index;
  for (Value output : op.getOutputs()) {
    Uses &entry = usesOf(output);
    entry.writer = index;
    entry.readers.assign(streams.size(), std::nullopt);
  }
}

void Synchronizer::waitFor(unsigned dependence, LaunchOp op, unsigned stream) {
  Launch &other = launches[dependence];
  OpBuilder builder(op);
  if (!other.event) {
    other.event = nextEvent++;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(other.op);
    builder.create<RecordOp>(other.op.getLoc(), *other.event, streams[other.stream]);
  }
  builder.create<WaitOp>(op.getLoc(), *other.event, streams[stream]);
  clocks.join(other.done, stream);
}

namespace {
struct PlanAssignStreams : public plan::impl::PlanAssignStreamsBase<PlanAssignStreams> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp program = getOperation();
    if (!isRankProgram(program))
      return;
    if (devicesPerNode < 1) {
      program.emitError() << "expected devices-per-node to be positive but got " << devicesPerNode.getValue();
      return signalPassFailure();
    }
    if (failed(verifyRankProgram(program)))
      return signalPassFailure();
    for (auto buffer : program.getOps<BufferOp>())
      if (buffer.getOffset()) {
        buffer.emitOpError("expected no offset before streams are assigned: bytes are shared by the streams' order");
        return signalPassFailure();
      }
    int64_t world = getWorld(program);
    for (auto launch : program.getOps<LaunchOp>())
      if (!launch.getStream())
        launch.setStream(chooseStream(launch, world));
    Synchronizer(program).run();
  }

  StringRef chooseStream(LaunchOp launch, int64_t world) {
    if (!launch.getCollective())
      return kComputeStream;
    return isInsideNode(*launch.getGroup(), devicesPerNode, world) ? kIntraStream : kInterStream;
  }
};
} // namespace
