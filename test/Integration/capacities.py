#!/usr/bin/python3
"""Tests that no schedule changes which tokens are dropped: plans on several ranks against the oracle.

The capacities are such that no schedule's buffer has as many rows, so each schedule adds its own padding. The oracle gives outputs and
gradients. It has no schedules, except S1, whose members route parts of the tokens separately, each with its share of the capacity. The
test also checks the numbers that moe-import and the passes give for capacities.
"""

import os
import re
import sys
from dataclasses import dataclass, replace
from functools import partial

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "oracle"))

import harness
import oracle
import safetensors
from harness import Layout
from oracle_test import MARGIN, compare

# Tokens of a rank. They form one routing group or two, which S1's members can share out.
TOKENS = 40
SCHEDULES = ("baseline", "s1", "s2", "s2+saa", "chunks:4", "s2+chunks:4", "s2+saa+chunks:2", "chunks:4+mpipe-s2", "ppmoe",
             "ppmoe+mpipe-s3")
LAYOUTS = (Layout(4, 2, 2, 1), Layout(4, 4, 2, 2), Layout(8, 4, 4, 1))


@dataclass
class Case:
    layout: Layout
    layer: oracle.Layer
    schedule: str


def runs(schedule, layout):
    return not schedule.startswith("ppmoe") or layout.mp % (layout.ep * layout.esp) == 0


def cases():
    base = oracle.Layer(hidden=8, inner=8, experts=4, top_k=2, gate_bias=True, expert_biases=True, activation="gelu")
    # An expert gets 20 choices of a rank on average, and has room for 9. In a group it gets 10 and has room for 7.
    layers = {"factor": replace(base, capacity_factor=0.43), "2 groups": replace(base, expert_capacity=7, groups=2)}
    for layout in LAYOUTS:
        for name, layer in layers.items():
            for schedule in SCHEDULES:
                if runs(schedule, layout):
                    yield f"{layout}, {name}, {schedule}", Case(layout, layer, schedule)


def routed(case):
    """The layer as the oracle routes it: the groups of all ranks, and S1's parts of them."""
    layer, layout = case.layer, case.layout
    groups, taken = layer.groups * layout.dp, layer.capacity(TOKENS // layer.groups)
    if case.schedule == "s1" and layer.groups % layout.mp:
        groups, taken = groups * layout.mp, -(-taken // layout.mp)
    return replace(layer, groups=groups, capacity_factor=None, expert_capacity=taken)


def check(tools, case, folder, log):
    path = partial(os.path.join, folder)
    tokens = TOKENS * case.layout.dp
    with open(path("model.mlir"), "w") as file:
        graph = replace(case.layer, groups=case.layer.groups * case.layout.dp)
        file.write(harness.mlir_text(oracle.Model((graph,), tokens), "f64"))
    _, said = tools.call_for_all(log, "moe-compile", path("model.mlir"), f"--schedule={case.schedule}", case.layout.flag(),
                                 "-o", path("plan.so"))
    if "leaves this layer as it is" in said:
        raise harness.CaseFailed(f"expected the schedule in the layer\n{said}")
    tensors, result = oracle.draw_safe(oracle.Model((routed(case),), tokens), seed=1, margin=MARGIN["f64"])
    if not result.dropped():
        raise harness.CaseFailed("expected the oracle to drop tokens")
    safetensors.save(path("in.safetensors"), tensors, "f64")
    tools.call(log, "moe-run", path("plan.so"), "--verify", f"--load={path('in.safetensors')}",
               f"--save={path('out.safetensors')}")
    note = compare(safetensors.load(path("out.safetensors")), result.outputs, harness.TOLERANCE["f64"])
    return f"{note}, {result.dropped()} dropped"


# Messages of tools


@dataclass
class Said:
    flags: tuple
    want: list  # (capacity, groups) of the route of each layer


def said_cases():
    groups = "--parallel=dp=2,mp=2,ep=2"
    for schedule in ("baseline", "s2", "chunks:4", "s2+chunks:4"):
        flags = (groups, f"--schedule={schedule}")
        yield f"seq 200, {schedule}", Said(("--seq=200", *flags), [(64, 1)])
        yield f"seq 200, factor 1, {schedule}", Said(("--seq=200", "--capacity-factor=1", *flags), [(25, 1)])
    # An expert has room for all 12 tokens, so none is dropped.
    yield "seq 12", Said(("--seq=12", "--parallel=dp=1"), [(12, 1)])
    yield "batch 3", Said(("--seq=200", "--batch=3", groups), [(64, 3)])
    # S1's two members route the halves of a sequence, or whole sequences if these can be shared out.
    yield "s1", Said(("--seq=200", "--schedule=s1", groups), [(32, 1)])
    yield "s1, batch 4", Said(("--seq=200", "--batch=4", "--schedule=s1", groups), [(64, 2)])
    yield "routing groups", Said(("--seq=200", "--batch=3", "--routing-groups=2", groups), [(192, 1)])


def check_said(tools, case, folder, log):
    text = tools.call(log, "moe-compile", "switch-base-8", *case.flags, "--mode=forward", "--emit=spmd", "-o", "-")
    attribute = lambda line, name: int(m.group(1)) if (m := re.search(rf"\b{name} = (\d+) : i64", line)) else 1
    rank = text[: text.find("@reference(")] if "@reference(" in text else text
    got = [(attribute(line, "capacity"), attribute(line, "groups")) for line in rank.splitlines() if "moe.route " in line]
    if got != case.want:
        raise harness.CaseFailed(f"expected capacities and routing groups {case.want} but got {got}")
    return f"{got}"


def check_any(tools, case, folder, log):
    return (check_said if isinstance(case, Said) else check)(tools, case, folder, log)


def main():
    options = harness.parser(__doc__).parse_args()
    return harness.run_cases([*cases(), *said_cases()], partial(check_any, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
