//===- BaselineLayer.h - the baseline schedule of one layer -----*- C++ -*-===//
//
// Finds the ops that moe-partition makes of a moe.layer in an SPMD program, by their structure and states. Rewrites to
// schedules start from here. The program may be canonical or not: canonicalisation drops ops over one rank.
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
  /// Ops from the tokens to the logits, in order. Each is the only user of the one before.
  SmallVector<Operation *> gate;
  RouteOp route;
  DispatchOp dispatch;
  /// Ops of the experts on their rows. Each takes the result of the one before as operand 0.
  SmallVector<Operation *> experts;
  CombineOp combine;
  /// Result of the layer that the rest of the program uses.
  Value output;

  /// Groups whose members hold the same tokens, the shards of an expert, the experts, and the last two as one. A group
  /// of one rank is null.
  GroupAttr mp, esp, ep, fused;

  int64_t getMp() const { return mp ? mp.getSize() : 1; }
  int64_t getEsp() const { return esp ? esp.getSize() : 1; }
  int64_t getEp() const { return ep ? ep.getSize() : 1; }
  bool isDropless() { return route.isDropless(); }
  /// Weights of the routing `by`, which replaces the layer's routing, for the dispatch and for the combine. One of the
  /// two has them (weigh_inputs of moe.layer), and the other is null.
  Value getDispatchWeights(RouteOp by) { return dispatch.getWeights() ? Value(by.getWeights()) : Value(); }
  Value getCombineWeights(RouteOp by) { return dispatch.getWeights() ? Value() : Value(by.getWeights()); }
  int64_t getTokens() { return route.getLogits().getType().getDimSize(0); }
  /// Number of routing groups of each member of mp if it routes its own share of the tokens (Parm's S1). It is the
  /// baseline's part if no group crosses the shares. Otherwise each share has as many groups as the baseline.
  int64_t getGroupsOfShare();
  /// Reason (a phrase) why the tokens cannot be divided into such shares, or an empty text.
  std::string getShareObstacle();

  /// Builds the experts on other rows: the same number for each expert, or packed rows with `counts`. Their weights are
  /// not cast.
  Value cloneExperts(OpBuilder &builder, Value rows, Value counts) const;
  /// Replaces the layer's output by `output`, which was built before the combine, and erases ops that are dead then.
  void replaceWith(Value output);

  /// The layer whose tokens `dispatch` sends. Fails with the part that does not fit the baseline (a phrase) in
  /// `reason`.
  static FailureOr<BaselineLayer> match(DispatchOp dispatch, const SpmdAnalysis &states, std::string &reason);
};

/// Builds `op` with the number of rows of `rows`, its operand 0. Its i32 operands become `counts`, if these are given.
Value cloneOnRows(OpBuilder &builder, Operation *op, Value rows, Value counts);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_BASELINELAYER_H
