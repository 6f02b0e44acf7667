//===- BaselineLayer.cpp - the baseline schedule of one layer -------------===//
#include "moe/Dialect/Moe/Transforms/BaselineLayer.h"

#include "ExpertPath.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Follows one layer from its dispatch.
class Matcher {
public:
  Matcher(const SpmdAnalysis &states, std::string &reason) : states(states), reason(reason) {}

  LogicalResult run(DispatchOp dispatch);
  BaselineLayer layer;

private:
  LogicalResult fail(const Twine &text) {
    reason = text.str();
    return failure();
  }
  LogicalResult matchGate();
  LogicalResult matchThere();
  LogicalResult matchExperts();
  LogicalResult matchBack();
  LogicalResult matchCombine();
  LogicalResult checkGroups();
  LogicalResult noteGroup(GroupAttr &group, unsigned &times, GroupAttr found);
  LogicalResult noteEsp(GroupAttr found) { return noteGroup(layer.esp, timesEsp, found); }
  LogicalResult noteEp(GroupAttr found) { return noteGroup(layer.ep, timesEp, found); }
  /// Moves on to the result of the only user of `at`, if that is an `Op` that takes it first.
  template <typename Op> Op step();

  const SpmdAnalysis &states;
  std::string &reason;
  Value at;
  /// Number of ops over these groups: gather, sum and split, and the exchanges in both directions.
  unsigned timesEsp = 0, timesEp = 0, timesMp = 0;
};
} // namespace

template <typename Op> Op Matcher::step() {
  Op user;
  if (at.hasOneUse())
    user = dyn_cast<Op>(*at.user_begin());
  if (!user || user->getOperand(0) != at)
    return {};
  at = user->getResult(0);
  return user;
}

/// Notes a group. Groups of one rank do not count.
LogicalResult Matcher::noteGroup(GroupAttr &group, unsigned &times, GroupAttr found) {
  if (found.getSize() == 1)
    return success();
  if (group && !group.hasSameRanks(found))
    return fail("its exchanges are over different groups, '" + group.getName() + "' and '" + found.getName() + "'");
  group = found;
  ++times;
  return success();
}

LogicalResult Matcher::matchGate() {
  layer.route = skipToVarying(layer.dispatch.getSlots()).getDefiningOp<RouteOp>();
  if (!layer.route)
    return fail("the slots of its dispatch do not come from a moe.route");
  layer.tokens = skipToVarying(layer.dispatch.getTokens());
  for (Value value = layer.route.getLogits(); skipToVarying(value) != layer.tokens;) {
    Operation *op = value.getDefiningOp();
    // The gate works row by row, so that part of the tokens can be routed alone.
    auto matmul = dyn_cast_or_null<MatmulOp>(op);
    if (!(matmul && !matmul.getTransposeA()) && !isa_and_nonnull<BiasAddOp, CastOp>(op))
      return fail("its logits are not a product, with or without a bias, of the tokens that it dispatches");
    layer.gate.insert(layer.gate.begin(), op);
    value = op->getOperand(0);
  }
  return success();
}

/// Matches ESP-AllGather and EP-AlltoAll.
LogicalResult Matcher::matchThere() {
  at = layer.dispatch.getResult();
  Value weights = layer.dispatch.getWeights();
  if (weights && skipToVarying(weights) != layer.route.getWeights())
    return fail("its dispatch has weights that are not those of its moe.route");
  int64_t dim = layer.isDropless() ? 0 : 1;
  if (auto gather = step<AllGatherOp>()) {
    if (gather.getDim() != dim || failed(noteEsp(gather.getGroup())))
      return fail("its dispatched rows are gathered in another way than in the baseline");
  }
  while (step<ToVaryingOp>())
    ;
  if (layer.isDropless()) {
    auto exchange = step<AllToAllVOp>();
    return exchange ? noteEp(exchange.getGroup()) : success();
  }
  auto exchange = step<AllToAllOp>();
  if (exchange && (exchange.getSplitDim() != 0 || exchange.getConcatDim() != 1))
    return fail("its dispatched rows are exchanged along other dimensions than in the baseline");
  return exchange ? noteEp(exchange.getGroup()) : success();
}

/// Matches rank-local ops on the experts' rows, up to the first other op.
LogicalResult Matcher::matchExperts() {
  while (at.hasOneUse()) {
    Operation *user = *at.user_begin();
    if (user->getOperand(0) != at || user->getNumResults() != 1 || !isa<GroupedMatmulOp, BiasAddOp, ActivationOp>(user))
      break;
    layer.experts.push_back(user);
    at = user->getResult(0);
  }
  return layer.experts.empty() ? fail("no experts follow its dispatch") : success();
}

/// Matches ESP-AllReduce, EP-AlltoAll and ESP-Split.
LogicalResult Matcher::matchBack() {
  int64_t dim = layer.isDropless() ? 0 : 1;
  if (auto both = step<ReduceScatterOp>()) {
    if (both.getDim() != dim)
      return fail("the sums over its experts' shards are divided along another dimension than in the baseline");
    return failure(failed(noteEsp(both.getGroup())) || failed(noteEsp(both.getGroup())));
  }
  if (auto sum = step<AllReduceOp>())
    if (failed(noteEsp(sum.getGroup())))
      return failure();
  while (step<ToVaryingOp>())
    ;
  if (layer.isDropless()) {
    if (auto exchange = step<AllToAllVOp>(); exchange && failed(noteEp(exchange.getGroup())))
      return failure();
  } else if (auto exchange = step<AllToAllOp>()) {
    if (exchange.getSplitDim() != 1 || exchange.getConcatDim() != 0)
      return fail("the experts' rows return along other dimensions than in the baseline");
    if (failed(noteEp(exchange.getGroup())))
      return failure();
  }
  if (auto slice = step<SliceOp>())
    return slice.getDim() == dim ? noteEsp(slice.getGroup())
                                 : fail("the returned rows are divided along another dimension than in the baseline");
  return success();
}

LogicalResult Matcher::matchCombine() {
  while (step<ToVaryingOp>())
    ;
  layer.combine = step<CombineOp>();
  Value weights = layer.combine ? layer.combine.getWeights() : Value();
  if (weights && layer.dispatch.getWeights())
    return fail("its dispatch and its combine both have weights");
  if (!layer.combine || skipToVarying(layer.combine.getSlots()) != layer.route.getSlots() ||
      (weights ? skipToVarying(weights) : Value()) != layer.getCombineWeights(layer.route))
    return fail("the experts' rows do not return to a moe.combine of the same routing");
  layer.output = at;
  if (auto claim = step<AssumeReplicatedOp>()) {
    layer.output = claim.getResult();
    return noteGroup(layer.mp, timesMp, claim.getGroup());
  }
  return success();
}

/// Checks that exchanged rows return, that all members of mp have the same tokens, and that ep and esp are neighbours.
LogicalResult Matcher::checkGroups() {
  if (layer.ep && timesEp != 2)
    return fail("an exchange over '" + layer.ep.getName() + "' has no counterpart in the other direction");
  if (layer.esp && timesEsp != 3)
    return fail("it does not gather, sum and divide over '" + layer.esp.getName() + "'");
  const SpmdAxes &axes = states.getAxes();
  auto getAxes = [&](GroupAttr group) { return group ? *axes.getAxes(group) : AxisSet(); };
  if (!(states.getState(layer.tokens) & getAxes(layer.mp)).empty())
    return fail("its tokens are not the same on all members of '" + layer.mp.getName() + "'");
  SmallVector<GroupAttr> groups = axes.getGroups(getAxes(layer.ep) | getAxes(layer.esp));
  if (groups.size() > 1 ||
      (layer.ep && layer.esp && layer.ep.getStride() != layer.esp.getSize() * layer.esp.getStride()))
    return fail("the ranks with the shards of an expert are not neighbours");
  if (!groups.empty())
    layer.fused = groups.front();
  return success();
}

LogicalResult Matcher::run(DispatchOp dispatch) {
  layer.dispatch = dispatch;
  return failure(failed(matchGate()) || failed(matchThere()) || failed(matchExperts()) || failed(matchBack()) ||
                 failed(matchCombine()) || failed(checkGroups()));
}

int64_t BaselineLayer::getGroupsOfShare() {
  int64_t groups = route.getGroups();
  return groups % getMp() == 0 ? groups / getMp() : groups;
}

std::string BaselineLayer::getShareObstacle() {
  int64_t tokens = getTokens(), shares = getMp() * getGroupsOfShare();
  if (tokens % shares == 0)
    return "";
  return "expected the " + std::to_string(tokens) + " tokens of a rank to be divisible by " + std::to_string(shares) +
         ", the routing groups of all members of '" + mp.getName().str() + "'; s2 has no such limit";
}

FailureOr<BaselineLayer> BaselineLayer::match(DispatchOp dispatch, const SpmdAnalysis &states, std::string &reason) {
  Matcher matcher(states, reason);
  if (failed(matcher.run(dispatch)))
    return failure();
  return matcher.layer;
}

//===----------------------------------------------------------------------===//
// Parts that rewrites of the layer share
//===----------------------------------------------------------------------===//

Value mlir::moe::cloneOnRows(OpBuilder &builder, Operation *op, Value rows, Value counts) {
  IRMapping mapping;
  mapping.map(op->getOperand(0), rows);
  for (Value operand : op->getOperands().drop_front())
    if (counts && getTensorType(operand).getElementType().isInteger(32))
      mapping.map(operand, counts);
  Value result = builder.clone(*op, mapping)->getResult(0);
  RankedTensorType type = getTensorType(result), rowsType = getTensorType(rows);
  result.setType(withDim(type, getRowDim(type), rowsType.getDimSize(getRowDim(rowsType))));
  return result;
}

Value BaselineLayer::cloneExperts(OpBuilder &builder, Value rows, Value counts) const {
  for (Operation *op : experts) {
    rows = cloneOnRows(builder, op, rows, counts);
    // The baseline's rows may vary over more axes than these rows.
    for (OpOperand &operand : rows.getDefiningOp()->getOpOperands().drop_front())
      operand.set(skipToVarying(operand.get()));
  }
  return rows;
}

static void eraseDead(Block *block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void BaselineLayer::replaceWith(Value output) {
  Block *block = output.getDefiningOp()->getBlock();
  this->output.replaceAllUsesWith(output);
  eraseDead(block);
  // Users of the old routing may stand before the layer's end, where the new one was built.
  sortTopologically(block);
}
