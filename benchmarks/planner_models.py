#!/usr/bin/env python3
"""Measures how long --schedule=auto and --parallel=auto take: a layer's search by ranks, and DeepSeek-V3 on 1024 devices.

Usage: planner_models.py --bin DIR [--repeat=N] [--model=NAME --layers=N --world=N]. Each figure is of a whole process, from the model's
configuration to the plan as text. For the model everything is left open. It is planned with as many threads as there are cores, and once
more with one thread. Plans and reasons must be the same files. Exit status 1 if a claim fails.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

RANKS = (8, 64, 128, 256, 512, 1024)
# Largest number of ranks for which orders are searched with uneven routing, rank by rank (kMaxUnevenRanks).
UNEVEN = 64


class Run:
    """A process of moe-compile that has ended."""

    def __init__(self, tool, *flags):
        start = time.perf_counter()
        process = subprocess.Popen([tool, *flags, "--cluster=hgx-h100", "--dtype=bf16", "--reference=false", "--emit=plan"])
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"error: moe-compile {' '.join(flags)} ended with status {status}")
        self.seconds = time.perf_counter() - start
        self.processor = usage.ru_utime + usage.ru_stime
        self.gigabytes = usage.ru_maxrss * 1024 / 1e9


def claim(is_so, text):
    print(f"{'ok' if is_so else 'FAIL':6}{text}")
    return is_so


def measure_ranks(tool, repeat):
    """Measures a layer of Qwen3-30B-A3B, ep 8, on increasing numbers of ranks."""
    print("--schedule=auto, a layer of qwen3-30b-a3b, 4096 tokens a rank, ep 8, one thread, least of", repeat)
    seconds = {}
    for ranks in RANKS:
        flags = ["qwen3-30b-a3b", "--layers=1", "--seq=4096", f"--parallel=dp={ranks},ep=8", "--schedule=auto", "--num-threads=1",
                 "-o", os.devnull]
        seconds[ranks] = min(Run(tool, *flags).processor for _ in range(repeat))
        print(f"  {ranks:5} ranks  {seconds[ranks]:6.2f} s" + ("  orders with uneven routing" if ranks <= UNEVEN else ""))
    # The number of orders depends on the time of exchanges, so it varies a little.
    few, many = seconds[RANKS[RANKS.index(UNEVEN) + 1]], seconds[RANKS[-1]]
    return claim(many <= 1.25 * few, f"on {RANKS[-1]} ranks a search takes no longer than on {RANKS[RANKS.index(UNEVEN) + 1]}: {many:.2f} and {few:.2f} s")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def describe_choice(path):
    groups = next(group for group in json.loads(read(path))["groups"]["candidates"] if group["verdict"] == "chosen")
    return (f"{groups['parallel']}, {groups['micro_batches']} micro-batches, {groups['schedule']}: {groups['seconds'] * 1e3:.0f} ms a step, "
            f"{groups['memory'] / 1e9:.1f} GB a rank")


def measure_model(tool, options, folder):
    flags = [options.model, "--whole-model", "--seq=4096", "--batch=1", f"--global-batch={4 * options.world}", "--optimizer=adam", "--zero",
             "--recompute", f"--world={options.world}", "--parallel=auto", "--schedule=auto"]
    if options.layers:
        flags.append(f"--layers={options.layers}")
    runs = {}
    for threads in (0, 1):
        explain, plan = (os.path.join(folder, f"{threads}.{what}") for what in ("json", "mlir"))
        runs[threads] = Run(tool, *flags, f"--num-threads={threads}", f"--explain={explain}", "-o", plan)
    many, one = runs[0], runs[1]
    print(f"\n{options.model} on {options.world} devices of hgx-h100, {4 * options.world} sequences of 4096 tokens a step, Adam with ZeRO-1, "
          "all choices open, with --explain")
    print("  " + describe_choice(os.path.join(folder, "0.json")))
    print(f"  {os.cpu_count()} threads  {many.seconds:6.1f} s  {many.gigabytes:5.2f} GB    one thread  {one.seconds:6.1f} s  {one.gigabytes:5.2f} GB")
    same = all(read(os.path.join(folder, f"0.{what}")) == read(os.path.join(folder, f"1.{what}")) for what in ("json", "mlir"))
    return all([claim(many.seconds <= 60, f"{options.model} is planned in at most 60 s: {many.seconds:.1f} s"),
                claim(many.gigabytes <= 4, f"and 4 GB: {many.gigabytes:.2f} GB"),
                claim(same, "plan and reasons are the same on one thread and on several")])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--model", default="deepseek-v3")
    parser.add_argument("--layers", type=int, default=0, help="blocks of the model; all without it")
    parser.add_argument("--world", type=int, default=1024)
    options = parser.parse_args()
    tool = os.path.join(options.bin, "moe-compile")
    good = measure_ranks(tool, options.repeat)
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        good &= measure_model(tool, options, folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
