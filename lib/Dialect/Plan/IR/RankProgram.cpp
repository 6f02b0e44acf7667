//===- RankProgram.cpp - the programs of a plan ---------------------------===//
#include "moe/Dialect/Plan/IR/RankProgram.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::plan;

bool mlir::plan::isSubprogram(func::FuncOp function) { return function->hasAttr(kSubprogramAttrName); }

func::FuncOp mlir::plan::getSubprogram(LaunchOp launch) {
  auto name = launch->getAttrOfType<FlatSymbolRefAttr>(kProgramAttrName);
  return name ? SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(launch, name) : func::FuncOp();
}

static bool isPlanOp(Operation &op) { return isa_and_nonnull<PlanDialect>(op.getDialect()); }

bool mlir::plan::isRankProgram(func::FuncOp function) {
  return !function.isExternal() && !isSubprogram(function) && llvm::any_of(function.getBody().getOps(), isPlanOp);
}

SmallVector<func::FuncOp> mlir::plan::getRankPrograms(ModuleOp plan) {
  SmallVector<func::FuncOp> programs;
  for (auto function : plan.getOps<func::FuncOp>())
    // The reference program has ranks of its own.
    if (isRankProgram(function) && !function->hasAttr(moe::kParallelAttrName))
      programs.push_back(function);
  llvm::stable_sort(programs, [&](func::FuncOp a, func::FuncOp b) { return getRanks(a).first < getRanks(b).first; });
  return programs;
}

LogicalResult mlir::plan::verifyRankProgram(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expected a rank program to have one block");
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes()))
    if (auto memref = dyn_cast<MemRefType>(type); !memref || !isBufferType(memref))
      return function.emitOpError("expected argument ") << index << " to be " << kBufferTypes << " but got " << type;
  for (Operation &op : function.getBody().front())
    if (!isPlanOp(op) && !(isa<func::ReturnOp>(op) && op.getNumOperands() == 0))
      return op.emitOpError("expected only plan ops and a return of nothing in a rank program");
  return success();
}

Ranks mlir::plan::getRanks(func::FuncOp program, int64_t world) {
  auto ranks = program->getAttrOfType<DenseI64ArrayAttr>(kRanksAttrName);
  return ranks && ranks.size() == 2 ? Ranks{ranks[0], ranks[1]} : Ranks{0, world};
}

LogicalResult mlir::plan::verifyCoverage(ArrayRef<func::FuncOp> programs, int64_t world) {
  int64_t next = 0;
  for (func::FuncOp program : programs) {
    auto [first, count] = getRanks(program, world);
    if (first != next)
      return program.emitOpError("expected each rank to have one program but '")
             << program.getName() << "' starts at rank " << first << " and the programs before it end at " << next;
    next += count;
  }
  if (func::FuncOp last = programs.back(); world != 0 && next != world)
    return last.emitOpError("expected rank programs for ") << world << " ranks but got " << next;
  return success();
}

LogicalResult mlir::plan::verifyStreams(func::FuncOp program) {
  WalkResult walk = program.walk([](LaunchOp launch) -> WalkResult {
    if (launch.getStream())
      return WalkResult::advance();
    return launch.emitOpError("expected ") << launch.describe() << " to have a stream; run plan-assign-streams first";
  });
  return failure(walk.wasInterrupted());
}

int64_t mlir::plan::getWorld(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto parallel = op->getAttrOfType<moe::ParallelAttr>(moe::kParallelAttrName))
      return parallel.getWorld();
  return 0;
}

int64_t mlir::plan::getNumInputs(func::FuncOp program) {
  auto inputs = program->getAttrOfType<IntegerAttr>(kInputsAttrName);
  return inputs ? inputs.getInt() : program.getNumArguments();
}

std::optional<int64_t> mlir::plan::getArenaBytes(func::FuncOp program, Space space) {
  auto arenas = program->getAttrOfType<DictionaryAttr>(kArenasAttrName);
  auto bytes = arenas ? arenas.getAs<IntegerAttr>(stringifySpace(space)) : IntegerAttr();
  return bytes ? std::optional(bytes.getInt()) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

int64_t mlir::plan::getMicroBatches(LoopOp loop) { return std::max<int64_t>(1, loop.getMicroBatches().value_or(1)); }

void mlir::plan::forEachIssued(func::FuncOp program, Iterations iterations,
                               function_ref<void(Operation *, int64_t)> visit) {
  int64_t done = 0;
  for (Operation &op : program.getOps()) {
    auto loop = dyn_cast<LoopOp>(op);
    if (!loop) {
      visit(&op, done);
      continue;
    }
    done = iterations(loop);
    for (int64_t iteration = 0; iteration < done; ++iteration)
      for (Operation &inner : loop.getBody().front())
        visit(&inner, iteration);
  }
}

int64_t mlir::plan::getTimes(Operation *op) {
  auto loop = op->getParentOfType<LoopOp>();
  return loop ? loop.getCount() : 1;
}

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

StringRef mlir::plan::getStreamOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([](LaunchOp launch) { return launch.getStreamOrDefault(); })
      .Case<RecordOp, WaitOp>([](auto event) { return event.getStream(); })
      .Default(StringRef());
}

SmallVector<StringRef> mlir::plan::getStreams(func::FuncOp program) {
  llvm::SetVector<StringRef> streams;
  program.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (StringRef stream = getStreamOf(op); !stream.empty())
      streams.insert(stream);
  });
  return streams.takeVector();
}

int64_t mlir::plan::getNumEvents(func::FuncOp program) {
  int64_t events = 0;
  program.walk([&](RecordOp record) { events = std::max(events, record.getEndOfEvents()); });
  return events;
}
