//===- WholeModelTest.cpp - steps of many micro-batches, from few ---------===//
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/MemoryBuffer.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Import/Import.h"
#include "moe/Planner/AutoSchedule.h"
#include "moe/Simulator/Prediction.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::moe;

namespace {

struct Step {
  const char *parallel;
  int64_t microBatches, interleave;
};

void PrintTo(const Step &step, std::ostream *os) {
  *os << step.parallel << ", " << step.microBatches << " micro-batches, interleave " << step.interleave;
}

class WholeModelTest : public testing::TestWithParam<Step> {};

/// The search compiles a few micro-batches, and the plan has all. The search's figures also hold for the plan.
TEST_P(WholeModelTest, ManyMicroBatches) {
  auto cluster = llvm::cantFail(ClusterProfile::load(MOE_SHARE_DIR "/clusters/hgx-h100.json"));
  const char *path = MOE_SHARE_DIR "/models/gpt2-moe.json";
  auto text = llvm::MemoryBuffer::getFile(path);
  ModelConfig config = llvm::cantFail(parseModelConfig((*text)->getBuffer(), path, /*whole=*/true));
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  PlanOptions options;
  options.parallel = *parseParallel(&context, GetParam().parallel);
  options.microBatches = GetParam().microBatches;
  options.interleave = GetParam().interleave;
  options.schedule = "auto";
  options.optimizer.emplace();
  options.reference = false;
  options.cluster = &cluster;
  ImportOptions import;
  import.layers = 8;
  import.seq = 128;
  import.dataParallel = options.parallel.getDp();
  import.whole = import.loss = true;
  OwningOpRef<ModuleOp> graph = llvm::cantFail(importModel(context, config, import));
  (*graph)->setAttr(kParallelAttrName, options.parallel);
  FailureOr<ScheduleExplanation> result = chooseSchedule(*graph, options);
  ASSERT_TRUE(succeeded(result));
  const Candidate &best = result->candidates[*result->best];
  options.schedule = best.schedule;
  options.order = best.order;
  FailureOr<OwningOpRef<ModuleOp>> plan = mlir::moe::planAndCompile(*graph, options);
  ASSERT_TRUE(succeeded(plan));
  Prediction prediction = llvm::cantFail(predict(**plan, "", cluster));
  double seconds = prediction.result.seconds;
  EXPECT_NEAR(best.whole.seconds / seconds, 1, 0.02);
  const SimReport &report = prediction.report;
  EXPECT_NEAR(best.speed.mfu / report.speed.mfu, 1, 0.02);
  EXPECT_NEAR(best.whole.getSpeed().mfu / report.speed.mfu, 1, 0.02);
  const StepParts &parts = best.whole.parts;
  EXPECT_NEAR(parts.getSum() / best.whole.seconds, 1, 1e-6);
  EXPECT_NEAR(parts.compute / seconds, report.mean.compute / seconds, 0.02);
  EXPECT_NEAR(parts.exposedCommunication / seconds, report.mean.exposedCommunication / seconds, 0.02);
  EXPECT_NEAR(parts.bubble / seconds, report.mean.bubble / seconds, 0.02);
}

INSTANTIATE_TEST_SUITE_P(Steps, WholeModelTest,
                         testing::Values(Step{"dp=4,ep=4", 16, 1}, Step{"pp=2,dp=2,ep=2", 24, 1},
                                         Step{"pp=4,dp=2,ep=2", 24, 1}, Step{"pp=2,dp=2,ep=2", 16, 2},
                                         Step{"pp=4,dp=1", 3, 1}));

} // namespace
