//===- PlanSettings.cpp - a plan as Megatron's arguments ------------------===//
//
// The arguments that run each feature of a plan. lib/Import/MegatronFlags.cpp has the fields of Megatron-Bridge.
//
//===----------------------------------------------------------------------===//
#include "Adapt.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include "moe/Frameworks/MegatronJob.h"

using namespace mlir;
using namespace mlir::moe;

static SettingGroup getGroups(const Advice &advice, const PlannedJob &job) {
  const Candidate &plan = advice.runnable;
  ParallelAttr all = plan.parallel;
  SettingGroup group{"Groups of ranks", "the data parallel size, " + std::to_string(all.getDp()) +
                                            ", follows from the number of GPUs, " + std::to_string(all.getWorld())};
  group.add("tensor-model-parallel-size", all.getMp());
  group.add("pipeline-model-parallel-size", all.getPp());
  if (all.getPp() > 1 && !llvm::all_equal(advice.stageBlocks))
    group.add("pipeline-model-parallel-layout", writePipelineLayout(advice.stageBlocks));
  else if (plan.interleave > 1)
    group.settings.push_back({"num-layers-per-virtual-pipeline-stage",
                              {std::to_string(advice.stageBlocks.front())},
                              std::to_string(plan.interleave)});
  group.add("context-parallel-size", all.getCp());
  if (all.getCp() > 1)
    group.add("cp-comm-type", plan.ringAttention ? "p2p" : "all_gather");
  if (job.hasExperts()) {
    group.add("expert-model-parallel-size", all.getEp());
    group.add("expert-tensor-parallel-size", all.getEsp());
  }
  group.addIf(plan.sequenceParallel, "sequence-parallel");
  return group;
}

static SettingGroup getBatch(const Advice &advice, const PlannedJob &job) {
  const Candidate &plan = advice.runnable;
  SettingGroup group{"A step", std::to_string(plan.microBatches) + " micro-batches on each data-parallel rank"};
  group.add("micro-batch-size", plan.batch);
  group.add("global-batch-size", job.getGlobalBatch());
  group.add("seq-length", job.sequence);
  return group;
}

static SettingGroup getOverlap(const Advice &advice) {
  const Candidate &plan = advice.runnable;
  SettingGroup group{"Overlap"};
  bool isOverlapped = plan.pipelineOrder == PipelineOrder::Overlapped1F1B;
  group.addIf(isOverlapped, "overlap-moe-expert-parallel-comm");
  group.addIf(isOverlapped, "delay-wgrad-compute");
  // Megatron-LM also sums gradients over context parallelism. --overlap-param-gather needs --overlap-grad-reduce.
  const bool isReplicated = plan.parallel.getDp() * plan.parallel.getCp() > 1;
  group.addIf(isReplicated, "overlap-grad-reduce");
  group.addIf(isReplicated && plan.zero > 0, "overlap-param-gather");
  if (plan.sequenceParallel)
    group.remark = "--tp-comm-overlap may help, too; MoePlan does not model it";
  return group;
}

static SettingGroup getRecompute(const Advice &advice, const PlannedJob &job) {
  SettingGroup group{"Recomputation"};
  Recompute level = advice.runnable.recompute;
  if (level == Recompute::Light || level == Recompute::Selective) {
    SmallVector<std::string> modules;
    for (const MegatronModule &module : kMegatronModules)
      if (module.level != Recompute::None && module.level <= level && (job.hasExperts() || !module.needsExperts) &&
          (job.model.model->attention.latent || !module.needsLatent))
        modules.push_back(module.name.str());
    group.add("recompute-granularity", "selective");
    group.settings.push_back({"recompute-modules", modules, "[\"" + llvm::join(modules, "\", \"") + "\"]"});
  } else if (level == Recompute::Block) {
    group.add("recompute-granularity", "full");
    group.add("recompute-method", "uniform");
    group.add("recompute-num-layers", 1);
  }
  return group;
}

/// Adds arguments that a description gives. Megatron-Bridge has those of its fields.
static void addArguments(SettingGroup &group, ArrayRef<FrameworkArgument> arguments) {
  for (const FrameworkArgument &argument : arguments) {
    bool has = llvm::any_of(group.settings, [&](const Setting &setting) { return setting.flag == argument.needs; });
    if (!argument.needs.empty() && !has)
      continue;
    const MegatronFlag *known = findMegatronFlag(argument.flag);
    Setting setting{argument.flag, {}, {}, /*inBridge=*/known && !known->getBridgeField().empty()};
    SmallVector<StringRef> values;
    StringRef(argument.value).split(values, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
    setting.values.assign(values.begin(), values.end());
    if (known && known->values == kManyValues)
      setting.bridgeValue = "[\"" + llvm::join(setting.values, "\", \"") + "\"]";
    group.settings.push_back(std::move(setting));
  }
}

static SettingGroup getExperts(const Advice &advice, const PlannedJob &job) {
  SettingGroup group{"Experts"};
  if (!job.hasExperts())
    return group;
  bool isOnce = StringRef(advice.runnable.schedule).contains("once:"), isPlanned = !job.arguments.empty();
  group.add("moe-grouped-gemm");
  group.add("moe-permute-fusion");
  if (isPlanned) {
    addArguments(group, job.arguments);
    return group;
  }
  group.add("moe-token-dispatcher-type", isOnce ? "flex" : "alltoall");
  group.addIf(isOnce, "moe-enable-deepep");
  if (!isOnce && advice.runnable.parallel.getEp() > 1)
    group.remark = "between nodes, --moe-token-dispatcher-type flex with --moe-enable-deepep may be faster";
  return group;
}

/// A new configuration, whose fields later settings may change.
static std::string getMixedPrecision(StringRef name) { return ("get_mixed_precision_config(\"" + name + "\")").str(); }

static SettingGroup getPrecision(const Advice &advice, const PlannedJob &job) {
  SettingGroup group{"Precision and optimizer"};
  if (job.dtype == "bf16") {
    StringRef mixed = job.precision.mixedPrecision;
    group.settings.push_back({"bf16", {}, getMixedPrecision(mixed.empty() ? "bf16_mixed" : mixed)});
  } else if (job.dtype == "f16") {
    group.settings.push_back({"fp16", {}, getMixedPrecision("fp16_mixed")});
  }
  if (job.dtype == "bf16" && !job.wideGradients)
    group.settings.push_back({"grad-reduce-in-bf16", {}, "False"});
  group.addIf(job.dtype == "f16" && job.wideGradients, "accumulate-allreduce-grads-in-fp32");
  if (!job.optimizer.empty())
    group.add("optimizer", job.optimizer);
  int64_t zero = advice.runnable.zero;
  group.addIf(zero == 1, "use-distributed-optimizer");
  if (zero >= 2) {
    group.add("use-megatron-fsdp");
    group.add("data-parallel-sharding-strategy", kMegatronShardings[zero]);
    group.add("ckpt-format", "fsdp_dtensor");
  }
  addArguments(group, job.precision.arguments);
  return group;
}

int mlir::moe::getConnections(const Candidate &plan) {
  if (plan.zero >= 2 || plan.pipelineOrder == PipelineOrder::Overlapped1F1B)
    return 32;
  return plan.parallel.getMp() > 1 || plan.parallel.getCp() > 1 ? 1 : 0;
}

std::vector<SettingGroup> mlir::moe::getPlanSettings(const Advice &advice, const PlannedJob &job) {
  std::vector<SettingGroup> groups = {getGroups(advice, job),    getBatch(advice, job),   getOverlap(advice),
                                      getRecompute(advice, job), getExperts(advice, job), getPrecision(advice, job)};
  llvm::erase_if(groups, [](const SettingGroup &group) { return group.settings.empty(); });
  return groups;
}
