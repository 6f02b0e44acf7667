//===- MegatronFlags.cpp - what each argument of Megatron-LM means --------===//
//
// Names and numbers of values are those of megatron/training/arguments.py and its torchrun's, of Megatron-LM
// core_v0.15.
//
//===----------------------------------------------------------------------===//
#include "MegatronFlags.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir::moe;
using llvm::StringRef;

/// Names, some on a line, of flags that MoePlan reads.
static constexpr StringRef kSwitches[] = {
    // The model.
    "add-qkv-bias apply-rope-fusion disable-bias-linear group-query-attention moe-apply-probs-on-input",
    "moe-pad-expert-input-to-capacity moe-router-enable-expert-bias moe-router-pre-softmax moe-shared-expert-gate",
    "multi-latent-attention no-position-embedding openai-gelu qk-layernorm quick-geglu rotary-interleaved squared-relu",
    "swiglu untie-embeddings-and-output-weights use-rope-scaling use-rotary-position-embeddings",
    // The plan.
    "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split bf16 delay-wgrad-compute fp16",
    "grad-reduce-in-bf16 moe-enable-deepep moe-layer-recompute overlap-grad-reduce",
    "overlap-moe-expert-parallel-comm overlap-param-gather recompute-activations sequence-parallel",
    "use-distributed-optimizer use-megatron-fsdp"};
static constexpr StringRef kSettings[] = {
    // The model.
    "activation-func-clamp-value attention-dropout ffn-hidden-size glu-linear-offset hidden-dropout hidden-size",
    "kv-channels kv-lora-rank max-position-embeddings moe-aux-loss-coeff moe-expert-capacity-factor",
    "moe-ffn-hidden-size moe-input-jitter-eps moe-layer-freq moe-router-group-topk moe-router-num-groups",
    "moe-router-score-function moe-router-topk moe-router-topk-scaling-factor moe-shared-expert-intermediate-size",
    "mscale mscale-all-dim no-rope-freq norm-epsilon normalization num-attention-heads num-experts num-layers",
    "num-query-groups original-max-position-embeddings padded-vocab-size position-embedding-type q-lora-rank",
    "qk-head-dim qk-pos-emb-head-dim rope-scaling-factor rope-type rotary-base rotary-percent rotary-scaling-factor",
    "softmax-type tokenizer-type v-head-dim vocab-size window-attn-skip-freq window-size",
    // The plan.
    "context-parallel-size data-parallel-sharding-strategy decoder-first-pipeline-num-layers "
    "decoder-last-pipeline-num-layers",
    "expert-model-parallel-size expert-tensor-parallel-size global-batch-size micro-batch-size",
    "moe-token-dispatcher-type nnodes nproc-per-node num-layers-per-virtual-pipeline-stage",
    "num-virtual-stages-per-pipeline-rank optimizer pipeline-model-parallel-layout pipeline-model-parallel-size",
    "recompute-granularity recompute-method recompute-num-layers seq-length tensor-model-parallel-size"};
static constexpr StringRef kLists[] = {"cp-comm-type moe-router-load-balancing-type recompute-modules"};

/// Flags on which nothing that MoePlan computes depends: files, logs, data, rates of training, how weights begin, and
/// implementations that compute the same.
static constexpr StringRef kHarmlessSwitches[] = {
    "accumulate-allreduce-grads-in-fp32 adlr-autoresume align-param-gather async-save attention-softmax-in-fp32",
    "auto-detect-ckpt-format calculate-per-token-loss check-for-nan-in-loss-and-grad "
    "check-weight-hash-across-dp-replicas",
    "ckpt-assume-constant-structure ckpt-fully-parallel-load ckpt-fully-parallel-save "
    "create-attention-mask-in-dataloader",
    "cross-entropy-loss-fusion ddp-average-in-collective defer-embedding-wgrad-compute deterministic-mode",
    "disable-symmetric-registration",
    "distribute-saved-activations empty-unused-memory enable-experimental eod-mask-loss finetune",
    "fine-grained-activation-offloading hf-upload init-method-xavier-uniform log-interval-in-tokens",
    "log-memory-to-tensorboard log-num-zeros-in-grad log-params-norm log-progress log-straggler log-throughput",
    "log-timers-to-tensorboard log-validation-ppl-to-tensorboard log-world-size-to-tensorboard log-energy",
    "manual-gc mla-down-proj-fusion mock-data moe-grouped-gemm moe-per-layer-logging moe-permute-fusion",
    "moe-router-force-load-balancing moe-router-fusion moe-router-padding-for-fp8 moe-use-legacy-grouped-gemm",
    "no-async-tensor-model-parallel-allreduce no-barrier-with-level-1-timing no-bias-dropout-fusion",
    "no-bias-gelu-fusion no-bias-swiglu-fusion no-check-for-nan-in-loss-and-grad "
    "no-create-attention-mask-in-dataloader",
    "no-ckpt-fully-parallel-save no-data-sharding no-gradient-accumulation-fusion no-initialization",
    "no-load-optim no-load-rng no-masked-softmax-fusion no-mmap-bin-files no-persist-layer-norm",
    "no-query-key-layer-scaling apply-query-key-layer-scaling",
    "no-rope-fusion no-save-optim no-save-rng no-scatter-gather-tensors-in-pipeline no-async-save",
    "no-overlap-p2p-communication overlap-p2p-communication-warmup-flush",
    "override-opt-param-scheduler perform-initialization profile reset-attention-mask reset-position-ids",
    "skip-train standalone trust-remote-code",
    "tokenizer-hf-include-special-tokens use-checkpoint-args use-checkpoint-opt-param-scheduler use-cpu-initialization",
    "use-dist-ckpt use-flash-attn use-mcore-models use-mp-args-from-checkpoint-args",
    "use-persistent-ckpt-worker use-pytorch-profiler use-ring-exchange-p2p use-tp-pp-dp-mapping wandb-offline",
    "use-precision-aware-optimizer exit-signal-handler tp-comm-overlap-rs-dgrad",
    "tp-comm-split-ag tp-comm-split-rs tp-comm-bulk-dgrad tp-comm-bulk-wgrad tp-comm-overlap-ag tp-comm-overlap-rs",
    "clone-scatter-output-in-embedding no-python"};
static constexpr StringRef kHarmlessSettings[] = {
    "adam-beta1 adam-beta2 adam-eps attention-backend cache-path checkpoint-activations ckpt-convert-format",
    "ckpt-convert-save ckpt-format ckpt-step clip-grad config-logger-dir cross-entropy-fusion-impl data-args-path",
    "data-cache-path data-parallel-random-init dataloader-type ddp-bucket-size ddp-num-buckets "
    "ddp-pad-buckets-for-nccl",
    "decoupled-lr decoupled-min-lr dist-ckpt-format dist-ckpt-strictness distributed-backend",
    "distributed-timeout-minutes end-weight-decay eval-interval eval-iters exit-duration-in-mins exit-interval",
    "exp-avg-dtype exp-avg-sq-dtype init-method-std initial-loss-scale iteration keep-last-n-checkpoints load",
    "local-addr local-rank log-dir log-interval log-loss-scale-to-tensorboard logging-level loss-scale",
    "loss-scale-window lr lr-decay-iters lr-decay-samples lr-decay-style lr-warmup-fraction lr-warmup-init",
    "lr-warmup-iters lr-warmup-samples lr-wsd-decay-iters lr-wsd-decay-samples lr-wsd-decay-style main-grads-dtype",
    "main-params-dtype make-vocab-size-divisible-by manual-gc-eval manual-gc-interval master-addr master-port",
    "max-restarts max-tokens-to-oom merge-file microbatch-group-size-per-virtual-pipeline-stage min-loss-scale min-lr",
    "moe-router-bias-update-rate moe-router-dtype moe-token-drop-policy moe-z-loss-coeff node-rank",
    "non-persistent-ckpt-type non-persistent-save-interval num-dataset-builder-threads num-workers one-logger-project",
    "one-logger-run-name pretrained-checkpoint profile-step-end profile-step-start rdzv-backend",
    "rdzv-endpoint rdzv-id redirects rerun-mode role run-path save save-interval save-retain-interval seed "
    "sgd-momentum",
    "split start-weight-decay start-method straggler-minmax-count straggler-ctrlr-port t tee tensorboard-dir",
    "tensorboard-log-interval tensorboard-queue-size test-data-path te-rng-tracker timing-log-level timing-log-option",
    "tiktoken-num-special-tokens tiktoken-pattern tiktoken-special-tokens tokenizer-model tokenizer-prompt-format",
    "tp-comm-bootstrap-backend tp-comm-overlap-cfg train-iters train-samples transformer-impl vocab-file",
    "wandb-entity wandb-exp-name wandb-project wandb-save-dir weight-decay weight-decay-incr-style",
    "moe-deepep-num-sms empty-unused-memory-level hysteresis flight-recorder-dump-path nccl-communicator-config-path",
    "monitor-interval"};
static constexpr StringRef kHarmlessLists[] = {"data-path profile-ranks spec train-data-path valid-data-path"};

/// Flags that change the step in a way that MoePlan does not model.
static constexpr MegatronFlag kOthers[] = {
    {"cuda-graph-impl", 1, false, "launches by the cluster's host; a CUDA graph would make them shorter"},
    {"cuda-graph-scope", kManyValues, false, "launches by the cluster's host; a CUDA graph would make them shorter"},
    {"enable-cuda-graph", 0, false, "launches by the cluster's host; a CUDA graph would make them shorter"},
    {"external-cuda-graph", 0, false, "launches by the cluster's host; a CUDA graph would make them shorter"},
    {"fp4-format", 1, false, "products in bf16, which take longer"},
    {"fp8-format", 1, false, "products in bf16, which take longer"},
    {"fp8-amax-compute-algo", 1, true},
    {"fp8-amax-history-len", 1, true},
    {"fp8-interval", 1, true},
    {"fp8-margin", 1, true},
    {"fp8-param-gather", 0, true},
    {"fp8-recipe", 1, true},
    {"moe-expert-rank-capacity-factor", 1, false, "a dropless layer, whose memory --max-load bounds"},
    {"moe-shared-expert-overlap", 0, false, "shared experts beside exchanges where the plan's streams allow it"},
    {"mtp-loss-scaling-factor", 1, true},
    {"mtp-num-layers", 1, false, "a model that predicts one token, without the layers of multi-token prediction"},
    {"optimizer-cpu-offload", 0, false, "an optimizer on the GPU, which needs more memory there"},
    {"cpu-offloading-num-layers", 1, false, "activations that stay on the GPU, which needs more memory there"},
    {"moe-flex-dispatcher-backend", 1, true},
    {"moe-upcycling-granularity", 1, true},
    {"moe-use-upcycling", 0, true},
    {"rampup-batch-size", kManyValues, false, "steps of the whole --global-batch-size"},
    {"tp-comm-overlap", 0, false, "exchanges of tensor parallelism beside other launches, and not inside products"},
    {"use-custom-fsdp", 0, false, "what --use-distributed-optimizer asks for; --use-megatron-fsdp is read as ZeRO"},
    {"use-torch-fsdp2", 0, false, "what --use-distributed-optimizer asks for; --use-megatron-fsdp is read as ZeRO"},
    {"linear-attention-type", 1, false, "softmax attention"},
    {"num-distributed-optimizer-instances", 1, false, "one group that divides the optimizer's states"}};

static llvm::StringMap<MegatronFlag> makeTable() {
  llvm::StringMap<MegatronFlag> all;
  auto add = [&](llvm::ArrayRef<StringRef> lines, int values, bool isHarmless) {
    for (StringRef line : lines)
      for (StringRef name : llvm::split(line, ' '))
        all[name] = {name, values, isHarmless};
  };
  add(kSwitches, 0, false);
  add(kSettings, 1, false);
  add(kLists, kManyValues, false);
  add(kHarmlessSwitches, 0, true);
  add(kHarmlessSettings, 1, true);
  add(kHarmlessLists, kManyValues, true);
  for (const MegatronFlag &flag : kOthers)
    all[flag.name] = flag;
  return all;
}

static const llvm::StringMap<MegatronFlag> &getTable() {
  static const llvm::StringMap<MegatronFlag> table = makeTable();
  return table;
}

const MegatronFlag *mlir::moe::findMegatronFlag(StringRef name) {
  auto found = getTable().find(name);
  return found == getTable().end() ? nullptr : &found->second;
}

llvm::SmallVector<StringRef> mlir::moe::getMegatronFlagNames() {
  llvm::SmallVector<StringRef> names(getTable().keys());
  llvm::sort(names);
  return names;
}
