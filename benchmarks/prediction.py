#!/usr/bin/env python3
"""Compares predicted with measured step times on the host backend.

Usage: prediction.py --bin DIR [--cluster=FILE] [--svg=FILE] [--json=FILE] [--steps=N] [--rounds=N] [--only=TEXT]. The script compiles the
configurations below, runs each with moe-run, and predicts it with moe-sim on the profile of this machine. It prints a table, R^2 and the
errors. Calibration has seen none of these plans. It measures kernels and collectives.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

from layers import DARK_STYLE

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "share", "models")

# Models that are too large for this machine: the original file, and the changed values.
SMALL = {
    "mixtral-small": ("mixtral-8x7b", {"hidden_size": 1024, "intermediate_size": 3584}),
    "deepseek-small": ("deepseek-v2-lite", {"hidden_size": 640, "moe_intermediate_size": 352, "n_routed_experts": 32}),
    "gpt-oss-small": ("gpt-oss-20b", {"hidden_size": 960, "intermediate_size": 960, "num_local_experts": 16}),
    "qwen3-small": ("qwen3-30b-a3b", {"hidden_size": 896, "moe_intermediate_size": 448, "num_experts": 64}),
}

# A model, then options of moe-compile and moe-sim.
CONFIGURATIONS = """
switch-base-8 --seq=32 --capacity-factor=1
switch-base-8 --seq=96 --capacity-factor=1
switch-base-8 --seq=200 --capacity-factor=1
switch-base-8 --seq=512
switch-base-8 --seq=512 --mode=forward
switch-base-8 --batch=4 --seq=320 --capacity-factor=1 --mode=forward
switch-base-8 --seq=160 --dropless
switch-base-8 --seq=640 --dropless --mode=forward
switch-base-8 --seq=192 --capacity-factor=1 --dtype=f64
switch-base-8 --seq=48 --dtype=f64 --dropless
switch-base-8 --seq=64 --capacity-factor=2 --parallel=dp=2,ep=2
switch-base-8 --seq=256 --capacity-factor=1 --parallel=dp=2,ep=2
switch-base-8 --seq=192 --parallel=dp=2,ep=2 --dropless
switch-base-8 --seq=128 --capacity-factor=1 --parallel=dp=1,mp=2,ep=1,esp=2
switch-base-8 --seq=384 --capacity-factor=1 --parallel=dp=2,ep=1
switch-base-8 --seq=128 --capacity-factor=1 --parallel=dp=2,ep=2 --dtype=f64
switch-base-8 --seq=64 --capacity-factor=1 --parallel=dp=4,mp=2,ep=4,esp=2
switch-base-8 --seq=192 --capacity-factor=1 --parallel=dp=4,mp=2,ep=4,esp=2 --mode=forward
switch-base-8 --seq=96 --capacity-factor=1 --parallel=dp=4,ep=4
switch-base-8 --seq=288 --capacity-factor=1 --parallel=dp=4,ep=2 --mode=forward
switch-base-8 --seq=128 --parallel=dp=4,ep=4 --dropless
switch-base-8 --seq=128 --capacity-factor=1 --parallel=dp=8,ep=8
switch-base-8 --seq=64 --capacity-factor=1 --parallel=dp=8,ep=8 --dtype=f64 --mode=forward
switch-base-8 --seq=80 --parallel=dp=8,ep=8 --dropless
switch-base-8 --seq=32 --capacity-factor=1 --parallel=dp=8,mp=2,ep=8,esp=2
switch-base-8 --seq=96 --capacity-factor=1 --parallel=dp=16,ep=8 --mode=forward
mixtral-small --seq=64
mixtral-small --seq=256 --mode=forward
mixtral-small --seq=160 --dropless
mixtral-small --seq=128 --parallel=dp=2,ep=2
mixtral-small --seq=96 --parallel=dp=4,ep=4 --dropless
mixtral-small --seq=192 --parallel=dp=4,mp=1,ep=2,esp=2
mixtral-small --seq=48 --parallel=dp=8,ep=8
mixtral-small --seq=64 --parallel=dp=2,ep=2 --dtype=f64
mixtral-small --seq=128 --parallel=dp=2,mp=2,ep=2,esp=2 --mode=forward
mixtral-small --seq=72 --parallel=dp=4,mp=2,ep=8,esp=1 --capacity-factor=1.5
deepseek-small --seq=128
deepseek-small --seq=400 --mode=forward
deepseek-small --seq=96 --dropless
deepseek-small --seq=256 --parallel=dp=2,ep=2
deepseek-small --seq=160 --parallel=dp=4,ep=4
deepseek-small --seq=160 --parallel=dp=4,ep=4 --dropless
deepseek-small --seq=112 --parallel=dp=8,ep=8 --mode=forward
deepseek-small --seq=64 --parallel=dp=16,ep=16
deepseek-small --seq=128 --parallel=dp=4,mp=2,ep=4,esp=2
deepseek-small --seq=320 --dtype=f64
gpt-oss-small --seq=128
gpt-oss-small --seq=320 --mode=forward
gpt-oss-small --seq=200 --dropless
gpt-oss-small --seq=128 --parallel=dp=2,ep=2
gpt-oss-small --seq=96 --parallel=dp=4,ep=4 --dropless
gpt-oss-small --seq=64 --parallel=dp=8,ep=8
gpt-oss-small --seq=256 --parallel=dp=4,ep=4 --mode=forward
gpt-oss-small --seq=48 --parallel=dp=16,ep=16 --mode=forward
gpt-oss-small --seq=64 --dtype=f64 --parallel=dp=2,ep=2
qwen3-small --seq=96
qwen3-small --seq=256 --mode=forward
qwen3-small --seq=128 --dropless
qwen3-small --seq=192 --parallel=dp=2,ep=2
qwen3-small --seq=64 --parallel=dp=4,ep=4
qwen3-small --seq=128 --parallel=dp=8,ep=8 --dropless --mode=forward
qwen3-small --seq=64 --parallel=dp=16,ep=16
qwen3-small --seq=512 --parallel=dp=2,ep=2 --mode=forward
olmoe-1b-7b --seq=64 --parallel=dp=4,ep=4 --mode=forward
olmoe-1b-7b --seq=128 --dropless --mode=forward
switch-base-8 --seq=144 --capacity-factor=1 --parallel=dp=4,ep=4 --mode=forward
switch-base-8 --seq=448 --dropless
switch-base-8 --seq=112 --capacity-factor=1 --parallel=dp=2,mp=2,ep=4,esp=1
mixtral-small --seq=112 --mode=forward
deepseek-small --seq=224 --parallel=dp=2,ep=2 --dropless
gpt-oss-small --seq=160 --parallel=dp=2,mp=2,ep=2,esp=2 --mode=forward
qwen3-small --seq=80 --parallel=dp=8,ep=8
qwen3-small --seq=320
"""


def find_model(name, folder):
    """Argument for the tools: the name of a shared model, or a file with a small one."""
    if name not in SMALL:
        return name
    path = os.path.join(folder, name + ".json")
    base, changes = SMALL[name]
    with open(os.path.join(MODELS, base + ".json")) as file:
        config = json.load(file)
    with open(path, "w") as file:
        json.dump({**config, **changes}, file)
    return path


def run(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip() or result.returncode}")
    return result.stdout


def measure(tools, plan, steps):
    """Median of the steps after the first, which touches the memory for the first time."""
    result = json.loads(run([os.path.join(tools, "moe-run"), plan, f"--iters={steps}", "--json"]))
    return statistics.median(result["step_ms"]["all"][1:]) / 1e3


def predict(tools, arguments, cluster):
    return json.loads(run([os.path.join(tools, "moe-sim"), *arguments, f"--cluster={cluster}", "--json"]))["step_s"]


def squared_correlation(measured, predicted):
    """1 - residuals / variance of `measured`. The residuals are those of the prediction itself, not of a fitted line."""
    mean = statistics.fmean(measured)
    residual = sum((m - p) ** 2 for m, p in zip(measured, predicted))
    return 1 - residual / sum((m - mean) ** 2 for m in measured)


def summarise(rows):
    measured, predicted = [row["measured_s"] for row in rows], [row["predicted_s"] for row in rows]
    errors = [abs(p / m - 1) for m, p in zip(measured, predicted)]
    logs = [list(map(math.log, times)) for times in (measured, predicted)]
    worst = max(range(len(rows)), key=lambda i: errors[i])
    return {"count": len(rows), "r2": squared_correlation(measured, predicted),
            "r2_of_logarithms": squared_correlation(*logs), "mean_error": statistics.fmean(errors),
            "worst_error": errors[worst], "worst": rows[worst]["configuration"]}


def axis_ticks(low, high):
    """1, 2, 5, 10, .. from the last one below `low` to the first one above `high`."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0 ** exponent for exponent in exponents for digit in (1, 2, 5)]
    return [tick for i, tick in enumerate(ticks)
            if (i + 1 == len(ticks) or ticks[i + 1] > low) and (i == 0 or ticks[i - 1] < high)]


def draw(rows, summary, path):
    """Draws a scatter plot with logarithmic axes in milliseconds."""
    size, margin = 560, 70
    times = [1e3 * row[key] for row in rows for key in ("measured_s", "predicted_s")]
    ticks = axis_ticks(min(times), max(times))
    low, high = math.log10(ticks[0]), math.log10(ticks[-1])

    def place(time):
        return (math.log10(time) - low) / (high - low) * size

    def x(time):
        return margin + place(time)

    def y(time):
        return margin + size - place(time)

    width = size + 2 * margin
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {width}" width="{width}" height="{width}" '
             'font-family="sans-serif" font-size="13">', DARK_STYLE,
             f'<rect width="{width}" height="{width}" fill="white"/>']
    for tick in ticks:
        parts.append(f'<path d="M{x(tick):.1f} {margin}V{margin + size}M{margin} {y(tick):.1f}H{margin + size}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{margin + size + 20}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="{margin - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<path d="M{margin} {margin + size}L{margin + size} {margin}" stroke="#888" stroke-dasharray="5 4"/>')
    for row in rows:
        measured, predicted = 1e3 * row["measured_s"], 1e3 * row["predicted_s"]
        color = "#c0392b" if "f64" in row["configuration"] else "#2471a3"
        parts.append(f'<circle cx="{x(measured):.1f}" cy="{y(predicted):.1f}" r="4" fill="{color}" fill-opacity="0.65">'
                     f'<title>{row["configuration"]}: {measured:.3g} ms, predicted {predicted:.3g} ms</title></circle>')
    middle = margin + size / 2
    parts.append(f'<text x="{middle}" y="{width - 18}" text-anchor="middle">measured step, ms</text>')
    parts.append(f'<text transform="translate(20 {middle}) rotate(-90)" text-anchor="middle">predicted step, ms</text>')
    parts.append(f'<text x="{middle}" y="30" text-anchor="middle" font-size="15">{summary["count"]} configurations: '
                 f'R&#178; {summary["r2"]:.4f}, mean error {100 * summary["mean_error"]:.1f}%, '
                 f'worst {100 * summary["worst_error"]:.1f}%</text>')
    parts.append(f'<text x="{middle}" y="50" text-anchor="middle"><tspan fill="#2471a3">f32</tspan> '
                 '<tspan fill="#c0392b">f64</tspan>, dashed: predicted = measured</text></svg>')
    with open(path, "w") as file:
        file.write("\n".join(parts) + "\n")


def collect(options, folder):
    """Measures all configurations in each round, so that a temporary disturbance affects one round of each. Disturbances only add time,
    so the least of the rounds counts."""
    lines = [line for line in CONFIGURATIONS.strip().splitlines() if options.only in line]
    rows = []
    for number, line in enumerate(lines * options.rounds):
        if sys.stderr.isatty():
            print(f"\r\033[K{number + 1}/{len(lines) * options.rounds} {line}", end="", file=sys.stderr, flush=True)
        plan = os.path.join(folder, f"plan{number % len(lines)}.so")
        if number < len(lines):
            model, *flags = line.split()
            arguments = [find_model(model, folder), *flags]
            run([os.path.join(options.bin, "moe-compile"), *arguments, "-o", plan])
            rows.append({"configuration": line, "measured_s": math.inf,
                         "predicted_s": predict(options.bin, arguments, options.cluster)})
        row = rows[number % len(lines)]
        row["measured_s"] = min(row["measured_s"], measure(options.bin, plan, options.steps))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--cluster", default="localhost", help="profile of this machine, by moe-calibrate")
    parser.add_argument("--svg", help="write a scatter plot")
    parser.add_argument("--json", help="write all figures")
    parser.add_argument("--steps", type=int, default=7, help="steps of each run")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each configuration")
    parser.add_argument("--only", default="", help="only configurations that contain this text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = collect(options, folder)
    print(f"{'configuration':<76} {'measured':>11} {'predicted':>11} {'error':>7}")
    for row in rows:
        measured, predicted = row["measured_s"], row["predicted_s"]
        print(f"{row['configuration']:<76} {1e3 * measured:8.2f} ms {1e3 * predicted:8.2f} ms {100 * (predicted / measured - 1):+6.1f}%")
    summary = summarise(rows)
    print(f"\n{summary['count']} configurations: R^2 {summary['r2']:.4f} (of the logarithms {summary['r2_of_logarithms']:.4f}), "
          f"mean error {100 * summary['mean_error']:.1f}%, worst {100 * summary['worst_error']:.1f}% ({summary['worst']})")
    if options.svg:
        draw(rows, summary, options.svg)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"summary": summary, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
