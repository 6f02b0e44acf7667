//===- WriteMegatronBridge.cpp - a function for recipes -------------------===//
#include "Adapt.h"

#include "llvm/ADT/STLExtras.h"

#include "moe/Import/MegatronArguments.h"

using namespace mlir;
using namespace mlir::moe;

static std::string getFieldValue(const Setting &setting) {
  if (!setting.bridgeValue.empty())
    return setting.bridgeValue;
  if (setting.values.empty())
    return "True";
  int64_t number = 0;
  StringRef value = setting.values.front();
  return value.getAsInteger(10, number) ? "\"" + value.str() + "\"" : value.str();
}

/// Values that replace those of a recipe unless the plan's own settings follow. Sources: the recipes of Megatron-Bridge
/// v0.2 and v0.6 (src/megatron/bridge/recipes), and validate() of its ConfigContainer. A version lacks some fields.
static constexpr StringLiteral kDefaults = R"(# The plan's values where it asks for nothing. A recipe may have others.
DEFAULTS = {
    "model": dict(
        sequence_parallel=False, recompute_granularity=None, recompute_method=None, recompute_num_layers=None,
        recompute_modules=None, pipeline_model_parallel_layout=None, virtual_pipeline_model_parallel_size=None,
        num_layers_in_first_pipeline_stage=None, num_layers_in_last_pipeline_stage=None,
        account_for_embedding_in_pipeline_split=False, account_for_loss_in_pipeline_split=False, mtp_num_layers=None,
        moe_token_dispatcher_type="alltoall", moe_enable_deepep=False, moe_flex_dispatcher_backend="deepep",
        moe_shared_expert_overlap=False, cuda_graph_impl="none", enable_cuda_graph=False, external_cuda_graph=False,
        cpu_offloading=False, fine_grained_activation_offloading=False,
    ),
    "ddp": dict(
        overlap_grad_reduce=False, overlap_param_gather=False, use_distributed_optimizer=False,
        use_megatron_fsdp=False, data_parallel_sharding_strategy="no_shard",
    ),
    "optimizer": dict(
        use_distributed_optimizer=False, overlap_param_gather=False, use_precision_aware_optimizer=False,
        optimizer_cpu_offload=False, main_grads_dtype=torch.float32, main_params_dtype=torch.float32,
        exp_avg_dtype=torch.float32, exp_avg_sq_dtype=torch.float32,
    ),
    "dist": dict(use_megatron_fsdp=False, use_torch_fsdp2=False),
    "checkpoint": dict(ckpt_format="torch_dist"),
}


def apply_plan(cfg):
    for part, values in DEFAULTS.items():
        for name, value in values.items():
            if hasattr(getattr(cfg, part), name):
                setattr(getattr(cfg, part), name, value)
)";

namespace {
/// A recipe for pre-training. Modules are those in megatron.bridge.recipes.
struct Recipe {
  StringLiteral architecture;
  int64_t hidden, blocks, experts, vocabulary; ///< sizes that tell models of an architecture apart
  StringLiteral old, oldFunction; ///< module of v0.2, empty if it has none; functions end in _pretrain_config
  StringLiteral now, nowFunction; ///< module of v0.6; functions end in _config
};
} // namespace

static constexpr Recipe kRecipes[] = {
    {"DeepseekV2ForCausalLM", 2048, 27, 64, 102400, "deepseek.deepseek_v2", "deepseek_v2_lite",
     "deepseek.h100.deepseek_v2", "deepseek_v2_lite_pretrain_8gpu_h100_bf16"},
    {"DeepseekV2ForCausalLM", 5120, 60, 160, 102400, "deepseek.deepseek_v2", "deepseek_v2", "deepseek.h100.deepseek_v2",
     "deepseek_v2_pretrain_128gpu_h100_bf16"},
    {"DeepseekV3ForCausalLM", 7168, 61, 256, 129280, "deepseek.deepseek_v3", "deepseek_v3", "deepseek.h100.deepseek_v3",
     "deepseek_v3_pretrain_1024gpu_h100_bf16"},
    {"DeepseekV3ForCausalLM", 2048, 27, 64, 163840, "moonlight.moonlight_16b", "moonlight_16b",
     "moonlight.h100.moonlight_16b", "moonlight_16b_pretrain_16gpu_h100_bf16"},
    {"DeepseekV3ForCausalLM", 7168, 61, 384, 163840, "", "", "kimi.h100.kimi_k2", "kimi_k2_pretrain_512gpu_h100_bf16"},
    {"Glm4MoeForCausalLM", 5120, 92, 160, 151552, "glm.glm45", "glm45_355b", "glm.h100.glm45",
     "glm45_355b_pretrain_128gpu_h100_bf16"},
    {"Glm4MoeForCausalLM", 4096, 46, 128, 151552, "glm.glm45", "glm45_air_106b", "glm.h100.glm45",
     "glm45_air_106b_pretrain_32gpu_h100_bf16"},
    {"GptOssForCausalLM", 2880, 24, 32, 201088, "gpt_oss.gpt_oss", "gpt_oss_20b", "gpt_oss.h100.gpt_oss",
     "gpt_oss_20b_pretrain_16gpu_h100_bf16"},
    {"GptOssForCausalLM", 2880, 36, 128, 201088, "gpt_oss.gpt_oss", "gpt_oss_120b", "gpt_oss.h100.gpt_oss",
     "gpt_oss_120b_pretrain_64gpu_h100_bf16"},
    {"LlamaForCausalLM", 4096, 32, 0, 128256, "llama.llama3", "llama31_8b", "llama.h100.llama3",
     "llama31_8b_pretrain_2gpu_h100_bf16"},
    {"OlmoeForCausalLM", 2048, 16, 64, 50304, "olmoe.olmoe_7b", "olmoe_7b", "olmoe.h100.olmoe_7b",
     "olmoe_7b_pretrain_8gpu_h100_bf16"},
    {"Qwen3ForCausalLM", 4096, 36, 0, 151936, "qwen.qwen3", "qwen3_8b", "qwen.h100.qwen3",
     "qwen3_8b_pretrain_4gpu_h100_bf16"},
    {"Qwen3MoeForCausalLM", 2048, 48, 128, 151936, "qwen.qwen3_moe", "qwen3_30b_a3b", "qwen.h100.qwen3_moe",
     "qwen3_30b_a3b_pretrain_16gpu_h100_bf16"},
    {"Qwen3MoeForCausalLM", 4096, 94, 128, 151936, "qwen.qwen3_moe", "qwen3_235b_a22b", "qwen.h100.qwen3_moe",
     "qwen3_235b_a22b_pretrain_256gpu_h100_bf16"},
    {"Qwen3NextForCausalLM", 2048, 48, 512, 151936, "qwen.qwen3_next", "qwen3_next_80b_a3b", "qwen.h100.qwen3_next",
     "qwen3_next_80b_a3b_pretrain_32gpu_h100_bf16"}};

/// Names the recipe that describes the model, or says how to describe it without one.
static void writeRecipe(const ModelConfig &model, bool isOld, llvm::raw_ostream &os) {
  const Recipe *recipe = llvm::find_if(kRecipes, [&](const Recipe &one) {
    return one.architecture == model.architecture && one.hidden == model.layer.hidden &&
           one.blocks == static_cast<int64_t>(model.model->blocks.size()) && one.experts == model.layer.experts &&
           one.vocabulary == model.model->vocabulary && !(isOld && one.old.empty());
  });
  if (recipe == std::end(kRecipes)) {
    os << "# It has no recipe for this model, " << model.architecture << ". Take a recipe of a similar one, and set\n"
       << "# cfg.model = AutoBridge.from_hf_pretrained(..).to_megatron_provider(load_weights=False), if it knows the "
          "model.\n";
    return;
  }
  os << "# This recipe describes the model:\n#   from megatron.bridge.recipes." << (isOld ? recipe->old : recipe->now)
     << " import " << (isOld ? recipe->oldFunction : recipe->nowFunction) << (isOld ? "_pretrain_config" : "_config")
     << "\n";
}

void mlir::moe::writeMegatronBridge(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os) {
  std::vector<SettingGroup> groups = getPlanSettings(advice, job);
  removeNewSettings(groups, getCoreVersion(advice.target), job);
  auto has = [&](StringRef flag) {
    return llvm::any_of(groups, [&](const SettingGroup &group) {
      return llvm::any_of(group.settings, [&](const Setting &setting) { return setting.flag == flag; });
    });
  };
  auto getBool = [&](StringRef flag) { return has(flag) ? "True" : "False"; };
  writeRecipe(job.model, /*isOld=*/advice.target.version < llvm::VersionTuple(0, 6), os);
  os << "# Call apply_plan() with its configuration before pretrain().\n"
     << "import torch\n"
     << "from megatron.bridge.training.comm_overlap import CommOverlapConfig\n"
     << (job.dtype == "f32" ? "from megatron.bridge.training.mixed_precision import MixedPrecisionConfig"
                            : "from megatron.bridge.training.mixed_precision import get_mixed_precision_config")
     << "\n\n"
     << kDefaults << "    cfg.comm_overlap = CommOverlapConfig(\n"
     << "        tp_comm_overlap=False, overlap_grad_reduce=" << getBool("overlap-grad-reduce")
     << ", overlap_param_gather=" << getBool("overlap-param-gather") << "\n    )\n"
     << "    cfg.dataset.sequence_length = cfg.dataset.seq_length = " << job.sequence << "\n";
  if (int connections = getConnections(advice.runnable))
    os << "    # Processes need this variable before CUDA starts. Export it if this version has no env_vars.\n"
       << "    if hasattr(cfg, \"env_vars\"):\n"
       << "        cfg.env_vars[\"CUDA_DEVICE_MAX_CONNECTIONS\"] = " << connections << "\n";
  if (!advice.stageBlocks.empty() && !llvm::all_equal(advice.stageBlocks) && advice.runnable.interleave > 1)
    os << "    cfg.model.virtual_pipeline_model_parallel_size = " << advice.runnable.interleave << "\n";
  for (const SettingGroup &group : groups) {
    os << "    # " << group.title << (group.remark.empty() ? "" : ": ") << group.remark << "\n";
    for (const Setting &setting : group.settings)
      if (setting.inBridge)
        os << "    cfg." << findMegatronFlag(setting.flag)->getBridgeField() << " = " << getFieldValue(setting) << "\n";
  }
  if (job.dtype == "f32")
    os << "    cfg.mixed_precision = MixedPrecisionConfig(\n"
       << "        fp32=True, params_dtype=torch.float32, pipeline_dtype=torch.float32\n    )\n";
  if (has("use-megatron-fsdp"))
    os << "    cfg.dist.use_megatron_fsdp = True\n";
  if (has("use-distributed-optimizer"))
    os << "    cfg.optimizer.use_distributed_optimizer = True\n";
  os << "    return cfg\n";
}
