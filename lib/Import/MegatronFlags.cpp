//===- MegatronFlags.cpp - the arguments of Megatron-LM -------------------===//
//
// Names and numbers of values are those of megatron/training/arguments.py and its torchrun's, of Megatron-LM
// core_v0.15; fields are those of Megatron-Bridge v0.2 (megatron/bridge/training/config.py, comm_overlap.py).
//
//===----------------------------------------------------------------------===//
#include "moe/Import/MegatronArguments.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>

using namespace mlir::moe;
using llvm::StringRef;

static constexpr StringRef kInsteadOfGraphs =
    "launches by the host, except in moe-plan with --framework; a CUDA graph would make them shorter";

/// Each entry has the names of flags that share all else, with spaces between them.
static constexpr MegatronFlag kFlags[] = {
    // The plan, with the fields of Megatron-Bridge.
    {.name = R"(
        context-parallel-size expert-model-parallel-size expert-tensor-parallel-size moe-flex-dispatcher-backend
        moe-token-dispatcher-type pipeline-model-parallel-layout pipeline-model-parallel-size recompute-granularity
        recompute-method recompute-num-layers seq-length tensor-model-parallel-size)",
     .values = 1,
     .bridge = "model."},
    {.name = "cp-comm-type recompute-modules", .values = kManyValues, .bridge = "model."},
    {.name = "moe-enable-deepep sequence-parallel", .bridge = "model."},
    {.name = "num-layers-per-virtual-pipeline-stage",
     .values = 1,
     .bridge = "model.virtual_pipeline_model_parallel_size"},
    {.name = "global-batch-size micro-batch-size", .values = 1, .bridge = "train."},
    {.name = "delay-wgrad-compute overlap-moe-expert-parallel-comm", .bridge = "comm_overlap."},
    {.name = "overlap-grad-reduce overlap-param-gather use-distributed-optimizer use-megatron-fsdp", .bridge = "ddp."},
    {.name = "data-parallel-sharding-strategy", .values = 1, .bridge = "ddp."},
    {.name = "accumulate-allreduce-grads-in-fp32 grad-reduce-in-bf16", .bridge = "mixed_precision.grad_reduce_in_fp32"},
    {.name = "bf16 fp16", .bridge = "mixed_precision"},
    {.name = "optimizer", .values = 1, .bridge = "optimizer."},
    {.name = "moe-grouped-gemm moe-permute-fusion", .isHarmless = true, .bridge = "model."},
    {.name = "ckpt-format", .values = 1, .isHarmless = true, .bridge = "checkpoint."},
    // Flags that describe the model, or the parallel plan of a job.
    {.name = R"(
        account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split add-qkv-bias apply-rope-fusion
        disable-bias-linear group-query-attention moe-apply-probs-on-input moe-layer-recompute
        moe-pad-expert-input-to-capacity moe-router-enable-expert-bias moe-router-pre-softmax moe-shared-expert-gate
        multi-latent-attention no-position-embedding openai-gelu qk-layernorm quick-geglu recompute-activations
        rotary-interleaved squared-relu swiglu untie-embeddings-and-output-weights use-rope-scaling
        use-rotary-position-embeddings)"},
    {.name = R"(
        activation-func-clamp-value adam-beta1 adam-beta2 adam-eps attention-dropout clip-grad
        decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers ffn-hidden-size glu-linear-offset
        hidden-dropout hidden-size kv-channels kv-lora-rank max-position-embeddings moe-aux-loss-coeff
        moe-expert-capacity-factor moe-ffn-hidden-size moe-input-jitter-eps moe-layer-freq moe-router-group-topk
        moe-router-num-groups moe-router-score-function moe-router-topk moe-router-topk-scaling-factor
        moe-shared-expert-intermediate-size mscale mscale-all-dim nnodes no-rope-freq norm-epsilon normalization
        nproc-per-node num-attention-heads num-experts num-layers num-query-groups num-virtual-stages-per-pipeline-rank
        original-max-position-embeddings padded-vocab-size position-embedding-type q-lora-rank qk-head-dim
        qk-pos-emb-head-dim rope-scaling-factor rope-type rotary-base rotary-percent rotary-scaling-factor sgd-momentum
        softmax-type tokenizer-type v-head-dim vocab-size weight-decay window-attn-skip-freq window-size)",
     .values = 1},
    // Flags that MoePlan ignores: files, logs, data, learning rates, initial weights, and equivalent implementations.
    {.name = R"(
        adlr-autoresume align-param-gather apply-query-key-layer-scaling async-save
        attention-softmax-in-fp32 auto-detect-ckpt-format calculate-per-token-loss check-for-nan-in-loss-and-grad
        check-weight-hash-across-dp-replicas ckpt-assume-constant-structure ckpt-fully-parallel-load
        ckpt-fully-parallel-save clone-scatter-output-in-embedding create-attention-mask-in-dataloader
        cross-entropy-loss-fusion data-parallel-random-init ddp-average-in-collective disable-symmetric-registration
        empty-unused-memory enable-experimental eod-mask-loss exit-signal-handler finetune fp8-param-gather
        hf-upload
        init-method-xavier-uniform log-energy log-interval-in-tokens log-memory-to-tensorboard log-num-zeros-in-grad
        log-params-norm log-progress log-straggler log-throughput log-timers-to-tensorboard
        log-validation-ppl-to-tensorboard log-world-size-to-tensorboard manual-gc mock-data moe-per-layer-logging
        moe-router-force-load-balancing moe-router-fusion moe-router-padding-for-fp8 moe-use-legacy-grouped-gemm
        moe-use-upcycling no-async-save no-barrier-with-level-1-timing no-check-for-nan-in-loss-and-grad
        no-ckpt-fully-parallel-save no-create-attention-mask-in-dataloader no-data-sharding no-initialization
        no-load-optim no-load-rng no-mmap-bin-files no-python no-query-key-layer-scaling no-save-optim no-save-rng
        no-scatter-gather-tensors-in-pipeline override-opt-param-scheduler perform-initialization profile
        reuse-grad-buf-for-mxfp8-param-ag skip-train
        standalone te-rng-tracker tokenizer-hf-include-special-tokens tp-comm-bulk-dgrad tp-comm-bulk-wgrad
        tp-comm-overlap-ag tp-comm-overlap-rs tp-comm-overlap-rs-dgrad tp-comm-split-ag tp-comm-split-rs
        trust-remote-code use-checkpoint-args use-checkpoint-opt-param-scheduler use-cpu-initialization use-dist-ckpt
        use-flash-attn use-mcore-models use-mp-args-from-checkpoint-args use-persistent-ckpt-worker
        use-pytorch-profiler use-ring-exchange-p2p wandb-offline)",
     .isHarmless = true},
    {.name = R"(
        cache-path ckpt-convert-format ckpt-convert-save ckpt-step config-logger-dir
        cross-entropy-fusion-impl data-args-path data-cache-path dataloader-type ddp-pad-buckets-for-nccl
        dist-ckpt-format dist-ckpt-strictness distributed-backend distributed-timeout-minutes empty-unused-memory-level
        eval-interval eval-iters exit-duration-in-mins exit-interval flight-recorder-dump-path fp4-recipe
        fp8-amax-compute-algo
        fp8-amax-history-len fp8-interval fp8-margin fp8-recipe hysteresis init-method-std initial-loss-scale iteration
        keep-last-n-checkpoints load local-addr local-rank log-dir log-interval log-loss-scale-to-tensorboard
        logging-level loss-scale loss-scale-window lr lr-decay-iters lr-decay-samples lr-decay-style lr-warmup-fraction
        lr-warmup-init lr-warmup-iters lr-warmup-samples lr-wsd-decay-iters lr-wsd-decay-samples lr-wsd-decay-style
        make-vocab-size-divisible-by manual-gc-eval manual-gc-interval master-addr master-port max-restarts
        max-tokens-to-oom merge-file min-loss-scale min-lr moe-deepep-num-sms
        moe-router-bias-update-rate moe-token-drop-policy moe-upcycling-granularity monitor-interval
        mtp-loss-scaling-factor nccl-communicator-config-path node-rank non-persistent-ckpt-type
        non-persistent-save-interval num-dataset-builder-threads num-workers one-logger-project one-logger-run-name
        pretrained-checkpoint profile-step-end profile-step-start rdzv-backend rdzv-endpoint rdzv-id redirects
        rerun-mode role run-path save save-interval save-retain-interval seed split start-method straggler-ctrlr-port
        straggler-minmax-count t tee tensorboard-dir tensorboard-log-interval tensorboard-queue-size test-data-path
        tiktoken-num-special-tokens tiktoken-pattern tiktoken-special-tokens timing-log-level timing-log-option
        tokenizer-model tokenizer-prompt-format tp-comm-bootstrap-backend tp-comm-overlap-cfg train-iters train-samples
        vocab-file wandb-entity wandb-exp-name wandb-project wandb-save-dir)",
     .values = 1,
     .isHarmless = true},
    {.name = "data-path profile-ranks train-data-path valid-data-path", .values = kManyValues, .isHarmless = true},
    // Changes of the step that MoePlan does not model.
    {R"(
        no-async-tensor-model-parallel-allreduce no-overlap-p2p-communication overlap-p2p-communication-warmup-flush)",
     0, "exchanges beside other launches, where the plan's order allows it"},
    {R"(
        no-bias-dropout-fusion no-bias-gelu-fusion no-bias-swiglu-fusion no-gradient-accumulation-fusion
        no-masked-softmax-fusion no-persist-layer-norm no-rope-fusion)",
     0, "fused kernels, which take less time"},
    {"checkpoint-activations", 0, "the recomputation that --recompute-granularity asks for"},
    {"ddp-bucket-size ddp-num-buckets", 1, "buckets of its own size (--bucket-bytes)"},
    {"decoupled-lr decoupled-min-lr", 1, "one learning rate for all parameters"},
    {"defer-embedding-wgrad-compute mla-down-proj-fusion", 0, "the launches of a job without it"},
    {"deterministic-mode", 0, "kernels that need not be deterministic, and may take less time"},
    {"distribute-saved-activations", 0, "whole inputs of recomputed blocks on each rank, which need more memory"},
    {"end-weight-decay start-weight-decay", 1, "a constant --weight-decay"},
    {.name = "weight-decay-incr-style", .values = 1, .instead = "a constant --weight-decay", .same = "constant"},
    {"fine-grained-activation-offloading", 0, "activations that stay on the GPU, which needs more memory there"},
    {"microbatch-group-size-per-virtual-pipeline-stage", 1, "groups of as many micro-batches as there are stages"},
    {.name = "moe-router-dtype", .values = 1, .instead = "scores in f32", .same = "fp32"},
    {"reset-attention-mask", 0, "attention over whole sequences, across documents"},
    {"reset-position-ids", 0, "positions in whole sequences, across documents"},
    {"use-precision-aware-optimizer", 0, "an optimizer whose master parameters are whole, which needs more memory"},
    {"use-tp-pp-dp-mapping", 0,
     "neighbours of tensor, context, expert and data parallelism in this order, and then stages"},
    {.name = "attention-backend", .values = 1, .instead = "fused attention", .same = "auto flash fused"},
    {.name = "cuda-graph-impl", .values = 1, .instead = kInsteadOfGraphs, .same = "none", .bridge = "model."},
    {.name = "cuda-graph-scope", .values = kManyValues, .instead = kInsteadOfGraphs, .bridge = "model."},
    {"enable-cuda-graph external-cuda-graph", 0, kInsteadOfGraphs},
    {.name = "exp-avg-dtype exp-avg-sq-dtype main-grads-dtype main-params-dtype",
     .values = 1,
     .instead = "f32, which needs more memory",
     .same = "fp32"},
    {"fp4-format fp8-format", 1, "products in the type of --precision, which is bf16 by default,"},
    {"moe-expert-rank-capacity-factor", 1, "a dropless layer, whose memory --max-load bounds"},
    {.name = "moe-router-load-balancing-type",
     .values = kManyValues,
     .instead = "routing to the experts with the best scores, and the auxiliary loss of each micro-batch (aux_loss)",
     .same = "aux_loss none"},
    {"moe-shared-expert-overlap", 0, "shared experts beside exchanges where the plan's streams allow it"},
    {.name = "moe-z-loss-coeff", .values = 1, .instead = "no loss of the router's logits", .same = "0 0.0"},
    {"mtp-num-layers", 1, "a model that predicts one token, without the layers of multi-token prediction"},
    {"optimizer-cpu-offload", 0, "an optimizer on the GPU, which needs more memory there"},
    {"cpu-offloading-num-layers", 1, "activations that stay on the GPU, which needs more memory there"},
    {"rampup-batch-size", kManyValues, "steps of the whole --global-batch-size"},
    {"spec", kManyValues, "the layers that the other flags describe, with softmax attention"},
    {"tp-comm-overlap", 0, "exchanges of tensor parallelism beside other launches, and not inside products"},
    {.name = "transformer-impl",
     .values = 1,
     .instead = "the launches of Transformer Engine's layers",
     .same = "transformer_engine"},
    {"use-custom-fsdp use-torch-fsdp2", 0,
     "what --use-distributed-optimizer asks for; --use-megatron-fsdp is read as ZeRO"},
    {"linear-attention-type", 1, "softmax attention"},
    {.name = "num-distributed-optimizer-instances",
     .values = 1,
     .instead = "one group that divides the optimizer's states",
     .same = "1"}};

static const llvm::StringMap<MegatronFlag> &getTable() {
  static const llvm::StringMap<MegatronFlag> table = [] {
    llvm::StringMap<MegatronFlag> all;
    for (MegatronFlag flag : kFlags) {
      llvm::SmallVector<StringRef> names;
      for (llvm::SplitString(flag.name, names, " \n"); StringRef name : names) {
        flag.name = name;
        all[name] = flag;
      }
    }
    return all;
  }();
  return table;
}

const MegatronFlag *mlir::moe::findMegatronFlag(StringRef name) {
  auto found = getTable().find(name);
  return found == getTable().end() ? nullptr : &found->second;
}

std::string MegatronFlag::getBridgeField() const {
  if (!bridge.ends_with("."))
    return bridge.str();
  std::string field = (bridge + name).str();
  std::replace(field.begin(), field.end(), '-', '_');
  return field;
}

llvm::SmallVector<StringRef> mlir::moe::getMegatronFlagNames() {
  llvm::SmallVector<StringRef> names(getTable().keys());
  llvm::sort(names);
  return names;
}
