//===- Optimize.cpp - the optimizer's step --------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/OptimizerPass.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEOPTIMIZE
#include "moe/Dialect/Moe/Transforms/OptimizerPass.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// A parameter that has a gradient, and the part of it that a rank updates.
struct Parameter {
  BlockArgument argument;
  std::string name;
  LayoutAttr layout;
  Value gradient;
  /// Over which the part is one of as many along `dim`; null: it is all that the rank has.
  GroupAttr shard;
  int64_t dim = 0;
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
  void shard(Parameter &parameter);
  Value getPart(const Parameter &parameter, Value whole);
  Value getWhole(const Parameter &parameter, Value part);
  Value cast(Value value, Type elementType) { return builder.createOrFold<CastOp>(loc, value, elementType); }

  Value findOrAddScalar(StringRef name, StringRef role, Type elementType);
  Value addState(const Parameter &parameter, StringRef suffix, Type type);
  void addResult(Value value, StringRef name, StringRef role, LayoutAttr layout, StringRef updates = "");
  Value sumSquares();
  Value getFactor();
  void update(const Parameter &parameter, Value rate, Value step, Value factor);
  /// The parameter after the step; adds the states' results.
  Value applySgd(const Parameter &parameter, Value param, Value rate, Value factor);
  Value applyAdam(const Parameter &parameter, Value param, Value rate, Value step, Value factor);

  func::FuncOp function;
  Operation *terminator;
  OpBuilder builder;
  const MoeOptimizeOptions &options;
  ParallelAttr parallel;
  SpmdAxes axes;
  SmallVector<Parameter> parameters;
  /// What is computed in: f32 for parameters of 16 bits.
  Type elementType;
  Location loc = builder.getUnknownLoc();
};
} // namespace

static Type getElementType(Value value) { return mlir::cast<RankedTensorType>(value.getType()).getElementType(); }

static std::string getName(func::FuncOp function, unsigned argument) {
  auto name = function.getArgAttrOfType<StringAttr>(argument, kNameAttrName);
  return name ? name.str() : "argument" + std::to_string(argument);
}

/// Vectors (biases, gains of norms) do not decay, and neither do the experts' biases, which are matrices.
double StepBuilder::getDecay(BlockArgument argument) {
  bool isVector = mlir::cast<RankedTensorType>(argument.getType()).getRank() < 2;
  return isVector || function.getArgAttr(argument.getArgNumber(), kNoDecayAttrName) ? 0 : options.decay;
}

/// Takes the gradients of parameters from the results.
LogicalResult StepBuilder::collect() {
  llvm::StringMap<unsigned> gradients;
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    if (auto name = function.getResultAttrOfType<StringAttr>(index, kNameAttrName))
      gradients[name.getValue()] = index;
  llvm::BitVector taken(function.getNumResults());
  for (BlockArgument argument : function.getArguments()) {
    auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kRoleAttrName);
    std::string name = getName(function, argument.getArgNumber());
    auto gradient = gradients.find("grad." + name);
    if (!role || role.getValue() != kParameterRole || gradient == gradients.end())
      continue;
    auto layout = function.getArgAttrOfType<LayoutAttr>(argument.getArgNumber(), kLayoutAttrName);
    if (!layout)
      layout = LayoutAttr::get(function.getContext(), mlir::cast<RankedTensorType>(argument.getType()).getRank());
    FailureOr<AxisSet> varies = axes.getAxes(layout);
    if (failed(varies))
      return function.emitError() << "expected the groups of the layout of '" << name << "' to be groups of "
                                  << parallel;
    taken.set(gradient->second);
    parameters.push_back(
        {argument, name, layout, terminator->getOperand(gradient->second), {}, 0, *varies, getDecay(argument)});
  }
  if (parameters.empty())
    return function.emitError() << "expected gradients of parameters among the results; run moe-differentiate first";
  terminator->eraseOperands(taken);
  function.eraseResults(taken);
  elementType = getAccumulatorType(getElementType(parameters.front().argument));
  return success();
}

/// ZeRO-1: over the data-parallel ranks that have the same parameter, along the first dimension that they divide.
void StepBuilder::shard(Parameter &parameter) {
  for (StringRef name : {"dp", "edp"}) {
    GroupAttr group = parallel.getGroup(name);
    FailureOr<AxisSet> over = axes.getAxes(group);
    if (group.getSize() == 1 || failed(over) || !(*over & parameter.varies).empty())
      continue;
    for (auto [dim, size] : llvm::enumerate(mlir::cast<RankedTensorType>(parameter.argument.getType()).getShape())) {
      if (size % group.getSize() != 0)
        continue;
      SmallVector<ArrayAttr> dims(parameter.layout.getDims());
      SmallVector<Attribute> names(dims[dim].begin(), dims[dim].end());
      names.push_back(builder.getStringAttr(name));
      dims[dim] = builder.getArrayAttr(names);
      parameter.layout = LayoutAttr::get(function.getContext(), dims);
      parameter.shard = group;
      parameter.dim = static_cast<int64_t>(dim);
      parameter.varies = parameter.varies | *over;
      return;
    }
  }
}

Value StepBuilder::getPart(const Parameter &parameter, Value whole) {
  return parameter.shard ? builder.create<SliceOp>(loc, whole, parameter.shard, parameter.dim).getResult() : whole;
}
Value StepBuilder::getWhole(const Parameter &parameter, Value part) {
  return parameter.shard ? builder.create<AllGatherOp>(loc, part, parameter.shard, parameter.dim).getResult() : part;
}

static DictionaryAttr describe(OpBuilder &builder, StringRef name, StringRef role, LayoutAttr layout,
                               StringRef updates = "") {
  SmallVector<NamedAttribute> attributes = {builder.getNamedAttr(kNameAttrName, builder.getStringAttr(name)),
                                            builder.getNamedAttr(kRoleAttrName, builder.getStringAttr(role)),
                                            builder.getNamedAttr(kLayoutAttrName, layout)};
  if (!updates.empty())
    attributes.push_back(builder.getNamedAttr(kUpdatesAttrName, builder.getStringAttr(updates)));
  return builder.getDictionaryAttr(attributes);
}

Value StepBuilder::findOrAddScalar(StringRef name, StringRef role, Type type) {
  for (BlockArgument argument : function.getArguments())
    if (getName(function, argument.getArgNumber()) == name)
      return argument;
  unsigned position = function.getNumArguments();
  auto layout = LayoutAttr::get(function.getContext(), 0);
  function.insertArgument(position, RankedTensorType::get({}, type), describe(builder, name, role, layout), loc);
  return function.getArgument(position);
}

Value StepBuilder::addState(const Parameter &parameter, StringRef suffix, Type type) {
  unsigned position = function.getNumArguments();
  function.insertArgument(position, type,
                          describe(builder, parameter.name + suffix.str(), kStateRole, parameter.layout), loc);
  return function.getArgument(position);
}

void StepBuilder::addResult(Value value, StringRef name, StringRef role, LayoutAttr layout, StringRef updates) {
  terminator->insertOperands(terminator->getNumOperands(), value);
  function.insertResult(function.getNumResults(), value.getType(), describe(builder, name, role, layout, updates));
}

/// Of all gradients, each element once: what is sharded is added up over its shards.
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
  LayoutAttr whole = function.getArgAttrOfType<LayoutAttr>(parameter.argument.getArgNumber(), kLayoutAttrName);
  if (!whole)
    whole = parameter.layout;
  Type own = getElementType(parameter.argument);
  Value param = getPart(parameter, parameter.argument);
  bool hasMaster = own != elementType;
  if (hasMaster)
    param = addState(parameter, ".master", mlir::cast<RankedTensorType>(param.getType()).clone(elementType));
  Value after = options.kind == OptimizerKind::Adam ? applyAdam(parameter, param, rate, step, factor)
                                                    : applySgd(parameter, param, rate, factor);
  if (hasMaster)
    addResult(after, parameter.name + ".master", kUpdateRole, parameter.layout, parameter.name + ".master");
  addResult(getWhole(parameter, cast(after, own)), parameter.name, kUpdateRole, whole, parameter.name);
}

LogicalResult StepBuilder::run() {
  if (failed(collect()))
    return failure();
  for (Parameter &parameter : parameters) {
    if (options.zero)
      shard(parameter);
    parameter.gradient = cast(getPart(parameter, parameter.gradient), elementType);
  }
  Value rate = findOrAddScalar("learning_rate", kRateRole, elementType);
  Value step = findOrAddScalar("step", kStepRole, builder.getI32Type());
  Value factor = getFactor();
  for (const Parameter &parameter : parameters)
    update(parameter, rate, step, factor);
  // Last: all others read it.
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
    MoeOptimizeOptions options;
    options.kind = kind;
    options.momentum = momentum;
    options.beta1 = beta1;
    options.beta2 = beta2;
    options.eps = eps;
    options.decay = decay;
    options.clipNorm = clipNorm;
    options.zero = zero;
    if (failed(StepBuilder(function, options, parallel, SpmdAxes(parallel)).run()))
      signalPassFailure();
  }
};
} // namespace
