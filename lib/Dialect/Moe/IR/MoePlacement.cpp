//===- MoePlacement.cpp - index notation of ops, placements of exchanges --===//
//
// What Placement.h asks of each op, in one place. In rules s is tokens, e experts, t the tokens of one, k choices or
// inner columns, m and n columns, h heads, v words.
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

static int64_t getRank(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

/// Rows of experts with columns `column`: [E, T, M], or [R, M] sorted by expert; of a matrix without experts, rows.
static std::string rows(Value value, StringRef column) {
  return ((getRank(value) == 3 ? "et" : "(et)") + column).str();
}
/// The same of what tokens s are dispatched to.
static std::string dispatched(Value value) { return getRank(value) == 3 ? "esm" : "(es)m"; }
/// Where no rule follows the columns.
static std::string dispatchedColumn(Value value) { return getRank(value) == 3 ? "es." : "(es)."; }
static std::string optional(Value value, StringRef text) { return value ? (", " + text).str() : ""; }
/// Of an op in which `parts` or more of a dimension are on different ranks.
static std::string byRank(bool depends, const Twine &rule) { return (depends ? "@" : "") + rule.str(); }

std::string AddOp::getIndexRule() { return "+*, +* -> *"; }
std::string ScaleOp::getIndexRule() { return "* -> *"; }
std::string CastOp::getIndexRule() { return "* -> *"; }
std::string MatmulOp::getIndexRule() {
  return std::string(getTransposeA() ? "ks" : "sk") + ", " + (getTransposeB() ? "nk" : "kn") + " -> sn";
}
std::string MatmulWgradOp::getIndexRule() { return "sk, sn" + optional(getAddend(), "+kn") + " -> kn"; }
/// Rows are those of tokens or of experts.
std::string RowScaleOp::getIndexRule() { return "(set)n, (set). -> (set)n"; }
std::string RowDotOp::getIndexRule() { return "(set)n, (set)n -> (set)."; }
std::string GroupedMatmulOp::getIndexRule() {
  return rows(getRows(), "k") + (getTransposeWeights() ? ", enk" : ", ekn") + optional(getCounts(), "_") + " -> " +
         rows(getResult(), "n");
}
std::string GroupedMatmulWgradOp::getIndexRule() {
  return rows(getRows(), "k") + ", " + rows(getGrads(), "n") + optional(getCounts(), "_") +
         optional(getAddend(), "+ekn") + " -> ekn";
}
/// A bias of experts [E, N] or of all rows [N].
static std::string bias(Value value) { return getRank(value) == 2 ? "en" : "n"; }
/// Rows without experts are tokens.
static std::string biasedRows(Value value, Value biasOfIt) {
  return getRank(biasOfIt) == 2 || getRank(value) == 3 ? rows(value, "n") : "sn";
}
std::string BiasAddOp::getIndexRule() {
  // A share of the bias on each member, so that the members' sum has it once.
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
/// The exchange that takes the copies says whose they are.
std::string DumpOp::getIndexRule() { return "* -> *"; }
std::string LocalReduceOp::getIndexRule() { return "#* -> *"; }

std::string PositionsOp::getIndexRule() { return ""; }
std::string FillOp::getIndexRule() { return ""; }
std::string IndexAffineOp::getIndexRule() { return "!* -> *"; }
std::string EmbeddingOp::getIndexRule() { return byRank(getParts() > 1, "!s, vm -> sm"); }
std::string EmbeddingGradOp::getIndexRule() {
  return byRank(getParts() > 1, "!s, sm" + optional(getAddend(), "+vm") + " -> vm");
}
/// Where the columns of a norm are divided, it is one over each head's, with one gamma for all of them.
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

/// Queries, keys and values, and what else attention takes.
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

/// A sum over all elements, of a function of each.
static std::string sumAll(Value value) {
  StringRef letters = "abcd";
  size_t rank = getRank(value);
  return rank <= letters.size() ? ("!" + letters.take_front(rank) + " -> ").str() : "";
}
/// Where words are divided, each part has a column of its own.
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
/// Several groups are divided as their tokens are. One may be a member's own, or its part of the group of all tokens.
/// Whether the rows of a sequence may be on several ranks.
static bool mayDivideSequences(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto parallel = op->getAttrOfType<ParallelAttr>(kParallelAttrName))
      return parallel.getCp() > 1;
  return false;
}
/// Several groups are sequences. A part of each gives a part of the means over it.
std::string RouterMeansOp::getIndexRule() {
  bool several = cast<RankedTensorType>(getLoads().getType()).getDimSize(0) > 1 && !mayDivideSequences(*this);
  return several ? "!sE -> se, se, s." : "!sE -> ?, ?, ?";
}
std::string RouterMeansGradOp::getIndexRule() {
  Value grads = getGradShares() ? getGradShares() : getGradSquares();
  StringRef group = grads && cast<RankedTensorType>(grads.getType()).getDimSize(0) > 1 ? "+s." : "+..";
  return "!sE" + optional(getGradShares(), group) + optional(getGradSquares(), group) + " -> se";
}
/// Tokens that are all alike, such as those that weights are dispatched with: a part of them is like any other.
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
std::string ChooseShadowsOp::getIndexRule() { return ""; }
std::string WindowOp::getIndexRule() { return std::string("!s., _") + (getBefore() ? ", _" : "") + " -> ?, s., ?"; }
std::string MergeChoicesOp::getIndexRule() {
  return std::string("!s.") + (getRoutedSlots() ? ", s." : "") + (getUsed() ? ", _" : "") + " -> s., ?, ?";
}
std::string DivideChoicesOp::getIndexRule() { return "!s., _ -> s., ?, s., ?"; }

/// `operands` and `results` of one placement.
static std::string allAlike(unsigned operands, unsigned results) {
  SmallVector<std::string> from(operands, "+*"), to(results, "*");
  return llvm::join(from, ", ") + " -> " + llvm::join(to, ", ");
}
std::string SplitOp::getIndexRule() { return allAlike(1, getNumResults()); }
std::string ConcatOp::getIndexRule() { return allAlike(getNumOperands(), 1); }
std::string MicroBatchOp::getIndexRule() { return "* -> *"; }
std::string OffloadOp::getIndexRule() { return "* -> *"; }
std::string FetchOp::getIndexRule() { return "* -> *"; }

/// Of a bucket that is divided, each piece is divided as its layout says.
LogicalResult UnpackOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                        SmallVectorImpl<Placement> &results) {
  for (auto layout : getLayouts().getAsRange<LayoutAttr>()) {
    Placement piece = operands[0].is(Kind::Shard) ? Placement{Kind::Unknown} : operands[0];
    for (unsigned dim = 0; operands[0].is(Kind::Shard) && dim < layout.getDims().size(); ++dim) {
      FailureOr<AxisSet> set = axes.getAxes(LayoutAttr::get(getContext(), layout.getDims()[dim]));
      if (succeeded(set) && !(*set & axis).empty())
        piece = Placement::shard(dim);
    }
    results.push_back(piece);
  }
  return success();
}

/// Shards of pieces, of whichever dimensions, are a shard of the bucket. What is known of some pieces holds for the
/// bucket: an exchange of it is wrong if it is wrong for one of them.
LogicalResult PackOp::inferPlacements(const SpmdAxes &, AxisSet, ArrayRef<Placement> operands,
                                      SmallVectorImpl<Placement> &results) {
  std::optional<Placement> common;
  for (auto [value, placement] : llvm::zip_equal(getPieces(), operands)) {
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

namespace {

/// One axis of ranks, as the exchanges of a group see it.
class Along {
public:
  Along(Operation *op, const SpmdAxes &axes, AxisSet axis) : op(op), axes(axes), axis(axis) {}

  /// Whether the members of `group` lie along the axis.
  bool isIn(GroupAttr group) const {
    FailureOr<AxisSet> set = axes.getAxes(group);
    return failed(set) || !(*set & axis).empty();
  }
  /// The same for blocks of `count` neighbours, into which the members of `group` are divided; fails where a block is
  /// no group of axes.
  FailureOr<bool> isInBlocksOf(int64_t count, GroupAttr group) const {
    FailureOr<AxisSet> set =
        axes.getAxes(GroupAttr::get(group.getContext(), group.getName(), count, group.getStride()));
    return failed(set) ? FailureOr<bool>() : !(*set & axis).empty();
  }

  /// The one result of an exchange over `group`. Along other axes every value stays what it is; of several, what they
  /// all are. Along the group's it becomes what `exchange` makes of the first.
  LogicalResult infer(GroupAttr group, ArrayRef<Placement> values, SmallVectorImpl<Placement> &results,
                      llvm::function_ref<FailureOr<Placement>(Placement)> exchange) const;

  /// Fails where what would be added up is known not to be terms of a sum.
  LogicalResult expectTerms(Placement operand) const;
  /// Fails where a sum is taken for a whole value.
  LogicalResult expectWhole(Placement operand) const;

private:
  Operation *op;
  const SpmdAxes &axes;
  AxisSet axis;
};

} // namespace

LogicalResult Along::infer(GroupAttr group, ArrayRef<Placement> values, SmallVectorImpl<Placement> &results,
                           llvm::function_ref<FailureOr<Placement>(Placement)> exchange) const {
  if (isIn(group)) {
    FailureOr<Placement> result = exchange(values.front());
    if (succeeded(result))
      results.assign(1, *result);
    return result;
  }
  results.assign(1, llvm::all_equal(values) ? values.front() : Placement{Kind::Unknown});
  return success();
}

LogicalResult Along::expectTerms(Placement operand) const {
  if (!operand.is(Kind::Copies) && !operand.is(Kind::Shard))
    return success();
  return op->emitOpError() << "expected partial sums over " << axes.describe(axis) << " but operand #0 holds "
                           << operand.describe()
                           << (operand.is(Kind::Copies) ? ", which would count once for each member"
                                                        : ", which are not terms of one sum");
}

LogicalResult Along::expectWhole(Placement operand) const {
  if (!operand.is(Kind::Partial) && !operand.is(Kind::Terms))
    return success();
  return op->emitOpError() << "expected whole values but operand #0 holds " << operand.describe() << "; a sum over "
                           << axes.describe(axis) << " is missing";
}

/// `result` of an operand that `expected` says is as it has to be.
static FailureOr<Placement> getIf(LogicalResult expected, Placement result) {
  return failed(expected) ? FailureOr<Placement>() : result;
}

LogicalResult AllReduceOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                           SmallVectorImpl<Placement> &results) {
  Along along(*this, axes, axis);
  return along.infer(getGroup(), operands.take_front(), results,
                     [&](Placement operand) { return getIf(along.expectTerms(operand), {}); });
}

LogicalResult ReduceScatterOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                               SmallVectorImpl<Placement> &results) {
  Along along(*this, axes, axis);
  return along.infer(getGroup(), operands, results, [&](Placement operand) {
    return getIf(along.expectTerms(operand), {Kind::Part, static_cast<unsigned>(getDim())});
  });
}

LogicalResult ReduceOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                        SmallVectorImpl<Placement> &results) {
  // The owner has the value, and the others zeros, which are its terms and no copies.
  Along along(*this, axes, axis);
  return along.infer(getGroup(), operands, results,
                     [&](Placement operand) { return getIf(along.expectTerms(operand), {Kind::Unknown}); });
}

LogicalResult BroadcastOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                           SmallVectorImpl<Placement> &results) {
  Along along(*this, axes, axis);
  return along.infer(getGroup(), operands, results,
                     [&](Placement operand) { return getIf(along.expectWhole(operand), {}); });
}

LogicalResult AssumeReplicatedOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                                  SmallVectorImpl<Placement> &results) {
  Along along(*this, axes, axis);
  return along.infer(getGroup(), operands, results,
                     [&](Placement operand) { return getIf(along.expectWhole(operand), {}); });
}

LogicalResult ToVaryingOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                           SmallVectorImpl<Placement> &results) {
  return Along(*this, axes, axis).infer(getGroup(), operands, results, [&](Placement) {
    return Placement{getShares() ? Kind::Partial : Kind::Copies};
  });
}

LogicalResult AllGatherOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                           SmallVectorImpl<Placement> &results) {
  // Of integers no gradient flows, so that nothing follows from how they lie.
  bool isFloat = isa<FloatType>(getInput().getType().getElementType());
  return Along(*this, axes, axis).infer(getGroup(), operands, results, [&](Placement operand) {
    bool isKnown = operand.is(Kind::Shard) || operand.is(Kind::Partial);
    return isKnown || !isFloat ? operand : Placement{Kind::Joined};
  });
}

LogicalResult SliceOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                       SmallVectorImpl<Placement> &results) {
  return Along(*this, axes, axis).infer(getGroup(), operands, results, [&](Placement) {
    return Placement{Kind::Part, static_cast<unsigned>(getDim())};
  });
}

/// An exchange in which each member gives its part of dimension `to` and gets parts along dimension `from`. What the
/// members had along `from` they have along `to`, or all of them have it where they get `copies`. Terms of a value come
/// to the member that gets this part of it, if all members send (`whole`).
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

LogicalResult AllToAllOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                          SmallVectorImpl<Placement> &results) {
  Along along(*this, axes, axis);
  FailureOr<bool> copies = false;
  // Of a dump for other members than the group's, who gets which copies is not known.
  if (auto dump = getInput().getDefiningOp<DumpOp>(); dump && dump.getDim() == getSplitDim())
    copies = getStoredInput() == getInput() ? FailureOr<bool>() : along.isInBlocksOf(dump.getCopies(), getGroup());
  return along.infer(getGroup(), operands, results,
                     [&](Placement operand) { return exchange(operand, getConcatDim(), getSplitDim(), copies); });
}

LogicalResult AllToAllPhaseOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                               SmallVectorImpl<Placement> &results) {
  // A phase brings from all members of a block, but from one block alone.
  Along along(*this, axes, axis);
  FailureOr<bool> whole = along.isInBlocksOf(getGroup().getSize() / static_cast<int64_t>(getPhases()), getGroup());
  FailureOr<bool> copies = getStoredInput() == getInput() ? FailureOr<bool>(false) : FailureOr<bool>();
  return along.infer(getGroup(), operands, results, [&](Placement operand) {
    return exchange(operand, getConcatDim(), getSplitDim(), copies, whole);
  });
}

LogicalResult JoinPhasesOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                            SmallVectorImpl<Placement> &results) {
  // Each block of members has an order of its own; of shards all orders are shards.
  return Along(*this, axes, axis).infer(getGroup(), operands, results, [&](Placement operand) {
    return operand.is(Kind::Shard) && llvm::all_equal(operands) ? operand : Placement{Kind::Unknown};
  });
}

LogicalResult AllToAllVOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                           SmallVectorImpl<Placement> &results) {
  // Counts tell how many rows go where, and are in any state.
  SmallVector<Placement> values = {operands[0]};
  if (getAddend())
    values.push_back(operands[3]);
  Along along(*this, axes, axis);
  bool toExperts = getDirection() == Direction::to_experts;
  FailureOr<bool> copies = along.isInBlocksOf(toExperts ? static_cast<int64_t>(getCopies()) : 1, getGroup());
  FailureOr<bool> whole = along.isInBlocksOf(getGroup().getSize() / static_cast<int64_t>(getPhases()), getGroup());
  return along.infer(getGroup(), values, results, [&](Placement operand) {
    // Parts of packed rows, whichever they are, divide the tokens of each expert.
    if (toExperts && operand == Placement::shard(0))
      operand = Placement::shard(Placement::kTokens);
    unsigned from = toExperts ? Placement::kTokens : Placement::kExperts;
    unsigned to = toExperts ? Placement::kExperts : Placement::kTokens;
    Placement result = exchange(operand, from, to, copies, whole);
    return !getAddend() || values[1] == result ? result : Placement{Kind::Unknown};
  });
}

/// Counts, which rules pass over.
LogicalResult PhaseOp::inferPlacements(const SpmdAxes &, AxisSet, ArrayRef<Placement>,
                                       SmallVectorImpl<Placement> &results) {
  results.assign(1, {Kind::Unknown});
  return success();
}
LogicalResult SliceCountsOp::inferPlacements(const SpmdAxes &, AxisSet, ArrayRef<Placement>,
                                             SmallVectorImpl<Placement> &results) {
  results.assign(1, {Kind::Unknown});
  return success();
}

LogicalResult LocalSlotsOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                            SmallVectorImpl<Placement> &results) {
  // Neighbours that share out the columns of the same experts make the same choices.
  Along along(*this, axes, axis);
  FailureOr<bool> copies = along.isInBlocksOf(static_cast<int64_t>(getCopies()), getGroup());
  results.push_back({Kind::Unknown});
  results.push_back({Kind::Unknown});
  SmallVector<Placement> slots;
  if (failed(along.infer(getGroup(), operands.take_front(), slots, [&](Placement) {
        if (failed(copies))
          return Placement{Kind::Unknown};
        return *copies ? Placement{Kind::Copies} : Placement::shard(Placement::kExperts);
      })))
    return failure();
  results.front() = slots.front().is(Kind::Replicated) ? Placement{Kind::Copies} : slots.front();
  return success();
}

LogicalResult BroadcastExpertsOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                                  SmallVectorImpl<Placement> &results) {
  Along along(*this, axes, axis);
  return along.infer(getGroup(), operands.take_front(), results,
                     [&](Placement operand) { return getIf(along.expectWhole(operand), {Kind::Copies}); });
}

LogicalResult ReduceExpertsOp::inferPlacements(const SpmdAxes &axes, AxisSet axis, ArrayRef<Placement> operands,
                                               SmallVectorImpl<Placement> &results) {
  SmallVector<Placement> values = {operands[0]};
  if (getAddend())
    values.push_back(operands[2]);
  Along along(*this, axes, axis);
  return along.infer(getGroup(), values, results, [&](Placement operand) {
    // Each member has the sums of its own experts.
    bool known = !getAddend() || values[1] == Placement::shard(0);
    return getIf(along.expectTerms(operand), known ? Placement::shard(0) : Placement{Kind::Unknown});
  });
}
