//===- CallTable.cpp - the calls that the programs of a plan make ---------===//
#include "CallTable.h"

#include "Metadata.h"

using namespace mlir;
using namespace mlir::plan;

//===----------------------------------------------------------------------===//
// Constant data
//===----------------------------------------------------------------------===//

DataBuilder::DataBuilder(Operation *place)
    : ImplicitLocOpBuilder(place->getLoc(), place), i32(getI32Type()), i64(getI64Type()),
      ptr(LLVM::LLVMPointerType::get(place->getContext())) {}

Value DataBuilder::createInt(int64_t value, Type type) { return create<LLVM::ConstantOp>(type ? type : i64, value); }

Value DataBuilder::createBuffer(Value base, Value number, Value iteration, Value parts) {
  if (parts)
    number = create<LLVM::AddOp>(number, create<LLVM::URemOp>(iteration, parts));
  return createPlace(LLVM::LLVMArrayType::get(i64, kBufferWords), base, {number});
}

void DataBuilder::createCheck(Value status, Block *exit, Block *next) {
  Value hasFailed = create<LLVM::ICmpOp>(LLVM::ICmpPredicate::ne, status, createInt(0, i32));
  create<LLVM::CondBrOp>(hasFailed, exit, status, next, ValueRange());
}

Value DataBuilder::createAggregate(Type type, ArrayRef<Value> fields) {
  Value aggregate = create<LLVM::UndefOp>(type);
  for (auto [index, field] : llvm::enumerate(fields))
    aggregate = create<LLVM::InsertValueOp>(aggregate, field, static_cast<int64_t>(index));
  return aggregate;
}

LLVM::GlobalOp DataBuilder::createConstant(const Twine &name, Type type, function_ref<Value()> initializer) {
  auto global = create<LLVM::GlobalOp>(type, /*isConstant=*/true, LLVM::Linkage::Internal, name.str(), Attribute());
  InsertionGuard guard(*this);
  createBlock(&global.getInitializerRegion());
  create<LLVM::ReturnOp>(initializer());
  return global;
}

LLVM::GlobalOp DataBuilder::createArray(const Twine &name, DenseIntElementsAttr values) {
  Type type = values.getElementType();
  for (int64_t size : llvm::reverse(values.getType().getShape()))
    type = LLVM::LLVMArrayType::get(type, size);
  return create<LLVM::GlobalOp>(type, /*isConstant=*/true, LLVM::Linkage::Internal, name.str(), values);
}

LLVM::GlobalOp DataBuilder::createText(const Twine &name, StringRef text, LLVM::Linkage linkage) {
  // LLVM's strings are not terminated.
  std::string ended(text);
  ended.push_back('\0');
  return create<LLVM::GlobalOp>(LLVM::LLVMArrayType::get(getI8Type(), ended.size()), /*isConstant=*/true, linkage,
                                name.str(), getStringAttr(ended));
}

//===----------------------------------------------------------------------===//
// Kinds of calls
//===----------------------------------------------------------------------===//

static std::string getSymbol(const Twine &name) { return (kSymbolPrefix + name).str(); }

std::string mlir::plan::getRunSymbol() { return getSymbol("run"); }

unsigned CallTable::getLaunch(LaunchOp launch, int64_t stream, ArrayRef<int64_t> moving) {
  Kind kind{launch.getKernel().str(), stream};
  kind.isLaunch = true;
  kind.buffers = launch.getInputs().size() + launch.getOutputs().size();
  kind.absent = launch.getAbsentInputs();
  llvm::append_range(kind.moving, moving);
  kind.params = launch.getParamsAttr();
  kind.peer = launch.getPeerAttr();
  if (launch.getGroup())
    kind.group = *launch.getGroup();
  return getKind(kind);
}

unsigned CallTable::getEvent(StringRef call, int64_t stream, bool isMoving) {
  Kind kind{call.str(), stream};
  if (isMoving)
    kind.moving.push_back(0);
  return getKind(kind);
}

unsigned CallTable::getKind(const Kind &kind) {
  Builder builder(module.getContext());
  auto orNone = [&](Attribute attribute) { return attribute ? attribute : builder.getUnitAttr(); };
  Attribute key = builder.getArrayAttr(
      {builder.getStringAttr(kind.name), builder.getI64IntegerAttr(kind.stream),
       builder.getI64IntegerAttr(kind.buffers), builder.getDenseI64ArrayAttr(kind.absent),
       builder.getDenseI64ArrayAttr(kind.moving), orNone(kind.params), orNone(kind.peer), orNone(kind.group)});
  if (kind.group)
    groups.insert(kind.group);
  return kinds.insert({key, kind}).first - kinds.begin();
}

LLVM::LLVMFuncOp CallTable::getRuntimeFunction(StringRef name, TypeRange arguments) {
  LLVM::LLVMFuncOp &function = functions[name];
  if (!function) {
    auto type = LLVM::LLVMFunctionType::get(IntegerType::get(module.getContext(), 32), llvm::to_vector(arguments));
    function = OpBuilder::atBlockBegin(module.getBody())
                   .create<LLVM::LLVMFuncOp>(module.getLoc(), ("moert_" + name).str(), type);
  }
  return function;
}

namespace {
/// Reads the numbers of a row in order.
class RowReader {
public:
  RowReader(DataBuilder &builder, Block *block) : builder(builder), block(block) {}

  Value next() {
    Value at = builder.createPlace(builder.i32, block->getArgument(2), {place++});
    return builder.create<LLVM::ZExtOp>(builder.i64, builder.create<LLVM::LoadOp>(builder.i32, at));
  }
  Value nextEvent(bool isMoving) {
    Value event = next();
    if (!isMoving)
      return event;
    Value sum = builder.create<LLVM::AddOp>(block->getArgument(4), next());
    Value turn = builder.create<LLVM::URemOp>(sum, next());
    return builder.create<LLVM::AddOp>(event, turn);
  }
  Value nextBuffer(bool isMoving) {
    Value number = next(), parts = isMoving ? next() : Value();
    return builder.createBuffer(block->getArgument(3), number, block->getArgument(4), parts);
  }

private:
  DataBuilder &builder;
  Block *block;
  int32_t place = 1; ///< after the kind
};
} // namespace

/// Type of the functions of kinds. The arguments are rank, op, row, buffers and iteration.
static LLVM::LLVMFunctionType getKindFunctionType(const DataBuilder &builder) {
  return LLVM::LLVMFunctionType::get(builder.i32, {builder.ptr, builder.i64, builder.ptr, builder.ptr, builder.i64});
}

SmallVector<Value> CallTable::makeArguments(DataBuilder &builder, const Kind &kind, Block *block) {
  RowReader row(builder, block);
  SmallVector<Value> arguments = {block->getArgument(0)};
  if (!kind.isLaunch) {
    arguments.push_back(row.nextEvent(!kind.moving.empty()));
    return arguments;
  }
  arguments.push_back(block->getArgument(1));
  int64_t operand = 0;
  for (int64_t position = 0, end = kind.buffers + kind.absent.size(); position < end; ++position)
    arguments.push_back(llvm::is_contained(kind.absent, position)
                            ? Value(builder.create<LLVM::ZeroOp>(builder.ptr))
                            : row.nextBuffer(llvm::is_contained(kind.moving, operand++)));
  if (kind.params)
    for (auto param : kind.params.getAsRange<TypedAttr>())
      arguments.push_back(builder.create<LLVM::ConstantOp>(param));
  if (kind.peer)
    arguments.push_back(builder.createInt(kind.peer.getInt()));
  if (kind.group) {
    auto index = static_cast<int64_t>(llvm::find(groups, kind.group) - groups.begin());
    arguments.push_back(builder.createAddress(getSymbol("group" + Twine(index))));
  }
  return arguments;
}

void CallTable::emitKind(DataBuilder &builder, unsigned number, const Kind &kind) {
  OpBuilder::InsertionGuard guard(builder);
  auto function = builder.create<LLVM::LLVMFuncOp>(getSymbol("call" + Twine(number)), getKindFunctionType(builder),
                                                   LLVM::Linkage::Internal);
  Block *block = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  SmallVector<Value> arguments = makeArguments(builder, kind, block);
  arguments.push_back(builder.createInt(kind.stream));
  LLVM::LLVMFuncOp callee = getRuntimeFunction(kind.name, ValueRange(arguments).getTypes());
  auto call = builder.create<LLVM::CallOp>(callee, arguments);
  builder.create<LLVM::ReturnOp>(call.getResult());
}

void CallTable::emitGroups(DataBuilder &builder) {
  auto type = LLVM::LLVMStructType::getLiteral(module.getContext(), {builder.ptr, builder.i64, builder.i64});
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::string symbol = getSymbol("group" + Twine(index)), nameSymbol = getSymbol("group_name" + Twine(index));
    builder.createText(nameSymbol, group.getName());
    builder.createConstant(symbol, type, [&, group = group] {
      return builder.createAggregate(type, {builder.createAddress(nameSymbol), builder.createInt(group.getSize()),
                                            builder.createInt(group.getStride())});
    });
  }
}

/// Type of the table of kinds: function, length of the rows, and number of launches.
static Type getKindType(const DataBuilder &builder) {
  return LLVM::LLVMStructType::getLiteral(builder.getContext(), {builder.ptr, builder.i64, builder.i64});
}

void CallTable::emitKinds(DataBuilder &builder) {
  Type kindType = getKindType(builder);
  auto type = LLVM::LLVMArrayType::get(kindType, kinds.size());
  builder.createConstant(getSymbol("calls"), type, [&] {
    SmallVector<Value> entries;
    for (auto [number, entry] : llvm::enumerate(kinds)) {
      const Kind &kind = entry.second;
      Value function = builder.createAddress(getSymbol("call" + Twine(number)));
      entries.push_back(builder.createAggregate(
          kindType, {function, builder.createInt(kind.getRowLength()), builder.createInt(kind.isLaunch)}));
    }
    return builder.createAggregate(type, entries);
  });
}

void CallTable::emitLoop(DataBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  Type i32 = builder.i32, i64 = builder.i64, ptr = builder.ptr, kindType = getKindType(builder);
  Location loc = builder.getLoc();
  auto type = LLVM::LLVMFunctionType::get(i32, {ptr, ptr, ptr, ptr, i64, i64});
  auto function = builder.create<LLVM::LLVMFuncOp>(getRunSymbol(), type, LLVM::Linkage::Internal);
  Block *entry = function.addEntryBlock(builder);
  Value rank = entry->getArgument(0), end = entry->getArgument(2), buffers = entry->getArgument(3),
        iteration = entry->getArgument(5);
  Region *region = &function.getBody();
  Block *head = builder.createBlock(region, region->end(), {ptr, i64}, {loc, loc});
  Block *call = builder.createBlock(region, region->end());
  Block *next = builder.createBlock(region, region->end());
  Block *exit = builder.createBlock(region, region->end(), {i32}, {loc});
  Value row = head->getArgument(0), op = head->getArgument(1);

  builder.setInsertionPointToEnd(entry);
  builder.create<LLVM::BrOp>(ValueRange{entry->getArgument(1), entry->getArgument(4)}, head);
  builder.setInsertionPointToEnd(head);
  Value isDone = builder.create<LLVM::ICmpOp>(LLVM::ICmpPredicate::eq, row, end);
  builder.create<LLVM::CondBrOp>(isDone, exit, builder.createInt(0, i32), call, ValueRange());

  builder.setInsertionPointToEnd(call);
  Value number = builder.create<LLVM::LoadOp>(i32, row);
  Value kind = builder.createPlace(kindType, builder.createAddress(getSymbol("calls")), {number});
  auto loadField = [&](Type fieldType, int32_t field) -> Value {
    return builder.create<LLVM::LoadOp>(fieldType, builder.createPlace(kindType, kind, {0, field}));
  };
  Value arguments[] = {loadField(ptr, 0), rank, op, row, buffers, iteration};
  auto run = builder.create<LLVM::CallOp>(getKindFunctionType(builder), ValueRange(arguments));
  builder.createCheck(run.getResult(), exit, next);

  builder.setInsertionPointToEnd(next);
  Value nextRow = builder.createPlace(i32, row, {loadField(i64, 1)});
  Value nextOp = builder.create<LLVM::AddOp>(op, loadField(i64, 2));
  builder.create<LLVM::BrOp>(ValueRange{nextRow, nextOp}, head);
  builder.setInsertionPointToEnd(exit);
  builder.create<LLVM::ReturnOp>(exit->getArgument(0));
}

void CallTable::emit(DataBuilder &builder) {
  emitGroups(builder);
  for (auto [number, entry] : llvm::enumerate(kinds))
    emitKind(builder, number, entry.second);
  emitKinds(builder);
  emitLoop(builder);
}
