#!/usr/bin/env python3
"""MPipeMoE's evaluation (IPDPS 2023, Fig. 8, 9, 12 and 13) on a simulated cluster, beside the paper's measurements.

Usage: mpipemoe.py --bin DIR [--svg=PREFIX] [--json=FILE] [--parts=n,strategies,speedups,why]. Nothing is run. Every step is
predicted in closed form on share/clusters/mpipemoe-a100, 8 nodes of 8 A100. A step is forward and backward of one layer with one expert
a rank (E = N), top-1, capacity factor 1, f32, without the optimizer.

  n           GPT3-XL on 64 ranks: the best number of chunks n by tokens of a rank B, beside the paper's thresholds
  strategies  S1 to S4 by ranks N and B in four chunks, beside the choice of Eq. 10 and the paper's ranking
  speedups    step and memory of PipeMoE (best n) and MPipeMoE (that n, and reuse) against FastMoE and FasterMoE
  why         causes of the results: the same with exchanges that start in no time, with links that nothing slows, ...

Both ways to compute f32 are predicted. PyTorch 1.9 uses tensor cores (tf32) on this device unless told otherwise. For this way, a copy of
the profile has the entry for tf32 in place of the entry for f32. For f32 without tensor cores, the profile is used as it is.

The baseline (FastMoE) is in program order. Two chunks (FasterMoE's fixed split, without its shadowing) are in FasterMoE's order. PipeMoE
and MPipeMoE are in `mpipemoe`, the paper's order, and once more in `search`, the compiler's own. Memory is all memory that a rank needs:
parameters, gradients, Adam's moments, the arena, and the layer's input and output with their gradients.

Exit status 1 if a claim fails. Claims are about properties that reuse and pipelining must have, not about the paper's figures. Differences
from those are only printed.
"""
import argparse
import json
import math
import os
import re
import sys
import tempfile

from layers import COLORS, K, MODELS, Axes, Svg, Tools, load_profile, remove_start_ups, report, write_profile, write_tf32_profile
from mpipemoe_memory import get_arena, get_bytes, get_parameters

SIZES = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 22, 24, 32, 40, 48, 64]
CHUNKS = [1, 2, 4, 8]
STRATEGIES = ["s1", "s2", "s3", "s4"]
RANKS = [8, 16, 32, 64]
TOKENS = [4, 8, 16, 32]
ORDERS = {"mpipemoe": "the paper's order", "search": "order by search"}


def name_of(chunks, strategy=""):
    return (f"chunks:{chunks}" if chunks > 1 else "baseline") + (f"+mpipe-{strategy}" if strategy else "")


class Machine:
    """A profile, and the predictions on it."""

    def __init__(self, tools, title, profile, peak):
        self.tools, self.title, self.profile, self.peak = tools, title, profile, peak
        self.known = {}

    def predict(self, model, size, schedule, order, ranks=64):
        """Seconds and bytes of a step with `size` * 1024 tokens on each rank."""
        key = model, size, schedule, order, ranks
        if key not in self.known:
            self.known[key] = self.compile(*key)
        return self.known[key]

    def compile(self, model, size, schedule, order, ranks):
        path = self.tools.path("report.json")
        text = self.tools.compile(model, size * K, ranks, schedule, f"--order={order}", "--emit=plan", "-o", "-", f"--report={path}",
                                  cluster=self.profile)
        plan = text[text.index("func.func @rank("):text.index("func.func @reference(")]
        with open(path) as file:
            prediction = json.load(file)["prediction"]
        products = [kernel for kernel in prediction["kernels"] if kernel["kernel"].startswith("grouped_matmul")]
        exchanges = [kernel for kernel in prediction["kernels"] if kernel["kernel"].startswith("all_to_all")]
        forward = max(op["end_s"] for op in prediction["ops"] if op["kernel"] == "combine" and not op["label"].endswith(".grad"))
        early = sum(op["begin_s"] < forward for op in prediction["ops"]
                    if op["label"].endswith(".grad") and op["kernel"].startswith(("grouped_matmul", "all_to_all")))
        arguments = re.findall(r"%arg\d+: memref<([^,>]*)>", plan[:plan.index("plan.arenas")])
        return {"seconds": prediction["step_s"], "compute": prediction["mean"]["compute_s"],
                "communication": prediction["mean"]["communication_s"], "copy": prediction["mean"]["copy_s"],
                "exposed": prediction["mean"]["exposed_communication_s"], "early": early,
                "exchange": sum(kernel["busy_s"] for kernel in exchanges), "exchanges": sum(kernel["launches"] for kernel in exchanges),
                "efficiency": sum(kernel["flops"] for kernel in products) / sum(kernel["busy_s"] for kernel in products) / self.peak,
                "bytes": sum(map(get_bytes_of, arguments)) + get_arena(plan, "device") + 2 * get_parameters(plan)}

    def get_seconds(self, *key, **named):
        return self.predict(*key, **named)["seconds"]

    def get_best(self, model, size, order, counts=CHUNKS):
        return min(counts, key=lambda n: self.get_seconds(model, size, name_of(n), order))

    def get_equation10(self, model, size, chunks, ranks):
        """Seconds by strategy, from Eq. 10."""
        text = self.tools.compile(model, size * K, ranks, f"{name_of(chunks)}+mpipe-auto", "--order=mpipemoe", "--emit=plan", "-o", "-",
                                  cluster=self.profile)
        found = re.findall(r'equation10 = ([\d.eE+-]+) : f64, (?:\w+ = [^,]*, )*schedule = "[^"]*mpipe-(s\d)"', text[:text.index("func.func")])
        return {strategy: float(seconds) for seconds, strategy in found}


def make_machines(tools):
    """Machines for both ways to compute f32."""
    return [Machine(tools, "with tensor cores (tf32)", write_tf32_profile(tools.path("tf32.json")), 156e12),
            Machine(tools, "without tensor cores (f32)", "mpipemoe-a100", 19.5e12)]


def get_bytes_of(kind):
    """Bytes of a tensor or a scalar."""
    return get_bytes(kind) if "x" in kind else get_bytes("1x" + kind)


# ---------------------------------------------------------------------------------------------------------------- best n


def get_paper_n(size):
    """The paper's best n (Fig. 12)."""
    return 2 if size < 8 else 4 if size <= 22 else 8


def find_best(machine, order):
    return {size: machine.get_best(MODELS["GPT3-XL"], size, order) for size in SIZES}


def print_n(machine):
    model = MODELS["GPT3-XL"]
    print(f"\nBest n, GPT3-XL, 64 ranks, {machine.title}. Step in ms by n, then the best; paper's n by Fig. 12\n")
    print(f"{'B':>4} " + " ".join(f"{text:^37}" for text in ORDERS.values()) + " paper")
    print(f"{'':>4} " + " ".join(" ".join(f"n={n:<6}" for n in CHUNKS) + " best" for _ in ORDERS))
    for size in SIZES:
        line = f"{size:>3}k "
        for order in ORDERS:
            line += " ".join(f"{1e3 * machine.get_seconds(model, size, name_of(n), order):8.2f}" for n in CHUNKS)
            line += f" {machine.get_best(model, size, order):>3}  "
        print(f"{line} {get_paper_n(size):>3}")
    for order, text in ORDERS.items():
        best = find_best(machine, order)
        same = sum(best[size] == get_paper_n(size) for size in SIZES)
        loss = max(machine.get_seconds(model, size, name_of(get_paper_n(size)), order)
                   / machine.get_seconds(model, size, name_of(best[size]), order) for size in SIZES)
        print(f"      {text}: the paper's n in {same} of {len(SIZES)} sizes; taking it costs at most {100 * (loss - 1):.0f}%")
    print_parts(machine, model)


def print_parts(machine, model):
    """Prints the parts of steps of three sizes."""
    print("\n      of it (paper's order): exchanges ms, each ms, exposed ms, computation ms, product efficiency")
    for size in (4, 16, 64):
        for n in CHUNKS:
            p = machine.predict(model, size, name_of(n), "mpipemoe")
            print(f"      B={size:>2}k n={n}: {p['seconds'] * 1e3:8.2f} = exchanges {p['exchange'] * 1e3:7.2f} "
                  f"({p['exchanges']:2d} of {p['exchange'] / p['exchanges'] * 1e3:5.2f}), exposed {p['exposed'] * 1e3:7.2f}, "
                  f"computation {p['compute'] * 1e3:7.2f}, {100 * p['efficiency']:.0f}%")


def get_rising_loss(machine, order):
    """The largest loss of the best choice that never falls, against the best n of each size."""
    worst = {n: 1.0 for n in CHUNKS}
    for size in SIZES:
        seconds = {n: machine.get_seconds(MODELS["GPT3-XL"], size, name_of(n), order) for n in CHUNKS}
        worst = {n: max(seconds[n] / min(seconds.values()), min(worst[m] for m in CHUNKS if m <= n)) for n in CHUNKS}
    return min(worst.values()) - 1


def check_n(machine):
    """Checks the hypothesis of Algorithm 1: the best n does not fall as B rises."""
    ok = True
    for order, text in ORDERS.items():
        counts, loss = list(find_best(machine, order).values()), get_rising_loss(machine, order)
        ok &= report(loss <= 0.05, f"{machine.title}, {text}: an n that never falls as B rises costs at most "
                     f"{100 * loss:.1f}%, wanted 5%\n      the best: {' '.join(map(str, counts))}")
    return ok


def draw_n(machines, path):
    left, top, width, height, gap = 60, 102, 420, 260, 40
    svg = Svg(left + 2 * width + gap + 24, top + height + 84)
    svg.text(left, 24, "GPT3-XL on 64 ranks, simulated: step by chunks n, relative to n = 1, paper's order", "start", font_size="1.15em")
    for i, n in enumerate(CHUNKS):
        svg.line([(left + 70 * i, 44), (left + 70 * i + 18, 44)], COLORS[i], stroke_width=2)
        svg.text(left + 70 * i + 24, 48, f"n = {n}", "start")
    svg.text(left + 300, 48, "dashed: the paper's thresholds; arrow: goes on above the chart", "start")
    low = 0.6
    for p, machine in enumerate(machines):
        x0 = left + p * (width + gap)
        axes = Axes(svg, x0, top, width, height, [low + 0.2 * i for i in range(6)], "{:.1f}")
        place = lambda size: x0 + 12 + (width - 24) * math.log2(size) / 6
        svg.text(x0 + width / 2, top - 20, machine.title)
        for threshold in (8, 22):
            svg.line([(place(threshold), top), (place(threshold), top + height)], "#888", stroke_dasharray="5 4")
        for i, n in enumerate(CHUNKS):
            ratios = {size: machine.get_seconds(MODELS["GPT3-XL"], size, name_of(n), "mpipemoe")
                      / machine.get_seconds(MODELS["GPT3-XL"], size, "baseline", "mpipemoe") for size in SIZES}
            axes.curve([(place(size), ratio) for size, ratio in ratios.items()], COLORS[i], stroke_width=2)
        best = find_best(machine, "mpipemoe")
        for size in SIZES:
            if size in (1, 2, 4, 8, 16, 32, 64):
                svg.text(place(size), top + height + 18, f"{size}k")
            if size not in (20, 24, 10, 3):
                svg.text(place(size), top + height + 38, best[size], font_weight="bold", fill=COLORS[CHUNKS.index(best[size])])
        svg.text(x0 + width / 2, top + height + 64, "tokens of a rank B; below: the best n")
    svg.write(path)


# ------------------------------------------------------------------------------------------------------------ strategies


def collect_strategies(machine, chunks, order):
    """Rows by N and B: seconds by strategy, simulated and from Eq. 10."""
    model, rows = MODELS["GPT3-XL"], []
    for ranks in RANKS:
        for size in TOKENS:
            seconds = {s: machine.get_seconds(model, size, name_of(chunks, s), order, ranks=ranks) for s in STRATEGIES}
            equation = machine.get_equation10(model, size, chunks, ranks)
            rows.append({"ranks": ranks, "size": size, "seconds": seconds, "equation": equation,
                         "none": machine.get_seconds(model, size, name_of(chunks), order, ranks=ranks),
                         "best": min(STRATEGIES, key=seconds.get), "chosen": min(STRATEGIES, key=equation.get)})
    return rows


def get_loss(row):
    """Loss of Eq. 10's choice against the best one. Among equal ones the simulator decides, as in mpipe-auto."""
    least = min(row["equation"].values())
    return min(row["seconds"][s] for s in STRATEGIES if row["equation"][s] <= least) / row["seconds"][row["best"]] - 1


def print_strategies(machine, rows, chunks):
    print(f"\nStrategies, GPT3-XL in {chunks} chunks, the paper's order, {machine.title}. Step in ms without reuse and by strategy;\n"
          "the simulator's best; Eq. 10 in ms and its best; what its choice costs (of equal ones the better)\n")
    print(f"{'N':>3} {'B':>4} {'none':>7} " + " ".join(f"{s.upper():>7}" for s in STRATEGIES) + "  best  "
          + " ".join(f"{s.upper():>7}" for s in STRATEGIES) + " best   loss")
    for row in rows:
        print(f"{row['ranks']:>3} {row['size']:>3}k {1e3 * row['none']:7.2f} "
              + " ".join(f"{1e3 * row['seconds'][s]:7.2f}" for s in STRATEGIES) + f"  {row['best'].upper():>4}  " + " ".join(f"{1e3 * row['equation'][s]:7.2f}" for s in STRATEGIES)
              + f" {row['chosen'].upper():>4} {100 * get_loss(row):5.1f}%")


def check_strategies(machine, rows):
    """Claims that the choice is good. Fig. 13's two rankings are only printed."""
    at_8 = [row for row in rows if row["ranks"] == 8]
    large = [row for row in rows if row["ranks"] >= 32]
    better = lambda row, these, those: min(row["seconds"][s] for s in these) < min(row["seconds"][s] for s in those)
    print(f"      paper: S1 or S2 best on 8 ranks; here in {sum(better(r, ['s1', 's2'], ['s3', 's4']) for r in at_8)} of {len(at_8)}")
    print(f"      paper: S4 before S2 on 32 and 64 ranks; here in {sum(better(r, ['s4'], ['s2']) for r in large)} of {len(large)}")
    worst = max(rows, key=get_loss)
    mean = sum(map(get_loss, rows)) / len(rows)
    return report(mean <= 0.05, f"{machine.title}: Eq. 10's choice costs {100 * mean:.1f}% in the mean (wanted at most 5%), "
                  f"{100 * get_loss(worst):.1f}% at worst (N={worst['ranks']}, B={worst['size']}k)")


def draw_strategies(machines, tables, chunks, path):
    left, top, width, height, gap = 60, 72, 860, 170, 72
    svg = Svg(left + width + 24, top + len(machines) * (height + gap) + 4)
    svg.text(left, 24, f"GPT3-XL in {chunks} chunks, simulated: step of the strategies relative to the same without reuse", "start",
             font_size="1.15em")
    for i, s in enumerate(STRATEGIES):
        svg.rect(left + 60 * i, 36, 12, 12, COLORS[i])
        svg.text(left + 60 * i + 18, 47, s.upper(), "start")
    svg.text(left + 260, 47, "dot: the best as simulated; E: the choice of Eq. 10", "start")
    high = 0.5 * (1 + max(int(2 * max(row["seconds"].values()) / row["none"]) for rows in tables for row in rows))
    for p, (machine, rows) in enumerate(zip(machines, tables)):
        y0 = top + p * (height + gap)
        axes = Axes(svg, left, y0, width, height, [0.5 * i for i in range(int(2 * high) + 1)])
        svg.text(left + width, y0 - 8, machine.title, "end")
        step = width / len(rows)
        for i, row in enumerate(rows):
            for j, s in enumerate(STRATEGIES):
                ratio = row["seconds"][s] / row["none"]
                x = left + (i + 0.1 + 0.2 * j) * step
                svg.rect(x, axes.y(ratio), 0.2 * step - 1, axes.y(0) - axes.y(ratio), COLORS[j],
                         f"N={row['ranks']} B={row['size']}k {s.upper()}: {1e3 * row['seconds'][s]:.2f} ms, {ratio:.2f}")
                if s == row["best"]:
                    svg.marker(0, x + 0.1 * step, axes.y(ratio) - 6, "#222")
                if s == row["chosen"]:
                    svg.text(x + 0.1 * step, axes.y(0) - 4, "E", fill="white", font_size="0.9em")
            svg.text(left + (i + 0.5) * step, y0 + height + 16, f"{row['size']}k")
        group = width / len(RANKS)
        for i, ranks in enumerate(RANKS):
            svg.text(left + (i + 0.5) * group, y0 + height + 34, f"N = {ranks}")
    svg.write(path)


# -------------------------------------------------------------------------------------------------------------- speed-up


def collect_speedups(machine, order):
    rows = []
    for name, model in MODELS.items():
        for size in TOKENS:
            fast = machine.predict(model, size, "baseline", "program")
            faster = machine.predict(model, size, "chunks:2", "fastermoe")
            n = machine.get_best(model, size, order)
            pipe = machine.predict(model, size, name_of(n), order)
            # Buffers are only reused with several chunks.
            m = machine.get_best(model, size, order, CHUNKS[1:])
            equation = machine.get_equation10(model, size, m, 64)
            least = min(equation.values())
            seconds = {s: machine.get_seconds(model, size, name_of(m, s), order) for s in STRATEGIES}
            chosen = min((s for s in STRATEGIES if equation[s] <= least), key=seconds.get)
            best = min(STRATEGIES, key=seconds.get)
            rows.append({"name": name, "size": size, "n": n, "m": m, "chosen": chosen, "best": best,
                         "fast": fast, "faster": faster, "pipe": pipe, "mpipe": machine.predict(model, size, name_of(m, chosen), order),
                         "better": machine.predict(model, size, name_of(m, best), order)})
    return rows


def ratios(rows, over, of, key):
    return [row[over][key] / row[of][key] for row in rows]


def print_summary(rows, text):
    """Prints means and extremes beside the paper's."""
    show = lambda values: f"mean {sum(values) / len(values):.2f}, least {min(values):.2f}, most {max(values):.2f}"
    saved = lambda over: [1 - value for value in ratios(rows, "mpipe", over, "bytes")]
    less = lambda values: f"mean {-100 * sum(values) / len(values):+.0f}%, most {-100 * max(values):+.0f}%"
    print(f"      {text}")
    print(f"      PipeMoE over FastMoE    {show(ratios(rows, 'fast', 'pipe', 'seconds')):<38} paper: most 3.7")
    print(f"      PipeMoE over FasterMoE  {show(ratios(rows, 'faster', 'pipe', 'seconds')):<38} paper: mean 2.26, most 3.4")
    print(f"      MPipeMoE over FastMoE   {show(ratios(rows, 'fast', 'mpipe', 'seconds')):<38} paper: 3.1")
    print(f"      MPipeMoE over FasterMoE {show(ratios(rows, 'faster', 'mpipe', 'seconds')):<38} paper: most 2.8")
    print(f"      memory to FastMoE       {less(saved('fast')):<38} paper: mean -23%, most -40%")
    print(f"      memory to FasterMoE     {less(saved('faster')):<38} paper: mean -27%, most -47%")


def print_speedups(machine, rows, order):
    print(f"\nSpeed and memory on 64 ranks, {machine.title}, {ORDERS[order]}. Steps in ms, n of PipeMoE, n and strategy of MPipeMoE\n"
          "by Eq. 10 (better: the strategy that the simulator prefers), speed-ups over FastMoE and what they would be if exchanges hid\n"
          "computation or the reverse, memory in MB and against FastMoE\n")
    print(f"{'model':<8} {'B':>3} {'FastMoE':>8} {'FasterM':>8} {'PipeMoE':>8} {'n':>2} {'MPipeM':>8} {'n':>2} {'':<3} {'better':>8} {'':<3}"
          f"{'x':>5} {'x mp':>5} {'bound':>5} {'MB':>6} {'mem':>5}")
    for row in rows:
        time = lambda key: f"{1e3 * row[key]['seconds']:8.2f}"
        over = lambda key: f"{row['fast']['seconds'] / row[key]['seconds']:5.2f}"
        print(f"{row['name']:<8} {row['size']:>2}k {time('fast')} {time('faster')} {time('pipe')} {row['n']:>2} "
              f"{time('mpipe')} {row['m']:>2} {row['chosen'].upper():<3} {time('better')} {row['best'].upper():<3}{over('pipe')} {over('mpipe')} "
              f"{row['fast']['seconds'] / max(row['fast']['compute'], row['fast']['exchange']):5.2f} "
              f"{row['mpipe']['bytes'] / 1e6:6.0f} {row['mpipe']['bytes'] / row['fast']['bytes']:5.2f}")
    early = sum(row["pipe"]["early"] > 0 for row in rows)
    if early:
        print(f"\n      In {early} of {len(rows)} layers PipeMoE's plan begins products or exchanges of the backward before the\n"
              "      forward's end. A layer alone has the gradient of its output as an argument; one inside a model has not, and is not as fast.")
    print()
    print_summary(rows, "all with the same products:")


def check_speedups(machine, rows):
    """Checks claims that hold on any machine: choosing n never loses, and n > 1 with reuse needs less memory."""
    slow = min(ratios(rows, "fast", "pipe", "seconds"))
    most = max(ratios(rows, "mpipe", "fast", "bytes"))
    return (report(slow >= 1, f"{machine.title}: PipeMoE is never slower than FastMoE: least {slow:.2f}")
            & report(most < 1, f"{machine.title}: MPipeMoE needs less memory than FastMoE: at most {most:.2f} of it"))


def print_mixed(with_cores, without):
    """Prints speed-ups with PipeMoE alone on tensor cores, as the paper says of PipeMoE."""
    rows = [{**other, "pipe": row["pipe"], "mpipe": row["mpipe"]} for row, other in zip(with_cores, without)]
    print("\n      The paper says that PipeMoE 'also takes advantage of Tensor Core of GPUs'. If the others do not:")
    print_summary(rows, "PipeMoE and MPipeMoE with tensor cores, FastMoE and FasterMoE without:")


def draw_speedups(rows, title, path):
    left, top, width, height, gap = 60, 72, 760, 190, 64
    svg = Svg(left + width + 24, top + 2 * height + gap + 56)
    svg.text(left, 24, title, "start", font_size="1.15em")
    bars = [("faster", "FasterMoE's split", COLORS[5]), ("pipe", "PipeMoE", COLORS[0]), ("mpipe", "MPipeMoE", COLORS[1])]
    for i, (_, text, color) in enumerate(bars):
        svg.rect(left + 150 * i, 36, 12, 12, color)
        svg.text(left + 150 * i + 18, 47, text, "start")
    most = max(max(ratios(rows, "fast", key, "seconds")) for key, _, _ in bars)
    panels = [("speed-up over FastMoE", "seconds", [0.5 * i for i in range(int(2 * most) + 2)],
               lambda row, key, of: row["fast"][of] / row[key][of]),
              ("memory against FastMoE", "bytes", [0.25 * i for i in range(6)], lambda row, key, of: row[key][of] / row["fast"][of])]
    for p, (text, of, ticks, get) in enumerate(panels):
        axes = Axes(svg, left, top + p * (height + gap), width, height, ticks)
        svg.upright(18, top + p * (height + gap) + height / 2, text)
        svg.line([(left, axes.y(1)), (left + width, axes.y(1))], "#555", stroke_dasharray="5 4")
        step = width / len(rows)
        for i, row in enumerate(rows):
            for j, (key, label, color) in enumerate(bars):
                value = get(row, key, of)
                svg.rect(left + (i + 0.12 + 0.26 * j) * step, axes.y(value), 0.26 * step - 1, axes.y(0) - axes.y(value), color,
                         f"{row['name']} B={row['size']}k {label}: {value:.2f}")
            svg.text(left + (i + 0.5) * step, axes.y(0) + 16, f"{row['size']}k")
        group = width / len(MODELS)
        for i, name in enumerate(MODELS):
            svg.text(left + (i + 0.5) * group, axes.y(0) + 34, name)
    svg.write(path)


# ------------------------------------------------------------------------------------------------------------------- why


def without_interference(profile):
    for entry in profile["interference"]:
        for kind in ("compute", "communication", "copy"):
            if kind in entry:
                entry[kind] = 1


def with_flat_curve(profile):
    """Makes products of few rows, columns or depth as efficient as the best."""
    for rate in profile["device"]["rates"]:
        rate["efficiency"]["values"] = [max(rate["efficiency"]["values"])] * len(rate["efficiency"]["values"])


CHANGES = {"as it is": lambda profile: None, "exchanges start in no time": remove_start_ups,
           "nothing slows anything": without_interference, "products equally efficient": with_flat_curve}


def print_why(tools, machine):
    """Shows how the best n and the speed-up depend on properties of the profile, by removing one at a time. The results are not those of
    this cluster."""
    print(f"\nSensitivity: {machine.title} with one property removed (GPT3-XL, 64 ranks, the paper's order)\n")
    print(f"{'':<28} best n at B = " + " ".join(f"{size:>3}k" for size in SIZES[::3]) + "   PipeMoE over FastMoE at 4k, 16k, 64k")
    for text, change in CHANGES.items():
        profile = load_profile(machine.profile)
        change(profile)
        path = write_profile(profile, tools.path(text.replace(" ", "-") + ".json"))
        other = Machine(tools, text, path, machine.peak)
        model = MODELS["GPT3-XL"]
        best = [other.get_best(model, size, "mpipemoe") for size in SIZES[::3]]
        pipe = {size: name_of(other.get_best(model, size, "mpipemoe")) for size in (4, 16, 64)}
        gains = [other.get_seconds(model, size, "baseline", "program") / other.get_seconds(model, size, name, "mpipemoe")
                 for size, name in pipe.items()]
        print(f"{text:<28} {'':<13} " + " ".join(f"{n:>4}" for n in best) + "   " + " ".join(f"{gain:5.2f}" for gain in gains))


def print_rates(tools, machine):
    """Shows the best strategy by the speed of products. If a speed gives the paper's ranking, it is between the two machines."""
    print("\nStrategies by the rate of products, GPT3-XL in 4 chunks, B = 8k, the paper's order: step in ms, then the best\n")
    titles = " ".join(f"{s.upper():>6}" for s in STRATEGIES)
    print(f"{'rate, TFLOP/s':<14}" + "".join(f"   N={ranks:<3} {titles} best" for ranks in (8, 64)))
    for factor in (1, 1 / 2, 1 / 3, 1 / 4, 1 / 6, 1 / 8):
        profile = load_profile(machine.profile)
        for rate in profile["device"]["rates"]:
            rate["flop_per_s"] *= factor
        other = Machine(tools, "", write_profile(profile, tools.path("rate.json")), machine.peak * factor)
        line = f"{machine.peak * factor / 1e12:<14.0f}"
        for ranks in (8, 64):
            seconds = {s: other.get_seconds(MODELS["GPT3-XL"], 8, name_of(4, s), "mpipemoe", ranks=ranks) for s in STRATEGIES}
            line += "         " + " ".join(f"{1e3 * seconds[s]:6.1f}" for s in STRATEGIES) + f"   {min(seconds, key=seconds.get).upper()}"
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--svg", help="write plots PREFIX-n.svg, PREFIX-strategies.svg and PREFIX-speedup.svg")
    parser.add_argument("--json", help="write all figures")
    parser.add_argument("--parts", default="n,strategies,speedups,why", type=lambda text: text.split(","))
    parser.add_argument("--chunks", type=int, default=4, help="of the strategies' comparison")
    options = parser.parse_args()
    ok, figures = [], {}
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(options.bin, folder)
        machines = make_machines(tools)
        if "n" in options.parts:
            for machine in machines:
                print_n(machine)
                ok.append(check_n(machine))
            if options.svg:
                draw_n(machines, options.svg + "-n.svg")
        if "strategies" in options.parts:
            tables = [collect_strategies(machine, options.chunks, "mpipemoe") for machine in machines]
            for machine, rows in zip(machines, tables):
                print_strategies(machine, rows, options.chunks)
                ok.append(check_strategies(machine, rows))
            if options.svg:
                draw_strategies(machines, tables, options.chunks, options.svg + "-strategies.svg")
            figures["strategies"] = {machine.title: rows for machine, rows in zip(machines, tables)}
        if "speedups" in options.parts:
            for order in ORDERS:
                tables = [collect_speedups(machine, order) for machine in machines]
                for machine, rows in zip(machines, tables):
                    print_speedups(machine, rows, order)
                    ok.append(check_speedups(machine, rows))
                print_mixed(*tables)
                if options.svg and order == "mpipemoe":
                    draw_speedups(tables[0], "64 ranks with tensor cores, simulated, the paper's order", options.svg + "-speedup.svg")
                figures[f"speedups, {order}"] = {machine.title: rows for machine, rows in zip(machines, tables)}
        if "why" in options.parts:
            print_why(tools, machines[0])
            print_rates(tools, machines[0])
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)
    return 0 if all(ok) else 1


if __name__ == "__main__":
    sys.exit(main())
