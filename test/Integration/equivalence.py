#!/usr/bin/python3
"""Tests that compiled plans are equal to their one-rank reference, over a grid of layouts and layer options.

Layouts have 1 to 16 ranks, and mp, ep and esp in {1, 2, 4}. The options rotate over the layouts. Every pair of option values, and every
pair of an option and a group size, appears in some case. Each run has the same cases. A requested schedule has to be applied to every
layer.

With --pipelines each case also runs in chunks. Chunk counts, MPipeMoE's strategies and schedules of the layer rotate over the cases,
separately for those with a capacity and those without.

PPMoE's schedule has cases of its own, on its layouts: those with ep and esp inside mp.
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

OPTIONS = {
    "experts": (4, 8, 16),
    "top_k": (1, 2, 4),
    # Padded: the members of mp cannot share an expert's rows equally.
    "form": ("drops", "room", "padded", "dropless"),
    "routing": ("random", "skewed", "empty", "one"),
    # The steering of the routing: the bias of the choice alone, or that of the gate, which also saturates the scores.
    "steer": ("selection_bias", "gate_bias"),
    "activation": ("swiglu", "gelu"),
    "shared": ("none", "plain", "gated"),
    "biases": (False, True),
    "dtype": ("f32", "f64"),
    "score": ("softmax", "sigmoid"),
    "renormalize": (False, True),
    "weigh_inputs": (False, True),
    "expert_groups": (1, 2),
    "max_load": ("worst", "bounded"),
    "layers": (1, 2),
}
GROUPS = ("world", "mp", "ep", "esp")
DRAWS = {"quick": 1, "full": 8}
CHUNKS = (1, 2, 3, 4, 8)
STRATEGIES = ("none", "mpipe-s1", "mpipe-s2", "mpipe-s3", "mpipe-s4")
LAYERS = ("baseline", "s1", "s2", "s2+saa")


def layouts():
    sizes = (1, 2, 4)
    return [Layout(world, mp, ep, esp) for world in (1, 2, 4, 8, 16)
            for mp, ep, esp in itertools.product(sizes, repeat=3) if world % mp == 0 and world % (ep * esp) == 0]


def is_for_ppmoe(layout):
    """Whether all ranks that hold a layer's experts have the same tokens."""
    return layout.mp % (layout.ep * layout.esp) == 0


def is_overlapped(layout, o):
    """Whether SAA exchanges a layer's rows in phases: one for each block of mp that shares the layer's experts."""
    return layout.mp > 1 and layout.ep > 1 and layout.ep * layout.esp > layout.mp and o["form"] != "dropless"


def is_legal(o):
    """Whether the options make a layer."""
    if o["top_k"] > o["experts"] // o["expert_groups"]:
        return False  # one group of experts is chosen
    if o["max_load"] == "bounded" and o["form"] != "dropless":
        return False
    return not (o["routing"] == "random" and o["steer"] == "gate_bias")  # the same as with the other bias


def pairs_of(layout, o):
    values = [*o.items(), *((group, getattr(layout, group)) for group in GROUPS)]
    return {pair for pair in itertools.combinations(values, 2) if pair[0][0] in OPTIONS}


def choose_cases(draws, grid, seed=20240607, candidates=60):
    """(layout, options) pairs, and the number of pairs of values. Each layout of `grid` has `draws` cases, each the candidate with the
    most new pairs. Further cases follow until they cover every pair that random legal draws contain."""
    rng = random.Random(seed)

    def draw():
        while True:
            o = {name: rng.choice(values) for name, values in OPTIONS.items()}
            if is_legal(o):
                return o

    possible = set()
    for i in range(12000):
        possible |= pairs_of(grid[i % len(grid)], draw())
    cases, seen = [], set()

    def add_best(layout):
        best = max((draw() for _ in range(candidates)), key=lambda o: len(pairs_of(layout, o) - seen))
        gained = len(pairs_of(layout, best) - seen)
        cases.append((layout, best))
        seen.update(pairs_of(layout, best))
        return gained

    for _ in range(draws):
        for layout in grid:
            add_best(layout)
    while possible - seen:
        missing = min(possible - seen, key=repr)
        layout = next((l for l in rng.sample(grid, len(grid))
                       if all(getattr(l, name) == value for name, value in missing if name in GROUPS)))
        fixed = {name: value for name, value in missing if name in OPTIONS}
        o = next(o for o in iter(draw, None) if all(o[name] == value for name, value in fixed.items()))
        cases.append((layout, o))
        seen.update(pairs_of(layout, o))
    return cases, len(seen)


def pipelines(seed=20240607):
    """All (chunks, strategy, layer), ordered so that each quarter has every pair of chunks and strategy."""
    rng, order = random.Random(seed), []
    for turn in range(len(LAYERS)):
        pairs = [(chunks, strategy, LAYERS[(i + j + turn) % len(LAYERS)])
                 for i, chunks in enumerate(CHUNKS) for j, strategy in enumerate(STRATEGIES)]
        order += rng.sample(pairs, len(pairs))
    return order


def deal_pipelines(cases):
    """(case, pipeline) pairs, one for each case. The two forms of routing rotate separately."""
    turns = {dropless: itertools.cycle(pipelines()) for dropless in (False, True)}
    return [(case, next(turns[case[1]["form"] == "dropless"])) for case in cases]


def check_dealt(suite, dealt):
    """Checks that every pair of chunks and strategy occurs, and in the full suite every pipeline of both forms twice."""
    if len({pipeline[:2] for _, pipeline in dealt}) != len(CHUNKS) * len(STRATEGIES):
        raise ValueError("expected every pair of chunks and strategy")
    seen = [(pipeline, case[1]["form"] == "dropless") for case, pipeline in dealt]
    if suite == "full" and any(seen.count((pipeline, form)) < 2 for pipeline in pipelines() for form in (False, True)):
        raise ValueError("expected every pipeline twice with a capacity and twice without")


def schedule_of(pipeline):
    chunks, strategy, layer = pipeline
    return "+".join([layer, f"chunks:{chunks}"] + [strategy] * (strategy != "none"))


def describe(layout, o):
    words = [f"E {o['experts']}", f"k {o['top_k']}", o["form"], o["routing"] + " by " + o["steer"], o["activation"],
             f"shared {o['shared']}", "biases" if o["biases"] else "no biases", o["dtype"], o["score"]]
    words += ["renormalize"] * o["renormalize"] + ["weighed inputs"] * o["weigh_inputs"]
    words += ["2 expert groups"] * (o["expert_groups"] == 2)
    words += ["max_load"] * (o["max_load"] == "bounded") + ["2 layers"] * (o["layers"] == 2)
    return f"{layout}: {', '.join(words)}"


def capacity_factor(o, tokens):
    """Capacity factor of a layer. `tokens` are those of a data-parallel rank."""
    mean = o["top_k"] * tokens / o["experts"]
    # An odd number of rows, at most the mean if that is 1 or more, and half a row less, so that rounding up gives it.
    padded = max(1, (int(mean) - 1) | 1) - 0.5
    return {"drops": 0.5, "room": o["experts"] / o["top_k"], "padded": padded / mean, "dropless": None}[o["form"]]


def build_model(layout, o):
    # Each of the ranks gets a number of tokens that is no power of two.
    tokens = 6 * max(4, layout.world)
    layer = Layer(hidden=12, inner=8, experts=o["experts"], top_k=o["top_k"], activation=o["activation"],
                  score=o["score"], renormalize=o["renormalize"], weigh_inputs=o["weigh_inputs"],
                  routing_scale=1.5 if o["renormalize"] else 1.0, expert_groups=o["expert_groups"], group_score="top2" if o["score"] == "sigmoid" else "max",
                  gate_bias=True, selection_bias=o["steer"] == "selection_bias", expert_biases=o["biases"],
                  shared_inner=0 if o["shared"] == "none" else 12, shared_gate=o["shared"] == "gated",
                  capacity_factor=capacity_factor(o, tokens * layout.mp // layout.world))
    return Model((layer,) * o["layers"], tokens)


def steering(o):
    """Biases to load that steer the routing. The other tensors stay random."""
    experts, bias = o["experts"], np.zeros(o["experts"])
    if o["routing"] == "skewed":
        bias = np.linspace(1.0, -1.0, experts) * (0.3 if o["steer"] == "selection_bias" else 2.0)
    elif o["routing"] == "empty":
        bias[experts - 1] = -1e3
    elif o["routing"] == "one":
        bias[experts // 2] = 1e3
    if o["routing"] == "random":
        return {}
    return {f"layer{i}.{o['steer']}": bias for i in range(o["layers"])}


def compile_plan(tools, arguments, plan, log):
    _, stderr = tools.call_for_all(log, "moe-compile", *arguments, "-o", plan)
    left = [line for line in stderr.splitlines() if "leaves this layer as it is" in line]
    if left:
        raise harness.CaseFailed(f"expected the schedule in every layer\n{left[0]}")


def check_pipelined(plan, memory, pipeline, layers):
    """Checks a plan in chunks. `plan` is the text of the rank program, `memory` moe-run's report of its arenas."""
    chunks, strategy, _ = pipeline
    rank = plan[:plan.index("func.func @reference(")]
    for layer in (f"layer{i}" for i in range(layers)):
        for label in (layer, layer + ".grad"):
            launches = [line for line in rank.splitlines() if f'label = "{label}"' in line]
            got = {chunk for line in launches for chunk in re.findall(r"#moe\.chunk<(\d+ of \d+)>", line)}
            want = {f"{i} of {chunks}" for i in range(chunks)} if chunks > 1 else set()
            if got != want:
                raise harness.CaseFailed(f"expected chunks {sorted(want)} of {label} but got {sorted(got)}")
    for space, size in memory.items():
        if size["measured"] != size["planned"]:
            raise harness.CaseFailed(f"expected {size['planned']} bytes of {space} to be used but measured {size['measured']}")
    if (strategy in ("mpipe-s1", "mpipe-s2", "mpipe-s3")) != (memory["host_pinned"]["planned"] > 0):
        raise harness.CaseFailed(f"{strategy} but {memory['host_pinned']['planned']} bytes on the host")


def check(tools, compile_flags, run_flags, case, folder, log, pipeline=None):
    layout, o = case
    model = build_model(layout, o)
    forward = "--mode=forward" in compile_flags
    path = partial(os.path.join, folder)
    with open(path("model.mlir"), "w") as file:
        # Further passes serve rows beyond the reserve.
        max_load = 1.25 if o["max_load"] == "bounded" else None
        file.write(harness.mlir_text(model, o["dtype"], max_load))
    arguments = [path("model.mlir"), layout.flag(), *compile_flags]
    compile_plan(tools, arguments, path("plan.so"), log)
    plan, saa = "", "--schedule=s2+saa" in compile_flags
    if saa or pipeline:
        plan = tools.call(log, "moe-compile", *arguments, "--emit=plan", "-o", "-")
    if saa and ("phase = [" in plan) != is_overlapped(layout, o):
        raise harness.CaseFailed(f"expected {'' if is_overlapped(layout, o) else 'no '}exchanges in phases")
    load = []
    tensors = steering(o)
    if tensors:
        safetensors.save(path("in.safetensors"), tensors, o["dtype"])
        load = [f"--load={path('in.safetensors')}", "--allow-missing"]
    stdout = tools.call(log, "moe-run", path("plan.so"), "--verify", "--json", *run_flags, *load)
    try:
        report = json.loads(stdout)
        verify, memory = report["verify"], report["memory"]
        errors = {value["name"]: value["relative_error"] for value in verify["values"]}
    except (ValueError, KeyError, TypeError) as error:
        raise harness.CaseFailed(f"expected JSON with 'verify' and 'memory' on stdout: {error!r}\n{stdout[-500:]}") from None
    expected = {"y", "aux", *(() if forward else model.gradient_names())}
    if not expected <= errors.keys():
        raise harness.CaseFailed(f"not compared: {sorted(expected - errors.keys())}; compared: {sorted(errors)}")
    # An error that is no number is null, and also fails.
    bad = [value for value in verify["values"] if value["relative_error"] is None or not value["relative_error"] <= (value["bound"] or 0)]
    if bad or verify.get("ok") is not True:
        raise harness.CaseFailed(f"verify.ok is {verify.get('ok')}, errors over what rounding explains: {bad}")
    if pipeline:
        check_pipelined(plan, memory, pipeline, o["layers"])
    worst = max(errors, key=errors.get)
    return f"{len(errors)} tensors, worst {errors[worst]:.1e} ({worst})"


def check_dealt_case(tools, run_flags, dealt, folder, log):
    case, pipeline = dealt
    return check(tools, [f"--schedule={case[0].fit(schedule_of(pipeline))}"], run_flags, case, folder, log, pipeline)


def run_pipelines(tools, dealt, options):
    named = [(f"{case[0].fit(schedule_of(pipeline))}: {describe(*case)}", (case, pipeline)) for case, pipeline in dealt]
    return harness.run_cases(named, partial(check_dealt_case, tools, options.run_flag), options)


def check_ppmoe(tools, flags, run_flags, case, folder, log):
    """Checks training, and the forward alone, whose memory is planned differently."""
    notes = [check(tools, [*flags, f"--mode={mode}"], run_flags, case, folder, log) for mode in ("train", "forward")]
    return "; forward ".join(notes)


def run_ppmoe(tools, schedule, options):
    grid = [layout for layout in layouts() if is_for_ppmoe(layout)]
    cases, _ = choose_cases(DRAWS[options.suite], grid)
    named = [(describe(*case), case) for case in take_shard(cases, grid, options.shard)]
    return harness.run_cases(named, partial(check_ppmoe, tools, [f"--schedule={schedule}"], options.run_flag), options)


def run_schedule(tools, schedule, cases, options):
    """Exit status of all cases with one schedule."""
    if schedule and schedule.split("+")[0] == "ppmoe":
        return run_ppmoe(tools, schedule, options)
    flags = [f"--schedule={schedule}"] if schedule else []
    # S1 and S2 that are the baseline are not run again.
    named = [(describe(*case), case) for case in cases if not schedule or case[0].fit(schedule) == schedule]
    return harness.run_cases(named, partial(check, tools, flags, options.run_flag), options)


def take_shard(cases, grid, shard):
    """Cases of a shard. `cases` are draws for all of `grid`, one after the other. Each draw begins at another shard, so that every shard
    has every layout."""
    index, count = shard
    dealt = ((i % len(grid) + i // len(grid)) % count + 1 for i in range(len(cases)))
    return [case for case, to in zip(cases, dealt) if to == index]


def parse_shard(text):
    index, count = (int(part) for part in text.split("/"))
    if not 1 <= index <= count:
        raise ValueError
    return index, count


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--suite", choices=sorted(DRAWS), default="quick")
    parser.add_argument("--shard", type=parse_shard, default=(1, 1), metavar="I/N", help="the I-th of N parts, from 1")
    parser.add_argument("--schedule", action="append", metavar="S", help="run each case with this; may be repeated")
    parser.add_argument("--pipelines", action="store_true", help="run each case in chunks too; alone, only so")
    parser.add_argument("--run-flag", action="append", default=[], metavar="FLAG", help="pass this on to moe-run")
    parser.add_argument("--list", action="store_true", help="print the cases and run none")
    options = parser.parse_args()
    cases, pairs = choose_cases(DRAWS[options.suite], layouts())
    print(f"{len(cases)} cases, {len(layouts())} layouts, all {pairs} pairs of values"
          + (f"; shard {options.shard[0]} of {options.shard[1]}" if options.shard[1] > 1 else ""))
    dealt = deal_pipelines(cases)
    check_dealt(options.suite, dealt)
    cases, dealt = (take_shard(some, layouts(), options.shard) for some in (cases, dealt))
    if options.list:
        for case, pipeline in dealt:
            print(describe(*case), schedule_of(pipeline), sep="; ")
        return 0
    tools = harness.Tools(options.bin, options.backend)
    status = 0
    for schedule in options.schedule or ([] if options.pipelines else [None]):
        if schedule:
            print(f"schedule {schedule}", flush=True)
        status = max(status, run_schedule(tools, schedule, cases, options))
    if options.pipelines:
        print("in chunks", flush=True)
        status = max(status, run_pipelines(tools, dealt, options))
    return status


if __name__ == "__main__":
    sys.exit(main())
