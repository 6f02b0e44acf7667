//===- BaselineLayer.h - the baseline schedule of one layer -----*- C++ -*-===//
//
// What moe-partition makes of a moe.layer, found again in an SPMD program by its structure and its states: schedules
// start from here. Before or after canonicalisation, which drops whatever is over one rank.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_BASELINELAYER_H
#define MOE_DIALECT_MOE_TRANSFORMS_BASELINELAYER_H

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {

struct BaselineLayer {
  /// The rank's tokens [S, M], replicated over mp.
  Value tokens;
  /// From the tokens to the logits, in order, each the only user of the one before.
  SmallVector<Operation *> gate;
  RouteOp route;
  DispatchOp dispatch;
  /// The experts on their rows: each takes the result of the one before as operand 0.
  SmallVector<Operation *> experts;
  CombineOp combine;
  /// What the rest of the program has of the layer.
  Value output;

  /// Groups of more than one rank, else null: those whose members hold the same tokens, the shards of an expert, the
  /// experts, and the last two as one.
  GroupAttr mp, esp, ep, fused;

  int64_t getMp() const { return mp ? mp.getSize() : 1; }
  int64_t getEsp() const { return esp ? esp.getSize() : 1; }
  int64_t getEp() const { return ep ? ep.getSize() : 1; }
  bool isDropless() { return static_cast<int64_t>(route.getCapacity()) == 0; }
  /// The weights of the routing `by`, which takes the place of the layer's, for the dispatch and for the combine: one
  /// of them has them (weigh_inputs of moe.layer), the other null.
  Value getDispatchWeights(RouteOp by) { return dispatch.getWeights() ? Value(by.getWeights()) : Value(); }
  Value getCombineWeights(RouteOp by) { return dispatch.getWeights() ? Value() : Value(by.getWeights()); }
  int64_t getTokens() { return route.getLogits().getType().getDimSize(0); }
  /// Routing groups of each member of mp where it routes its own share of the tokens (Parm's S1): the baseline's where
  /// they do not cross the shares, else each share is in as many groups as the baseline has.
  int64_t getGroupsOfShare();
  /// Why the tokens cannot be shared out so, a phrase; empty where they can.
  std::string getShareObstacle();

  /// The experts on other rows: of each of the same experts, or packed with `counts`. Their weights are not cast.
  Value cloneExperts(OpBuilder &builder, Value rows, Value counts) const;
  /// Puts `output` into the place of the layer's, which was built before the combine, and erases what is dead then.
  void replaceWith(Value output);

  /// The layer whose tokens `dispatch` sends. Fails with what does not fit the baseline, a phrase, in `reason`.
  static FailureOr<BaselineLayer> match(DispatchOp dispatch, const SpmdAnalysis &states, std::string &reason);
};

/// `op` with as many rows as `rows`, its operand 0, has, and with `counts`, where there are some, for its i32 operands.
Value cloneOnRows(OpBuilder &builder, Operation *op, Value rows, Value counts);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_BASELINELAYER_H
