//===- SetResiduals.cpp - moe-set-residuals -------------------------------===//
#include "ExpertPath.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "moe/Dialect/Moe/Transforms/LeftLayers.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOESETRESIDUALS
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

static bool isProduct(Operation *op) {
  auto priced = dyn_cast<MoeCostOpInterface>(op);
  return priced && priced.getOpCost().resource == Resource::Matrix;
}

/// Op in whose memory `value` lies, or null for arguments.
static Operation *getOwner(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && isAlias(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

namespace {
/// Sets how the backward gets the values of experts. Experts are matrix products and the ops between them. The first
/// products read dispatched rows, and the last ones compute the rows that return.
class ResidualSetter {
public:
  explicit ResidualSetter(ExpertPath path) : path(path), all(path.ops.begin(), path.ops.end()) {
    all.insert(path.dispatch);
  }

  void setDispatched(Residual residual);
  void setHidden(Residual residual);

private:
  /// Ops on the path that `from` needs, without itself.
  llvm::SetVector<Operation *> getAncestors(Operation *from);
  bool hasProductBefore(Operation *op) { return llvm::any_of(getAncestors(op), isProduct); }
  void set(Operation *op, Residual residual) {
    if (op && all.contains(op))
      op->setAttr(kResidualAttrName, ResidualAttr::get(op->getContext(), residual));
  }
  /// Lets the backward repeat an op.
  void repeat(Operation *op);

  ExpertPath path;
  llvm::DenseSet<Operation *> all;
};
} // namespace

llvm::SetVector<Operation *> ResidualSetter::getAncestors(Operation *from) {
  llvm::SetVector<Operation *> ancestors;
  SmallVector<Operation *> todo = {from};
  while (!todo.empty())
    for (Value operand : todo.pop_back_val()->getOperands())
      if (Operation *op = operand.getDefiningOp(); op && all.contains(op) && ancestors.insert(op))
        todo.push_back(op);
  return ancestors;
}

void ResidualSetter::repeat(Operation *op) {
  // Counts are small and kept.
  if (!isa<FloatType>(getTensorType(op->getResult(0)).getElementType()))
    return;
  set(op, isCollective(op) ? Residual::recommunicate : Residual::recompute);
}

void ResidualSetter::setDispatched(Residual residual) {
  for (Operation *op : path.ops) {
    if (!isProduct(op) || hasProductBefore(op))
      continue;
    if (residual == Residual::offload)
      set(getOwner(op->getOperand(0)), residual);
    else if (residual != Residual::keep)
      llvm::for_each(getAncestors(op), [&](Operation *before) { repeat(before); });
  }
}

void ResidualSetter::setHidden(Residual residual) {
  for (Operation *op : path.ops) {
    if (!isProduct(op) || !hasProductBefore(op))
      continue;
    // Ops between the products, with the first product.
    Operation *last = op->getOperand(0).getDefiningOp();
    if (residual == Residual::offload) {
      // Values that are elementwise of another value are computed again from it.
      Operation *before = isProduct(last) ? nullptr : last->getOperand(0).getDefiningOp();
      if (before)
        repeat(last);
      set(before ? before : last, residual);
    } else if (residual != Residual::keep) {
      for (Operation *inner = last; inner && all.contains(inner); inner = inner->getOperand(0).getDefiningOp()) {
        repeat(inner);
        if (isProduct(inner))
          break;
      }
    }
  }
}

namespace {
struct MoeSetResiduals : moe::impl::MoeSetResidualsBase<MoeSetResiduals> {
  using Base::Base;

  void runOnOperation() override {
    if (dispatched == Residual::recompute || hidden == Residual::recommunicate) {
      getOperation().emitError() << "expected dispatched to be keep, offload or recommunicate and hidden to be keep, "
                                    "offload or recompute but got "
                                 << stringifyResidual(dispatched) << " and " << stringifyResidual(hidden);
      return signalPassFailure();
    }
    for (DispatchOp dispatch : ExpertPath::getDispatches(getOperation())) {
      std::string reason;
      FailureOr<ExpertPath> path = ExpertPath::find(dispatch, reason);
      if (failed(path)) {
        leaveLayer(dispatch, "moe-set-residuals", reason);
        continue;
      }
      ResidualSetter setter(*path);
      setter.setDispatched(dispatched);
      setter.setHidden(hidden);
    }
  }
};
} // namespace
