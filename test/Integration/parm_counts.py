#!/usr/bin/python3
"""Counts the FLOPs and bytes of Parm's schedules in the plan and again in the run, and compares both with the paper's formulas.

These are for a rank, in bytes: ETM = k f B L M, X = ETM N_ESP, y = X / N_MP, and BLM the rank's tokens. A payload is as in the paper: for
all_to_all one rank's send buffer, copies counted; for all_gather the gathered values; for all_reduce and reduce_scatter the input.
Everything is compared exactly. Only the exchanges that `forward` and `backward` list may occur.
"""

import itertools
import json
import math
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness
from oracle import Layer, Model

SCHEDULES = ("baseline", "s1", "s2", "s2+saa")
BYTES = 4
TOKENS = 64  # tokens of a data-parallel rank
LAYER = Layer(hidden=12, inner=8, experts=8, top_k=2, activation="swiglu", capacity_factor=1.25)
T = LAYER.capacity(TOKENS)  # 20, which is divisible by every mp, and ETM is not BLM
BLM = TOKENS * LAYER.hidden * BYTES
ETM = LAYER.experts * T * LAYER.hidden * BYTES


class Layout(harness.Layout):
    def __str__(self):
        return f"{super().__str__()} edp {self.world // self.fused}"

    @property
    def fused(self):
        return self.ep * self.esp

    def groups(self):
        """(size, stride) of each group."""
        return {"mp": (self.mp, 1), "dp": (self.dp, self.mp), "esp": (self.esp, 1), "ep": (self.ep, self.esp),
                "ep_esp": (self.fused, 1), "edp": (self.world // self.fused, self.fused)}

    def phases(self):
        """Phases of SAA. Each brings the slices of whole ESP groups, and can be gathered over mp as one piece."""
        return self.fused // max(self.mp, self.esp) if self.mp > 1 and self.fused % self.mp == 0 else 1


def layouts():
    sizes = (1, 2, 4)
    for mp, ep, esp in itertools.product(sizes, sizes, sizes):
        # Takes the smallest world. Some layouts are in a larger world, with more ranks of dp and edp: those without mp, in which S1 and S2
        # pause nothing (Eq. 2), and a few in a world that is no power of two.
        if mp == 1 and 1 < ep * esp <= 8:
            yield Layout(8, mp, ep, esp)
        if mp > 1:
            yield Layout(max(4, ep * esp), mp, ep, esp)
        if mp == 4 and ep * esp == 4:
            yield Layout(12, mp, ep, esp)


# The paper's formulas


def by_group(layout, terms):
    """Payloads by (collective, (size, stride) of the group), summed. Groups of one rank vanish."""
    payloads = Counter()
    for collective, group, payload in terms:
        if layout.groups()[group][0] > 1:
            payloads[collective, layout.groups()[group]] += payload
    return payloads


def sum_of_shards(layout):
    # Split takes a rank's part of the sum. Without an exchange between them the two are one reduce_scatter.
    return "all_reduce" if layout.ep > 1 else "reduce_scatter"


def exchanges(layout, schedule):
    """Exchanges of Eq. 11 and 7. SAA moves as much as S2."""
    y = ETM * layout.esp // layout.mp
    gathered = BLM if schedule == "s1" else ETM
    return [("all_to_all", "ep_esp", 2 * y), ("all_gather", "mp", gathered)]


def forward(layout, schedule):
    x = ETM * layout.esp
    # The auxiliary loss is a mean over the groups of tokens. In S1 each member of mp has its own.
    aux = [("all_reduce", "dp", BYTES)] + [("all_reduce", "mp", BYTES)] * (schedule == "s1")
    if schedule != "baseline":
        return by_group(layout, exchanges(layout, schedule) + aux)
    # Eq. 1.
    return by_group(layout, [("all_gather", "esp", x), ("all_to_all", "ep", 2 * x), (sum_of_shards(layout), "esp", x), *aux])


def backward(layout, schedule):
    x, layer = ETM * layout.esp, LAYER
    # Sums of the parameters' gradients. In S1 the gate of each member of mp has seen only its own tokens.
    gate = layer.hidden * layer.experts * BYTES
    w1 = layer.experts // layout.ep * layer.hidden * (2 * layer.inner // layout.esp) * BYTES
    w2 = layer.experts // layout.ep * (layer.inner // layout.esp) * layer.hidden * BYTES
    gradients = [("all_reduce", "dp", gate), ("all_reduce", "edp", w1 + w2)]
    gradients += [("all_reduce", "mp", gate)] * (schedule == "s1")
    if schedule != "baseline":
        return by_group(layout, exchanges(layout, schedule) + gradients)
    # The members of mp compute the same outputs, so each has 1/N_MP of their cotangent. The gradients that reach the tokens and the weights
    # of the choices through the experts are summed over mp: BLM and BLk. The paper leaves this out.
    replicas = [("all_reduce", "mp", BLM), ("all_reduce", "mp", TOKENS * layer.top_k * BYTES)]
    return by_group(layout, [("all_gather", "esp", x), ("all_to_all", "ep", 2 * x), ("reduce_scatter", "esp", x),
                             *replicas, *gradients])


def expert_flops(layout, schedule, mode):
    """FLOPs of one rank: two products of [E/N_EP, P T, .], one with both halves of w1. The backward has two for each."""
    products = 3 * 2 * LAYER.experts * T * LAYER.hidden * LAYER.inner
    share = 1 if schedule == "baseline" else layout.mp
    return products * (3 if mode == "train" else 1) // share


def received(collective, payload, size, world):
    """Bytes that all ranks receive (docs/PlanFormat.md): (n-1)/n of the payload for each, twice in an all_reduce."""
    passes = 2 if collective == "all_reduce" else 1
    return passes * (size - 1) * payload * (world // size)


# Contents of a plan


@dataclass
class Launch:
    kernel: str
    parameters: list
    group: str
    members: tuple  # (size, stride)
    is_collective: bool
    flops: float
    payload: int
    inputs: list  # bytes
    outputs: list

    def is_exchange(self):
        return self.kernel == "all_to_all"


def parse_bytes(types):
    """Bytes of each memref in `types`."""
    shapes = re.findall(r"memref<((?:\d+x)*)[fi]32", types)
    return [BYTES * math.prod(int(size) for size in shape.split("x")[:-1]) for shape in shapes]


LAUNCH = re.compile(r'plan\.launch "(?P<kernel>\w+)"\(.*?\) -> \(.*?\) (?:params \[(?P<parameters>.*?)\] )?'
                    r'(?P<collective>collective )?(?:over <"(?P<group>\w+)", (?P<size>\d+), (?P<stride>\d+)> )?'
                    r'on "[\w.]+" \{(?P<attributes>.*)\} : \((?P<inputs>.*?)\) -> (?P<outputs>.*)$')


def parse_launch(line):
    match = LAUNCH.search(line)
    if not match:
        raise harness.CaseFailed(f"expected a plan.launch: {line.strip()}")
    cost = re.search(r"#plan\.cost<(.*?)>", match["attributes"])[1]
    number = lambda name: float((re.search(rf"\b{name} = ([\d.e+]+)", cost) or [0, 0])[1])
    return Launch(kernel=match["kernel"], parameters=[float(text) for text in (match["parameters"] or "").split(", ") if text],
                  group=match["group"], members=(int(match["size"] or 1), int(match["stride"] or 1)),
                  is_collective=bool(match["collective"]), flops=number("flops"), payload=int(number("payload")),
                  inputs=parse_bytes(match["inputs"]), outputs=parse_bytes(match["outputs"]))


@dataclass
class Plan:
    launches: list
    arena: int

    def __init__(self, text):
        program = text[text.index("func.func @rank("):text.index("func.func @reference(")]
        self.launches = [parse_launch(line) for line in program.splitlines() if "plan.launch" in line]
        self.arena = int(re.search(r"plan\.arenas = \{device = (\d+)", program)[1])

    def collectives(self):
        # Without --verify assume_replicated does not run.
        return [launch for launch in self.launches if launch.is_collective and launch.kernel != "assume_replicated"]

    def payloads(self):
        payloads = Counter()
        for launch in self.collectives():
            payloads[launch.kernel, launch.members] += launch.payload
        return payloads

    def expert_flops(self):
        return sum(launch.flops for launch in self.launches if launch.kernel.startswith("grouped_matmul"))


# Checks


def expect(what, got, expected):
    if got != expected:
        raise harness.CaseFailed(f"{what}: expected {expected} but got {got}")


def check_payloads(layout, schedule, plans):
    """Checks the forward, and the backward, which is the part that only training has."""
    there = plans["forward"].payloads()
    expect(f"{schedule} forward", there, forward(layout, schedule))
    both = plans["train"].payloads()
    both.subtract(there)
    expect(f"{schedule} backward", Counter({key: payload for key, payload in both.items() if payload}),
           backward(layout, schedule))


def check_run(layout, plan, run, trace):
    """Checks that the measured bytes of a run equal the plan's."""
    calls, payloads = Counter(), Counter()
    for launch in plan.collectives():
        key = launch.kernel, launch.group, launch.members[0]
        calls[key] += 1
        payloads[key] += launch.payload
    planned = {(kernel, group): (calls[kernel, group, size], received(kernel, payload, size, layout.world))
               for (kernel, group, size), payload in payloads.items()}
    measured = {(entry["collective"], entry["group"]): (entry["calls"], entry["bytes_received"])
                for entry in run["collectives"]}
    expect("calls and bytes received", measured, planned)
    expect("flops", run["flops"], layout.world * sum(launch.flops for launch in plan.launches))
    expect("arena of the run", run["arena_bytes"]["device"], plan.arena)
    experts = [event["args"]["flops"] for event in trace["traceEvents"]
               if event["ph"] == "X" and event["name"].startswith("grouped_matmul")]
    expect("flops of the experts in the run", sum(experts), layout.world * plan.expert_flops())


def check_dump(layout, plan, passes):
    """Checks that the copies for an expert's shards are sent, and counted, from one buffer."""
    expect("launches of dump", [launch.kernel for launch in plan.launches if launch.kernel == "dump"], [])
    exchanges = [launch for launch in plan.launches if launch.is_exchange()]
    copies = []
    for launch in exchanges:
        _, _, copy, phase, phases = launch.parameters
        copies.append(copy)
        expect("bytes of the exchange's input times its copies", launch.inputs[0] * copy, launch.payload * phases)
    if layout.esp == 1:
        return expect("copies", set(copies) - {1}, set())
    # There is an exchange to the experts with copies, and one back, again in the backward.
    expect("exchanges with copies", [copy for copy in copies if copy != 1], [layout.esp] * passes)
    y = ETM * layout.esp // layout.mp
    for launch in plan.launches:
        if not launch.is_collective and y in launch.outputs and y // layout.esp in launch.inputs:
            raise harness.CaseFailed(f"'{launch.kernel}' copies {y // layout.esp} bytes to {y}")


def check_phases(layout, schedule, plan, passes):
    """Checks SAA's phases. Other schedules have none."""
    phases = layout.phases() if schedule == "s2+saa" else 1
    found = [launch.parameters[4] for launch in plan.launches if launch.is_exchange() and launch.parameters[4] != 1]
    expect(f"{schedule}: phases", found, [phases] * phases * passes if phases > 1 else [])
    return phases


def compile_and_run(tools, layout, schedule, mode, folder, log):
    """(plan, --json, --trace)"""
    path = partial(os.path.join, folder)
    arguments = [path("model.mlir"), layout.flag(), f"--schedule={schedule}", f"--mode={mode}"]
    tools.call(log, "moe-compile", *arguments, "--emit=plan", "-o", path("plan.mlir"))
    tools.call(log, "moe-compile", path("plan.mlir"), "-o", path("plan.so"))
    with open(path("plan.mlir")) as file:
        plan = Plan(file.read())
    run = json.loads(tools.call(log, "moe-run", path("plan.so"), "--json", f"--trace={path('trace.json')}"))
    with open(path("trace.json")) as file:
        return plan, run, json.load(file)


def check_dropless(tools, layout, folder, log):
    """Every choice is computed, so FLOPs also fall exactly by N_MP. The routing decides the rows of each expert. The runtime's measured
    bytes are near the compiler's bytes for each row times the counted rows."""
    with open(os.path.join(folder, "model.mlir"), "w") as file:
        layer = replace(LAYER, capacity_factor=None)
        file.write(harness.mlir_text(Model((layer,), TOKENS * layout.dp, residual=False), "f32"))
    flops = {}
    for schedule in ("baseline", "s1", "s2"):
        _, run, trace = compile_and_run(tools, layout, schedule, "forward", folder, log)
        flops[schedule] = sum(event["args"]["flops"] for event in trace["traceEvents"]
                              if event["ph"] == "X" and event["name"].startswith("grouped_matmul"))
        for group, sent in run["bytes"].items():
            received = sum(entry["bytes_received"] for entry in run["collectives"] if entry["group"] == group)
            if not 0.8 * received <= sent <= 1.25 * received:
                raise harness.CaseFailed(f"dropless {schedule}: {sent} bytes sent over {group} but {received} received")
    for schedule in ("s1", "s2"):
        expect(f"dropless {schedule}: flops of the experts", flops[schedule] * layout.mp, flops["baseline"])


def check(tools, layout, folder, log):
    if layout.mp > 1 and layout.esp > 1:
        check_dropless(tools, layout, folder, log)
    with open(os.path.join(folder, "model.mlir"), "w") as file:
        file.write(harness.mlir_text(Model((LAYER,), TOKENS * layout.dp, residual=False), "f32"))
    arenas, phases = {}, 1
    for schedule in SCHEDULES:
        plans = {}
        for passes, mode in ((1, "forward"), (2, "train")):
            plan, run, trace = compile_and_run(tools, layout, schedule, mode, folder, log)
            check_run(layout, plan, run, trace)
            expect(f"{schedule} {mode}: flops of the experts", plan.expert_flops(), expert_flops(layout, schedule, mode))
            arenas[schedule, mode] = plan.arena
            phases = max(phases, check_phases(layout, schedule, plan, passes))
            if schedule != "baseline":
                check_dump(layout, plan, passes)
                compare_arenas(layout, schedule, mode, arenas)
            plans[mode] = plan
        check_payloads(layout, schedule, plans)
    return (f"exchanged and gathered forward: baseline {sum(forward(layout, 'baseline').values())} bytes, "
            f"s1 {sum(forward(layout, 's1').values())}, s2 {sum(forward(layout, 's2').values())}; SAA in {phases}; arena in "
            f"training {', '.join(str(arenas[schedule, 'train']) for schedule in SCHEDULES)}")


def compare_arenas(layout, schedule, mode, arenas):
    """Expects smaller arenas with mp, and arenas that are not larger if there is an exchange. Other cases have no bound: the baseline's
    reduce_scatter never holds the X bytes from an expert's shards apart from their outputs, while the all_to_all in its place does."""
    ours, baseline = arenas[schedule, mode], arenas["baseline", mode]
    if layout.mp > 1 and ours >= baseline or layout.mp == 1 and layout.ep > 1 and ours > baseline:
        raise harness.CaseFailed(f"{schedule} {mode}: expected an arena of less than {baseline} bytes but got {ours}")


def main():
    options = harness.parser(__doc__).parse_args()
    cases = [(str(layout), layout) for layout in layouts()]
    return harness.run_cases(cases, partial(check, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
