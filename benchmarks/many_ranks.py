#!/usr/bin/env python3
"""Runs 64 ranks of an MoE layer on this machine, and measures the time of a step, and the memory against the plan's promise.

Usage: many_ranks.py --bin DIR [--seq=N]. The promise is, for each rank, its arena, arguments and results. moe-run also holds the global
inputs and results.
"""
import argparse
import json
import os
import re
import resource
import subprocess
import tempfile

PARALLEL = "dp=64,mp=1,ep=8,esp=1"
RANKS = 64


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--seq", type=int, default=128, help="tokens of a rank")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plan, report = os.path.join(folder, "plan.so"), os.path.join(folder, "report.txt")
        subprocess.run([os.path.join(options.bin, "moe-compile"), "switch-base-8", "--capacity-factor=1", f"--seq={options.seq}",
                        f"--parallel={PARALLEL}", f"--report={report}", "-o", plan], check=True)
        with open(report) as file:
            promised = RANKS * int(re.search(r"memory of one rank: (\d+) bytes", file.read()).group(1))
        run = subprocess.run([os.path.join(options.bin, "moe-run"), plan, "--iters=3", "--json"], check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    result = json.loads(run.stdout)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    seconds = result["step_ms"]["median"] / 1e3
    print(f"{RANKS} ranks of switch-base-8, {options.seq} tokens each, forward and backward")
    print(f"  step             {seconds:8.2f} s   {result['flops'] / seconds / 1e9:8.1f} GFLOP/s")
    print(f"  ranks' memory    {promised / 1e9:8.2f} GB  as the plan promises")
    print(f"  peak of moe-run  {peak / 1e9:8.2f} GB  global tensors and libraries included")


if __name__ == "__main__":
    main()
