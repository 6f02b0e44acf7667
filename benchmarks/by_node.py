#!/usr/bin/env python3
"""Simulates layers of DeepSeek-V3 and Qwen3 235B whose tokens go once to each rank, or once to each node.

Usage: by_node.py --bin DIR [--only=TEXT]. There are 64 H100 in 8 nodes (hgx-h100, dp=64, ep=64), 4096 tokens of each rank, bf16, forward and
backward. Tokens of DeepSeek-V3 choose 8 of 256 experts, from 4 of 8 groups. Tokens of Qwen3 choose 8 of 128 experts. Routing is even, or has
the synthetic statistics of its model's training.

Alone: the baseline, once:rank and once:node, all with --order=search. In the best plan: --schedule=auto, and the best of its candidates
that does not exchange by node.

Claims:
  - With even routing, the forward moves as many bytes between nodes as the closed form says, within 1%. A token that chooses k of E experts
    meets a holder of n of them with the probability 1 - C(E - n, k) / C(E, k). Where it draws its experts from some groups, meets() says it.
    once:node sends one row for each other node that the token meets, once:rank one for each rank there, and the baseline one for each
    choice there.
  - once:node is in the best plan, and it gains with each routing.
"""
import argparse
import json
import os
import sys
import tempfile
from fractions import Fraction
from math import comb

from layers import report, run

RANKS, NODES, TOKENS = 64, 8, 4096
MODELS = {
    "deepseek-v3": {"hidden": 7168, "experts": 256, "groups": 8, "top_groups": 4, "k": 8, "preset": "aux-free"},
    "qwen3-235b-a22b": {"hidden": 4096, "experts": 128, "groups": 1, "top_groups": 1, "k": 8, "preset": "aux-loss"},
}
SCHEDULES = ("baseline", "once:rank", "once:node")
WANTED = 0.01


def meets(model, holders):
    """Probability that a token meets one of `holders`, each of which has the same number of neighbouring experts. The token draws its
    groups first, then k of their experts."""
    experts, groups, top, k = model["experts"], model["groups"], model["top_groups"], model["k"]
    own, group = experts // holders, experts // groups
    drawn = top * group
    if own <= group:
        # This assumes that all experts of the holder are in one group.
        return Fraction(top, groups) * (1 - Fraction(comb(drawn - own, k), comb(drawn, k)))
    its = own // group
    return sum(Fraction(comb(its, hit) * comb(groups - its, top - hit), comb(groups, top))
               * (1 - Fraction(comb(drawn - hit * group, k), comb(drawn, k))) for hit in range(min(its, top) + 1))


def rows_between(model, schedule):
    """Rows of a token that leave its node."""
    others = Fraction(NODES - 1, NODES)
    if schedule == "baseline":
        return model["k"] * others
    return (meets(model, NODES) * NODES if schedule == "once:node" else meets(model, RANKS) * RANKS) * others


def bytes_between(model, schedule):
    """Bytes of the forward: a row goes there and back. With `once` its choices (i32) and weights (f32) go along."""
    row = 2 * 2 * model["hidden"] + (0 if schedule == "baseline" else (4 + 4) * model["k"])
    return float(TOKENS * rows_between(model, schedule)) * row


def get_flags(name, routing):
    flags = [name, f"--seq={TOKENS}", "--dtype=bf16", f"--parallel=dp={RANKS},ep={RANKS}", "--cluster=hgx-h100"]
    return flags + ([f"--synthetic-routing=preset={routing},iterations=1"] if routing != "even" else [])


def simulate(options, name, routing, schedule, *more):
    result = json.loads(run([os.path.join(options.bin, "moe-sim"), *get_flags(name, routing), f"--schedule={schedule}", "--order=search",
                             "--json", *more]))
    return {"seconds": result["step_s"], "between": result["sent"]["between_nodes"], "inside": result["sent"]["inside_nodes"]}


def search(options, name, routing, folder):
    """The search's choice, and the best of all candidates that do not exchange by node."""
    path = os.path.join(folder, "explanation.json")
    run([os.path.join(options.bin, "moe-compile"), *get_flags(name, routing), "--schedule=auto", f"--explain={path}", "--emit=plan", "-o",
         os.path.join(folder, "plan.mlir")])
    with open(path) as file:
        candidates = [one for one in json.load(file)["candidates"] if one["verdict"] in ("simulated", "chosen")]
    def best(of):
        one = min(of, key=lambda one: one["seconds"])
        return {"schedule": one["schedule"], "seconds": one["seconds"], "between": one["bytes_between_nodes"],
                "inside": one["bytes_sent"] - one["bytes_between_nodes"]}
    return best(candidates), best(one for one in candidates if not one.get("by_node"))


def print_row(text, figures, beside):
    print(f"  {text:<34} {1e-6 * figures['between']:9.1f} {1e-6 * figures['inside']:9.1f} {1e3 * figures['seconds']:9.2f} "
          f"{beside['seconds'] / figures['seconds']:8.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--only", default="", help="only cases whose description contains this text")
    options = parser.parse_args()
    errors, gains, chosen = {}, {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name, model in MODELS.items():
            for routing in ("even", model["preset"]):
                if options.only not in f"{name} {routing}":
                    continue
                print(f"{name}, {routing} routing\n  {'MB that a rank sends':<34} {'between':>9} {'inside':>9} {'step ms':>9} {'gain':>8}")
                alone = {schedule: simulate(options, name, routing, schedule) for schedule in SCHEDULES}
                for schedule, figures in alone.items():
                    print_row(schedule, figures, alone["baseline"])
                    if routing == "even":
                        forward = simulate(options, name, routing, schedule, "--mode=forward")
                        errors[name, schedule] = forward["between"] / bytes_between(model, schedule) - 1
                best, without = search(options, name, routing, folder)
                print_row(f"best without: {without['schedule']}", without, without)
                print_row(f"best: {best['schedule']}", best, without)
                print()
                gains[name, routing] = without["seconds"] / best["seconds"]
                chosen.append("once:node" in best["schedule"])
    if not gains:
        parser.error(f"--only: expected a part of a model's name and routing, such as 'deepseek-v3 even', but got '{options.only}'")
    for name, model in MODELS.items():
        print(f"{name}: a token's rows that leave its node: " + ", ".join(
            f"{schedule} {float(rows_between(model, schedule)):.3f}" for schedule in SCHEDULES))
    print()
    worst = max(map(abs, errors.values()), default=0)
    ok = report(worst <= WANTED, f"bytes of the forward between nodes agree with the closed form within {100 * worst:.2f}%; wanted {WANTED:.0%}")
    ok &= report(all(chosen) and all(gain > 1 for gain in gains.values()),
                 "once:node is in the best plan, and gains " + ", ".join(f"{gain:.2f} times" for gain in gains.values()))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
