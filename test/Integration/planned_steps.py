#!/usr/bin/python3
"""Compares the step that moe-plan answers, which it simulates with few micro-batches, with a simulation of all of them."""

import json
import os
import re
import subprocess
import sys
from functools import partial

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness

MODEL = ["qwen3-30b-a3b", "--layers=8", "--seq=4096"]
# Largest relative error. The loop of a long step waits in each iteration if one of them has to, which takes longer with ZeRO-2.
MOST, IN_LOOP = 0.005, 0.01


def cases():
    for flags in ("--pipeline=1f1b --interleave=1", "--pipeline=1f1b --interleave=2", "--pipeline=1f1b-overlap --interleave=1",
                  "--pipeline=1f1b-overlap --interleave=2", "--pipeline=dualpipe-v"):
        yield f"pp=4, {flags}", (["--parallel=auto,pp=4,mp=1,ep=2,esp=1", *flags.split()], MOST)
    # Only the last micro-batch overlaps with the sums of gradients.
    for zero in range(4):
        yield f"pp=1, ZeRO-{zero}", (["--parallel=auto,pp=1,mp=1,ep=8,esp=1", f"--zero={zero}", "--vary=none"], IN_LOOP if zero == 2 else MOST)


def ask(tools, tool, *arguments):
    process = subprocess.run([os.path.join(tools.folder, tool), *arguments], capture_output=True, text=True)
    if process.returncode != 0:
        raise harness.CaseFailed(process.stderr)
    return process.stdout


def check(tools, case, folder, log):
    flags, most = case
    # There are enough micro-batches that most of the step is not simulated.
    # The explanation of --json would take most of the time.
    answer = ask(tools, "moe-plan", MODEL[0], "8", "hgx-h100", *MODEL[1:], "--global-batch=128", "--batch=1", *flags)
    # A line of the answer ends in a backslash if its options go on.
    options = re.search(r"^ +(--parallel=(?:.*\\\n)*.*)$", answer, re.MULTILINE)[1].replace("\\\n", " ").split()
    planned = float(re.search(r"^step +([\d.]+) ms:", answer, re.MULTILINE)[1]) / 1e3
    whole = json.loads(ask(tools, "moe-sim", *MODEL, "--whole-model", "--cluster=hgx-h100", "--dtype=bf16", "--optimizer=adam", *options, "--json"))["step_s"]
    log.append(f"{planned:.5g} s planned, {whole:.5g} s simulated, {planned / whole - 1:+.2%}")
    if abs(planned / whole - 1) > most:
        raise harness.CaseFailed(f"{log[-1]}: more than {most:.1%} apart")


def main():
    options = harness.parser(__doc__).parse_args()
    return harness.run_cases(cases(), partial(check, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
