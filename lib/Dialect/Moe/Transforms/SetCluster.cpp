//===- SetCluster.cpp - moe-set-cluster -----------------------------------===//
#include "mlir/AsmParser/AsmParser.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOESETCLUSTER
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
struct MoeSetCluster : moe::impl::MoeSetClusterBase<MoeSetCluster> {
  using Base::Base;

  void runOnOperation() override {
    auto cluster = dyn_cast_or_null<ClusterAttr>(parseAttribute(rates, &getContext()));
    if (!cluster) {
      getOperation().emitError() << "expected a #moe.cluster in the option rates but got '" << rates.getValue() << "'";
      return signalPassFailure();
    }
    getOperation()->setAttr(kClusterAttrName, cluster);
  }
};
} // namespace
