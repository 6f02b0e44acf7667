//===- FrameworksTest.cpp - plans as arguments of frameworks, and back ----===//
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

#include "../../lib/Frameworks/Adapt.h"
#include "../../lib/Frameworks/Torchtitan.h"

#include "moe/Compiler/Compiler.h"
#include "moe/Cost/FrameworkProfile.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Frameworks/Advice.h"
#include "moe/Frameworks/MegatronJob.h"
#include "moe/Import/Import.h"
#include "moe/Planner/RunnablePlan.h"

#include <map>
#include <numeric>

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Models that the arguments can describe.
constexpr const char *kModels[] = {"mixtral-8x7b",      "mixtral-8x22b", "qwen3-30b-a3b",     "qwen3-235b-a22b",
                                   "qwen1.5-moe-a2.7b", "deepseek-v2",   "deepseek-v2-lite",  "deepseek-v3",
                                   "kimi-k2",           "dots.llm1",     "glm-4.5",           "glm-4.5-air",
                                   "gpt-oss-20b",       "gpt-oss-120b",  "ernie-4.5-21b-a3b", "gpt2",
                                   "llama-3.1-8b",      "mistral-7b",    "qwen3-8b",          "gpt2-moe",
                                   "gpt3-medium-moe",   "gpt3-6.7b-moe", "qwen3-vl-30b-a3b"};

struct Shape {
  int64_t world, pp, cp, tp, ep, etp, interleave, batch, microBatches;
  PipelineOrder order;
  Recompute recompute;
  int64_t zero;
  bool isRing;
};
constexpr Shape kShapes[] = {
    {8, 1, 1, 1, 4, 1, 1, 2, 4, PipelineOrder::OneForwardOneBackward, Recompute::Selective, 1, false},
    {64, 4, 1, 2, 8, 1, 2, 1, 8, PipelineOrder::Overlapped1F1B, Recompute::None, 1, false},
    {64, 1, 2, 4, 4, 1, 1, 2, 4, PipelineOrder::OneForwardOneBackward, Recompute::None, 3, false},
    {128, 2, 4, 4, 4, 4, 1, 1, 16, PipelineOrder::OneForwardOneBackward, Recompute::Block, 0, true}};

DialectRegistry makeRegistry() {
  DialectRegistry registry;
  registerDialects(registry);
  return registry;
}

ModelConfig readModel(const std::string &name) {
  std::string path = std::string(MOE_SHARE_DIR) + "/models/" + name + ".json";
  auto file = llvm::MemoryBuffer::getFile(path);
  EXPECT_TRUE(file) << path;
  return llvm::cantFail(parseModelConfig((*file)->getBuffer(), path, /*whole=*/true));
}

/// Blocks of each stage, uneven if the stages do not divide the blocks.
SmallVector<int64_t> divide(int64_t blocks, int64_t stages) {
  SmallVector<int64_t> counts;
  for (int64_t stage = 0; stage < stages; ++stage)
    counts.push_back((stage + 1) * blocks / stages - stage * blocks / stages);
  return counts;
}

Advice makeAdvice(MLIRContext &context, const Shape &shape, const ModelConfig &model) {
  bool isMoe = model.layer.experts > 0;
  Advice advice;
  Candidate &plan = advice.runnable;
  plan.parallel =
      ParallelAttr::get(&context, shape.world, shape.pp, shape.world / (shape.pp * shape.cp * shape.tp), shape.tp,
                        isMoe ? std::gcd(shape.ep, model.layer.experts) : 1, isMoe ? shape.etp : 1, shape.cp);
  plan.interleave = shape.interleave;
  plan.batch = shape.batch;
  plan.microBatches = shape.microBatches;
  plan.pipelineOrder = isMoe ? shape.order : PipelineOrder::OneForwardOneBackward;
  plan.recompute = shape.recompute;
  plan.zero = shape.zero;
  plan.sequenceParallel = shape.tp > 1;
  plan.ringAttention = shape.isRing;
  plan.schedule = isMoe && shape.tp > 1 ? "s1" : "baseline";
  if (shape.pp > 1)
    advice.stageBlocks = divide(static_cast<int64_t>(model.model->blocks.size()), shape.pp * shape.interleave);
  return advice;
}

/// Each op with its types, and the FLOPs of a step.
std::pair<std::string, double> describeGraph(MLIRContext &context, const ModelConfig &model) {
  ImportOptions options;
  options.whole = options.loss = true;
  options.seq = 1024;
  llvm::Expected<OwningOpRef<ModuleOp>> graph = importModel(context, model, options);
  EXPECT_TRUE(static_cast<bool>(graph)) << llvm::toString(graph.takeError());
  std::string text;
  llvm::raw_string_ostream os(text);
  (*graph)->walk([&](Operation *op) { os << op->getName() << " " << op->getResultTypes() << "\n"; });
  CompileOptions pipeline;
  pipeline.parallel = ParallelAttr::get(&context, 1, 1, 1, 1, 1, 1);
  return {text, getModelWork(**graph, pipeline).modelFlops};
}

class RoundTripTest : public testing::TestWithParam<const char *> {};

TEST_P(RoundTripTest, Megatron) {
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  PlannedJob job{readModel(GetParam()), {}, 4096, "bf16", "adam"};
  auto [ops, flops] = describeGraph(context, job.model);
  auto blocks = static_cast<int64_t>(job.model.model->blocks.size());
  for (const Shape &shape : kShapes) {
    Advice advice = makeAdvice(context, shape, job.model);
    job.plan = advice.runnable;
    std::string text;
    llvm::raw_string_ostream os(text);
    writeArguments(advice, job, os);
    llvm::Expected<MegatronArguments> arguments = parseMegatronArguments(text, "args.txt");
    ASSERT_TRUE(static_cast<bool>(arguments)) << llvm::toString(arguments.takeError());
    // Megatron-LM's grouped experts need this flag beside biases. Its time is not modelled.
    bool hasBiases = job.model.model->denseBiases || job.model.model->attention.outputBias;
    ASSERT_EQ(arguments->remarks.size(), hasBiases && job.hasExperts() ? 1u : 0u);
    if (hasBiases && job.hasExperts()) {
      EXPECT_EQ(arguments->remarks.front().text.substr(0, 26), "'--no-bias-dropout-fusion'");
    }

    llvm::Expected<ModelConfig> model = readMegatronModel(*arguments, /*whole=*/true);
    ASSERT_TRUE(static_cast<bool>(model)) << llvm::toString(model.takeError()) << text;
    auto [readOps, readFlops] = describeGraph(context, *model);
    EXPECT_EQ(readFlops, flops);
    EXPECT_EQ(readOps, ops);

    llvm::Expected<MegatronJob> read = readMegatronJob(&context, *arguments, shape.world, blocks, model->layer.experts);
    ASSERT_TRUE(static_cast<bool>(read)) << llvm::toString(read.takeError()) << text;
    EXPECT_EQ(describeOptions(read->plan), describeOptions(job.plan));
    EXPECT_EQ(read->sequence, job.sequence);
    EXPECT_EQ(read->globalBatch, job.getGlobalBatch());
    EXPECT_EQ(read->dtype, "bf16");
    EXPECT_EQ(read->optimizer, "adam");
    EXPECT_FALSE(read->wideGradients);
    SmallVector<int64_t> first;
    for (int64_t sum = 0; int64_t count : advice.stageBlocks) {
      first.push_back(sum);
      sum += count;
    }
    EXPECT_EQ(read->firstBlocks, first);
  }
}

/// Values of an argument in a version: "-" if it lacks the argument, "0", "1 int", "+ str" or "1 one|other".
using FlagTable = std::map<std::string, std::string>;

FlagTable readFlags(StringRef version) {
  auto file = llvm::cantFail(llvm::errorOrToExpected(llvm::MemoryBuffer::getFile(MOE_FLAGS_FILE)));
  FlagTable table;
  SmallVector<StringRef> lines, cells;
  file->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  size_t column = 0;
  for (StringRef line : lines) {
    cells.clear();
    line.split(cells, '\t');
    if (cells[0] == "flag")
      column = llvm::find(cells, version) - cells.begin();
    if (column > 0 && column < cells.size())
      table[cells[0].str()] = cells[column].str();
  }
  return table;
}

bool isValue(StringRef value, StringRef type) {
  int64_t integer;
  double number;
  if (type == "int")
    return !value.getAsInteger(10, integer);
  if (type == "float")
    return !value.getAsDouble(number);
  SmallVector<StringRef> choices;
  type.split(choices, '|');
  return choices.size() == 1 || llvm::is_contained(choices, value);
}

/// Checks a line of a file, such as `--micro-batch-size 1`.
void checkFlag(StringRef line, const FlagTable &table) {
  SmallVector<StringRef> words;
  ASSERT_TRUE(line.consume_front("--")) << line.str();
  line.split(words, ' ');
  auto known = table.find(words[0].str());
  ASSERT_NE(known, table.end()) << line.str();
  auto [number, type] = StringRef(known->second).split(' ');
  ASSERT_NE(number, "-") << line.str();
  const size_t most = number == "0" ? 1 : number == "1" ? 2 : words.size();
  EXPECT_LE(words.size(), most) << line.str();
  EXPECT_GE(words.size(), number == "0" ? 1u : 2u) << line.str();
  for (StringRef value : ArrayRef(words).drop_front())
    EXPECT_TRUE(isValue(value, type)) << line.str();
}

TEST_P(RoundTripTest, MegatronHasTheArguments) {
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  for (unsigned minor : {15, 16, 19}) {
    FlagTable table = readFlags("0." + std::to_string(minor));
    for (const Shape &shape : kShapes)
      for (const char *dtype : {"bf16", "f16", "f32"}) {
        PlannedJob job{readModel(GetParam()), {}, 4096, dtype, "adam", /*wideGradients=*/shape.zero > 0};
        Advice advice = makeAdvice(context, shape, job.model);
        advice.target = {Framework::Megatron, llvm::VersionTuple(0, minor)};
        job.plan = advice.runnable;
        std::string text;
        llvm::raw_string_ostream os(text);
        writeArguments(advice, job, os);
        SmallVector<StringRef> lines;
        StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
        for (StringRef line : lines)
          if (!line.starts_with("#"))
            checkFlag(line, table);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RoundTripTest, testing::ValuesIn(kModels), [](const auto &info) {
  std::string name = info.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

/// Kimi-K2 has the architecture, the width and the blocks of DeepSeek-V3, and a recipe of its own.
TEST(RecipeTest, ModelsOfOneArchitecture) {
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  for (auto [name, minor, said] : {std::tuple("kimi-k2", 6, "import kimi_k2_pretrain_512gpu_h100_bf16_config"),
                                   std::tuple("kimi-k2", 2, "It has no recipe for this model"),
                                   std::tuple("deepseek-v3", 2, "import deepseek_v3_pretrain_config"),
                                   std::tuple("moonlight-16b-a3b", 2, "import moonlight_16b_pretrain_config")}) {
    PlannedJob job{readModel(name), {}, 4096, "bf16", "adam"};
    Advice advice = makeAdvice(context, kShapes[0], job.model);
    advice.target = {Framework::MegatronBridge, llvm::VersionTuple(0, minor)};
    job.plan = advice.runnable;
    std::string text;
    llvm::raw_string_ostream os(text);
    writeArguments(advice, job, os);
    EXPECT_NE(text.find(said), std::string::npos) << text;
  }
}

//===----------------------------------------------------------------------===//
// Plans that frameworks run
//===----------------------------------------------------------------------===//

/// Plans of all orders, recomputations and schedules that differ for some framework.
std::vector<Candidate> makePlans(MLIRContext &context, bool hasExperts) {
  std::vector<Candidate> plans;
  for (auto [pp, mp, ep, esp] : {std::tuple(1, 1, 1, 1), std::tuple(1, 1, 8, 1), std::tuple(4, 1, 8, 1),
                                 std::tuple(4, 2, 4, 1), std::tuple(4, 2, 1, 2), std::tuple(1, 2, 4, 2)})
    for (int64_t sideBySide : {1, 2})
      for (int64_t interleave : {1, 2})
        for (int order = 0; order <= static_cast<int>(PipelineOrder::Search); ++order)
          for (int recompute = 0; recompute <= static_cast<int>(Recompute::Block); ++recompute)
            for (const char *schedule : {"baseline", "s1", "s2", "ppmoe", "once:node", "once:rank", "s1+once:node",
                                         "s1+once:rank", "s1+chunks:2", "shadow"})
              for (bool sequenceParallel : {false, true}) {
                if ((!hasExperts && (ep > 1 || StringRef(schedule) != "baseline")) || (mp == 1 && sequenceParallel))
                  continue;
                Candidate &plan = plans.emplace_back();
                plan.parallel = ParallelAttr::get(&context, 64, pp, 64 / (pp * mp), mp, ep, hasExperts ? esp : 1, 1);
                plan.zero = 3;
                plan.microBatches = 16;
                plan.sideBySide = sideBySide;
                plan.interleave = pp > 1 ? interleave : 1;
                plan.pipelineOrder = static_cast<PipelineOrder>(order);
                plan.recompute = static_cast<Recompute>(recompute);
                plan.schedule = schedule;
                plan.sequenceParallel = sequenceParallel;
              }
  return plans;
}

/// The rules by which the planner chooses are those by which a plan is written: no feature of a plan that they allow is
/// left out. `dispatchers` are those that the arguments have.
void compareRules(const char *framework, ArrayRef<StringRef> dispatchers,
                  llvm::function_ref<std::vector<Adaptation>(const PlannedJob &)> adapt) {
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  FrameworkProfile profile =
      llvm::cantFail(FrameworkProfile::load(std::string(MOE_SHARE_DIR) + "/frameworks/" + framework + ".json"));
  for (const char *name : {"qwen3-30b-a3b", "qwen3-8b"}) {
    PlannedJob job{readModel(name), {}, 4096, "bf16", "adam", /*wideGradients=*/true};
    int64_t runnable = 0;
    for (const Candidate &plan : makePlans(context, job.hasExperts())) {
      job.plan = plan;
      bool runs = llvm::any_of(dispatchers, [&](StringRef dispatcher) {
        return refusePlan(profile.getRules({dispatcher.str(), ""}), plan, {job.model.layer.experts, true}).empty();
      });
      runnable += runs;
      EXPECT_EQ(runs, adapt(job).empty()) << framework << ", " << name << ": " << describeOptions(plan);
    }
    EXPECT_GT(runnable, 0) << framework << ", " << name;
  }
}

TEST(RunnablePlanTest, RulesAgreeWithArguments) {
  compareRules("megatron", {"alltoall", "deepep"}, adaptToMegatron);
  compareRules("torchtitan", {"standard", "deepep"}, [](const PlannedJob &job) {
    return adaptToTorchtitan(job, FrameworkTarget::getDefault(Framework::Torchtitan).version);
  });
}

//===----------------------------------------------------------------------===//
// torchtitan
//===----------------------------------------------------------------------===//

/// "model flavor", and the features that a version lacks for it.
std::string describeTitan(const char *name, unsigned minor) {
  TorchtitanModel model = findTorchtitanModel(readModel(name), llvm::VersionTuple(0, minor));
  std::string text = model.name.str() + " " + model.flavor.str();
  for (auto [reason, feature] :
       {std::pair(&model.noPipeline, " -pp"), std::pair(&model.noTensor, " -tp"), std::pair(&model.noExperts, " -ep"),
        std::pair(&model.noExpertsAlone, " -ep alone"), std::pair(&model.noContext, " -cp")})
    if (!reason->empty())
      text += feature;
  return text + (model.hasDeepEp ? " deepep" : "");
}

TEST(TorchtitanTest, Models) {
  EXPECT_EQ(describeTitan("llama-3.1-8b", 2), "llama3 8B");
  EXPECT_EQ(describeTitan("llama-3.1-8b", 3), "llama3 8B");
  EXPECT_EQ(describeTitan("llama-4-scout", 2), "llama4 17bx16e_irope -ep alone -cp");
  EXPECT_EQ(describeTitan("llama-4-maverick", 2), "llama4 17bx128e_irope -ep alone -cp");
  EXPECT_EQ(describeTitan("llama-4-scout", 3), " ");
  EXPECT_EQ(describeTitan("deepseek-v2-lite", 2), "deepseek_v3 16B deepep");
  EXPECT_EQ(describeTitan("deepseek-v2", 3), "deepseek_v3 236B deepep");
  EXPECT_EQ(describeTitan("deepseek-v3", 3), "deepseek_v3 671B deepep");
  EXPECT_EQ(describeTitan("moonlight-16b-a3b", 3), "deepseek_v3  deepep");
  EXPECT_EQ(describeTitan("qwen3-8b", 2), "qwen3 8B -pp");
  EXPECT_EQ(describeTitan("qwen3-30b-a3b", 2), "qwen3 30B-A3B -pp -ep alone");
  EXPECT_EQ(describeTitan("qwen3-235b-a22b", 3), "qwen3 235B-A22B deepep");
  EXPECT_EQ(describeTitan("gpt-oss-20b", 2), "gpt_oss 20b -pp -tp -ep -cp");
  EXPECT_EQ(describeTitan("gpt-oss-120b", 3), "gpt_oss 120b deepep");
  EXPECT_EQ(describeTitan("mixtral-8x7b", 2), "llama4  -ep alone");
  EXPECT_EQ(describeTitan("mixtral-8x7b", 3), "qwen3  deepep");
  EXPECT_EQ(describeTitan("mistral-7b", 3), "llama3 ");
  EXPECT_EQ(describeTitan("glm-4.5-air", 3), " ");
}

TEST(TorchtitanTest, Pipeline) {
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  PlannedJob job{readModel("qwen3-8b"), {}, 4096, "bf16", "adam", /*wideGradients=*/true};
  job.plan.parallel = ParallelAttr::get(&context, 64, /*pp=*/4, /*dp=*/8, /*mp=*/2, 1, 1, 1);
  job.plan.batch = 1;
  job.plan.microBatches = 8;
  job.plan.zero = 3;
  job.plan.sequenceParallel = true;
  job.plan.interleave = 2;
  EXPECT_TRUE(adaptToTorchtitan(job, llvm::VersionTuple(0, 3)).empty());
  std::vector<Adaptation> all = adaptToTorchtitan(job, llvm::VersionTuple(0, 2));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all.front().omission.feature, "a pipeline of 4 stages");
  Candidate plan = job.plan;
  all.front().apply(plan);
  EXPECT_EQ(describeOptions(plan).find("pp=1,dp=32,mp=2"), describeOptions(plan).find("pp="));
  EXPECT_EQ(plan.batch * plan.parallel.getDp() * plan.microBatches, job.getGlobalBatch());
  EXPECT_EQ(plan.interleave, 1);
  // Two sequences of a rank are not enough for the ranks of four stages.
  job.plan.microBatches = 2;
  EXPECT_FALSE(adaptToTorchtitan(job, llvm::VersionTuple(0, 2)).front().apply);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

constexpr const char *kSmall =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --vocab-size 128\n"
    "--max-position-embeddings 64 --seq-length 64 --micro-batch-size 1 --global-batch-size 8\n"
    "--num-experts 4 --moe-token-dispatcher-type alltoall --bf16\n";

std::string readError(const std::string &more, int64_t world = 8, const char *small = kSmall) {
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  llvm::Expected<MegatronArguments> arguments = parseMegatronArguments(small + more, "job.sh");
  if (!arguments)
    return llvm::toString(arguments.takeError());
  llvm::Expected<ModelConfig> model = readMegatronModel(*arguments, /*whole=*/true);
  if (!model)
    return llvm::toString(model.takeError());
  llvm::Expected<MegatronJob> job = readMegatronJob(&context, *arguments, world, 4, model->layer.experts);
  return job ? "" : llvm::toString(job.takeError());
}

TEST(MegatronJobTest, Errors) {
  EXPECT_EQ(readError(""), "");
  EXPECT_EQ(readError("--tensor-model-parallel-size 3"),
            "job.sh:4:1: error: 'tensor_model_parallel_size': expected a divisor of the 8 ranks but got 3");
  EXPECT_EQ(
      readError("--pipeline-model-parallel-size 3"),
      "job.sh:4:1: error: 'pipeline_model_parallel_size': expected a number that divides the 8 ranks together with "
      "the tensor parallel size, 1, but got 3");
  EXPECT_EQ(readError("--expert-model-parallel-size 16"),
            "job.sh:4:1: error: 'expert_model_parallel_size': expected a number that divides the 8 ranks of a pipeline "
            "stage together with the expert tensor parallel size, 1, but got 16");
  EXPECT_EQ(readError("--expert-model-parallel-size 8"),
            "job.sh:4:1: error: 'expert_model_parallel_size': expected a divisor of the 4 experts but got 8");
  EXPECT_EQ(readError("--context-parallel-size 2"), "");
  EXPECT_EQ(readError("--context-parallel-size 2 --cp-comm-type p2p a2a"), "");
  EXPECT_EQ(readError("--context-parallel-size 2 --cp-comm-type gather"),
            "job.sh:4:28: error: 'cp_comm_type': expected p2p, all_gather, a2a or a2a+p2p but got [\"gather\"]");
  EXPECT_EQ(readError("--context-parallel-size 3"),
            "job.sh:4:1: error: 'context_parallel_size': expected a number that divides the 8 ranks together with the "
            "tensor and pipeline parallel sizes, but got 3");
  EXPECT_EQ(
      readError("--global-batch-size 12"),
      "job.sh:4:1: error: 'global_batch_size': expected a multiple of the micro-batch size times the data parallel "
      "size, 8, but got 12");
  EXPECT_EQ(
      readError("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*3|tt|L'"),
      "job.sh:4:35: error: 'pipeline_model_parallel_layout': expected a multiple of 2 stages with 4 blocks together "
      "but got \"Et*3|tt|L\"");
  EXPECT_EQ(readError("--num-layers"), "job.sh:4:1: error: '--num-layers': expected a value after it");
  EXPECT_EQ(readError("--bf16 8"), "job.sh:4:8: error: expected a flag, such as '--num-layers', but got '8'");
  EXPECT_EQ(readError("--bf16=1"), "job.sh:4:1: error: '--bf16': expected no value but got '1'");
  EXPECT_EQ(readError("--tensor-model-parallel-size $TP"),
            "job.sh:4:1: error: 'tensor_model_parallel_size': expected an integer from 1 to 1048576 but got \"$TP\"");
  EXPECT_EQ(
      readError("", 8, "--hidden-size 64 --num-attention-heads 4 --vocab-size 128 --position-embedding-type rope\n"),
      "job.sh:1:1: error: 'num_layers': expected an integer from 1 to 10000 but the key is missing");
  EXPECT_EQ(readError("", 8, "nothing\n"),
            "job.sh:1:1: error: expected arguments of Megatron-LM, such as '--num-layers 32'");
}

/// The optimizer's numbers of the small job with `more`.
std::vector<std::pair<StringRef, double>> readNumbers(const std::string &more) {
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  MegatronArguments arguments = llvm::cantFail(parseMegatronArguments(kSmall + more, "job.sh"));
  return llvm::cantFail(readMegatronJob(&context, arguments, 8, 4, 4)).optimizerNumbers;
}

TEST(MegatronJobTest, OptimizerNumbers) {
  using Numbers = std::vector<std::pair<StringRef, double>>;
  EXPECT_EQ(readNumbers("--adam-beta2 0.95 --weight-decay 0.1"),
            (Numbers{{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight-decay", 0.1}, {"clip-norm", 1}}));
  EXPECT_EQ(readNumbers("--optimizer sgd --clip-grad 0"),
            (Numbers{{"momentum", 0.9}, {"weight-decay", 0.01}, {"clip-norm", 0}}));
}

TEST(MegatronJobTest, PartsOfTheFramework) {
  auto getUse = [](StringRef flags) {
    MLIRContext context;
    context.loadDialect<MoeDialect>();
    MegatronArguments arguments = llvm::cantFail(
        parseMegatronArguments(("--num-layers 4\n--seq-length 64\n--micro-batch-size 1\n" + flags).str(), "job.sh"));
    FrameworkUse use = llvm::cantFail(readMegatronJob(&context, arguments, 8, 4, 4)).use;
    return use.dispatcher + ";" + use.graph;
  };
  EXPECT_EQ(getUse(""), ";");
  EXPECT_EQ(getUse("--moe-token-dispatcher-type alltoall"), ";");
  EXPECT_EQ(getUse("--moe-token-dispatcher-type flex --moe-enable-deepep"), "deepep;");
  EXPECT_EQ(getUse("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep"), "hybridep;");
  EXPECT_EQ(getUse("--cuda-graph-impl transformer_engine --cuda-graph-scope attn moe_router moe_preprocess"),
            ";attn+moe_router");
  EXPECT_EQ(getUse("--cuda-graph-impl none --cuda-graph-scope attn"), ";");
}

TEST(MegatronJobTest, RecomputeModules) {
  auto read = [](StringRef modules) -> std::string {
    MLIRContext context;
    context.loadDialect<MoeDialect>();
    MegatronArguments arguments =
        llvm::cantFail(parseMegatronArguments(("--num-layers 4\n--seq-length 64\n--micro-batch-size 1\n"
                                               "--recompute-granularity selective\n" +
                                               modules)
                                                  .str(),
                                              "job.sh"));
    llvm::Expected<MegatronJob> job = readMegatronJob(&context, arguments, 8, 4, 4);
    if (!job)
      return llvm::toString(job.takeError());
    std::string text = getName(job->plan.recompute).str();
    for (const ConfigRemark &remark : job->remarks)
      text += "; " + remark.text;
    return text;
  };
  EXPECT_EQ(read(""), "none");
  EXPECT_EQ(read("--recompute-modules core_attn"), "none");
  EXPECT_EQ(read("--recompute-modules core_attn moe_act"), "light");
  EXPECT_EQ(read("--recompute-modules layernorm moe_act"), "selective");
  EXPECT_EQ(read("--recompute-modules layernorm"),
            "selective; 'recompute_modules': MoePlan takes --recompute=selective, which also computes moe_act again");
  EXPECT_TRUE(StringRef(read("--recompute-modules moe")).starts_with("block; 'recompute_modules': MoePlan takes"));
  EXPECT_TRUE(StringRef(read("--recompute-modules moe_atc"))
                  .starts_with("job.sh:5:1: error: 'recompute_modules': expected modules among core_attn, moe_act, "));
}

TEST(MegatronJobTest, Vocabulary) {
  MegatronArguments arguments = llvm::cantFail(parseMegatronArguments(kSmall, "job.sh"));
  EXPECT_EQ(llvm::cantFail(readMegatronModel(arguments, /*whole=*/true)).model->vocabulary, 128);
  EXPECT_EQ(llvm::cantFail(readMegatronModel(arguments, /*whole=*/true, 500)).model->vocabulary, 500);
}

std::vector<std::string> readRemarks(const std::string &text) {
  llvm::Expected<MegatronArguments> arguments = parseMegatronArguments(text, "job.sh");
  EXPECT_TRUE(static_cast<bool>(arguments)) << llvm::toString(arguments.takeError());
  std::vector<std::string> remarks;
  for (const ConfigRemark &remark : arguments->remarks)
    remarks.push_back(std::to_string(remark.place.line) + ": " + remark.text);
  return remarks;
}

TEST(MegatronArgumentsTest, Remarks) {
  EXPECT_EQ(readRemarks("--num-layers 4\n--lr 1e-4 --save $DIR\n"), std::vector<std::string>());
  EXPECT_EQ(
      readRemarks("--num-layers 4\n--num-expert 4\n"),
      std::vector<std::string>{"2: '--num-expert': expected an argument of Megatron-LM that MoePlan knows; did you "
                               "mean 'num-experts'?; it is left out"});
  EXPECT_EQ(
      readRemarks("--num-layers 4 \\\n --num-layers=8\n"),
      std::vector<std::string>{"2: '--num-layers' was given before, on line 1, with another value; as in Megatron-LM "
                               "the last one is taken"});
  EXPECT_EQ(readRemarks("TP=1\nTP=2\n--tensor-model-parallel-size $TP\n"),
            std::vector<std::string>{"3: '--tensor-model-parallel-size': the file sets 'TP' to different values; 2 is "
                                     "taken, the last one before this place that is in no condition"});
  EXPECT_EQ(readRemarks("--num-layers 4 --fp8-format hybrid\n"),
            std::vector<std::string>{"1: '--fp8-format hybrid': MoePlan takes products in the type of "
                                     "--precision, which is bf16 by default, instead"});
}

/// Forms of arguments in scripts.
TEST(MegatronArgumentsTest, Shell) {
  StringRef text =
      "#!/bin/bash\n"
      "export N=4 # --num-layers 5\n"
      "MODEL_ARGS=(--num-layers $N\n"
      "  --hidden-size ${H:-64} --swiglu)\n"
      "MOE_ARGS=\"\n"
      "  --num_experts 4 \\\n"
      "  --moe-layer-freq ([0]*1+[1]*3)\n"
      "\"\n"
      "MODEL_ARGS+=(--recompute-modules layernorm moe_act)\n"
      "torchrun --nproc-per-node=8 --nnodes 2 pretrain_gpt.py ${MODEL_ARGS[@]} $MOE_ARGS --bf16 > log 2>&1\n";
  llvm::Expected<MegatronArguments> arguments = parseMegatronArguments(text, "job.sh");
  ASSERT_TRUE(static_cast<bool>(arguments)) << llvm::toString(arguments.takeError());
  EXPECT_EQ(getMegatronRanks(*arguments), 16);
  for (const char *part : {"\"num_layers\": 4", "\"hidden_size\": 64", "\"swiglu\": true", "\"num_experts\": 4",
                           "\"moe_layer_freq\": \"([0]*1+[1]*3)\"",
                           "\"recompute_modules\": [\"layernorm\",\"moe_act\"]", "\"bf16\": true"})
    EXPECT_NE(arguments->json.find(part), std::string::npos) << part << " is not in " << arguments->json;
}

/// A script with `text` between a model and the command that trains it with ARGS.
std::string makeScript(const std::string &text) {
  return "ARGS=(--num-layers 4)\n" + text + "\ntorchrun train.py ${ARGS[@]}\n";
}

TEST(MegatronArgumentsTest, FlagsThatNoCommandGetsForSure) {
  using Remarks = std::vector<std::string>;
  const Remarks condition = {"3: '--swiglu' stands in a condition or a loop, so it is left out"};
  for (const char *text : {"if [ \"$A\" = 1 ]; then\nARGS+=(--swiglu)\nfi", "case $A in\n1) ARGS+=(--swiglu);;\nesac",
                           "for A in 1 2; do\nARGS=\"$ARGS --swiglu\"\ndone", "cd x &&\nfalse || ARGS+=(--swiglu)",
                           "\n[ -n \"$A\" ] && ARGS+=(--swiglu)", "while read A\ndo ARGS+=(--swiglu)\ndone"})
    EXPECT_EQ(readRemarks(makeScript(text)), condition) << text;
  EXPECT_EQ(readRemarks(makeScript("OTHER=(--swiglu)\nMORE=(${OTHER[@]})")),
            Remarks{"2: '--swiglu' stands in the variable 'OTHER', which no command uses, so it is left out"});
  for (const char *head : {"add() {", "add () {", "function add {"})
    EXPECT_EQ(readRemarks(makeScript(head + std::string("\nARGS+=(--swiglu)\n}"))),
              Remarks{"3: '--swiglu' stands in the function 'add', which no command calls, so it is left out"})
        << head;
  // These are reached, or change nothing.
  for (const char *text : {"add() {\nARGS+=(--swiglu)\n}\nadd", "MORE=(--swiglu)\nARGS+=(${MORE[@]})",
                           "MORE=\"--swiglu\"\necho $MORE", "cd x && ARGS+=(--swiglu)",
                           "if true; then\nARGS+=(--wandb-project x)\nfi", "if true; then\necho\nfi\nARGS+=(--swiglu)"})
    EXPECT_EQ(readRemarks(makeScript(text)), Remarks()) << text;
  // A file of variables, which another script uses.
  EXPECT_EQ(readRemarks("ARGS=(--num-layers 4)\nOTHER=(--swiglu)\n"), Remarks());
  EXPECT_EQ(readRemarks(makeScript("source env.sh")),
            Remarks{"2: 'source': MoePlan does not read another file; variables and flags of that file must be in this "
                    "one"});
}

TEST(MegatronArgumentsTest, ValuesOfVariables) {
  auto read = [](const std::string &text) {
    llvm::Expected<MegatronArguments> arguments =
        parseMegatronArguments(text + "\n--num-layers $N --hidden-size 8\n", "job.sh");
    return arguments ? arguments->json : llvm::toString(arguments.takeError());
  };
  for (auto [text, value] :
       {std::pair("N=$((2 + 3 * 4))", "14"), std::pair("A=4\nN=$(( (A - 1) * $A / 2 ))", "6"),
        std::pair("A=4\nN=\"$((${A} % 3 - -2))\"", "3"), std::pair("N=4\nif true; then\nN=8\nfi", "4")})
    EXPECT_NE(read(text).find("\"num_layers\": " + std::string(value)), std::string::npos) << read(text);
  // This is no number, and stays as it is.
  EXPECT_NE(read("N=$((B * 2))").find("\"$((B * 2))\""), std::string::npos) << read("N=$((B * 2))");
}

TEST(MegatronArgumentsTest, FlagsThatMoePlanReplaces) {
  auto replaced = [](const std::string &flag) { return readRemarks("--num-layers 4\n" + flag + "\n").size(); };
  for (const char *flag : {"--spec a.b get",
                           "--transformer-impl local",
                           "--attention-backend unfused",
                           "--moe-router-load-balancing-type sinkhorn",
                           "--moe-router-load-balancing-type seq_aux_loss",
                           "--moe-z-loss-coeff 1e-3",
                           "--exp-avg-dtype bf16",
                           "--main-grads-dtype bf16",
                           "--multi-latent-attention",
                           "--moe-expert-capacity-factor 1.25",
                           "--deterministic-mode",
                           "--no-rope-fusion",
                           "--reset-attention-mask",
                           "--use-precision-aware-optimizer",
                           "--distribute-saved-activations",
                           "--fine-grained-activation-offloading",
                           "--use-tp-pp-dp-mapping",
                           "--end-weight-decay 0.1",
                           "--moe-router-dtype fp64",
                           "--num-distributed-optimizer-instances 2"})
    EXPECT_EQ(replaced(flag), 1u) << flag;
  for (const char *flag :
       {"--transformer-impl transformer_engine", "--attention-backend auto", "--moe-z-loss-coeff 0",
        "--moe-router-load-balancing-type aux_loss", "--exp-avg-dtype fp32", "--multi-latent-attention --qk-layernorm",
        "--moe-expert-capacity-factor 1.25 --moe-token-drop-policy position", "--moe-router-dtype fp32",
        "--num-distributed-optimizer-instances 1", "--te-rng-tracker --data-parallel-random-init"})
    EXPECT_EQ(replaced(flag), 0u) << flag;
}

TEST(PipelineLayoutTest, ReadAndWrite) {
  using Blocks = SmallVector<int64_t>;
  EXPECT_EQ(parsePipelineLayout("Et*3|(tt|)*2,m|L"), (Blocks{3, 2, 2, 0, 0}));
  EXPECT_EQ(parsePipelineLayout("Et|x"), std::nullopt);
  EXPECT_EQ(parsePipelineLayout("Et|(t"), std::nullopt);
  EXPECT_EQ(parsePipelineLayout("(((t*9999)*9999)*9999)"), std::nullopt);
  for (const Blocks &blocks :
       {Blocks{2, 2, 2, 2}, Blocks{1, 0}, Blocks{3, 2, 2, 1}, Blocks{1, 4, 4, 4, 3, 0}, Blocks{5}})
    EXPECT_EQ(parsePipelineLayout(writePipelineLayout(blocks)), blocks) << writePipelineLayout(blocks);
}

} // namespace
