//===- SplitExchanges.cpp - moe-split-exchanges ---------------------------===//
#include "ExpertPath.h"

#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOESPLITEXCHANGES
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// Ops after `exchange`, each the only user of the one before, up to the last other exchange. All can be split.
static SmallVector<MoeSplittableOpInterface> getConsumers(AllToAllOp exchange, int64_t parts) {
  SmallVector<MoeSplittableOpInterface> consumers;
  size_t upToExchange = 0;
  for (Value value = exchange.getResult(); value.hasOneUse(); value = consumers.back()->getResult(0)) {
    Operation *user = *value.user_begin();
    auto splittable = dyn_cast<MoeSplittableOpInterface>(user);
    if (!splittable || user->getOperand(0) != value || !splittable.canSplit(parts, exchange.getGroup()))
      break;
    consumers.push_back(splittable);
    if (isCollective(user))
      upToExchange = consumers.size();
  }
  consumers.truncate(upToExchange);
  return consumers;
}

static void split(AllToAllOp exchange, ArrayRef<MoeSplittableOpInterface> consumers, int64_t phases) {
  OpBuilder builder(exchange);
  builder.setInsertionPointAfter(consumers.back());
  RankedTensorType part = scaleDim(exchange.getResult(), exchange.getConcatDim(), 1, phases);
  SmallVector<Value> parts;
  for (int64_t phase = 0; phase < phases; ++phase) {
    Value value = builder.create<AllToAllPhaseOp>(exchange.getLoc(), part, exchange.getInput(), exchange.getGroup(),
                                                  exchange.getSplitDim(), exchange.getConcatDim(), phase, phases);
    for (MoeSplittableOpInterface consumer : consumers)
      value = consumer.buildOnPart(builder, value, phases);
    parts.push_back(value);
  }
  Value whole = builder.create<JoinPhasesOp>(exchange.getLoc(), parts, exchange.getGroup());
  consumers.back()->getResult(0).replaceAllUsesWith(whole);
  for (MoeSplittableOpInterface consumer : llvm::reverse(consumers))
    consumer->erase();
  exchange.erase();
}

namespace {
struct MoeSplitExchanges : moe::impl::MoeSplitExchangesBase<MoeSplitExchanges> {
  using Base::Base;

  void runOnOperation() override {
    if (phases < 0) {
      getOperation().emitError() << "expected phases to be at least 0 but got " << phases.getValue();
      return signalPassFailure();
    }
    bool any = false;
    for (auto exchange : llvm::to_vector(getOperation().getOps<AllToAllOp>()))
      any |= split(exchange);
    if (!any)
      getOperation().emitRemark()
          << "moe-split-exchanges: no all_to_all of this program can be made in phases: that "
             "needs ops that work on each block alone, and after them an exchange inside the blocks";
  }

  bool split(AllToAllOp exchange) {
    // The rows that arrive in a phase have to be one piece of the whole.
    if (exchange.getConcatDim() != 0 || exchange.getSplitDim() == 0)
      return false;
    int64_t members = exchange.getGroup().getSize();
    for (int64_t count = phases ? std::min<int64_t>(phases, members) : members; count > 1; --count) {
      if (members % count != 0)
        continue;
      SmallVector<MoeSplittableOpInterface> consumers = getConsumers(exchange, count);
      if (consumers.empty())
        continue;
      ::split(exchange, consumers, count);
      return true;
    }
    return false;
  }
};
} // namespace
