//===- ModelWorkTest.cpp - work of a step for the model -------------------===//
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Regex.h"

#include "LayerGraph.h"
#include "moe/Compiler/Compiler.h"
#include "moe/Compiler/Schedule.h"
#include "moe/Import/Import.h"
#include "moe/Simulator/Prediction.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Published figures of a model, and its work.
struct Published {
  const char *name;
  double active;    ///< parameters that a token uses
  double embedding; ///< parameters among them in the table of tokens, which is read but not multiplied
  double attention; ///< columns of queries and values of all heads of all blocks
};

void PrintTo(const Published &model, std::ostream *os) { *os << model.name; }

DialectRegistry makeRegistry() {
  DialectRegistry registry;
  registerDialects(registry);
  return registry;
}

class ModelWorkTest : public testing::TestWithParam<Published> {};

/// A token takes 6 FLOPs for each active parameter, plus causal attention over half of the sequence.
TEST_P(ModelWorkTest, Published) {
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  std::string path = std::string(MOE_SHARE_DIR "/models/") + GetParam().name + ".json";
  auto text = llvm::MemoryBuffer::getFile(path);
  ModelConfig config = llvm::cantFail(parseModelConfig((*text)->getBuffer(), path, /*whole=*/true));
  ImportOptions import;
  import.seq = 4096;
  import.dropless = import.whole = import.loss = true;
  OwningOpRef<ModuleOp> graph = llvm::cantFail(importModel(context, config, import));
  CompileOptions options;
  options.microBatches = 3;
  StepWork work = getModelWork(*graph, options);
  EXPECT_EQ(work.tokens, 3 * 4096);
  double forward = 2 * (GetParam().active - GetParam().embedding) + 2 * GetParam().attention * 4096 / 2;
  EXPECT_NEAR(work.modelFlops / work.tokens / (3 * forward), 1, 0.02);
  options.train = false;
  EXPECT_DOUBLE_EQ(getModelWork(*graph, options).modelFlops * 3, work.modelFlops);
}

// Active parameters: arXiv 2401.04088 (12.9e9), arXiv 2412.19437 (37e9). Shapes: the models' configurations.
INSTANTIATE_TEST_SUITE_P(Models, ModelWorkTest,
                         testing::Values(Published{"mixtral-8x7b", 12.9e9, 32000.0 * 4096, 32.0 * 32 * (128 + 128)},
                                         Published{"deepseek-v3", 37e9, 129280.0 * 7168, 61.0 * 128 * (192 + 128)}));

/// Parameters of a shared model.
ParameterCounts countShared(StringRef name) {
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  std::string path = (MOE_SHARE_DIR "/models/" + name + ".json").str();
  auto text = llvm::MemoryBuffer::getFile(path);
  ModelConfig config = llvm::cantFail(parseModelConfig((*text)->getBuffer(), path, /*whole=*/true));
  ImportOptions import;
  import.dropless = import.whole = true;
  return countParameters(*llvm::cantFail(importModel(context, config, import)));
}

/// The table in docs/Models.md has the parameters of the shared models, as "`name` (46.70 G, 12.88 G active)".
TEST(ModelParametersTest, TheDocumentationHasThem) {
  auto text = llvm::MemoryBuffer::getFile(MOE_SHARE_DIR "/../docs/Models.md");
  ASSERT_TRUE(text);
  llvm::Regex entry("`([a-z0-9.-]+)` \\(([0-9.]+) G[a-z ]*(, ([0-9.]+) G active)?\\)");
  SmallVector<StringRef> found;
  int64_t models = 0;
  for (StringRef rest = (*text)->getBuffer(); entry.match(rest, &found);
       rest = rest.drop_front(found[0].end() - rest.begin()), ++models) {
    ParameterCounts counts = countShared(found[1]);
    auto format = [](int64_t count) { return llvm::formatv("{0:f2}", static_cast<double>(count) * 1e-9).str(); };
    EXPECT_EQ(format(counts.all), found[2]) << found[1].str();
    EXPECT_EQ(counts.active < counts.all ? format(counts.active) : "", found[4]) << found[1].str();
  }
  EXPECT_GE(models, 32);
}

/// The work of a model does not depend on the capacity of experts, or on a plan's recomputation and padding.
TEST(LayerWorkTest, Capacities) {
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  for (double capacity : {0.0, 1.0, 2.0}) {
    Layer layer;
    layer.topK = 2;
    layer.capacity = capacity;
    OwningOpRef<ModuleOp> graph = parseSourceString<ModuleOp>(layer.getText(), &context);
    CompileOptions options;
    options.parallel = *parseParallel(&context, "dp=4,ep=4");
    options.reference = false;
    // A token takes the gate, and two products for each of two choices.
    double perToken = 2.0 * 64 * 4 + 2 * 2 * 2.0 * 64 * 64;
    EXPECT_DOUBLE_EQ(getModelWork(*graph, options).modelFlops, 3 * 512 * perToken);
    FailureOr<OwningOpRef<ModuleOp>> prepared = prepareGraph(*graph, options);
    ASSERT_TRUE(succeeded(prepared));
    FailureOr<OwningOpRef<ModuleOp>> plan = compileSchedule(**prepared, ParsedSchedule(), options);
    ASSERT_TRUE(succeeded(plan));
    EXPECT_DOUBLE_EQ(getStepWork(**plan).modelFlops, 3 * 512 * perToken);
    EXPECT_DOUBLE_EQ(getStepWork(**plan).tokens, 512);
  }
}

} // namespace
