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

#include "moe/Dialect/Plan/Transforms/Passes.h"
#include "moe/Dialect/Plan/Transforms/Subprograms.h"

#include <numeric>

namespace mlir::plan {
#define GEN_PASS_DEF_PLANVERIFY
#include "moe/Dialect/Plan/Transforms/Passes.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

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

static LogicalResult verifyBounds(func::FuncOp program) {
  WalkResult walk = program.walk([&](BufferOp buffer) -> WalkResult {
    std::optional<int64_t> offset = buffer.getOffset(), bytes = getArenaBytes(program, buffer.getSpace());
    if (!offset || (bytes && *offset + getByteSize(buffer) <= *bytes))
      return WalkResult::advance();
    StringRef space = stringifySpace(buffer.getSpace());
    if (!bytes)
      return program.emitOpError("expected '") << kArenasAttrName << "' to give the bytes of '" << space << "'";
    return buffer.emitOpError("out of bounds: expected the buffer to lie in the ")
           << *bytes << " bytes of '" << space << "' but it has " << getByteSize(buffer) << " bytes at offset "
           << *offset;
  });
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
    int64_t own = (loop.getCount() - representative) * getMicroBatches(loop);
    spare = std::min(spare.value_or(own), own);
    together = std::lcm(together, getMicroBatches(loop));
  }
  return spare.value_or(0) / together * together;
}

namespace {
struct PlanVerify : public plan::impl::PlanVerifyBase<PlanVerify> {
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
    auto iterations = [&](LoopOp loop) { return loop.getCount() - spare / getMicroBatches(loop); };
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
    for (std::optional<Program> &program : programs)
      if (func::FuncOp function = program->function; !function->hasAttr(kRanksAttrName)) {
        if (failed(verifyCollectives(*program, getWorld(function))))
          return failure();
      } else {
        if (failed(readRanks(*program)))
          return failure();
        shared.push_back(std::move(*program));
      }
    if (shared.empty())
      return success();
    llvm::stable_sort(shared, [](const Program &a, const Program &b) { return a.firstRank < b.firstRank; });
    auto functions = llvm::map_to_vector(shared, [](const Program &program) { return program.function; });
    if (failed(verifyCoverage(functions, getWorld(plan))))
      return failure();
    return verifyCollectives(shared, getWorld(plan));
  }

  ModuleOp plan;
  int64_t spare = 0;
};
} // namespace
