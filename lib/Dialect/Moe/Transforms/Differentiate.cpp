//===- Differentiate.cpp - append the backward program --------------------===//
//
// Reverse mode over one block. A value's cotangent has the value's own type and SPMD state. So gradient sums over ranks
// are the adjoints of the casts in the forward, and no gradient synchronisation is placed by hand. Wide gradients of
// parameters, and of values made of parameters alone, have more bits than the values.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Dialect/Moe/IR/MoeLabels.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

#include "Residuals.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEDIFFERENTIATE
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

static bool isFloating(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

/// Whether sums of values of this type have more bits.
static bool isNarrow(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && getAccumulatorTensor(tensor, tensor.getShape()) != tensor;
}

namespace {
class Differentiator {
public:
  Differentiator(func::FuncOp function, bool wideGradients)
      : function(function), terminator(function.front().getTerminator()), builder(terminator) {
    if (wideGradients)
      findWide();
  }

  LogicalResult run();

private:
  void findWide();
  bool isWide(Value value) const { return ofParameters.contains(value) && isNarrow(value.getType()); }
  SmallVector<Value> buildAdjoint(Operation *op, ValueRange cotangents);
  void widen(Operation *op, Operation *before, MutableArrayRef<Value> gradients);
  bool seedLosses();
  void addCotangentArguments();
  LogicalResult visit(Operation *op);
  void accumulate(Value value, Value gradient, Location loc, Attribute stage = {});
  Value getCotangent(Value value, Location loc);
  void addGradientResults();
  void markBackward(Operation *first);
  StringAttr getName(StringRef prefix, DictionaryAttr attributes, StringRef fallback, unsigned index);

  func::FuncOp function;
  Operation *terminator;
  OpBuilder builder;
  /// Terms that each stage adds to a value's cotangent, by value, with null for ops without a stage. A sum that went
  /// back and forth between stages would let each micro-batch wait for the others' backwards.
  llvm::DenseMap<Value, SmallVector<std::pair<Attribute, Value>, 1>> cotangents;
  unsigned numInputs = 0;
  /// Parameters and values made of them alone. Empty unless gradients are wide.
  llvm::DenseSet<Value> ofParameters;
};
} // namespace

void Differentiator::findWide() {
  for (BlockArgument argument : function.getArguments())
    if (getRole(argument) == kParameterRole)
      ofParameters.insert(argument);
  for (Operation &op : function.front().without_terminator()) {
    // Integers may say which parameters an exchange moves, such as those of shadows.
    auto kernel = dyn_cast<MoeKernelOpInterface>(op);
    bool movesSome = kernel && kernel.isCollective() && llvm::any_of(op.getOperands(), isFloating);
    if (op.getNumOperands() > 0 && llvm::all_of(op.getOperands(), [&](Value operand) {
          return ofParameters.contains(operand) || (movesSome && !isFloating(operand));
        }))
      ofParameters.insert(op.result_begin(), op.result_end());
  }
}

/// Builds the adjoint of an op. Wide cotangents are those of the same op on values of f32. Most adjoints need no more
/// of it than its types.
SmallVector<Value> Differentiator::buildAdjoint(Operation *op, ValueRange cotangents) {
  if (!ofParameters.contains(op->getResult(0)))
    return cast<MoeDifferentiableOpInterface>(op).buildAdjoint(builder, cotangents);
  IRMapping mapping;
  SmallVector<Operation *> built;
  for (Value operand : op->getOperands())
    if (isNarrow(operand.getType()) && !mapping.contains(operand)) {
      built.push_back(builder.create<CastOp>(op->getLoc(), operand, builder.getF32Type()));
      mapping.map(operand, built.back()->getResult(0));
    }
  Operation *wide = built.emplace_back(builder.clone(*op, mapping));
  for (Value result : wide->getResults())
    if (isNarrow(result.getType()))
      result.setType(getTensorType(result).clone(builder.getF32Type()));
  SmallVector<Value> gradients = cast<MoeDifferentiableOpInterface>(wide).buildAdjoint(builder, cotangents);
  for (Operation *one : llvm::reverse(built))
    if (one->use_empty())
      one->erase();
  return gradients;
}

/// Widens gradients of values that have wide ones. An op after `before` that computes such a gradient gives its sum, if
/// it can.
void Differentiator::widen(Operation *op, Operation *before, MutableArrayRef<Value> gradients) {
  // New ops are few. Operation::isBeforeInBlock() would number the whole block again after each insertion.
  auto isNew = [&](Operation *one) {
    return llvm::any_of(llvm::make_range(std::next(before->getIterator()), terminator->getIterator()),
                        [&](Operation &built) { return &built == one; });
  };
  for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), gradients)) {
    if (!gradient || !isWide(operand) || !isNarrow(gradient.getType()))
      continue;
    auto sum = gradient.getDefiningOp<MoeWideGradientOpInterface>();
    bool isOwn = sum && isNew(sum) && gradient.use_empty() && llvm::count(gradients, gradient) == 1;
    Value wide = isOwn ? sum.buildWide(builder) : Value();
    if (wide)
      sum->erase();
    gradient = wide ? wide : builder.create<CastOp>(op->getLoc(), gradient, builder.getF32Type()).getResult();
  }
}

/// Name of a value of the backward, by the name of the argument or result that it belongs to.
StringAttr Differentiator::getName(StringRef prefix, DictionaryAttr attributes, StringRef fallback, unsigned index) {
  auto name = attributes ? attributes.getAs<StringAttr>(kNameAttrName) : StringAttr();
  return builder.getStringAttr(prefix + (name ? name.str() : fallback.str() + std::to_string(index)));
}

/// Seeds the cotangents of losses, which are 1. Other results have none. Returns whether there is a loss.
bool Differentiator::seedLosses() {
  bool any = false;
  for (OpOperand &operand : terminator->getOpOperands()) {
    if (getRole(operand) != kLossRole)
      continue;
    Location loc = operand.get().getLoc();
    accumulate(operand.get(), builder.create<FillOp>(loc, operand.get().getType(), builder.getF64FloatAttr(1)), loc);
    any = true;
  }
  return any;
}

void Differentiator::addCotangentArguments() {
  for (OpOperand &operand : terminator->getOpOperands()) {
    if (!isFloating(operand.get()))
      continue;
    unsigned index = operand.getOperandNumber();
    DictionaryAttr attributes = function.getResultAttrDict(index);
    unsigned position = function.getNumArguments();
    function.insertArgument(position, operand.get().getType(),
                            describeValue(getName("cotangent.", attributes, "result", index), kCotangentRole,
                                          function.getResultAttr(index, kLayoutAttrName)),
                            operand.get().getLoc());
    accumulate(operand.get(), function.getArgument(position), operand.get().getLoc());
  }
}

void Differentiator::accumulate(Value value, Value gradient, Location loc, Attribute stage) {
  SmallVector<std::pair<Attribute, Value>, 1> &terms = cotangents[value];
  auto *term = llvm::find_if(terms, [&](const auto &one) { return one.first == stage; });
  if (term == terms.end())
    terms.emplace_back(stage, gradient);
  else
    term->second = builder.create<AddOp>(loc, term->second, gradient);
}

/// Cotangent of all stages, or null if there is none.
Value Differentiator::getCotangent(Value value, Location loc) {
  auto it = cotangents.find(value);
  if (it == cotangents.end())
    return {};
  Value sum;
  for (auto [stage, part] : it->second)
    sum = sum ? builder.create<AddOp>(loc, sum, part) : part;
  cotangents.erase(it);
  return sum;
}

/// Location of a backward op: its forward op's layer, marked.
Location mlir::moe::getBackwardLoc(Operation *op) {
  auto layer = dyn_cast<NameLoc>(op->getLoc());
  if (!layer)
    return op->getLoc();
  return NameLoc::get(StringAttr::get(op->getContext(), layer.getName().getValue() + kBackwardSuffix),
                      layer.getChildLoc());
}

/// Puts gradients of a ring's values in a ring of their own.
static void setGradientRings(Operation *op, ValueRange gradients) {
  for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), gradients)) {
    Operation *primal = operand.getDefiningOp(), *built = gradient ? gradient.getDefiningOp() : nullptr;
    auto kernel = dyn_cast_or_null<MoeKernelOpInterface>(built);
    if (auto ring = primal && kernel && !kernel.isAlias() ? primal->getAttrOfType<RingAttr>(kRingAttrName) : RingAttr())
      built->setAttr(kRingAttrName, RingAttr::get(op->getContext(), (ring.getName() + ".grad").str(), ring.getDepth()));
  }
}

/// Puts ops that are derived from a further pass of a layer in another further pass, in the backward.
static void inheritPass(Operation *op, Operation *built) {
  if (auto pass = op->getAttrOfType<StringAttr>(kPassAttrName))
    built->setAttr(kPassAttrName, StringAttr::get(op->getContext(), pass.getValue() + ".grad"));
}

LogicalResult Differentiator::visit(Operation *op) {
  if (llvm::none_of(op->getResults(), [&](Value result) { return cotangents.contains(result); }))
    return success();
  if (!isa<MoeDifferentiableOpInterface>(op))
    return op->emitOpError() << "expected a differentiable op of an SPMD program: a gradient reaches it";
  Operation *before = terminator->getPrevNode();
  Location loc = getBackwardLoc(op);
  auto results = llvm::map_to_vector(op->getResults(), [&](Value result) { return getCotangent(result, loc); });
  SmallVector<Value> gradients = buildAdjoint(op, results);
  gradients.resize(op->getNumOperands());
  widen(op, before, gradients);
  for (Operation *built = before->getNextNode(); built != terminator; built = built->getNextNode()) {
    built->setLoc(loc);
    inheritPlace(op, built);
    inheritPass(op, built);
  }
  setGradientRings(op, gradients);
  Operation *last = terminator->getPrevNode();
  for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), gradients))
    if (gradient)
      accumulate(operand, gradient, loc, op->getAttr(kStageAttrName));
  // Sums may add up several chunks.
  for (Operation *sum = last->getNextNode(); sum != terminator; sum = sum->getNextNode()) {
    inheritUnit(op, sum);
    inheritPass(op, sum);
  }
  return success();
}

void Differentiator::addGradientResults() {
  for (unsigned i = 0; i < numInputs; ++i) {
    BlockArgument argument = function.getArgument(i);
    Value gradient = getCotangent(argument, argument.getLoc());
    if (!gradient)
      continue;
    terminator->insertOperands(terminator->getNumOperands(), gradient);
    function.insertResult(function.getNumResults(), gradient.getType(),
                          describeValue(getName("grad.", function.getArgAttrDict(i), "argument", i), kGradientRole,
                                        function.getArgAttr(i, kLayoutAttrName)));
  }
}

/// Marks the ops of the backward, with those that it computes again, as the backward of their stage.
void Differentiator::markBackward(Operation *first) {
  for (Operation *op = first; op != terminator; op = op->getNextNode())
    if (auto stage = op->getAttrOfType<StageAttr>(kStageAttrName))
      op->setAttr(kStageAttrName, StageAttr::get(function.getContext(), stage.getIndex(), StageWork::backward));
}

LogicalResult Differentiator::run() {
  SmallVector<Operation *> forward;
  for (Operation &op : function.front().without_terminator())
    forward.push_back(&op);
  numInputs = function.getNumArguments();
  if (!seedLosses())
    addCotangentArguments();
  for (Operation *op : llvm::reverse(forward))
    if (failed(visit(op)))
      return failure();
  addGradientResults();
  provideResiduals(forward, terminator);
  if (!forward.empty())
    markBackward(forward.back()->getNextNode());
  return success();
}

namespace {
struct MoeDifferentiate : moe::impl::MoeDifferentiateBase<MoeDifferentiate> {
  using Base::Base;

  void runOnOperation() override {
    if (!getOperation().getBody().hasOneBlock()) {
      getOperation().emitError() << "expected a body of one block";
      return signalPassFailure();
    }
    if (failed(Differentiator(getOperation(), wideGradients).run()))
      signalPassFailure();
  }
};
} // namespace
