//===- Import.cpp - a model config as an L0 graph -------------------------===//

#include "moe/Import/Import.h"
#include "moe/Dialect/Moe/IR/Activation.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

/// Tokens and the rows made of them are counted in 32 bits at run time.
static constexpr int64_t maxTokens = std::numeric_limits<int32_t>::max() / 8;
static constexpr int64_t maxLayers = 10000;

namespace {

struct Argument {
  std::string name;
  StringRef role;
  RankedTensorType type;
};

/// What one block of the model makes of its input.
struct BlockResults {
  Value x;
  Value aux;
};

class GraphBuilder {
public:
  GraphBuilder(MLIRContext &context, const ModelConfig &config, const LayerSpec &layer, const ImportOptions &options,
               int64_t tokens)
      : builder(&context), layer(layer), maxLoad(options.maxLoad), layers(options.layers), tokens(tokens),
        location(FileLineColLoc::get(&context, config.fileName, config.line, config.column)) {
    switch (options.dtype) {
    case ImportType::f32:
      elementType = builder.getF32Type();
      break;
    case ImportType::f64:
      elementType = builder.getF64Type();
      break;
    case ImportType::bf16:
      elementType = builder.getBF16Type();
      break;
    }
  }

  OwningOpRef<ModuleOp> build();

private:
  RankedTensorType tensor(ArrayRef<int64_t> shape) const { return RankedTensorType::get(shape, elementType); }
  std::string layerName(int64_t index) const { return ("layer" + Twine(index)).str(); }
  void addParameters(int64_t index);
  BlockResults buildBlock(int64_t index, Value x);
  BlockResults buildLayer(int64_t index, Value x);
  DictionaryAttr describe(StringRef name, StringRef role) {
    return builder.getDictionaryAttr({builder.getNamedAttr("moe.name", builder.getStringAttr(name)),
                                      builder.getNamedAttr("moe.role", builder.getStringAttr(role))});
  }

  OpBuilder builder;
  const LayerSpec &layer;
  std::optional<double> maxLoad;
  int64_t layers;
  int64_t tokens;
  Location location;
  Type elementType;
  SmallVector<Argument> arguments;
  /// The function's arguments by name.
  llvm::StringMap<Value> values;
};

} // namespace

void GraphBuilder::addParameters(int64_t index) {
  int64_t m = layer.hidden, h = layer.expertHidden, e = layer.experts, width = getActivationWidth(layer.activation);
  auto add = [&](bool present, StringRef name, ArrayRef<int64_t> shape) {
    if (present)
      arguments.push_back({layerName(index) + "." + name.str(), "parameter", tensor(shape)});
  };
  add(true, "gate", {m, e});
  add(layer.gateBias, "gate_bias", {e});
  add(layer.selectionBias, "selection_bias", {e});
  add(true, "w1", {e, m, width * h});
  add(true, "w2", {e, h, m});
  add(layer.expertBiases, "b1", {e, width * h});
  add(layer.expertBiases, "b2", {e, m});
  add(layer.sharedHidden > 0, "shared_w1", {m, width * layer.sharedHidden});
  add(layer.sharedHidden > 0, "shared_w2", {layer.sharedHidden, m});
  add(layer.sharedGate, "shared_gate", {m, 1});
}

BlockResults GraphBuilder::buildLayer(int64_t index, Value x) {
  std::string name = layerName(index);
  // Null for a parameter that the layer does not have.
  auto parameter = [&](StringRef suffix) { return values.lookup(name + "." + suffix.str()); };
  auto integer = [&](int64_t value, int64_t defaultValue) {
    return value == defaultValue ? IntegerAttr() : builder.getI64IntegerAttr(value);
  };
  auto real = [&](std::optional<double> value) { return value ? builder.getF64FloatAttr(*value) : FloatAttr(); };
  MLIRContext *context = builder.getContext();
  Location loc = NameLoc::get(builder.getStringAttr(name), location);
  // An attribute that would hold its default is left out.
  auto op = builder.create<LayerOp>(
      loc, TypeRange{x.getType(), tensor({})}, builder.getStringAttr(name), x, parameter("gate"),
      parameter("gate_bias"), parameter("selection_bias"), parameter("w1"), parameter("w2"), parameter("b1"),
      parameter("b2"), parameter("shared_w1"), parameter("shared_w2"), parameter("shared_gate"),
      builder.getI64IntegerAttr(layer.topK), ActivationAttr::get(context, layer.activation),
      layer.score == Score::softmax ? ScoreAttr() : ScoreAttr::get(context, layer.score),
      layer.renormalize ? builder.getUnitAttr() : UnitAttr(),
      layer.routingScale == 1.0 ? FloatAttr() : real(layer.routingScale), integer(layer.expertGroups, 1),
      integer(layer.topGroups, 1),
      layer.groupScore == GroupScore::max ? GroupScoreAttr() : GroupScoreAttr::get(context, layer.groupScore),
      real(layer.capacityFactor), /*expert_capacity=*/IntegerAttr(), real(maxLoad), /*groups=*/IntegerAttr());
  return {op.getY(), op.getAux()};
}

/// One block: `x + moe(x)`. Attention and the norms have their place here, before and around the layer.
BlockResults GraphBuilder::buildBlock(int64_t index, Value x) {
  BlockResults moe = buildLayer(index, x);
  return {builder.create<AddOp>(location, x, moe.x), moe.aux};
}

OwningOpRef<ModuleOp> GraphBuilder::build() {
  arguments.push_back({"x", "input", tensor({tokens, layer.hidden})});
  for (int64_t i = 0; i < layers; ++i)
    addParameters(i);

  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (const Argument &argument : arguments) {
    types.push_back(argument.type);
    attributes.push_back(describe(argument.name, argument.role));
  }
  Type xType = types.front();
  auto function = builder.create<func::FuncOp>(location, "model", builder.getFunctionType(types, {xType, tensor({})}));
  function.setAllArgAttrs(attributes);
  SmallVector<DictionaryAttr> resultAttributes = {describe("y", "output"), describe("aux", "output")};
  function.setAllResultAttrs(resultAttributes);
  Block *body = function.addEntryBlock();
  for (auto [argument, value] : llvm::zip_equal(arguments, body->getArguments()))
    values[argument.name] = value;

  builder.setInsertionPointToEnd(body);
  Value x = values.lookup("x"), aux;
  for (int64_t i = 0; i < layers; ++i) {
    BlockResults results = buildBlock(i, x);
    x = results.x;
    aux = aux ? builder.create<AddOp>(location, aux, results.aux) : results.aux;
  }
  builder.create<func::ReturnOp>(location, ValueRange{x, aux});
  return module;
}

static llvm::Error makeError(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "error: " + message);
}

/// The options that do not depend on the model.
static llvm::Error checkOptions(const ImportOptions &options) {
  struct {
    StringRef name;
    int64_t value, max;
  } counts[] = {{"batch", options.batch, maxTokens},
                {"seq", options.seq, maxTokens},
                {"layers", options.layers, maxLayers},
                {"data parallel size", options.dataParallel, maxTokens}};
  for (const auto &count : counts)
    if (count.value < 1 || count.value > count.max)
      return makeError("'" + count.name + "': expected an integer from 1 to " + Twine(count.max) + " but got " +
                       Twine(count.value));
  auto tooSmall = [](std::optional<double> value, double min) {
    return value && !(std::isfinite(*value) && *value >= min);
  };
  if (options.capacityFactor && options.dropless)
    return makeError("'capacity-factor' and 'dropless': expected one of them but got both");
  if (tooSmall(options.capacityFactor, std::numeric_limits<double>::min()))
    return makeError("'capacity-factor': expected a number greater than 0 but got " +
                     Twine(std::to_string(*options.capacityFactor)));
  if (tooSmall(options.maxLoad, 1.0))
    return makeError("'max-load': expected a number of at least 1 but got " + Twine(std::to_string(*options.maxLoad)));
  return llvm::Error::success();
}

llvm::Expected<OwningOpRef<ModuleOp>> mlir::moe::importModel(MLIRContext &context, const ModelConfig &config,
                                                             const ImportOptions &options) {
  if (llvm::Error error = checkOptions(options))
    return error;
  int64_t tokens;
  if (llvm::MulOverflow(options.batch, options.seq, tokens) ||
      llvm::MulOverflow(tokens, options.dataParallel, tokens) || tokens > maxTokens)
    return makeError("'batch' x 'seq' x data parallel size: expected at most " + Twine(maxTokens) + " tokens but got " +
                     Twine(options.batch) + " x " + Twine(options.seq) + " x " + Twine(options.dataParallel));
  LayerSpec layer = config.layer;
  if (options.dropless)
    layer.capacityFactor.reset();
  if (options.capacityFactor)
    layer.capacityFactor = options.capacityFactor;
  if (layer.capacityFactor && options.maxLoad)
    return makeError("'max-load': expected a dropless model but got the capacity factor " +
                     Twine(std::to_string(*layer.capacityFactor)) + "; 'dropless' makes it one");

  context.loadDialect<MoeDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = GraphBuilder(context, config, layer, options, tokens).build();
  std::string diagnostics;
  ScopedDiagnosticHandler handler(
      &context, [&](Diagnostic &diagnostic) { diagnostics += (diagnostics.empty() ? "" : "\n") + diagnostic.str(); });
  if (failed(verify(*module)))
    return llvm::createStringError(llvm::inconvertibleErrorCode(), Twine(config.fileName) + ":" + Twine(config.line) +
                                                                       ":" + Twine(config.column) +
                                                                       ": error: " + diagnostics);
  return module;
}
