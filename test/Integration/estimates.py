#!/usr/bin/python3
"""What moe-plan estimates from samples of a model's blocks, against the steps that it compiles, over random options."""

import os
import random
import sys
from functools import partial

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
import harness
from estimates_cases import draw, run

CASES = 24
# Relative errors at most, of one case. benchmarks/estimates.py has the means.
SECONDS, BYTES = 0.15, 0.4


def cases():
    """Draws that can be: of illegal ones there is nothing to compare."""
    rng = random.Random(7)
    for number in range(CASES):
        yield f"case {number}", [draw(rng) for _ in range(12)]


def check(tools, commands, folder, log):
    for command in commands:
        one, error = run(os.path.join(tools.folder, "moe-plan"), command)
        log.append(" ".join(command))
        if one:
            break
        log.append(str(error))
    else:
        raise harness.CaseFailed("none of the draws can be")
    for what, estimate, step, most in (("seconds", one["estimate"], one["seconds"], SECONDS), ("bytes", one["estimate_memory"], one["memory"], BYTES)):
        log.append(f"{what}: {estimate:.5g} estimated, {step:.5g} compiled, {estimate / step - 1:+.1%}")
        if abs(estimate / step - 1) > most:
            raise harness.CaseFailed(f"{log[-1]}: more than {most:.0%} apart")


def main():
    options = harness.parser(__doc__).parse_args()
    return harness.run_cases(cases(), partial(check, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
