//===- RankProgram.cpp - the programs of a plan ---------------------------===//
#include "moe/Dialect/Plan/IR/RankProgram.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::plan;

bool mlir::plan::isSubprogram(func::FuncOp function) { return function->hasAttr(kSubprogramAttrName); }

func::FuncOp mlir::plan::getSubprogram(LaunchOp launch) {
  auto name = launch->getAttrOfType<FlatSymbolRefAttr>(kProgramAttrName);
  return name ? SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(launch, name) : func::FuncOp();
}

bool mlir::plan::isRankProgram(func::FuncOp function) {
  return !function.isExternal() && !isSubprogram(function) &&
         llvm::any_of(function.getBody().getOps(),
                      [](Operation &op) { return isa<BufferOp, ViewOp, LaunchOp, RecordOp, WaitOp, LoopOp>(op); });
}

SmallVector<func::FuncOp> mlir::plan::getRankPrograms(ModuleOp plan) {
  SmallVector<func::FuncOp> programs;
  for (auto function : plan.getOps<func::FuncOp>())
    // The reference program has ranks of its own.
    if (isRankProgram(function) && !function->hasAttr(moe::kParallelAttrName))
      programs.push_back(function);
  auto getFirstRank = [](func::FuncOp program) -> int64_t {
    auto ranks = program->getAttrOfType<DenseI64ArrayAttr>(kRanksAttrName);
    return ranks && !ranks.empty() ? ranks[0] : 0;
  };
  llvm::stable_sort(programs, [&](func::FuncOp a, func::FuncOp b) { return getFirstRank(a) < getFirstRank(b); });
  return programs;
}

LogicalResult mlir::plan::verifyRankProgram(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expected a rank program to have one block");
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes()))
    if (auto memref = dyn_cast<MemRefType>(type); !memref || !isBufferType(memref))
      return function.emitOpError("expected argument ") << index << " to be " << kBufferTypes << " but got " << type;
  for (Operation &op : function.getBody().front())
    if (!isa<BufferOp, ViewOp, LaunchOp, RecordOp, WaitOp, LoopOp>(op) &&
        !(isa<func::ReturnOp>(op) && op.getNumOperands() == 0))
      return op.emitOpError("expected only plan ops and a return of nothing in a rank program");
  return success();
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

int64_t mlir::plan::getCount(LoopOp loop) { return static_cast<int64_t>(loop.getCount()); }

int64_t mlir::plan::getMicroBatches(LoopOp loop) {
  return std::max<int64_t>(1, static_cast<int64_t>(loop.getMicroBatches().value_or(1)));
}

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
  return loop ? getCount(loop) : 1;
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

StringRef mlir::plan::getStreamOf(Operation *op) {
  if (auto launch = dyn_cast<LaunchOp>(op))
    return launch.getStreamOrDefault();
  if (auto record = dyn_cast<RecordOp>(op))
    return record.getStream();
  if (auto wait = dyn_cast<WaitOp>(op))
    return wait.getStream();
  return {};
}

SmallVector<StringRef> mlir::plan::getStreams(func::FuncOp program) {
  llvm::SetVector<StringRef> streams;
  program.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (StringRef stream = getStreamOf(op); !stream.empty())
      streams.insert(stream);
  });
  return streams.takeVector();
}
