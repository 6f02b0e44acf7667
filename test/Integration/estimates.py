#!/usr/bin/python3
"""What --parallel=auto estimates from samples of a model's blocks, against the steps that it compiles."""

import json
import os
import sys
from functools import partial
from typing import NamedTuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness

TRAIN = ("--dtype=bf16", "--optimizer=adam", "--zero", "--max-load=1.5", "--seq=4096")
# Relative errors at most.
SECONDS, BYTES = 0.05, 0.1


class Case(NamedTuple):
    model: str
    flags: tuple


def cases():
    yield "one kind of blocks", Case("qwen3-30b-a3b", ("--global-batch=64",))
    yield "one kind of blocks, recomputed", Case("qwen3-30b-a3b", ("--global-batch=64", "--recompute"))
    # Much is done once a step: experts' gradients are added up, and their parameters updated.
    yield "large experts", Case("mixtral-8x7b", ("--global-batch=128", "--recompute"))
    yield "two kinds of blocks", Case("deepseek-v2-lite", ("--global-batch=64", "--recompute"))


def check(tools, case, folder, log):
    explanation = os.path.join(folder, "why.json")
    tools.call(log, "moe-compile", case.model, "--whole-model", "--layers=8", "--world=16", "--cluster=hgx-h100", "--parallel=auto", *TRAIN,
               *case.flags, f"--explain={explanation}", "--emit=plan", "-o", os.path.join(folder, "plan.mlir"))
    with open(explanation) as file:
        compiled = [one for one in json.load(file)["groups"]["candidates"] if "seconds" in one]
    if len(compiled) < 3:
        raise harness.CaseFailed(f"expected 3 compiled steps or more but got {len(compiled)}")
    for one in compiled:
        for what, estimate, step, most in (("seconds", one["estimate"], one["seconds"], SECONDS),
                                           ("bytes", one["estimate_memory"], one["memory"], BYTES)):
            log.append(f"{one['parallel']}: {what} {estimate:.4g} {step:.4g} {estimate / step - 1:+.1%}")
            if abs(estimate / step - 1) > most:
                raise harness.CaseFailed(f"{one['parallel']}: estimated {estimate:.5g} {what}, compiled {step:.5g}: more than {most:.0%} apart")


def main():
    options = harness.parser(__doc__).parse_args()
    return harness.run_cases(cases(), partial(check, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
