//===- MeasuredRunsTest.cpp - step times of a user's own jobs -------------===//
#include "moe/Frameworks/MeasuredRuns.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

using namespace mlir::moe;

namespace {

/// The beginning and some iterations of a log of Megatron-LM.
std::string makeLog(llvm::StringRef arguments, llvm::ArrayRef<double> milliseconds) {
  std::string text = "using world size: 16, data-parallel size: 16\n"
                     "------------------------ arguments ------------------------\n";
  text += arguments;
  text += "-------------------- end of arguments ---------------------\n"
          "> building GPT2BPETokenizer tokenizer ...\n"
          " > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)\n";
  for (auto [number, its] : llvm::enumerate(milliseconds))
    text += " [2026-03-03 12:00:00] iteration " + std::to_string(number + 1) + "/      30 | consumed samples:   64 | " +
            "elapsed time per iteration (ms): " + std::to_string(its) + " | learning rate: 1.0E-05 |\n";
  return text;
}

constexpr llvm::StringLiteral kArguments = "  add_bias_linear ................................. False\n"
                                           "  attention_backend ............................... AttnBackend.auto\n"
                                           "  bf16 ............................................ True\n"
                                           "  cp_comm_type .................................... ['p2p', 'a2a']\n"
                                           "  exp_avg_dtype ................................... torch.float32\n"
                                           "  fp8 ............................................. None\n"
                                           "  hidden_size ..................................... 2048\n"
                                           "  img_h ........................................... 224\n"
                                           "  moe_layer_freq .................................. [0, 1, 1]\n"
                                           "  num_layers ...................................... 3\n"
                                           "  start_weight_decay .............................. 0.1\n"
                                           "  world_size ...................................... 16\n";

std::vector<MeasuredRun> readOrFail(llvm::StringRef text) { return llvm::cantFail(readMeasuredRuns(text, "run.log")); }

std::string errorOf(llvm::StringRef text, llvm::StringRef fileName = "run.log") {
  llvm::Expected<std::vector<MeasuredRun>> runs = readMeasuredRuns(text, fileName);
  return runs ? "no error" : llvm::toString(runs.takeError());
}

/// The first half of the iterations, but at most ten, is warm-up. The rest has a median.
TEST(MeasuredRuns, TakesTheMedianOfALog) {
  std::vector<MeasuredRun> runs = readOrFail(makeLog(kArguments, {9000, 500, 300, 100, 200}));
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].name, "run.log");
  EXPECT_EQ(runs[0].ranks, 16);
  EXPECT_DOUBLE_EQ(runs[0].seconds, 0.2);
  EXPECT_EQ(runs[0].warmUp, "iterations 3 to 5, without 2 of warm-up");
  std::vector<double> times(25, 1000);
  times[11] = times[24] = 70;
  MeasuredRun longer = readOrFail(makeLog(kArguments, times)).front();
  EXPECT_EQ(longer.warmUp, "iterations 11 to 25, without 10 of warm-up");
  EXPECT_DOUBLE_EQ(longer.seconds, 1);
}

/// Values become flags on their lines. Those that are off, unknown or derived from others are left out.
TEST(MeasuredRuns, ReadsArgumentsOfALog) {
  MegatronArguments arguments = readOrFail(makeLog(kArguments, {100})).front().arguments;
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(arguments.json);
  ASSERT_TRUE(bool(value));
  const llvm::json::Object &object = *value->getAsObject();
  EXPECT_EQ(object.getBoolean("disable_bias_linear"), true);
  EXPECT_EQ(object.getBoolean("bf16"), true);
  EXPECT_EQ(object.getInteger("hidden_size"), 2048);
  EXPECT_EQ(object.getString("moe_layer_freq"), "[0, 1, 1]");
  EXPECT_EQ(object.getInteger("padded_vocab_size"), 50304);
  ASSERT_TRUE(object.getArray("cp_comm_type"));
  EXPECT_EQ((*object.getArray("cp_comm_type"))[1], "a2a");
  for (llvm::StringRef name : {"fp8_format", "img_h", "start_weight_decay", "world_size", "add_bias_linear"})
    EXPECT_FALSE(object.get(name)) << name.str();
  EXPECT_TRUE(arguments.remarks.empty());
}

/// Dispatchers and graphs of a run have the names of the framework's description.
TEST(MeasuredRuns, FindsPartsOfTheFramework) {
  auto getUse = [](std::string more) { return readOrFail(makeLog(kArguments.str() + more, {100})).front().use; };
  EXPECT_EQ(getUse("").dispatcher, "");
  EXPECT_EQ(getUse("  moe_token_dispatcher_type .... alltoall\n").dispatcher, "");
  EXPECT_EQ(getUse("  moe_token_dispatcher_type .... flex\n").dispatcher, "deepep");
  EXPECT_EQ(getUse("  moe_token_dispatcher_type .... flex\n  moe_flex_dispatcher_backend ... hybridep\n").dispatcher,
            "hybridep");
  EXPECT_EQ(getUse("").precision, "");
  EXPECT_EQ(getUse("  fp8 ... hybrid\n").precision, "fp8-tensor");
  EXPECT_EQ(getUse("  fp8 ... e4m3\n  fp8_recipe ... blockwise\n").precision, "fp8-block");
  EXPECT_EQ(getUse("  fp8 ... e4m3\n  fp8_recipe ... mxfp8\n").precision, "mxfp8");
  EXPECT_EQ(getUse("  cuda_graph_impl ... none\n  cuda_graph_scope ... full\n").graph, "");
  EXPECT_EQ(
      getUse("  cuda_graph_impl ... local\n  cuda_graph_scope ... ['attn', 'moe_router', 'moe_preprocess']\n").graph,
      "attn+moe_router");
  EXPECT_EQ(getUse("  cuda_graph_impl ... local\n  cuda_graph_scope ... full_iteration\n").graph, "full_iteration");
}

TEST(MeasuredRuns, RefusesOtherLogs) {
  EXPECT_EQ(errorOf("hello\n").substr(0, 66), "run.log:1:1: error: expected lines of Megatron-LM such as 'iterati");
  EXPECT_TRUE(llvm::StringRef(errorOf("iteration 3/ 9 | elapsed time per iteration (ms): 7.5 |"))
                  .contains("expected the arguments that Megatron-LM prints"));
  EXPECT_TRUE(llvm::StringRef(errorOf(makeLog(kArguments, {100}) + makeLog(kArguments, {100})))
                  .contains("20:1: error: expected the log of one run but got the arguments of another one"));
  EXPECT_TRUE(llvm::StringRef(errorOf(makeLog(kArguments, {0}))).contains("expected an elapsed time greater than 0"));
  EXPECT_TRUE(
      llvm::StringRef(errorOf(makeLog("  bf16 .... True\n", {100}))).contains("expected the argument 'world_size'"));
}

TEST(MeasuredRuns, ReadsLists) {
  std::vector<MeasuredRun> runs = readOrFail(R"([
    {"model": "qwen3-30b-a3b", "gpus": 16, "step_ms": [900, 100, 120],
     "dispatcher": "deepep-uccl", "cuda_graph": "full_iteration",
     "arguments": {"seq_length": 4096, "micro_batch_size": 1,
                   "bf16": true, "sequence_parallel": false, "add_bias_linear": false,
                   "recompute_modules": ["moe_act"]}},
    {"name": "second", "step_ms": 50.5, "arguments": {"nnodes": 2, "nproc_per_node": 8, "moe_token_dispatcher_type": "flex"}}
  ])");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].name, "job 1");
  EXPECT_EQ(runs[0].model, "qwen3-30b-a3b");
  EXPECT_EQ(runs[0].ranks, 16);
  EXPECT_DOUBLE_EQ(runs[0].seconds, 0.12);
  EXPECT_EQ(runs[0].use.dispatcher, "deepep-uccl");
  EXPECT_EQ(runs[0].use.graph, "full_iteration");
  EXPECT_EQ(runs[0].warmUp, "");
  llvm::StringRef json = runs[0].arguments.json;
  EXPECT_TRUE(json.contains("\"seq_length\": 4096") && json.contains("\"bf16\": true"));
  EXPECT_TRUE(json.contains("disable_bias_linear") && json.contains("\"recompute_modules\": [\"moe_act\"]"));
  EXPECT_FALSE(json.contains("sequence_parallel"));
  EXPECT_EQ(runs[1].name, "second");
  EXPECT_EQ(runs[1].ranks, 16);
  EXPECT_EQ(runs[1].use.dispatcher, "deepep");
}

/// A list may name the files of jobs, relative to its folder.
TEST(MeasuredRuns, ReadsFilesOfJobs) {
  llvm::SmallString<128> path;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("job", "sh", path));
  std::error_code error;
  llvm::raw_fd_ostream(path, error)
      << "--nnodes 2 --nproc-per-node 8\n--num-layers 4 --moe-token-dispatcher-type flex\n"
         "--fp8-format hybrid\n";
  std::string folder = llvm::sys::path::parent_path(path).str(), name = llvm::sys::path::filename(path).str();
  std::string list = "[{\"job\": \"" + name + "\", \"step_ms\": 7";
  llvm::Expected<std::vector<MeasuredRun>> runs =
      readMeasuredRuns(list + ", \"precision\": \"fp8-block\"}]", folder + "/jobs.json");
  ASSERT_TRUE(bool(runs)) << llvm::toString(runs.takeError());
  EXPECT_EQ(runs->front().ranks, 16);
  EXPECT_EQ(runs->front().use.dispatcher, "deepep");
  EXPECT_EQ(runs->front().use.precision, "fp8-block");
  EXPECT_TRUE(llvm::StringRef(errorOf(list + "}]", folder + "/jobs.json"))
                  .contains("'jobs[0].precision': expected the precision of a job in FP8, such as fp8-block"));
  EXPECT_TRUE(llvm::StringRef(errorOf(list + ", \"arguments\": {\"bf16\": true}}]", folder + "/jobs.json"))
                  .contains("'job' or 'arguments', and one of them"));
  llvm::sys::fs::remove(path);
}

TEST(MeasuredRuns, NamesMistakesInLists) {
  auto get = [](std::string job) { return errorOf("[\n" + job + "]", "jobs.json"); };
  EXPECT_EQ(get(R"({"gpus": 8, "step_ms": 0, "arguments": {"bf16": true}})"),
            "jobs.json:2:13: error: 'jobs[0].step_ms': expected a number greater than 0 but got 0");
  EXPECT_EQ(get(R"({"gpus": 8, "step_ms": [], "arguments": {"bf16": true}})"),
            "jobs.json:2:13: error: 'jobs[0].step_ms': expected a number greater than 0, or a list of such but got []");
  EXPECT_EQ(get(R"({"gpus": 8, "step_ms": 9, "arguments": {"num_layrs": 4}})"),
            "jobs.json:2:41: error: 'jobs[0].arguments.num_layrs': expected an argument of Megatron-LM that MoePlan "
            "knows (did you mean 'num-layers'?) but got 4");
  EXPECT_TRUE(llvm::StringRef(get(R"({"gpus": 8, "step_ms": 9, "tokens": 5, "arguments": {"bf16": true}})"))
                  .contains("'jobs[0].tokens'"));
  EXPECT_TRUE(llvm::StringRef(get(R"({"gpus": 8, "step_ms": 9})"))
                  .contains("'jobs[0].arguments': expected 'job' or 'arguments', and one of them,"));
  EXPECT_TRUE(llvm::StringRef(get(R"({"step_ms": 9, "arguments": {"bf16": true}})"))
                  .contains("jobs.json:2:1: error: expected 'gpus', the number of GPUs of the job"));
  EXPECT_TRUE(llvm::StringRef(errorOf("[]", "jobs.json")).contains("expected a list of jobs with their 'step_ms'"));
}

} // namespace
