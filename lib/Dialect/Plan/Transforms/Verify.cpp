//===- Verify.cpp - plan-verify -------------------------------------------===//
//
// Works from the printed offsets, streams and events alone, and trusts no pass. This file checks waits and bounds,
// VerifyMemory.cpp memory, and VerifyCollectives.cpp collectives.
//
//===----------------------------------------------------------------------===//
#include "Verify.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Threading.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/CheckedArithmetic.h"

#include "moe/Dialect/Plan/Transforms/Passes.h"
#include "moe/Dialect/Plan/Transforms/Subprograms.h"

#include <numeric>

namespace mlir::plan {
#define GEN_PASS_DEF_PLANVERIFY
#include "moe/Dialect/Plan/Transforms/Passes.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

static LogicalResult verifyStreams(func::FuncOp program) {
  WalkResult walk = program.walk([](LaunchOp launch) -> WalkResult {
    if (launch.getStream())
      return WalkResult::advance();
    return launch.emitOpError("expected ") << launch.describe() << " to have a stream; run plan-assign-streams first";
  });
  return failure(walk.wasInterrupted());
}

static LogicalResult verifyWaits(func::FuncOp program) {
  llvm::DenseSet<int64_t> recorded;
  WaitOp dangling;
  forEachIssued(program, getRepresentative, [&](Operation *op, int64_t iteration) {
    if (auto record = dyn_cast<RecordOp>(op))
      recorded.insert(record.getEventAt(iteration));
    if (auto wait = dyn_cast<WaitOp>(op); wait && !dangling && !recorded.contains(wait.getEventAt(iteration)))
      dangling = wait;
  });
  if (!dangling)
    return success();
  InFlightDiagnostic diagnostic = dangling.emitOpError("dangling wait: expected a plan.record of event ")
                                  << dangling.getEvent() << " before the wait on '" << dangling.getStream() << "'";
  program.walk([&](RecordOp record) {
    if (record.getEvent() != dangling.getEvent())
      return WalkResult::advance();
    diagnostic.attachNote(record.getLoc()) << "the event is recorded here, after it";
    return WalkResult::interrupt();
  });
  return diagnostic;
}

static LogicalResult verifyBounds(BufferOp buffer, DictionaryAttr arenas) {
  std::optional<int64_t> offset = buffer.getOffset();
  if (!offset)
    return success();
  auto type = cast<MemRefType>(buffer.getMemref().getType());
  StringRef space = stringifySpace(cast<SpaceAttr>(type.getMemorySpace()).getValue());
  auto bytes = arenas ? arenas.getAs<IntegerAttr>(space) : IntegerAttr();
  if (!bytes)
    return buffer->getParentOfType<func::FuncOp>().emitOpError("expected '")
           << kArenasAttrName << "' to give the bytes of '" << space << "'";
  std::optional<int64_t> end = llvm::checkedAdd<int64_t>(*offset, getByteSize(type));
  if (end && *end <= bytes.getInt())
    return success();
  return buffer.emitOpError("out of bounds: expected the buffer to lie in the ")
         << bytes.getInt() << " bytes of '" << space << "' but it has " << getByteSize(type) << " bytes at offset "
         << *offset;
}

static LogicalResult verifyBounds(func::FuncOp program) {
  auto arenas = program->getAttrOfType<DictionaryAttr>(kArenasAttrName);
  WalkResult walk = program.walk([&](BufferOp buffer) -> WalkResult { return verifyBounds(buffer, arenas); });
  return failure(walk.wasInterrupted());
}

/// Sets the ranks of `program` from its `plan.ranks`.
static LogicalResult readRanks(Program &program) {
  auto attribute = program.function->getAttrOfType<DenseI64ArrayAttr>(kRanksAttrName);
  if (!attribute || attribute.size() != 2 || attribute[0] < 0 || attribute[1] < 1 || attribute[0] > moe::kMaxWorld ||
      attribute[1] > moe::kMaxWorld)
    return program.function.emitOpError("expected '")
           << kRanksAttrName << "' to be array<i64: FIRST, NUMBER> with ranks up to " << moe::kMaxWorld;
  program.firstRank = attribute[0];
  program.numRanks = attribute[1];
  return success();
}

/// Number of micro-batches that need not be looked at, because all loops have the iterations of more. Programs meet:
/// without so many micro-batches each, they are those of a shorter step.
static int64_t getSpareMicroBatches(ModuleOp plan) {
  SmallVector<LoopOp> loops;
  plan.walk([&](LoopOp loop) { loops.push_back(loop); });
  std::vector<int64_t> representatives(loops.size());
  parallelFor(plan.getContext(), 0, loops.size(),
              [&](size_t index) { representatives[index] = getRepresentative(loops[index]); });
  std::optional<int64_t> spare;
  int64_t together = 1;
  for (auto [loop, representative] : llvm::zip_equal(loops, representatives)) {
    int64_t own = (getCount(loop) - representative) * getMicroBatches(loop);
    spare = std::min(spare.value_or(own), own);
    together = std::lcm(together, getMicroBatches(loop));
  }
  return spare.value_or(0) / together * together;
}

/// Verifies that every rank runs one of `programs`, which are sorted by their first rank. `world` is 0 if unknown.
static LogicalResult verifyCoverage(ArrayRef<Program> programs, int64_t world) {
  int64_t next = 0;
  for (const Program &program : programs) {
    func::FuncOp function = program.function;
    if (program.firstRank != next)
      return function.emitOpError("expected each rank to have one program but '")
             << function.getName() << "' starts at rank " << program.firstRank << " and the programs before it end at "
             << next;
    next = program.firstRank + program.numRanks;
  }
  if (func::FuncOp last = programs.back().function; world != 0 && next != world)
    return last.emitOpError("expected rank programs for ") << world << " ranks but got " << next;
  return success();
}

static int64_t getWorld(Operation *op) {
  auto parallel = op->getAttrOfType<moe::ParallelAttr>(moe::kParallelAttrName);
  return parallel ? parallel.getWorld() : 0;
}

namespace {
struct PlanVerify : public plan::impl::PlanVerifyBase<PlanVerify> {
  using Base::Base;

  void runOnOperation() override {
    plan = getOperation();
    spare = getSpareMicroBatches(plan);
    if (failed(verifySubprograms()) || failed(verifyPrograms(plan, /*together=*/false)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  LogicalResult verifyPrograms(ModuleOp module, bool together) {
    SmallVector<func::FuncOp> functions;
    for (auto function : module.getOps<func::FuncOp>())
      if (isRankProgram(function))
        functions.push_back(function);
    std::vector<std::optional<Program>> programs(functions.size());
    parallelFor(plan.getContext(), 0, functions.size(), [&](size_t index) {
      programs[index] = together ? getProgram(functions[index]) : verifyAlone(functions[index]);
    });
    if (!llvm::all_of(programs, [](const auto &program) { return program.has_value(); }))
      return failure();
    return verifyTogether(programs);
  }

  /// Verifies programs that run subprograms, where each launch of a subprogram is one access to memory. A hang of their
  /// collectives shows in programs that run each of them once. All members run it equally often (moe.window), so
  /// another run adds the same meetings, in the same order, after those of the run before. verifyPrograms covers
  /// programs that never run them.
  LogicalResult verifySubprograms() {
    bool hasSome = false;
    for (auto function : plan.getOps<func::FuncOp>())
      if (isSubprogram(function)) {
        hasSome = true;
        if (!verifyAlone(function) || failed(verifyClosed(function)))
          return failure();
      }
    for (auto function : plan.getOps<func::FuncOp>())
      if (isRankProgram(function) && failed(verifyLaunchesOfSubprograms(function)))
        return failure();
    if (!hasSome)
      return success();
    OwningOpRef<ModuleOp> once = plan.clone();
    return failure(failed(inlineSubprograms(*once, Inlined::Once)) || failed(verifyPrograms(*once, /*together=*/true)));
  }

  Program getProgram(func::FuncOp function) {
    auto iterations = [&](LoopOp loop) { return getCount(loop) - spare / getMicroBatches(loop); };
    return Program{function, HappensBefore(function, iterations), spare == 0};
  }

  /// Verifies a program without the others. Returns none after an error.
  std::optional<Program> verifyAlone(func::FuncOp function) {
    if (failed(verifyRankProgram(function)) || failed(verifyStreams(function)) || failed(verifyWaits(function)) ||
        failed(verifyBounds(function)))
      return std::nullopt;
    Program program = getProgram(function);
    if (failed(verifyMemory(program)))
      return std::nullopt;
    return program;
  }

  /// Verifies the programs of a world together. Those with plan.ranks share one world. Each other program, such as the
  /// reference, has a world of its own.
  LogicalResult verifyTogether(MutableArrayRef<std::optional<Program>> programs) {
    std::vector<Program> shared;
    int64_t world = getWorld(plan);
    for (std::optional<Program> &program : programs) {
      func::FuncOp function = program->function;
      if (function->hasAttr(kRanksAttrName)) {
        if (failed(readRanks(*program)))
          return failure();
        shared.push_back(std::move(*program));
      } else {
        int64_t own = getWorld(function);
        if (failed(verifyCollectives(*program, own ? own : world)))
          return failure();
      }
    }
    return shared.empty() ? success() : verifyShared(shared);
  }

  LogicalResult verifyShared(std::vector<Program> &shared) {
    llvm::stable_sort(shared, [](const Program &a, const Program &b) { return a.firstRank < b.firstRank; });
    int64_t world = getWorld(plan);
    if (failed(verifyCoverage(shared, world)))
      return failure();
    return verifyCollectives(shared, world);
  }

  ModuleOp plan;
  int64_t spare = 0;
};
} // namespace
