#!/usr/bin/env python3
"""Measures how far moe-plan's choice is from the best of all groups, each of which is compiled as a whole.

Usage: groups_regret.py --bin DIR. For each model moe-plan chooses once among all groups. Then it chooses once for each group alone, with
everything else searched. Exit status 1 if the choice is more than 2% slower than the best.
"""
import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

MOST = 0.02
CASES = (
    ("mixtral-8x7b", 16, ("--layers=8", "--global-batch=64")),
    ("qwen3-30b-a3b", 16, ("--layers=8", "--global-batch=128", "--memory-limit=24GB")),
    ("deepseek-v2-lite", 32, ("--layers=10", "--global-batch=128")),
)


def ask(tool, *arguments):
    """moe-plan's answer, or None if no candidate is possible."""
    process = subprocess.run([tool, *arguments, "--json", "--num-threads=1"], capture_output=True, text=True)
    return json.loads(process.stdout) if process.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/release/bin")
    options = parser.parse_args()
    tool, ok = os.path.join(options.bin, "moe-plan"), True
    print("model             GPUs  groups  chosen ms    best ms  regret  best groups")
    for model, gpus, flags in CASES:
        question = (model, str(gpus), "hgx-h100", *flags)
        chosen = ask(tool, *question)
        groups = [one["parallel"] for one in chosen["explanation"]["groups"]["candidates"] if one["verdict"] != "illegal"]
        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda group: ask(tool, *question, f"--parallel=auto,{group}"), groups))
        best = min((answer for answer in answers if answer), key=lambda answer: answer["seconds"])
        regret = chosen["seconds"] / best["seconds"] - 1
        ok &= regret <= MOST
        print(f"{model:16}{gpus:6}{len(groups):8}{1e3 * chosen['seconds']:11.1f}{1e3 * best['seconds']:11.1f}{regret:8.2%}  {best['parallel']}", flush=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
