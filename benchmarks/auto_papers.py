#!/usr/bin/env python3
"""Compares the choice of --schedule=auto with each paper's own schedule, on the paper's grid and profile of its cluster.

Usage: auto_papers.py --bin DIR [--svg=FILE] [--json=FILE] [--papers=Parm,PPMoE,MPipeMoE,FasterMoE] [--all].

  Parm       layers of Table III on its testbeds, against parm-auto (Algorithm 1): a sample of the 5832, or all of them with --all
  PPMoE      the whole models of Table 2, with its groups, batches (those of ppmoe.py's `plan`), pipelines and optimizer. A row's name says
             its own schedule: `ppmoe` for PPMoE, the baseline for DPMoE. Dense models have nothing to choose
  MPipeMoE   the layers of Fig. 8, 9, 12 and 13, against PipeMoE (chunks:auto) and MPipeMoE (chunks:auto+mpipe-auto). Each has the order
             of launches that the paper describes, and once more a searched one, on devices with and without tensor cores
  FasterMoE  a MoE layer of each of its models, with synthetic routing of each iteration that fastermoe.py takes, against its shadows and
             its smart schedule together. The gate is left out, because it changes what tokens choose

Grids and figures are those of these papers' benchmarks. Both steps are simulated in closed form, as the search simulates them, with
everything that the plan does, such as gradient sums over data-parallel ranks. `auto` may use the device's memory, or as much memory as the
paper's plan if that needs more. MPipeMoE exists to need less memory, so against it `auto` may use no more than its plan.

FasterMoE's plans are also simulated link by link, as in fastermoe.py. The search did not use these times, so no claim is made about them.
Exit status 1: somewhere `auto` is slower than a paper.
"""
import argparse
import csv
import json
import math
import os
import re
import sys
import tempfile
from collections import Counter
from typing import NamedTuple

import fastermoe
import mpipemoe
import ppmoe
from layers import COLORS, K, MODELS, Axes, Svg, Tools, load_profile, report, run

# FasterMoE's schedule has 12 shadows and a number of groups. The search takes shadows and groups in their usual numbers.
ALLOWED = {"FasterMoE": 0.05}
# Largest relative difference between two sums of the same seconds.
ROUNDING = 1e-9
# Number of Parm's layers that are compared without --all.
LAYERS = 729


class Case(NamedTuple):
    """A paper's schedule and the chosen one for the same layer or model, with the seconds of a step."""

    title: str
    own: str
    own_s: float
    auto: str
    auto_s: float

    @property
    def gain(self):
        return self.own_s / self.auto_s


class Group(NamedTuple):
    """Cases whose figures are in one row."""

    title: str
    cases: list
    claimed: bool = True


# ------------------------------------------------------------------------------------------------------------------- Parm


def compare_parm(options, folder):
    path = os.path.join(folder, "parm.csv")
    run([os.path.join(options.bin, "parm_sweep"), f"--search={path}", f"--limit={0 if options.all else LAYERS}"])
    with open(path) as file:
        cases = [Case(row["layer"], row["own"], float(row["own_s"]), row["auto"], float(row["auto_s"])) for row in csv.DictReader(file)]
    cluster = lambda case: " ".join(case.title.split()[:2])
    return [Group(f"testbed {name}", [case for case in cases if cluster(case) == name]) for name in dict.fromkeys(map(cluster, cases))]


# ------------------------------------------------------------------------------------------------------------------ PPMoE


def compare_row(bench, row):
    batch, flags = bench.choose_batch(row)
    count = ppmoe.count_micro_batches(row)
    own = bench.simulate(row, batch, count, *flags)
    limit = int(own["memory"]["device_bytes"]) if own["fits"] else 0
    auto = bench.simulate(row, batch, count, *flags, f"--memory-limit={limit}", schedule="auto")
    return Case(f"{row.title}, {batch} sequences", own["schedule"], own["step_s"], auto["schedule"], auto["step_s"])


def compare_ppmoe(options, folder):
    bench = ppmoe.Bench(options.bin, folder)
    return [Group(kind, [compare_row(bench, row) for row in ppmoe.ROWS if row.kind == kind]) for kind in ("PPMoE", "DPMoE", "Dense")]


# --------------------------------------------------------------------------------------------------------------- MPipeMoE


def get_layers():
    """Model, thousands of tokens of a rank, and ranks, from Fig. 12, Fig. 13, and Fig. 8 with 9."""
    layers = [("GPT3-XL", size, 64) for size in mpipemoe.SIZES]
    layers += [("GPT3-XL", size, ranks) for ranks in mpipemoe.RANKS for size in mpipemoe.TOKENS]
    layers += [(name, size, 64) for name in MODELS for size in mpipemoe.TOKENS]
    return list(dict.fromkeys(layers))


def predict_layer(machine, layer, schedule, *flags):
    """Schedule and seconds. In a search among a few schedules, also the bytes of a rank."""
    name, size, ranks = layer
    path = machine.tools.path("auto.json")
    text = machine.tools.compile(MODELS[name], size * K, ranks, schedule, *flags, "--emit=plan", "-o", "-", f"--report={path}",
                                 cluster=machine.profile)
    taken = re.search(r'memory = (\d+) : i64, [^{}]*verdict = "chosen"', text)
    with open(path) as file:
        prediction = json.load(file)["prediction"]
    return prediction["schedule"], prediction["step_s"], int(taken.group(1)) if taken else None


def compare_layer(machine, layer, schedule, order):
    own, own_s, needed = predict_layer(machine, layer, schedule, f"--order={order}")
    limit = needed if "mpipe" in schedule else max(needed, load_profile(machine.profile)["device"]["memory_bytes"])
    auto, auto_s, _ = predict_layer(machine, layer, "auto", f"--memory-limit={limit}")
    name, size, ranks = layer
    return Case(f"{name}, {size}k tokens, {ranks} ranks, {machine.title}", own, own_s, auto, auto_s)


def compare_mpipemoe(options, folder):
    machines = mpipemoe.make_machines(Tools(options.bin, folder))
    schedules = {"PipeMoE": "chunks:auto", "MPipeMoE": "chunks:auto+mpipe-auto"}
    return [Group(f"{name}, {text}", [compare_layer(machine, layer, schedule, order) for machine in machines for layer in get_layers()])
            for name, schedule in schedules.items() for order, text in mpipemoe.ORDERS.items()]


# -------------------------------------------------------------------------------------------------------------- FasterMoE


def compare_iteration(bench, name, layer, own, seed, iteration):
    """Compares in closed form and link by link."""
    _, ranks, _, _, cluster = fastermoe.MODELS[name]
    path, _ = bench.write_trace(own, cluster, ranks, fastermoe.ITERATION_COUNT, seed)
    with open(path) as file:
        line = next(line for line in file if json.loads(line)["iteration"] == iteration)
    trace = fastermoe.write(bench.path("iteration.jsonl"), line)
    limit = load_profile(cluster)["device"]["memory_bytes"]
    auto = bench.compile(layer, ranks, "auto", cluster, bench.path("auto.mlir"), "--emit=plan", f"--routing={trace}", f"--memory-limit={limit}")
    steps = {network: [fastermoe.simulate(bench, plan, cluster, trace, iteration, network) for plan in (own, auto)]
             for network in ("closed-form", "link-level")}
    return [Case(f"{name}, iteration {iteration}", ours["schedule"], ours["step_s"], best["schedule"], best["step_s"])
            for ours, best in steps.values()]


def compare_fastermoe(options, folder):
    bench, groups = fastermoe.Bench(options.bin, folder), {}
    schedule, order = fastermoe.SCHEDULES["both"]
    for name, (_, ranks, hidden, alpha, cluster) in fastermoe.MODELS.items():
        layer = bench.write_layer(hidden, alpha, ranks, ranks)
        own = bench.compile(layer, ranks, schedule.format(group=fastermoe.group_of(cluster)), cluster, bench.path("own.mlir"), "--emit=plan",
                            f"--order={order}")
        pairs = [compare_iteration(bench, name, layer, own, seed, iteration) for seed, iteration in enumerate(fastermoe.ITERATIONS)]
        for network, cases in zip(("", ", link by link"), zip(*pairs)):
            groups.setdefault(cluster.removeprefix("fastermoe-") + network, []).extend(cases)
    return [Group(title, cases, claimed="link" not in title) for title, cases in groups.items()]


# ---------------------------------------------------------------------------------------------------------------- figures


def get_mean(cases):
    """Geometric mean of the gains."""
    return math.exp(sum(math.log(case.gain) for case in cases) / len(cases))


def is_slower(case):
    return case.gain < 1 - ROUNDING


def print_row(title, cases):
    faster, slower = sum(case.gain > 1 + ROUNDING for case in cases), sum(map(is_slower, cases))
    share = lambda count: f"{count / len(cases):>8.1%}"
    most = max(cases, key=lambda case: case.gain)
    print(f"{title:<36}{len(cases):>6}{share(len(cases) - faster - slower)}{share(faster)}{share(slower)}{min(case.gain for case in cases):>8.3f}"
          f"{get_mean(cases):>8.3f}{most.gain:>8.3f}  {most.title}: {most.auto} for {most.own}")


def print_paper(name, groups):
    """Prints a paper's gains. Returns True if no claimed case is slower."""
    claimed = [case for group in groups if group.claimed for case in group.cases]
    print(f"\n{name}: speed-up of the chosen schedule over the paper's own\n")
    print(f"{'':<36}{'cases':>6}{'same':>8}{'faster':>8}{'slower':>8}{'least':>8}{'mean':>8}{'most':>8}  case of the most")
    for group in groups:
        print_row(group.title, group.cases)
    if sum(group.claimed for group in groups) > 1:
        print_row("all" if len(claimed) == sum(len(group.cases) for group in groups) else "all in closed form", claimed)
    chosen = Counter(case.auto for case in claimed).most_common()
    print(f"\nchosen: {', '.join(f'{schedule} {count}' for schedule, count in chosen)}")
    slower = sorted(filter(is_slower, (case for group in groups for case in group.cases)), key=lambda case: case.gain)
    for case in slower[:20]:
        print(f"      {case.gain:.4f}  {case.title}: {case.auto} {1e3 * case.auto_s:.3f} ms for {case.own} {1e3 * case.own_s:.3f} ms")
    least, allowed = min(case.gain for case in claimed), ALLOWED.get(name, 0)
    claim = f"never more than {allowed:.0%} slower" if allowed else "never slower"
    return report(least >= 1 - allowed - ROUNDING, f"{name}: {claim} in {len(claimed)} cases: least {least:.6f}, geometric mean {get_mean(claimed):.3f}")


# ---------------------------------------------------------------------------------------------------------------- picture


def get_ticks(low, high):
    """About five round numbers from at most `low` to at least `high`."""
    step = next(step for exponent in range(-3, 4) for step in (10**exponent, 2 * 10**exponent, 5 * 10**exponent) if high - low <= 5 * step)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]


def draw_paper(svg, left, top, name, groups):
    width, height = 380, 190
    gains = [case.gain for group in groups for case in group.cases]
    axes = Axes(svg, left, top, width, height, get_ticks(min(1, *gains), max(gains)))
    svg.text(left + width / 2, top - 10, f"{name}, {len(gains)} comparisons", font_weight="bold")
    svg.line([(left, axes.y(1)), (left + width, axes.y(1))], "#555", stroke_dasharray="4 3")
    for i, group in enumerate(groups):
        color, ordered = COLORS[i % len(COLORS)], sorted(group.cases, key=lambda case: case.gain)
        places = [(left + width * (j + 0.5) / len(ordered), axes.y(case.gain)) for j, case in enumerate(ordered)]
        svg.line(places, color, stroke_width=1.5)
        if len(ordered) <= 100:
            for case, (x, y) in zip(ordered, places):
                svg.marker(i % 4, x, y, color, f"{case.title}: {case.auto} {case.gain:.3f}")
        svg.rect(left, top + height + 14 + 18 * i, 10, 10, color)
        svg.text(left + 15, top + height + 23 + 18 * i, f"{group.title}: {get_mean(group.cases):.3f}", "start")


def draw(papers, path):
    columns = min(2, len(papers))
    svg = Svg(20 + 450 * columns, 50 + 320 * math.ceil(len(papers) / columns))
    middle = 10 + 225 * columns
    svg.text(middle, 22, "--schedule=auto against the paper's own schedule", font_size="1.15em")
    svg.text(middle, 40, "how many times as fast a step is, cases in order; below, geometric means")
    for i, (name, groups) in enumerate(papers.items()):
        draw_paper(svg, 55 + 450 * (i % columns), 80 + 320 * (i // columns), name, groups)
    svg.write(path)


PAPERS = {"Parm": compare_parm, "PPMoE": compare_ppmoe, "MPipeMoE": compare_mpipemoe, "FasterMoE": compare_fastermoe}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--svg", help="write the gains of all cases")
    parser.add_argument("--json", help="write all cases")
    parser.add_argument("--papers", default=",".join(PAPERS), type=lambda text: text.split(","))
    parser.add_argument("--all", action="store_true", help="all of Parm's layers")
    options = parser.parse_args()
    papers, ok = {}, True
    for name in options.papers:
        with tempfile.TemporaryDirectory() as folder:
            papers[name] = PAPERS[name](options, folder)
        ok &= print_paper(name, papers[name])
        sys.stdout.flush()
    if options.svg:
        draw(papers, options.svg)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({name: {group.title: [case._asdict() for case in group.cases] for group in groups} for name, groups in papers.items()}, file, indent=1)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
