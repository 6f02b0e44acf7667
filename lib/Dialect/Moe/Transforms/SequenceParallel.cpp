//===- SequenceParallel.cpp - moe-sequence-parallel -----------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOESEQUENCEPARALLEL
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Goes through a program once, and passes parts on from op to op.
class RowDivider {
public:
  RowDivider(GroupAttr mp, SpmdAnalysis states) : mp(mp), states(std::move(states)) {}

  /// Returns whether it divided any rows.
  bool run(Block &body);

private:
  void divideSum(AllReduceOp sum);
  void divide(MoeRowwiseOpInterface op);
  void rememberGather(AllGatherOp gather);
  /// Replaces the result of `op` by a gather of `part`.
  void replace(Operation *op, Value part);
  bool isReplicated(Value value) const;

  GroupAttr mp;
  SpmdAnalysis states;
  /// Parts that were gathered, by the result.
  llvm::DenseMap<Value, Value> parts;
  SmallVector<AllGatherOp> gathers;
  bool changed = false;
};

} // namespace

static ValueRange getRowOperands(MoeRowwiseOpInterface op) {
  return op->getOperands().take_front(op.getNumRowOperands());
}

/// Whether a value is replicated. A gather's result is, although the analysis came before the gather.
bool RowDivider::isReplicated(Value value) const {
  return parts.contains(value) || (states.getState(value) & *states.getAxes().getAxes(mp)).empty();
}

void RowDivider::replace(Operation *op, Value part) {
  OpBuilder builder(op);
  auto gather = builder.create<AllGatherOp>(op->getLoc(), part, mp, 0);
  op->getResult(0).replaceAllUsesWith(gather.getResult());
  rememberGather(gather);
  op->erase();
  changed = true;
}

void RowDivider::rememberGather(AllGatherOp gather) {
  if (!gather.getGroup().hasSameRanks(mp) || gather.getDim() != 0)
    return;
  parts[gather.getResult()] = gather.getInput();
  gathers.push_back(gather);
}

/// Divides a sum if an op that each member can do for its part takes it.
void RowDivider::divideSum(AllReduceOp sum) {
  bool isUsed = llvm::any_of(sum->getUsers(), [&](Operation *user) {
    auto rowwise = dyn_cast<MoeRowwiseOpInterface>(user);
    return rowwise && rowwise.canDivideRows(mp) && llvm::is_contained(getRowOperands(rowwise), sum.getResult());
  });
  if (!isUsed || sum.getCounts() || !sum.getGroup().hasSameRanks(mp))
    return;
  OpBuilder builder(sum);
  auto type = sum.getResult().getType();
  auto part = type.clone({type.getDimSize(0) / mp.getSize(), type.getDimSize(1)});
  replace(sum, builder.create<ReduceScatterOp>(sum.getLoc(), part, sum.getInput(), mp, 0));
}

void RowDivider::divide(MoeRowwiseOpInterface op) {
  ValueRange rows = getRowOperands(op);
  if (!op.canDivideRows(mp) || !llvm::any_of(rows, [&](Value value) { return parts.contains(value); }) ||
      !llvm::all_of(rows, [&](Value value) { return isReplicated(value); }))
    return;
  OpBuilder builder(op);
  SmallVector<Value> own;
  for (Value value : rows) {
    Value part = parts.lookup(value);
    own.push_back(part ? part : builder.create<SliceOp>(op.getLoc(), value, mp, 0).getResult());
  }
  replace(op, op.buildOnRowPart(builder, own, mp));
}

bool RowDivider::run(Block &body) {
  for (Operation &op : llvm::make_early_inc_range(body)) {
    if (auto gather = dyn_cast<AllGatherOp>(op))
      rememberGather(gather);
    else if (auto sum = dyn_cast<AllReduceOp>(op))
      divideSum(sum);
    else if (auto rowwise = dyn_cast<MoeRowwiseOpInterface>(op))
      divide(rowwise);
  }
  for (AllGatherOp gather : gathers)
    if (gather->use_empty())
      gather.erase();
  return changed;
}

namespace {
struct MoeSequenceParallel : moe::impl::MoeSequenceParallelBase<MoeSequenceParallel> {
  using Base::Base;

  void runOnOperation() override {
    ParallelAttr parallel = getParallel(getOperation());
    if (!parallel)
      return signalPassFailure();
    GroupAttr mp = parallel.getGroup("mp");
    if (mp.getSize() == 1)
      return;
    FailureOr<SpmdAnalysis> states = SpmdAnalysis::compute(getOperation());
    if (failed(states))
      return signalPassFailure();
    if (!RowDivider(mp, std::move(*states)).run(getOperation().front()))
      getOperation().emitWarning() << "moe-sequence-parallel leaves the program as it is: expected a norm, dropout or "
                                      "sum that uses a sum or gather over mp, with a number of rows divisible by "
                                   << mp.getSize();
    if (failed(insertToVarying(getOperation())))
      signalPassFailure();
  }
};
} // namespace
