//===- OutlinePasses.cpp - moe-outline-passes -----------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

#include "ExpertPath.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEOUTLINEPASSES
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// The ops of a pass, in program order.
using PassOps = llvm::SetVector<Operation *>;

/// Functions of passes, without duplicates.
class Functions {
public:
  explicit Functions(ModuleOp module) : module(module) {}
  /// Name of the function of the module that is like `function`. Expects a function that is not in the module yet.
  FlatSymbolRefAttr add(func::FuncOp function);

private:
  ModuleOp module;
  llvm::DenseMap<llvm::hash_code, SmallVector<func::FuncOp, 1>> known; ///< by the hash of their ops
  int64_t count = 0;
};

class Outliner {
public:
  Outliner(const PassOps &ops, Functions &functions) : ops(ops), functions(functions) {}
  LogicalResult run();

private:
  LogicalResult findCarried();
  LogicalResult addCarried(OpOperand &from, Value to);
  void findInputs();
  LogicalResult moveUsers();
  func::FuncOp build();
  int64_t countMost() const;
  bool isInside(Operation *op) const { return ops.contains(op); }

  const PassOps &ops;
  Functions &functions;
  WindowOp window;
  /// Values from outside, and the sums that replace them.
  llvm::SmallMapVector<Value, Value, 8> carried;
  llvm::SetVector<Value> inputs;
  SmallVector<int64_t> divided;
};
} // namespace

/// Hash of a function without its operands.
static llvm::hash_code getHash(func::FuncOp function) {
  llvm::hash_code hash = llvm::hash_value(function.getFunctionType().getAsOpaquePointer());
  for (Operation &op : function.front())
    hash = llvm::hash_combine(hash, OperationEquivalence::computeHash(&op, OperationEquivalence::ignoreHashValue,
                                                                      OperationEquivalence::ignoreHashValue,
                                                                      OperationEquivalence::IgnoreLocations));
  return hash;
}

static bool isAlike(func::FuncOp a, func::FuncOp b) {
  return a.getFunctionType() == b.getFunctionType() && a.getArgAttrsAttr() == b.getArgAttrsAttr() &&
         a.getResAttrsAttr() == b.getResAttrsAttr() &&
         OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

FlatSymbolRefAttr Functions::add(func::FuncOp function) {
  SmallVector<func::FuncOp, 1> &same = known[getHash(function)];
  for (func::FuncOp other : same)
    if (isAlike(function, other)) {
      function.erase();
      return FlatSymbolRefAttr::get(other);
    }
  function.setName(("subprogram" + Twine(count++)).str());
  module.push_back(function);
  same.push_back(function);
  return FlatSymbolRefAttr::get(function);
}

LogicalResult Outliner::addCarried(OpOperand &from, Value to) {
  bool isAlone = llvm::count_if(from.get().getUsers(), [&](Operation *user) { return isInside(user); }) == 1 &&
                 llvm::none_of(to.getUsers(), [&](Operation *user) { return isInside(user); });
  if (!isAlone || !carried.insert({from.get(), to}).second)
    return to.getDefiningOp()->emitOpError("expected a sum of a pass of rows to be the only op of the pass that uses "
                                           "it, and what it adds to");
  return success();
}

/// The value from outside to which `op` adds a result of the pass. Chunks add one after the other.
static OpOperand *findAddend(Operation *op, function_ref<bool(Value)> isOutside) {
  if (auto sum = dyn_cast<MoeAccumulatingOpInterface>(op)) {
    if (sum.getAddendMutable().empty())
      return nullptr;
    OpOperand &addend = sum.getAddendMutable()[0];
    if (isOutside(addend.get()))
      return &addend;
    return addend.get().hasOneUse() ? findAddend(addend.get().getDefiningOp(), isOutside) : nullptr;
  }
  if (!isa<AddOp>(op) || isOutside(op->getOperand(0)) == isOutside(op->getOperand(1)))
    return nullptr;
  return &op->getOpOperand(isOutside(op->getOperand(0)) ? 0 : 1);
}

LogicalResult Outliner::findCarried() {
  auto isOutside = [&](Value value) { return !value.getDefiningOp() || !isInside(value.getDefiningOp()); };
  for (Operation *op : ops) {
    if (auto its = dyn_cast<WindowOp>(op)) {
      if (window || !its.getBefore() || !isOutside(its.getBefore()))
        return op->emitOpError("expected one moe.window in a pass of rows, of a pass behind the first one");
      window = its;
      if (failed(addCarried(its.getBeforeMutable()[0], its.getLeft())))
        return failure();
    }
    bool isUsedOutside = llvm::any_of(op->getUsers(), [&](Operation *user) { return !isInside(user); });
    OpOperand *addend = isUsedOutside ? findAddend(op, isOutside) : nullptr;
    if (isUsedOutside && !addend)
      return op->emitOpError("expected what a pass of rows gives to others to be a sum with a value from outside");
    if (addend && failed(addCarried(*addend, op->getResult(0))))
      return failure();
  }
  return window ? success() : ops.front()->emitOpError("expected a moe.window in a pass of rows");
}

void Outliner::findInputs() {
  for (Operation *op : ops)
    for (Value operand : op->getOperands()) {
      bool isInner = operand.getDefiningOp() && isInside(operand.getDefiningOp());
      if (isInner || carried.contains(operand))
        continue;
      inputs.insert(operand);
    }
  for (auto [number, input] : llvm::enumerate(inputs))
    if (llvm::any_of(input.getUsers(), [&](Operation *user) { return isInside(user) && isAlias(user); }))
      divided.push_back(static_cast<int64_t>(carried.size() + number));
}

/// Moves users of results of the pass after all of its ops.
LogicalResult Outliner::moveUsers() {
  llvm::SetVector<Operation *> users;
  for (Operation *op = ops.front(); op != ops.back(); op = op->getNextNode()) {
    bool isUser = llvm::any_of(op->getOperands(), [&](Value operand) {
      Operation *maker = operand.getDefiningOp();
      return maker && (users.contains(maker) || (!isInside(op) && isInside(maker)));
    });
    if (isUser && isInside(op))
      return op->emitOpError("expected no op of a pass of rows to depend on what the pass gives to others");
    if (isUser)
      users.insert(op);
  }
  for (Operation *op : llvm::reverse(users))
    op->moveAfter(ops.back());
  return success();
}

int64_t Outliner::countMost() const {
  WindowOp its = window;
  int64_t most = its.getSizes().countMostPasses(its.getSlots().getType(), its.getGroup().getSize(),
                                                its.getCounts().getType().getDimSize(1));
  return std::max<int64_t>(1, most - 1);
}

func::FuncOp Outliner::build() {
  MLIRContext *context = window.getContext();
  Builder attributes(context);
  Location loc = UnknownLoc::get(context);
  SmallVector<Type> arguments, results;
  for (auto [from, to] : carried)
    arguments.push_back(from.getType());
  results = arguments;
  for (Value input : inputs)
    arguments.push_back(input.getType());
  auto function = func::FuncOp::create(loc, "subprogram", FunctionType::get(context, arguments, results));
  function.setPrivate();
  function->setAttr("plan.subprogram", attributes.getUnitAttr());
  Block *block = function.addEntryBlock();
  IRMapping mapping;
  for (auto [number, pair] : llvm::enumerate(carried)) {
    mapping.map(pair.first, block->getArgument(number));
    auto name = attributes.getStringAttr("carried" + Twine(number));
    function.setArgAttr(number, kNameAttrName, name);
    function.setResultAttr(number, kUpdatesAttrName, name);
  }
  for (auto [number, input] : llvm::enumerate(inputs))
    mapping.map(input, block->getArgument(carried.size() + number));
  auto builder = OpBuilder::atBlockBegin(block);
  for (Operation *op : ops) {
    Operation *copy = builder.clone(*op, mapping);
    copy->setLoc(loc);
    NamedAttrList kept(copy->getDiscardableAttrDictionary());
    for (StringRef name :
         {kPassAttrName, kMicroBatchAttrName, kStageAttrName, kResidualAttrName, kRepeatedAttrName, kSecondsAttrName})
      kept.erase(name);
    copy->setDiscardableAttrs(kept.getDictionary(context));
  }
  SmallVector<Value> sums;
  for (auto [from, to] : carried)
    sums.push_back(mapping.lookup(to));
  builder.create<func::ReturnOp>(loc, sums);
  return function;
}

LogicalResult Outliner::run() {
  if (failed(findCarried()) || failed(moveUsers()))
    return failure();
  findInputs();
  OpBuilder builder(ops.back()->getContext());
  builder.setInsertionPointAfter(ops.back());
  SmallVector<Value> inits, sums;
  for (auto [from, to] : carried) {
    inits.push_back(from);
    sums.push_back(to);
  }
  Value times = window.getBefore();
  Operation *last = ops.back();
  auto repeat = builder.create<RepeatOp>(last->getLoc(), ValueRange(inits).getTypes(), functions.add(build()), times,
                                         builder.getI64IntegerAttr(countMost()), inits, inputs.getArrayRef(),
                                         divided.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(divided));
  inheritUnit(last, repeat);
  for (auto [sum, result] : llvm::zip_equal(sums, repeat.getResults()))
    sum.replaceUsesWithIf(result, [&](OpOperand &use) { return !isInside(use.getOwner()); });
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  return success();
}

namespace {
struct MoeOutlinePasses : moe::impl::MoeOutlinePassesBase<MoeOutlinePasses> {
  using Base::Base;

  void runOnOperation() override {
    Functions functions(getOperation());
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      if (function.isExternal() || !function.getBody().hasOneBlock())
        continue;
      llvm::MapVector<std::pair<Attribute, Attribute>, PassOps> passes;
      for (Operation &op : function.front())
        if (Attribute pass = op.getAttr(kPassAttrName))
          passes[{pass, op.getAttr(kMicroBatchAttrName)}].insert(&op);
      for (auto &[key, ops] : passes)
        if (failed(Outliner(ops, functions).run()))
          return signalPassFailure();
    }
  }
};
} // namespace
