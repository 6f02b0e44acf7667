//===- ExpertPath.cpp - from a layer's dispatch to its combine ------------===//
#include "ExpertPath.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::moe;

Value mlir::moe::skipToVarying(Value value) {
  while (auto cast = value.getDefiningOp<ToVaryingOp>())
    value = cast.getInput();
  return value;
}

bool mlir::moe::isAlias(Operation *op) {
  auto kernel = dyn_cast<MoeKernelOpInterface>(op);
  return kernel && kernel.isAlias();
}

bool mlir::moe::isCollective(Operation *op) {
  auto kernel = dyn_cast<MoeKernelOpInterface>(op);
  return kernel && kernel.isCollective();
}

bool mlir::moe::isExpert(Operation *op) { return isa<GroupedMatmulOp, BiasAddOp, ActivationOp>(op); }

/// Ops that are computed from `roots`, in program order, up to `end` and without it.
static llvm::SetVector<Operation *> getUsersUpTo(ValueRange roots, Operation *end) {
  llvm::DenseSet<Value> reached(roots.begin(), roots.end());
  llvm::SetVector<Operation *> ops;
  for (Operation &op : *end->getBlock()) {
    if (&op == end)
      break;
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return reached.contains(operand); })) {
      ops.insert(&op);
      reached.insert(op.result_begin(), op.result_end());
    }
  }
  return ops;
}

/// The combine of a dispatch. One of the two has the weights.
static CombineOp findCombine(DispatchOp dispatch, Value slots) {
  for (auto combine : dispatch->getBlock()->getOps<CombineOp>())
    if (dispatch->isBeforeInBlock(combine) && !combine.getWeights() == static_cast<bool>(dispatch.getWeights()) &&
        skipToVarying(combine.getSlots()) == slots)
      return combine;
  return {};
}

SmallVector<DispatchOp> ExpertPath::getDispatches(func::FuncOp function) {
  SmallVector<DispatchOp> dispatches;
  for (auto dispatch : function.getOps<DispatchOp>()) {
    Value slots = skipToVarying(dispatch.getSlots());
    auto op = slots.getDefiningOp<MoeSlotsOpInterface>();
    if (!op || op.getSlots() == slots)
      dispatches.push_back(dispatch);
  }
  return dispatches;
}

FailureOr<ExpertPath> ExpertPath::find(DispatchOp dispatch, std::string &reason) {
  auto fail = [&](const Twine &text) -> FailureOr<ExpertPath> {
    reason = text.str();
    return failure();
  };
  ExpertPath path;
  path.dispatch = dispatch;
  Value slots = skipToVarying(dispatch.getSlots());
  path.slots = slots.getDefiningOp<MoeSlotsOpInterface>();
  if (!path.slots || path.slots.getSlots() != slots)
    return fail("the slots of its dispatch do not come from a routing");
  path.combine = findCombine(dispatch, slots);
  if (!path.combine)
    return fail("its rows do not return to a moe.combine of the same routing");
  Value roots[] = {dispatch.getResult(), path.slots.getCounts()};
  llvm::SetVector<Operation *> ops = getUsersUpTo(roots, path.combine);
  auto isOnPath = [&](Operation *user) { return user == path.combine || ops.contains(user); };
  for (Operation *op : ops)
    for (Operation *user : op->getUsers())
      if (!isOnPath(user))
        return fail("the result of '" + op->getName().getStringRef() + "' is also used after its combine");
  if (!llvm::all_of(dispatch->getUsers(), isOnPath))
    return fail("its dispatched rows are also used after its combine");
  Operation *last = path.combine.getRows().getDefiningOp();
  if (!last || (last != dispatch && !ops.contains(last)))
    return fail("its combined rows are not computed from its dispatched rows");
  path.ops = ops.takeVector();
  return path;
}
