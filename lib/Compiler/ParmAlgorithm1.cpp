//===- ParmAlgorithm1.cpp - moe-parm-algorithm1 ---------------------------===//
#include "moe/Compiler/Passes.h"

#include "moe/Cost/Papers.h"
#include "moe/Dialect/Moe/Transforms/BaselineLayer.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEPARMALGORITHM1
#include "moe/Compiler/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Algorithm 1 for one layer.
class Choice {
public:
  /// Takes the shorter one, or `given`.
  Choice(BaselineLayer layer, const ClusterRates &rates, StringRef given);

  /// "s1" or "s2".
  StringRef getName() const { return useS1 ? "s1" : "s2"; }
  /// All terms, as kScheduleChoicesAttrName has them.
  DictionaryAttr describe(Builder &builder) const;

private:
  /// A line in elements, from seconds a byte.
  parm::AlphaBeta getLine(double alpha, double beta) const { return {alpha, beta * elementBytes}; }
  /// A line with its value for this layer: seconds, seconds a byte, bytes, seconds.
  ArrayAttr getTerm(Builder &builder, parm::AlphaBeta line, double elements) const;

  BaselineLayer layer;
  RankedTensorType tokens;
  double elementBytes;
  std::string obstacle;
  parm::Layer formula;
  parm::AlphaBeta allToAll, allGather, overlapped;
  bool useS1;
};
} // namespace

/// T E is the rows that the rank dispatches, k f B L.
static parm::Layer getFormula(BaselineLayer &layer, RankedTensorType tokens) {
  parm::Layer formula;
  formula.batch = formula.topK = 1;
  formula.sequence = static_cast<double>(tokens.getDimSize(0));
  formula.embedding = static_cast<double>(tokens.getDimSize(1));
  formula.experts = static_cast<double>(layer.route.getLogits().getType().getDimSize(1));
  formula.capacityFactor =
      static_cast<double>(layer.dispatch.getResult().getType().getNumElements()) / tokens.getNumElements();
  formula.mp = static_cast<double>(layer.getMp());
  formula.esp = static_cast<double>(layer.getEsp());
  return formula;
}

Choice::Choice(BaselineLayer one, const ClusterRates &rates, StringRef given)
    : layer(one), tokens(cast<RankedTensorType>(one.tokens.getType())),
      elementBytes(static_cast<double>(tokens.getElementTypeBitWidth()) / 8), obstacle(layer.getShareObstacle()),
      formula(getFormula(layer, tokens)), allToAll(getLine(rates.allToAllAlpha, rates.allToAllBeta)) {
  allGather = layer.mp ? getLine(rates.allGatherAlpha, rates.allGatherBeta) : parm::AlphaBeta();
  overlapped = layer.mp ? getLine(rates.overlappedAlpha, rates.overlappedBeta) : allToAll;
  bool isS1 = given.empty() ? parm::chooseSchedule(formula, allToAll, allGather, overlapped) == parm::Schedule::S1
                            : given == "s1";
  useS1 = obstacle.empty() && isS1;
}

ArrayAttr Choice::getTerm(Builder &builder, parm::AlphaBeta line, double elements) const {
  return builder.getF64ArrayAttr({line.alpha, line.beta / elementBytes, elements * elementBytes, line(elements)});
}

DictionaryAttr Choice::describe(Builder &builder) const {
  auto number = [&](double value) { return builder.getF64FloatAttr(value); };
  parm::Layer empty = formula;
  empty.sequence = 0;
  auto name = dyn_cast<NameLoc>(layer.dispatch->getLoc());
  NamedAttrList choice;
  choice.append("layer", name ? name.getName() : builder.getStringAttr(""));
  choice.append("chosen", builder.getStringAttr(getName()));
  choice.append("obstacle", builder.getStringAttr(obstacle));
  choice.append("tokens", builder.getI64IntegerAttr(tokens.getDimSize(0)));
  choice.append("all_to_all", getTerm(builder, allToAll, formula.getSplit()));
  choice.append("all_gather", getTerm(builder, allGather, static_cast<double>(tokens.getNumElements())));
  choice.append("overlapped", getTerm(builder, overlapped, formula.getSplit()));
  choice.append("s1", number(parm::getS1Seconds(formula, allToAll, allGather)));
  choice.append("s2", number(parm::getS2Seconds(formula, allToAll, overlapped)));
  // The same for no tokens: start-ups alone.
  choice.append("s1_alpha", number(parm::getS1Seconds(empty, allToAll, allGather)));
  choice.append("s2_alpha", number(parm::getS2Seconds(empty, allToAll, overlapped)));
  return choice.getDictionary(builder.getContext());
}

namespace {
struct MoeParmAlgorithm1 : moe::impl::MoeParmAlgorithm1Base<MoeParmAlgorithm1> {
  using Base::Base;

  void runOnOperation() override {
    for (StringRef choice : given)
      if (choice != "s1" && choice != "s2") {
        getOperation().emitError() << "expected each choice of given to be s1 or s2 but got '" << choice << "'";
        return signalPassFailure();
      }
    FailureOr<SpmdAnalysis> states = SpmdAnalysis::compute(getOperation());
    if (failed(states))
      return signalPassFailure();
    Builder builder(&getContext());
    ClusterRates rates = getClusterRates(getOperation());
    SmallVector<Attribute> choices;
    for (auto dispatch : getOperation().getOps<DispatchOp>()) {
      std::string reason;
      FailureOr<BaselineLayer> layer = BaselineLayer::match(dispatch, *states, reason);
      // moe-pause-mp says why.
      if (failed(layer))
        continue;
      Choice choice(*layer, rates, choices.size() < given.size() ? StringRef(given[choices.size()]) : StringRef());
      dispatch->setAttr(kPauseMpAttrName, builder.getStringAttr(choice.getName()));
      choices.push_back(choice.describe(builder));
    }
    if (!choices.empty())
      getOperation()->setAttr(kScheduleChoicesAttrName, builder.getArrayAttr(choices));
  }
};
} // namespace
