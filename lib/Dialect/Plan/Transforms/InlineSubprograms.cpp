//===- InlineSubprograms.cpp - the ops of subprograms where they run ------===//
#include "moe/Dialect/Plan/Transforms/Subprograms.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/Transforms/HappensBefore.h"

using namespace mlir;
using namespace mlir::plan;

static MemRefType withoutSpace(Type type) { return MemRefType::Builder(cast<MemRefType>(type)).setMemorySpace({}); }

/// Verifies a launch of a subprogram. The inputs after the number of times are the arguments. Outputs are inputs that
/// the subprogram writes, and its arena.
static LogicalResult verifyLaunch(LaunchOp launch, func::FuncOp subprogram) {
  ValueRange inputs = launch.getInputs(), outputs = launch.getOutputs();
  auto params = launch.getParamsAttr();
  auto times = inputs.empty() ? MemRefType() : cast<MemRefType>(inputs.front().getType());
  if (launch.getKernel() != kRepeatKernel || !times || times.getNumElements() != 1 ||
      !times.getElementType().isInteger(32) || !params || params.size() != 1 || !isa<IntegerAttr>(params[0]) ||
      cast<IntegerAttr>(params[0]).getInt() < 1)
    return launch.emitOpError("expected a launch of '")
           << kRepeatKernel << "', with one i32 as its first input and the most times as its param";
  if (launch.getStreamOrDefault() != kComputeStream)
    return launch.emitOpError("expected ") << launch.describe() << " to be on '" << kComputeStream << "'";
  if (inputs.size() - 1 != subprogram.getNumArguments())
    return launch.emitOpError("expected ") << subprogram.getNumArguments() << " arguments of '" << subprogram.getName()
                                           << "' but got " << inputs.size() - 1;
  for (auto [input, argument] : llvm::zip_equal(inputs.drop_front(), subprogram.getArguments()))
    if (withoutSpace(input.getType()) != withoutSpace(argument.getType()))
      return launch.emitOpError("expected argument ")
             << argument.getArgNumber() << " of '" << subprogram.getName() << "' to be "
             << withoutSpace(argument.getType()) << " but got " << input.getType();
  if (getArenaBytes(subprogram, Space::host_pinned).value_or(0) > 0)
    return subprogram.emitOpError("expected a subprogram without values on the host");
  Value arena = outputs.empty() ? Value() : outputs.back();
  int64_t bytes = getArenaBytes(subprogram, Space::device).value_or(0);
  if (!arena || !arena.getDefiningOp<BufferOp>() || llvm::is_contained(inputs, arena) || getByteSize(arena) < bytes)
    return launch.emitOpError("expected memory for the ")
           << bytes << " bytes of '" << subprogram.getName() << "' as last output";
  for (BlockArgument argument : subprogram.getArguments()) {
    bool isWritten = false;
    subprogram.walk([&](LaunchOp inner) {
      for (Value output : inner.getOutputs())
        isWritten |= getMemory(output) == argument;
    });
    bool isOutput = llvm::is_contained(outputs.drop_back(), inputs[argument.getArgNumber() + 1]);
    if (isWritten && !isOutput)
      return launch.emitOpError("expected input ")
             << argument.getArgNumber() + 1 << ", which '" << subprogram.getName() << "' writes, to be an output";
  }
  return success();
}

LogicalResult mlir::plan::verifyLaunchesOfSubprograms(func::FuncOp program) {
  WalkResult walk = program.walk([](LaunchOp launch) -> WalkResult {
    if (!launch->hasAttr(kProgramAttrName))
      return WalkResult::advance();
    func::FuncOp subprogram = getSubprogram(launch);
    if (!subprogram || !isSubprogram(subprogram))
      return launch.emitOpError("expected '")
             << kProgramAttrName << "' to name a function with '" << kSubprogramAttrName << "'";
    return verifyLaunch(launch, subprogram);
  });
  return failure(walk.wasInterrupted());
}

LogicalResult mlir::plan::verifyClosed(func::FuncOp subprogram) {
  llvm::DenseSet<StringRef> behind = {kComputeStream}, notJoined;
  llvm::DenseMap<int64_t, StringRef> recordedBy;
  llvm::DenseMap<int64_t, bool> isLast;
  LaunchOp early;
  for (Operation &op : subprogram.getOps()) {
    StringRef stream = getStreamOf(&op);
    if (auto record = dyn_cast<RecordOp>(op)) {
      recordedBy[record.getEvent()] = stream;
      // Whether a record comes after all launches of its stream so far.
      isLast[record.getEvent()] = true;
    } else if (auto wait = dyn_cast<WaitOp>(op)) {
      StringRef other = recordedBy.lookup(wait.getEvent());
      if (behind.contains(other))
        behind.insert(stream);
      if (stream == kComputeStream && isLast.lookup(wait.getEvent()))
        notJoined.erase(other);
    } else if (auto launch = dyn_cast<LaunchOp>(op)) {
      if (!behind.contains(stream) && !early)
        early = launch;
      if (stream != kComputeStream)
        notJoined.insert(stream);
      for (auto &[event, last] : isLast)
        last = last && recordedBy.lookup(event) != stream;
    }
  }
  if (early)
    return early.emitOpError("race: expected ")
           << early.describe() << " in a subprogram to come after what '" << kComputeStream << "' did before";
  if (!notJoined.empty())
    return subprogram.emitOpError("race: expected '")
           << kComputeStream << "' to wait for '" << *notJoined.begin() << "' at the end of a subprogram";
  return success();
}

/// Inserts the ops of `subprogram` for run number `pass` by `launch`, or once for all runs if that is 0.
static void cloneOps(OpBuilder &builder, func::FuncOp subprogram, LaunchOp launch, int64_t firstEvent, int64_t pass) {
  IRMapping mapping;
  mapping.map(subprogram.getArguments(), launch.getInputs().drop_front());
  auto arena = launch.getOutputs().back().getDefiningOp<BufferOp>();
  for (Operation &op : subprogram.front().without_terminator()) {
    Operation *copy = builder.clone(op, mapping);
    if (auto buffer = dyn_cast<BufferOp>(copy)) {
      if (buffer.getOffset() && arena.getOffset())
        buffer.setOffset(*buffer.getOffset() + *arena.getOffset());
    } else if (auto view = dyn_cast<ViewOp>(copy)) {
      Attribute space = view.getSource().getType().getMemorySpace();
      view.getResult().setType(MemRefType::Builder(view.getType()).setMemorySpace(space));
    } else if (auto record = dyn_cast<RecordOp>(copy)) {
      record.setEvent(record.getEvent() + firstEvent);
    } else if (auto wait = dyn_cast<WaitOp>(copy)) {
      wait.setEvent(wait.getEvent() + firstEvent);
    } else if (auto inner = dyn_cast<LaunchOp>(copy)) {
      inner.setLabelAttr(launch.getLabelAttr());
      moe::inheritUnit(launch, inner);
      if (pass > 0)
        inner->setAttr(kPassAttrName, builder.getI64IntegerAttr(pass));
    }
  }
}

/// Calls `inlineLaunch` for each launch of a subprogram. It inserts ops before the launch, with events from a number
/// on. The launch is erased then.
static LogicalResult inlineAll(ModuleOp plan, function_ref<void(LaunchOp, int64_t)> inlineLaunch) {
  for (auto program : plan.getOps<func::FuncOp>()) {
    if (failed(verifyLaunchesOfSubprograms(program)))
      return failure();
    int64_t events = getNumEvents(program);
    SmallVector<LaunchOp> launches;
    program.walk([&](LaunchOp launch) {
      if (launch->hasAttr(kProgramAttrName))
        launches.push_back(launch);
    });
    for (LaunchOp launch : launches) {
      inlineLaunch(launch, events);
      launch.erase();
    }
  }
  for (auto function : llvm::make_early_inc_range(plan.getOps<func::FuncOp>()))
    if (isSubprogram(function))
      function.erase();
  return success();
}

LogicalResult mlir::plan::inlineSubprograms(ModuleOp plan, Inlined form) {
  return inlineAll(plan, [&](LaunchOp launch, int64_t firstEvent) {
    OpBuilder builder(launch);
    if (form == Inlined::Repeatedly) {
      auto most = cast<IntegerAttr>(launch.getParamsAttr()[0]).getInt();
      auto loop = builder.create<LoopOp>(launch.getLoc(), builder.getI64IntegerAttr(most), IntegerAttr(),
                                         launch.getInputs().front());
      builder.createBlock(&loop.getBody());
    }
    cloneOps(builder, getSubprogram(launch), launch, firstEvent, /*pass=*/0);
  });
}

LogicalResult mlir::plan::inlineSubprograms(ModuleOp plan, function_ref<int64_t(LaunchOp)> times) {
  return inlineAll(plan, [&](LaunchOp launch, int64_t firstEvent) {
    OpBuilder builder(launch);
    for (int64_t pass = 1, last = times(launch); pass <= last; ++pass)
      cloneOps(builder, getSubprogram(launch), launch, firstEvent, pass);
  });
}
