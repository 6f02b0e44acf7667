"""Families with Llama's block in plain numpy float64, each described by its differences from the others.

Written from the models' published code, independently of the importer. `FAMILIES[architecture](config)` describes a model as a `Form`.
`shapes` and `logits` are those of models.py.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

import models
from oracle import sigmoid


@dataclass
class Form:
    hidden: int
    blocks: int
    vocabulary: int
    heads: int
    key_heads: int
    head: int
    eps: float
    theta: float
    # Names of the tensors.
    block: str = "model.layers.{}."
    embedding: str = "model.embed_tokens.weight"
    final_norm: str = "model.norm.weight"
    lm_head: str = "lm_head.weight"
    norms: tuple = ("input_layernorm", "post_attention_layernorm")
    attention: str = "self_attn."
    projections: tuple = ("q_proj", "k_proj", "v_proj", "o_proj")
    packed: str = ""  # one projection makes q, k and v
    head_norms: tuple = ("q_norm", "k_norm")
    dense: str = "mlp."
    gate: str = "mlp.gate.weight"
    experts: str = "mlp.experts.{}."
    expert_names: tuple = ("gate_proj", "up_proj", "down_proj")
    stacked: tuple = ()  # names of [E, M, 2H] and [E, H, M] (or transposed), gate and up in halves
    stacked_out_in: bool = False
    parted: tuple = ()  # names of gate, up [E, H, M] and down [E, M, H]
    merged: tuple = ()  # names of w1, v1, w2 [E H, M]
    shared: str = ""
    shared_halves: tuple = ()  # names of [2H, M], gate and up in halves, and of down [M, H]
    bias_of_choice: str = ""
    bias_is_row: bool = False
    sinks: str = ""
    gate_of_results: str = ""  # projection
    norms_behind: tuple = ()  # after the branches
    # Forms of the computation.
    tied: bool = False
    layer_norm: bool = False
    biased: tuple = ()  # names of the projections with a bias
    head_norm: str = ""  # head, all, plain
    norm_after: bool = False
    turned: int = 0  # columns of a head with positions, or 0 for all
    neighbours: bool = False
    scaling: dict = field(default_factory=dict)
    windows: tuple = ()
    own: dict = field(default_factory=dict)  # block: its values of other fields
    value: int = 0  # columns of a head's values, or 0 for those of its keys
    value_scale: float = 1
    gate_of_heads: bool = False
    opens: str = "sigmoid"  # or softplus, of the gate
    norm_offset: float = 0  # is added to the weights of norms
    chunks: tuple = ()
    without_positions: tuple = ()
    temperature: tuple = ()
    clip: float = 0
    score: str = "softmax"
    normalise: bool = False
    scale: float = 1
    groups: tuple = (1, 1)
    inner: int = 0
    dense_inner: int = 0
    shared_inner: int = 0
    count: int = 0  # experts
    k: int = 0
    sparse: tuple = ()  # blocks with experts
    weigh_inputs: bool = False
    product_scale: float = 0
    embedding_scale: float = 1
    branch_scale: float = 1
    logits_divisor: float = 1


def of(c, **more):
    """A form with the values that most configurations share."""
    own = dict(hidden=c["hidden_size"], blocks=c["num_hidden_layers"], vocabulary=c["vocab_size"],
               heads=c["num_attention_heads"], key_heads=c["num_key_value_heads"], head=models.head_size(c),
               eps=c["rms_norm_eps"], theta=c.get("rope_theta", 0), tied=c.get("tie_word_embeddings", False),
               dense_inner=c.get("intermediate_size", 0))
    return Form(**{**own, **more})


ALL = ("q", "k", "v", "o")


def llama(c):
    return of(c, biased=ALL if c.get("attention_bias") else (), scaling=c.get("rope_scaling") or {})


def mistral(c):
    return of(c, windows=(c.get("sliding_window") or 0,) * c["num_hidden_layers"])


def qwen2(c):
    return of(c, biased=("q", "k", "v"))


def qwen3(c):
    return of(c, biased=ALL if c["attention_bias"] else (), head_norm="head")


def deepseek_routing(c):
    """DeepSeek-V3's routing, with shared experts and dense blocks before the others."""
    return dict(score="sigmoid", normalise=c["norm_topk_prob"], scale=c["routed_scaling_factor"],
                groups=(c["n_group"], c["topk_group"]), bias_of_choice="mlp.gate.e_score_correction_bias",
                count=c["n_routed_experts"], k=c["num_experts_per_tok"], inner=c["moe_intermediate_size"],
                shared="mlp.shared_experts.", shared_inner=c["n_shared_experts"] * c["moe_intermediate_size"],
                sparse=tuple(range(c.get("first_k_dense_replace", 0), c["num_hidden_layers"])))


def deepseek_v1(c):
    return of(c, biased=ALL if c["attention_bias"] else (), normalise=c["norm_topk_prob"], count=c["n_routed_experts"],
              k=c["num_experts_per_tok"], inner=c["moe_intermediate_size"], shared="mlp.shared_experts.",
              shared_inner=c["n_shared_experts"] * c["moe_intermediate_size"],
              sparse=tuple(range(c["first_k_dense_replace"], c["num_hidden_layers"])))


def bailing(c):
    """Ling 2, after modeling_bailing_moe_v2.py, and Sarvam, which is transformers' GLM with other names."""
    biased = (("q", "k", "v") if c["use_qkv_bias"] else ()) + (("o",) if c["use_bias"] else ())
    return of(c, attention="attention.", packed="query_key_value", projections=("", "", "", "dense"), biased=biased,
              head_norm="head" if c["use_qk_norm"] else "", head_norms=("query_layernorm", "key_layernorm"),
              turned=int(c["head_dim"] * c.get("partial_rotary_factor", 1)), embedding="model.word_embeddings.weight",
              score="sigmoid", normalise=c["norm_topk_prob"], scale=c["routed_scaling_factor"], groups=(c["n_group"], c["topk_group"]),
              bias_of_choice="mlp.gate.expert_bias", count=c["num_experts"], k=c["num_experts_per_tok"],
              inner=c["moe_intermediate_size"], shared="mlp.shared_experts.",
              shared_inner=c["num_shared_experts"] * c["moe_intermediate_size"],
              sparse=tuple(range(c["first_k_dense_replace"], c["num_hidden_layers"])))


def dots(c):
    first = c.get("max_window_layers", c["num_hidden_layers"])
    windows = tuple((c["sliding_window"] or 0) if i >= first else 0 for i in range(c["num_hidden_layers"]))
    return of(c, head_norm="head", biased=ALL if c["attention_bias"] else (), windows=windows, **deepseek_routing(c))


def glm(c):
    return of(c, head_norm="head" if c["use_qk_norm"] else "", biased=("q", "k", "v") if c["attention_bias"] else (),
              turned=int(models.head_size(c) * c.get("partial_rotary_factor", 0.5)), **deepseek_routing(c))


def glm_text(c):
    p = "model.language_model."
    return replace(glm({**c["text_config"], "use_qk_norm": False}), tied=c["tie_word_embeddings"], block=p + "layers.{}.",
                   embedding=p + "embed_tokens.weight", final_norm=p + "norm.weight")


def solar(c):
    return of(c, biased=("q", "k", "v") if c["attention_bias"] else (), **deepseek_routing(c))


def minimax(c):
    return of(c, head_norm="all", turned=c["rotary_dim"], score="sigmoid", normalise=True, count=c["num_local_experts"],
              k=c["num_experts_per_tok"], inner=c["intermediate_size"], sparse=tuple(range(c["num_hidden_layers"])),
              gate="block_sparse_moe.gate.weight", experts="block_sparse_moe.experts.{}.", expert_names=("w1", "w3", "w2"),
              bias_of_choice="block_sparse_moe.e_score_correction_bias")


def ernie(c):
    last = c["num_hidden_layers"] - 1 if c["moe_layer_end_index"] == -1 else c["moe_layer_end_index"]
    sparse = tuple(i for i in range(c["moe_layer_start_index"], last + 1) if (i + 1) % c["moe_layer_interval"] == 0)
    return of(c, neighbours=True, normalise=True, count=c["moe_num_experts"], k=c["moe_k"], inner=c["moe_intermediate_size"],
              sparse=sparse, shared="mlp.shared_experts.",
              shared_inner=c["moe_num_shared_experts"] * c["moe_intermediate_size"],
              bias_of_choice="mlp.moe_statics.e_score_correction_bias", bias_is_row=True)


def hunyuan(c):
    head, scaling = models.head_size(c), c["rope_scaling"]
    k = c["moe_topk"] if isinstance(c["moe_topk"], int) else c["moe_topk"][0]
    return of(c, theta=c["rope_theta"] * scaling["alpha"] ** (head / (head - 2)), head_norm="head", norm_after=True,
              head_norms=("query_layernorm", "key_layernorm"), biased=ALL if c["attention_bias"] else (), normalise=True,
              count=c["num_experts"], k=k, inner=c["intermediate_size"], sparse=tuple(range(c["num_hidden_layers"])),
              gate="mlp.gate.wg.weight", shared="mlp.shared_mlp.", shared_inner=c["intermediate_size"])


def hunyuan_v3(c):
    return of(c, head_norm="head", biased=ALL if c["attention_bias"] else (), score="sigmoid", normalise=True,
              scale=c["router_scaling_factor"], bias_of_choice="mlp.expert_bias", count=c["num_experts"], k=c["num_experts_per_tok"],
              inner=c["moe_intermediate_size"], gate="mlp.router.gate.weight", shared="mlp.shared_mlp.",
              shared_inner=c["num_shared_experts"] * c["moe_intermediate_size"],
              sparse=tuple(i for i, kind in enumerate(c["mlp_layer_types"]) if kind == "sparse"))


def granite(c):
    return of(c, biased=ALL if c["attention_bias"] else (), normalise=True, count=c["num_local_experts"],
              k=c["num_experts_per_tok"], inner=c["intermediate_size"], sparse=tuple(range(c["num_hidden_layers"])),
              gate="block_sparse_moe.router.layer.weight", stacked_out_in=True,
              stacked=("block_sparse_moe.input_linear.weight", "block_sparse_moe.output_linear.weight"),
              shared_inner=c.get("shared_intermediate_size", 0),
              shared_halves=("shared_mlp.input_linear.weight", "shared_mlp.output_linear.weight"), product_scale=c["attention_multiplier"], embedding_scale=c["embedding_multiplier"],
              branch_scale=c["residual_multiplier"], logits_divisor=c["logits_scaling"])


def llama4(c):
    whole, c = c, c.get("text_config", c)
    step, blocks = c["interleave_moe_layer_step"], c["num_hidden_layers"]
    turned = c["no_rope_layers"]
    nested = "language_model." if c is not whole else ""
    return of(c, tied=False, block=nested + "model.layers.{}.", embedding=nested + "model.embed_tokens.weight",
              final_norm=nested + "model.norm.weight", lm_head=nested + "lm_head.weight", neighbours=True,
              head_norm="plain" if c["use_qk_norm"] else "", norm_after=True,
              without_positions=tuple(i for i in range(blocks) if not turned[i]),
              chunks=tuple(c["attention_chunk_size"] if turned[i] else 0 for i in range(blocks)),
              temperature=(c["attn_scale"], c["floor_scale"]) if c["attn_temperature_tuning"] else (),
              scaling=c.get("rope_scaling") or {}, score="sigmoid", weigh_inputs=True, count=c["num_local_experts"],
              k=c["num_experts_per_tok"], inner=c["intermediate_size"], dense_inner=c["intermediate_size_mlp"],
              shared="feed_forward.shared_expert.", shared_inner=c["intermediate_size"],
              sparse=tuple(range(step - 1, blocks, step)), dense="feed_forward.", gate="feed_forward.router.weight",
              stacked=("feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"))


def qwen3_vl(c):
    t = c["text_config"]
    p = "model.language_model."
    sparse = tuple(i for i in range(t["num_hidden_layers"]) if i not in t["mlp_only_layers"] and (i + 1) % t["decoder_sparse_step"] == 0)
    return of(t, tied=c["tie_word_embeddings"], block=p + "layers.{}.", embedding=p + "embed_tokens.weight",
              final_norm=p + "norm.weight", head_norm="head", biased=ALL if t["attention_bias"] else (), normalise=True,
              count=t["num_experts"], k=t["num_experts_per_tok"], inner=t["moe_intermediate_size"], sparse=sparse,
              stacked=("mlp.experts.gate_up_proj", "mlp.experts.down_proj"))


def dbrx(c):
    a, f = c["attn_config"], c["ffn_config"]
    return Form(hidden=c["d_model"], blocks=c["n_layers"], vocabulary=c["vocab_size"], heads=c["n_heads"],
                key_heads=a["kv_n_heads"], head=c["d_model"] // c["n_heads"], eps=1e-5, theta=a["rope_theta"],
                block="transformer.blocks.{}.", embedding="transformer.wte.weight", final_norm="transformer.norm_f.weight",
                norms=("norm_attn_norm.norm_1", "norm_attn_norm.norm_2"), attention="norm_attn_norm.attn.",
                projections=("", "", "", "out_proj"), packed="Wqkv", layer_norm=True, clip=a["clip_qkv"] or 0,
                normalise=f.get("moe_normalize_expert_weights", 1) == 1, count=f["moe_num_experts"], k=f["moe_top_k"],
                inner=f["ffn_hidden_size"], sparse=tuple(range(c["n_layers"])), gate="ffn.router.layer.weight",
                merged=("ffn.experts.mlp.w1", "ffn.experts.mlp.v1", "ffn.experts.mlp.w2"))


def of_windows(types, **more):
    """Values of the fields `more` for the blocks with windows."""
    return {i: more for i, kind in enumerate(types) if kind == "sliding_attention"}


def windows_of(c):
    return tuple(c["sliding_window"] if kind == "sliding_attention" else 0 for kind in c["layer_types"])


def sparse_of(c):
    return tuple(i for i, kind in enumerate(c["mlp_layer_types"]) if kind == "sparse")


def mimo(c):
    """The keys are those of transformers, or the published ones."""
    kinds = ("full_attention", "sliding_attention")
    types = c.get("layer_types") or [kinds[slides] for slides in c["hybrid_layer_pattern"]]
    rope = c.get("rope_parameters") or {kind: {"rope_theta": c[key], "partial_rotary_factor": c["partial_rotary_factor"]}
                                        for kind, key in zip(kinds, ("rope_theta", "swa_rope_theta"))}
    window = c["sliding_window_size"] + 1 if "sliding_window_size" in c else c["sliding_window"]
    sparse = sparse_of(c) if "mlp_layer_types" in c else tuple(i for i, is_sparse in enumerate(c["moe_layer_freq"]) if is_sparse)
    full, windowed = (rope[kind] for kind in kinds)
    turned = lambda rope: int(c["head_dim"] * rope["partial_rotary_factor"])
    own = of_windows(types, key_heads=2 * c["num_key_value_heads"], theta=windowed["rope_theta"], turned=turned(windowed),
                     sinks="self_attn.attention_sink_bias")
    return of({**c, "rms_norm_eps": c.get("rms_norm_eps") or c["layernorm_epsilon"]}, theta=full["rope_theta"], turned=turned(full),
              own=own, windows=tuple(window if kind == "sliding_attention" else 0 for kind in types), value=c["v_head_dim"],
              value_scale=c["attention_value_scale"], biased=("q", "k", "v") if c["attention_bias"] else (), score="sigmoid",
              normalise=c["norm_topk_prob"], scale=c["routed_scaling_factor"] or 1, groups=(c["n_group"], c["topk_group"]),
              bias_of_choice="mlp.gate.e_score_correction_bias", count=c["n_routed_experts"], k=c["num_experts_per_tok"],
              inner=c["moe_intermediate_size"], sparse=sparse)


def laguna(c):
    rope = c["rope_parameters"]
    own = {}
    for i, (kind, heads) in enumerate(zip(c["layer_types"], c["num_attention_heads_per_layer"])):
        own[i] = dict(heads=heads, theta=rope[kind]["rope_theta"], turned=int(c["head_dim"] * rope[kind]["partial_rotary_factor"]))
    return of(c, theta=0, own=own, windows=windows_of(c), head_norm="head", biased=ALL if c["attention_bias"] else (),
              gate_of_results="g_proj", gate_of_heads=True, opens="softplus", score="sigmoid", normalise=True, scale=c["moe_routed_scaling_factor"],
              bias_of_choice="mlp.experts.e_score_correction_bias", count=c["num_experts"], k=c["num_experts_per_tok"],
              inner=c["moe_intermediate_size"], shared="mlp.shared_expert.", shared_inner=c["shared_expert_intermediate_size"],
              sparse=sparse_of(c))


def afmoe(c):
    plain = tuple(i for i, kind in enumerate(c["layer_types"]) if kind == "full_attention")
    return of(c, norms=("input_layernorm", "pre_mlp_layernorm"), norms_behind=("post_attention_layernorm", "post_mlp_layernorm"),
              embedding_scale=math.sqrt(c["hidden_size"]) if c["mup_enabled"] else 1, head_norm="head", without_positions=plain,
              windows=windows_of(c), biased=ALL if c["attention_bias"] else (), gate_of_results="gate_proj", gate="mlp.router.gate.weight",
              score="sigmoid", normalise=True, scale=c["route_scale"], bias_of_choice="mlp.expert_bias", count=c["num_experts"],
              k=c["num_experts_per_tok"], inner=c["moe_intermediate_size"], shared="mlp.shared_experts.",
              shared_inner=c["num_shared_experts"] * c["moe_intermediate_size"],
              sparse=tuple(range(c["num_dense_layers"], c["num_hidden_layers"])))


def exaone(c):
    plain = tuple(i for i, kind in enumerate(c["layer_types"]) if kind == "full_attention")
    return of(c, head_norm="head", without_positions=plain, windows=windows_of(c), score="sigmoid", normalise=c["norm_topk_prob"],
              scale=c["routed_scaling_factor"], groups=(c["n_group"], c["topk_group"]), bias_of_choice="mlp.e_score_correction_bias",
              count=c["num_experts"], k=c["num_experts_per_tok"], inner=c["moe_intermediate_size"], shared="mlp.shared_experts.",
              shared_inner=c["num_shared_experts"] * c["moe_intermediate_size"], sparse=sparse_of(c))


def step(c):
    c = c["text_config"]
    rope = c["rope_parameters"]
    turned = {kind: int(c["head_dim"] * rope[kind]["partial_rotary_factor"]) for kind in rope}
    own = of_windows(c["layer_types"], heads=c["num_sliding_attention_heads"], theta=rope["sliding_attention"]["rope_theta"],
                     turned=turned["sliding_attention"])
    return of(c, theta=rope["full_attention"]["rope_theta"], turned=turned["full_attention"], own=own, windows=windows_of(c),
              norm_offset=1, head_norm="head", biased=ALL if c["attention_bias"] else (), gate_of_results="g_proj", gate_of_heads=True,
              score="sigmoid", normalise=True, scale=c["moe_router_scaling_factor"], bias_of_choice="moe.router_bias",
              gate="moe.gate.weight", parted=("moe.gate_proj.weight", "moe.up_proj.weight", "moe.down_proj.weight"),
              count=c["n_routed_experts"], k=c["num_experts_per_tok"], inner=c["moe_intermediate_size"], shared="share_expert.",
              shared_inner=c["share_expert_dim"], sparse=sparse_of(c))


def flex_olmo(c):
    return of(c, norms=(), norms_behind=("post_attention_layernorm", "post_feedforward_layernorm"), head_norm="all",
              biased=ALL if c["attention_bias"] else (), normalise=c["norm_topk_prob"], count=c["num_experts"],
              k=c["num_experts_per_tok"], inner=c["intermediate_size"], sparse=tuple(range(c["num_hidden_layers"])))


FAMILIES = {
    "MiMoV2FlashForCausalLM": mimo, "LagunaForCausalLM": laguna, "AfmoeForCausalLM": afmoe, "ExaoneMoEForCausalLM": exaone,
    "ExaoneMoeForCausalLM": exaone, "FlexOlmoForCausalLM": flex_olmo, "Step3p7ForConditionalGeneration": step,
    "LlamaForCausalLM": llama, "MistralForCausalLM": mistral, "Qwen2ForCausalLM": qwen2, "Qwen3ForCausalLM": qwen3,
    "DeepseekForCausalLM": deepseek_v1, "BailingMoeV2ForCausalLM": bailing, "SarvamMoEForCausalLM": bailing,
    "Dots1ForCausalLM": dots, "Glm4MoeForCausalLM": glm, "SolarOpenForCausalLM": solar, "MiniMaxM2ForCausalLM": minimax,
    "Ernie4_5_MoeForCausalLM": ernie, "HunYuanMoEV1ForCausalLM": hunyuan, "HYV3ForCausalLM": hunyuan_v3,
    "GraniteMoeForCausalLM": granite, "GraniteMoeSharedForCausalLM": granite, "Glm4vMoeForConditionalGeneration": glm_text,
    "Llama4ForCausalLM": llama4, "Llama4ForConditionalGeneration": llama4, "Qwen3VLMoeForConditionalGeneration": qwen3_vl, "DbrxForCausalLM": dbrx,
}


# Positions


def frequencies(f):
    columns = f.turned or f.head
    turns = f.theta ** -(np.arange(0, columns, 2) / columns)
    if not f.scaling:
        return turns
    assert f.scaling["rope_type"] == "llama3"
    low, high, length = f.scaling["low_freq_factor"], f.scaling["high_freq_factor"], f.scaling["original_max_position_embeddings"]
    waves = 2 * math.pi / turns
    part = np.clip((length / waves - low) / (high - low), 0, 1)
    return (1 - part) * turns / f.scaling["factor"] + part * turns


def turn(f, x):
    """Turns x [length, heads, head]."""
    angles = np.outer(np.arange(len(x)), frequencies(f))
    columns = f.turned or f.head
    tables = [np.concatenate([table(angles)] * 2, axis=1) for table in (np.cos, np.sin)]
    rotate = models.rotate_neighbours if f.neighbours else models.rotate
    return np.concatenate([rotate(x[..., :columns], tables), x[..., columns:]], axis=-1)


# The block


def norm(f, t, name, x):
    if f.layer_norm:
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + f.eps) * t[name]
    return models.rms_norm(x, t[name] + f.norm_offset, f.eps)


def project(f, t, p, x):
    if f.packed:
        made = models.linear(t, p + f.packed, x)
        parts = np.split(made, np.cumsum([f.heads * f.head, f.key_heads * f.head]), axis=1)
    else:
        parts = [models.linear(t, p + name, x) for name in f.projections[:3]]
    return [np.clip(a, -f.clip, f.clip) if f.clip else a for a in parts]


def norm_heads(f, t, p, a, which, block):
    if not f.head_norm or (f.head_norm == "plain" and block in f.without_positions):
        return a
    gamma = 1 if f.head_norm == "plain" else t[f"{p}{f.head_norms[which]}.weight"] + f.norm_offset
    if f.head_norm == "all":
        return models.rms_norm(a.reshape(len(a), -1), gamma, f.eps).reshape(a.shape)
    return models.rms_norm(a, gamma, f.eps)


def queries(f, t, p, a, which, block):
    """Queries of one sequence, with norms and positions in the family's order."""
    if not f.norm_after:
        a = norm_heads(f, t, p, a, which, block)
    if block not in f.without_positions:
        a = turn(f, a)
    elif f.temperature and which == 0:
        scale, span = f.temperature
        a = a * (1 + scale * np.log1p(np.floor((np.arange(len(a)) + 1) / span)))[:, None, None]
    return norm_heads(f, t, p, a, which, block) if f.norm_after else a


def attend(f, t, block, x, length):
    p = f.block.format(block) + f.attention
    f = replace(f, **f.own.get(block, {}))
    q, k, v = project(f, t, p, x)
    q, k, v = (a.reshape(len(x), heads, -1) for a, heads in ((q, f.heads), (k, f.key_heads), (f.value_scale * v, f.key_heads)))
    out = []
    for s in range(0, len(x), length):
        a, b = queries(f, t, p, q[s : s + length], 0, block), queries(f, t, p, k[s : s + length], 1, block)
        step = (f.chunks[block] if f.chunks else 0) or length
        for r in range(0, length, step):
            e = min(r + step, length)
            out.append(models.attention(a[r:e], b[r:e], v[s + r : s + e], True, f.windows[block] if f.windows else 0,
                                        sinks=t[f.block.format(block) + f.sinks] if f.sinks else None, scale=f.product_scale or None))
    out = np.concatenate(out)
    if f.gate_of_results:
        logits = models.linear(t, p + f.gate_of_results, x)
        factors = sigmoid(logits) if f.opens == "sigmoid" else np.logaddexp(logits, 0)
        out = out * np.repeat(factors, out.shape[1] // factors.shape[1], axis=1)
    return models.linear(t, p + f.projections[3], out)


def expert_of(f, t, p, e):
    """(gate, up, down), each [in, out]."""
    if f.stacked:
        both, down = t[p + f.stacked[0]][e], t[p + f.stacked[1]][e]
        # transformers saves Qwen3-VL's matrices transposed against the published ones.
        both, down = (both.T, down.T) if f.stacked_out_in or len(both) != f.hidden else (both, down)
        return both[:, : f.inner], both[:, f.inner :], down
    if f.parted:
        return tuple(t[p + name][e].T for name in f.parted)
    if f.merged:
        rows = slice(e * f.inner, (e + 1) * f.inner)
        return t[p + f.merged[0]][rows].T, t[p + f.merged[1]][rows].T, t[p + f.merged[2]][rows]
    return tuple(t[f"{p}{f.experts.format(e)}{name}.weight"].T for name in f.expert_names)


def experts(f, t, p, x):
    logits = x @ t[p + f.gate].T
    scores = sigmoid(logits) if f.score == "sigmoid" else models.softmax(logits)
    order = scores + (t[p + f.bias_of_choice].reshape(-1) if f.bias_of_choice else 0)
    groups, kept = f.groups
    if groups > 1:
        order = order.reshape(len(x), groups, -1).copy()
        best = np.sort(order, axis=2)[..., -2:].sum(axis=2)
        for row, group in zip(order, np.argsort(-best, axis=1, kind="stable")):
            row[group[kept:]] = -np.inf
        order = order.reshape(scores.shape)
    choices = models.choose(scores, f.k, f.normalise, order=order)

    def expert(e, row):
        gate, up, down = expert_of(f, t, p, e)
        return (models.silu(row @ gate) * (row @ up)) @ down

    if f.weigh_inputs:
        y = np.array([sum(expert(e, weight * row) for e, weight in chosen) for row, chosen in zip(x, choices)])
    else:
        y = f.scale * models.mixture(x, choices, expert)
    if f.shared_halves and f.shared_inner:
        both = x @ t[p + f.shared_halves[0]].T
        return y + (models.silu(both[:, : f.shared_inner]) * both[:, f.shared_inner :]) @ t[p + f.shared_halves[1]].T
    return y + models.swiglu(t, p + f.shared, x) if f.shared_inner else y


def logits(c, t, tokens):
    f = FAMILIES[c["architectures"][0]](c)
    x = t[f.embedding][tokens.reshape(-1)] * f.embedding_scale
    for i in range(f.blocks):
        p = f.block.format(i)
        norm_at = lambda names, branch, a: norm(f, t, f"{p}{names[branch]}.weight", a) if names else a
        feed = lambda a: experts(f, t, p, a) if i in f.sparse else models.swiglu(t, p + f.dense, a)
        for branch, compute in enumerate((lambda a: attend(f, t, i, a, tokens.shape[1]), feed)):
            x = x + f.branch_scale * norm_at(f.norms_behind, branch, compute(norm_at(f.norms, branch, x)))
    x = norm(f, t, f.final_norm, x)
    return x @ t[f.embedding if f.tied else f.lm_head].T / f.logits_divisor


def attention_shapes(f, p):
    q, k, m = f.heads * f.head, f.key_heads * f.head, f.hidden
    v, results = f.key_heads * (f.value or f.head), f.heads * (f.value or f.head)
    if f.packed:
        made = [("q", f.packed, q + 2 * k, m), ("o", f.projections[3], m, q)]
    else:
        made = zip(ALL, f.projections, (q, k, v, m), (m, m, m, results))
    shapes = {}
    for which, name, out, into in made:
        shapes[f"{p}{name}.weight"] = (out, into)
        if which in f.biased:
            shapes[f"{p}{name}.bias"] = (out,)
    sizes = {"head": (f.head, f.head), "all": (q, k)}.get(f.head_norm, ())
    shapes.update({f"{p}{name}.weight": (size,) for name, size in zip(f.head_norms, sizes)})
    if f.gate_of_results:
        shapes[f"{p}{f.gate_of_results}.weight"] = (f.heads if f.gate_of_heads else results, m)
    return shapes


def expert_shapes(f, p):
    m, h, e = f.hidden, f.inner, f.count
    shapes = {p + f.gate: (e, m)}
    if f.stacked:
        both, down = ((e, 2 * h, m), (e, m, h)) if f.stacked_out_in else ((e, m, 2 * h), (e, h, m))
        shapes.update({p + f.stacked[0]: both, p + f.stacked[1]: down})
    elif f.parted:
        shapes.update({p + name: (e, m, h) if name == f.parted[2] else (e, h, m) for name in f.parted})
    elif f.merged:
        shapes.update({p + name: (e * h, m) for name in f.merged})
    else:
        for i in range(e):
            shapes.update(models.gated_shapes(p + f.experts.format(i), m, h, f.expert_names))
    if f.shared_halves and f.shared_inner:
        shapes.update({p + f.shared_halves[0]: (2 * f.shared_inner, m), p + f.shared_halves[1]: (m, f.shared_inner)})
    elif f.shared_inner:
        shapes.update(models.gated_shapes(p + f.shared, m, f.shared_inner))
    if f.bias_of_choice:
        shapes[p + f.bias_of_choice] = (1, e) if f.bias_is_row else (e,)
    return shapes


def shapes(c):
    f = FAMILIES[c["architectures"][0]](c)
    shapes = {f.embedding: (f.vocabulary, f.hidden), f.final_norm: (f.hidden,)}
    if not f.tied:
        shapes[f.lm_head] = (f.vocabulary, f.hidden)
    for i in range(f.blocks):
        p = f.block.format(i)
        shapes.update({f"{p}{name}.weight": (f.hidden,) for name in (*f.norms, *f.norms_behind)})
        own = replace(f, **f.own.get(i, {}))
        shapes.update(attention_shapes(own, p + f.attention))
        if own.sinks:
            shapes[p + own.sinks] = (own.heads,)
        shapes.update(expert_shapes(f, p) if i in f.sparse else models.gated_shapes(p + f.dense, f.hidden, f.dense_inner))
    return shapes
