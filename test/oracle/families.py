"""The MoE layer of each model family, read from its Hugging Face config independently of the importer."""

import json
import os

import llama_like
import models
from oracle import Layer, Model

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "share", "models")


def layer_of(config, sequences=1):
    """The layer that the family's published modeling code builds from `config`, for tokens of `sequences` sequences."""
    c = config
    family = c["architectures"][0]
    if same := models.same_as(config):
        return layer_of(same[0], sequences)
    if family == "SwitchTransformersForConditionalGeneration":
        # Top-1 of a softmax. The capacity is counted in each sequence.
        return Layer(c["d_model"], c["d_ff"], c["num_experts"], c["num_selected_experts"], activation=c["dense_act_fn"],
                     expert_capacity=c["expert_capacity"], groups=sequences)
    k = c.get("num_experts_per_tok")
    if family in ("GPT2MoEForCausalLM", "BertMoEForMaskedLM"):
        gpt2 = family == "GPT2MoEForCausalLM"
        hidden = c["n_embd"] if gpt2 else c["hidden_size"]
        inner = (c["n_inner"] or 4 * hidden) if gpt2 else c["intermediate_size"]
        return Layer(hidden, inner, c["num_experts"], k, activation="gelu_tanh" if gpt2 else "gelu",
                     renormalize=c["norm_topk_prob"], expert_biases=True, capacity_factor=c["expert_capacity_factor"])
    if family == "MixtralForCausalLM":
        return Layer(c["hidden_size"], c["intermediate_size"], c["num_local_experts"], k, renormalize=True)
    if family in llama_like.FAMILIES:
        f = llama_like.FAMILIES[family](c)
        return Layer(f.hidden, f.inner, f.count, f.k, score=f.score, selection_bias=bool(f.bias_of_choice),
                     renormalize=f.normalise, weigh_inputs=f.weigh_inputs, routing_scale=f.scale,
                     expert_groups=f.groups[0], top_groups=f.groups[1], group_score="top2" if f.groups[0] > 1 else "max",
                     shared_inner=f.shared_inner)
    if family in ("Qwen2MoeForCausalLM", "Qwen3NextForCausalLM"):
        return Layer(c["hidden_size"], c["moe_intermediate_size"], c["num_experts"], k, renormalize=c["norm_topk_prob"],
                     shared_inner=c["shared_expert_intermediate_size"], shared_gate=True)
    if family == "Qwen3MoeForCausalLM":
        return Layer(c["hidden_size"], c["moe_intermediate_size"], c["num_experts"], k, renormalize=c["norm_topk_prob"])
    if family == "OlmoeForCausalLM":
        return Layer(c["hidden_size"], c["intermediate_size"], c["num_experts"], k, renormalize=c["norm_topk_prob"])
    if family in ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"):
        v3 = family == "DeepseekV3ForCausalLM"
        grouped = c["topk_method"] != "greedy"
        normalise = c["norm_topk_prob"] and k > 1
        return Layer(c["hidden_size"], c["moe_intermediate_size"], c["n_routed_experts"], k,
                     score="sigmoid" if v3 else "softmax", selection_bias=v3, renormalize=normalise,
                     # V2 scales only weights that it does not renormalise.
                     routing_scale=c["routed_scaling_factor"] if v3 or not normalise else 1.0,
                     expert_groups=c["n_group"] if grouped else 1, top_groups=c["topk_group"] if grouped else 1,
                     group_score="top2" if v3 else "max",
                     shared_inner=c["n_shared_experts"] * c["moe_intermediate_size"])
    if family == "GptOssForCausalLM":
        return Layer(c["hidden_size"], c["intermediate_size"], c["num_local_experts"], k, activation="swiglu_clamped",
                     renormalize=True, gate_bias=True, expert_biases=True)
    raise ValueError(f"unknown family {family}")


# Sizes at which the oracle is fast, for the shared configs. Other values stay.
REDUCED = {
    "switch-base-8": dict(d_model=16, d_ff=24, expert_capacity=2),
    "mixtral-8x7b": dict(hidden_size=16, intermediate_size=20),
    "mixtral-8x22b": dict(hidden_size=16, intermediate_size=20),
    "qwen1.5-moe-a2.7b": dict(hidden_size=16, moe_intermediate_size=8, num_experts=12,
                              shared_expert_intermediate_size=20),
    "qwen3-30b-a3b": dict(hidden_size=16, moe_intermediate_size=6, num_experts=16),
    "qwen3-235b-a22b": dict(hidden_size=16, moe_intermediate_size=6, num_experts=16),
    "olmoe-1b-7b": dict(hidden_size=16, intermediate_size=6, num_experts=12),
    "deepseek-v2": dict(hidden_size=16, moe_intermediate_size=6, n_routed_experts=24),
    "deepseek-v2-lite": dict(hidden_size=16, moe_intermediate_size=6, n_routed_experts=12),
    "deepseek-v3": dict(hidden_size=16, moe_intermediate_size=6, n_routed_experts=32),
    "gpt-oss-20b": dict(hidden_size=16, intermediate_size=12, num_local_experts=8),
    "gpt2-moe": dict(n_embd=16, num_experts=8),
    "gpt3-medium-moe": dict(n_embd=16, num_experts=6),
    "gpt3-6.7b-moe": dict(n_embd=16, n_inner=12, num_experts=6),
    "bert-base-moe": dict(hidden_size=16, intermediate_size=24, num_experts=8),
    "gpt-oss-120b": dict(hidden_size=16, intermediate_size=12, num_local_experts=16),
    "kimi-k2.5": dict(text_config=dict(hidden_size=16, moe_intermediate_size=6, n_routed_experts=24)),
    "deepseek-moe-16b": dict(hidden_size=16, moe_intermediate_size=6, n_routed_experts=12),
    "kimi-k2": dict(hidden_size=16, moe_intermediate_size=6, n_routed_experts=24),
    "glm-4.5-air": dict(hidden_size=16, moe_intermediate_size=6, n_routed_experts=16),
    "glm-4.5": dict(hidden_size=16, moe_intermediate_size=6, n_routed_experts=16),
    "dots.llm1": dict(hidden_size=16, moe_intermediate_size=6, n_routed_experts=16),
    "mimo-v2-flash": dict(hidden_size=16, moe_intermediate_size=6, n_routed_experts=16),
    "minimax-m2": dict(hidden_size=16, intermediate_size=6, num_local_experts=16),
    "ernie-4.5-21b-a3b": dict(hidden_size=16, moe_intermediate_size=6, moe_num_experts=12),
    "hunyuan-a13b": dict(hidden_size=16, intermediate_size=6, num_experts=12),
    "granite-3.0-3b-a800m": dict(hidden_size=16, intermediate_size=6, num_local_experts=12),
    "qwen3-next-80b-a3b": dict(hidden_size=16, moe_intermediate_size=6, num_experts=16, shared_expert_intermediate_size=6),
    # Its sizes are in an object of their own.
    "llama-4-scout": dict(text_config=dict(hidden_size=16, intermediate_size=6)),
    "llama-4-maverick": dict(text_config=dict(hidden_size=16, intermediate_size=6, num_local_experts=16)),
    "qwen3-vl-30b-a3b": dict(text_config=dict(hidden_size=16, moe_intermediate_size=6, num_experts=16)),
    "dbrx": dict(d_model=16, ffn_config=dict(ffn_hidden_size=6, moe_num_experts=8)),
}


def shared_names():
    """Names of shared configs with experts."""
    return sorted(REDUCED)


def reduced_config(name):
    with open(os.path.join(MODELS, name + ".json")) as file:
        config = json.load(file)
    for key, value in REDUCED[name].items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    return config


def model_of(config, sequences, length, layers=1):
    return Model((layer_of(config, sequences),) * layers, sequences * length)
