//===- MoeLayer.cpp - moe.layer: checks, and its baseline schedule --------===//
#include "MoeComm.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

int64_t LayerOp::getCapacity(int64_t tokens) {
  if (isDropless())
    return 0;
  if (getExpertCapacity())
    return std::min(tokens, *getExpertCapacity());
  double wanted = getCapacityFactor()->convertToDouble() * static_cast<double>(getTopK() * tokens) /
                  static_cast<double>(getNumExperts());
  // Factors are decimal, and rounding of a product such as 1.1 * 10 must not add a slot. No token chooses an expert
  // twice.
  return std::min(tokens, static_cast<int64_t>(std::ceil(wanted * (1 - 1e-12))));
}

int64_t LayerOp::getActivationWidth() { return moe::getActivationWidth(getActivation()); }

static LogicalResult verifyLayerShape(LayerOp op, StringRef what, Value value, ArrayRef<int64_t> shape) {
  if (!value)
    return success();
  return verifyType(op, what, value.getType(), RankedTensorType::get(shape, op.getX().getType().getElementType()));
}
/// Verifies the shape of an operand of the routing.
static LogicalResult verifyRouted(LayerOp op, StringRef what, Value value, ArrayRef<int64_t> shape) {
  return value ? verifyType(op, what, value.getType(), getAccumulatorTensor(op.getX().getType(), shape)) : success();
}

/// Verifies (C1), (C2), (C6) and (C7).
static LogicalResult verifyRouting(LayerOp op) {
  int64_t tokens = op.getX().getType().getDimSize(0), experts = op.getNumExperts();
  int64_t k = op.getTopK(), groups = op.getGroups();
  if (tokens < 1)
    return op.emitOpError() << "expected at least one token but got " << op.getX().getType();
  if (groups < 1 || tokens % groups != 0)
    return op.emitOpError() << "expected groups to divide the " << tokens << " tokens but got " << groups;
  if (k < 1 || k > std::min(kMaxTopK, experts))
    return op.emitOpError() << "expected top_k to be between 1 and " << std::min(kMaxTopK, experts)
                            << (experts < kMaxTopK ? ", the number of experts," : ", MoePlan's limit,") << " but got "
                            << k;
  if (failed(verifyExpertGroups(op, experts, k, op.getExpertGroups(), op.getTopGroups(), op.getGroupScore())))
    return failure();
  if (op.getCapacityFactor() && !(op.getCapacityFactor()->convertToDouble() > 0))
    return op.emitOpError() << "expected capacity_factor to be positive but got "
                            << op.getCapacityFactor()->convertToDouble();
  if (std::optional<int64_t> capacity = op.getExpertCapacity(); capacity && *capacity < 1)
    return op.emitOpError() << "expected expert_capacity to be at least 1 but got " << *capacity;
  if (op.getMaxLoad() && (!op.isDropless() || !(op.getMaxLoad()->convertToDouble() >= 1)))
    return op.emitOpError() << "expected max_load to be at least 1, and only in the dropless form";
  return success();
}

static LogicalResult verifyLayerHomes(LayerOp layer) {
  int64_t homes = layer.getHomes(), span = layer.getHomeSpan();
  if (homes < 1 || layer.getNumExperts() % homes != 0 || span < 1)
    return layer.emitOpError() << "expected homes to divide the " << layer.getNumExperts()
                               << " experts and home_span of at least 1 but got " << homes << " and " << span;
  return success();
}
LogicalResult LayerOp::verify() {
  if (failed(verifyRouting(*this)) || failed(verifyLayerHomes(*this)))
    return failure();
  double alpha = getActivationAlpha().convertToDouble(), limit = getActivationLimit().convertToDouble();
  if (!(alpha > 0) || !(limit > 0))
    return emitOpError() << "expected activation_alpha and activation_limit to be positive but got " << alpha << " and "
                         << limit;
  int64_t model = getX().getType().getDimSize(1), experts = getNumExperts();
  int64_t hidden = getW2().getType().getDimSize(1), width = getActivationWidth();
  if (failed(verifyLayerShape(*this, "gate", getGate(), {model, experts})) ||
      failed(verifyLayerShape(*this, "gate_bias", getGateBias(), {experts})) ||
      failed(verifyRouted(*this, "selection_bias", getSelectionBias(), {experts})) ||
      failed(verifyLayerShape(*this, "w1", getW1(), {experts, model, width * hidden})) ||
      failed(verifyLayerShape(*this, "w2", getW2(), {experts, hidden, model})) ||
      failed(verifyLayerShape(*this, "b1", getB1(), {experts, width * hidden})) ||
      failed(verifyLayerShape(*this, "b2", getB2(), {experts, model})))
    return failure();
  if (static_cast<bool>(getB1()) != static_cast<bool>(getB2()))
    return emitOpError() << "expected b1 and b2 together";
  if (static_cast<bool>(getSharedW1()) != static_cast<bool>(getSharedW2()) || (getSharedGate() && !getSharedW1()))
    return emitOpError() << "expected shared_w1 and shared_w2 together, and shared_gate only with them";
  if (getSharedW2()) {
    int64_t inner = getSharedW2().getType().getDimSize(0);
    if (failed(verifyLayerShape(*this, "shared_w1", getSharedW1(), {model, width * inner})) ||
        failed(verifyLayerShape(*this, "shared_w2", getSharedW2(), {inner, model})) ||
        failed(verifyLayerShape(*this, "shared_gate", getSharedGate(), {model, 1})))
      return failure();
  }
  if (getY().getType() != getX().getType())
    return emitOpError() << "expected y to be " << getX().getType() << " but got " << getY().getType();
  return verifyRouted(*this, "aux", getAux(), {});
}

/// Shape of both products of `groups` experts as one, each with `rows` rows.
static GemmShape getExpertShape(LayerOp op, int64_t groups, int64_t rows) {
  int64_t hidden = op.getW2().getType().getDimSize(1);
  return {groups, rows, op.getW1().getType().getDimSize(2) + hidden, op.getX().getType().getDimSize(1)};
}

/// Operations of gate and shared expert, which see each token once.
static double getDenseFlops(LayerOp op) {
  double weights = 0;
  for (Value value : {Value(op.getGate()), Value(op.getSharedW1()), Value(op.getSharedW2())})
    if (value)
      weights += static_cast<double>(getTensorType(value).getNumElements());
  return 2.0 * static_cast<double>(op.getX().getType().getDimSize(0)) * weights;
}

OpCost LayerOp::getOpCost() {
  int64_t tokens = getX().getType().getDimSize(0), experts = getNumExperts(), groups = getGroups();
  int64_t rows = isDropless() ? tokens * getTopK() / experts : groups * getCapacity(tokens / groups);
  OpCost cost = getProductCost(*this, getExpertShape(*this, experts, rows));
  cost.flops += getDenseFlops(*this);
  return cost;
}

/// Each of a token's k choices counts, even if a capacity has no place for it.
double LayerOp::getModelFlops() {
  int64_t choices = getX().getType().getDimSize(0) * getTopK();
  return getExpertShape(*this, 1, choices).getFlops() + getDenseFlops(*this);
}

//===----------------------------------------------------------------------===//
// Partitioning: Parm's baseline
//===----------------------------------------------------------------------===//

FailureOr<Layouts> LayerOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  auto layout = [&](ArrayRef<StringRef> groups) { return LayoutAttr::get(getContext(), groups); };
  // Layouts in the order of the operands: x, gate, gate_bias, selection_bias, w1, w2, b1, b2, shared_w1, shared_w2,
  // shared_gate.
  LayoutAttr wanted[] = {LayoutAttr::getRows(parallel),
                         layout({"", ""}),
                         layout({""}),
                         layout({""}),
                         layout({"ep", "", "esp"}),
                         layout({"ep", "esp", ""}),
                         layout({"ep", "esp"}),
                         layout({"ep", ""}),
                         layout({"", "mp"}),
                         layout({"mp", ""}),
                         layout({"", ""})};
  for (unsigned i = 0; i < std::size(wanted); ++i) {
    auto [start, length] = getODSOperandIndexAndLength(i);
    for (LayoutAttr &operand : operands.slice(start, length)) {
      if (operand && operand != wanted[i])
        return emitOpError() << "expected operand " << start << " to have the layout " << wanted[i] << " but got "
                             << operand;
      operand = wanted[i];
    }
  }
  return Layouts{wanted[0], layout({})};
}

namespace {
/// Builds the per-rank program of one layer from the shards of its operands.
class BaselineBuilder {
public:
  BaselineBuilder(LayerOp layer, OpBuilder &builder, ParallelAttr parallel, int64_t groups, ValueRange operands)
      : layer(layer), local(operands, layer), builder(builder), parallel(parallel),
        groups(std::max(groups, layer.getGroups())),
        loc(NameLoc::get(builder.getStringAttr(layer.getLayerName()), layer.getLoc())) {}

  FailureOr<Values> build();

private:
  /// Rows at the experts and, in the dropless form, the counts on both sides of the exchange.
  struct Rows {
    Value rows, blockCounts, expertCounts;
  };

  GroupAttr group(StringRef name) const { return parallel.getGroup(name); }
  Value toVarying(Value value, StringRef name) { return builder.create<ToVaryingOp>(loc, value, group(name)); }
  Value sum(Value value, Value counts, StringRef name) {
    return builder.create<AllReduceOp>(loc, value.getType(), value, counts, group(name));
  }

  /// Casts an operand that routes or weighs rows to the accumulator type.
  Value castToAccumulator(Value value) {
    Type elementType = getTensorType(value).getElementType();
    return builder.createOrFold<CastOp>(loc, value, getAccumulatorType(elementType));
  }

  /// Builds the layer's activation.
  Value activate(Type result, Value input, Value counts) {
    return builder.create<ActivationOp>(loc, result, input, counts, layer.getActivationAttr(),
                                        layer.getActivationAlphaAttr(), layer.getActivationLimitAttr());
  }

  RouteOp buildRoute();
  Rows exchange(Value dispatched, Value counts);
  Rows exchangeRagged(Value dispatched, Value counts);
  Value buildExperts(const Rows &at);
  Value exchangeBack(const Rows &at, Value rows);
  Value buildShared(Value x);

  LayerOp layer;
  /// Shards by the names of the layer's operands.
  LayerOp::Adaptor local;
  OpBuilder &builder;
  ParallelAttr parallel;
  /// Number of routing groups in the whole model, at least one for each token shard.
  int64_t groups;
  Location loc;
};
} // namespace

RouteOp BaselineBuilder::buildRoute() {
  Value logits = builder.create<MatmulOp>(loc, local.getX(), local.getGate());
  if (Value bias = local.getGateBias())
    logits = builder.create<BiasAddOp>(loc, logits.getType(), logits, bias, Value(), builder.getF64FloatAttr(1.0));
  logits = castToAccumulator(logits);
  auto type = getTensorType(logits);
  int64_t tokens = type.getDimSize(0), experts = type.getDimSize(1), k = layer.getTopK();
  int64_t localGroups = groups / parallel.getTokenGroup().getSize();
  auto index = [&](int64_t rows, int64_t columns) {
    return RankedTensorType::get({rows, columns}, builder.getI32Type());
  };
  // A rank of several ranks is at home where its routing groups are.
  int64_t span = layer.getHomeSpan(), stride = std::max<int64_t>(1, span * parallel.getWorld() / groups);
  if (parallel.getWorld() > 1)
    span = localGroups;
  Type weights = type.clone({tokens, k});
  Type aux = RankedTensorType::get({}, type.getElementType());
  return builder.create<RouteOp>(
      loc, TypeRange{type, index(tokens, k), index(tokens, k), weights, index(1, experts), aux}, logits,
      local.getSelectionBias(), layer.getScoreAttr(), layer.getRenormalizeAttr(), layer.getRoutingScaleAttr(),
      layer.getExpertGroupsAttr(), layer.getTopGroupsAttr(), layer.getGroupScoreAttr(),
      builder.getI64IntegerAttr(layer.getCapacity(tokens / localGroups)), builder.getI64IntegerAttr(localGroups),
      builder.getI64IntegerAttr(1), builder.getI64IntegerAttr(0), layer.getLeaveAttr(), layer.getHomesAttr(),
      builder.getI64IntegerAttr(layer.getLeave() < 0 ? 1 : stride),
      builder.getI64IntegerAttr(layer.getLeave() < 0 ? 1 : span));
}

BaselineBuilder::Rows BaselineBuilder::exchange(Value dispatched, Value counts) {
  if (layer.isDropless())
    return exchangeRagged(dispatched, counts);
  Value gathered = builder.create<AllGatherOp>(loc, dispatched, group("esp"), 1);
  // The cast stands before the exchange. So its adjoint meets the gather's, and both become one reduce-scatter.
  Value varying = toVarying(gathered, "esp");
  return {builder.create<AllToAllOp>(loc, varying, group("ep"), 0, 1), {}, {}};
}

BaselineBuilder::Rows BaselineBuilder::exchangeRagged(Value dispatched, Value counts) {
  Value rows = toVarying(builder.create<AllGatherOp>(loc, dispatched, group("esp"), 0), "esp");
  // There is no cast: the exchange back needs the counts in the state of the summed rows, replicated over esp.
  Value blockCounts = builder.create<AllGatherOp>(loc, counts, group("esp"), 0);
  Value expertCounts = builder.create<AllToAllOp>(loc, blockCounts, group("ep"), 1, 0);
  auto type = getTensorType(rows);
  int64_t k = layer.getTopK(), localExperts = getTensorType(expertCounts).getDimSize(1);
  // On average a rank's experts receive as many rows as one member sends. At worst every member sends each of its
  // tokens to as many of them as it has choices.
  int64_t mean = type.getDimSize(0);
  int64_t reserved = parallel.getEp() * (mean / k) * std::min(k, localExperts);
  if (std::optional<APFloat> load = layer.getMaxLoad())
    reserved = std::min(reserved, static_cast<int64_t>(std::ceil(load->convertToDouble() * static_cast<double>(mean))));
  auto received = type.clone({reserved, type.getDimSize(1)});
  Value atExperts =
      builder.create<AllToAllVOp>(loc, received, rows, blockCounts, expertCounts, group("ep"), Direction::to_experts,
                                  /*copies=*/1);
  return {atExperts, blockCounts, expertCounts};
}

Value BaselineBuilder::buildExperts(const Rows &at) {
  Value hidden = builder.create<GroupedMatmulOp>(loc, at.rows, local.getW1(), at.expertCounts);
  if (Value bias = local.getB1())
    hidden =
        builder.create<BiasAddOp>(loc, hidden.getType(), hidden, bias, at.expertCounts, builder.getF64FloatAttr(1));
  auto type = getTensorType(hidden);
  Type activeType = withColumns(type, type.getShape().back() / layer.getActivationWidth());
  Value active = activate(activeType, hidden, at.expertCounts);
  Value out = builder.create<GroupedMatmulOp>(loc, active, local.getW2(), at.expertCounts);
  // The partial sums of the shards are added up. Each has its share of the bias.
  if (Value bias = local.getB2())
    out = builder.create<BiasAddOp>(loc, out.getType(), out, bias, at.expertCounts,
                                    builder.getF64FloatAttr(1.0 / static_cast<double>(parallel.getEsp())));
  return out;
}

Value BaselineBuilder::exchangeBack(const Rows &at, Value rows) {
  Value whole = sum(rows, at.expertCounts, "esp");
  if (!layer.isDropless()) {
    Value returned = builder.create<AllToAllOp>(loc, whole, group("ep"), 1, 0);
    return builder.create<SliceOp>(loc, returned, group("esp"), 1);
  }
  auto type = getTensorType(whole);
  int64_t blockRows = getTensorType(local.getX()).getDimSize(0) * layer.getTopK() * parallel.getEsp();
  Value returned = builder.create<AllToAllVOp>(loc, type.clone({blockRows, type.getDimSize(1)}), whole, at.blockCounts,
                                               at.expertCounts, group("ep"), Direction::from_experts,
                                               /*copies=*/1);
  return builder.create<SliceOp>(loc, returned, group("esp"), 0);
}

/// Builds a dense FFN with its inner dimension over mp (Megatron's column and row split).
Value BaselineBuilder::buildShared(Value x) {
  Value hidden = builder.create<MatmulOp>(loc, x, local.getSharedW1());
  Type inner = scaleDim(hidden, 1, 1, layer.getActivationWidth());
  Value active = activate(inner, hidden, /*counts=*/Value());
  Value out = sum(builder.create<MatmulOp>(loc, active, local.getSharedW2()), {}, "mp");
  if (!local.getSharedGate())
    return out;
  Value logit = castToAccumulator(builder.create<MatmulOp>(loc, local.getX(), local.getSharedGate()));
  Value factor = builder.create<ActivationOp>(loc, logit.getType(), logit, Value(), Activation::sigmoid);
  return builder.create<RowScaleOp>(loc, out, factor);
}

FailureOr<Values> BaselineBuilder::build() {
  GroupAttr shards = parallel.getTokenGroup();
  if (groups % shards.getSize() != 0)
    return layer.emitOpError() << "expected a multiple of " << shards.getName() << " = " << shards.getSize()
                               << " routing groups but got " << groups;
  int64_t localGroups = groups / shards.getSize();
  if (int64_t tokens = getTensorType(local.getX()).getDimSize(0); tokens % localGroups != 0)
    return layer.emitOpError() << "expected the " << tokens << " tokens of a rank to be divisible by its "
                               << localGroups << " routing groups";
  RouteOp route = buildRoute();
  // From here to the end all model-parallel members do the same. The cast's adjoint adds up their shares of the
  // gradient of x, the smallest value of this path.
  Value x = toVarying(local.getX(), "mp");
  Type dispatchedType = route.getLogits().getType();
  auto xType = getTensorType(x);
  int64_t rows = xType.getDimSize(0) * layer.getTopK();
  if (layer.isDropless())
    dispatchedType = xType.clone({rows, xType.getDimSize(1)});
  else
    dispatchedType = RankedTensorType::get(
        {layer.getNumExperts(), route.getCapacity() * localGroups, xType.getDimSize(1)}, xType.getElementType());
  bool weighInputs = layer.getWeighInputs();
  Value dispatched =
      builder.create<DispatchOp>(loc, dispatchedType, x, route.getSlots(), weighInputs ? route.getWeights() : Value());
  Rows at = exchange(dispatched, route.getCounts());
  Value returned = exchangeBack(at, buildExperts(at));
  Value combined =
      builder.create<CombineOp>(loc, xType, returned, route.getSlots(), weighInputs ? Value() : route.getWeights());
  Value y = builder.create<AssumeReplicatedOp>(loc, combined, group("mp"));
  if (local.getSharedW1())
    y = builder.create<AddOp>(loc, y, buildShared(x));
  Value share = builder.create<ScaleOp>(loc, route.getAux(),
                                        builder.getF64FloatAttr(1.0 / static_cast<double>(shards.getSize())));
  return Values{y, sum(share, {}, shards.getName())};
}

/// Puts tokens in the order of the ranks that have them, if ranks divide sequences and the layer is on one rank: its
/// routing groups are then those of the ranks. With `inverse` it restores the order of sequences.
static Value orderByRanks(OpBuilder &builder, Location loc, Value rows, const TokenDivision &tokens, bool inverse) {
  int64_t sequences = tokens.sequences / tokens.shards, parts = tokens.cut.getGroup().getSize();
  if (sequences == 1 && !tokens.cut.getZigzag())
    return rows;
  int64_t length = getTensorType(rows).getDimSize(0) / tokens.sequences / parts;
  return builder.create<JoinSequencesOp>(loc, rows, tokens.cut, sequences, length, !inverse);
}

FailureOr<Values> LayerOp::partition(OpBuilder &builder, const Shards &in) {
  bool isReordered = in.tokens.cut && in.parallel.getCp() == 1;
  SmallVector<Value> ordered(in.operands);
  if (isReordered)
    ordered[0] = orderByRanks(builder, getLoc(), in.operands[0], in.tokens, /*inverse=*/false);
  FailureOr<Values> results = BaselineBuilder(*this, builder, in.parallel, in.tokens.groups, ordered).build();
  if (succeeded(results) && isReordered)
    results->front() = orderByRanks(builder, getLoc(), results->front(), in.tokens, /*inverse=*/true);
  return results;
}
