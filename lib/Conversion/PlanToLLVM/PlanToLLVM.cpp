//===- PlanToLLVM.cpp - convert-plan-to-llvm ------------------------------===//
//
// Each rank program becomes one function, and constant data: rows for the ops, and buffers in the layout of moert.h.
// The code is meant to be compiled fast, not to be fast: it only enqueues. The variants of a plan of several shapes
// become one flat module.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Threading.h"
#include "llvm/ADT/StringMap.h"

#include <map>

#include "CallTable.h"
#include "Choose.h"
#include "Metadata.h"
#include "RuntimeCalls.h"
#include "moe/Conversion/Passes.h"
#include "moe/Conversion/Variants.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"

namespace mlir::moe {
#define GEN_PASS_DEF_CONVERTPLANTOLLVM
#include "moe/Conversion/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::plan;

namespace {

/// Emits one rank program.
class ProgramEmitter {
public:
  /// Emits before `place`, with symbols that begin with `prefix`. Its calls become kinds of `calls`.
  ProgramEmitter(func::FuncOp program, Operation *place, StringRef prefix, CallTable &calls);
  LogicalResult emit();

private:
  /// The part of moert_buffer that is a view's.
  struct Part {
    int64_t parts = 0, shift = 0, stride = 1, begin = 0;
    auto operator<=>(const Part &) const = default;
  };
  /// A buffer as moert_buffer has it: space, dtype, offset, shape, and parts, shift, stride.
  using BufferKey = std::tuple<int32_t, int32_t, int64_t, std::vector<int64_t>, Part>;

  /// Rows that run one after another, `count` times.
  struct Segment {
    int64_t count, begin, firstOp;
    int64_t end = 0;
  };

  LogicalResult addSegment(Block::iterator begin, Block::iterator end, int64_t count);
  LogicalResult addRow(Operation &op);
  template <class EventOp> void addEvent(StringRef call, EventOp op);
  LogicalResult addLaunch(LaunchOp launch);
  /// In iteration `iteration` of the loop around the view that `value` is, or behind so many iterations.
  FailureOr<BufferKey> getKey(Value value, int64_t iteration);
  FailureOr<std::vector<BufferKey>> getKeys(Value value, int64_t first, int64_t count);
  void addBuffers(ArrayRef<BufferKey> keys);
  FailureOr<unsigned> getTurns(Value value, ViewOp moving);
  FailureOr<unsigned> getBuffers(Value value, ViewOp moving);
  LLVM::GlobalOp createBufferTable();
  void emitSegment(const Segment &segment, Block *&block, Block *exit);

  func::FuncOp program;
  CallTable &calls;
  DataBuilder builder;
  std::string symbol;
  llvm::StringMap<int64_t> streams;
  std::vector<int32_t> rows;
  SmallVector<Segment> segments;
  int64_t nextOp = 0;
  int64_t done = 0; ///< iterations of the loop before the ops that are looked at
  /// Where the buffers of consecutive iterations lie in the table.
  std::map<std::vector<BufferKey>, unsigned> buffers;
  /// Where those of views that go from part to part lie, by the first two parts and the number of all.
  std::map<std::pair<std::vector<BufferKey>, int64_t>, unsigned> turns;
  std::vector<int64_t> bufferWords;
  llvm::DenseMap<Value, unsigned> bufferOf;
};

} // namespace

ProgramEmitter::ProgramEmitter(func::FuncOp program, Operation *place, StringRef prefix, CallTable &calls)
    : program(program), calls(calls), builder(place), symbol((prefix + program.getName()).str()) {
  for (auto [number, stream] : llvm::enumerate(getStreams(program)))
    streams[stream] = number;
}

LogicalResult ProgramEmitter::emit() {
  Block &ops = program.getBody().front();
  Block::iterator begin = ops.begin();
  for (auto loop : llvm::make_early_inc_range(ops.getOps<LoopOp>())) {
    Block &body = loop.getBody().front();
    if (failed(addSegment(begin, loop->getIterator(), 1)) ||
        failed(addSegment(body.begin(), body.end(), getCount(loop))))
      return failure();
    begin = std::next(loop->getIterator());
    done = getCount(loop);
  }
  if (failed(addSegment(begin, ops.end(), 1)))
    return failure();
  auto function = builder.create<LLVM::LLVMFuncOp>(program.getLoc(), symbol,
                                                   LLVM::LLVMFunctionType::get(builder.i32, {builder.ptr}));
  Block *block = function.addEntryBlock(builder);
  Block *exit = builder.createBlock(&function.getBody(), {}, {builder.i32}, {builder.loc});
  builder.create<LLVM::ReturnOp>(builder.loc, exit->getArgument(0));
  builder.setInsertionPoint(function);
  // An array of nothing has no address.
  if (rows.empty())
    rows.push_back(0);
  auto rowsType = RankedTensorType::get({static_cast<int64_t>(rows.size())}, builder.i32);
  builder.createArray(symbol + "_rows", DenseIntElementsAttr::get(rowsType, ArrayRef(rows)));
  createBufferTable();
  for (const Segment &segment : segments)
    emitSegment(segment, block, exit);
  builder.setInsertionPointToEnd(block);
  builder.create<LLVM::BrOp>(builder.loc, builder.createInt(0, builder.i32), exit);
  return success();
}

LogicalResult ProgramEmitter::addSegment(Block::iterator begin, Block::iterator end, int64_t count) {
  Segment segment{count, static_cast<int64_t>(rows.size()), nextOp};
  for (Operation &op : llvm::make_range(begin, end))
    if (failed(addRow(op)))
      return failure();
  segment.end = rows.size();
  if (segment.end > segment.begin)
    segments.push_back(segment);
  return success();
}

/// Behind `block`, which becomes the block after the segment.
void ProgramEmitter::emitSegment(const Segment &segment, Block *&block, Block *exit) {
  Location loc = builder.loc;
  Block *head = builder.createBlock(exit, {builder.i64}, {loc}), *next = builder.createBlock(exit);
  Block *after = builder.createBlock(exit);
  builder.setInsertionPointToEnd(block);
  builder.create<LLVM::BrOp>(loc, builder.createInt(0), head);

  builder.setInsertionPointToEnd(head);
  Value iteration = head->getArgument(0);
  Value table = builder.create<LLVM::AddressOfOp>(loc, builder.ptr, symbol + "_rows");
  auto getRow = [&](int64_t place) -> Value {
    return builder.create<LLVM::GEPOp>(loc, builder.ptr, builder.i32, table,
                                       ArrayRef<LLVM::GEPArg>{builder.createInt(place)});
  };
  Value begin = getRow(segment.begin), end = getRow(segment.end);
  Value known = builder.create<LLVM::AddressOfOp>(loc, builder.ptr, symbol + "_buffers");
  Value arguments[] = {block->getParent()->getArgument(0), begin,    end, known,
                       builder.createInt(segment.firstOp), iteration};
  Value status =
      builder.create<LLVM::CallOp>(loc, TypeRange(builder.i32), getRunSymbol(), ValueRange(arguments)).getResult();
  Value hasFailed =
      builder.create<LLVM::ICmpOp>(loc, LLVM::ICmpPredicate::ne, status, builder.createInt(0, builder.i32));
  builder.create<LLVM::CondBrOp>(loc, hasFailed, exit, status, next, ValueRange());

  builder.setInsertionPointToEnd(next);
  Value following = builder.create<LLVM::AddOp>(loc, iteration, builder.createInt(1));
  Value goesOn =
      builder.create<LLVM::ICmpOp>(loc, LLVM::ICmpPredicate::ne, following, builder.createInt(segment.count));
  builder.create<LLVM::CondBrOp>(loc, goesOn, head, following, after, ValueRange());
  block = after;
}

LogicalResult ProgramEmitter::addRow(Operation &op) {
  if (auto launch = dyn_cast<LaunchOp>(op))
    return addLaunch(launch);
  if (auto record = dyn_cast<RecordOp>(op))
    addEvent("record", record);
  else if (auto wait = dyn_cast<WaitOp>(op))
    addEvent("wait", wait);
  return success();
}

template <class EventOp> void ProgramEmitter::addEvent(StringRef call, EventOp op) {
  bool isMoving = op.getTurns() && op->template getParentOfType<LoopOp>();
  rows.push_back(calls.getEvent(call, streams.lookup(op.getStream()), isMoving));
  rows.push_back(isMoving ? op.getEvent() : op.getEventAt(done));
  if (isMoving)
    llvm::append_range(rows,
                       ArrayRef<int32_t>{static_cast<int32_t>(*op.getShift()), static_cast<int32_t>(*op.getTurns())});
}

/// The view in a loop that moves among those through which `value` is what it is, or null.
static ViewOp getMovingView(Value value) {
  for (auto view = value.getDefiningOp<ViewOp>(); view; view = view.getSource().getDefiningOp<ViewOp>())
    if (view.getStep() && view->getParentOfType<LoopOp>())
      return view;
  return {};
}

LogicalResult ProgramEmitter::addLaunch(LaunchOp launch) {
  SmallVector<int64_t> moving;
  for (auto [number, value] : llvm::enumerate(launch.getOperands()))
    if (getMovingView(value))
      moving.push_back(number);
  rows.push_back(calls.getLaunch(launch, streams.lookup(launch.getStreamOrDefault()), moving));
  ++nextOp;
  for (Value value : launch.getOperands()) {
    ViewOp view = getMovingView(value);
    FailureOr<unsigned> first = getBuffers(value, view);
    if (failed(first))
      return failure();
    rows.push_back(*first);
    if (view)
      rows.push_back(view.getParts());
  }
  return success();
}

FailureOr<ProgramEmitter::BufferKey> ProgramEmitter::getKey(Value value, int64_t iteration) {
  auto type = cast<MemRefType>(value.getType());
  auto dtype = int32_t{getDType(type.getElementType())};
  Part part;
  for (auto view = value.getDefiningOp<ViewOp>(); view; view = view.getSource().getDefiningOp<ViewOp>()) {
    if (std::optional<moe::GroupAttr> group = view.getGroup()) {
      part.parts = view.getParts();
      part.shift = view.getShift();
      // Neighbouring members have the same part.
      part.stride = group->getStride() * (group->getSize() / part.parts);
    } else {
      // One of one part: the argument may be larger.
      part.parts = std::max<int64_t>(part.parts, 1);
      part.begin += view.getOwnOffset(/*rank=*/0, iteration);
    }
  }
  Value memory = getMemory(value);
  if (auto argument = dyn_cast<BlockArgument>(memory))
    return BufferKey{MOERT_SPACE_ARGUMENT, dtype, argument.getArgNumber(), type.getShape().vec(), part};
  auto buffer = memory.getDefiningOp<BufferOp>();
  if (!buffer.getOffset())
    return buffer.emitOpError("expected an offset; run plan-assign-memory first");
  auto space = static_cast<int32_t>(cast<SpaceAttr>(type.getMemorySpace()).getValue());
  int64_t offset = static_cast<int64_t>(*buffer.getOffset()) + std::exchange(part.begin, 0);
  return BufferKey{space, dtype, offset, type.getShape().vec(), part};
}

/// The buffers of `value` in `count` iterations from `first` on.
FailureOr<std::vector<ProgramEmitter::BufferKey>> ProgramEmitter::getKeys(Value value, int64_t first, int64_t count) {
  std::vector<BufferKey> keys;
  for (int64_t iteration = first; iteration < first + count; ++iteration) {
    FailureOr<BufferKey> key = getKey(value, iteration);
    if (failed(key))
      return failure();
    keys.push_back(*key);
  }
  return keys;
}

void ProgramEmitter::addBuffers(ArrayRef<BufferKey> keys) {
  for (const auto &[space, dtype, offset, shape, part] : keys) {
    SmallVector<int64_t, 4> dims(shape.begin(), shape.end());
    dims.resize(4, 0);
    // moert_buffer, whose first two fields are the halves of a word.
    llvm::append_range(bufferWords,
                       ArrayRef<int64_t>{int64_t{dtype} << 32 | space, offset, static_cast<int64_t>(shape.size())});
    llvm::append_range(bufferWords, dims);
    llvm::append_range(bufferWords, ArrayRef<int64_t>{part.parts, part.shift, part.stride, part.begin});
  }
}

/// Of views of a ring, which go from each slot to the next: the table has all slots twice, so that any may be the
/// first.
FailureOr<unsigned> ProgramEmitter::getTurns(Value value, ViewOp moving) {
  auto parts = static_cast<int64_t>(moving.getParts()), shift = static_cast<int64_t>(moving.getShift());
  // The first two parts tell what the others are.
  FailureOr<std::vector<BufferKey>> begin = getKeys(value, parts - shift, 2);
  if (failed(begin))
    return failure();
  auto [it, isNew] = turns.try_emplace({*begin, parts}, bufferWords.size() / kBufferWords);
  if (isNew) {
    FailureOr<std::vector<BufferKey>> all = getKeys(value, parts - shift, 2 * parts - 1);
    if (failed(all))
      return failure();
    addBuffers(*all);
  }
  return it->second + shift;
}

/// Where the buffers of `value` begin in the table: one, or one for each iteration in which `moving` is at another
/// part.
FailureOr<unsigned> ProgramEmitter::getBuffers(Value value, ViewOp moving) {
  if (auto known = bufferOf.find(value); known != bufferOf.end())
    return known->second;
  // Others have one view, whose parts are the micro-batches' inputs.
  if (moving && moving.getStep() == 1 && !isa<BlockArgument>(getMemory(value))) {
    FailureOr<unsigned> first = getTurns(value, moving);
    if (succeeded(first))
      bufferOf[value] = *first;
    return first;
  }
  FailureOr<std::vector<BufferKey>> keys = moving ? getKeys(value, 0, moving.getParts()) : getKeys(value, done, 1);
  if (failed(keys))
    return failure();
  auto [it, isNew] = buffers.try_emplace(*keys, bufferWords.size() / kBufferWords);
  if (isNew)
    addBuffers(*keys);
  return bufferOf[value] = it->second;
}

LLVM::GlobalOp ProgramEmitter::createBufferTable() {
  if (bufferWords.empty())
    bufferWords.resize(kBufferWords);
  auto type =
      RankedTensorType::get({static_cast<int64_t>(bufferWords.size()) / kBufferWords, kBufferWords}, builder.i64);
  return builder.createArray(symbol + "_buffers", DenseIntElementsAttr::get(type, ArrayRef(bufferWords)));
}

namespace {
struct ConvertPlanToLLVM : public moe::impl::ConvertPlanToLLVMBase<ConvertPlanToLLVM> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp plan = getOperation();
    if (failed(checkVariants(plan)))
      return signalPassFailure();
    SmallVector<ModuleOp> variants = getVariants(plan);
    SmallVector<func::FuncOp> programs;
    for (ModuleOp module : variants.empty() ? ArrayRef(plan) : ArrayRef(variants))
      llvm::append_range(programs, getPrograms(module));
    if (failed(failableParallelForEach(&getContext(), programs, [&](func::FuncOp program) { return check(program); })))
      return signalPassFailure();
    FailureOr<std::string> metadata = buildMetadata(plan);
    if (failed(metadata))
      return signalPassFailure();
    if (!variants.empty())
      emitChoose(plan);
    CallTable calls(plan);
    for (func::FuncOp program : getPrograms(plan)) {
      if (failed(ProgramEmitter(program, program, getProgramPrefix(), calls).emit()))
        return signalPassFailure();
      program.erase();
    }
    for (auto [index, variant] : llvm::enumerate(variants)) {
      for (func::FuncOp program : getPrograms(variant))
        if (failed(ProgramEmitter(program, variant, getProgramPrefix(index), calls).emit()))
          return signalPassFailure();
      variant.erase();
    }
    DataBuilder builder(plan);
    builder.setInsertionPointToEnd(plan.getBody());
    calls.emit(builder);
    builder.createText(kSymbolPrefix + "metadata", *metadata, LLVM::Linkage::External);
  }

  static SmallVector<func::FuncOp> getPrograms(ModuleOp module) {
    return llvm::to_vector(llvm::make_filter_range(module.getOps<func::FuncOp>(), isRankProgram));
  }

  LogicalResult check(func::FuncOp program) {
    if (failed(verifyRankProgram(program)))
      return failure();
    WalkResult walk = program.walk([](LaunchOp launch) -> WalkResult {
      if (!launch.getStream())
        return launch.emitOpError("expected ")
               << launch.describe() << " to have a stream; run plan-assign-streams first";
      return verifyRuntimeCall(launch);
    });
    return failure(walk.wasInterrupted());
  }
};
} // namespace
