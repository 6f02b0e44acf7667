#!/usr/bin/env python3
"""Measures Parm's schedules against its baseline on this machine's processors: forward and backward of one layer.

All ranks are in one process, or each in a process of its own under mpirun.

Usage: parm_host.py --bin DIR [--backend=mpi] [--schedules=s1,s2] [--rounds=N] [--steps=N] [--only=TEXT]. On one machine communication is
cheap, so this shows the redundant computation: the baseline computes every token N_MP times. In each round all schedules of a layer run
one after the other, and a speed-up is the median of the rounds' ratios. So a disturbance of the machine disturbs both. Exit status 1: a
speed-up is less than wanted.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

from layers import graph, run

# N_MP, N_ESP, ranks, M, H, E, and tokens of a data-parallel rank.
LAYERS = [
    (2, 1, 4, 512, 1024, 4, 1024),
    (2, 2, 4, 512, 2048, 4, 512),
    (2, 2, 8, 1024, 1024, 8, 512),
    (2, 4, 8, 512, 1024, 4, 512),
    (2, 2, 4, 1024, 2048, 4, 512),
    (4, 1, 4, 512, 1024, 4, 1024),
    (4, 2, 4, 512, 2048, 4, 512),
    (4, 4, 4, 1024, 1024, 4, 512),
    (4, 2, 8, 512, 1024, 8, 512),
    (4, 4, 8, 1024, 2048, 4, 512),
]
TOP_K, FACTOR = 2, 1.2
WANTED = {2: 1.6, 4: 2.8}


def describe(layer):
    mp, esp, ranks, m, h, experts, tokens = layer
    return f"N_MP={mp} N_ESP={esp} P={ranks} M={m} H={h} E={experts} BL={tokens}"


def compile_plan(tools, layer, schedule, folder):
    mp, esp, ranks, m, h, experts, tokens = layer
    source, plan = os.path.join(folder, "layer.mlir"), os.path.join(folder, f"{schedule}.so")
    with open(source, "w") as file:
        file.write(graph((m, h), ranks // mp * tokens, experts, TOP_K, FACTOR))
    run([os.path.join(tools, "moe-compile"), source, f"--parallel=dp={ranks // mp},mp={mp},ep={ranks // esp},esp={esp}",
         f"--schedule={schedule}", "-o", plan])
    return plan


def measure(options, plan, ranks):
    """Least time of the steps after the first, because disturbances only add time. The first step touches the memory for the first time."""
    launch = [] if options.backend == "host" else ["mpirun", "--quiet", "--oversubscribe", "-n", str(ranks)]
    result = json.loads(run([*launch, os.path.join(options.bin, "moe-run"), plan, f"--backend={options.backend}",
                             f"--iters={options.steps + 1}", "--json"]))
    return min(result["step_ms"]["all"][1:])


def measure_layer(options, layer):
    """Milliseconds of each round, by schedule."""
    with tempfile.TemporaryDirectory() as folder:
        plans = {name: compile_plan(options.bin, layer, name, folder) for name in ["baseline", *options.schedules]}
        times = {name: [] for name in plans}
        for _ in range(options.rounds):
            for name, plan in plans.items():
                times[name].append(measure(options, plan, layer[2]))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--backend", default="host", choices=["host", "mpi"])
    parser.add_argument("--schedules", default="s1,s2", type=lambda text: text.split(","), help="besides the baseline")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each plan")
    parser.add_argument("--steps", type=int, default=2, help="steps of each run, after one that does not count")
    parser.add_argument("--only", default="", help="only layers whose description contains this text")
    options = parser.parse_args()
    print(f"{'layer':<52} {'baseline':>11}" + "".join(f"  {name:>7} (least .. most)" for name in options.schedules), flush=True)
    medians = {}
    for layer in [layer for layer in LAYERS if options.only in describe(layer)]:
        times = measure_layer(options, layer)
        line = f"{describe(layer):<52} {statistics.median(times['baseline']):8.1f} ms"
        for name in options.schedules:
            ratios = [base / other for base, other in zip(times["baseline"], times[name])]
            medians.setdefault((layer[0], name), []).append(statistics.median(ratios))
            line += f"  {statistics.median(ratios):7.2f} ({min(ratios):5.2f} .. {max(ratios):4.2f})"
        print(line, flush=True)
    ok = True
    print()
    for (mp, name), speedups in sorted(medians.items()):
        good = min(speedups) >= WANTED[mp]
        ok &= good
        print(f"{'ok  ' if good else 'FAIL'}  N_MP={mp}: {name} over the baseline {min(speedups):.2f} .. {max(speedups):.2f}, "
              f"wanted at least {WANTED[mp]}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
