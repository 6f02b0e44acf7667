#!/usr/bin/env python3
"""Measures how long moe-plan takes to answer, and how much memory it needs, for the largest models and clusters.

Usage: first_answer.py --bin DIR [--only=NAME]. Each figure is of a whole process. Exit status 1 if an answer takes longer, or needs more
memory, than allowed.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

SECONDS, GIGABYTES = 30, 3
CASES = (
    ("mixtral-8x7b", 64),
    *(("qwen3-235b-a22b", gpus) for gpus in (256, 512, 1024, 2048)),
    *(("deepseek-v3", gpus) for gpus in (1024, 2048, 4096)),
)
CLUSTER = "hgx-h100"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--only", help="cases of this model")
    options = parser.parse_args()
    ok = True
    print("model             GPUs  seconds  CPU s     GB  step ms  groups")
    with tempfile.TemporaryDirectory() as folder:
        for model, gpus in CASES:
            if options.only and model != options.only:
                continue
            start = time.perf_counter()
            with open(os.path.join(folder, "answer.json"), "w+") as answer:
                process = subprocess.Popen([os.path.join(options.bin, "moe-plan"), model, str(gpus), CLUSTER, "--json"],
                                           stdout=answer, stderr=subprocess.DEVNULL)
                _, status, usage = os.wait4(process.pid, 0)
                seconds, gigabytes = time.perf_counter() - start, usage.ru_maxrss * 1024 / 1e9
                answer.seek(0)
                chosen = json.load(answer) if status == 0 else None
            fits = chosen is not None and seconds <= SECONDS and gigabytes <= GIGABYTES
            ok &= fits
            text = f"{1e3 * chosen['seconds']:8.0f}  {chosen['parallel']}" if chosen else "  no answer"
            print(f"{model:16}{gpus:6}{seconds:9.1f}{usage.ru_utime + usage.ru_stime:7.1f}{gigabytes:7.2f} {text}{'' if fits else '  TOO MUCH'}", flush=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
