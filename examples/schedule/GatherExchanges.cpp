//===- GatherExchanges.cpp - a schedule of one's own, as a plugin ----------===//
//
// Each member of an expert group gathers the tokens of all members and keeps those of its own experts, as the
// all-gather dispatcher of Megatron-LM does, instead of exchanging them all-to-all. The rewrite is of the forward
// alone: moe-differentiate makes the backward. Other exchanges, such as those of dropless layers, stay as they are.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"

using namespace mlir;

namespace {
struct GatherExchanges : PassWrapper<GatherExchanges, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GatherExchanges)

  StringRef getArgument() const override { return "gather-exchanges"; }
  StringRef getDescription() const override { return "Gather tokens instead of exchanging them all-to-all"; }

  void runOnOperation() override {
    getOperation()->walk([](moe::AllToAllOp exchange) {
      OpBuilder builder(exchange);
      Value all = builder.create<moe::AllGatherOp>(exchange.getLoc(), exchange.getInput(), exchange.getGroup(),
                                                   exchange.getConcatDim());
      Value own = builder.create<moe::SliceOp>(exchange.getLoc(), all, exchange.getGroup(), exchange.getSplitDim());
      exchange.replaceAllUsesWith(own);
      exchange.erase();
    });
  }
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "gather-exchanges", "1", [] { PassRegistration<GatherExchanges>(); }};
}
