//===- PlanSettings.cpp - a plan as Megatron's arguments ------------------===//
//
// The table of what runs which feature of a plan. Flags are those of Megatron-LM core_v0.15 (megatron/training/
// arguments.py); fields those of Megatron-Bridge v0.2 (megatron/bridge/training/config.py, comm_overlap.py).
//
//===----------------------------------------------------------------------===//
#include "Settings.h"

#include "llvm/ADT/STLExtras.h"

#include "moe/Frameworks/MegatronJob.h"

using namespace mlir;
using namespace mlir::moe;

static Setting makeSwitch(StringRef flag, StringRef field) { return {flag, {}, field}; }
static Setting makeNumber(StringRef flag, int64_t value, StringRef field) {
  return {flag, {std::to_string(value)}, field};
}

static bool hasEvenStages(const Advice &advice) { return llvm::all_equal(advice.stageBlocks); }

static SettingGroup getGroups(const Advice &advice, const PlannedJob &job) {
  const Candidate &plan = advice.runnable;
  ParallelAttr all = plan.parallel;
  SettingGroup group{"Groups of ranks",
                     {},
                     "the data parallel size, " + std::to_string(all.getDp()) + ", follows from the number of GPUs, " +
                         std::to_string(all.getWorld())};
  auto add = [&](Setting setting) { group.settings.push_back(std::move(setting)); };
  add(makeNumber("tensor-model-parallel-size", all.getMp(), "model.tensor_model_parallel_size"));
  add(makeNumber("pipeline-model-parallel-size", all.getPp(), "model.pipeline_model_parallel_size"));
  if (all.getPp() > 1 && !hasEvenStages(advice))
    add({"pipeline-model-parallel-layout",
         {writePipelineLayout(advice.stageBlocks)},
         "model.pipeline_model_parallel_layout"});
  else if (plan.interleave > 1)
    add({"num-layers-per-virtual-pipeline-stage",
         {std::to_string(advice.stageBlocks.front())},
         "model.virtual_pipeline_model_parallel_size",
         std::to_string(plan.interleave)});
  add(makeNumber("context-parallel-size", all.getCp(), "model.context_parallel_size"));
  if (all.getCp() > 1)
    add({"cp-comm-type", {plan.ringAttention ? "p2p" : "all_gather"}, "model.cp_comm_type"});
  if (job.hasExperts()) {
    add(makeNumber("expert-model-parallel-size", all.getEp(), "model.expert_model_parallel_size"));
    add(makeNumber("expert-tensor-parallel-size", all.getEsp(), "model.expert_tensor_parallel_size"));
  }
  if (plan.sequenceParallel)
    add(makeSwitch("sequence-parallel", "model.sequence_parallel"));
  return group;
}

static SettingGroup getBatch(const Advice &advice, const PlannedJob &job) {
  const Candidate &plan = advice.runnable;
  return {"A step",
          {makeNumber("micro-batch-size", plan.batch, "train.micro_batch_size"),
           makeNumber("global-batch-size", job.getGlobalBatch(), "train.global_batch_size"),
           makeNumber("seq-length", job.sequence, "model.seq_length")},
          std::to_string(plan.microBatches) + " micro-batches on each data-parallel rank"};
}

static SettingGroup getOverlap(const Advice &advice) {
  const Candidate &plan = advice.runnable;
  SettingGroup group{"Overlap", {}, ""};
  if (plan.pipelineOrder == PipelineOrder::Overlapped1F1B)
    group.settings = {makeSwitch("overlap-moe-expert-parallel-comm", "comm_overlap.overlap_moe_expert_parallel_comm"),
                      makeSwitch("delay-wgrad-compute", "comm_overlap.delay_wgrad_compute")};
  if (plan.parallel.getDp() > 1)
    group.settings.push_back(makeSwitch("overlap-grad-reduce", "ddp.overlap_grad_reduce"));
  if (plan.zero)
    group.settings.push_back(makeSwitch("overlap-param-gather", "ddp.overlap_param_gather"));
  if (plan.sequenceParallel)
    group.remark = "--tp-comm-overlap may help, too; MoePlan does not model it";
  return group;
}

static SettingGroup getRecompute(const Advice &advice, const PlannedJob &job) {
  SettingGroup group{"Recomputation", {}, ""};
  if (advice.runnable.recompute == Recompute::Selective) {
    Setting modules{"recompute-modules", {"layernorm"}, "model.recompute_modules", "[\"layernorm\""};
    auto add = [&](const char *name) {
      modules.values.push_back(name);
      modules.fieldValue += std::string(", \"") + name + "\"";
    };
    if (job.hasExperts())
      add("moe_act");
    if (job.model.model->attention.latent)
      add("mla_up_proj");
    modules.fieldValue += "]";
    group.settings = {{"recompute-granularity", {"selective"}, "model.recompute_granularity"}, modules};
  } else if (advice.runnable.recompute == Recompute::Block) {
    group.settings = {{"recompute-granularity", {"full"}, "model.recompute_granularity"},
                      {"recompute-method", {"uniform"}, "model.recompute_method"},
                      makeNumber("recompute-num-layers", 1, "model.recompute_num_layers")};
  }
  return group;
}

static SettingGroup getExperts(const Advice &advice, const PlannedJob &job) {
  SettingGroup group{"Experts", {}, ""};
  if (!job.hasExperts())
    return group;
  bool isOnce = StringRef(advice.runnable.schedule).contains("once:");
  group.settings = {{"moe-token-dispatcher-type", {isOnce ? "flex" : "alltoall"}, "model.moe_token_dispatcher_type"},
                    makeSwitch("moe-grouped-gemm", "model.moe_grouped_gemm"),
                    makeSwitch("moe-permute-fusion", "model.moe_permute_fusion")};
  if (isOnce)
    group.settings.push_back(makeSwitch("moe-enable-deepep", "model.moe_enable_deepep"));
  else if (advice.runnable.parallel.getEp() > 1)
    group.remark = "between nodes, --moe-token-dispatcher-type flex with --moe-enable-deepep may be faster";
  return group;
}

static SettingGroup getPrecision(const Advice &advice, const PlannedJob &job) {
  SettingGroup group{"Precision and optimizer", {}, ""};
  if (job.dtype == "bf16")
    group.settings.push_back({"bf16", {}, "mixed_precision", "\"bf16_mixed\""});
  else if (job.dtype == "f16")
    group.settings.push_back({"fp16", {}, "mixed_precision", "\"16_mixed\""});
  if (job.dtype == "bf16" && !job.wideGradients)
    group.settings.push_back({"grad-reduce-in-bf16", {}, "ddp.grad_reduce_in_fp32", "False"});
  if (!job.optimizer.empty())
    group.settings.push_back({"optimizer", {job.optimizer}, "optimizer.optimizer"});
  int64_t zero = advice.runnable.zero;
  if (zero == 1)
    group.settings.push_back(makeSwitch("use-distributed-optimizer", "ddp.use_distributed_optimizer"));
  if (zero >= 2) {
    std::string strategy = zero == 2 ? "optim_grads" : "optim_grads_params";
    group.settings.push_back(makeSwitch("use-megatron-fsdp", "ddp.use_megatron_fsdp"));
    group.settings.push_back(
        {"data-parallel-sharding-strategy", {strategy}, "ddp.data_parallel_sharding_strategy", "\"" + strategy + "\""});
  }
  return group;
}

std::vector<SettingGroup> mlir::moe::getPlanSettings(const Advice &advice, const PlannedJob &job) {
  std::vector<SettingGroup> groups = {getGroups(advice, job),    getBatch(advice, job),   getOverlap(advice),
                                      getRecompute(advice, job), getExperts(advice, job), getPrecision(advice, job)};
  llvm::erase_if(groups, [](const SettingGroup &group) { return group.settings.empty(); });
  return groups;
}
