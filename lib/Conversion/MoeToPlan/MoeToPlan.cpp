//===- MoeToPlan.cpp - SPMD programs to plans -----------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringMap.h"

#include "moe/Conversion/Passes.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"

namespace mlir::moe {
#define GEN_PASS_DEF_CONVERTMOETOPLAN
#include "moe/Conversion/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

static MemRefType getMemRefType(Type type, Attribute space = {}) {
  auto tensor = cast<RankedTensorType>(type);
  return MemRefType::get(tensor.getShape(), tensor.getElementType(), MemRefLayoutAttrInterface(), space);
}

namespace {
class ProgramConverter {
public:
  explicit ProgramConverter(func::FuncOp function)
      : function(function), terminator(function.front().getTerminator()), builder(terminator) {}

  LogicalResult run();

private:
  LogicalResult convert(Operation *op);
  Value createBuffer(Type tensor, Location loc, plan::Space space = plan::Space::device, RingAttr ring = {});
  plan::LaunchOp createLaunch(Location loc, StringRef kernel, ValueRange inputs, ValueRange outputs, ArrayAttr params,
                              const OpCost &cost);
  plan::LaunchOp createCopy(Value from, Value to, Location loc);
  Value copyFor(Operation *op, Value from, Type tensor);
  Value createView(Value memory, moe::RankPart part, Type tensor, Location loc);
  void convertAlias(Operation *op, MoeKernelOpInterface kernel);
  void placeOperands(Operation *op);
  void placeAddends(Operation *op);
  void placeAccumulated(Operation *op);
  void copyResults(Operation *op);
  void convertRepeat(RepeatOp op);
  void launch(Operation *op, MoeKernelOpInterface kernel, ValueRange outputs);
  LogicalResult convertSignature();
  void convertReturn();

  func::FuncOp function;
  Operation *terminator;
  OpBuilder builder;
  /// Memory of each tensor.
  IRMapping memory;
  /// Parts of an op's result in which its operands are computed, by op.
  llvm::DenseMap<Operation *, SmallVector<Value>> places;
  /// Places to which a value has to be copied.
  llvm::DenseMap<Value, SmallVector<Value>> copies;
  unsigned numInputs = 0;
  /// Memory of each result of the program.
  SmallVector<BlockArgument> results;
};
} // namespace

/// Layer that an op at `loc` belongs to.
static StringAttr getLabel(Location loc) {
  auto layer = dyn_cast<NameLoc>(loc);
  return layer ? layer.getName() : StringAttr();
}

static plan::CostAttr getCost(Operation *op) {
  auto priced = dyn_cast<MoeCostOpInterface>(op);
  if (!priced)
    return {};
  return plan::CostAttr::get(op->getContext(), priced.getOpCost());
}

static ArrayAttr getCounts(Operation *op) {
  SmallVector<Attribute> rules;
  if (auto counted = dyn_cast<MoeCountsOpInterface>(op))
    for (const CountsRule &rule : counted.getCountsRules())
      rules.push_back(plan::CountsAttr::get(op->getContext(), rule));
  return rules.empty() ? ArrayAttr() : ArrayAttr::get(op->getContext(), rules);
}

void ProgramConverter::launch(Operation *op, MoeKernelOpInterface kernel, ValueRange outputs) {
  SmallVector<Value> inputs;
  SmallVector<int64_t> absent, operandOf, inPlace;
  for (auto [position, input] : llvm::enumerate(kernel.getKernelInputs())) {
    operandOf.push_back(static_cast<int64_t>(inputs.size()));
    if (input)
      inputs.push_back(memory.lookup(input));
    else
      absent.push_back(static_cast<int64_t>(position));
  }
  for (int64_t position : kernel.getInPlaceInputs())
    inPlace.push_back(operandOf[position]);
  SmallVector<Attribute> params = kernel.getKernelParams();
  std::optional<int64_t> peer = kernel.getKernelPeer();
  auto array = [&](ArrayRef<int64_t> values) {
    return values.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(values);
  };
  auto launch = builder.create<plan::LaunchOp>(
      op->getLoc(), builder.getStringAttr(kernel.getKernelName()), inputs, outputs,
      params.empty() ? ArrayAttr() : builder.getArrayAttr(params),
      kernel.isCollective() ? builder.getUnitAttr() : UnitAttr(), kernel.getKernelGroup(),
      /*stream=*/StringAttr(), getLabel(op->getLoc()), array(absent), array(inPlace), getCost(op),
      op->getAttrOfType<ChunkAttr>(kChunkAttrName), /*seconds=*/FloatAttr(),
      peer ? builder.getI64IntegerAttr(*peer) : IntegerAttr(), getCounts(op));
  inheritUnit(op, launch);
}

Value ProgramConverter::createBuffer(Type tensor, Location loc, plan::Space space, RingAttr ring) {
  auto spaceAttr = plan::SpaceAttr::get(builder.getContext(), space);
  return builder.create<plan::BufferOp>(loc, getMemRefType(tensor, spaceAttr), /*offset=*/IntegerAttr(), ring);
}

/// A call takes one part that depends on the rank. So such a part is copied before it is divided again.
Value ProgramConverter::createView(Value memory, RankPart part, Type tensor, Location loc) {
  if (auto view = memory.getDefiningOp<plan::ViewOp>(); view && view.getGroup()) {
    auto type = cast<MemRefType>(memory.getType());
    Value copy = createBuffer(RankedTensorType::get(type.getShape(), type.getElementType()), loc);
    createCopy(memory, copy, loc);
    memory = copy;
  }
  // The type of a micro-batch lacks the dimension over micro-batches.
  return builder.create<plan::ViewOp>(loc, memory, part,
                                      getMemRefType(tensor, cast<MemRefType>(memory.getType()).getMemorySpace()));
}

void ProgramConverter::convertAlias(Operation *op, MoeKernelOpInterface kernel) {
  Value source = memory.lookup(op->getOperand(0));
  for (OpResult result : op->getResults()) {
    std::optional<RankPart> part = kernel.getAliasPart(result.getResultNumber());
    // The value only fills a bucket up.
    if (part && part->at && result.use_empty())
      continue;
    memory.map(result, part ? createView(source, *part, result.getType(), op->getLoc()) : source);
  }
}

/// Whether the op's operands are adjacent parts of its result.
static bool isMadeOfOperands(MoeKernelOpInterface op) {
  return op->getNumOperands() > 0 && op->getNumResults() == 1 && op.getOperandPart(0).has_value();
}

/// Whether `value` can be computed in a place that another op chooses. An op whose operands make up its result cannot
/// have a place that depends on the rank, because it divides it further.
static bool canBePlaced(Value value, RankPart place) {
  if (value.getDefiningOp<RepeatOp>())
    return !place.group;
  auto op = value.getDefiningOp<MoeKernelOpInterface>();
  return op && !op.isAlias() && (!op.getKernelName().empty() || (isMadeOfOperands(op) && !place.group));
}

/// Gives each op whose operands make up its result its own copy of constants, just before it, because a value can have
/// only one place.
static void copyConstants(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    auto kernel = dyn_cast<MoeKernelOpInterface>(op);
    for (OpOperand &operand : op.getOpOperands()) {
      Operation *maker = operand.get().getDefiningOp();
      if (!kernel || !isMadeOfOperands(kernel) || !maker || maker->getNumOperands() > 0 || operand.get().hasOneUse())
        continue;
      Operation *own = OpBuilder(&op).clone(*maker);
      inheritUnit(&op, own);
      operand.set(own->getResult(0));
    }
  }
}

/// Notes in `memory` that operands that make up a result are computed in its parts. Must run before the ops that
/// compute them are converted. If an operand's memory belongs to another value too, the operand is copied as soon as it
/// is computed.
void ProgramConverter::placeOperands(Operation *op) {
  auto kernel = dyn_cast<MoeKernelOpInterface>(op);
  if (!kernel || !isMadeOfOperands(kernel))
    return;
  // The result may be part of another value.
  Value result = op->getResult(0);
  if (!memory.contains(result))
    memory.map(result, createBuffer(result.getType(), op->getLoc()));
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    RankPart part = *kernel.getOperandPart(operand.getOperandNumber());
    Attribute space = cast<MemRefType>(memory.lookup(result).getType()).getMemorySpace();
    places[op].push_back(
        builder.create<plan::ViewOp>(op->getLoc(), memory.lookup(result), part, getMemRefType(value.getType(), space)));
    if (canBePlaced(value, part) && !memory.contains(value))
      memory.map(value, places[op].back());
    else if (value.getDefiningOp())
      copies[value].push_back(places[op].back());
  }
}

/// Whether an op computes `value` in its own memory, and only one op uses it.
static bool isOwn(Value value) {
  Operation *op = value.getDefiningOp();
  auto kernel = dyn_cast_or_null<MoeKernelOpInterface>(op);
  bool isComputed = kernel ? !kernel.isAlias() && !isMadeOfOperands(kernel) : isa_and_nonnull<RepeatOp>(op);
  return isComputed && value.hasOneUse();
}

/// Value that an op adds to, if no other op uses it; else null.
static Value getOwnAddend(Operation *op) {
  auto accumulating = dyn_cast<MoeAccumulatingOpInterface>(op);
  if (!accumulating || accumulating.getAddendMutable().empty())
    return {};
  Value addend = accumulating.getAddendMutable()[0].get();
  return isOwn(addend) ? addend : Value();
}

/// If the place of a sum is known, its terms are added up there from the first one on.
void ProgramConverter::placeAddends(Operation *op) {
  auto place = [&](Value addend, Value sum) {
    if (addend && memory.contains(sum) && !memory.contains(addend))
      memory.map(addend, memory.lookup(sum));
  };
  if (auto repeat = dyn_cast<RepeatOp>(op))
    for (auto [init, result] : llvm::zip_equal(repeat.getCarried(), repeat.getResults()))
      place(isOwn(init) ? init : Value(), result);
  else if (op->getNumResults() > 0)
    place(getOwnAddend(op), op->getResult(0));
}

/// If an op adds to a value, its sum takes the memory of that value.
void ProgramConverter::placeAccumulated(Operation *op) {
  Value addend = getOwnAddend(op);
  if (!addend || memory.contains(op->getResult(0)))
    return;
  if (Value place = memory.lookup(addend); place.getDefiningOp<plan::BufferOp>())
    memory.map(op->getResult(0), place);
}

/// Copies results to the other places where they are needed.
void ProgramConverter::copyResults(Operation *op) {
  for (Value result : op->getResults())
    for (Value place : copies.lookup(result))
      createCopy(memory.lookup(result), place, op->getLoc());
}

/// Makes a copy that belongs to `op`.
Value ProgramConverter::copyFor(Operation *op, Value from, Type tensor) {
  Value own = createBuffer(tensor, op->getLoc());
  inheritUnit(op, createCopy(from, own, op->getLoc()));
  return own;
}

/// A carried value stays in the memory of its first value if no other op uses that, and else gets a copy.
void ProgramConverter::convertRepeat(RepeatOp op) {
  SmallVector<Value> inputs = {memory.lookup(op.getTimes())}, outputs;
  for (auto [init, result] : llvm::zip_equal(op.getCarried(), op.getResults())) {
    auto maker = init.getDefiningOp<MoeKernelOpInterface>();
    Value place = memory.lookup(init);
    bool isPlaced = memory.contains(result) && memory.lookup(result) == place;
    if (!isPlaced && (!maker || maker.isAlias() || !init.hasOneUse() || !place.getDefiningOp<plan::BufferOp>() ||
                      memory.contains(result))) {
      if (memory.contains(result))
        inheritUnit(op, createCopy(place, memory.lookup(result), op.getLoc()));
      place = memory.contains(result) ? memory.lookup(result) : copyFor(op, place, result.getType());
    }
    memory.map(result, place);
    inputs.push_back(place);
    outputs.push_back(place);
  }
  for (auto [number, input] : llvm::enumerate(op.getInputs())) {
    Value place = memory.lookup(input);
    auto view = place.getDefiningOp<plan::ViewOp>();
    auto position = static_cast<int64_t>(op.getCarried().size() + number);
    // A call takes one part that depends on the rank, and this input is such a part already.
    if (view && view.getGroup() && llvm::is_contained(op.getDivided().value_or(ArrayRef<int64_t>()), position))
      place = copyFor(op, place, input.getType());
    inputs.push_back(place);
  }
  plan::LaunchOp launch = createLaunch(op.getLoc(), plan::kRepeatKernel, inputs, outputs,
                                       builder.getI64ArrayAttr(static_cast<int64_t>(op.getMost())), OpCost());
  launch->setAttr(plan::kProgramAttrName, op.getProgramAttr());
  inheritUnit(op, launch);
  copyResults(op);
}

LogicalResult ProgramConverter::convert(Operation *op) {
  if (auto repeat = dyn_cast<RepeatOp>(op)) {
    convertRepeat(repeat);
    return success();
  }
  auto kernel = dyn_cast<MoeKernelOpInterface>(op);
  if (!kernel)
    return op->emitOpError() << "expected an op of a rank program, for which the runtime has a call";
  if (auto it = places.find(op); it != places.end()) {
    for (auto [operand, place] : llvm::zip_equal(op->getOperands(), it->second))
      if (isa<BlockArgument>(operand))
        createCopy(memory.lookup(operand), place, op->getLoc());
    copyResults(op);
    return success();
  }
  placeAccumulated(op);
  SmallVector<Value> outputs;
  if (kernel.isAlias())
    convertAlias(op, kernel);
  else
    for (Value result : op->getResults()) {
      if (!memory.contains(result))
        memory.map(result, createBuffer(result.getType(), op->getLoc(),
                                        kernel.isOnHost() ? plan::Space::host_pinned : plan::Space::device,
                                        op->getAttrOfType<RingAttr>(kRingAttrName)));
      outputs.push_back(memory.lookup(result));
    }
  if (!kernel.getKernelName().empty())
    launch(op, kernel, outputs);
  copyResults(op);
  return success();
}

plan::LaunchOp ProgramConverter::createCopy(Value from, Value to, Location loc) {
  OpCost cost;
  cost.resource = Resource::Memory;
  cost.bytesRead = cost.bytesWritten = getByteSize(to.getType());
  return createLaunch(loc, kCopyKernel, from, to, /*params=*/ArrayAttr(), cost);
}

/// Creates a launch without a group, a stream and a chunk.
plan::LaunchOp ProgramConverter::createLaunch(Location loc, StringRef kernel, ValueRange inputs, ValueRange outputs,
                                              ArrayAttr params, const OpCost &cost) {
  return builder.create<plan::LaunchOp>(
      loc, builder.getStringAttr(kernel), inputs, outputs, params, /*collective=*/UnitAttr(), GroupAttr(),
      /*stream=*/StringAttr(), getLabel(loc), /*absent=*/DenseI64ArrayAttr(), /*in_place=*/DenseI64ArrayAttr(),
      plan::CostAttr::get(builder.getContext(), cost), ChunkAttr(), /*seconds=*/FloatAttr(), /*peer=*/IntegerAttr(),
      /*counts=*/ArrayAttr());
}

static bool isAlias(Operation *op) {
  auto kernel = dyn_cast<MoeKernelOpInterface>(op);
  return kernel && kernel.isAlias();
}

/// Last op that reads `argument` or a view of it; null if none does.
static Operation *findLastReader(Value argument) {
  Operation *last = nullptr;
  SmallVector<Value> open = {argument};
  while (!open.empty())
    for (Operation *reader : open.pop_back_val().getUsers()) {
      if (isAlias(reader))
        llvm::append_range(open, reader->getResults());
      else if (!reader->hasTrait<OpTrait::IsTerminator>() && (!last || last->isBeforeInBlock(reader)))
        last = reader;
    }
  return last;
}

/// Moves the op that makes `result` in the memory of `argument` after all readers of the old value. They depend on each
/// other only by memory.
static LogicalResult moveBehindReaders(Value result, Value argument, StringRef name) {
  Operation *writer = result.getDefiningOp(), *last = findLastReader(argument);
  while (writer && isAlias(writer))
    writer = writer->getOperand(0).getDefiningOp();
  if (!writer || !last || !writer->isBeforeInBlock(last))
    return success();
  for (Operation *user : writer->getUsers())
    if (!last->isBeforeInBlock(user))
      return last->emitOpError() << "expected to read argument '" << name
                                 << "' before the result that takes its memory is used";
  writer->moveAfter(last);
  return success();
}

/// Inputs become arguments in memory of the caller. Results become further arguments, unless they update an input in
/// place.
LogicalResult ProgramConverter::convertSignature() {
  SmallVector<Type> types = llvm::to_vector(function.front().getArgumentTypes());
  llvm::append_range(types, terminator->getOperandTypes());
  for (Type type : types)
    if (auto tensor = dyn_cast<RankedTensorType>(type); !tensor || !tensor.hasStaticShape())
      return function.emitError() << "expected arguments and results to be tensors of static shape but got " << type;
  numInputs = function.getNumArguments();
  SmallVector<Value> tensors;
  for (unsigned i = 0; i < numInputs; ++i) {
    BlockArgument tensor = function.getArgument(i);
    BlockArgument memref = function.front().addArgument(getMemRefType(tensor.getType()), tensor.getLoc());
    memory.map(tensor, memref);
  }
  llvm::StringMap<BlockArgument> inputs;
  for (unsigned i = 0; i < numInputs; ++i)
    if (auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttrName))
      inputs[name.getValue()] = function.front().getArgument(numInputs + i);
  for (OpOperand &operand : terminator->getOpOperands()) {
    auto updates = function.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kUpdatesAttrName);
    BlockArgument updated = updates ? inputs.lookup(updates.getValue()) : BlockArgument();
    if (updates && (!updated || updated.getType() != getMemRefType(operand.get().getType())))
      return function.emitError() << "expected an argument '" << updates.getValue() << "' of type "
                                  << operand.get().getType() << " for the result that updates it";
    if (updated && failed(moveBehindReaders(operand.get(), function.getArgument(updated.getArgNumber() - numInputs),
                                            updates.getValue())))
      return failure();
    results.push_back(
        updated ? updated
                : function.front().addArgument(getMemRefType(operand.get().getType()), operand.get().getLoc()));
  }
  return success();
}

/// Moves all views of `value` to the caller's memory.
static void moveViews(Value value) {
  for (Operation *user : value.getUsers())
    if (auto view = dyn_cast<plan::ViewOp>(user)) {
      view.getResult().setType(MemRefType::Builder(cast<MemRefType>(view.getResult().getType())).setMemorySpace({}));
      moveViews(view.getResult());
    }
}

void ProgramConverter::convertReturn() {
  for (OpOperand &operand : terminator->getOpOperands()) {
    BlockArgument argument = results[operand.getOperandNumber()];
    Value value = memory.lookup(operand.get());
    if (auto buffer = value.getDefiningOp<plan::BufferOp>()) {
      moveViews(value);
      value.replaceAllUsesWith(argument);
      for (unsigned later = operand.getOperandNumber() + 1; later < terminator->getNumOperands(); ++later)
        if (memory.lookup(terminator->getOperand(later)) == value)
          memory.map(terminator->getOperand(later), argument);
      buffer.erase();
      continue;
    }
    // The value is an input, a part of another value, or already another result.
    createCopy(value, argument, terminator->getLoc());
  }
}

static DictionaryAttr addUpdated(DictionaryAttr attributes) {
  NamedAttrList list(attributes);
  list.set(kUpdatedAttrName, UnitAttr::get(attributes.getContext()));
  return list.getDictionary(attributes.getContext());
}

LogicalResult ProgramConverter::run() {
  if (failed(convertSignature()))
    return failure();
  copyConstants(function);
  SmallVector<Operation *> program;
  for (Operation &op : function.front().without_terminator())
    program.push_back(&op);
  // Goes backwards, because an op's place must be known before those of its operands.
  for (Operation *op : llvm::reverse(program)) {
    placeOperands(op);
    placeAddends(op);
  }
  for (Operation *op : program)
    if (failed(convert(op)))
      return failure();
  convertReturn();

  SmallVector<DictionaryAttr> attributes;
  for (unsigned i = 0; i < numInputs; ++i)
    attributes.push_back(function.getArgAttrDict(i));
  for (auto [i, result] : llvm::enumerate(results))
    if (result.getArgNumber() >= 2 * numInputs)
      attributes.push_back(function.getResultAttrDict(i));
    else
      attributes[result.getArgNumber() - numInputs] = addUpdated(attributes[result.getArgNumber() - numInputs]);
  terminator->eraseOperands(0, terminator->getNumOperands());
  for (Operation *op : llvm::reverse(program))
    op->erase();
  function.front().eraseArguments(0, numInputs);
  function.removeResAttrsAttr();
  function.removeArgAttrsAttr();
  function.setType(builder.getFunctionType(function.front().getArgumentTypes(), {}));
  function.setAllArgAttrs(attributes);
  function->setAttr(plan::kInputsAttrName, builder.getI64IntegerAttr(numInputs));
  if (Attribute ranks = function->removeAttr(kRanksAttrName))
    function->setAttr(plan::kRanksAttrName, ranks);
  return success();
}

namespace {
struct ConvertMoeToPlan : moe::impl::ConvertMoeToPlanBase<ConvertMoeToPlan> {
  using Base::Base;

  void runOnOperation() override {
    if (!getOperation().getBody().hasOneBlock()) {
      getOperation().emitError() << "expected a body of one block";
      return signalPassFailure();
    }
    if (failed(ProgramConverter(getOperation()).run()))
      signalPassFailure();
  }
};
} // namespace
