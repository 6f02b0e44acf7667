#!/usr/bin/python3
"""Runs the lines of docs/Checkpoints.md that convert Hugging Face weights. The oracle on the converted weights must compute the results of
the model's own formulas on the original weights."""

import os
import re
import sys

import numpy as np

import oracle
from oracle import Layer, sigmoid

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "Checkpoints.md")
TOKENS, M, H, E, SHARED = 7, 6, 5, 4, 3

linear = lambda x, w: x @ w.T
silu = lambda a: a * sigmoid(a)


def swiglu(t, prefix, x, gate="gate_proj", up="up_proj", down="down_proj"):
    name = lambda part: t[f"{prefix}{part}.weight"]
    return linear(silu(linear(x, name(gate))) * linear(x, name(up)), name(down))


def weighted(x, scores, choose, expert, k, renormalize):
    """Sum over the k chosen experts of weight times expert(e, x[s])."""
    y = np.zeros_like(x)
    for s in range(len(x)):
        chosen = np.argsort(-choose[s], kind="stable")[:k]
        weights = scores[s, chosen] / (scores[s, chosen].sum() if renormalize else 1.0)
        for e, weight in zip(chosen, weights):
            y[s] += weight * expert(e, x[s])
    return y


def softmax(a):
    a = np.exp(a - a.max(axis=1, keepdims=True))
    return a / a.sum(axis=1, keepdims=True)


def draw(rng, shapes):
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def names(prefix, parts, experts=E, inner=H):
    shapes = {part: (M, inner) if part in ("down_proj", "w2", "wo") else (inner, M) for part in parts}
    many = [f"{prefix}{e}." for e in range(experts)] if experts else [prefix]
    return {f"{one}{part}.weight": shape for one in many for part, shape in shapes.items()}


PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


def mixtral(rng, x):
    p = "model.layers.0.block_sparse_moe."
    t = draw(rng, {p + "gate.weight": (E, M), **names(p + "experts.", ("w1", "w2", "w3"))})
    scores = softmax(linear(x, t[p + "gate.weight"]))
    y = weighted(x, scores, scores, lambda e, v: swiglu(t, f"{p}experts.{e}.", v, "w1", "w3", "w2"), 2, True)
    return "mixtral", p, t, Layer(M, H, E, 2, renormalize=True), y


def qwen2(rng, x):
    p = "model.layers.0.mlp."
    t = draw(rng, {p + "gate.weight": (E, M), p + "shared_expert_gate.weight": (1, M), **names(p + "experts.", PROJECTIONS),
                   **names(p + "shared_expert.", PROJECTIONS, 0, SHARED)})
    scores = softmax(linear(x, t[p + "gate.weight"]))
    y = weighted(x, scores, scores, lambda e, v: swiglu(t, f"{p}experts.{e}.", v), 2, False)
    y += sigmoid(linear(x, t[p + "shared_expert_gate.weight"])) * swiglu(t, p + "shared_expert.", x)
    return "qwen_olmoe_deepseek", p, t, Layer(M, H, E, 2, shared_inner=SHARED, shared_gate=True), y


def deepseek_v3(rng, x):
    p = "model.layers.0.mlp."
    t = draw(rng, {p + "gate.weight": (E, M), p + "gate.e_score_correction_bias": (E,), **names(p + "experts.", PROJECTIONS),
                   **names(p + "shared_experts.", PROJECTIONS, 0, SHARED)})
    scores = sigmoid(linear(x, t[p + "gate.weight"]))
    y = weighted(x, scores, scores + t[p + "gate.e_score_correction_bias"],
                 lambda e, v: swiglu(t, f"{p}experts.{e}.", v), 2, True)
    y += swiglu(t, p + "shared_experts.", x)
    return "qwen_olmoe_deepseek", p, t, Layer(M, H, E, 2, score="sigmoid", selection_bias=True, renormalize=True,
                                              shared_inner=SHARED), y


def gpt_oss(rng, x):
    p = "model.layers.0.mlp."
    t = draw(rng, {p + "router.weight": (E, M), p + "router.bias": (E,), p + "experts.gate_up_proj": (E, M, 2 * H),
                   p + "experts.gate_up_proj_bias": (E, 2 * H), p + "experts.down_proj": (E, H, M),
                   p + "experts.down_proj_bias": (E, M)})

    def expert(e, v):
        a = v @ t[p + "experts.gate_up_proj"][e] + t[p + "experts.gate_up_proj_bias"][e]
        gate, up = np.minimum(a[::2], 7.0), np.clip(a[1::2], -7.0, 7.0)
        return (up + 1) * gate * sigmoid(1.702 * gate) @ t[p + "experts.down_proj"][e] + t[p + "experts.down_proj_bias"][e]

    scores = softmax(linear(x, t[p + "router.weight"]) + t[p + "router.bias"])
    # A softmax of the chosen logits is the renormalised softmax of all.
    y = weighted(x, scores, scores, expert, 2, True)
    return "gpt_oss", p, t, Layer(M, H, E, 2, activation="swiglu_clamped", renormalize=True, gate_bias=True,
                                  expert_biases=True), y


def switch(rng, x):
    p = "encoder.block.1.layer.1.mlp."
    t = draw(rng, {p + "router.classifier.weight": (E, M), **names(p + "experts.expert_", ("wi", "wo"))})
    scores = softmax(linear(x, t[p + "router.classifier.weight"]))
    expert = lambda e, v: linear(np.maximum(linear(v, t[f"{p}experts.expert_{e}.wi.weight"]), 0.0),
                                 t[f"{p}experts.expert_{e}.wo.weight"])
    y = weighted(x, scores, scores, expert, 1, False)
    return "switch", p, t, Layer(M, H, E, 1, activation="relu"), y


def main():
    with open(PAGE) as file:
        code = re.search(r"^```python\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL).group(1)
    convert = {}
    exec(compile(code, PAGE, "exec"), convert)
    failed = 0
    families = (mixtral, qwen2, deepseek_v3, gpt_oss, switch)
    for family in families:
        rng = np.random.default_rng(1)
        x = rng.standard_normal((TOKENS, M))
        function, prefix, tensors, layer, expected = family(rng, x)
        got = convert[function](tensors, prefix, E)
        shapes = {name: array.shape for name, array in got.items()}
        error = np.inf
        if shapes == layer.shapes():
            y = oracle.layer_forward(layer, got, x)[0]
            error = np.linalg.norm(y - expected) / np.linalg.norm(expected)
        good = error < 1e-12
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {family.__name__}: relative error {error:.1e}" +
              ("" if shapes == layer.shapes() else f", expected {layer.shapes()} but got {shapes}"))
    print(f"{len(families) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
