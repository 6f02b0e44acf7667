//===- Stages.cpp - what stages of a pipeline share -----------------------===//
#include "Stages.h"

#include "ExpertPath.h"

#include "llvm/ADT/BitVector.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"

using namespace mlir;
using namespace mlir::moe;

/// Whether an argument is an input, which differs in every micro-batch.
static bool isInput(BlockArgument argument) {
  StringRef role = getRole(argument);
  return role.empty() || role == kInputRole || role == kStepRole || role == kCotangentRole;
}

static bool makesScalars(Operation *op) {
  return llvm::all_of(op->getResultTypes(), [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() == 0;
  });
}

static bool isNextToNothing(Operation *op) { return isAlias(op) || makesScalars(op); }

llvm::DenseSet<Operation *> mlir::moe::findPortableOps(func::FuncOp function) {
  llvm::DenseSet<Operation *> portable;
  llvm::DenseSet<Value> ofInputs;
  for (BlockArgument argument : function.getArguments())
    if (isInput(argument))
      ofInputs.insert(argument);
  for (Operation &op : function.front().without_terminator()) {
    bool hasInputs = llvm::any_of(op.getOperands(), [&](Value operand) { return ofInputs.contains(operand); });
    if (hasInputs)
      ofInputs.insert(op.result_begin(), op.result_end());
    bool ofArguments = llvm::all_of(op.getOperands(), [&](Value operand) {
      return isa<BlockArgument>(operand) || portable.contains(operand.getDefiningOp());
    });
    if (ofArguments && (!hasInputs || isNextToNothing(&op)))
      portable.insert(&op);
  }
  return portable;
}

//===----------------------------------------------------------------------===//
// Cuts
//===----------------------------------------------------------------------===//

static void findCrossing(ProgramCuts &program) {
  program.crossing.assign(program.ops.size() + 1, 0);
  for (auto [number, op] : llvm::enumerate(program.ops))
    for (Value result : op->getResults()) {
      size_t last = number;
      for (Operation *user : result.getUsers())
        if (auto it = program.numbers.find(user); it != program.numbers.end())
          last = std::max(last, it->second);
      // The list has differences first.
      if (last > number) {
        program.crossing[number + 1] += getByteSize(result.getType());
        program.crossing[last + 1] -= getByteSize(result.getType());
      }
    }
  for (size_t number = 1; number < program.crossing.size(); ++number)
    program.crossing[number] += program.crossing[number - 1];
}

/// Ops that must be on one device with the op before. A sum takes the place of the value to which it adds. If several
/// sums, the phases of an exchange, take one value, so do their adjoints. Losses are added up where the last one is
/// made, so that all blocks have equally many parts.
static llvm::BitVector findTogether(const ProgramCuts &program) {
  llvm::DenseMap<Value, size_t> firstOf;
  llvm::BitVector together(program.ops.size());
  for (auto [number, op] : llvm::enumerate(program.ops)) {
    if (number > 0 && makesScalars(op))
      together.set(number);
    auto sum = dyn_cast<MoeAccumulatingOpInterface>(op);
    if (!sum)
      continue;
    together.set(firstOf.try_emplace(op->getOperand(0), number).first->second + 1, number + 1);
    if (sum.getAddendMutable().empty())
      continue;
    Operation *addend = sum.getAddendMutable()[0].get().getDefiningOp();
    if (auto maker = program.numbers.find(addend); maker != program.numbers.end())
      together.set(maker->second + 1, number + 1);
  }
  return together;
}

/// Whether an earlier op passes integers to each op or to a later one. The decisions of a routing stay where they were
/// made, so that the time of a device's work follows from its own launches.
static llvm::BitVector findDecided(const ProgramCuts &program) {
  llvm::BitVector decided(program.ops.size());
  for (auto [number, op] : llvm::enumerate(program.ops))
    for (Value result : op->getResults())
      for (Operation *user : result.getUsers())
        if (auto it = program.numbers.find(user);
            getElementTypeOrSelf(result.getType()).isInteger() && it != program.numbers.end() && it->second > number)
          decided.set(number + 1, it->second + 1);
  return decided;
}

ProgramCuts mlir::moe::findCuts(func::FuncOp function) {
  ProgramCuts program;
  llvm::DenseSet<Operation *> portable = findPortableOps(function);
  for (Operation &op : function.front().without_terminator())
    if (!portable.contains(&op)) {
      program.numbers[&op] = program.ops.size();
      program.ops.push_back(&op);
    }
  findCrossing(program);
  ArrayRef<int64_t> crossing = program.crossing;
  program.cuts.push_back(0);
  // No bytes cross before the first op and after the last.
  size_t last = program.ops.size() - 1;
  llvm::BitVector together = findTogether(program);
  together |= findDecided(program);
  for (size_t number = 1; number <= last && !program.ops.empty(); ++number)
    if (!together[number] && (number == 1 || crossing[number] <= crossing[number - 1]) &&
        (number == last || crossing[number] <= crossing[number + 1]))
      program.cuts.push_back(number);
  program.cuts.push_back(program.ops.size());
  return program;
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

OpTimer::OpTimer(func::FuncOp function) : rates(getClusterRates(function)) {
  if (auto module = function->getParentOfType<ModuleOp>())
    if (auto parallel = module->getAttrOfType<ParallelAttr>(kParallelAttrName))
      world = parallel.getWorld();
}

Lane OpTimer::getLane(Operation *op) const {
  auto priced = dyn_cast<MoeCostOpInterface>(op);
  if (!priced || op->hasAttr(kPassAttrName) || priced.getOpCost().resource != Resource::Network)
    return Lane::Computation;
  return isInsideNode(priced.getCostGroup()) ? Lane::InsideNode : Lane::BetweenNodes;
}

double OpTimer::getSeconds(Operation *op) {
  rows.visit(op);
  // Few steps have a further pass.
  if (op->hasAttr(kPassAttrName))
    return 0;
  if (auto seconds = op->getAttrOfType<FloatAttr>(kSecondsAttrName))
    return seconds.getValueAsDouble();
  auto priced = dyn_cast<MoeCostOpInterface>(op);
  if (!priced)
    return 0;
  OpCost cost = priced.getOpCost();
  double seconds = std::max(cost.flops / rates.flops, static_cast<double>(cost.getBytesMoved()) / rates.memoryBytes);
  if (cost.resource == Resource::Network) {
    GroupAttr group = priced.getCostGroup();
    seconds = static_cast<double>(cost.getBytesSent(group.getSize())) /
              (isInsideNode(group) ? rates.insideBytes : rates.outsideBytes);
  }
  return seconds * rows.getUse(op, cost);
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

llvm::StringMap<BlockArgument> mlir::moe::getNamedArguments(func::FuncOp function) {
  llvm::StringMap<BlockArgument> named;
  for (BlockArgument argument : function.getArguments())
    if (auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttrName))
      named[name] = argument;
  return named;
}

std::optional<PipelineUnit> mlir::moe::getPipelineUnit(Operation *op) {
  auto place = op->getAttrOfType<ChunkAttr>(kMicroBatchAttrName);
  auto stage = op->getAttrOfType<StageAttr>(kStageAttrName);
  if (!place && !stage)
    return std::nullopt;
  return PipelineUnit{place ? place.getIndex() : 0, stage ? stage.getIndex() : 0,
                      stage ? stage.getWork() : StageWork::forward};
}
