//===- PlanToLLVM.cpp - convert-plan-to-llvm ------------------------------===//
//
// Each rank program becomes a function and constant data: rows for ops, and buffers in the layout of moert.h. The code
// is made to compile fast, not to run fast, because it only enqueues. The variants of a plan of several shapes become
// one flat module.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Threading.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

#include "CallTable.h"
#include "Choose.h"
#include "Metadata.h"
#include "RuntimeCalls.h"
#include "moe/Conversion/Passes.h"
#include "moe/Conversion/Variants.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/Subprograms.h"

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
  /// Emits before `place`, with symbols that begin with `prefix`. Calls become kinds of `calls`.
  ProgramEmitter(func::FuncOp program, Operation *place, StringRef prefix, CallTable &calls);
  void emit();

private:
  /// Fields of moert_buffer that describe a view.
  struct Part {
    int64_t parts = 0, shift = 0, stride = 1, begin = 0;
    auto operator<=>(const Part &) const = default;
  };
  /// Fields of moert_buffer: space, dtype, offset, shape, and those of the view.
  using BufferKey = std::tuple<int32_t, int32_t, int64_t, std::vector<int64_t>, Part>;

  /// Rows of ops (CallTable.h) that run in order, once or as often as a value says at run time.
  struct Segment {
    int64_t begin, firstOp;
    int64_t end = 0;
    LoopOp loop = {};   ///< loop with such a value; null for one run
    unsigned times = 0; ///< number of the value's buffer in the first iteration of an outer loop
    int64_t parts = 1;  ///< number of its buffers, one for each iteration in turn
  };
  /// Segments that run in order, `count` times.
  struct Iterated {
    int64_t count;
    SmallVector<Segment> segments;
  };

  void addSegments(Block::iterator begin, Block::iterator end, int64_t count);
  void addSegment(Block::iterator begin, Block::iterator end, LoopOp loop, Iterated &iterated);
  template <class EventOp> void addEvent(StringRef call, EventOp op);
  void addLaunch(LaunchOp launch);
  /// Buffer of `value`. `iteration` is the iteration of the loop around the view, or the number of iterations before
  /// `value` after the loop.
  BufferKey getKey(Value value, int64_t iteration);
  std::vector<BufferKey> getKeys(Value value, int64_t first, int64_t count);
  void addBuffers(ArrayRef<BufferKey> keys);
  unsigned getTurns(Value value, ViewOp moving);
  unsigned getBuffers(Value value, ViewOp moving);
  void createBufferTable();
  void emitCall(StringRef function, ValueRange arguments, Block *&block, Block *exit);
  void emitRows(const Segment &segment, Value iteration, Block *&block, Block *exit);
  void emitRepeated(const Segment &segment, Value iteration, Block *&block, Block *exit);
  void emitIterated(const Iterated &iterated, Block *&block, Block *exit);

  func::FuncOp program;
  CallTable &calls;
  DataBuilder builder;
  std::string symbol;
  llvm::StringMap<int64_t> streams;
  std::vector<int32_t> rows;
  SmallVector<Iterated> iterated;
  Value timesOut; ///< place where the runtime writes the runs of a segment
  int64_t nextOp = 0;
  int64_t done = 0; ///< iterations of the loop before the present ops
  /// Numbers of the buffers of consecutive iterations.
  std::map<std::vector<BufferKey>, unsigned> buffers;
  /// Numbers of the buffers of views that go from part to part, by the first two parts and the number of parts.
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

/// View in a loop that moves, among the views that make up `value`; null if there is none.
static ViewOp getMovingView(Value value) {
  for (auto view = value.getDefiningOp<ViewOp>(); view; view = view.getSource().getDefiningOp<ViewOp>())
    if (view.getStep() && view->getParentOfType<LoopOp>())
      return view;
  return {};
}

void ProgramEmitter::emit() {
  Block &ops = program.getBody().front();
  Block::iterator begin = ops.begin();
  for (auto loop : llvm::make_early_inc_range(ops.getOps<LoopOp>())) {
    if (loop.getTimes())
      continue;
    Block &body = loop.getBody().front();
    addSegments(begin, loop->getIterator(), 1);
    addSegments(body.begin(), body.end(), loop.getCount());
    begin = std::next(loop->getIterator());
    done = loop.getCount();
  }
  addSegments(begin, ops.end(), 1);
  auto function = builder.create<LLVM::LLVMFuncOp>(symbol, LLVM::LLVMFunctionType::get(builder.i32, {builder.ptr}));
  Block *block = function.addEntryBlock(builder);
  Block *exit = builder.createBlock(&function.getBody(), {}, {builder.i32}, {builder.getLoc()});
  builder.create<LLVM::ReturnOp>(exit->getArgument(0));
  builder.setInsertionPoint(function);
  // An empty array has no address.
  if (rows.empty())
    rows.push_back(0);
  auto rowsType = RankedTensorType::get({static_cast<int64_t>(rows.size())}, builder.i32);
  builder.createArray(symbol + "_rows", DenseIntElementsAttr::get(rowsType, ArrayRef(rows)));
  createBufferTable();
  builder.setInsertionPointToEnd(block);
  timesOut = builder.create<LLVM::AllocaOp>(builder.ptr, builder.i64, builder.createInt(1));
  for (const Iterated &one : iterated)
    emitIterated(one, block, exit);
  builder.setInsertionPointToEnd(block);
  builder.create<LLVM::BrOp>(builder.createInt(0, builder.i32), exit);
}

void ProgramEmitter::addSegments(Block::iterator begin, Block::iterator end, int64_t count) {
  Iterated one{count, {}};
  for (auto at = begin; at != end; ++at) {
    auto loop = dyn_cast<LoopOp>(*at);
    if (!loop)
      continue;
    Block &body = loop.getBody().front();
    addSegment(begin, at, {}, one);
    addSegment(body.begin(), body.end(), loop, one);
    begin = std::next(at);
  }
  addSegment(begin, end, {}, one);
  if (!one.segments.empty())
    iterated.push_back(std::move(one));
}

void ProgramEmitter::addSegment(Block::iterator begin, Block::iterator end, LoopOp loop, Iterated &one) {
  Segment segment{static_cast<int64_t>(rows.size()), nextOp};
  for (Operation &op : llvm::make_range(begin, end))
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](LaunchOp launch) { addLaunch(launch); })
        .Case([&](RecordOp record) { addEvent("record", record); })
        .Case([&](WaitOp wait) { addEvent("wait", wait); });
  segment.end = rows.size();
  if (segment.end == segment.begin)
    return;
  if ((segment.loop = loop)) {
    ViewOp moving = getMovingView(loop.getTimes());
    segment.times = getBuffers(loop.getTimes(), moving);
    segment.parts = moving ? moving.getParts() : 1;
  }
  one.segments.push_back(segment);
}

/// Emits a call at the end of `block`, which becomes the block after it.
void ProgramEmitter::emitCall(StringRef function, ValueRange arguments, Block *&block, Block *exit) {
  auto call = builder.create<LLVM::CallOp>(TypeRange(builder.i32), function, arguments);
  Block *last = std::exchange(block, builder.createBlock(exit));
  builder.setInsertionPointToEnd(last);
  builder.createCheck(call.getResult(), exit, block);
  builder.setInsertionPointToEnd(block);
}

void ProgramEmitter::emitRows(const Segment &segment, Value iteration, Block *&block, Block *exit) {
  Value table = builder.createAddress(symbol + "_rows");
  Value begin = builder.createPlace(builder.i32, table, {builder.createInt(segment.begin)});
  Value end = builder.createPlace(builder.i32, table, {builder.createInt(segment.end)});
  Value known = builder.createAddress(symbol + "_buffers");
  Value arguments[] = {block->getParent()->getArgument(0), begin,    end, known,
                       builder.createInt(segment.firstOp), iteration};
  emitCall(getRunSymbol(), arguments, block, exit);
}

/// Asks the runtime for the number of runs of the rows, and tells it the number of each run.
void ProgramEmitter::emitRepeated(const Segment &segment, Value iteration, Block *&block, Block *exit) {
  Value rank = block->getParent()->getArgument(0);
  Value number = builder.createInt(segment.times);
  Value parts = segment.parts > 1 ? builder.createInt(segment.parts) : Value();
  Value buffer = builder.createBuffer(builder.createAddress(symbol + "_buffers"), number, iteration, parts);
  Value most = builder.createInt(LoopOp(segment.loop).getCount());
  Value ask[] = {rank, buffer, most, builder.createInt(streams.lookup(kComputeStream)), timesOut};
  emitCall(calls.getRuntimeFunction("repeat", ValueRange(ArrayRef(ask)).getTypes()).getName(), ask, block, exit);
  Value times = builder.create<LLVM::LoadOp>(builder.i64, timesOut);
  StringRef note = calls.getRuntimeFunction("iteration", {builder.ptr, builder.i64}).getName();

  Block *before = block, *head = builder.createBlock(exit, {builder.i64}, {builder.getLoc()});
  block = builder.createBlock(exit);
  Block *after = builder.createBlock(exit);
  builder.setInsertionPointToEnd(before);
  builder.create<LLVM::BrOp>(builder.createInt(0), head);
  builder.setInsertionPointToEnd(head);
  Value time = head->getArgument(0);
  Value isDone = builder.create<LLVM::ICmpOp>(LLVM::ICmpPredicate::eq, time, times);
  builder.create<LLVM::CondBrOp>(isDone, after, block);
  builder.setInsertionPointToEnd(block);
  emitCall(note, {rank, time}, block, exit);
  emitRows(segment, iteration, block, exit);
  Value following = builder.create<LLVM::AddOp>(time, builder.createInt(1));
  builder.create<LLVM::BrOp>(following, head);
  after->moveBefore(exit);
  builder.setInsertionPointToEnd(block = after);
  emitCall(note, {rank, builder.createInt(-1)}, block, exit);
}

/// Emits after `block`, which becomes the block after the segments.
void ProgramEmitter::emitIterated(const Iterated &one, Block *&block, Block *exit) {
  Block *head = builder.createBlock(exit, {builder.i64}, {builder.getLoc()});
  builder.setInsertionPointToEnd(block);
  builder.create<LLVM::BrOp>(builder.createInt(0), head);
  builder.setInsertionPointToEnd(block = head);
  Value iteration = head->getArgument(0);
  for (const Segment &segment : one.segments)
    segment.loop ? emitRepeated(segment, iteration, block, exit) : emitRows(segment, iteration, block, exit);
  Value following = builder.create<LLVM::AddOp>(iteration, builder.createInt(1));
  Value goesOn = builder.create<LLVM::ICmpOp>(LLVM::ICmpPredicate::ne, following, builder.createInt(one.count));
  Block *last = block;
  block = builder.createBlock(exit);
  builder.setInsertionPointToEnd(last);
  builder.create<LLVM::CondBrOp>(goesOn, head, following, block, ValueRange());
  builder.setInsertionPointToEnd(block);
}

template <class EventOp> void ProgramEmitter::addEvent(StringRef call, EventOp op) {
  bool isMoving = op.getTurns() && op->template getParentOfType<LoopOp>();
  rows.push_back(calls.getEvent(call, streams.lookup(op.getStream()), isMoving));
  rows.push_back(isMoving ? op.getEvent() : op.getEventAt(done));
  if (isMoving)
    llvm::append_range(rows,
                       ArrayRef<int32_t>{static_cast<int32_t>(*op.getShift()), static_cast<int32_t>(*op.getTurns())});
}

void ProgramEmitter::addLaunch(LaunchOp launch) {
  SmallVector<int64_t> moving;
  for (auto [number, value] : llvm::enumerate(launch.getOperands()))
    if (getMovingView(value))
      moving.push_back(number);
  rows.push_back(calls.getLaunch(launch, streams.lookup(launch.getStreamOrDefault()), moving));
  ++nextOp;
  for (Value value : launch.getOperands()) {
    ViewOp view = getMovingView(value);
    rows.push_back(getBuffers(value, view));
    if (view)
      rows.push_back(view.getParts());
  }
}

ProgramEmitter::BufferKey ProgramEmitter::getKey(Value value, int64_t iteration) {
  auto type = cast<MemRefType>(value.getType());
  auto dtype = int32_t{getDType(type.getElementType())};
  Part part;
  for (auto view = value.getDefiningOp<ViewOp>(); view; view = view.getSource().getDefiningOp<ViewOp>()) {
    if (std::optional<moe::GroupAttr> group = view.getGroup()) {
      part.parts = view.getParts();
      part.shift = view.getShift();
      // A part belongs to neighbouring members.
      part.stride = group->getStride() * (group->getSize() / part.parts);
    } else {
      // This is the whole part of one part, because the argument may be larger.
      part.parts = std::max<int64_t>(part.parts, 1);
      part.begin += view.getOwnOffset(/*rank=*/0, iteration);
    }
  }
  Value memory = getMemory(value);
  if (auto argument = dyn_cast<BlockArgument>(memory))
    return {MOERT_SPACE_ARGUMENT, dtype, argument.getArgNumber(), type.getShape().vec(), part};
  auto buffer = memory.getDefiningOp<BufferOp>();
  int64_t offset = *buffer.getOffset() + std::exchange(part.begin, 0);
  return {static_cast<int32_t>(buffer.getSpace()), dtype, offset, type.getShape().vec(), part};
}

/// Buffers of `value` in `count` iterations from `first` on.
std::vector<ProgramEmitter::BufferKey> ProgramEmitter::getKeys(Value value, int64_t first, int64_t count) {
  std::vector<BufferKey> keys;
  for (int64_t iteration = first; iteration < first + count; ++iteration)
    keys.push_back(getKey(value, iteration));
  return keys;
}

void ProgramEmitter::addBuffers(ArrayRef<BufferKey> keys) {
  for (const auto &[space, dtype, offset, shape, part] : keys) {
    SmallVector<int64_t, 4> dims(shape.begin(), shape.end());
    dims.resize(4, 0);
    // The first word of a moert_buffer has two fields.
    llvm::append_range(bufferWords,
                       ArrayRef<int64_t>{int64_t{dtype} << 32 | space, offset, static_cast<int64_t>(shape.size())});
    llvm::append_range(bufferWords, dims);
    llvm::append_range(bufferWords, ArrayRef<int64_t>{part.parts, part.shift, part.stride, part.begin});
  }
}

/// Number of the first buffer of a view of a ring, which goes from slot to slot. The table has all slots twice, so any
/// slot can be the first.
unsigned ProgramEmitter::getTurns(Value value, ViewOp moving) {
  int64_t parts = moving.getParts(), shift = moving.getShift();
  // The first two parts determine the others.
  auto [it, isNew] = turns.try_emplace({getKeys(value, parts - shift, 2), parts}, bufferWords.size() / kBufferWords);
  if (isNew)
    addBuffers(getKeys(value, parts - shift, 2 * parts - 1));
  return it->second + shift;
}

/// Number of the first buffer of `value`. There is one buffer, or one for each part if `moving` moves it.
unsigned ProgramEmitter::getBuffers(Value value, ViewOp moving) {
  if (auto known = bufferOf.find(value); known != bufferOf.end())
    return known->second;
  // Views of arguments have no turns. Their parts are the inputs of micro-batches.
  if (moving && moving.getStep() == 1 && !isa<BlockArgument>(getMemory(value)))
    return bufferOf[value] = getTurns(value, moving);
  std::vector<BufferKey> keys = moving ? getKeys(value, 0, moving.getParts()) : getKeys(value, done, 1);
  auto [it, isNew] = buffers.try_emplace(keys, bufferWords.size() / kBufferWords);
  if (isNew)
    addBuffers(keys);
  return bufferOf[value] = it->second;
}

void ProgramEmitter::createBufferTable() {
  if (bufferWords.empty())
    bufferWords.resize(kBufferWords);
  auto type =
      RankedTensorType::get({static_cast<int64_t>(bufferWords.size()) / kBufferWords, kBufferWords}, builder.i64);
  builder.createArray(symbol + "_buffers", DenseIntElementsAttr::get(type, ArrayRef(bufferWords)));
}

namespace {
struct ConvertPlanToLLVM : public moe::impl::ConvertPlanToLLVMBase<ConvertPlanToLLVM> {
  void runOnOperation() override {
    ModuleOp plan = getOperation();
    if (failed(checkVariants(plan)))
      return signalPassFailure();
    SmallVector<ModuleOp> variants = getVariants(plan);
    for (ModuleOp module : variants.empty() ? ArrayRef(plan) : ArrayRef(variants))
      if (failed(inlineSubprograms(module, Inlined::Repeatedly)))
        return signalPassFailure();
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
      ProgramEmitter(program, program, getProgramPrefix(), calls).emit();
      program.erase();
    }
    for (auto [index, variant] : llvm::enumerate(variants)) {
      for (func::FuncOp program : getPrograms(variant))
        ProgramEmitter(program, variant, getProgramPrefix(index), calls).emit();
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
    if (failed(verifyRankProgram(program)) || failed(verifyStreams(program)))
      return failure();
    WalkResult walk = program.walk([](LaunchOp launch) -> WalkResult { return verifyRuntimeCall(launch); });
    if (walk.wasInterrupted())
      return failure();
    for (auto buffer : program.getOps<BufferOp>())
      if (!buffer.getOffset())
        return buffer.emitOpError("expected an offset; run plan-assign-memory first");
    return success();
  }
};
} // namespace
