//===- Optimize.cpp - the optimizer's step --------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEOPTIMIZE
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// A parameter that has a gradient. A rank updates its whole part of it.
struct Parameter {
  BlockArgument argument;
  std::string name;
  LayoutAttr layout;
  Value gradient;
  AxisSet varies;
  double decay = 0;
};

class StepBuilder {
public:
  StepBuilder(func::FuncOp function, const MoeOptimizeOptions &options, ParallelAttr parallel, SpmdAxes axes)
      : function(function), terminator(function.front().getTerminator()), builder(terminator), options(options),
        parallel(parallel), axes(std::move(axes)) {}

  LogicalResult run();

private:
  double getDecay(BlockArgument argument);
  LogicalResult collect();
  Value cast(Value value, Type elementType) { return builder.createOrFold<CastOp>(loc, value, elementType); }

  Value findOrAddScalar(StringRef name, StringRef role, Type elementType);
  Value addState(const Parameter &parameter, StringRef suffix, Type type);
  void addResult(Value value, StringRef name, StringRef role, LayoutAttr layout, StringRef updates = "");
  Value sumSquares();
  Value getFactor();
  void update(const Parameter &parameter, Value rate, Value step, Value factor);
  /// Returns the parameter after the step, and adds the results of states.
  Value applySgd(const Parameter &parameter, Value param, Value rate, Value factor);
  Value applyAdam(const Parameter &parameter, Value param, Value rate, Value step, Value factor);

  func::FuncOp function;
  Operation *terminator;
  OpBuilder builder;
  const MoeOptimizeOptions &options;
  ParallelAttr parallel;
  SpmdAxes axes;
  SmallVector<Parameter> parameters;
  /// Type of the computation: f32 for parameters of 16 bits.
  Type elementType;
  Location loc = builder.getUnknownLoc();
};
} // namespace

static std::string getName(func::FuncOp function, unsigned argument) {
  auto name = function.getArgAttrOfType<StringAttr>(argument, kNameAttrName);
  return name ? name.str() : "argument" + std::to_string(argument);
}

/// Rate of decay. Vectors (biases, gains of norms) do not decay, and neither do the experts' biases, which are
/// matrices. A bucket decays unless it is marked.
double StepBuilder::getDecay(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  bool isVector = getTensorType(argument).getRank() < 2;
  bool isBucket = static_cast<bool>(function.getArgAttr(number, kPiecesAttrName));
  return (isVector && !isBucket) || function.getArgAttr(number, kNoDecayAttrName) ? 0 : options.decay;
}

/// Takes the gradients of parameters from the results.
LogicalResult StepBuilder::collect() {
  llvm::StringMap<unsigned> gradients;
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    if (auto name = function.getResultAttrOfType<StringAttr>(index, kNameAttrName))
      gradients[name.getValue()] = index;
  llvm::BitVector updated(function.getNumResults());
  for (BlockArgument argument : function.getArguments()) {
    std::string name = getName(function, argument.getArgNumber());
    auto gradient = gradients.find("grad." + name);
    if (getRole(argument) != kParameterRole || gradient == gradients.end())
      continue;
    auto layout = function.getArgAttrOfType<LayoutAttr>(argument.getArgNumber(), kLayoutAttrName);
    if (!layout)
      layout = LayoutAttr::get(function.getContext(), getTensorType(argument).getRank());
    FailureOr<AxisSet> varies = axes.getAxes(layout);
    if (failed(varies))
      return function.emitError() << "expected the groups of the layout of '" << name << "' to be groups of "
                                  << parallel;
    updated.set(gradient->second);
    parameters.push_back(
        {argument, name, layout, terminator->getOperand(gradient->second), *varies, getDecay(argument)});
  }
  if (parameters.empty())
    return function.emitError() << "expected gradients of parameters among the results; run moe-differentiate first";
  terminator->eraseOperands(updated);
  function.eraseResults(updated);
  elementType = getAccumulatorType(getElementTypeOrSelf(parameters.front().argument));
  return success();
}

/// States of a bucket's pieces, named like those of parameters. Null for a parameter that is no bucket.
static ArrayAttr describePieces(OpBuilder &builder, ArrayAttr pieces, StringRef suffix, Type elementType) {
  if (!pieces)
    return {};
  SmallVector<Attribute> states;
  for (auto piece : pieces.getAsRange<DictionaryAttr>()) {
    auto type = mlir::cast<RankedTensorType>(piece.getAs<TypeAttr>("type").getValue());
    StringAttr name = builder.getStringAttr(piece.getAs<StringAttr>(kNameAttrName).getValue() + suffix);
    NamedAttrList state(describeValue(name, kStateRole, piece.get(kLayoutAttrName)));
    state.set("at", piece.get("at"));
    state.set("type", TypeAttr::get(type.clone(elementType)));
    states.push_back(state.getDictionary(builder.getContext()));
  }
  return builder.getArrayAttr(states);
}

Value StepBuilder::findOrAddScalar(StringRef name, StringRef role, Type type) {
  for (BlockArgument argument : function.getArguments())
    if (getName(function, argument.getArgNumber()) == name)
      return argument;
  unsigned position = function.getNumArguments();
  function.insertArgument(position, RankedTensorType::get({}, type),
                          describeValue(builder.getStringAttr(name), role, LayoutAttr::get(function.getContext(), 0)),
                          loc);
  return function.getArgument(position);
}

Value StepBuilder::addState(const Parameter &parameter, StringRef suffix, Type type) {
  unsigned position = function.getNumArguments();
  ArrayAttr pieces =
      describePieces(builder, function.getArgAttrOfType<ArrayAttr>(parameter.argument.getArgNumber(), kPiecesAttrName),
                     suffix, getElementTypeOrSelf(type));
  StringAttr name = builder.getStringAttr(parameter.name + suffix);
  function.insertArgument(position, type, describeValue(name, kStateRole, parameter.layout, "", pieces), loc);
  return function.getArgument(position);
}

void StepBuilder::addResult(Value value, StringRef name, StringRef role, LayoutAttr layout, StringRef updates) {
  terminator->insertOperands(terminator->getNumOperands(), value);
  function.insertResult(function.getNumResults(), value.getType(),
                        describeValue(builder.getStringAttr(name), role, layout, updates));
}

/// Adds up the squares of all gradients, each element once. Squares of sharded gradients are added up over their
/// shards.
Value StepBuilder::sumSquares() {
  auto scalar = RankedTensorType::get({}, elementType);
  llvm::MapVector<uint64_t, Value> sums;
  for (const Parameter &parameter : parameters) {
    Value squares = builder.create<SumSquaresOp>(loc, scalar, parameter.gradient);
    Value &sum = sums[parameter.varies.bits];
    sum = sum ? builder.create<AddOp>(loc, sum, squares).getResult() : squares;
  }
  Value total;
  for (auto &[bits, sum] : sums) {
    for (GroupAttr group : axes.getGroups(AxisSet{bits}))
      sum = builder.create<AllReduceOp>(loc, scalar, sum, Value(), group);
    total = total ? builder.create<AddOp>(loc, total, sum).getResult() : sum;
  }
  return total;
}

Value StepBuilder::getFactor() {
  if (options.clipNorm <= 0)
    return {};
  Value squares = sumSquares();
  addResult(builder.create<SquareRootOp>(loc, squares.getType(), squares), "gradient_norm", kMetricRole,
            LayoutAttr::get(function.getContext(), 0));
  return builder.create<ClipFactorOp>(loc, squares.getType(), squares, APFloat(options.clipNorm));
}

Value StepBuilder::applySgd(const Parameter &parameter, Value param, Value rate, Value factor) {
  Type type = param.getType();
  Value velocity = addState(parameter, ".velocity", type);
  auto sgd = builder.create<SgdOp>(loc, type, type, param, parameter.gradient, velocity, rate, factor,
                                   APFloat(options.momentum), APFloat(parameter.decay));
  addResult(sgd.getNewVelocity(), parameter.name + ".velocity", kUpdateRole, parameter.layout,
            parameter.name + ".velocity");
  return sgd.getNewParam();
}

Value StepBuilder::applyAdam(const Parameter &parameter, Value param, Value rate, Value step, Value factor) {
  Type type = param.getType();
  Value first = addState(parameter, ".first", type), second = addState(parameter, ".second", type);
  auto adam = builder.create<AdamOp>(loc, type, type, type, param, parameter.gradient, first, second, rate, step,
                                     factor, APFloat(options.beta1), APFloat(options.beta2), APFloat(options.eps),
                                     APFloat(parameter.decay));
  addResult(adam.getNewFirst(), parameter.name + ".first", kUpdateRole, parameter.layout, parameter.name + ".first");
  addResult(adam.getNewSecond(), parameter.name + ".second", kUpdateRole, parameter.layout, parameter.name + ".second");
  return adam.getNewParam();
}

void StepBuilder::update(const Parameter &parameter, Value rate, Value step, Value factor) {
  Type own = getElementTypeOrSelf(parameter.argument);
  Value param = parameter.argument;
  bool hasMaster = own != elementType;
  if (hasMaster)
    param = addState(parameter, ".master", getTensorType(param).clone(elementType));
  Value after = options.kind == OptimizerKind::Adam ? applyAdam(parameter, param, rate, step, factor)
                                                    : applySgd(parameter, param, rate, factor);
  if (hasMaster)
    addResult(after, parameter.name + ".master", kUpdateRole, parameter.layout, parameter.name + ".master");
  addResult(cast(after, own), parameter.name, kUpdateRole, parameter.layout, parameter.name);
}

LogicalResult StepBuilder::run() {
  if (failed(collect()))
    return failure();
  for (Parameter &parameter : parameters)
    parameter.gradient = cast(parameter.gradient, elementType);
  Value rate = findOrAddScalar("learning_rate", kRateRole, elementType);
  Value step = findOrAddScalar("step", kStepRole, builder.getI32Type());
  Value factor = getFactor();
  for (const Parameter &parameter : parameters)
    update(parameter, rate, step, factor);
  // The step comes last, since all others read it.
  addResult(builder.create<IndexAffineOp>(loc, step.getType(), step, 1, 1), "step", kUpdateRole,
            LayoutAttr::get(function.getContext(), 0), "step");
  return insertToVarying(function);
}

namespace {
struct MoeOptimize : moe::impl::MoeOptimizeBase<MoeOptimize> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    ParallelAttr parallel = getParallel(function);
    if (!parallel || !function.getBody().hasOneBlock())
      return signalPassFailure();
    MoeOptimizeOptions options{kind, momentum, beta1, beta2, eps, decay, clipNorm};
    // A bucket may be divided over a group without a name in the world.
    FailureOr<SpmdAnalysis> analysis = SpmdAnalysis::compute(function);
    if (failed(analysis) || failed(StepBuilder(function, options, parallel, analysis->getAxes()).run()))
      signalPassFailure();
  }
};
} // namespace
