#!/usr/bin/python3
"""Compares moe-plan's estimates from samples of a model's blocks with the steps that it compiles, over random options."""

import os
import random
import sys
from functools import partial

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
import harness
from estimates_cases import draw, run

CASES = 24
# Largest relative errors of one case. benchmarks/estimates.py has the means.
SECONDS, BYTES = 0.15, 0.15
# Largest error of bytes without a pipeline. The launches of chunks are reordered, and orders of a few blocks keep more or less alive than
# those of many.
REORDERED_BYTES = 0.4
# Largest errors of steps as people train.
TRAINED_SECONDS, TRAINED_BYTES = 0.05, 0.1
TRAINED = ("--layers=8", "--max-load=1.5", "--vary=none", "--memory-limit=1000000000000000")


def cases():
    """Commands. The first possible one is compared."""
    for name, model, flags in (("one kind of blocks", "qwen3-30b-a3b", ("--global-batch=64",)),
                               ("one kind of blocks, recomputed", "qwen3-30b-a3b", ("--global-batch=64", "--recompute")),
                               ("one kind of blocks, in part recomputed", "qwen3-235b-a22b", ("--global-batch=64", "--recompute=cheap-4")),
                               # A step adds up the experts' gradients and updates their parameters once.
                               ("large experts", "mixtral-8x7b", ("--global-batch=128", "--recompute")),
                               ("two kinds of blocks", "deepseek-v2-lite", ("--global-batch=64", "--recompute"))):
        for groups in ("pp=1,ep=8", "pp=4,ep=4"):
            yield f"{name}, {groups}", [[model, "16", "hgx-h100", f"--parallel=auto,mp=1,esp=1,{groups}", *TRAINED, *flags, "--zero"]]
    # All data-parallel ranks divide gradients and parameters, which only a few blocks gather at a time.
    for groups, zero, flags in (("pp=1,dp=64", 2, ()), ("pp=1,dp=64", 3, ("--recompute",)), ("pp=2,dp=32", 3, ("--recompute",))):
        yield f"ZeRO-{zero}, {groups}", [["mixtral-8x7b", "64", "hgx-h100", f"--parallel=auto,mp=1,esp=1,ep=8,{groups}", *TRAINED, *flags,
                                          f"--zero={zero}"]]
    rng = random.Random(7)
    draws = [[draw(rng) for _ in range(12)] for _ in range(CASES)]
    # The odd ones, without the case that takes longest. benchmarks/estimates.py compares more.
    for number in range(1, CASES, 2):
        yield f"case {number}", draws[number]


def check(tools, commands, folder, log):
    for command in commands:
        one, error = run(os.path.join(tools.folder, "moe-plan"), command)
        log.append(" ".join(command))
        if one:
            break
        log.append(str(error))
    else:
        raise harness.CaseFailed("none of the draws can be")
    seconds, size = (TRAINED_SECONDS, TRAINED_BYTES) if len(commands) == 1 else (SECONDS, BYTES)
    if any("pp=1," in word for word in command) and any("chunks:" in word for word in command):
        size = REORDERED_BYTES
    # Samples gather a layer's parameters beside its own work alone.
    if "--zero=3" in command and not any("pp=1," in word for word in command):
        seconds = SECONDS
    for what, estimate, step, most in (("seconds", one["estimate"], one["seconds"], seconds), ("bytes", one["estimate_memory"], one["memory"], size)):
        log.append(f"{what}: {estimate:.5g} estimated, {step:.5g} compiled, {estimate / step - 1:+.1%}")
        if abs(estimate / step - 1) > most:
            raise harness.CaseFailed(f"{log[-1]}: more than {most:.0%} apart")


def main():
    options = harness.parser(__doc__).parse_args()
    return harness.run_cases(cases(), partial(check, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
