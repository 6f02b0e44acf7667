//===- VerifySpmd.cpp - reject programs whose SPMD states do not fit ------===//
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEVERIFYSPMD
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// Reports the first operand of `op` whose state is not the one required.
static LogicalResult verifyOperands(Operation &op, const SpmdAnalysis &analysis) {
  const SpmdAxes &axes = analysis.getAxes();
  SmallVector<AxisSet> required = analysis.getRequired(&op);
  for (auto [operand, wanted] : llvm::zip(op.getOpOperands(), required)) {
    AxisSet state = analysis.getState(operand.get());
    if (state == wanted)
      continue;
    InFlightDiagnostic error = op.emitOpError()
                               << "expected operand #" << operand.getOperandNumber() << " to vary over "
                               << axes.describe(wanted) << " but it varies over " << axes.describe(state);
    if (op.hasTrait<OpTrait::IsTerminator>() && !(state - wanted).empty())
      error << "; a sum or gather over " << axes.describe(state - wanted) << " is missing";
    else if (!(wanted - state).empty())
      error << "; it is replicated over " << axes.describe(wanted - state)
            << ", so that its copies would count more than once without moe.to_varying";
    if (Operation *definition = operand.get().getDefiningOp())
      error.attachNote(definition->getLoc()) << "the operand is defined here";
    return error;
  }
  return success();
}

namespace {
struct MoeVerifySpmd : moe::impl::MoeVerifySpmdBase<MoeVerifySpmd> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SpmdAnalysis> analysis = SpmdAnalysis::compute(getOperation());
    if (failed(analysis))
      return signalPassFailure();
    for (Operation &op : getOperation().front())
      if (failed(verifyOperands(op, *analysis)))
        signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
