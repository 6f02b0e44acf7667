#!/usr/bin/env python3
"""Trains a small GPT with MoE on one rank, and on 8 ranks under each schedule: all loss curves have to be one curve.

Usage: train.py --bin DIR [--data=FILE] [--steps=300] [--dtype=f32] [--svg=FILE] [--json=FILE].

The model has 4 blocks, MoE on every other FFN, dropout, AdamW with clipped gradients, and bytes as tokens. The one rank is the reference
program of the baseline's plan. Plans in micro-batches have other dropout, so for them the one rank is the reference of the first such
plan. Every plan is trained on the same sequences. The text is this project's documentation unless --data gives one.

The exit status is 1 if a curve differs from one rank's by more than 1e-4, relatively, or if one rank's does not fall. In f32, rounding may
decide between two experts with equal scores, and the curves then differ by up to 1e-3. So f64 is the default.
"""
import argparse
import glob
import itertools
import json
import math
import os
import sys
import tempfile

from layers import COLORS, Axes, Svg, report, run

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
MODEL = {
    "architectures": ["GPT2MoEForCausalLM"], "model_type": "gpt2_moe", "n_embd": 64, "n_head": 4, "n_layer": 4, "n_positions": 64,
    "n_inner": None, "vocab_size": 256, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "attn_pdrop": 0.1,
    "embd_pdrop": 0.1, "resid_pdrop": 0.1, "moe_every": 2, "num_experts": 8, "num_experts_per_tok": 2,
    "router_aux_loss_coef": 0.01, "tie_word_embeddings": True,
}
SEQUENCES, LENGTH, TOLERANCE = 8, 64, 1e-4
# Groups of ranks, schedule and flags, by name. Data-parallel ranks and micro-batches share out the sequences.
PLANS = {
    "baseline": (dict(dp=4, mp=2, ep=4, esp=2), "baseline", ()),
    "S1": (dict(dp=4, mp=2, ep=4, esp=2), "s1", ()),
    "S2": (dict(dp=4, mp=2, ep=4, esp=2), "s2", ()),
    "PPMoE": (dict(dp=2, mp=4, ep=4, esp=1), "ppmoe", ()),
    "pipelined": (dict(dp=8, mp=1, ep=8, esp=1), "chunks:2", ()),
    "shadowed": (dict(dp=8, mp=1, ep=8, esp=1), "shadow:2,prefix", ()),
    "ZeRO-1": (dict(dp=4, mp=2, ep=2, esp=1), "baseline", ("--zero",)),
    "sequence parallel": (dict(dp=2, mp=4, ep=4, esp=2), "s1", ("--sequence-parallel",)),
    "1F1B": (dict(pp=4, dp=2, mp=1, ep=2, esp=1), "baseline", ("--micro-batches=4",)),
    "interleaved": (dict(pp=2, dp=2, mp=2, ep=2, esp=1), "s2", ("--micro-batches=4", "--interleave=2", "--recompute")),
}


def count_micro_batches(flags):
    return next((int(flag.split("=")[1]) for flag in flags if flag.startswith("--micro-batches=")), 1)


def compile_plan(options, folder, name, groups, schedule, flags):
    config, plan = os.path.join(folder, "model.json"), os.path.join(folder, f"{name}.so")
    with open(config, "w") as file:
        json.dump(MODEL, file)
    run([os.path.join(options.bin, "moe-compile"), config, "--whole-model", "--mode=train", "--dropless",
         f"--batch={SEQUENCES // groups['dp'] // count_micro_batches(flags)}", f"--seq={LENGTH}",
         f"--routing-groups={SEQUENCES // count_micro_batches(flags)}", f"--dtype={options.dtype}",
         "--parallel=" + ",".join(f"{key}={value}" for key, value in groups.items()), f"--schedule={schedule}",
         "--optimizer=adam", "--clip-norm=1", "--weight-decay=0.1", *flags, "-o", plan])
    return plan


def train(options, plan, data, *flags):
    """Loss of each step, and total seconds."""
    steps = json.loads(run([os.path.join(options.bin, "moe-run"), plan, "--train", f"--data={data}", f"--steps={options.steps}",
                            "--rate=3e-3", "--warmup=20", "--final-rate=3e-4", "--json", *flags]))["steps"]
    return [step["loss"] for step in steps], sum(step["seconds"] for step in steps)


def gather_text(folder):
    path = os.path.join(folder, "text")
    with open(path, "wb") as out:
        # Results are left out, because they contain the results of this training.
        names = set(glob.glob(os.path.join(ROOT, "docs", "*.md"))) - {os.path.join(ROOT, "docs", "Results.md")}
        for name in sorted(names | {os.path.join(ROOT, "README.md")}):
            with open(name, "rb") as file:
                out.write(file.read())
    return path


def draw_steps(svg, axes, steps):
    """Draws the axis below. Returns the function from a step to its place."""
    place = lambda step: axes.left + axes.width * step / max(1, steps - 1)
    for step in range(0, steps + 1, max(1, steps // 6)):
        svg.text(place(min(step, steps - 1)), axes.top + axes.height + 18, str(step))
    return place


def draw(path, curves, references):
    """The losses of one rank, and below how far the others' are from them at most, relatively."""
    svg = Svg(960, 640)
    singles = sorted(set(references.values()))
    steps = len(curves[singles[0]])
    losses = Axes(svg, 70, 20, 640, 230, list(range(int(max(curves[singles[0]])) + 2)))
    place = draw_steps(svg, losses, steps)
    for number, name in enumerate(singles):
        svg.line([(place(i), losses.y(loss)) for i, loss in enumerate(curves[name])], ["#000", "#999"][number % 2])
        svg.rect(725, 30 + 20 * number, 10, 10, ["#000", "#999"][number % 2])
        svg.text(740, 39 + 20 * number, name, "start")
    svg.upright(20, 135, "loss")
    errors = Axes(svg, 70, 320, 640, 250, list(range(-18, -1, 2)), "1e{:d}")
    place = draw_steps(svg, errors, steps)
    svg.line([(70, errors.y(-4)), (710, errors.y(-4))], "#000", stroke_dasharray="4 4")
    for number, (name, single) in enumerate(references.items()):
        color, dashes = COLORS[number % len(COLORS)], ["none", "3 2"][number // len(COLORS) % 2]
        worst = itertools.accumulate((abs(a - b) / b for a, b in zip(curves[name], curves[single])), max)
        points = [(place(i), errors.y(math.log10(max(1e-18, error)))) for i, error in enumerate(worst)]
        svg.line(points, color, stroke_width="1.5", stroke_dasharray=dashes)
        svg.line([(725, 335 + 20 * number), (735, 335 + 20 * number)], color, stroke_width="3", stroke_dasharray=dashes)
        svg.text(740, 339 + 20 * number, name, "start")
    svg.upright(20, 445, "largest difference so far; 0 is at 1e-18")
    svg.text(390, 620, "step")
    svg.write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--data")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--dtype", default="f64")
    parser.add_argument("--svg")
    parser.add_argument("--json")
    options = parser.parse_args()
    curves, references, ok = {}, {}, True
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or gather_text(folder)
        for name, (groups, schedule, flags) in PLANS.items():
            plan = compile_plan(options, folder, name, groups, schedule, flags)
            parts = count_micro_batches(flags)
            single = "one rank" if parts == 1 else f"one rank, {parts} micro-batches"
            if single not in curves:
                curves[single], seconds = train(options, plan, data, "--reference")
                first, last = curves[single][0], curves[single][-1]
                ok &= report(last < 0.7 * first, f"{single}: loss {first:.3f} -> {last:.3f} in {options.steps} steps, {seconds:.1f} s")
            curves[name], seconds = train(options, plan, data)
            references[name] = single
            worst = max(abs(a - b) / b for a, b in zip(curves[name], curves[single]))
            ok &= report(worst <= TOLERANCE, f"{name}, 8 ranks: at most {worst:.1e} from {single}'s, {seconds:.1f} s")
    if options.svg:
        draw(options.svg, curves, references)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(curves, file)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
