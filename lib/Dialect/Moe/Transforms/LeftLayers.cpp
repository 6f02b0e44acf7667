//===- LeftLayers.cpp - layers that a schedule's pass leaves --------------===//
#include "moe/Dialect/Moe/Transforms/LeftLayers.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

#include "ExpertPath.h"

using namespace mlir;
using namespace mlir::moe;

void mlir::moe::leaveLayer(Operation *dispatch, StringRef pass, const Twine &reason) {
  dispatch->emitWarning() << pass << " leaves this layer as it is: " << reason;
  Builder builder(dispatch->getContext());
  SmallVector<Attribute> passes;
  if (auto others = dispatch->getAttrOfType<ArrayAttr>(kLeftAttrName))
    llvm::append_range(passes, others);
  passes.push_back(builder.getStringAttr(pass));
  dispatch->setAttr(kLeftAttrName, builder.getArrayAttr(passes));
}

llvm::StringSet<> mlir::moe::takeLeftLayers(func::FuncOp function) {
  llvm::StringMap<size_t> left;
  SmallVector<DispatchOp> dispatches = ExpertPath::getDispatches(function);
  for (DispatchOp dispatch : dispatches)
    if (auto passes = dyn_cast_or_null<ArrayAttr>(dispatch->removeAttr(kLeftAttrName)))
      for (auto pass : passes.getAsRange<StringAttr>())
        ++left[pass.getValue()];
  llvm::StringSet<> all;
  for (const auto &[pass, count] : left)
    if (count == dispatches.size())
      all.insert(pass);
  return all;
}
