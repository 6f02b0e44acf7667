#!/usr/bin/python3
"""Tests FasterMoE's schedules against the one-rank reference: shadows, the smart schedule and both, over every other schedule.

With the topology-aware gate the reference chooses the same experts as the plan, from the place of each rank.

Each layout meets each rewrite of layers, and each group size that divides its world. The number of shadows, the policy, the chunks and the
routing are drawn. The bytes of the broadcasts tell how many experts were shadows. None, one, several and all have to occur.
"""

import itertools
import json
import os
import random
import re
import sys
from functools import partial

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness
import safetensors
from harness import Layout
from oracle import Layer, Model

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
QUICK_LAYOUTS = [Layout(2, 1, 2, 1), Layout(4, 2, 2, 2), Layout(8, 2, 4, 1), Layout(8, 4, 4, 2), Layout(16, 2, 8, 2)]
# The draws of the quick suite come first, so that the full one has the same cases.
LAYOUTS = {
    "quick": QUICK_LAYOUTS,
    "full": [*QUICK_LAYOUTS, Layout(4, 1, 4, 1), Layout(4, 4, 2, 1), Layout(8, 1, 8, 1), Layout(8, 2, 2, 4), Layout(16, 4, 16, 1),
             Layout(16, 1, 4, 4)],
}
LAYERS = ("baseline", "s1", "s2")
DRAWN = {
    "shadows": ("", "shadow:1", "shadow:3", "shadow:ALL", "shadow:ALL,prefix", "shadow:2,algorithm1"),
    "chunks": (1, 2, 1, 3),
    "routing": ("random", "skewed", "empty", "one"),
    "experts": (8, 16),
    "top_k": (1, 2),
    # With a large inner size, moving weights does not pay.
    "inner": (8, 8, 8, 256),
    "dtype": ("f64", "f32"),
    "biases": (False, True, False),
    "order": ("topology", "ring", "topology"),
    "max_load": (None, None, 1.25),
    "gate": (False, False, True),
}


def divisors(number):
    return [i for i in range(1, number + 1) if number % i == 0]


def choose_cases(suite, seed=6):
    rng = random.Random(seed)
    cases = []
    for layout, layer in itertools.product(LAYOUTS[suite], LAYERS):
        # No smart schedule counts as a group size, with twice the weight, because it shows the effect of shadows alone.
        for group in [None, None, *divisors(layout.world)]:
            o = {name: rng.choice(values) for name, values in DRAWN.items()}
            o["experts"] = max(o["experts"], layout.ep)
            if group is None and not o["shadows"]:
                o["shadows"] = "shadow:ALL,prefix"
            cases.append((layout, layer, group, o))
    return cases


def schedule_of(layer, group, o):
    names = [layer]
    if o["chunks"] > 1:
        names.append(f"chunks:{o['chunks']}")
    if o["shadows"]:
        names.append(o["shadows"].replace("ALL", str(o["experts"])))
    if group:
        names.append(f"smart:{group},{o['order']}")
    if o["gate"]:
        names.append("topology-gate")
    return "+".join(names)


def describe(case):
    layout, layer, group, o = case
    words = [f"E {o['experts']}", f"H {o['inner']}", f"k {o['top_k']}", o["routing"], o["dtype"], *["biases"] * o["biases"], *["max_load"] * bool(o["max_load"])]
    return f"{schedule_of(layer, group, o)}: {layout}: {', '.join(words)}"


def build_model(layout, o):
    layer = Layer(hidden=12, inner=o["inner"], experts=o["experts"], top_k=o["top_k"], activation="swiglu", score="softmax", renormalize=o["top_k"] > 1,
                  gate_bias=True, selection_bias=True, expert_biases=o["biases"], capacity_factor=None)
    return Model((layer,), 24 * layout.world)


def steering(o):
    experts, bias = o["experts"], np.zeros(o["experts"])
    if o["routing"] == "skewed":
        bias = np.linspace(1.0, -1.0, experts) * 0.4
    elif o["routing"] == "empty":
        bias[1:] = np.where(np.arange(1, experts) % 3 == 0, -1e3, 0)
    elif o["routing"] == "one":
        bias[experts // 2] = 1e3
    return {"layer0.selection_bias": bias}


def write_cluster(path):
    """Writes trevor with four ranks on a node, without latencies, which would dominate with so few tokens, and with f64."""
    with open(os.path.join(ROOT, "share", "clusters", "fastermoe-trevor.json")) as file:
        text = re.sub(r'("latency_s": )[0-9.e-]+', r"\g<1>1e-12", file.read())
    cluster = json.loads(text)
    cluster["device"]["rates"].append({**cluster["device"]["rates"][0], "dtype": "f64"})
    with open(path, "w") as file:
        json.dump(cluster, file)


def count_shadows(report, model, layout, o):
    """Mean number of shadows over the data-parallel replicas of the experts, from the bytes of their broadcasts."""
    layer = model.layers[0].shapes()
    values = sum(int(np.prod(layer[name])) // o["experts"] for name in ("w1", "w2", "b1", "b2") if name in layer)
    # Each shard has the whole second bias.
    if "b2" in layer:
        values += (layout.esp - 1) * int(layer["b2"][1])
    received = sum(c["bytes_received"] for c in report["collectives"] if c["collective"] == "broadcast_experts")
    replicas = layout.world // (layout.ep * layout.esp)
    return received / (values * {"f32": 4, "f64": 8}[o["dtype"]]) / (layout.ep - 1) / replicas


def check(tools, seen, case, folder, log):
    layout, layer, group, o = case
    model, path = build_model(layout, o), partial(os.path.join, folder)
    with open(path("model.mlir"), "w") as file:
        file.write(harness.mlir_text(model, o["dtype"], o["max_load"]))
    write_cluster(path("cluster.json"))
    safetensors.save(path("in.safetensors"), steering(o), o["dtype"])
    schedule = layout.fit(schedule_of(layer, group, o))
    _, stderr = tools.call_for_all(log, "moe-compile", path("model.mlir"), layout.flag(), f"--schedule={schedule}",
                                   f"--cluster={path('cluster.json')}", "-o", path("plan.so"))
    if "leaves this" in stderr:
        raise harness.CaseFailed(f"expected the schedule in every layer\n{stderr}")
    report = json.loads(tools.call(log, "moe-run", path("plan.so"), "--verify", "--json", f"--load={path('in.safetensors')}", "--allow-missing"))
    errors = harness.verified_errors(report, model)
    shadows = count_shadows(report, model, layout, o)
    most = int(re.search(r"shadow:(\d+)", schedule).group(1)) if o["shadows"] else 0
    # Verification makes one shadow even if none pays.
    if not min(1, most) <= shadows <= most:
        raise harness.CaseFailed(f"expected at most {most} shadows, and at least one if any, but {shadows} were broadcast")
    kind = "none" if shadows == 0 else "all" if shadows == o["experts"] else "one" if shadows == 1 else "several"
    seen.add((kind, bool(group)))
    return f"{len(errors)} tensors, worst {max(errors.values()):.1e}, {shadows:g} shadows"


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--suite", choices=sorted(LAYOUTS), default="quick")
    options = parser.parse_args()
    cases, seen = choose_cases(options.suite), set()
    print(f"{len(cases)} cases")
    status = harness.run_cases([(describe(case), case) for case in cases], partial(check, harness.Tools(options.bin, options.backend), seen), options)
    missing = set(itertools.product(("one", "several", "all"), (False, True))) - seen
    if missing and not options.only and options.backend == "host":
        print(f"error: no case with (shadows, smart schedule): {sorted(missing)}", file=sys.stderr)
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
