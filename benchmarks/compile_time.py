#!/usr/bin/env python3
"""How long moe-compile takes: one layer and 96, at 8 and at 4096 ranks, in one run.

Usage: compile_time.py --bin DIR [--repeat=N]. Each figure is the median wall time of whole processes, from the model's
configuration to the plan .so, start-up and linking included.
"""
import argparse
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


if __name__ == "__main__":
    main()
