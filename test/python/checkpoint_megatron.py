"""A GPTModel of megatron-core on CPUs, for the tests of checkpoints. Written for megatron-core 0.16.1.

These parts of Megatron are replaced, because they need a GPU: devices and streams of CUDA, and layers of Transformer Engine, by Megatron's
own. The latter name the norm before experts like that of a dense block, so the map of these names is cut.
"""

import contextlib
import json
import os

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode


class _Stream:
    def __init__(self, *arguments, **options):
        pass


class _OnCpus(TorchFunctionMode):
    """Makes tensors of "cuda" on CPUs, and lets their types say "cuda"."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        if function is torch.Tensor.cuda:
            return arguments[0]
        if function is torch.Tensor.type and len(arguments) == 1:
            return function(*arguments).replace("torch.", "torch.cuda.", 1)
        options = dict(options or {})
        if str(options.get("device", "")).startswith("cuda"):
            options["device"] = "cpu"
        return function(*arguments, **options)


def make_model(config, tensor, expert):
    """The model of a config.json of Llama or Mixtral."""
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig

    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.Stream = _Stream
    torch.cuda.synchronize = lambda *arguments: None
    with open(config, encoding="utf-8") as file:
        keys = json.load(file)
    parallel_state.initialize_model_parallel(tensor, expert_model_parallel_size=expert)
    experts = keys.get("num_local_experts")
    options = dict(num_moe_experts=experts, moe_router_topk=keys["num_experts_per_tok"], moe_router_load_balancing_type="none",
                   moe_token_dispatcher_type="allgather", moe_ffn_hidden_size=keys["intermediate_size"]) if experts else {}
    spec = get_gpt_layer_local_spec(num_experts=experts, moe_grouped_gemm=False, normalization="RMSNorm")
    if experts:
        del spec.submodules.sharded_state_dict_keys_map["pre_mlp_layernorm."]
    return GPTModel(TransformerConfig(
        num_layers=keys["num_hidden_layers"], hidden_size=keys["hidden_size"], num_attention_heads=keys["num_attention_heads"],
        num_query_groups=keys["num_key_value_heads"], ffn_hidden_size=keys["intermediate_size"], layernorm_epsilon=keys["rms_norm_eps"],
        gated_linear_unit=True, activation_func=torch.nn.functional.silu, normalization="RMSNorm", add_bias_linear=False, hidden_dropout=0,
        attention_dropout=0, use_cpu_initialization=True, masked_softmax_fusion=False, gradient_accumulation_fusion=False,
        bias_activation_fusion=False, bias_dropout_fusion=False, apply_rope_fusion=False, tensor_model_parallel_size=tensor,
        expert_model_parallel_size=expert, **options), spec, vocab_size=keys["vocab_size"],
        max_sequence_length=keys["max_position_embeddings"], position_embedding_type="rope", rotary_base=keys["rope_theta"],
        share_embeddings_and_output_weights=False)


def write_logits(config, source, path):
    """Loads the folder on one rank, and writes the logits of the tokens 0 to 15."""
    from megatron.core import dist_checkpointing, parallel_state, tensor_parallel
    from megatron.core.transformer.moe import moe_utils

    # Without Transformer Engine, the router of 0.16.1 asks for a name that it does not define.
    moe_utils.te_general_gemm = None
    # Attention enters random numbers of CUDA for dropout, which is 0.
    tensor_parallel.get_cuda_rng_tracker().fork = contextlib.nullcontext
    with _OnCpus(), torch.no_grad():
        model = make_model(config, tensor=1, expert=1).eval()
        group = parallel_state.get_data_parallel_group(with_context_parallel=True)
        state = model.sharded_state_dict(metadata={**dist_checkpointing.load_content_metadata(source), "dp_cp_group": group})
        state = {name: one for name, one in state.items() if "_extra_state" not in name}
        model.load_state_dict(dist_checkpointing.load({"model": state}, source)["model"], strict=False)
        tokens, mask = torch.arange(16)[None], torch.ones(16, 16).triu(1).bool()[None, None]
        torch.save(model(tokens, tokens, mask)[0], path)


def load_and_save(config, source, target):
    with _OnCpus():
        _load_and_save(config, source, target)


def _load_and_save(config, source, target):
    """Loads the folder into a model and Megatron's distributed optimizer, and saves both. Dense models have TP = 2, others EP = 2."""
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

    has_experts = "mixtral" in config
    model = make_model(config, tensor=1 if has_experts else 2, expert=2 if has_experts else 1)
    dtype = torch.bfloat16 if has_experts else torch.float32
    model.to(dtype)
    wrapped = DistributedDataParallel(model.config, DistributedDataParallelConfig(use_distributed_optimizer=True), model)
    optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=0.01, bf16=has_experts, params_dtype=dtype,
                                                       use_distributed_optimizer=True), [wrapped])
    # Without Transformer Engine, Megatron uses PyTorch's Adam. It has its states after a step. Its states have a step each, which Megatron
    # sets before the others, and which the function that sets the others does not expect.
    set_states = DistributedOptimizer._set_main_param_and_optimizer_states
    DistributedOptimizer._set_main_param_and_optimizer_states = lambda self, parameter, states: set_states(
        self, parameter, {"step": self._get_main_param_and_optimizer_states(parameter)["step"], **states})
    for one in optimizer.chained_optimizers:
        for group in one.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        one.optimizer.step()
    content = dist_checkpointing.load_content_metadata(source)
    metadata = {**content, "dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)}

    def make_state(is_loading):
        # Entries of layers for Transformer Engine, without content in Megatron's own layers.
        state = {"model": {name: one for name, one in model.sharded_state_dict(metadata=metadata).items() if "_extra_state" not in name}}
        state["optimizer"] = optimizer.sharded_state_dict(state, is_loading=is_loading, metadata=metadata)
        return state

    loaded = dist_checkpointing.load(make_state(True), source)
    model.load_state_dict(loaded["model"], strict=False)
    optimizer.load_state_dict(loaded["optimizer"])
    folder = os.path.join(target, "iter_0000003")
    os.makedirs(folder, exist_ok=True)
    dist.barrier()
    dist_checkpointing.save({"iteration": 3, **make_state(False)}, folder, content_metadata=content)
    if dist.get_rank() == 0:
        with open(os.path.join(target, "latest_checkpointed_iteration.txt"), "w", encoding="utf-8") as file:
            file.write("3")
