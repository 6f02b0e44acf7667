#!/usr/bin/python3
"""Tests schedules in which a token goes once to each rank, or to each node, that holds some of its experts. Layers with a capacity exchange
between nodes, and inside each.

Each case is verified against the one-rank reference: output, auxiliary loss and all gradients. Sums are in another order than in the reference:
a rank adds up its experts' results first. So the tolerances are those of moe-run --verify, 1e-12 in f64 and 1e-5 in f32. The exchanges of
tokens must move as many rows as the tokens' choices have different ranks, counted from the choices that the run recorded.
"""

import itertools
import json
import os
import random
import sys
from collections import Counter
from functools import partial

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness
import safetensors
from harness import Layout
from oracle import Layer, Model

LAYOUTS = [Layout(2, 1, 2, 1), Layout(4, 1, 4, 1), Layout(4, 2, 2, 1), Layout(4, 2, 4, 1), Layout(4, 4, 4, 1), Layout(4, 2, 2, 2), Layout(4, 1, 2, 2),
           Layout(8, 1, 8, 1), Layout(8, 2, 8, 1), Layout(8, 4, 4, 2), Layout(8, 2, 4, 2), Layout(8, 1, 4, 1), Layout(8, 4, 8, 1), Layout(8, 8, 4, 2)]
LAYERS = ("baseline", "s1", "s2")
DRAWN = {
    "routing": ("random", "skewed", "empty", "one"),
    "experts": (8, 16),
    "top_k": (1, 2, 3, 4, 6, 8),
    "activation": ("swiglu", "gelu"),
    "dtype": ("f64", "f32"),
    "biases": (False, True, False),
    "weigh_inputs": (False, False, True),
    "max_load": (None, None, 1.25),
    "recompute": ("none", "block"),
    "node_ranks": (None, 1, 2, 4),
    "chunks": (1, 1, 2, 3),
    "form": ("dropless", "dropless", "capacity"),
    "strategy": ("none", "none", "mpipe-s1", "mpipe-s4"),
}
HIDDEN = 12


def choose_cases(repeats, seed=5):
    rng = random.Random(seed)
    cases = []
    for _, layout, layer in itertools.product(range(repeats), LAYOUTS, LAYERS):
        o = {name: rng.choice(values) for name, values in DRAWN.items()}
        if o["form"] == "capacity":
            o["node_ranks"] = choose_node(layout, layer)
        # There are several nodes, of several ranks each, that hold whole experts.
        if o["form"] == "dropless" and o["node_ranks"] in (2, 4) and (layout.esp > 1 or o["node_ranks"] >= layout.ep):
            o["node_ranks"] = 2 if layout.esp == 1 and layout.ep > 2 else None
        if o["form"] == "capacity" and not o["node_ranks"]:
            o["form"] = "dropless"
        if o["form"] == "dropless":
            o["strategy"] = "none"
        else:
            o["max_load"] = None
        # Memory strategies use rings, which keep too little for recomputed blocks.
        if o["strategy"] != "none":
            o["recompute"] = "none"
        cases.append((layout, layer, o))
    return cases


def choose_node(layout, layer):
    """Ranks of a node, such that the exchange has several nodes with several ranks each. None if no number is possible, or if S1 and S2
    send rows to each slice of an expert."""
    return 2 * layout.esp if layout.ep > 2 and (layer == "baseline" or layout.esp == 1) else None


def schedule_of(layer, o):
    nodes = o["node_ranks"]
    by_node = f"hier:{nodes}" if o["form"] == "capacity" else f"once:node,{nodes}" if nodes else "once:rank"
    parts = [layer, by_node] + [f"chunks:{o['chunks']}"] * (o["chunks"] > 1) + [o["strategy"]] * (o["strategy"] != "none")
    return "+".join(parts)


def describe(case):
    layout, layer, o = case
    words = [f"E {o['experts']}", f"k {o['top_k']}", o["routing"], o["activation"], o["dtype"], f"recompute {o['recompute']}"]
    words += [name for name in ("biases", "weigh_inputs", "max_load") if o[name]]
    return f"{layout.fit(schedule_of(layer, o))}: {layout}: {', '.join(words)}"


def build_model(layout, o):
    layer = Layer(hidden=HIDDEN, inner=8, experts=o["experts"], top_k=o["top_k"], activation=o["activation"], score="softmax",
                  renormalize=o["top_k"] > 1, gate_bias=True, selection_bias=True, expert_biases=o["biases"],
                  capacity_factor=1.25 if o["form"] == "capacity" else None,
                  weigh_inputs=o["weigh_inputs"])
    return Model((layer,), 24 * layout.world)


def steering(o):
    experts, bias = o["experts"], np.zeros(o["experts"])
    if o["routing"] == "skewed":
        bias = np.linspace(1.0, -1.0, experts) * 0.4
    elif o["routing"] == "empty":
        bias = np.where(np.arange(experts) % 2 == 1, -1e3, 0)
    elif o["routing"] == "one":
        bias[experts // 2] = 1e3
    return {"layer0.selection_bias": bias}


def count_rows(choices, layout, o):
    """Rows that reach another rank, by group. A token goes to each other rank that holds some of its experts. With nodes, it goes to the
    rank in the same place in each other node. From there, as in its own node, it goes to the other ranks. Nodes of one rank are ranks."""
    has_nodes = o["node_ranks"] in (2, 4)
    own, node_ranks = o["experts"] // layout.ep, o["node_ranks"] if has_nodes else layout.ep
    rows = Counter()
    for rank, flat in enumerate(choices):
        member = rank % layout.ep
        for token in range(0, len(flat), o["top_k"]):
            ranks = {expert // own for expert in flat[token:token + o["top_k"]]}
            nodes = {to // node_ranks for to in ranks}
            rows["nodes"] += len(nodes - {member // node_ranks})
            places = {node * node_ranks + member % node_ranks for node in nodes}
            rows["node" if has_nodes else "ranks"] += len(ranks - places)
    return rows


def check_bytes(tools, plan, case, path, log):
    """The forward sends each row's token, choices and weights, and returns one row. The backward sends its gradient, and returns those
    of the token and of the weights."""
    layout, _, o = case
    report = json.loads(tools.call(log, "moe-run", plan, "--json", f"--load={path('in.safetensors')}", "--allow-missing",
                                   f"--record-routing={path('routing.jsonl')}"))
    with open(path("routing.jsonl")) as file:
        choices = json.loads(file.readline())["choices"]
    size = {"f32": 4, "f64": 8}[o["dtype"]]
    row = 4 * HIDDEN * size + 2 * o["top_k"] * size + o["top_k"] * 4
    expected = {group: count * row for group, count in count_rows(choices, layout, o).items() if count}
    # A group with the same ranks as another one has that one's name.
    levels = {c["group"]: next((name for name in ("nodes", "node") if c["group"].endswith("_" + name)), "ranks") for c in report["collectives"]}
    received = {levels[c["group"]]: c["bytes_received"] for c in report["collectives"] if c["collective"] == "all_to_all_v" and c["bytes_received"]}
    if received != expected:
        raise harness.CaseFailed(f"expected the exchanges of rows to move {expected} bytes but they moved {received}")


def check(tools, case, folder, log):
    layout, layer, o = case
    model, path = build_model(layout, o), partial(os.path.join, folder)
    with open(path("model.mlir"), "w") as file:
        file.write(harness.mlir_text(model, o["dtype"], o["max_load"]))
    safetensors.save(path("in.safetensors"), steering(o), o["dtype"])
    _, stderr = tools.call_for_all(log, "moe-compile", path("model.mlir"), layout.flag(), f"--schedule={layout.fit(schedule_of(layer, o))}",
                                   f"--recompute={o['recompute']}", "-o", path("plan.so"))
    if "leaves this" in stderr:
        raise harness.CaseFailed(f"expected the schedule in every layer\n{stderr}")
    report = json.loads(tools.call(log, "moe-run", path("plan.so"), "--verify", "--json", f"--load={path('in.safetensors')}", "--allow-missing"))
    errors = harness.verified_errors(report, model)
    # Rows are only counted if none is sent twice, and if ranks of mp have their own tokens.
    is_counted = o["form"] == "dropless" and o["max_load"] is None and o["recompute"] == "none" and layout.esp == 1 and (layer == "s1" or layout.mp == 1)
    if is_counted:
        check_bytes(tools, path("plan.so"), case, path, log)
    return f"{len(errors)} tensors, worst {max(errors.values()):.1e}{', bytes counted' if is_counted else ''}"


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=1, help="cases of each layout and schedule (default: 1)")
    options = parser.parse_args()
    cases = choose_cases(options.repeats)
    print(f"{len(cases)} cases")
    return harness.run_cases([(describe(case), case) for case in cases], partial(check, harness.Tools(options.bin, options.backend)), options)


if __name__ == "__main__":
    sys.exit(main())
