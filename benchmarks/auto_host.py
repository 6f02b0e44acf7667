#!/usr/bin/env python3
"""Measures on the host backend how fast the plan of --schedule=auto is, beside all plans that the search could have chosen.

Usage: auto_host.py --bin DIR --out DIR [--cluster=FILE] [--svg=FILE] [--only=TEXT] [--strategies=near|all|none] [--all].

The configurations below are single layers on 2 to 8 ranks in f32, with a capacity or dropless. Most are forward and backward. Some have
skewed routing: the search knows this routing, and moe-run follows it. The profile is measured first (moe-calibrate, two minutes) unless
--cluster gives one. Nothing else may run.

Candidates are all legal, different plans of --schedule=auto --exhaustive, whatever the search knew about them before. A plan with one of
MPipeMoE's strategies (S1 to S4) does more work than the plan that keeps everything. The search takes a strategy only if memory is limited.
Strategies run for the class and the chunks of the chosen plan and of the fastest one (--strategies=all, none).

Candidates take turns. A round runs each candidate in a process of its own. The first step does not count, and the least of the others does,
because disturbances only add to a step. Times of a round are divided by the round's median, so a machine that slows down for a while
slows all candidates alike. A plan's time is its median of these ratios. After the first round, and after two more, candidates drop out
if they are slower than the fastest by more than a margin. The chosen one stays. Six more rounds decide between the others.

The chosen plan has two places in each round, as if it were two plans. The difference between its two times is the noise. A smaller
difference between two plans means nothing. If the noise is more than 2%, there are six more rounds, and then six more again.

--out keeps the results, by configuration and profile. After Ctrl-C the next call goes on. Exit status 1 if a claim fails.
"""
import argparse
import hashlib
import json
import math
import os
import statistics
import sys
import tempfile

from layers import COLORS, Axes, Svg, graph, report, run
from prediction import axis_ticks

# Each row has groups, embedding M, hidden size H, experts E, tokens N of all ranks, top k and capacity factor f. "forward" leaves the
# backward out. "skew" is synthetic routing, late in training.
CONFIGURATIONS = """
dp=2,ep=2 M=512 H=1024 E=4 N=2048 k=1 f=1
dp=2,ep=2 M=384 H=1536 E=8 N=2048 k=2 f=1.25
dp=2,ep=2 M=640 H=640 E=8 N=3072 k=1 dropless
dp=2,ep=2 M=256 H=1024 E=16 N=4096 k=2 dropless skew=2
dp=2,ep=2 M=320 H=896 E=8 N=6144 k=1 f=1 forward
dp=2,ep=1,esp=2 M=512 H=1024 E=4 N=1536 k=2 f=1
dp=1,mp=2,ep=2 M=768 H=768 E=4 N=1536 k=1 f=1.2
dp=1,mp=2,ep=1,esp=2 M=512 H=1024 E=4 N=1024 k=2 f=1
dp=1,mp=2,ep=2 M=320 H=640 E=16 N=2048 k=2 dropless
dp=1,mp=2,ep=1,esp=2 M=448 H=896 E=8 N=1536 k=1 dropless
dp=4,ep=4 M=512 H=1024 E=4 N=2048 k=1 f=1.2
dp=4,ep=4 M=256 H=512 E=8 N=8192 k=2 f=1
dp=4,ep=4 M=192 H=768 E=32 N=8192 k=2 f=1.5
dp=4,ep=4 M=384 H=768 E=8 N=4096 k=1 dropless
dp=4,ep=4 M=256 H=1024 E=8 N=4096 k=2 dropless skew=2
dp=4,ep=2,esp=2 M=512 H=512 E=4 N=4096 k=1 f=1
dp=4,ep=2 M=384 H=768 E=4 N=3072 k=2 f=1
dp=2,mp=2,ep=2,esp=2 M=512 H=1024 E=4 N=1536 k=1 f=1.2
dp=2,mp=2,ep=2,esp=2 M=256 H=1024 E=8 N=2048 k=2 f=1
dp=2,mp=2,ep=4 M=384 H=768 E=8 N=2048 k=2 f=1.2
dp=1,mp=4,ep=4 M=512 H=512 E=8 N=1024 k=2 f=1.2
dp=1,mp=4,ep=2,esp=2 M=384 H=1024 E=4 N=1536 k=1 f=1
dp=2,mp=2,ep=4 M=640 H=640 E=4 N=4096 k=1 f=1 forward
dp=8,ep=8 M=256 H=1024 E=8 N=4096 k=2 f=1.2
dp=8,ep=8 M=512 H=512 E=8 N=4096 k=1 f=1
dp=8,ep=8 M=192 H=384 E=32 N=8192 k=4 dropless
dp=8,ep=8 M=320 H=640 E=16 N=4096 k=2 dropless skew=2.7
dp=8,ep=4,esp=2 M=384 H=768 E=4 N=4096 k=1 f=1.2
dp=4,mp=2,ep=4,esp=2 M=256 H=1024 E=4 N=4096 k=1 f=1
dp=4,mp=2,ep=8 M=384 H=512 E=8 N=2048 k=2 f=1.2
dp=2,mp=4,ep=2,esp=4 M=256 H=1024 E=4 N=2048 k=1 f=1.2
dp=2,mp=4,ep=4,esp=2 M=384 H=384 E=8 N=1536 k=2 f=1
"""
# Further configurations with about 580 plans each, of which 150 are run.
MANY_PLANS = """
dp=2,mp=2,ep=4 M=256 H=512 E=16 N=2048 k=4 dropless
dp=2,mp=2,ep=2,esp=2 M=320 H=960 E=8 N=2048 k=2 dropless skew=1.5
dp=1,mp=4,ep=4 M=256 H=768 E=8 N=1536 k=2 dropless
dp=4,mp=2,ep=4,esp=2 M=320 H=640 E=8 N=2048 k=2 dropless
"""
MARGINS = 1.3, 1.15  # slow-down against the fastest that stays in: after one round, and after two more
FINAL_ROUNDS, MOST_FINALS, QUIET = 6, 3, 0.02
STEPS = 4  # steps of a run, including the first
LATE = 500  # iteration of synthetic routing
TWIN = "the chosen one again"
LEAST_CASES, NEAR, WANTED = 30, 1.1, 0.9


class Case:
    """A configuration: its graph, and options of the tools."""

    def __init__(self, text, options, folder):
        self.text, self.options, self.folder = text, options, folder
        parallel, *words = text.split()
        sizes = dict(word.split("=") for word in words if "=" in word)
        m, h, experts, tokens, top_k = (int(sizes[name]) for name in ("M", "H", "E", "N", "k"))
        self.graph = os.path.join(folder, "layer.mlir")
        with open(self.graph, "w") as file:
            file.write(graph((m, h), tokens, experts, top_k, float(sizes["f"]) if "f" in sizes else None))
        self.arguments = [self.graph, f"--parallel={parallel}", f"--cluster={options.cluster}"]
        self.arguments += ["--mode=forward"] if "forward" in words else []
        self.routing = [f"--synthetic-routing=first={LATE},skew={sizes['skew']}"] if "skew" in sizes else []

    def run(self, tool, *arguments):
        return run([os.path.join(self.options.bin, tool), *arguments])

    def search(self, *flags):
        """All candidates of the search, as --explain lists them."""
        path = os.path.join(self.folder, "why.json")
        self.run("moe-compile", *self.arguments, *self.routing, "--schedule=auto", *flags, f"--explain={path}", "--emit=plan",
                 "-o", os.devnull)
        with open(path) as file:
            return json.load(file)["candidates"]

    def compile(self, name):
        """Command that runs the schedule's plan. A plan whose routing is forced needs the reference."""
        plan = os.path.join(self.folder, f"{name}.so")
        if self.routing:
            trace = os.path.join(self.folder, f"{name}.jsonl")
            self.run("moe-sim", *self.arguments, *self.routing, f"--schedule={name}", f"--write-routing={trace}", "--json")
        reference = [] if self.routing else ["--reference=0"]
        self.run("moe-compile", *self.arguments, *self.routing, f"--schedule={name}", *reference, "-o", plan)
        return ["moe-run", plan, f"--iters={STEPS}", "--json"] + ([f"--routing={trace}"] if self.routing else [])

    def measure(self, command):
        """Seconds of one round."""
        return min(json.loads(self.run(*command))["step_ms"]["all"][1:]) / 1e3


def is_plan(candidate):
    return candidate.get("seconds", 0) > 0


def keeps_all(name):
    return "mpipe-" not in name


def get_base(name):
    """Name of the schedule without its strategy, for a schedule with one."""
    return "+".join(part for part in name.split("+") if not part.startswith("mpipe-")) or "baseline"


def get_noise(one, other):
    """Relative difference between two times of one plan."""
    return max(one, other) / min(one, other) - 1


def summarise(rounds):
    """Seconds of each plan, from its times in all rounds."""
    levels = [statistics.median(times.values()) for times in rounds]
    level = statistics.median(levels)
    return {name: level * statistics.median(times[name] / one for times, one in zip(rounds, levels)) for name in rounds[0]}


class Race:
    """Measures plans in turns."""

    def __init__(self, case, chosen):
        self.case, self.chosen = case, chosen
        self.commands = {}
        self.seconds = {}  # seconds of each plan, from the last stage that it was in

    def enter(self, names):
        """Compiles more plans, and runs each once."""
        self.commands.update({name: self.case.compile(self.chosen if name == TWIN else name) for name in names})
        self.seconds.update(self.run(names))

    def run(self, names):
        return {name: self.case.measure(self.commands[name]) for name in names}

    def get_fastest(self):
        return min((name for name in self.seconds if name != TWIN), key=self.seconds.get)

    def select(self, margin):
        """Plans that may be the fastest, and the chosen one."""
        limit = margin * self.seconds[self.get_fastest()]
        return [name for name in self.seconds if name in (self.chosen, TWIN) or self.seconds[name] <= limit]

    def narrow(self):
        """Names of the plans that may be the fastest."""
        names = self.select(MARGINS[0])
        self.seconds.update(summarise([self.run(names) for _ in range(2)]))
        return self.select(MARGINS[1])

    def finish(self, names):
        """Runs the plans until two measurements of one plan agree. Returns the fastest plan."""
        rounds = []
        for _ in range(MOST_FINALS):
            rounds += [self.run(names) for _ in range(FINAL_ROUNDS)]
            last = summarise(rounds)
            if get_noise(last[self.chosen], last[TWIN]) <= QUIET:
                break
        self.seconds.update(last)
        return min((name for name in names if name != TWIN), key=last.get)


def race(case, chosen, names, strategies):
    """The fastest plan, and the seconds of all plans that were run, including TWIN. `strategies` are relative to the plan that keeps
    everything."""
    field = Race(case, chosen)
    field.enter([*names, TWIN])
    near = {get_base(chosen), get_base(field.get_fastest())} if case.options.strategies == "near" else set(strategies)
    if case.options.strategies != "none":
        field.enter([name for base in strategies if base in near for name in strategies[base]])
    return field.finish(field.narrow()), field.seconds


def measure(text, options):
    """Measures a configuration and returns its record."""
    with tempfile.TemporaryDirectory() as folder:
        case = Case(text, options, folder)
        chosen = next(one["schedule"] for one in case.search() if one["verdict"] == "chosen")
        predicted = {one["schedule"]: one["seconds"] for one in case.search("--exhaustive") if is_plan(one)}
        names = [name for name in predicted if keeps_all(name) or name == chosen]
        strategies = {}
        for name in predicted:
            if name not in names:
                strategies.setdefault(get_base(name), []).append(name)
        fastest, seconds = race(case, chosen, names, strategies)
    return {"chosen": chosen, "fastest": fastest, "predicted": predicted, "seconds": seconds}


class Row:
    """A record in readable form."""

    def __init__(self, text, record):
        self.text, self.chosen, self.fastest = text, record["chosen"], record["fastest"]
        self.predicted = record["predicted"]
        self.times = {name: time for name, time in record["seconds"].items() if name != TWIN}
        self.twin = record["seconds"][TWIN]

    def get_ratio(self):
        return self.times[self.chosen] / self.times[self.fastest]

    def get_noise(self):
        return get_noise(self.times[self.chosen], self.twin)

    def get_errors(self):
        return [self.predicted[name] / self.times[name] - 1 for name in self.times]


def print_head():
    print(f"{'configuration':<62} {'run of':>8}  {'chosen':<34} {'ms (predicted)':>15}  {'fastest':<34} {'ms (predicted)':>15}  "
          f"{'ratio':>6} {'noise':>6}")


def print_row(row):
    show = lambda name: f"{name:<34} {1e3 * row.times[name]:6.1f} ({1e3 * row.predicted[name]:6.1f})"
    print(f"{row.text:<62} {len(row.times):>3} {len(row.predicted):>4}  {show(row.chosen)}  {show(row.fastest)}  "
          f"{row.get_ratio():6.3f} {100 * row.get_noise():5.1f}%", flush=True)


def print_claims(rows):
    ratios, noises = [row.get_ratio() for row in rows], [row.get_noise() for row in rows]
    errors = [error for row in rows for error in row.get_errors()]
    worst = max(rows, key=Row.get_ratio)
    print(f"\n      two times of the chosen plan differ by {100 * statistics.fmean(noises):.1f}% in the mean, {100 * max(noises):.1f}% at most")
    print(f"      {sum(len(row.times) for row in rows)} of {sum(len(row.predicted) for row in rows)} plans run; predicted steps have errors of "
          f"{100 * statistics.fmean(map(abs, errors)):.1f}% in the mean, {100 * statistics.fmean(errors):+.1f}% with their sign")
    print(f"      slower than the fastest by {100 * statistics.fmean(ratios) - 100:.1f}% in the mean, {100 * max(ratios) - 100:.1f}% at worst "
          f"({worst.text}: {worst.chosen} for {worst.fastest})")
    share = sum(ratio <= NEAR for ratio in ratios) / len(ratios)
    return report(share >= WANTED, f"within {100 * NEAR - 100:.0f}% of the fastest in {100 * share:.0f}% of {len(rows)} configurations, "
                  f"wanted {100 * WANTED:.0f}%")


# ------------------------------------------------------------------------------------------------------------------ picture


def draw_times(svg, rows, left, top, size):
    """Draws measured over predicted steps of all plans, with logarithmic axes."""
    times = [1e3 * time for row in rows for name in row.times for time in (row.times[name], row.predicted[name])]
    ticks = axis_ticks(min(times), max(times))
    place = lambda time: math.log(1e3 * time / ticks[0]) / math.log(ticks[-1] / ticks[0]) * size
    for tick in ticks:
        at = place(tick / 1e3)
        svg.line([(left + at, top), (left + at, top + size)], "#ddd")
        svg.line([(left, top + size - at), (left + size, top + size - at)], "#ddd")
        svg.text(left + at, top + size + 18, f"{tick:g}")
        svg.text(left - 6, top + size - at + 4, f"{tick:g}", "end")
    svg.line([(left, top + size), (left + size, top)], "#888", stroke_dasharray="5 4")
    for kind, shape, color in ((None, 0, "#bdc3c7"), ("fastest", 3, COLORS[2]), ("chosen", 0, COLORS[0])):
        for row in rows:
            for name in row.times if kind is None else [getattr(row, kind)]:
                svg.marker(shape, left + place(row.predicted[name]), top + size - place(row.times[name]), color,
                           f"{row.text}: {name}, {1e3 * row.times[name]:.1f} ms, predicted {1e3 * row.predicted[name]:.1f} ms")
    svg.text(left + size / 2, top + size + 40, "predicted step, ms")
    svg.upright(left - 44, top + size / 2, "measured step, ms")


def draw_ratios(svg, rows, left, top, width, height):
    """Draws bars of the chosen plan's slow-down, in ascending order."""
    most = max(5, 5 * math.ceil(20 * (max(row.get_ratio() for row in rows) - 1)))
    axes = Axes(svg, left, top, width, height, [most * i / 5 for i in range(6)], "{:g}%")
    step = width / len(rows)
    for i, row in enumerate(sorted(rows, key=Row.get_ratio)):
        slower, noise = 100 * row.get_ratio() - 100, 100 * row.get_noise()
        y = axes.y(slower)
        svg.rect(left + i * step + 1, y, step - 2, top + height - y, COLORS[0] if row.get_ratio() <= NEAR else COLORS[4],
                 f"{row.text}: {row.chosen}, {slower:.1f}% slower than {row.fastest}; noise {noise:.1f}%")
    if 100 * NEAR - 100 <= most:
        y = axes.y(100 * NEAR - 100)
        svg.line([(left, y), (left + width, y)], COLORS[4], stroke_dasharray="5 4")
    svg.text(left + width / 2, top + height + 18, "configurations, by how much slower")


def draw(rows, path):
    svg = Svg(1160, 560)
    share = sum(row.get_ratio() <= NEAR for row in rows) / len(rows)
    svg.text(310, 30, f"{sum(len(row.times) for row in rows)} plans of {len(rows)} configurations", font_size="1.15em")
    svg.marker(0, 190, 48, COLORS[0])
    svg.text(200, 52, "chosen", "start")
    svg.marker(3, 270, 48, COLORS[2])
    svg.text(280, 52, "fastest", "start")
    svg.marker(0, 350, 48, "#bdc3c7")
    svg.text(360, 52, "the others", "start")
    svg.text(880, 30, f"the chosen plan over the fastest: within {100 * NEAR - 100:.0f}% in {100 * share:.0f}%", font_size="1.15em")
    draw_times(svg, rows, 90, 70, 430)
    draw_ratios(svg, rows, 640, 70, 480, 430)
    svg.write(path)


# --------------------------------------------------------------------------------------------------------------------- main


def find_cluster(options):
    """The given profile, or a newly measured one."""
    if options.cluster:
        return options.cluster
    path = os.path.join(options.out, "cluster.json")
    if not os.path.exists(path):
        print("measuring this machine", file=sys.stderr, flush=True)
        run([os.path.join(options.bin, "moe-calibrate"), "-o", path])
    return path


class Results:
    """Records in a file, by configuration. Records of another profile do not count."""

    def __init__(self, options):
        self.path = os.path.join(options.out, "results.json")
        with open(options.cluster, "rb") as file:
            self.key = hashlib.sha1(file.read() + options.strategies.encode()).hexdigest()
        self.records = {}
        if os.path.exists(self.path):
            with open(self.path) as file:
                kept = json.load(file)
            self.records = kept["records"] if kept["key"] == self.key else {}

    def add(self, text, record):
        self.records[text] = record
        with open(self.path + ".new", "w") as file:
            json.dump({"key": self.key, "records": self.records}, file)
        os.replace(self.path + ".new", self.path)


def show_progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--cluster", help="profile of this machine, by moe-calibrate")
    parser.add_argument("--svg", help="write a picture")
    parser.add_argument("--only", default="", help="only configurations that contain this text")
    parser.add_argument("--all", action="store_true", help="also configurations with very many plans, five minutes each")
    parser.add_argument("--strategies", default="near", choices=["near", "all", "none"], help="which plans with strategies are run")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    options.cluster = find_cluster(options)
    results, rows = Results(options), []
    configurations = CONFIGURATIONS + (MANY_PLANS if options.all else "")
    texts = [text for text in configurations.split("\n") if text and options.only in text]
    print_head()
    for number, text in enumerate(texts):
        show_progress(f"{number + 1}/{len(texts)} {text}")
        if text not in results.records:
            results.add(text, measure(text, options))
        show_progress("")
        rows.append(Row(text, results.records[text]))
        print_row(rows[-1])
    if options.svg:
        draw(rows, options.svg)
    ok = print_claims(rows)
    if not options.only:
        ok &= report(len(rows) >= LEAST_CASES, f"{len(rows)} configurations, wanted {LEAST_CASES}")
    return 0 if ok else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\ninterrupted: the next call goes on")
