//===- AssignSubprograms.cpp - plan-assign-subprograms --------------------===//
#include "moe/Dialect/Plan/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANASSIGNSUBPROGRAMS
#include "moe/Dialect/Plan/Transforms/Passes.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

/// Lets all other streams begin after `compute`, and `compute` end after them.
static void closeStreams(func::FuncOp subprogram) {
  int64_t event = getNumEvents(subprogram);
  SmallVector<std::string> others;
  for (StringRef stream : getStreams(subprogram))
    if (stream != kComputeStream)
      others.push_back(stream.str());
  if (others.empty())
    return;
  Location loc = subprogram.getLoc();
  auto begin = OpBuilder::atBlockBegin(&subprogram.front());
  begin.create<RecordOp>(loc, event, kComputeStream);
  for (StringRef stream : others)
    begin.create<WaitOp>(loc, event, stream);
  OpBuilder end(subprogram.front().getTerminator());
  for (StringRef stream : others) {
    end.create<RecordOp>(loc, ++event, stream);
    end.create<WaitOp>(loc, event, kComputeStream);
  }
}

/// Adds memory for the arena of the subprogram after the outputs of the launch, unless it has some.
static void addArena(LaunchOp launch, func::FuncOp subprogram) {
  if (!launch.getOutputs().empty() && !llvm::is_contained(launch.getInputs(), launch.getOutputs().back()))
    return;
  OpBuilder builder(launch);
  auto space = SpaceAttr::get(builder.getContext(), Space::device);
  auto words = static_cast<int64_t>(llvm::divideCeil(*getArenaBytes(subprogram, Space::device), 4));
  auto type = MemRefType::get({words}, builder.getI32Type(), MemRefLayoutAttrInterface(), space);
  launch.getOutputsMutable().append(
      builder.create<BufferOp>(launch.getLoc(), type, IntegerAttr(), moe::RingAttr()).getMemref());
}

namespace {
struct PlanAssignSubprograms : public plan::impl::PlanAssignSubprogramsBase<PlanAssignSubprograms> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpPassManager streams(func::FuncOp::getOperationName()), memory(func::FuncOp::getOperationName());
    streams.addPass(createPlanAssignStreams());
    memory.addPass(createPlanAssignMemory());
    for (auto function : module.getOps<func::FuncOp>()) {
      if (!isSubprogram(function))
        continue;
      if (failed(runPipeline(streams, function)))
        return signalPassFailure();
      closeStreams(function);
      if (failed(runPipeline(memory, function)))
        return signalPassFailure();
    }
    // Few of the many launches have one.
    auto name = StringAttr::get(&getContext(), kProgramAttrName);
    module.walk([&](LaunchOp launch) {
      if (launch->hasAttr(name))
        addArena(launch, getSubprogram(launch));
    });
  }
};
} // namespace
