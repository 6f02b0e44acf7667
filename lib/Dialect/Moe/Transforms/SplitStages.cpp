//===- SplitStages.cpp - a program for each device of a pipeline ----------===//
#include "Stages.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallBitVector.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOESPLITSTAGES
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Program of one device.
struct DeviceProgram {
  func::FuncOp function;
  OpBuilder builder;
  IRMapping mapping;
};

class StageSplitter {
public:
  StageSplitter(func::FuncOp whole, GroupAttr pipeline, int64_t ranks)
      : whole(whole), pipeline(pipeline), ranks(ranks), portable(findPortableOps(whole)),
        arguments(getNamedArguments(whole)) {
    if (auto devices = whole->getAttrOfType<DenseI64ArrayAttr>(kStageDevicesAttrName))
      llvm::append_range(stageDevices, devices.asArrayRef());
    whole->removeAttr(kStageDevicesAttrName);
  }

  void run();

private:
  int64_t chooseDevice(Operation *op) const;
  void assignDevices();
  bool require(Value value, int64_t device);
  void requireAll();
  llvm::SmallBitVector getResultDevices(OpOperand &result);
  void createPrograms();
  void emit(Operation &op);
  void transfer(Value value, int64_t from, int64_t to);
  void finish(DeviceProgram &program);

  /// Device that makes a value, or none if each device that needs it has or makes it.
  std::optional<int64_t> getMaker(Value value) const {
    auto it = value.getDefiningOp() ? devices.find(value.getDefiningOp()) : devices.end();
    return it == devices.end() ? std::nullopt : std::optional<int64_t>(it->second);
  }

  func::FuncOp whole;
  GroupAttr pipeline;
  int64_t ranks;
  llvm::DenseSet<Operation *> portable;
  SmallVector<int64_t> stageDevices; ///< device by stage; empty: in turn
  /// Device of each op that is not portable.
  llvm::DenseMap<Operation *, int64_t> devices;
  llvm::StringMap<BlockArgument> arguments;
  /// Devices that need a value, by value.
  llvm::DenseMap<Value, llvm::SmallBitVector> needs;
  std::vector<DeviceProgram> programs;
};
} // namespace

static int64_t getNumElements(Value value) { return getTensorType(value).getNumElements(); }

/// Device of an op's stage. An op without a stage, such as one that adds up results of two stages or updates a
/// parameter, goes to the device of its largest operand, so that the least is moved, and of the last one of equal
/// operands.
int64_t StageSplitter::chooseDevice(Operation *op) const {
  if (auto stage = op->getAttrOfType<StageAttr>(kStageAttrName))
    return stageDevices.empty() ? stage.getIndex() % pipeline.getSize() : stageDevices[stage.getIndex()];
  std::pair<int64_t, int64_t> most = {-1, pipeline.getSize() - 1};
  for (Value operand : op->getOperands())
    if (std::optional<int64_t> maker = getMaker(operand))
      most = std::max(most, {getNumElements(operand), *maker});
  return most.second;
}

void StageSplitter::assignDevices() {
  for (Operation &op : whole.front().without_terminator())
    if (!portable.contains(&op))
      devices[&op] = chooseDevice(&op);
}

/// Returns whether that is new.
bool StageSplitter::require(Value value, int64_t device) {
  bool changed = false;
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    llvm::SmallBitVector &set = needs.try_emplace(next, pipeline.getSize()).first->second;
    if (set.test(device))
      continue;
    set.set(device);
    changed = true;
    if (Operation *op = next.getDefiningOp(); op && portable.contains(op)) {
      llvm::append_range(open, op->getOperands());
      llvm::append_range(open, op->getResults());
    }
  }
  return changed;
}

/// Devices of a result. An update of an argument is a result wherever the argument is.
llvm::SmallBitVector StageSplitter::getResultDevices(OpOperand &result) {
  llvm::SmallBitVector set(pipeline.getSize());
  if (auto updates = whole.getResultAttrOfType<StringAttr>(result.getOperandNumber(), kUpdatesAttrName))
    if (auto it = needs.find(arguments.lookup(updates.getValue())); it != needs.end())
      set = it->second;
  if (set.none())
    set.set(getMaker(result.get()).value_or(pipeline.getSize() - 1));
  return set;
}

void StageSplitter::requireAll() {
  for (auto [op, device] : devices)
    for (Value operand : op->getOperands())
      require(operand, device);
  // One result may need a value that another one updates.
  for (bool changed = true; changed;) {
    changed = false;
    for (OpOperand &result : whole.front().getTerminator()->getOpOperands()) {
      llvm::SmallBitVector resultDevices = getResultDevices(result);
      for (int device : resultDevices.set_bits())
        changed |= require(result.get(), device);
    }
  }
}

void StageSplitter::createPrograms() {
  int64_t share = ranks / pipeline.getSize();
  OpBuilder builder(whole);
  for (int64_t device = 0; device < pipeline.getSize(); ++device) {
    auto function =
        builder.create<func::FuncOp>(whole.getLoc(), "stage" + std::to_string(device), whole.getFunctionType());
    // Attributes of the whole program are set once.
    if (device == 0)
      function->setDiscardableAttrs(whole->getDiscardableAttrDictionary());
    function->setAttr(kRanksAttrName, builder.getDenseI64ArrayAttr({device * share, share}));
    function.setAllArgAttrs(llvm::map_to_vector(llvm::seq<unsigned>(0, whole.getNumArguments()),
                                                [&](unsigned i) { return whole.getArgAttrDict(i); }));
    Block *body = function.addEntryBlock();
    DeviceProgram &program = programs.emplace_back(DeviceProgram{function, OpBuilder::atBlockEnd(body), {}});
    program.mapping.map(whole.getArguments(), body->getArguments());
  }
}

void StageSplitter::transfer(Value value, int64_t from, int64_t to) {
  DeviceProgram &sender = programs[from], &receiver = programs[to];
  auto send = sender.builder.create<SendOp>(value.getLoc(), sender.mapping.lookup(value), pipeline, to);
  auto receive = receiver.builder.create<ReceiveOp>(value.getLoc(), value.getType(), pipeline, from);
  // Transfers have no chunk, since orders of a layer's chunks leave them in place.
  for (Operation *op : {send.getOperation(), receive.getOperation()})
    inheritUnit(value.getDefiningOp(), op);
  receiver.mapping.map(value, receive.getResult());
}

/// Emits ops in the program's order, so that both ends of each transfer are in one order.
void StageSplitter::emit(Operation &op) {
  auto maker = devices.find(&op);
  if (maker != devices.end()) {
    DeviceProgram &program = programs[maker->second];
    program.builder.clone(op, program.mapping);
  }
  llvm::SmallBitVector emitted(pipeline.getSize());
  for (Value result : op.getResults()) {
    auto set = needs.find(result);
    if (set == needs.end())
      continue;
    for (int device : set->second.set_bits()) {
      if (maker == devices.end() && !emitted.test(device))
        programs[device].builder.clone(op, programs[device].mapping);
      else if (maker != devices.end() && maker->second != device)
        transfer(result, maker->second, device);
      emitted.set(device);
    }
  }
}

/// Finishes a program: it gets its results, and loses unused arguments. Arguments that no device uses stay on the
/// first.
void StageSplitter::finish(DeviceProgram &program) {
  func::FuncOp function = program.function;
  int64_t device = &program - programs.data();
  Operation *terminator = whole.front().getTerminator();
  SmallVector<Value> results;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (OpOperand &operand : terminator->getOpOperands()) {
    if (!getResultDevices(operand).test(device))
      continue;
    results.push_back(program.mapping.lookup(operand.get()));
    types.push_back(operand.get().getType());
    attributes.push_back(whole.getResultAttrDict(operand.getOperandNumber()));
  }
  program.builder.create<func::ReturnOp>(terminator->getLoc(), results);
  function.setFunctionType(FunctionType::get(function.getContext(), function.getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);
  llvm::BitVector unused(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (argument.use_empty() && (device > 0 || !whole.getArgument(argument.getArgNumber()).use_empty()))
      unused.set(argument.getArgNumber());
  function.eraseArguments(unused);
}

void StageSplitter::run() {
  assignDevices();
  requireAll();
  createPrograms();
  for (Operation &op : whole.front().without_terminator())
    emit(op);
  for (DeviceProgram &program : programs)
    finish(program);
  whole.erase();
}

/// Checks that moe.stage_devices, if it exists, has a member of the pipeline for each stage.
static LogicalResult checkDevices(func::FuncOp function, int64_t size) {
  auto devices = function->getAttrOfType<DenseI64ArrayAttr>(kStageDevicesAttrName);
  if (!devices)
    return success();
  int64_t stages = 0;
  for (Operation &op : function.front())
    if (auto stage = op.getAttrOfType<StageAttr>(kStageAttrName))
      stages = std::max(stages, stage.getIndex() + 1);
  auto isMember = [&](int64_t device) { return device >= 0 && device < size; };
  if (devices.size() >= stages && llvm::all_of(devices.asArrayRef(), isMember))
    return success();
  return function.emitError() << "expected '" << kStageDevicesAttrName << "' to have a device from 0 to " << size - 1
                              << " for each of " << stages << " stages but got " << devices;
}

namespace {
struct MoeSplitStages : moe::impl::MoeSplitStagesBase<MoeSplitStages> {
  using Base::Base;

  void runOnOperation() override {
    ParallelAttr parallel = getParallel(getOperation());
    if (!parallel)
      return signalPassFailure();
    GroupAttr pipeline = parallel.getGroup("pp");
    if (pipeline.getSize() == 1)
      return;
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (!function.getBody().hasOneBlock()) {
        function.emitError() << "expected a body of one block";
        return signalPassFailure();
      }
      if (failed(checkDevices(function, pipeline.getSize())))
        return signalPassFailure();
      // The reference has a world of its own.
      if (!function->hasAttr(kParallelAttrName))
        StageSplitter(function, pipeline, parallel.getWorld()).run();
    }
  }
};
} // namespace
