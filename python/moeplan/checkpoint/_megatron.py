"""Tensors of Megatron's GPTModel for a plan's parameters, as its sharded_state_dict names them with the layers of Transformer Engine.

Checked with megatron-core 0.16.1 (`megatron/core/models/gpt`, `transformer`). Layers that are alike are one stack: dimension 0 of
`decoder.layers.self_attention.linear_qkv.weight` is the layer. If some layers have experts and others none, each layer has its own names.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .._errors import Error
from ._layout import Link, Side

# Parameters outside of layers: the tensor, the axes of the parameter, and those of the tensor.
_OUTSIDE = {
    "embedding": ("embedding.word_embeddings.weight", ("v", "m"), ("v", "m")),
    "positions": ("embedding.position_embeddings.weight", ("v", "m"), ("v", "m")),
    "norm.gamma": ("decoder.final_layernorm.weight", ("m",), ("m",)),
    "norm.beta": ("decoder.final_layernorm.bias", ("m",), ("m",)),
    "head": ("output_layer.weight", ("m", "v"), ("v", "m")),
}
# Parameters of a layer. Axes: e experts, h hidden of a feed-forward block, g gate and up, m model, n query groups, s queries of a group
# and then its key and its value, d columns of a head. A bias has the axes of the columns.
_IN_LAYER = {
    "norm1.gamma": ("self_attention.linear_qkv.layer_norm_weight", ("m",), ("m",)),
    "norm1.beta": ("self_attention.linear_qkv.layer_norm_bias", ("m",), ("m",)),
    "attention.q": ("self_attention.linear_qkv.weight", ("m", "nsd"), ("nsd", "m")),
    "attention.k": ("self_attention.linear_qkv.weight", ("m", "nd"), ("nsd", "m")),
    "attention.v": ("self_attention.linear_qkv.weight", ("m", "nd"), ("nsd", "m")),
    "attention.q_bias": ("self_attention.linear_qkv.bias", ("nsd",), ("nsd",)),
    "attention.k_bias": ("self_attention.linear_qkv.bias", ("nd",), ("nsd",)),
    "attention.v_bias": ("self_attention.linear_qkv.bias", ("nd",), ("nsd",)),
    "attention.o": ("self_attention.linear_proj.weight", ("r", "m"), ("m", "r")),
    "attention.o_bias": ("self_attention.linear_proj.bias", ("m",), ("m",)),
    "attention.q_norm": ("self_attention.q_layernorm.weight", ("d",), ("d",)),
    "attention.k_norm": ("self_attention.k_layernorm.weight", ("d",), ("d",)),
    "ffn.w1": ("mlp.linear_fc1.weight", ("m", "hg"), ("gh", "m")),
    "ffn.b1": ("mlp.linear_fc1.bias", ("hg",), ("gh",)),
    "ffn.w2": ("mlp.linear_fc2.weight", ("h", "m"), ("m", "h")),
    "ffn.b2": ("mlp.linear_fc2.bias", ("m",), ("m",)),
    "gate": ("mlp.router.weight", ("m", "e"), ("e", "m")),
    "gate_bias": ("mlp.router.bias", ("e",), ("e",)),
    "selection_bias": ("mlp.router.expert_bias", ("e",), ("e",)),
    "w1": ("mlp.experts.experts.linear_fc1.weight", ("e", "m", "hg"), ("e", "gh", "m")),
    "b1": ("mlp.experts.experts.linear_fc1.bias", ("e", "hg"), ("e", "gh")),
    "w2": ("mlp.experts.experts.linear_fc2.weight", ("e", "h", "m"), ("e", "m", "h")),
    "b2": ("mlp.experts.experts.linear_fc2.bias", ("e", "m"), ("e", "m")),
    "shared_w1": ("mlp.shared_experts.linear_fc1.weight", ("m", "hg"), ("gh", "m")),
    "shared_w2": ("mlp.shared_experts.linear_fc2.weight", ("h", "m"), ("m", "h")),
    "shared_gate": ("mlp.shared_experts.gate_weight", ("m", "o"), ("o", "m")),
}
# The second norm is a part of the dense block that follows it, but stands alone before experts.
_SECOND_NORM = {"norm2.gamma": ("mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight"),
                "norm2.beta": ("mlp.linear_fc1.layer_norm_bias", "pre_mlp_layernorm.bias")}

# Keys and values follow the queries of their group.
_AFTER_QUERIES = {"attention.k": 0, "attention.k_bias": 0, "attention.v": 1, "attention.v_bias": 1}

_LAYER = re.compile(r"layer(\d+)\.(.+)")
Shapes = Dict[str, Tuple[int, ...]]


def link_megatron(parameters: Mapping[str, Mapping[str, Any]], heads: Optional[int]) -> List[Link]:
    """Links of all parameters. `heads` is the number of attention heads. It is needed unless queries have a norm for each head."""
    layers: Dict[int, Shapes] = {}
    links = []
    for name, parameter in parameters.items():
        match = _LAYER.fullmatch(name)
        if match and (match[2] in _IN_LAYER or match[2] in _SECOND_NORM):
            layers.setdefault(int(match[1]), {})[match[2]] = tuple(parameter["shape"])
        elif name in _OUTSIDE:
            tensor, own, other = _OUTSIDE[name]
            sizes = {axis: size for dim, size in zip(own, parameter["shape"]) for axis in dim}
            links.append(Link(Side(name, own, sizes), Side(tensor, other, sizes), sizes))
        else:
            raise _without_place(name)
    alike = len({frozenset(one) for one in layers.values()}) == 1
    for layer, shapes in sorted(layers.items()):
        sizes = {"l": len(layers), **_find_sizes(f"layer{layer}", shapes, heads)}
        links += [_link_in_layer(layer, name, shapes, sizes, alike) for name in shapes]
    return links


def _link_in_layer(layer: int, name: str, shapes: Shapes, sizes: Mapping[str, int], alike: bool) -> Link:
    tensor, own, other = _IN_LAYER[name] if name in _IN_LAYER else (_SECOND_NORM[name]["gate" in shapes], ("m",), ("m",))
    # Sizes of hidden layers differ between experts, shared experts and dense blocks.
    here = {**sizes, **_find_hidden(name, own, shapes)}
    queries = here.get("s", 0)
    plan = Side(f"layer{layer}.{name}", own, here)
    if plan.shape != shapes[name]:
        raise Error(f"'layer{layer}.{name}': expected shape {list(plan.shape)} by the other parameters but got {list(shapes[name])}")
    starts = {"l": layer}
    if name in _AFTER_QUERIES:
        starts["s"] = queries + _AFTER_QUERIES[name]
    there = Side(("decoder.layers." if alike else f"decoder.layers.{layer}.") + tensor, ("l", *other) if alike else other,
                 {**here, "s": queries + 2}, {axis: at for axis, at in starts.items() if axis in "l" * alike + "".join(other)})
    axes = "".join(plan.dims) + "".join(there.dims)
    return Link(plan, there, {axis: 1 if axis in starts else here[axis] for axis in axes})


def _find_hidden(name: str, own: Tuple[str, ...], shapes: Shapes) -> Dict[str, int]:
    """The sizes h and g of a feed-forward block. Its first matrix has twice as many columns if it has a gate."""
    if not {"h", "g"} & set("".join(own)):
        return {}
    prefix = name[: -len("w1")]
    first, second = shapes.get(prefix + "w1", (0,)), shapes.get(prefix + "w2", (1, 1))
    return {"h": second[-2], "g": first[-1] // second[-2]}


def _find_sizes(layer: str, shapes: Shapes, heads: Optional[int]) -> Dict[str, int]:
    sizes = {"m": shapes["norm1.gamma"][0] if "norm1.gamma" in shapes else 0, "o": 1, "e": shapes.get("gate", (0, 0))[1]}
    if "attention.q" in shapes and "attention.k" in shapes:
        queries, keys = shapes["attention.q"][1], shapes["attention.k"][1]
        if "attention.q_norm" in shapes and shapes["attention.q_norm"][0] != queries:
            width = shapes["attention.q_norm"][0]
        elif heads is None:
            raise Error("expected --heads, the number of attention heads: Megatron stores the heads of queries, keys and values group by group")
        else:
            width = queries // heads
        if width == 0 or queries % width or keys % width or queries % keys:
            raise Error(f"'{layer}.attention.q': expected {heads} heads to divide {queries} columns of queries and {keys} of keys; see --heads")
        sizes.update(d=width, n=keys // width, s=queries // keys, r=queries)
    return sizes


def _without_place(name: str) -> Error:
    return Error(f"'{name}': expected a parameter that Megatron's GPTModel has; MoePlan converts multi-head and grouped-query attention, dense "
                 "blocks, experts and shared experts")
