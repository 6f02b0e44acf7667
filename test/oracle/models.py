"""Whole models in plain numpy float64: the tensors of each family's published checkpoint, and the resulting logits.

Written from the models' papers and published code, independently of the importer. `shapes(config)` are the checkpoint's tensors,
`logits(config, tensors, tokens)` the model. Matrices are [out, in] as in PyTorch's Linear, except GPT-2's Conv1D [in, out] and gpt-oss'
stacks of experts.
"""

import math

import numpy as np

from oracle import erf, sigmoid

DEEPSEEK = ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM")
LLAMA = ("MixtralForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "OlmoeForCausalLM", "GptOssForCausalLM", *DEEPSEEK)
GPT2 = ("GPT2MoEForCausalLM", "GPT2LMHeadModel")
SWITCH = "SwitchTransformersForConditionalGeneration"


def family_of(config):
    return config["architectures"][0]


# Parts of models


def linear(t, name, x):
    y = x @ t[name + ".weight"].T
    return y + t[name + ".bias"] if name + ".bias" in t else y


def conv1d(t, name, x):
    return x @ t[name + ".weight"] + t[name + ".bias"]


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def layer_norm(t, name, x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps) * t[name + ".weight"] + t[name + ".bias"]


def softmax(a):
    a = np.exp(a - a.max(axis=-1, keepdims=True))
    return a / a.sum(axis=-1, keepdims=True)


def silu(a):
    return a * sigmoid(a)


def gelu(a):
    return 0.5 * a * (1.0 + erf(a / math.sqrt(2.0)))


def gelu_new(a):
    return 0.5 * a * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (a + 0.044715 * a**3)))


ACTIVATIONS = {"silu": silu, "gelu": gelu, "gelu_new": gelu_new}


def yarn_scale(factor, multiple=1.0):
    return 0.1 * multiple * math.log(factor) + 1 if factor > 1 else 1.0


def rotary_tables(config, head, length):
    """cos and sin [length, head]. The pairs are the two halves of the columns."""
    base = config["rope_theta"]
    turns = base ** -(np.arange(0, head, 2) / head)
    factor = 1.0
    scaling = config.get("rope_scaling")
    if scaling:
        assert scaling.get("rope_type", scaling.get("type")) == "yarn"
        limit = scaling["original_max_position_embeddings"]
        place = lambda rotations: head * math.log(limit / (rotations * 2 * math.pi)) / (2 * math.log(base))
        low, high = place(scaling["beta_fast"]), place(scaling["beta_slow"])
        if scaling.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, head - 1)
        ramp = np.clip((np.arange(head // 2) - low) / (high - low), 0, 1)
        turns = turns / scaling["factor"] * ramp + turns * (1 - ramp)
        factor = yarn_scale(scaling["factor"])
        if scaling.get("mscale") and scaling.get("mscale_all_dim"):
            factor = yarn_scale(scaling["factor"], scaling["mscale"]) / yarn_scale(scaling["factor"], scaling["mscale_all_dim"])
    angles = np.outer(np.arange(length), np.concatenate([turns, turns]))
    return np.cos(angles) * factor, np.sin(angles) * factor


def rotate(x, tables):
    """Rotates x [length, heads, head]."""
    cos, sin = (table[:, None, :] for table in tables)
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], axis=-1) * sin


def rotate_neighbours(x, tables):
    """Rotates neighbouring pairs of x [length, heads, head]."""
    half = x.shape[-1] // 2
    cos, sin = (table[:, None, :half] for table in tables)
    a, b = x[..., ::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)


def attention(q, k, v, causal, window=0, sinks=None, scale=None, bias=None):
    """Attention of one sequence: q [L, H, D], k [L, n, D], v [L, n, Dv] to [L, H Dv]. H / n query heads share a key head."""
    length, heads, head = q.shape
    scale = 1 / math.sqrt(head) if scale is None else scale
    out = np.zeros((length, heads, v.shape[2]))
    ahead = np.arange(length)[None, :] - np.arange(length)[:, None]
    hidden = (ahead > 0) if causal else np.zeros((length, length), dtype=bool)
    if window:
        hidden |= ahead <= -window
    for h in range(heads):
        shared = h * k.shape[1] // heads
        scores = scale * (q[:, h] @ k[:, shared].T) + (0 if bias is None else bias[h])
        scores[hidden] = -np.inf
        if sinks is not None:
            scores = np.concatenate([scores, np.full((length, 1), sinks[h])], axis=1)
        out[:, h] = softmax(scores)[:, :length] @ v[:, shared]
    return out.reshape(length, -1)


def choose(scores, k, renormalize, capacity=None, groups=1, order=None):
    """A list of (expert, weight) for each token. An expert takes at most `capacity(tokens)` choices of a group of tokens. The best
    experts have the largest `order`, or without it the largest scores."""
    chosen = np.argsort(-(scores if order is None else order), axis=1, kind="stable")[:, :k]
    weights = np.take_along_axis(scores, chosen, axis=1)
    if renormalize:
        weights = weights / weights.sum(axis=1, keepdims=True)
    kept = [[] for _ in scores]
    block = len(scores) // groups
    for g in range(groups):
        taken = np.zeros(scores.shape[1], dtype=int)
        for j in range(k):
            for s in range(g * block, (g + 1) * block):
                taken[chosen[s, j]] += 1
                if capacity is None or taken[chosen[s, j]] <= capacity(block):
                    kept[s].append((chosen[s, j], weights[s, j]))
    return kept


def mixture(x, choices, expert):
    return np.array([sum((weight * expert(e, row) for e, weight in chosen), np.zeros_like(row))
                     for row, chosen in zip(x, choices)])


# Llama's block with experts


def swiglu(t, prefix, x, gate="gate_proj", up="up_proj", down="down_proj"):
    return linear(t, prefix + down, silu(linear(t, prefix + gate, x)) * linear(t, prefix + up, x))


def head_size(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def is_sparse(c, i):
    if family_of(c) in DEEPSEEK:
        return i >= c["first_k_dense_replace"] and i % c["moe_layer_freq"] == 0
    return i not in c.get("mlp_only_layers", []) and (i + 1) % c.get("decoder_sparse_step", 1) == 0


def window_of(c, i):
    if family_of(c) == "GptOssForCausalLM":
        return c["sliding_window"] if c["layer_types"][i] == "sliding_attention" else 0
    return (c.get("sliding_window") or 0) if family_of(c) == "MixtralForCausalLM" else 0


def llama_attention(c, t, i, x, length):
    p, head, family = f"model.layers.{i}.self_attn.", head_size(c), family_of(c)
    q, k, v = (linear(t, f"{p}{which}_proj", x) for which in "qkv")
    if family == "OlmoeForCausalLM":
        q, k = (rms_norm(a, t[f"{p}{which}_norm.weight"], c["rms_norm_eps"]) for a, which in ((q, "q"), (k, "k")))
        if c.get("clip_qkv"):
            q, k, v = (np.clip(a, -c["clip_qkv"], c["clip_qkv"]) for a in (q, k, v))
    q, k, v = (a.reshape(len(x), -1, head) for a in (q, k, v))
    if family == "Qwen3MoeForCausalLM":
        q, k = (rms_norm(a, t[f"{p}{which}_norm.weight"], c["rms_norm_eps"]) for a, which in ((q, "q"), (k, "k")))
    tables = rotary_tables(c, head, length)
    sequences = [attention(rotate(q[s : s + length], tables), rotate(k[s : s + length], tables), v[s : s + length], True,
                           window_of(c, i), t.get(p + "sinks")) for s in range(0, len(x), length)]
    return linear(t, p + "o_proj", np.concatenate(sequences))


def latent_attention(c, t, i, x, length):
    """DeepSeek-V2's attention: keys and values of all heads come from one vector of a token, and all keys end with the same columns."""
    p, heads = f"model.layers.{i}.self_attn.", c["num_attention_heads"]
    plain, rank = c["qk_nope_head_dim"], c["kv_lora_rank"]
    norm = lambda name, a: rms_norm(a, t[f"{p}{name}.weight"], 1e-6)
    if c["q_lora_rank"]:
        q = linear(t, p + "q_b_proj", norm("q_a_layernorm", linear(t, p + "q_a_proj", x)))
    else:
        q = linear(t, p + "q_proj", x)
    q = q.reshape(len(x), heads, -1)
    made = linear(t, p + "kv_a_proj_with_mqa", x)
    kv = linear(t, p + "kv_b_proj", norm("kv_a_layernorm", made[:, :rank])).reshape(len(x), heads, -1)
    scaling = c.get("rope_scaling") or {}
    scale = yarn_scale(scaling.get("factor", 1), scaling.get("mscale_all_dim", 0)) ** 2 / math.sqrt(q.shape[2])
    tables = rotary_tables(c, c["qk_rope_head_dim"], length)
    turn = rotate_neighbours if c.get("rope_interleave", True) else rotate
    out = []
    for s in range(0, len(x), length):
        a, b, shared = q[s : s + length], kv[s : s + length], turn(made[s : s + length, None, rank:], tables)
        keys = np.concatenate([b[..., :plain], np.repeat(shared, heads, axis=1)], axis=2)
        queries = np.concatenate([a[..., :plain], turn(a[..., plain:], tables)], axis=2)
        out.append(attention(queries, keys, b[..., plain:], True, scale=scale))
    return linear(t, p + "o_proj", np.concatenate(out))


def deepseek_experts(c, t, p, x):
    v3, k = family_of(c) == "DeepseekV3ForCausalLM", c["num_experts_per_tok"]
    logits = linear(t, p + "gate", x)
    scores = sigmoid(logits) if v3 else softmax(logits)
    order = scores + t[p + "gate.e_score_correction_bias"] if v3 else scores
    if v3 or c["topk_method"] == "group_limited_greedy":
        order = order.reshape(len(x), c["n_group"], -1).copy()
        best = np.sort(order, axis=2)[..., -2:].sum(axis=2) if v3 else order.max(axis=2)
        for row, group in zip(order, np.argsort(-best, axis=1, kind="stable")):
            row[group[c["topk_group"] :]] = -np.inf
        order = order.reshape(scores.shape)
    renormalize = c["norm_topk_prob"] and (v3 or k > 1)
    # V2 scales only weights that it does not renormalise.
    factor = c["routed_scaling_factor"] if v3 or not renormalize else 1.0
    choices = choose(scores, k, renormalize, order=order)
    y = factor * mixture(x, choices, lambda e, row: swiglu(t, f"{p}experts.{e}.", row))
    return y + swiglu(t, p + "shared_experts.", x) if c["n_shared_experts"] else y


def gpt_oss_experts(c, t, p, x):
    slope, limit = c.get("swiglu_alpha", 1.702), c.get("swiglu_limit", 7.0)

    def expert(e, row):
        a = row @ t[p + "experts.gate_up_proj"][e] + t[p + "experts.gate_up_proj_bias"][e]
        gate, up = np.minimum(a[::2], limit), np.clip(a[1::2], -limit, limit)
        return ((up + 1) * gate * sigmoid(slope * gate)) @ t[p + "experts.down_proj"][e] + t[p + "experts.down_proj_bias"][e]

    # The softmax covers only the chosen logits, which equals the whole softmax renormalised.
    return mixture(x, choose(softmax(linear(t, p + "router", x)), c["num_experts_per_tok"], True), expert)


def llama_feed_forward(c, t, i, x):
    p, family = f"model.layers.{i}.mlp.", family_of(c)
    if family == "GptOssForCausalLM":
        return gpt_oss_experts(c, t, p, x)
    if not is_sparse(c, i):
        return swiglu(t, p, x)
    if family in DEEPSEEK:
        return deepseek_experts(c, t, p, x)
    names = ("gate_proj", "up_proj", "down_proj")
    renormalize = c.get("norm_topk_prob", False)
    if family == "MixtralForCausalLM":
        p, names, renormalize = f"model.layers.{i}.block_sparse_moe.", ("w1", "w3", "w2"), True
    choices = choose(softmax(linear(t, p + "gate", x)), c["num_experts_per_tok"], renormalize)
    y = mixture(x, choices, lambda e, row: swiglu(t, f"{p}experts.{e}.", row, *names))
    if family == "Qwen2MoeForCausalLM":
        y += sigmoid(linear(t, p + "shared_expert_gate", x)) * swiglu(t, p + "shared_expert.", x)
    return y


def llama_logits(c, t, tokens):
    x, eps = t["model.embed_tokens.weight"][tokens.reshape(-1)], c["rms_norm_eps"]
    attend = latent_attention if family_of(c) in DEEPSEEK else llama_attention
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        x = x + attend(c, t, i, rms_norm(x, t[p + "input_layernorm.weight"], eps), tokens.shape[1])
        x = x + llama_feed_forward(c, t, i, rms_norm(x, t[p + "post_attention_layernorm.weight"], eps))
    x = rms_norm(x, t["model.norm.weight"], eps)
    return x @ t["model.embed_tokens.weight" if c.get("tie_word_embeddings") else "lm_head.weight"].T


def llama_expert_shapes(c, p):
    m, family = c["hidden_size"], family_of(c)
    if family == "GptOssForCausalLM":
        e, h = c["num_local_experts"], c["intermediate_size"]
        return {p + "mlp.router.weight": (e, m), p + "mlp.router.bias": (e,),
                p + "mlp.experts.gate_up_proj": (e, m, 2 * h), p + "mlp.experts.gate_up_proj_bias": (e, 2 * h),
                p + "mlp.experts.down_proj": (e, h, m), p + "mlp.experts.down_proj_bias": (e, m)}
    if family == "MixtralForCausalLM":
        e, h, p, names = c["num_local_experts"], c["intermediate_size"], p + "block_sparse_moe.", ("w1", "w3", "w2")
    elif family in DEEPSEEK:
        e, h, p, names = c["n_routed_experts"], c["moe_intermediate_size"], p + "mlp.", ("gate_proj", "up_proj", "down_proj")
    else:
        e, p, names = c["num_experts"], p + "mlp.", ("gate_proj", "up_proj", "down_proj")
        h = c["intermediate_size"] if family == "OlmoeForCausalLM" else c["moe_intermediate_size"]
    shapes = {p + "gate.weight": (e, m)}
    for i in range(e):
        shapes.update(gated_shapes(f"{p}experts.{i}.", m, h, names))
    if family == "Qwen2MoeForCausalLM":
        shapes.update(gated_shapes(p + "shared_expert.", m, c["shared_expert_intermediate_size"]))
        shapes[p + "shared_expert_gate.weight"] = (1, m)
    if family in DEEPSEEK and c["n_shared_experts"]:
        shapes.update(gated_shapes(p + "shared_experts.", m, c["n_shared_experts"] * h))
    if family == "DeepseekV3ForCausalLM":
        shapes[p + "gate.e_score_correction_bias"] = (e,)
    return shapes


def gated_shapes(prefix, m, h, names=("gate_proj", "up_proj", "down_proj")):
    gate, up, down = names
    return {f"{prefix}{gate}.weight": (h, m), f"{prefix}{up}.weight": (h, m), f"{prefix}{down}.weight": (m, h)}


def llama_attention_shapes(c, p):
    m, head, family = c["hidden_size"], head_size(c), family_of(c)
    q, k = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    shapes = {}
    for which, out, into in (("q", q, m), ("k", k, m), ("v", k, m), ("o", m, q)):
        shapes[f"{p}{which}_proj.weight"] = (out, into)
        if c.get("attention_bias") or (family == "Qwen2MoeForCausalLM" and which != "o"):
            shapes[f"{p}{which}_proj.bias"] = (out,)
    norms = {"OlmoeForCausalLM": (q, k), "Qwen3MoeForCausalLM": (head, head)}.get(family, ())
    shapes.update({f"{p}{which}_norm.weight": (size,) for which, size in zip("qk", norms)})
    if family == "GptOssForCausalLM":
        shapes[p + "sinks"] = (c["num_attention_heads"],)
    return shapes


def latent_attention_shapes(c, p):
    m, heads, rank, own = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"], c["q_lora_rank"]
    plain, turned, value = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    biased = {"kv_a_proj_with_mqa": (rank + turned, m), "o_proj": (m, heads * value)}
    shapes = {p + "kv_a_layernorm.weight": (rank,), p + "kv_b_proj.weight": (heads * (plain + value), rank)}
    if own:
        biased["q_a_proj"] = (own, m)
        shapes.update({p + "q_a_layernorm.weight": (own,), p + "q_b_proj.weight": (heads * (plain + turned), own)})
    else:
        shapes[p + "q_proj.weight"] = (heads * (plain + turned), m)
    for name, shape in biased.items():
        shapes[f"{p}{name}.weight"] = shape
        if c["attention_bias"]:
            shapes[f"{p}{name}.bias"] = shape[:1]
    return shapes


def llama_shapes(c):
    m, attention_shapes = c["hidden_size"], latent_attention_shapes if family_of(c) in DEEPSEEK else llama_attention_shapes
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], m), "model.norm.weight": (m,)}
    if not c.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = (c["vocab_size"], m)
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        shapes.update({p + "input_layernorm.weight": (m,), p + "post_attention_layernorm.weight": (m,)})
        shapes.update(attention_shapes(c, p + "self_attn."))
        sparse = is_sparse(c, i)
        shapes.update(llama_expert_shapes(c, p) if sparse else gated_shapes(p + "mlp.", m, c["intermediate_size"]))
    return shapes


# GPT-2 and BERT with experts in every `moe_every`-th block


def plain_experts(c, t, p, x, expert, groups):
    scores = softmax(x @ t[p + "gate.weight"].T)
    factor, k = c.get("expert_capacity_factor"), c["num_experts_per_tok"]
    capacity = factor and (lambda tokens: min(tokens, math.ceil(factor * k * tokens / c["num_experts"])))
    return mixture(x, choose(scores, k, c.get("norm_topk_prob", False), capacity, groups), expert)


def split_heads(x, heads):
    return x.reshape(len(x), heads, -1)


def gpt2_logits(c, t, tokens, groups):
    length, heads, eps = tokens.shape[1], c["n_head"], c["layer_norm_epsilon"]
    act = ACTIVATIONS[c["activation_function"]]
    x = t["transformer.wte.weight"][tokens] + t["transformer.wpe.weight"][:length]
    x = x.reshape(-1, c["n_embd"])
    for i in range(c["n_layer"]):
        p = f"transformer.h.{i}."
        qkv = conv1d(t, p + "attn.c_attn", layer_norm(t, p + "ln_1", x, eps))
        parts = [split_heads(a, heads) for a in np.split(qkv, 3, axis=1)]
        scale = 1 / math.sqrt(c["n_embd"] // heads) if c.get("scale_attn_weights", True) else 1.0
        scale /= i + 1 if c.get("scale_attn_by_inverse_layer_idx") else 1
        attended = [attention(*(a[s : s + length] for a in parts), True, scale=scale) for s in range(0, len(x), length)]
        x = x + conv1d(t, p + "attn.c_proj", np.concatenate(attended))
        inner = layer_norm(t, p + "ln_2", x, eps)
        block = lambda q, row: conv1d(t, q + "c_proj", act(conv1d(t, q + "c_fc", row)))
        if "moe_every" in c and (i + 1) % c["moe_every"] == 0:
            x = x + plain_experts(c, t, p + "mlp.", inner, lambda e, row: block(f"{p}mlp.experts.{e}.", row), groups)
        else:
            x = x + block(p + "mlp.", inner)
    return layer_norm(t, "transformer.ln_f", x, eps) @ t["transformer.wte.weight"].T


def gpt2_shapes(c):
    m, h = c["n_embd"], c.get("n_inner") or 4 * c["n_embd"]
    shapes = {"transformer.wte.weight": (c["vocab_size"], m), "transformer.wpe.weight": (c["n_positions"], m)}
    both = lambda name, shape: {name + ".weight": shape, name + ".bias": shape[-1:]}
    shapes.update(both("transformer.ln_f", (m,)))
    for i in range(c["n_layer"]):
        p = f"transformer.h.{i}."
        for name, shape in (("ln_1", (m,)), ("ln_2", (m,)), ("attn.c_attn", (m, 3 * m)), ("attn.c_proj", (m, m))):
            shapes.update(both(p + name, shape))
        block = lambda q: {**both(q + "c_fc", (m, h)), **both(q + "c_proj", (h, m))}
        if "moe_every" in c and (i + 1) % c["moe_every"] == 0:
            shapes[p + "mlp.gate.weight"] = (c["num_experts"], m)
            for e in range(c["num_experts"]):
                shapes.update(block(f"{p}mlp.experts.{e}."))
        else:
            shapes.update(block(p + "mlp."))
    return shapes


def bert_logits(c, t, tokens, groups):
    length, heads, eps = tokens.shape[1], c["num_attention_heads"], c["layer_norm_eps"]
    act, p = ACTIVATIONS[c["hidden_act"]], "bert.embeddings."
    x = (t[p + "word_embeddings.weight"][tokens] + t[p + "position_embeddings.weight"][:length]
         + t[p + "token_type_embeddings.weight"][0])
    x = layer_norm(t, p + "LayerNorm", x.reshape(-1, c["hidden_size"]), eps)
    for i in range(c["num_hidden_layers"]):
        p = f"bert.encoder.layer.{i}."
        parts = [split_heads(linear(t, f"{p}attention.self.{name}", x), heads) for name in ("query", "key", "value")]
        causal = c.get("is_decoder", False)
        attended = [attention(*(a[s : s + length] for a in parts), causal) for s in range(0, len(x), length)]
        x = layer_norm(t, p + "attention.output.LayerNorm",
                       x + linear(t, p + "attention.output.dense", np.concatenate(attended)), eps)
        block = lambda q, row: linear(t, q + "output.dense", act(linear(t, q + "intermediate.dense", row)))
        if (i + 1) % c["moe_every"] == 0:
            added = plain_experts(c, t, p + "moe.", x, lambda e, row: block(f"{p}moe.experts.{e}.", row), groups)
        else:
            added = block(p, x)
        x = layer_norm(t, p + "output.LayerNorm", x + added, eps)
    p = "cls.predictions."
    x = layer_norm(t, p + "transform.LayerNorm", act(linear(t, p + "transform.dense", x)), eps)
    return x @ t["bert.embeddings.word_embeddings.weight"].T + t[p + "bias"]


def bert_shapes(c):
    m, h, p = c["hidden_size"], c["intermediate_size"], "bert.embeddings."
    shapes = {p + "word_embeddings.weight": (c["vocab_size"], m),
              p + "position_embeddings.weight": (c["max_position_embeddings"], m),
              p + "token_type_embeddings.weight": (c["type_vocab_size"], m)}
    both = lambda name, shape: {name + ".weight": shape, name + ".bias": shape[:1]}
    shapes.update(both(p + "LayerNorm", (m,)))
    for i in range(c["num_hidden_layers"]):
        p = f"bert.encoder.layer.{i}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes.update(both(p + name, (m, m)))
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes.update(both(p + name, (m,)))
        block = lambda q: {**both(q + "intermediate.dense", (h, m)), **both(q + "output.dense", (m, h))}
        if (i + 1) % c["moe_every"] == 0:
            shapes[p + "moe.gate.weight"] = (c["num_experts"], m)
            for e in range(c["num_experts"]):
                shapes.update(block(f"{p}moe.experts.{e}."))
        else:
            shapes.update(block(p))
    p = "cls.predictions."
    return {**shapes, **both(p + "transform.dense", (m, m)), **both(p + "transform.LayerNorm", (m,)),
            p + "bias": (c["vocab_size"],)}


# Switch: T5 with experts


def relative_bias(c, table, length, bidirectional):
    """[heads, length, length] of a table [buckets, heads], as the paper's authors count the buckets."""
    bias = np.zeros((table.shape[1], length, length))
    for i in range(length):
        for j in range(length):
            buckets, bucket, distance = len(table), 0, i - j
            if bidirectional:
                buckets //= 2
                bucket, distance = (buckets if j > i else 0), abs(distance)
            distance = max(distance, 0)
            exact = buckets // 2
            if distance >= exact:
                ratio = math.log(distance / exact) / math.log(c["relative_attention_max_distance"] / exact)
                distance = min(buckets - 1, exact + int(ratio * (buckets - exact)))
            bias[:, i, j] = table[bucket + distance]
    return bias


def switch_attention(c, t, p, x, memory, length, bias, causal):
    heads = c["num_heads"]
    q, k, v = (split_heads(linear(t, p + which, a), heads) for which, a in (("q", x), ("k", memory), ("v", memory)))
    rows = [slice(s, s + length) for s in range(0, len(x), length)]
    return linear(t, p + "o", np.concatenate([attention(q[r], k[r], v[r], causal, scale=1.0, bias=bias) for r in rows]))


def switch_sparse(c, side, i):
    """Each step-th block from the second on. `side` is encoder or decoder."""
    blocks, sparse = c["num_layers" if side == "encoder" else "num_decoder_layers"], c[f"num_sparse_{side}_layers"]
    step = blocks // sparse if sparse else 0
    return step == 1 or (step > 1 and i % step == 1)


def switch_feed_forward(c, t, p, x, length, sparse):
    dense = lambda q, row: linear(t, q + "wo", np.maximum(linear(t, q + "wi", row), 0.0))
    if not sparse:
        return dense(p, x)
    # An expert takes the first tokens of each sequence, for any length.
    choices = choose(softmax(linear(t, p + "router.classifier", x)), 1, False, lambda _: c["expert_capacity"],
                     len(x) // length)
    return mixture(x, choices, lambda e, row: dense(f"{p}experts.expert_{e}.", row))


def switch_stack(c, t, side, tokens, memory=None):
    length, eps = tokens.shape[1], c["layer_norm_epsilon"]
    x = t["shared.weight"][tokens.reshape(-1)]
    table = t[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    bias = relative_bias(c, table, length, bidirectional=side == "encoder")
    for i in range(c["num_layers" if side == "encoder" else "num_decoder_layers"]):
        p = f"{side}.block.{i}.layer."
        inner = rms_norm(x, t[p + "0.layer_norm.weight"], eps)
        x = x + switch_attention(c, t, p + "0.SelfAttention.", inner, inner, length, bias, side == "decoder")
        last = 1
        if memory is not None:
            inner = rms_norm(x, t[p + "1.layer_norm.weight"], eps)
            x = x + switch_attention(c, t, p + "1.EncDecAttention.", inner, memory, length, None, False)
            last = 2
        inner = rms_norm(x, t[f"{p}{last}.layer_norm.weight"], eps)
        x = x + switch_feed_forward(c, t, f"{p}{last}.mlp.", inner, length, switch_sparse(c, side, i))
    return rms_norm(x, t[side + ".final_layer_norm.weight"], eps)


def switch_logits(c, t, tokens, decoder_tokens):
    y = switch_stack(c, t, "decoder", decoder_tokens, switch_stack(c, t, "encoder", tokens))
    return y / math.sqrt(c["d_model"]) @ t["shared.weight"].T


def switch_shapes(c):
    m, inner, h, e = c["d_model"], c["num_heads"] * c["d_kv"], c["d_ff"], c["num_experts"]
    shapes = {"shared.weight": (c["vocab_size"], m)}
    for side, blocks in (("encoder", c["num_layers"]), ("decoder", c["num_decoder_layers"])):
        shapes[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = (
            c["relative_attention_num_buckets"], c["num_heads"])
        shapes[side + ".final_layer_norm.weight"] = (m,)
        for i in range(blocks):
            names = ["0.SelfAttention", "1.EncDecAttention"][: 1 if side == "encoder" else 2]
            for name in names:
                p = f"{side}.block.{i}.layer.{name}."
                shapes.update({f"{p}{which}.weight": (inner, m) for which in "qkv"})
                shapes[p + "o.weight"] = (m, inner)
            p = f"{side}.block.{i}.layer."
            shapes.update({f"{p}{k}.layer_norm.weight": (m,) for k in range(len(names) + 1)})
            p += f"{len(names)}.mlp."
            dense = lambda q: {q + "wi.weight": (h, m), q + "wo.weight": (m, h)}
            if switch_sparse(c, side, i):
                shapes[p + "router.classifier.weight"] = (e, m)
                for k in range(e):
                    shapes.update(dense(f"{p}experts.expert_{k}."))
            else:
                shapes.update(dense(p))
    return shapes


# Any family


def same_as(config):
    """The config of a model of another family that computes the same, and the prefix that its tensors' names have here. Otherwise None."""
    if family_of(config) == "KimiK25ForConditionalGeneration":
        return config["text_config"], "language_model."
    if family_of(config) == "Glm4MoeLiteForCausalLM":
        dense = config["mlp_layer_types"].index("sparse")
        return {**config, "architectures": ["DeepseekV3ForCausalLM"], "first_k_dense_replace": dense, "moe_layer_freq": 1}, ""
    if family_of(config) == "SarvamMLAForCausalLM":
        return {**config, "architectures": ["DeepseekV3ForCausalLM"], "moe_layer_freq": 1, "n_routed_experts": config["num_experts"],
                "n_shared_experts": config["num_shared_experts"], "rope_scaling": {**config["rope_scaling"], "type": "yarn"}}, ""
    return None


def shapes(config):
    """{name: shape} of the checkpoint of a model with this config."""
    family = family_of(config)
    if same := same_as(config):
        return {same[1] + name: shape for name, shape in shapes(same[0]).items()}
    if family in llama_like.FAMILIES:
        return llama_like.shapes(config)
    if family in LLAMA:
        return llama_shapes(config)
    return {**dict.fromkeys(GPT2, gpt2_shapes), "BertMoEForMaskedLM": bert_shapes, SWITCH: switch_shapes}[family](config)


def logits(config, tensors, tokens, groups=1, decoder_tokens=None):
    """Logits [batch * length, vocabulary] for `tokens` [batch, length]. Capacities are counted in each of `groups` blocks, Switch's in
    each sequence."""
    family = family_of(config)
    if same := same_as(config):
        return logits(same[0], {name.removeprefix(same[1]): tensor for name, tensor in tensors.items()}, tokens)
    if family in llama_like.FAMILIES:
        return llama_like.logits(config, tensors, tokens)
    if family in LLAMA:
        return llama_logits(config, tensors, tokens)
    if family == SWITCH:
        return switch_logits(config, tensors, tokens, decoder_tokens)
    model = {**dict.fromkeys(GPT2, gpt2_logits), "BertMoEForMaskedLM": bert_logits}[family]
    return model(config, tensors, tokens, groups)


import llama_like  # noqa: E402: it uses what is above


def draw(config, seed=0):
    """A random checkpoint: columns of matrices have a length of about one, norms are around one."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in shapes(config).items():
        scale = 1 / math.sqrt(shape[-1]) if len(shape) > 1 else 0.1
        tensors[name] = scale * rng.standard_normal(shape)
        if "norm" in name.lower() and name.endswith("weight") or ".ln_" in name and name.endswith("weight"):
            tensors[name] += 1
    return tensors
