//===- HappensBefore.cpp - the order of a rank program --------------------===//
#include "moe/Dialect/Plan/Transforms/HappensBefore.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::plan;

bool mlir::plan::isRankProgram(func::FuncOp function) {
  return !function.isExternal() && llvm::any_of(function.getBody().getOps(), [](Operation &op) {
    return isa<BufferOp, ViewOp, LaunchOp, RecordOp, WaitOp>(op);
  });
}

SmallVector<func::FuncOp> mlir::plan::getRankPrograms(ModuleOp plan) {
  SmallVector<func::FuncOp> programs;
  for (auto function : plan.getOps<func::FuncOp>())
    // The reference has ranks of its own.
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
      return function.emitOpError("expected argument ")
             << index << " to be a dense row-major memref of f32, f64, bf16, f16 or i32 with rank 4 at most but got "
             << type;
  for (Operation &op : function.getBody().front())
    if (!isa<BufferOp, ViewOp, LaunchOp, RecordOp, WaitOp>(op) &&
        !(isa<func::ReturnOp>(op) && op.getNumOperands() == 0))
      return op.emitOpError("expected only plan ops and a return of nothing in a rank program");
  return success();
}

/// The stream of a launch, record or wait; empty for others.
static StringRef getStreamOf(Operation *op) {
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
  for (Operation &op : program.getOps())
    if (StringRef stream = getStreamOf(&op); !stream.empty())
      streams.insert(stream);
  return streams.takeVector();
}

bool StreamClocks::wait(int64_t event, unsigned stream) {
  auto it = events.find(event);
  if (it == events.end())
    return false;
  join(it->second, stream);
  return true;
}

void StreamClocks::join(ArrayRef<int32_t> clock, unsigned stream) {
  for (auto [known, other] : llvm::zip(clocks[stream], clock))
    known = std::max(known, other);
}

HappensBefore::HappensBefore(func::FuncOp program) : streams(getStreams(program)) {
  llvm::StringMap<unsigned> numbers;
  for (auto [number, stream] : llvm::enumerate(streams))
    numbers[stream] = number;
  StreamClocks now(streams.size());
  for (Operation &op : program.getOps()) {
    StringRef name = getStreamOf(&op);
    if (name.empty())
      continue;
    unsigned stream = numbers.lookup(name);
    if (auto record = dyn_cast<RecordOp>(op)) {
      now.record(record.getEvent(), stream);
    } else if (auto wait = dyn_cast<WaitOp>(op)) {
      now.wait(wait.getEvent(), stream);
    } else {
      indices[&op] = launches.size();
      launches.push_back(cast<LaunchOp>(op));
      streamOf.push_back(stream);
      llvm::append_range(clocks, now.get(stream));
      positions.push_back(now.launch(stream));
    }
  }
}
