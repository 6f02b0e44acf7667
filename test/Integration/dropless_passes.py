#!/usr/bin/python3
"""Tests dropless layers that reserve 1.25 times the mean rows, and serve the others in further passes.

Outputs and gradients equal the one-rank reference for routing that is skewed, that leaves experts without tokens, and that sends all tokens to
one expert. Chunks, phases and shadows have passes like any other schedule. The plan needs no more memory than a plan for that many rows,
whatever the routing, and a run uses just what the plan says.
"""

import json
import os
import sys
from functools import partial

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness
import safetensors
from harness import Layout
from oracle import Layer, Model

RESERVE = 1.25
SCHEDULES = {
    "baseline": [Layout(4, 1, 4, 1), Layout(4, 2, 2, 2), Layout(8, 2, 8, 1)],
    "s1": [Layout(4, 2, 4, 1), Layout(8, 2, 4, 2)],
    "s2": [Layout(4, 2, 4, 1), Layout(8, 2, 4, 2)],
    "ppmoe": [Layout(4, 4, 4, 1), Layout(8, 4, 2, 2)],
    "baseline+chunks:2": [Layout(4, 2, 4, 1)],
    "baseline+smart:2": [Layout(8, 2, 8, 1)],
    "s1+chunks:3+smart:2": [Layout(8, 2, 4, 2)],
    "s2+chunks:2": [Layout(8, 2, 4, 2)],
    "s2+smart:2": [Layout(8, 4, 8, 1)],
    "baseline+shadow:1": [Layout(4, 2, 4, 1)],
    "s1+shadow:1+smart:2": [Layout(8, 2, 8, 1)],
    "s2+shadow:1+chunks:2": [Layout(8, 2, 4, 2)],
}
ROUTINGS = {
    "skewed": lambda experts: np.linspace(1.0, -1.0, experts) * 0.4,
    "empty": lambda experts: np.where(np.arange(experts) % 3 == 1, -1e3, 0),
    "one": lambda experts: np.where(np.arange(experts) == experts // 2, 1e3, 0),
}


def choose_cases():
    """Each schedule with each layout. Routing, choices and recomputation rotate."""
    cases = []
    for schedule, layouts in SCHEDULES.items():
        for layout in layouts:
            for routing in ROUTINGS:
                number = len(cases)
                cases.append((schedule, layout, routing, 1 + number % 2, ("none", "block")[number // 2 % 2]))
    return cases


def describe(case):
    schedule, layout, routing, top_k, recompute = case
    return f"{schedule}: {layout}: {routing}, k {top_k}, recompute {recompute}"


def compile_plan(tools, log, path, case, load):
    schedule, layout, _, top_k, recompute = case
    layer = Layer(hidden=12, inner=8, experts=8, top_k=top_k, activation="swiglu", score="softmax", renormalize=top_k > 1, gate_bias=True,
                  selection_bias=True, expert_biases=False, capacity_factor=None)
    model = Model((layer,), 24 * layout.world)
    with open(path("model.mlir"), "w") as file:
        file.write(harness.mlir_text(model, "f64", load))
    tools.call_for_all(log, "moe-compile", path("model.mlir"), layout.flag(), f"--schedule={schedule}", f"--recompute={recompute}", "-o", path("plan.so"))
    return model


def check(tools, backend, case, folder, log):
    path = partial(os.path.join, folder)
    model = compile_plan(tools, log, path, case, RESERVE)
    bias = ROUTINGS[case[2]](8)
    safetensors.save(path("in.safetensors"), {"layer0.selection_bias": bias}, "f64")
    report = json.loads(tools.call(log, "moe-run", path("plan.so"), "--verify", "--json", f"--load={path('in.safetensors')}", "--allow-missing"))
    errors = harness.verified_errors(report, model)
    for space, size in report["memory"].items():
        # A GPU does not issue the calls of unneeded passes.
        if size["measured"] != size["planned"] and not (backend.startswith("cuda") and size["measured"] < size["planned"]):
            raise harness.CaseFailed(f"expected {size['planned']} bytes of {space} to be used but measured {size['measured']}")
    return f"{len(errors)} tensors, worst {max(errors.values()):.1e}"


def main():
    options = harness.parser(__doc__).parse_args()
    cases = choose_cases()
    print(f"{len(cases)} cases")
    return harness.run_cases([(describe(case), case) for case in cases], partial(check, harness.Tools(options.bin, options.backend), options.backend),
                             options)


if __name__ == "__main__":
    sys.exit(main())
