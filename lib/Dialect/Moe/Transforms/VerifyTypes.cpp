//===- VerifyTypes.cpp - reject programs that round more than asked -------===//
//
// Runs cannot tell such rounding from the rounding that a program of 16 bits has anyway.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEVERIFYTYPES
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// The element type of a floating-point value; null for others.
static FloatType getFloatType(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? dyn_cast<FloatType>(type.getElementType()) : FloatType();
}

/// Requires the program's type or its accumulator type of each value.
static LogicalResult verifyKnownTypes(Operation &op, Type dtype) {
  for (Value result : op.getResults())
    if (FloatType type = getFloatType(result); type && type != dtype && type != getAccumulatorType(dtype))
      return op.emitOpError() << "has a result of " << type << " in a program of " << dtype;
  return success();
}

/// Whether an op moves values between ranks, adds them up over ranks, or reads them where they are.
static bool handsOn(Operation &op) {
  auto kernel = dyn_cast<MoeKernelOpInterface>(op);
  return kernel && (kernel.isAlias() || kernel.isCollective());
}

/// Rejects values that are rounded to fewer bits, only handed on, and given more bits again.
static LogicalResult verifyCasts(func::FuncOp function) {
  llvm::DenseSet<Value> rounded;
  for (Operation &op : function.front()) {
    bool isOfRounded = llvm::any_of(op.getOperands(), [&](Value value) { return rounded.contains(value); });
    if (handsOn(op) && isOfRounded)
      rounded.insert(op.result_begin(), op.result_end());
    auto cast = dyn_cast<CastOp>(op);
    if (!cast)
      continue;
    FloatType from = getFloatType(cast.getOperand()), to = getFloatType(cast.getResult());
    if (to.getWidth() < from.getWidth())
      rounded.insert(cast.getResult());
    else if (isOfRounded)
      return op.emitOpError() << "gives values " << to << " again that were rounded to " << from
                              << " on their way: expected them to stay " << to;
  }
  return success();
}

/// Requires sums of gradients over data-parallel ranks in their type.
static LogicalResult verifyGradientSums(Operation &op, FloatType gradients) {
  auto costs = dyn_cast<MoeCostOpInterface>(op);
  GroupAttr group = costs ? costs.getCostGroup() : GroupAttr();
  if (!group || (!group.getName().starts_with("dp") && !group.getName().starts_with("edp")))
    return success();
  Collective collective = costs.getOpCost().collective;
  FloatType type = getFloatType(op.getOperand(0));
  bool isSum = collective == Collective::AllReduce || collective == Collective::ReduceScatter;
  if (isSum && type && type.getWidth() < gradients.getWidth())
    return op.emitOpError() << "adds up values of " << type << " over '" << group.getName()
                            << "' in a program whose gradients are summed in " << gradients;
  return success();
}

namespace {
struct MoeVerifyTypes : moe::impl::MoeVerifyTypesBase<MoeVerifyTypes> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    auto module = getOperation()->getParentOfType<ModuleOp>();
    auto given = module->getAttrOfType<TypeAttr>(kDTypeAttrName),
         gradients = module->getAttrOfType<TypeAttr>(kGradientDTypeAttrName);
    Type dtype = given ? given.getValue() : Type(getProgramType(getOperation()));
    if (!dtype)
      return;
    bool fits = succeeded(verifyCasts(getOperation()));
    for (Operation &op : getOperation().front()) {
      fits &= succeeded(verifyKnownTypes(op, dtype));
      if (gradients)
        fits &= succeeded(verifyGradientSums(op, cast<FloatType>(gradients.getValue())));
    }
    if (!fits)
      signalPassFailure();
  }
};
} // namespace
