//===- CallTable.cpp - the calls that the programs of a plan make ---------===//
#include "CallTable.h"

#include "Metadata.h"

using namespace mlir;
using namespace mlir::plan;

//===----------------------------------------------------------------------===//
// Constant data
//===----------------------------------------------------------------------===//

DataBuilder::DataBuilder(Operation *place)
    : OpBuilder(place), loc(place->getLoc()), i32(getI32Type()), i64(getI64Type()),
      ptr(LLVM::LLVMPointerType::get(place->getContext())) {}

Value DataBuilder::createInt(int64_t value, Type type) {
  return create<LLVM::ConstantOp>(loc, type ? type : i64, value);
}

Value DataBuilder::createAggregate(Type type, ArrayRef<Value> fields) {
  Value aggregate = create<LLVM::UndefOp>(loc, type);
  for (auto [index, field] : llvm::enumerate(fields))
    aggregate = create<LLVM::InsertValueOp>(loc, aggregate, field, static_cast<int64_t>(index));
  return aggregate;
}

LLVM::GlobalOp DataBuilder::createConstant(const Twine &name, Type type, function_ref<Value()> initializer) {
  auto global =
      create<LLVM::GlobalOp>(loc, type, /*isConstant=*/true, LLVM::Linkage::Internal, name.str(), Attribute());
  InsertionGuard guard(*this);
  createBlock(&global.getInitializerRegion());
  create<LLVM::ReturnOp>(loc, initializer());
  return global;
}

LLVM::GlobalOp DataBuilder::createArray(const Twine &name, DenseIntElementsAttr values) {
  Type type = values.getElementType();
  for (int64_t size : llvm::reverse(values.getType().getShape()))
    type = LLVM::LLVMArrayType::get(type, size);
  return create<LLVM::GlobalOp>(loc, type, /*isConstant=*/true, LLVM::Linkage::Internal, name.str(), values);
}

LLVM::GlobalOp DataBuilder::createText(const Twine &name, StringRef text, LLVM::Linkage linkage) {
  // LLVM's strings are not terminated.
  std::string ended(text);
  ended.push_back('\0');
  return create<LLVM::GlobalOp>(loc, LLVM::LLVMArrayType::get(getI8Type(), ended.size()), /*isConstant=*/true, linkage,
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
    Value at = builder.create<LLVM::GEPOp>(builder.loc, builder.ptr, builder.i32, block->getArgument(2),
                                           ArrayRef<LLVM::GEPArg>{place++});
    Value loaded = builder.create<LLVM::LoadOp>(builder.loc, builder.i32, at);
    return builder.create<LLVM::ZExtOp>(builder.loc, builder.i64, loaded);
  }
  Value nextEvent(bool isMoving) {
    Value event = next();
    if (!isMoving)
      return event;
    Value sum = builder.create<LLVM::AddOp>(builder.loc, block->getArgument(4), next());
    Value turn = builder.create<LLVM::URemOp>(builder.loc, sum, next());
    return builder.create<LLVM::AddOp>(builder.loc, event, turn);
  }
  Value nextBuffer(bool isMoving) {
    Value number = next();
    if (isMoving) {
      Value moved = builder.create<LLVM::URemOp>(builder.loc, block->getArgument(4), next());
      number = builder.create<LLVM::AddOp>(builder.loc, number, moved);
    }
    return builder.create<LLVM::GEPOp>(builder.loc, builder.ptr, LLVM::LLVMArrayType::get(builder.i64, kBufferWords),
                                       block->getArgument(3), ArrayRef<LLVM::GEPArg>{number});
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
                            ? builder.create<LLVM::ZeroOp>(builder.loc, builder.ptr).getResult()
                            : row.nextBuffer(llvm::is_contained(kind.moving, operand++)));
  if (kind.params)
    for (auto param : kind.params.getAsRange<TypedAttr>())
      arguments.push_back(builder.create<LLVM::ConstantOp>(builder.loc, param));
  if (kind.peer)
    arguments.push_back(builder.createInt(kind.peer.getInt()));
  if (kind.group) {
    auto index = static_cast<int64_t>(llvm::find(groups, kind.group) - groups.begin());
    arguments.push_back(builder.create<LLVM::AddressOfOp>(builder.loc, builder.ptr, getSymbol("group" + Twine(index))));
  }
  return arguments;
}

void CallTable::emitKind(DataBuilder &builder, unsigned number, const Kind &kind) {
  OpBuilder::InsertionGuard guard(builder);
  auto function = builder.create<LLVM::LLVMFuncOp>(builder.loc, getSymbol("call" + Twine(number)),
                                                   getKindFunctionType(builder), LLVM::Linkage::Internal);
  Block *block = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  SmallVector<Value> arguments = makeArguments(builder, kind, block);
  arguments.push_back(builder.createInt(kind.stream));
  LLVM::LLVMFuncOp callee = getRuntimeFunction(kind.name, ValueRange(arguments).getTypes());
  auto call = builder.create<LLVM::CallOp>(builder.loc, callee, arguments);
  builder.create<LLVM::ReturnOp>(builder.loc, call.getResult());
}

void CallTable::emitGroups(DataBuilder &builder) {
  auto type = LLVM::LLVMStructType::getLiteral(module.getContext(), {builder.ptr, builder.i64, builder.i64});
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::string symbol = getSymbol("group" + Twine(index)), nameSymbol = getSymbol("group_name" + Twine(index));
    builder.createText(nameSymbol, group.getName());
    builder.createConstant(symbol, type, [&, group = group] {
      Value name = builder.create<LLVM::AddressOfOp>(builder.loc, builder.ptr, nameSymbol);
      return builder.createAggregate(type,
                                     {name, builder.createInt(group.getSize()), builder.createInt(group.getStride())});
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
      Value function = builder.create<LLVM::AddressOfOp>(builder.loc, builder.ptr, getSymbol("call" + Twine(number)));
      entries.push_back(builder.createAggregate(
          kindType, {function, builder.createInt(kind.getRowLength()), builder.createInt(kind.isLaunch)}));
    }
    return builder.createAggregate(type, entries);
  });
}

void CallTable::emitLoop(DataBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  Type i32 = builder.i32, i64 = builder.i64, ptr = builder.ptr, kindType = getKindType(builder);
  Location loc = builder.loc;
  auto type = LLVM::LLVMFunctionType::get(i32, {ptr, ptr, ptr, ptr, i64, i64});
  auto function = builder.create<LLVM::LLVMFuncOp>(loc, getRunSymbol(), type, LLVM::Linkage::Internal);
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
  builder.create<LLVM::BrOp>(loc, ValueRange{entry->getArgument(1), entry->getArgument(4)}, head);
  builder.setInsertionPointToEnd(head);
  Value isDone = builder.create<LLVM::ICmpOp>(loc, LLVM::ICmpPredicate::eq, row, end);
  Value ok = builder.createInt(0, i32);
  builder.create<LLVM::CondBrOp>(loc, isDone, exit, ok, call, ValueRange());

  builder.setInsertionPointToEnd(call);
  Value number = builder.create<LLVM::LoadOp>(loc, i32, row);
  Value kinds = builder.create<LLVM::AddressOfOp>(loc, ptr, getSymbol("calls"));
  Value kind = builder.create<LLVM::GEPOp>(loc, ptr, kindType, kinds, ArrayRef<LLVM::GEPArg>{number});
  auto loadField = [&](Type fieldType, int32_t field) {
    Value at = builder.create<LLVM::GEPOp>(loc, ptr, kindType, kind, ArrayRef<LLVM::GEPArg>{0, field});
    return builder.create<LLVM::LoadOp>(loc, fieldType, at).getResult();
  };
  Value arguments[] = {loadField(ptr, 0), rank, op, row, buffers, iteration};
  Value status = builder.create<LLVM::CallOp>(loc, getKindFunctionType(builder), ValueRange(arguments)).getResult();
  Value hasFailed = builder.create<LLVM::ICmpOp>(loc, LLVM::ICmpPredicate::ne, status, ok);
  builder.create<LLVM::CondBrOp>(loc, hasFailed, exit, status, next, ValueRange());

  builder.setInsertionPointToEnd(next);
  Value nextRow = builder.create<LLVM::GEPOp>(loc, ptr, i32, row, ArrayRef<LLVM::GEPArg>{loadField(i64, 1)});
  Value nextOp = builder.create<LLVM::AddOp>(loc, op, loadField(i64, 2));
  builder.create<LLVM::BrOp>(loc, ValueRange{nextRow, nextOp}, head);
  builder.setInsertionPointToEnd(exit);
  builder.create<LLVM::ReturnOp>(loc, exit->getArgument(0));
}

void CallTable::emit(DataBuilder &builder) {
  emitGroups(builder);
  for (auto [number, entry] : llvm::enumerate(kinds))
    emitKind(builder, number, entry.second);
  emitKinds(builder);
  emitLoop(builder);
}
