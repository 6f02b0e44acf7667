#!/usr/bin/env python3
"""Measures how long moe-compile takes: one layer and 96, for 8 and for 4096 ranks, and whole models of 96 blocks, in one run.

Usage: compile_time.py --bin DIR [--repeat=N]. Each figure is the median wall time of whole processes, from the model's configuration to
the plan .so, with start-up and linking. Whole models are GPT-3 6.7B's backbone in 96 blocks with 64 experts on every other block, on 4096
ranks: forward, backward and Adam. Their memory is the compiler's own peak.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

RANKS = {8: "dp=4,mp=2,ep=4,esp=2", 4096: "dp=2048,mp=2,ep=4,esp=2"}


def measure(tool, layers, parallel, path, repeat):
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        subprocess.run([tool, "switch-base-8", f"--layers={layers}", f"--parallel={parallel}", "-o", path], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# Options of whole models, by name.
WHOLE = {
    "mp 8, ep 64": ["--parallel=dp=512,mp=8,ep=64"],
    "mp 8, ep 64, 16 micro-batches": ["--parallel=dp=512,mp=8,ep=64", "--micro-batches=16"],
    "pp 16, mp 8, ep 32, 16 micro-batches": ["--parallel=pp=16,dp=32,mp=8,ep=32", "--micro-batches=16"],
    "the same, no reference": ["--parallel=pp=16,dp=32,mp=8,ep=32", "--micro-batches=16", "--reference=0"],
}


# DeepSeek-V3 on 1024 H100, with 64 sequences for each micro-batch.
V3 = ["deepseek-v3", "--whole-model", "--dtype=bf16", "--seq=4096", "--cluster=hgx-h100", "--parallel=pp=16,dp=64,ep=8", "--interleave=2",
      "--pipeline=1f1b-overlap", "--recompute=block", "--max-load=2", "--optimizer=adam", "--zero", "--reference=0"]
V3_MICRO_BATCHES = (32, 256, 1024)


def compile_once(command, name):
    """Prints the seconds and the memory of one process."""
    start = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"error: moe-compile of {name} ended with status {status}")
    print(f"  {name:38} {time.perf_counter() - start:6.2f} s  {usage.ru_maxrss / 1e6:5.2f} GB  "
          f"{os.path.getsize(command[-1]) / 1e6:5.1f} MB")


def measure_whole(tool, folder):
    models = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "share", "models")
    with open(os.path.join(models, "gpt3-6.7b-moe.json")) as file:
        config = dict(json.load(file), n_layer=96)
    path = os.path.join(folder, "config.json")
    with open(path, "w") as file:
        json.dump(config, file)
    print("whole models of 96 blocks, 64 experts, 4096 ranks, one process each (at most 10 s and 2 GB wanted)")
    for name, flags in WHOLE.items():
        compile_once([tool, path, "--whole-model", "--batch=1", "--seq=2048", "--optimizer=adam", "--zero", "--cluster=hgx-h200", *flags, "-o",
                      os.path.join(folder, "plan.so")], name)
    print("DeepSeek-V3 on 1024 H100, pp 16, VPP 2, 1f1b-overlap, no reference (at most 10 s and 3 GB wanted at 256)")
    for count in V3_MICRO_BATCHES:
        compile_once([tool, *V3, f"--micro-batches={count}", "-o", os.path.join(folder, "plan.so")], f"{count} micro-batches")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--repeat", type=int, default=9)
    options = parser.parse_args()
    tool = os.path.join(options.bin, "moe-compile")
    print(f"moe-compile switch-base-8, forward and backward, median of {options.repeat}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "plan.so")
        measure(tool, 1, RANKS[8], path, 2)  # Warms the file cache.
        for layers, wanted in (1, 0.2), (96, 5.0):
            seconds = {ranks: measure(tool, layers, parallel, path, options.repeat) for ranks, parallel in RANKS.items()}
            print(f"  {layers:3} layers: {seconds[8]:6.3f} s at 8 ranks, {seconds[4096]:6.3f} s at 4096 "
                  f"(at most {wanted} wanted), ratio {seconds[4096] / seconds[8]:.3f} (0.9 to 1.1 wanted)")
        measure_whole(tool, folder)


if __name__ == "__main__":
    main()
