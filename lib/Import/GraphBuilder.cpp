//===- GraphBuilder.cpp - what model graphs are built with ----------------===//

#include "GraphBuilder.h"

#include "Family.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"

using namespace mlir;
using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

static Type getElementType(Builder &builder, ImportType type) {
  switch (type) {
  case ImportType::f32:
    return builder.getF32Type();
  case ImportType::f64:
    return builder.getF64Type();
  case ImportType::bf16:
    return builder.getBF16Type();
  case ImportType::f16:
    return builder.getF16Type();
  }
  llvm_unreachable("all types are handled");
}

GraphBuilder::GraphBuilder(MLIRContext &context, const ModelConfig &config, const LayerSpec &layer,
                           const ImportOptions &options, int64_t tokens)
    : builder(&context), config(config), layer(layer), options(options), tokens(tokens),
      location(FileLineColLoc::get(&context, config.fileName, config.layerPlace.line, config.layerPlace.column)),
      elementType(::getElementType(builder, options.dtype)), module(ModuleOp::create(location)) {
  builder.setInsertionPointToEnd(module->getBody());
  function = builder.create<func::FuncOp>(location, "model", builder.getFunctionType({}, {}));
  builder.setInsertionPointToEnd(function.addEntryBlock());
}

Location GraphBuilder::getLoc(const Twine &name) {
  std::string text = name.str();
  StringRef part(text);
  Location at = location;
  auto move = [&](const ConfigPlace &place) {
    at = FileLineColLoc::get(builder.getContext(), config.fileName, place.line, place.column);
  };
  if (part.ends_with(".attention") || part.ends_with(".cross"))
    move(config.attentionPlace);
  else if (part.ends_with(".ffn"))
    move(config.densePlace);
  else if (part == "embedding" || part == "head")
    move(config.vocabularyPlace);
  return NameLoc::get(builder.getStringAttr(name), at);
}

DictionaryAttr GraphBuilder::describe(StringRef name, StringRef role, ArrayRef<NamedAttribute> more) {
  SmallVector<NamedAttribute> attributes(more);
  attributes.push_back(builder.getNamedAttr(kNameAttrName, builder.getStringAttr(name)));
  attributes.push_back(builder.getNamedAttr(kRoleAttrName, builder.getStringAttr(role)));
  return builder.getDictionaryAttr(attributes);
}

Value GraphBuilder::addArgument(const Twine &name, StringRef role, Type type, ArrayRef<NamedAttribute> more) {
  argumentAttributes.push_back(describe(name.str(), role, more));
  return function.getBody().front().addArgument(type, location);
}

Value GraphBuilder::addParameter(const Twine &name, RankedTensorType type, double fill, bool isBias) {
  SmallVector<NamedAttribute> more;
  if (isBias && type.getRank() > 1)
    more.push_back(builder.getNamedAttr(kNoDecayAttrName, builder.getUnitAttr()));
  if (options.whole && type.getRank() == 1)
    more.push_back(builder.getNamedAttr(kFillAttrName, builder.getF64FloatAttr(fill)));
  if (options.whole)
    if (DictionaryAttr source = getSource(builder, config.family->checkpoint, *config.model, name.str(), type))
      more.push_back(builder.getNamedAttr(kSourceAttrName, source));
  return addArgument(name, "parameter", type, more);
}

/// Adds the gate's product again, which CSE merges with the layer's own.
void GraphBuilder::addRouter(Location loc, Value x, Value gate, Value gateBias) {
  Type logitsType = tensor({tokens, layer.experts});
  Value logits =
      builder.create<LinearOp>(loc, logitsType, x, gate, gateBias, /*transpose_weights=*/false, /*column=*/0);
  auto means = builder.create<RouterMeansOp>(loc, logits, layer.topK, routerGroups);
  auto add = [&](Value &sum, Value own) { sum = sum ? builder.create<AddOp>(loc, sum, own).getResult() : own; };
  add(routers->loads, means.getLoads());
  add(routers->shares, means.getShares());
  add(routers->squares, means.getSquares());
  ++routers->layers;
}

Value GraphBuilder::buildLayer(int64_t index, Value x) {
  int64_t m = layer.hidden, h = layer.expertHidden, e = layer.experts, width = getActivationWidth(layer.activation);
  int64_t shared = layer.sharedHidden;
  // Null for a parameter that the layer does not have.
  auto parameter = [&](bool present, StringRef name, RankedTensorType type, bool isBias = false) {
    return present ? addParameter("layer" + Twine(index) + "." + name, type, /*fill=*/0, isBias) : Value();
  };
  Value gate = parameter(true, "gate", tensor({m, e}));
  Value gateBias = parameter(layer.gateBias, "gate_bias", tensor({e}));
  Value selectionBias = parameter(layer.selectionBias, "selection_bias", accumulator({e}));
  Value w1 = parameter(true, "w1", tensor({e, m, width * h})), w2 = parameter(true, "w2", tensor({e, h, m}));
  Value b1 = parameter(layer.expertBiases, "b1", tensor({e, width * h}), /*isBias=*/true);
  Value b2 = parameter(layer.expertBiases, "b2", tensor({e, m}), /*isBias=*/true);
  Value sharedW1 = parameter(shared > 0, "shared_w1", tensor({m, width * shared}));
  Value sharedW2 = parameter(shared > 0, "shared_w2", tensor({shared, m}));
  Value sharedGate = parameter(layer.sharedGate, "shared_gate", tensor({m, 1}));
  auto integer = [&](int64_t value, int64_t defaultValue) {
    return value == defaultValue ? IntegerAttr() : builder.getI64IntegerAttr(value);
  };
  auto real = [&](std::optional<double> value) { return value ? builder.getF64FloatAttr(*value) : FloatAttr(); };
  MLIRContext *context = builder.getContext();
  int64_t groups = options.groups.value_or(layer.sequenceGroups ? tokens / options.seq : 1);
  std::string name = ("layer" + Twine(index)).str();
  // Attributes at their defaults are left out.
  auto op = builder.create<LayerOp>(
      getLoc(name), TypeRange{x.getType(), accumulator({})}, builder.getStringAttr(name), x, gate, gateBias,
      selectionBias, w1, w2, b1, b2, sharedW1, sharedW2, sharedGate, builder.getI64IntegerAttr(layer.topK),
      ActivationAttr::get(context, layer.activation),
      layer.activationAlpha == 1.702 ? FloatAttr() : real(layer.activationAlpha),
      layer.activationLimit == 7.0 ? FloatAttr() : real(layer.activationLimit),
      layer.score == Score::softmax ? ScoreAttr() : ScoreAttr::get(context, layer.score),
      layer.renormalize ? builder.getUnitAttr() : UnitAttr(), layer.weighInputs ? builder.getUnitAttr() : UnitAttr(),
      layer.routingScale == 1.0 ? FloatAttr() : real(layer.routingScale), integer(layer.expertGroups, 1),
      integer(layer.topGroups, 1),
      layer.groupScore == GroupScore::max ? GroupScoreAttr() : GroupScoreAttr::get(context, layer.groupScore),
      real(layer.capacityFactor),
      layer.expertCapacity ? builder.getI64IntegerAttr(*layer.expertCapacity) : IntegerAttr(), real(options.maxLoad),
      integer(groups, 1));
  if (routers)
    addRouter(op.getLoc(), x, gate, gateBias);
  aux = aux ? builder.create<AddOp>(location, aux, op.getAux()) : op.getAux();
  return op.getY();
}

OwningOpRef<ModuleOp> GraphBuilder::finish(ArrayRef<NamedResult> results) {
  SmallVector<Value> values;
  SmallVector<DictionaryAttr> attributes;
  for (const NamedResult &result : results) {
    values.push_back(result.value);
    attributes.push_back(describe(result.name, result.role));
  }
  builder.create<func::ReturnOp>(location, values);
  function.setFunctionType(
      builder.getFunctionType(function.getBody().front().getArgumentTypes(), ValueRange(values).getTypes()));
  function.setAllArgAttrs(argumentAttributes);
  function.setAllResultAttrs(attributes);
  return std::move(module);
}
