//===- MoePlacement.cpp - index notation of ops, placements of exchanges --===//
//
// Index rules and placements of all ops (Placement.h). In rules s is tokens, e experts, t the tokens of one, k choices
// or inner columns, m and n columns, h heads, v words.
//
//===----------------------------------------------------------------------===//
#include "llvm/ADT/StringExtras.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"

using namespace mlir;
using namespace mlir::moe;
using Kind = Placement::Kind;

//===----------------------------------------------------------------------===//
// Rank-local ops
//===----------------------------------------------------------------------===//

static int64_t getRank(Value value) { return getTensorType(value).getRank(); }

/// Dimensions of rows of experts with columns `column`: [E, T, M], or [R, M] sorted by expert. For a matrix without
/// experts they are rows.
static std::string rows(Value value, StringRef column) {
  return ((getRank(value) == 3 ? "et" : "(et)") + column).str();
}
/// Dimensions of rows to which tokens s are dispatched.
static std::string dispatched(Value value) { return getRank(value) == 3 ? "esm" : "(es)m"; }
/// Dimension of the columns of dispatched rows, which no rule follows.
static std::string dispatchedColumn(Value value) { return getRank(value) == 3 ? "es." : "(es)."; }
static std::string optional(Value value, StringRef text) { return value ? (", " + text).str() : ""; }
/// Rule of an op in which `parts` or more parts of a dimension are on different ranks.
static std::string byRank(bool depends, const Twine &rule) { return (depends ? "@" : "") + rule.str(); }

std::string AddOp::getIndexRule() { return "+*, +* -> *"; }
std::string ScaleOp::getIndexRule() { return "* -> *"; }
std::string CastOp::getIndexRule() { return "* -> *"; }
std::string MatmulOp::getIndexRule() {
  return std::string(getTransposeA() ? "ks" : "sk") + ", " + (getTransposeB() ? "nk" : "kn") + " -> sn";
}
std::string MatmulWgradOp::getIndexRule() { return "sk, sn" + optional(getAddend(), "+kn") + " -> kn"; }
/// Rows belong to tokens or to experts. Values of heads are where the heads are.
std::string RowScaleOp::getIndexRule() {
  return std::string("(set)n, (set)") + (getHeadDim() > 0 ? "n" : ".") + " -> (set)n";
}
std::string RowDotOp::getIndexRule() { return std::string("(set)n, (set)n -> (set)") + (getHeadDim() > 0 ? "n" : "."); }
std::string GroupedMatmulOp::getIndexRule() {
  return rows(getRows(), "k") + (getTransposeWeights() ? ", enk" : ", ekn") + optional(getCounts(), "_") + " -> " +
         rows(getResult(), "n");
}
std::string GroupedMatmulWgradOp::getIndexRule() {
  return rows(getRows(), "k") + ", " + rows(getGrads(), "n") + optional(getCounts(), "_") +
         optional(getAddend(), "+ekn") + " -> ekn";
}
/// Dimensions of a bias of experts [E, N] or of all rows [N].
static std::string bias(Value value) { return getRank(value) == 2 ? "en" : "n"; }
/// Dimensions of rows with a bias. Rows without experts are tokens.
static std::string biasedRows(Value value, Value biasOfIt) {
  return getRank(biasOfIt) == 2 || getRank(value) == 3 ? rows(value, "n") : "sn";
}
std::string BiasAddOp::getIndexRule() {
  // Each member adds a share of the bias, so that the sum over members has it once.
  bool isShare = getScale().convertToDouble() != 1;
  std::string of = biasedRows(getRows(), getBias());
  return "+" + of + (isShare ? ", _" : ", +" + bias(getBias())) + optional(getCounts(), "_") + " -> " + of;
}
std::string BiasGradOp::getIndexRule() {
  // The gradient of a share is a share.
  std::string of = bias(getResult());
  return byRank(getScale().convertToDouble() != 1, biasedRows(getGrads(), getResult()) + optional(getCounts(), "_") +
                                                       optional(getAddend(), "+" + of) + " -> " + of);
}
std::string ActivationOp::getIndexRule() { return "!*" + optional(getCounts(), "_") + " -> *"; }
std::string ActivationGradOp::getIndexRule() { return "!*, *" + optional(getCounts(), "_") + " -> *"; }
/// The exchange that takes the copies defines to which members they belong.
std::string DumpOp::getIndexRule() { return "* -> *"; }
std::string LocalReduceOp::getIndexRule() { return "#* -> *"; }

std::string IndexAffineOp::getIndexRule() { return "!* -> *"; }
std::string EmbeddingOp::getIndexRule() { return byRank(getParts() > 1, "!s, vm -> sm"); }
std::string EmbeddingGradOp::getIndexRule() {
  return byRank(getParts() > 1, "!s, sm" + optional(getAddend(), "+vm") + " -> vm");
}
/// A norm over divided columns is one over each head's columns, with one gamma for all of them.
std::string NormOp::getIndexRule() { return "!sn, ." + optional(getBeta(), "+.") + " -> sn"; }
std::string NormGradOp::getIndexRule() { return "!sn, !., sn -> sn"; }
std::string NormWgradOp::getIndexRule() { return "!sn, sn" + optional(getAddend(), "+.") + " -> ."; }
std::string ClampOp::getIndexRule() { return "!* -> *"; }
std::string ClampGradOp::getIndexRule() { return "!*, * -> *"; }
std::string InverseRootOp::getIndexRule() { return "!* -> *"; }
std::string InverseRootGradOp::getIndexRule() { return "!*, * -> *"; }
std::string RotaryOp::getIndexRule() { return "* -> *"; }
std::string JoinSequencesOp::getIndexRule() { return "* -> *"; }
std::string AppendToHeadsOp::getIndexRule() { return "+sh, +s. -> sh"; }
std::string AppendToHeadsGradOp::getIndexRule() { return "sh -> sh, s."; }

/// Dimensions of queries, keys, values and the other operands of attention.
static std::string attentionInputs(Value bias, Value sinks, Value step) {
  return "!sh, !sh, !sh" + optional(bias, "!h..") + optional(sinks, "!h") + optional(step, "_");
}
std::string AttentionOp::getIndexRule() {
  return byRank(getStep() != nullptr || getCut(), attentionInputs(getBias(), getSinks(), getStep()) + " -> sh, sh");
}
std::string AttentionGradOp::getIndexRule() {
  return byRank(getStep() != nullptr || getCut(),
                attentionInputs(getBias(), getSinks(), getStep()) + ", !sh, !sh, sh -> sh~0, sh~1, sh~2");
}
std::string AttentionBiasGradOp::getIndexRule() {
  return byRank(getStep() != nullptr || getCut(),
                attentionInputs(getBias(), getSinks(), getStep()) + ", !sh, !sh, sh -> h..");
}
std::string MergeAttentionOp::getIndexRule() { return "!sh, !sh, !sh, !sh -> sh, sh"; }
std::string AttentionSinksGradOp::getIndexRule() { return "!h, !sh, !sh, sh -> h"; }
std::string RelativeBiasOp::getIndexRule() { return ".h -> h.."; }
std::string RelativeBiasGradOp::getIndexRule() { return "h.." + optional(getAddend(), "+.h") + " -> .h"; }
std::string DropoutOp::getIndexRule() { return byRank(getRowParts() > 1 || getColumnParts() > 1, "*, _ -> *"); }

/// Rule of a sum over all elements, of a function of each.
static std::string sumAll(Value value) {
  StringRef letters = "abcd";
  size_t rank = getRank(value);
  return rank <= letters.size() ? ("!" + letters.take_front(rank) + " -> ").str() : "";
}
/// If words are divided, each part has a column of its own.
std::string RowLogsumexpOp::getIndexRule() { return "!sv -> sv"; }
std::string RowLogsumexpGradOp::getIndexRule() { return "!sv, !sv, sv -> sv"; }
std::string PickOp::getIndexRule() { return byRank(getParts() > 1, "sv, !s -> s."); }
std::string PickGradOp::getIndexRule() {
  return byRank(getParts() > 1, "!s, s." + optional(getAddend(), "+sv") + " -> sv");
}
std::string LabelSumOp::getIndexRule() { return "s., !s -> "; }
std::string LabelCountOp::getIndexRule() { return sumAll(getLabels()); }
std::string LabelSumGradOp::getIndexRule() { return "!s,  -> s."; }
std::string DivideOp::getIndexRule() { return ", ! -> "; }
std::string SumSquaresOp::getIndexRule() { return sumAll(getInput()); }
std::string SquareRootOp::getIndexRule() { return "! -> "; }
std::string ClipFactorOp::getIndexRule() { return "! -> "; }
std::string SgdOp::getIndexRule() { return "!*, !*, !*, _" + optional(getFactor(), "_") + " -> *, *"; }
std::string AdamOp::getIndexRule() { return "!*, !*, !*, !*, _, _" + optional(getFactor(), "_") + " -> *, *, *"; }

std::string RouteOp::getIndexRule() {
  return byRank(getHomes() > 1, "!sE" + optional(getSelectionBias(), "!e") + " -> se, s., s., s., ?, ");
}
std::string RouteGradOp::getIndexRule() {
  return "!sE, !s." + optional(getGradWeights(), "+s.") + optional(getGradAux(), "+") + " -> se";
}
/// Whether the rows of a sequence may be on several ranks. Several groups are divided like their tokens. One group may
/// be a member's own, or its part of the group of all tokens.
static bool mayDivideSequences(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto parallel = op->getAttrOfType<ParallelAttr>(kParallelAttrName))
      return parallel.getCp() > 1;
  return false;
}
/// Several groups are sequences. A part of each gives a part of the means over it.
std::string RouterMeansOp::getIndexRule() {
  bool several = getTensorType(getLoads()).getDimSize(0) > 1 && !mayDivideSequences(*this);
  return several ? "!sE -> se, se, s." : "!sE -> ?, ?, ?";
}
std::string RouterMeansGradOp::getIndexRule() {
  Value grads = getGradShares() ? getGradShares() : getGradSquares();
  StringRef group = grads && getTensorType(grads).getDimSize(0) > 1 ? "+s." : "+..";
  return "!sE" + optional(getGradShares(), group) + optional(getGradSquares(), group) + " -> se";
}
/// Whether all tokens are equal, such as those with which weights are dispatched. Any part of them equals any other
/// part.
static bool isConstant(Value tokens) {
  while (auto cast = tokens.getDefiningOp<ToVaryingOp>())
    tokens = cast.getInput();
  return tokens.getDefiningOp<FillOp>() != nullptr;
}
std::string DispatchOp::getIndexRule() {
  std::string slots = ", !s.|e" + optional(getWeights(), "s.") + optional(getUsed(), "_") + " -> ";
  return isConstant(getTokens()) && getWeights() ? "_" + slots + dispatchedColumn(getResult())
                                                 : "sm" + slots + dispatched(getResult());
}
std::string CombineOp::getIndexRule() {
  return dispatched(getRows()) + ", !s.|e" + optional(getWeights(), "s.") + optional(getUsed(), "_") + " -> sm";
}
std::string SlotDotOp::getIndexRule() {
  std::string slots = ", !s.|e" + optional(getUsed(), "_") + " -> s.";
  return isConstant(getTokens()) ? "_, " + dispatchedColumn(getRows()) + slots : "sm, " + dispatched(getRows()) + slots;
}
std::string WindowOp::getIndexRule() { return std::string("!s., _") + (getBefore() ? ", _" : "") + " -> ?, s., ?"; }
std::string MergeChoicesOp::getIndexRule() {
  return std::string("!s.") + (getRoutedSlots() ? ", s." : "") + (getUsed() ? ", _" : "") + " -> s., ?, ?";
}
std::string DivideChoicesOp::getIndexRule() { return "!s., _ -> s., ?, s., ?"; }

/// Rule of `operands` and `results` that all have one placement.
static std::string allAlike(unsigned operands, unsigned results) {
  SmallVector<std::string> from(operands, "+*"), to(results, "*");
  return llvm::join(from, ", ") + " -> " + llvm::join(to, ", ");
}
std::string SplitOp::getIndexRule() { return allAlike(1, getNumResults()); }
std::string ConcatOp::getIndexRule() { return allAlike(getNumOperands(), 1); }
std::string MicroBatchOp::getIndexRule() { return "* -> *"; }
std::string OffloadOp::getIndexRule() { return "* -> *"; }
std::string FetchOp::getIndexRule() { return "* -> *"; }

/// Each piece of a divided bucket is divided as its layout demands.
LogicalResult UnpackOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  for (auto layout : getLayouts().getAsRange<LayoutAttr>()) {
    Placement bucket = along.operands[0], piece = bucket.is(Kind::Shard) ? Placement{Kind::Unknown} : bucket;
    for (unsigned dim = 0; bucket.is(Kind::Shard) && dim < layout.getDims().size(); ++dim) {
      FailureOr<AxisSet> set = along.axes.getAxes(LayoutAttr::get(getContext(), layout.getDims()[dim]));
      if (succeeded(set) && !(*set & along.axis).empty())
        piece = Placement::shard(dim);
    }
    results.push_back(piece);
  }
  return success();
}

/// Shards of pieces, in any dimensions, are a shard of the bucket. A placement that is known of some pieces holds for
/// the bucket: an exchange of it is wrong if it is wrong for one of them.
LogicalResult PackOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  std::optional<Placement> common;
  for (auto [value, placement] : llvm::zip_equal(getPieces(), along.operands)) {
    if (isZero(value) || placement.is(Kind::Unknown))
      continue;
    Placement piece = placement.is(Kind::Shard) ? Placement::shard(0) : placement;
    if (common && *common != piece)
      common = Placement{Kind::Unknown};
    else if (!common)
      common = piece;
  }
  results.assign(1, common.value_or(Placement{Kind::Unknown}));
  return success();
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

bool AxisPlacements::isIn(GroupAttr group) const {
  FailureOr<AxisSet> set = axes.getAxes(group);
  return failed(set) || !(*set & axis).empty();
}

FailureOr<bool> AxisPlacements::isInBlocksOf(int64_t count, GroupAttr group) const {
  FailureOr<AxisSet> set = axes.getAxes(GroupAttr::get(group.getContext(), group.getName(), count, group.getStride()));
  return failed(set) ? FailureOr<bool>() : !(*set & axis).empty();
}

LogicalResult AxisPlacements::infer(GroupAttr group, ArrayRef<Placement> values, SmallVectorImpl<Placement> &results,
                                    function_ref<FailureOr<Placement>(Placement)> exchange) const {
  if (isIn(group)) {
    FailureOr<Placement> result = exchange(values.front());
    if (succeeded(result))
      results.assign(1, *result);
    return result;
  }
  results.assign(1, llvm::all_equal(values) ? values.front() : Placement{Kind::Unknown});
  return success();
}

FailureOr<Placement> AxisPlacements::ifTerms(Placement operand, Placement result) const {
  if (!operand.is(Kind::Copies) && !operand.is(Kind::Shard))
    return result;
  return op->emitOpError() << "expected partial sums over " << axes.describe(axis) << " but operand #0 holds "
                           << operand.describe()
                           << (operand.is(Kind::Copies) ? ", which would count once for each member"
                                                        : ", which are not terms of one sum");
}

FailureOr<Placement> AxisPlacements::ifWhole(Placement operand, Placement result) const {
  if (!operand.is(Kind::Partial) && !operand.is(Kind::Terms))
    return result;
  return op->emitOpError() << "expected whole values but operand #0 holds " << operand.describe() << "; a sum over "
                           << axes.describe(axis) << " is missing";
}

LogicalResult AllReduceOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  return along.infer(getGroup(), along.operands.take_front(), results,
                     [&](Placement operand) { return along.ifTerms(operand, {}); });
}

LogicalResult ReduceScatterOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  return along.infer(getGroup(), along.operands, results, [&](Placement operand) {
    return along.ifTerms(operand, {Kind::Part, static_cast<unsigned>(getDim())});
  });
}

LogicalResult ReduceOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  // The owner has the value and the others have zeros, so these are its terms and no copies.
  return along.infer(getGroup(), along.operands, results,
                     [&](Placement operand) { return along.ifTerms(operand, {Kind::Unknown}); });
}

LogicalResult BroadcastOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  return along.infer(getGroup(), along.operands, results,
                     [&](Placement operand) { return along.ifWhole(operand, {}); });
}

LogicalResult AssumeReplicatedOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  return along.infer(getGroup(), along.operands, results,
                     [&](Placement operand) { return along.ifWhole(operand, {}); });
}

LogicalResult ToVaryingOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  return along.infer(getGroup(), along.operands, results,
                     [&](Placement) { return Placement{getShares() ? Kind::Partial : Kind::Copies}; });
}

LogicalResult AllGatherOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  // No gradient flows through integers, so their placement has no consequence.
  bool isFloat = isa<FloatType>(getInput().getType().getElementType());
  return along.infer(getGroup(), along.operands, results, [&](Placement operand) {
    bool isKnown = operand.is(Kind::Shard) || operand.is(Kind::Partial);
    return isKnown || !isFloat ? operand : Placement{Kind::Joined};
  });
}

LogicalResult SliceOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  return along.infer(getGroup(), along.operands, results,
                     [&](Placement) { return Placement{Kind::Part, static_cast<unsigned>(getDim())}; });
}

/// Placement after an exchange in which each member gives its part of dimension `to` and gets parts along dimension
/// `from`. A value that was divided along `from` is divided along `to`, or whole on all members if they get `copies`.
/// Terms of a value reach the member that gets this part of it, if all members send (`whole`).
static Placement exchange(Placement operand, unsigned from, unsigned to, FailureOr<bool> copies,
                          FailureOr<bool> whole = true) {
  if (failed(copies))
    return {Kind::Unknown};
  if (operand.is(Kind::Partial))
    return !*copies && succeeded(whole) && *whole ? Placement{Kind::Terms, to} : Placement{Kind::Unknown};
  if (operand != Placement::shard(from))
    return {Kind::Unknown};
  return *copies ? Placement{Kind::Copies} : Placement::shard(to);
}

LogicalResult AllToAllOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  FailureOr<bool> copies = false;
  // If a dump is for other members than the group's, it is unknown which member gets which copies.
  if (auto dump = getInput().getDefiningOp<DumpOp>(); dump && dump.getDim() == getSplitDim())
    copies = getStoredInput() == getInput() ? FailureOr<bool>() : along.isInBlocksOf(dump.getCopies(), getGroup());
  return along.infer(getGroup(), along.operands, results,
                     [&](Placement operand) { return exchange(operand, getConcatDim(), getSplitDim(), copies); });
}

LogicalResult AllToAllPhaseOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  // A phase brings values from all members of a block, but from one block alone.
  FailureOr<bool> whole = along.isInBlocksOf(getGroup().getSize() / getPhases(), getGroup());
  FailureOr<bool> copies = getStoredInput() == getInput() ? FailureOr<bool>(false) : FailureOr<bool>();
  return along.infer(getGroup(), along.operands, results, [&](Placement operand) {
    return exchange(operand, getConcatDim(), getSplitDim(), copies, whole);
  });
}

LogicalResult JoinPhasesOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  // Each block of members has an order of its own. All orders of shards are shards.
  return along.infer(getGroup(), along.operands, results, [&](Placement operand) {
    return operand.is(Kind::Shard) && llvm::all_equal(along.operands) ? operand : Placement{Kind::Unknown};
  });
}

LogicalResult AllToAllVOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  // Counts give the number of rows for each member, and are in any state.
  SmallVector<Placement> values = {along.operands[0]};
  if (getAddend())
    values.push_back(along.operands[3]);
  bool toExperts = getDirection() == Direction::to_experts;
  FailureOr<bool> copies = along.isInBlocksOf(toExperts ? getCopies() : 1, getGroup());
  FailureOr<bool> whole = along.isInBlocksOf(getGroup().getSize() / getPhases(), getGroup());
  return along.infer(getGroup(), values, results, [&](Placement operand) {
    // Any parts of packed rows divide the tokens of each expert.
    if (toExperts && operand == Placement::shard(0))
      operand = Placement::shard(Placement::kTokens);
    unsigned from = toExperts ? Placement::kTokens : Placement::kExperts;
    unsigned to = toExperts ? Placement::kExperts : Placement::kTokens;
    Placement result = exchange(operand, from, to, copies, whole);
    return !getAddend() || values[1] == result ? result : Placement{Kind::Unknown};
  });
}

LogicalResult LocalSlotsOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  // Neighbours that divide the columns of the same experts make the same choices.
  FailureOr<bool> copies = along.isInBlocksOf(getCopies(), getGroup());
  results.push_back({Kind::Unknown});
  results.push_back({Kind::Unknown});
  SmallVector<Placement> slots;
  if (failed(along.infer(getGroup(), along.operands.take_front(), slots, [&](Placement) {
        if (failed(copies))
          return Placement{Kind::Unknown};
        return *copies ? Placement{Kind::Copies} : Placement::shard(Placement::kExperts);
      })))
    return failure();
  results.front() = slots.front().is(Kind::Replicated) ? Placement{Kind::Copies} : slots.front();
  return success();
}

LogicalResult BroadcastExpertsOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  return along.infer(getGroup(), along.operands.take_front(), results,
                     [&](Placement operand) { return along.ifWhole(operand, {Kind::Copies}); });
}

LogicalResult ReduceExpertsOp::inferPlacements(const AxisPlacements &along, SmallVectorImpl<Placement> &results) {
  SmallVector<Placement> values = {along.operands[0]};
  if (getAddend())
    values.push_back(along.operands[2]);
  return along.infer(getGroup(), values, results, [&](Placement operand) {
    // Each member has the sums of its own experts.
    bool known = !getAddend() || values[1] == Placement::shard(0);
    return along.ifTerms(operand, known ? Placement::shard(0) : Placement{Kind::Unknown});
  });
}
