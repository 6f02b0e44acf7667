//===- InsertToVarying.cpp - cast operands to the states their ops want ---===//
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEINSERTTOVARYING
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

LogicalResult mlir::moe::insertToVarying(func::FuncOp function) {
  FailureOr<SpmdAnalysis> analysis = SpmdAnalysis::compute(function);
  if (failed(analysis))
    return failure();
  llvm::DenseMap<std::pair<Value, uint64_t>, Value> casts;
  OpBuilder builder(function.getContext());
  auto castTo = [&](Value value, AxisSet missing) {
    Value &varying = casts[{value, missing.bits}];
    if (varying)
      return varying;
    builder.setInsertionPointAfterValue(value);
    varying = value;
    for (GroupAttr group : analysis->getAxes().getGroups(missing))
      varying = builder.create<ToVaryingOp>(value.getLoc(), varying, group);
    return varying;
  };
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    SmallVector<AxisSet> required = analysis->getRequired(&op);
    for (auto [operand, wanted] : llvm::zip(op.getOpOperands(), required))
      if (AxisSet missing = wanted - analysis->getState(operand.get()); !missing.empty())
        operand.set(castTo(operand.get(), missing));
  }
  return success();
}

namespace {
struct MoeInsertToVarying : moe::impl::MoeInsertToVaryingBase<MoeInsertToVarying> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(insertToVarying(getOperation())))
      signalPassFailure();
  }
};
} // namespace
