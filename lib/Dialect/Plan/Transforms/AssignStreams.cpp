//===- AssignStreams.cpp - plan-assign-streams ----------------------------===//
//
// Puts launches on streams, then turns the dependences that cross streams into records and waits. One walk in program
// order with vector clocks: a wait is made only where the stream does not know yet that the other launch is done.
//
//===----------------------------------------------------------------------===//
#include "moe/Dialect/Plan/Transforms/AssignStreams.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

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

int64_t mlir::plan::getWorld(func::FuncOp program) {
  for (Operation *op = program; op; op = op->getParentOp())
    if (auto parallel = op->getAttrOfType<moe::ParallelAttr>(moe::kParallelAttrName))
      return parallel.getWorld();
  return 0;
}

static std::string chooseStream(LaunchOp launch, int64_t nodeRanks, int64_t world) {
  if (std::optional<int64_t> peer = launch.getPeer())
    return ((launch.getOutputs().empty() ? kSendStreamPrefix : kReceiveStreamPrefix) + Twine(*peer)).str();
  if (launch.getCollective())
    return (launch.getGroup()->isInsideNode(nodeRanks, world) ? kIntraStream : kInterStream).str();
  return (launch.getOpCost().resource == moe::Resource::HostLink ? kCopyStream : kComputeStream).str();
}

void mlir::plan::assignStreams(func::FuncOp program) {
  int64_t nodeRanks = moe::getClusterRates(program).nodeRanks;
  int64_t world = getWorld(program);
  for (auto launch : program.getOps<LaunchOp>())
    if (!launch.getStream())
      launch.setStream(chooseStream(launch, nodeRanks, world));
}

//===----------------------------------------------------------------------===//
// Waits
//===----------------------------------------------------------------------===//

SmallVector<unsigned, 2> WaitPlanner::issue(unsigned launch, unsigned stream, ArrayRef<unsigned> before) {
  // From the latest on: a later launch may imply an earlier one, never the other way round.
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
/// Inserts the records and waits of one program.
class Synchronizer {
public:
  Synchronizer(func::FuncOp program, const Dependences &dependences);
  void run();

private:
  void visit(LaunchOp op);
  void waitFor(unsigned other, LaunchOp op);

  func::FuncOp program;
  const Dependences &dependences;
  llvm::StringMap<unsigned> numbers;
  WaitPlanner planner;
  /// By launch.
  std::vector<std::optional<int64_t>> events;
  unsigned next = 0;
  int64_t nextEvent = 0;
};
} // namespace

Synchronizer::Synchronizer(func::FuncOp program, const Dependences &dependences)
    : program(program), dependences(dependences), planner(dependences.getLaunches().size(), getStreams(program).size()),
      events(dependences.getLaunches().size()) {
  for (auto [number, stream] : llvm::enumerate(getStreams(program)))
    numbers[stream] = number;
  for (auto record : program.getOps<RecordOp>())
    nextEvent = std::max<int64_t>(nextEvent, record.getEvent() + 1);
}

void Synchronizer::run() {
  for (Operation &op : llvm::make_early_inc_range(program.getOps())) {
    if (auto record = dyn_cast<RecordOp>(op))
      planner.record(record.getEvent(), numbers.lookup(record.getStream()));
    else if (auto wait = dyn_cast<WaitOp>(op))
      planner.wait(wait.getEvent(), numbers.lookup(wait.getStream()));
    else if (auto launch = dyn_cast<LaunchOp>(op))
      visit(launch);
  }
}

void Synchronizer::visit(LaunchOp op) {
  unsigned number = next++;
  for (unsigned other : planner.issue(number, numbers.lookup(op.getStreamOrDefault()), dependences.get(number)))
    waitFor(other, op);
}

void Synchronizer::waitFor(unsigned other, LaunchOp op) {
  LaunchOp otherOp = dependences.getLaunches()[other];
  OpBuilder builder(op);
  if (!events[other]) {
    events[other] = nextEvent++;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(otherOp);
    builder.create<RecordOp>(otherOp.getLoc(), *events[other], otherOp.getStreamOrDefault());
  }
  builder.create<WaitOp>(op.getLoc(), *events[other], op.getStreamOrDefault());
}

namespace {
struct PlanAssignStreams : public plan::impl::PlanAssignStreamsBase<PlanAssignStreams> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp program = getOperation();
    if (!isRankProgram(program))
      return;
    if (failed(verifyRankProgram(program)))
      return signalPassFailure();
    for (auto buffer : program.getOps<BufferOp>())
      if (buffer.getOffset()) {
        buffer.emitOpError(
            "expected no offset before streams are assigned: their order decides which buffers share memory");
        return signalPassFailure();
      }
    Dependences dependences(program);
    if (failed(dependences.verifyProgramOrder()))
      return signalPassFailure();
    assignStreams(program);
    Synchronizer(program, dependences).run();
  }
};
} // namespace
