//===- AutoParallelTest.cpp - the best groups, stopped and uncertain ------===//
#include "moe/Planner/AutoParallel.h"

#include "LayerGraph.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Planner/SearchSpace.h"
#include "moe/Report/Explanations.h"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <set>

using namespace mlir;
using namespace mlir::moe;

namespace {

class AutoParallelTest : public testing::Test {
protected:
  AutoParallelTest() : cluster(load("hgx-h100")) {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.disableMultithreading();
    options.parallel = *parseParallel(&context, "dp=1");
    options.cluster = &cluster;
    options.reference = false;
    request.world = 4;
  }

  static ClusterProfile load(const std::string &name) {
    return llvm::cantFail(ClusterProfile::load(MOE_SHARE_DIR "/clusters/" + name + ".json"));
  }

  /// Returns one graph, or a model of four layers that can be sampled.
  ModelSource getSource(bool isModel) {
    ModelSource source;
    if (isModel)
      source.kinds = {0, 0, 0, 0};
    source.isFixed = !isModel;
    source.read = [=](MLIRContext &own, const ModelForm &form) {
      Layer layer;
      layer.tokens = isModel ? 64 * form.dataParallel * *form.batch : 512;
      layer.count = !isModel ? 1 : form.blocks.empty() ? 4 : static_cast<int>(form.blocks.size());
      return FailureOr<OwningOpRef<ModuleOp>>(parseSourceString<ModuleOp>(layer.getText(), &own));
    };
    return source;
  }

  /// Explanation of the chosen groups, or the error.
  std::string explain(const ModelSource &source) {
    std::string text;
    llvm::raw_string_ostream os(text);
    ScopedDiagnosticHandler keep(&context, [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        os << diagnostic.str();
      return success();
    });
    FailureOr<OwningOpRef<ModuleOp>> plan = compileBestParallel(source, request, options);
    if (succeeded(plan))
      printExplanation(getExplanation(**plan), os);
    return text;
  }

  /// Stops at the `calls`th request.
  void stopAfter(int64_t calls) {
    options.isStopped = [calls, asked = std::make_shared<std::atomic<int64_t>>(0)] { return ++*asked >= calls; };
  }

  MLIRContext context;
  ClusterProfile cluster;
  PlanOptions options;
  ParallelRequest request;
};

void expectPart(const std::string &text, const char *part) { EXPECT_NE(text.find(part), std::string::npos) << text; }

/// A search that stops before any groups are compared returns none. This does not mean that there are none.
TEST_F(AutoParallelTest, InterruptedAtOnce) {
  stopAfter(1);
  for (bool isModel : {false, true})
    expectPart(explain(getSource(isModel)), "no groups of 4 ranks: the search was interrupted before it compared any");
}

/// No rank gets fewer than 4096 tokens of a sequence.
TEST_F(AutoParallelTest, ContextSizes) {
  EXPECT_EQ(getContextSizes(4096), SmallVector<int64_t>({1}));
  EXPECT_EQ(getContextSizes(3 * 8192), SmallVector<int64_t>({1, 2, 4}));
  std::set<int64_t> found;
  for (ParallelAttr one : getParallelSpace(&context, 8, /*maxStages=*/2, /*maxExperts=*/4, 8, {1, 2, 4})) {
    EXPECT_EQ(one.getPp() * one.getDp() * one.getCp() * one.getMp(), 8);
    found.insert(one.getCp());
  }
  EXPECT_EQ(found, std::set<int64_t>({1, 2, 4}));
}

/// A search that stops later returns the best groups so far.
TEST_F(AutoParallelTest, Interrupted) {
  for (const char *schedule : {"baseline", "auto"}) {
    options.schedule = schedule;
    stopAfter(4);
    std::string text = explain(getSource(/*isModel=*/false));
    expectPart(text, "the search was interrupted, with 15 left: this is the best so far");
    expectPart(text, "  * ");
  }
}

/// A search for a whole model returns a plan wherever it is stopped, once a plan has an estimate.
TEST_F(AutoParallelTest, InterruptedModel) {
  options.schedule = "auto";
  int64_t plans = 0;
  for (int64_t calls = 1; calls < 60; calls += 4) {
    stopAfter(calls);
    std::string text = explain(getSource(/*isModel=*/true));
    if (text.find("before it compared any") != std::string::npos) {
      EXPECT_EQ(plans, 0) << calls;
      continue;
    }
    ++plans;
    expectPart(text, "  * ");
  }
  EXPECT_GT(plans, 0);
}

/// The errors of the profile's fits and of measured pairs decide whether groups can be distinguished.
TEST_F(AutoParallelTest, Uncertainty) {
  cluster = load("localhost");
  auto explainWith = [&](double error) {
    for (CollectiveFit &fit : cluster.collectives)
      fit.relativeError = error;
    for (KernelRate &kernel : cluster.kernels)
      kernel.relativeError = error;
    for (DeviceRate &rate : cluster.rates) {
      rate.efficiency.relativeError = error;
      for (SpecialCurve &special : rate.special)
        special.efficiency.relativeError = error;
    }
    return explain(getSource(/*isModel=*/false));
  };
  expectPart(explainWith(0), "the profile does not say how far its times may be off");
  expectPart(explainWith(1e-6), "%); no measured pairs of steps say how sure this is\n");
  cluster.measured.pairError = 1e-6;
  expectPart(explainWith(1e-6), "%): the choice is clear\n");
  std::string close = explainWith(10);
  expectPart(close, "the choice is within the figures' uncertainty (");
  expectPart(close, "   ~  1    4  1 ");
}

} // namespace
