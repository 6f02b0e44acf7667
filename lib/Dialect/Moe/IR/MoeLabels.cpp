//===- MoeLabels.cpp - layers of ops in text ------------------------------===//
#include "moe/Dialect/Moe/IR/MoeLabels.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"

using namespace mlir;
using namespace mlir::moe;

void mlir::moe::setLabels(ModuleOp module) {
  module.walk([](Operation *op) {
    auto layer = dyn_cast<NameLoc>(op->getLoc());
    if (layer && isa_and_nonnull<MoeDialect>(op->getDialect()))
      op->setAttr(kLabelAttrName, layer.getName());
  });
}

void mlir::moe::takeLabels(ModuleOp module) {
  module.walk([](Operation *op) {
    if (auto label = dyn_cast_or_null<StringAttr>(op->removeAttr(kLabelAttrName)))
      op->setLoc(NameLoc::get(label, op->getLoc()));
  });
}
