//===- RingAttention.cpp - keys and values go round the members of cp -----===//
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOERINGATTENTION
#define GEN_PASS_DEF_MOEEXPANDRINGATTENTION
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// moe-ring-attention
//===----------------------------------------------------------------------===//

/// The rank's rows of keys or values that `all` gathers over `cp` and puts in order, or null.
static Value findOwnRows(Value all, GroupAttr cp) {
  if (auto join = all.getDefiningOp<JoinSequencesOp>())
    all = join.getX();
  if (auto varying = all.getDefiningOp<ToVaryingOp>())
    all = varying.getInput();
  auto gather = all.getDefiningOp<AllGatherOp>();
  return gather && gather.getGroup() == cp ? gather.getInput() : Value();
}

namespace {
struct MoeRingAttention : moe::impl::MoeRingAttentionBase<MoeRingAttention> {
  using Base::Base;

  void runOnOperation() override {
    for (auto attention : getOperation().getOps<AttentionOp>()) {
      CutAttr cut = attention.getCutAttr();
      if (!cut || attention.getRing() || attention.getKeyShift() >= 0)
        continue;
      Value k = findOwnRows(attention.getK(), cut.getGroup()), v = findOwnRows(attention.getV(), cut.getGroup());
      if (attention.getBias() || attention.getStep() || !k || !v) {
        attention.emitRemark() << "moe-ring-attention: expected attention without bias and dropout, of keys and values "
                                  "that are gathered; they stay gathered";
        continue;
      }
      attention.getKMutable().assign(k);
      attention.getVMutable().assign(v);
      attention.setKLength(attention.getKLength() / cut.getGroup().getSize());
      attention.setRing(true);
    }
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// moe-expand-ring-attention
//===----------------------------------------------------------------------===//

namespace {
/// Writes out one op with `ring`.
class RingExpander {
public:
  RingExpander(Operation *op, CutAttr cut) : op(op), cp(cut.getGroup()), builder(op) {}

  void expand(AttentionOp attention);
  void expand(AttentionGradOp gradient);

private:
  int64_t getMembers() const { return cp.getSize(); }
  /// Receives `own` of the member that is `phase` places before this one.
  Value receive(Value own, int64_t phase) {
    if (phase == 0)
      return own;
    auto copies = builder.create<DumpOp>(op->getLoc(), own, /*dim=*/0, /*blocks=*/1, getMembers());
    return builder.create<AllToAllPhaseOp>(op->getLoc(), own.getType(), copies, cp, /*split_dim=*/0, /*concat_dim=*/0,
                                           phase, getMembers());
  }
  /// Receives keys and values for the step after `step`, beside the computation of `step`.
  void receiveNext(Value k, Value v, int64_t step) {
    if (step + 1 < getMembers())
      next = {receive(k, step + 1), receive(v, step + 1)};
  }
  Value add(Value sum, Value value) {
    return sum ? builder.create<AddOp>(op->getLoc(), sum, value).getResult() : value;
  }
  /// Builds the op of one step on `keys` and values.
  template <typename Op> Op buildStep(Op ring, std::pair<Value, Value> keys, int64_t step) {
    auto one = cast<Op>(builder.clone(*ring.getOperation()));
    one.getKMutable().assign(keys.first);
    one.getVMutable().assign(keys.second);
    one.setRing(false);
    one.setKeyShift(step);
    return one;
  }
  /// Replaces the op by `results`. Ops that were made for it belong where it belongs.
  void finish(ValueRange results, Operation *before);

  Operation *op;
  GroupAttr cp;
  OpBuilder builder;
  std::pair<Value, Value> next;
};
} // namespace

void RingExpander::finish(ValueRange results, Operation *before) {
  for (Operation *made = before ? before->getNextNode() : &op->getBlock()->front(); made != op;
       made = made->getNextNode()) {
    inheritUnit(op, made);
    for (StringRef name : {kRepeatedAttrName, kResidualAttrName})
      if (Attribute attribute = op->getAttr(name))
        made->setAttr(name, attribute);
  }
  op->replaceAllUsesWith(results);
  op->erase();
}

void RingExpander::expand(AttentionOp attention) {
  Operation *before = op->getPrevNode();
  Value result, lse;
  next = {attention.getK(), attention.getV()};
  for (int64_t step = 0; step < getMembers(); ++step) {
    std::pair<Value, Value> keys = next;
    receiveNext(attention.getK(), attention.getV(), step);
    AttentionOp one = buildStep(attention, keys, step);
    // A sink counts once.
    if (step > 0)
      one.getSinksMutable().clear();
    if (step == 0) {
      result = one.getResult();
      lse = one.getLse();
      continue;
    }
    auto merged = builder.create<MergeAttentionOp>(op->getLoc(), result, lse, one.getResult(), one.getLse());
    result = merged.getResult();
    lse = merged.getLse();
  }
  finish({result, lse}, before);
}

void RingExpander::expand(AttentionGradOp gradient) {
  Operation *before = op->getPrevNode();
  Value q, k, v;
  next = {gradient.getK(), gradient.getV()};
  for (int64_t step = 0; step < getMembers(); ++step) {
    std::pair<Value, Value> keys = next;
    receiveNext(gradient.getK(), gradient.getV(), step);
    AttentionGradOp one = buildStep(gradient, keys, step);
    q = add(q, one.getGradQ());
    // The gradients return to the owners of the keys.
    int64_t back = (getMembers() - step) % getMembers();
    k = add(k, receive(one.getGradK(), back));
    v = add(v, receive(one.getGradV(), back));
  }
  finish({q, k, v}, before);
}

namespace {
struct MoeExpandRingAttention : moe::impl::MoeExpandRingAttentionBase<MoeExpandRingAttention> {
  using Base::Base;

  void runOnOperation() override {
    for (auto attention : llvm::to_vector(getOperation().getOps<AttentionOp>()))
      if (attention.getRing())
        RingExpander(attention, *attention.getCut()).expand(attention);
    for (auto gradient : llvm::to_vector(getOperation().getOps<AttentionGradOp>()))
      if (gradient.getRing())
        RingExpander(gradient, *gradient.getCut()).expand(gradient);
  }
};
} // namespace
