//===- MegatronJob.cpp - how a Megatron-LM job divides its model ----------===//
//
// Meanings and defaults of arguments are those of Megatron-LM core_v0.15, megatron/training/arguments.py.
//
//===----------------------------------------------------------------------===//
#include "moe/Frameworks/MegatronJob.h"

#include "moe/Support/JsonReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::moe;
using llvm::Twine;

static constexpr int64_t largest = 1 << 20;

namespace {
class JobReader {
public:
  JobReader(JsonReader reader, int64_t world, int64_t blocks, int64_t experts)
      : reader(std::move(reader)), world(world), blocks(blocks), experts(experts) {}

  llvm::Expected<MegatronJob> run(MLIRContext *context);

private:
  int64_t getSize(StringRef key, int64_t otherwise = 1) { return reader.getInteger(key, 1, largest, otherwise); }
  void remark(StringRef key, const Twine &text) {
    job.remarks.push_back({("'" + key + "': " + text).str(), reader.getPlace(key)});
  }
  ParallelAttr readGroups(MLIRContext *context);
  void readContext();
  void readBatches(int64_t dp);
  void readStages();
  void readLayout(int64_t pp);
  void readUnevenStages(int64_t pp);
  int64_t readInterleave(int64_t pp, int64_t counted);
  void setBlocks(ArrayRef<int64_t> ofStages);
  void readRecompute();
  void readSelective();
  void readPrecision();
  void readOptimizer();
  void readMoe();
  void readUse();

  JsonReader reader;
  int64_t world, blocks, experts;
  MegatronJob job;
};
} // namespace

ParallelAttr JobReader::readGroups(MLIRContext *context) {
  int64_t tp = getSize("tensor_model_parallel_size"), pp = getSize("pipeline_model_parallel_size");
  int64_t ep = getSize("expert_model_parallel_size"), etp = getSize("expert_tensor_parallel_size", tp);
  int64_t cp = getSize("context_parallel_size");
  if (world % tp != 0)
    reader.fail("tensor_model_parallel_size", "a divisor of the " + Twine(world) + " ranks");
  if (world % (tp * pp * cp) != 0 && world % (tp * pp) == 0)
    reader.fail("context_parallel_size", "a number that divides the " + Twine(world) +
                                             " ranks together with the tensor and pipeline parallel sizes,");
  if (world % (tp * pp) != 0)
    reader.fail("pipeline_model_parallel_size", "a number that divides the " + Twine(world) +
                                                    " ranks together with the tensor parallel size, " + Twine(tp) +
                                                    ",");
  if (experts == 0)
    ep = etp = 1;
  if (reader.hasFailed())
    return {};
  if (world / pp % (ep * etp) != 0)
    reader.fail("expert_model_parallel_size", "a number that divides the " + Twine(world / pp) +
                                                  " ranks of a pipeline stage together with the expert tensor parallel "
                                                  "size, " +
                                                  Twine(etp) + ",");
  if (experts % ep != 0)
    reader.fail("expert_model_parallel_size", "a divisor of the " + Twine(experts) + " experts");
  return reader.hasFailed() ? ParallelAttr()
                            : ParallelAttr::get(context, world, pp, world / (tp * pp * cp), tp, ep, etp, cp);
}

/// Reads the exchange of keys and values of divided sequences. Each layer may have its own.
void JobReader::readContext() {
  if (job.plan.parallel.getCp() == 1)
    return;
  StringRef key = "cp_comm_type";
  std::vector<std::string> types = {"p2p"};
  if (reader.find(key))
    types = reader.getStrings(key);
  for (StringRef type : types)
    if (!llvm::is_contained({"p2p", "all_gather", "a2a", "a2a+p2p"}, type))
      return reader.fail(key, "p2p, all_gather, a2a or a2a+p2p");
  job.plan.ringAttention = !llvm::is_contained(types, "all_gather");
  bool isMixed = !job.plan.ringAttention && !llvm::all_equal(types);
  if (isMixed)
    remark(key, "MoePlan takes all_gather in all layers");
  else if (job.plan.ringAttention && !llvm::all_of(types, [](StringRef type) { return type == "p2p"; }))
    remark(key, "MoePlan takes p2p, a ring of keys and values, instead of AlltoAll");
}

void JobReader::readBatches(int64_t dp) {
  job.sequence = reader.getInteger("seq_length", 1, int64_t{1} << 24);
  job.plan.batch = reader.getInteger("micro_batch_size", 1, largest);
  int64_t sequences = job.plan.batch * dp;
  job.globalBatch = getSize("global_batch_size", sequences);
  if (job.globalBatch % sequences != 0)
    reader.fail("global_batch_size",
                "a multiple of the micro-batch size times the data parallel size, " + Twine(sequences) + ",");
  job.plan.microBatches = job.globalBatch / sequences;
  if (job.plan.microBatches > kMaxMicroBatches)
    reader.fail("global_batch_size", "at most " + Twine(kMaxMicroBatches) + " micro-batches");
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

void JobReader::setBlocks(ArrayRef<int64_t> ofStages) {
  int64_t first = 0;
  for (int64_t count : ofStages) {
    job.firstBlocks.push_back(first);
    first += count;
  }
}

void JobReader::readLayout(int64_t pp) {
  StringRef key = "pipeline_model_parallel_layout";
  std::optional<SmallVector<int64_t>> stages = parsePipelineLayout(reader.getString(key));
  if (!stages)
    return reader.fail(key, "a layout such as 'Et*3|(tt|)*29L'");
  int64_t sum = 0;
  for (int64_t count : *stages)
    sum += count;
  if (sum != blocks || static_cast<int64_t>(stages->size()) % pp != 0)
    return reader.fail(key, "a multiple of " + Twine(pp) + " stages with " + Twine(blocks) + " blocks together");
  job.plan.interleave = static_cast<int64_t>(stages->size()) / pp;
  setBlocks(*stages);
}

/// Number of stages on a device that has `counted` blocks and other things that count as blocks.
int64_t JobReader::readInterleave(int64_t pp, int64_t counted) {
  StringRef stages = "num_virtual_stages_per_pipeline_rank", layers = "num_layers_per_virtual_pipeline_stage";
  if (reader.find(stages))
    return getSize(stages);
  if (!reader.find(layers))
    return 1;
  int64_t each = getSize(layers);
  if (counted % each != 0)
    reader.fail(layers, "a divisor of the " + Twine(counted) + " blocks of a device");
  return std::max<int64_t>(1, counted / each);
}

/// Reads stages with the same number of blocks on all devices but the first and the last.
void JobReader::readUnevenStages(int64_t pp) {
  StringRef firstKey = "decoder_first_pipeline_num_layers", lastKey = "decoder_last_pipeline_num_layers";
  int64_t first = reader.getInteger(firstKey, 1, blocks, 0), last = reader.getInteger(lastKey, 1, blocks, 0);
  bool embedding = reader.getBool("account_for_embedding_in_pipeline_split", false);
  bool loss = reader.getBool("account_for_loss_in_pipeline_split", false);
  int64_t others = pp - (first > 0) - (last > 0), left = blocks + embedding + loss - first - last;
  if (others > 0 ? left % others != 0 : left != 0)
    return reader.fail("pipeline_model_parallel_size", "a number of devices that divides the " + Twine(left) +
                                                           " blocks of those but the first and last");
  int64_t each = others > 0 ? left / others : 0;
  int64_t interleave = job.plan.interleave = readInterleave(pp, each > 0 ? each : first);
  SmallVector<int64_t> stages;
  for (int64_t stage = 0; stage < pp * interleave; ++stage) {
    int64_t device = stage % pp;
    int64_t count = device == 0 && first > 0 ? first : device == pp - 1 && last > 0 ? last : each;
    if (count % interleave != 0)
      return reader.fail(first + last > 0 ? (first > 0 ? firstKey : lastKey) : StringRef("num_layers"),
                         "numbers of blocks on a device that its " + Twine(interleave) + " stages divide");
    stages.push_back(count / interleave);
  }
  stages.front() -= embedding;
  stages.back() -= loss;
  setBlocks(stages);
}

void JobReader::readStages() {
  int64_t pp = getSize("pipeline_model_parallel_size");
  for (StringRef key : {"decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers"})
    if (pp == 1 && reader.find(key))
      remark(key, "it has no effect with one pipeline stage");
  if (pp == 1 || reader.hasFailed())
    return;
  if (reader.find("pipeline_model_parallel_layout"))
    return readLayout(pp);
  readUnevenStages(pp);
}

//===----------------------------------------------------------------------===//
// The rest
//===----------------------------------------------------------------------===//

/// Takes the finest level that computes all modules again, and says what else it computes again.
void JobReader::readSelective() {
  StringRef key = "recompute_modules";
  std::vector<std::string> modules = {"core_attn"};
  if (reader.find(key))
    modules = reader.getStrings(key);
  Recompute &level = job.plan.recompute;
  SmallVector<StringRef> known, others;
  for (const MegatronModule &module : kMegatronModules) {
    known.push_back(module.name);
    if (llvm::is_contained(modules, module.name))
      level = std::max(level, module.level);
  }
  for (const MegatronModule &module : kMegatronModules)
    if (module.level != Recompute::None && module.level <= level && (experts > 0 || !module.needsExperts) &&
        !module.needsLatent && !llvm::is_contained(modules, module.name))
      others.push_back(module.name);
  if (!llvm::all_of(modules, [&](StringRef module) { return llvm::is_contained(known, module); }))
    return reader.fail(key, "modules among " + llvm::join(known, ", "));
  if (level == Recompute::Block)
    remark(key, "MoePlan takes --recompute=block instead, which computes whole blocks again: a longer step, and less "
                "memory");
  else if (!others.empty())
    remark(key, "MoePlan takes --recompute=" + getName(level) + ", which also computes " + llvm::join(others, ", ") +
                    " again");
}

void JobReader::readRecompute() {
  StringRef key = "recompute_granularity";
  if (!reader.find(key)) {
    if (reader.getBool("moe_layer_recompute", false)) {
      job.plan.recompute = Recompute::Block;
      remark("moe_layer_recompute", "MoePlan takes --recompute=block instead, which computes whole blocks again");
    }
    return;
  }
  if (reader.getChoice(key, {"full", "selective"}) == 1)
    return readSelective();
  job.plan.recompute = Recompute::Block;
  StringRef count = "recompute_num_layers";
  bool isUniform = reader.getChoice("recompute_method", {"uniform", "block"}, 0) == 0;
  if (getSize(count) > 1 || !isUniform)
    remark(reader.find(count) ? count : StringRef("recompute_method"),
           isUniform ? "MoePlan computes each block again from what it keeps of that block, and needs more memory"
                     : "MoePlan computes all blocks of a stage again, which takes longer and needs less memory");
}

/// Reads the optimizer's numbers, whose defaults are not those of MoePlan.
void JobReader::readOptimizer() {
  bool isAdam = reader.getChoice("optimizer", {"adam", "sgd"}, 0) == 0;
  job.optimizer = isAdam ? "adam" : "sgd";
  auto take = [&](StringRef option, StringRef key, double otherwise) {
    job.optimizerNumbers.emplace_back(option, reader.getNumber(key, kNotNegative, otherwise));
  };
  if (isAdam) {
    take("beta1", "adam_beta1", 0.9);
    take("beta2", "adam_beta2", 0.999);
    take("eps", "adam_eps", 1e-8);
  } else {
    take("momentum", "sgd_momentum", 0.9);
  }
  take("weight-decay", "weight_decay", 0.01);
  take("clip-norm", "clip_grad", 1);
}

void JobReader::readPrecision() {
  bool bf16 = reader.getBool("bf16", false), f16 = reader.getBool("fp16", false);
  if (bf16 && f16)
    reader.fail("fp16", "--bf16 or --fp16, not both,");
  job.dtype = bf16 ? "bf16" : f16 ? "f16" : "f32";
  // Without a type, parameters and gradients are f32.
  bool isWide = reader.getBool("accumulate_allreduce_grads_in_fp32", false);
  bool isNarrow = reader.getBool("grad_reduce_in_bf16", false);
  job.wideGradients = (bf16 && !isNarrow) || (f16 && isWide);
  job.plan.zero = reader.getBool("use_distributed_optimizer", false) ? 1 : 0;
  if (reader.getBool("use_megatron_fsdp", false))
    job.plan.zero = static_cast<int64_t>(reader.getChoice("data_parallel_sharding_strategy", kMegatronShardings, 0));
  if (job.plan.zero == 1 && !reader.getBool("overlap_grad_reduce", false))
    remark("use_distributed_optimizer", "MoePlan sums gradients beside the backward, as with --overlap-grad-reduce");
}

/// Reads the schedule. With sequence parallelism tensor parallel ranks send tokens of their own to experts, as in S1.
void JobReader::readMoe() {
  Candidate &plan = job.plan;
  int64_t tp = getSize("tensor_model_parallel_size"), ep = getSize("expert_model_parallel_size");
  plan.sequenceParallel = reader.getBool("sequence_parallel", false) && tp > 1;
  plan.schedule = experts > 0 && plan.sequenceParallel ? "s1" : "baseline";
  StringRef key = "moe_token_dispatcher_type";
  size_t dispatcher = reader.getChoice(key, {"allgather", "alltoall", "alltoall_seq", "flex"}, 0);
  if (experts > 0 && ep > 1 && dispatcher == 0)
    remark(reader.find(key) ? key : StringRef("expert_model_parallel_size"),
           "MoePlan takes the dispatcher alltoall instead of allgather, Megatron-LM's default");
  // DeepEP and HybridEP send a token once to each node, and there once to each rank.
  bool isDeepEp = reader.getBool("moe_enable_deepep", false), isFlex = dispatcher == 3;
  if (experts > 0 && ep > 1 && isFlex)
    plan.schedule = plan.schedule == "s1" ? "s1+once:node" : "once:node";
  else if (experts > 0 && isDeepEp && !isFlex)
    remark("moe_enable_deepep", "Megatron-LM takes it with --moe-token-dispatcher-type flex; MoePlan takes AlltoAll");
  if (reader.getBool("overlap_moe_expert_parallel_comm", false))
    plan.pipelineOrder = PipelineOrder::Overlapped1F1B;
}

/// Reads the parts of the framework. The preparation of tokens belongs to the router's graph.
void JobReader::readUse() {
  auto getText = [&](StringRef key) { return reader.find(key) ? reader.getString(key) : StringRef(); };
  if (getText("moe_token_dispatcher_type") == "flex")
    job.use.dispatcher = reader.find("moe_flex_dispatcher_backend") ? getText("moe_flex_dispatcher_backend") : "deepep";
  StringRef implementation = getText("cuda_graph_impl");
  bool hasGraph = (!implementation.empty() && implementation != "none") || reader.getBool("enable_cuda_graph", false) ||
                  reader.getBool("external_cuda_graph", false);
  if (!hasGraph || !reader.find("cuda_graph_scope"))
    return;
  std::vector<std::string> scopes = reader.getStrings("cuda_graph_scope");
  llvm::erase(scopes, "moe_preprocess");
  job.use.graph = llvm::join(scopes, "+");
}

llvm::Expected<MegatronJob> JobReader::run(MLIRContext *context) {
  job.plan.parallel = readGroups(context);
  if (!reader.hasFailed()) {
    readContext();
    readBatches(job.plan.parallel.getDp());
  }
  readStages();
  readRecompute();
  readPrecision();
  readOptimizer();
  readMoe();
  readUse();
  if (reader.hasFailed())
    return reader.takeError();
  return std::move(job);
}

int64_t mlir::moe::getMegatronRanks(const MegatronArguments &arguments) {
  llvm::Expected<JsonReader> reader = JsonReader::parse(arguments.json, arguments.fileName);
  if (!reader) {
    llvm::consumeError(reader.takeError());
    return 0;
  }
  // Takes integers only: the number of nodes may be a range, or a variable of the shell.
  auto getCount = [&](StringRef key) {
    const llvm::json::Value *value = reader->find(key);
    return value ? value->getAsInteger().value_or(0) : 0;
  };
  return std::max<int64_t>(0, getCount("nnodes") * getCount("nproc_per_node"));
}

llvm::Expected<MegatronJob> mlir::moe::readMegatronJob(MLIRContext *context, const MegatronArguments &arguments,
                                                       int64_t world, int64_t blocks, int64_t experts) {
  llvm::Expected<JsonReader> reader = JsonReader::parse(arguments.json, arguments.fileName);
  if (!reader)
    return reader.takeError();
  return JobReader(std::move(*reader), world, blocks, experts).run(context);
}
