//===- PlanToLLVM.cpp - convert-plan-to-llvm ------------------------------===//
//
// Each rank program becomes one function, a chain of runtime calls, and constant data in the layout of moert.h. The
// code is meant to be compiled fast, not to be fast: it only enqueues. The variants of a plan of several shapes become
// one flat module.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

#include <map>

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

/// The functions of moert.h that a module calls.
class RuntimeFunctions {
public:
  explicit RuntimeFunctions(ModuleOp module) : module(module) {}

  /// The function moert_`name`, declared on first use.
  LLVM::LLVMFuncOp get(StringRef name, TypeRange arguments);

private:
  ModuleOp module;
  llvm::StringMap<LLVM::LLVMFuncOp> functions;
};

/// Emits one rank program.
class ProgramEmitter {
public:
  /// Emits before `place`, with symbols that begin with `prefix`.
  ProgramEmitter(func::FuncOp program, Operation *place, StringRef prefix, RuntimeFunctions &runtime);
  LogicalResult emit();

private:
  /// A buffer as moert_buffer has it: space, dtype, offset, shape, and parts, shift, stride.
  /// The part of moert_buffer that is a view's.
  struct Part {
    int64_t parts = 0, shift = 0, stride = 1, begin = 0;
    auto operator<=>(const Part &) const = default;
  };
  using BufferKey = std::tuple<int32_t, int32_t, int64_t, std::vector<int64_t>, Part>;

  LogicalResult emitOp(Operation &op);
  LogicalResult emitLaunch(LaunchOp launch);
  void emitCall(StringRef name, ArrayRef<Value> arguments, Location loc);
  FailureOr<BufferKey> getKey(Value value);
  FailureOr<Value> getBuffer(Value value, LaunchOp user);
  Value getGroup(moe::GroupAttr group, Location loc);
  void createBufferTable();
  void createGroupTable(Location loc);

  LLVM::GlobalOp createGlobal(const Twine &name, Type type, Location loc, function_ref<Value()> initializer);
  Value createInt(Location loc, int64_t value) { return builder.create<LLVM::ConstantOp>(loc, i64, value); }
  /// Inserts `fields` into a struct or array of type `type`, in order.
  Value createAggregate(Location loc, Type type, ArrayRef<Value> fields);

  func::FuncOp program;
  RuntimeFunctions &runtime;
  OpBuilder builder;
  std::string symbol;
  Type i32, i64, ptr;
  Type bufferType, groupType;
  Block *exit = nullptr;
  Value rank;
  int64_t nextOp = 0;
  llvm::StringMap<int64_t> streams;
  std::map<BufferKey, unsigned> buffers;
  std::vector<std::pair<BufferKey, Location>> bufferList;
  llvm::DenseMap<Value, unsigned> bufferOf;
  SmallVector<moe::GroupAttr> groups;
};

} // namespace

LLVM::LLVMFuncOp RuntimeFunctions::get(StringRef name, TypeRange arguments) {
  LLVM::LLVMFuncOp &function = functions[name];
  if (!function) {
    auto type = LLVM::LLVMFunctionType::get(IntegerType::get(module.getContext(), 32), llvm::to_vector(arguments));
    function = OpBuilder::atBlockBegin(module.getBody())
                   .create<LLVM::LLVMFuncOp>(module.getLoc(), ("moert_" + name).str(), type);
  }
  return function;
}

ProgramEmitter::ProgramEmitter(func::FuncOp program, Operation *place, StringRef prefix, RuntimeFunctions &runtime)
    : program(program), runtime(runtime), builder(place), symbol((prefix + program.getName()).str()) {
  MLIRContext *context = program.getContext();
  i32 = builder.getI32Type();
  i64 = builder.getI64Type();
  ptr = LLVM::LLVMPointerType::get(context);
  bufferType = LLVM::LLVMStructType::getLiteral(
      context, {i32, i32, i64, i64, LLVM::LLVMArrayType::get(i64, 4), i64, i64, i64, i64});
  groupType = LLVM::LLVMStructType::getLiteral(context, {ptr, i64, i64});
  for (auto [number, stream] : llvm::enumerate(getStreams(program)))
    streams[stream] = number;
}

LogicalResult ProgramEmitter::emit() {
  Location loc = program.getLoc();
  auto function = builder.create<LLVM::LLVMFuncOp>(loc, symbol, LLVM::LLVMFunctionType::get(i32, {ptr}));
  Block *entry = function.addEntryBlock(builder);
  rank = entry->getArgument(0);
  exit = builder.createBlock(&function.getBody(), {}, {i32}, {loc});
  builder.create<LLVM::ReturnOp>(loc, exit->getArgument(0));
  builder.setInsertionPointToEnd(entry);
  for (Operation &op : program.getOps())
    if (failed(emitOp(op)))
      return failure();
  Value ok = builder.create<LLVM::ConstantOp>(loc, i32, 0);
  builder.create<LLVM::BrOp>(loc, ok, exit);
  builder.setInsertionPoint(function);
  createBufferTable();
  createGroupTable(loc);
  return success();
}

LogicalResult ProgramEmitter::emitOp(Operation &op) {
  if (auto launch = dyn_cast<LaunchOp>(op))
    return emitLaunch(launch);
  Location loc = op.getLoc();
  if (auto record = dyn_cast<RecordOp>(op))
    emitCall("record", {rank, createInt(loc, record.getEvent()), createInt(loc, streams.lookup(record.getStream()))},
             loc);
  if (auto wait = dyn_cast<WaitOp>(op))
    emitCall("wait", {rank, createInt(loc, wait.getEvent()), createInt(loc, streams.lookup(wait.getStream()))}, loc);
  return success();
}

LogicalResult ProgramEmitter::emitLaunch(LaunchOp launch) {
  Location loc = launch.getLoc();
  SmallVector<Value> arguments = {rank, createInt(loc, nextOp++)};
  auto inputs = launch.getInputs().begin();
  ArrayRef<int64_t> absent = launch.getAbsentInputs();
  SmallVector<Value> buffers;
  for (int64_t position = 0, end = launch.getInputs().size() + absent.size(); position < end; ++position)
    buffers.push_back(llvm::is_contained(absent, position) ? Value() : *inputs++);
  llvm::append_range(buffers, launch.getOutputs());
  for (Value buffer : buffers) {
    FailureOr<Value> address = buffer ? getBuffer(buffer, launch) : builder.create<LLVM::ZeroOp>(loc, ptr).getResult();
    if (failed(address))
      return failure();
    arguments.push_back(*address);
  }
  if (ArrayAttr params = launch.getParamsAttr())
    for (auto param : params.getAsRange<TypedAttr>())
      arguments.push_back(builder.create<LLVM::ConstantOp>(loc, param));
  if (std::optional<int64_t> peer = launch.getPeer())
    arguments.push_back(createInt(loc, *peer));
  if (launch.getGroup())
    arguments.push_back(getGroup(*launch.getGroup(), loc));
  arguments.push_back(createInt(loc, streams.lookup(launch.getStreamOrDefault())));
  emitCall(launch.getKernel(), arguments, loc);
  return success();
}

void ProgramEmitter::emitCall(StringRef name, ArrayRef<Value> arguments, Location loc) {
  LLVM::LLVMFuncOp callee = runtime.get(name, ValueRange(arguments).getTypes());
  Value status = builder.create<LLVM::CallOp>(loc, callee, arguments).getResult();
  Value zero = builder.create<LLVM::ConstantOp>(loc, i32, 0);
  Value failed = builder.create<LLVM::ICmpOp>(loc, LLVM::ICmpPredicate::ne, status, zero);
  Block *here = builder.getInsertionBlock();
  Block *next = builder.createBlock(exit);
  builder.setInsertionPointToEnd(here);
  builder.create<LLVM::CondBrOp>(loc, failed, exit, ValueRange(status), next, ValueRange());
  builder.setInsertionPointToEnd(next);
}

FailureOr<ProgramEmitter::BufferKey> ProgramEmitter::getKey(Value value) {
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
      part.begin += static_cast<int64_t>(view.getShift()) * getByteSize(cast<MemRefType>(view.getResult().getType()));
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

FailureOr<Value> ProgramEmitter::getBuffer(Value value, LaunchOp user) {
  auto known = bufferOf.find(value);
  if (known == bufferOf.end()) {
    FailureOr<BufferKey> key = getKey(value);
    if (failed(key))
      return failure();
    auto [it, inserted] = buffers.try_emplace(*key, bufferList.size());
    if (inserted)
      bufferList.push_back({*key, value.getLoc()});
    known = bufferOf.try_emplace(value, it->second).first;
  }
  std::string name = symbol + "_buffer" + std::to_string(known->second);
  return builder.create<LLVM::AddressOfOp>(user.getLoc(), ptr, name).getResult();
}

Value ProgramEmitter::getGroup(moe::GroupAttr group, Location loc) {
  int32_t index = llvm::find(groups, group) - groups.begin();
  if (static_cast<size_t>(index) == groups.size())
    groups.push_back(group);
  Value table = builder.create<LLVM::AddressOfOp>(loc, ptr, symbol + "_groups");
  return builder.create<LLVM::GEPOp>(loc, ptr, groupType, table, ArrayRef<LLVM::GEPArg>{index});
}

Value ProgramEmitter::createAggregate(Location loc, Type type, ArrayRef<Value> fields) {
  Value aggregate = builder.create<LLVM::UndefOp>(loc, type);
  for (auto [index, field] : llvm::enumerate(fields))
    aggregate = builder.create<LLVM::InsertValueOp>(loc, aggregate, field, static_cast<int64_t>(index));
  return aggregate;
}

LLVM::GlobalOp ProgramEmitter::createGlobal(const Twine &name, Type type, Location loc,
                                            function_ref<Value()> initializer) {
  auto global =
      builder.create<LLVM::GlobalOp>(loc, type, /*isConstant=*/true, LLVM::Linkage::Internal, name.str(), Attribute());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&global.getInitializerRegion());
  builder.create<LLVM::ReturnOp>(loc, initializer());
  return global;
}

void ProgramEmitter::createBufferTable() {
  auto dimsType = LLVM::LLVMArrayType::get(i64, 4);
  for (auto [index, entry] : llvm::enumerate(bufferList)) {
    const auto &[key, loc] = entry;
    const auto &[space, dtype, offset, shape, part] = key;
    SmallVector<int64_t, 4> dims(shape.begin(), shape.end());
    int64_t dimCount = dims.size();
    dims.resize(4, 0);
    createGlobal(symbol + "_buffer" + Twine(index), bufferType, loc,
                 [&, loc = loc, space = space, dtype = dtype, offset = offset, part = part] {
                   Value fields[] = {builder.create<LLVM::ConstantOp>(loc, i32, space),
                                     builder.create<LLVM::ConstantOp>(loc, i32, dtype),
                                     createInt(loc, offset),
                                     createInt(loc, dimCount),
                                     builder.create<LLVM::ConstantOp>(loc, dimsType, builder.getI64TensorAttr(dims)),
                                     createInt(loc, part.parts),
                                     createInt(loc, part.shift),
                                     createInt(loc, part.stride),
                                     createInt(loc, part.begin)};
                   return createAggregate(loc, bufferType, fields);
                 });
  }
}

void ProgramEmitter::createGroupTable(Location loc) {
  if (groups.empty())
    return;
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::string text = group.getName().str() + '\0';
    builder.create<LLVM::GlobalOp>(loc, LLVM::LLVMArrayType::get(builder.getI8Type(), text.size()),
                                   /*isConstant=*/true, LLVM::Linkage::Internal,
                                   symbol + "_group" + std::to_string(index), builder.getStringAttr(text));
  }
  auto tableType = LLVM::LLVMArrayType::get(groupType, groups.size());
  createGlobal(symbol + "_groups", tableType, loc, [&] {
    SmallVector<Value> rows;
    for (auto [index, group] : llvm::enumerate(groups)) {
      Value name = builder.create<LLVM::AddressOfOp>(loc, ptr, symbol + "_group" + std::to_string(index));
      rows.push_back(
          createAggregate(loc, groupType, {name, createInt(loc, group.getSize()), createInt(loc, group.getStride())}));
    }
    return createAggregate(loc, tableType, rows);
  });
}

namespace {
struct ConvertPlanToLLVM : public moe::impl::ConvertPlanToLLVMBase<ConvertPlanToLLVM> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp plan = getOperation();
    if (failed(checkVariants(plan)))
      return signalPassFailure();
    SmallVector<ModuleOp> variants = getVariants(plan);
    for (ModuleOp module : variants.empty() ? ArrayRef(plan) : ArrayRef(variants))
      for (func::FuncOp program : getPrograms(module))
        if (failed(check(program)))
          return signalPassFailure();
    FailureOr<std::string> metadata = buildMetadata(plan);
    if (failed(metadata))
      return signalPassFailure();
    if (!variants.empty())
      emitChoose(plan);
    RuntimeFunctions runtime(plan);
    for (func::FuncOp program : getPrograms(plan)) {
      if (failed(ProgramEmitter(program, program, getProgramPrefix(), runtime).emit()))
        return signalPassFailure();
      program.erase();
    }
    for (auto [index, variant] : llvm::enumerate(variants)) {
      for (func::FuncOp program : getPrograms(variant))
        if (failed(ProgramEmitter(program, variant, getProgramPrefix(index), runtime).emit()))
          return signalPassFailure();
      variant.erase();
    }
    emitMetadata(plan, *metadata);
  }

  static SmallVector<func::FuncOp> getPrograms(ModuleOp module) {
    return llvm::to_vector(llvm::make_filter_range(module.getOps<func::FuncOp>(), isRankProgram));
  }

  LogicalResult check(func::FuncOp program) {
    if (failed(verifyRankProgram(program)))
      return failure();
    for (auto launch : program.getOps<LaunchOp>())
      if (!launch.getStream())
        return launch.emitOpError("expected ")
               << launch.describe() << " to have a stream; run plan-assign-streams first";
      else if (failed(verifyRuntimeCall(launch)))
        return failure();
    return success();
  }

  void emitMetadata(ModuleOp module, const std::string &metadata) {
    auto builder = OpBuilder::atBlockEnd(module.getBody());
    std::string text = metadata + '\0';
    builder.create<LLVM::GlobalOp>(module.getLoc(), LLVM::LLVMArrayType::get(builder.getI8Type(), text.size()),
                                   /*isConstant=*/true, LLVM::Linkage::External, (kSymbolPrefix + "metadata").str(),
                                   builder.getStringAttr(text));
  }
};
} // namespace
