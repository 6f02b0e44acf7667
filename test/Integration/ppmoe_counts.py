#!/usr/bin/python3
"""Counts the FLOPs and bytes of PPMoE's schedule in the plan and again in the run, as parm_counts.py does for Parm's.

In each layer and direction the only exchange is an all_reduce of the rank's tokens [S, M] over the group that divides the experts. The
backward has one more, of the gradient of the weights [S, k]. A rank computes only what no other member computes.
"""

import json
import os
import sys
from collections import Counter
from dataclasses import replace
from functools import partial

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import parm_counts as counts
from parm_counts import BLM, BYTES, LAYER, T, TOKENS, Layout, expect, harness
from oracle import Model

import numpy as np
import safetensors


def layouts():
    for world, mp in ((2, 2), (4, 2), (4, 4), (8, 4), (12, 4)):
        for ep, esp in ((2, 1), (1, 2), (4, 1), (1, 4), (2, 2)):
            if mp % (ep * esp) == 0:
                yield Layout(world, mp, ep, esp)


def forward(layout):
    return counts.by_group(layout, [("all_reduce", "ep_esp", BLM), ("all_reduce", "dp", BYTES)])


def backward(layout):
    # Members of mp that hold the same experts compute the same gradients, so only dp adds others.
    gate = LAYER.hidden * LAYER.experts * BYTES
    experts = LAYER.experts * LAYER.hidden * 3 * LAYER.inner * BYTES // layout.fused
    return counts.by_group(layout, [("all_reduce", "ep_esp", BLM), ("all_reduce", "ep_esp", TOKENS * LAYER.top_k * BYTES),
                                    ("all_reduce", "dp", gate + experts)])


def check_collectives(layout, plans):
    there, both = plans["forward"].payloads(), plans["train"].payloads()
    expect("forward", there, forward(layout))
    both.subtract(there)
    expect("backward", Counter({key: payload for key, payload in both.items() if payload}), backward(layout))
    for mode, calls in (("forward", 1), ("train", 3)):
        launches = [launch for launch in plans[mode].collectives() if launch.members == layout.groups()["ep_esp"]]
        expect(f"{mode}: sums over the experts' group", [launch.kernel for launch in launches], ["all_reduce"] * calls)


def write_model(layout, folder, layer=LAYER, max_load=None):
    with open(os.path.join(folder, "model.mlir"), "w") as file:
        file.write(harness.mlir_text(Model((layer,), TOKENS * layout.dp, residual=False), "f32", max_load))


def check_dropless(tools, layout, folder, log):
    """Each choice is computed by one of the ranks that computed it in the baseline, and the counts are those of the routing."""
    write_model(layout, folder, replace(LAYER, capacity_factor=None))
    flops = {}
    for schedule in ("baseline", "ppmoe"):
        plan, run, trace = counts.compile_and_run(tools, layout, schedule, "forward", folder, log)
        flops[schedule] = sum(event["args"]["flops"] for event in trace["traceEvents"]
                              if event["ph"] == "X" and event["name"].startswith("grouped_matmul"))
        if schedule == "ppmoe":
            expect("dropless forward", plan.payloads(), forward(layout))
            measured = {(entry["collective"], entry["calls"]) for entry in run["collectives"]}
            expect("dropless: exchanges in the run", measured, {("all_reduce", 1)})
    expect("dropless: flops of the experts", flops["ppmoe"] * layout.fused, flops["baseline"])


def check_passes(tools, layout, folder, log):
    """All choices go to one expert, more than max_load times the mean. Further passes serve them, before the single exchange."""
    if layout.ep == 1:
        return
    write_model(layout, folder, replace(LAYER, capacity_factor=None, selection_bias=True, top_k=1), max_load=1.0)
    path = partial(os.path.join, folder)
    bias = np.zeros(LAYER.experts)
    bias[0] = 1e3
    safetensors.save(path("in.safetensors"), {"layer0.selection_bias": bias}, "f32")
    arguments = [path("model.mlir"), layout.flag(), "--schedule=ppmoe", "--mode=forward"]
    plan = counts.Plan(tools.call(log, "moe-compile", *arguments, "--emit=plan", "-o", "-"))
    expect("passes: payloads", plan.payloads(), forward(layout))
    tools.call(log, "moe-compile", *arguments, "-o", path("plan.so"))
    tools.call(log, "moe-run", path("plan.so"), "--verify", f"--load={path('in.safetensors')}", "--allow-missing",
               f"--trace={path('trace.json')}")
    with open(path("trace.json")) as file:
        events = json.load(file)["traceEvents"]
    # Each pass chooses the rows that it serves.
    passes = Counter(event["pid"] for event in events if event["ph"] == "X" and event["name"].startswith("window"))
    expect("passes", passes, {rank: layout.ep for rank in range(layout.world)})


def check(tools, layout, folder, log):
    check_passes(tools, layout, folder, log)
    check_dropless(tools, layout, folder, log)
    write_model(layout, folder)
    plans, arenas = {}, {}
    products = 3 * 2 * LAYER.experts * T * LAYER.hidden * LAYER.inner // layout.fused
    for mode in ("forward", "train"):
        baseline, _, _ = counts.compile_and_run(tools, layout, "baseline", mode, folder, log)
        plan, run, trace = counts.compile_and_run(tools, layout, "ppmoe", mode, folder, log)
        counts.check_run(layout, plan, run, trace)
        expect(f"{mode}: flops of the experts", plan.expert_flops(), products * (3 if mode == "train" else 1))
        arenas[mode] = plan.arena, baseline.arena
        if plan.arena >= baseline.arena:
            raise harness.CaseFailed(f"{mode}: expected an arena of less than {baseline.arena} bytes but got {plan.arena}")
        plans[mode] = plan
    check_collectives(layout, plans)
    return f"exchanged forward {sum(forward(layout).values())} bytes, baseline {sum(counts.forward(layout, 'baseline').values())}; arena in training {arenas['train'][0]}, baseline {arenas['train'][1]}"


def main():
    options = harness.parser(__doc__).parse_args()
    cases = [(str(layout), layout) for layout in layouts()]
    return harness.run_cases(cases, partial(check, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
