#!/usr/bin/python3
"""Checks every gradient of compiled one-rank references against central differences of their own forward, in f64.

The oracle only checks that a step does not change the routing or cross a kink.
"""

import math
import os
import sys
from functools import partial

import numpy as np

import families
import harness
import oracle
import safetensors

STEP = 1e-5
DIRECTIONS = 2
TOLERANCE = 1e-6


def cases():
    for name, model in oracle.option_cases():
        if not model.ties:
            yield name, model
    for name in families.shared_names():
        yield name, families.model_of(families.reduced_config(name), sequences=1, length=12)


def check(tools, model, folder, log):
    path = partial(os.path.join, folder)
    with open(path("model.mlir"), "w") as file:
        file.write(harness.mlir_text(model, "f64"))
    tools.call(log, "moe-compile", path("model.mlir"), harness.SINGLE_RANK, "-o", path("plan.so"))
    # A unit direction moves no selection value by more than this margin in a step.
    tensors, base = oracle.draw_safe(model, seed=2, margin=20 * STEP)

    def run(changed):
        moved = oracle.run(model, {name: array for name, array in changed.items() if not name.startswith("cotangent.")})
        if not all(a.same_as(b) for a, b in zip(moved.routings, base.routings)):
            raise harness.CaseFailed("the step changed the routing: the step is too large for these inputs")
        safetensors.save(path("in.safetensors"), changed, "f64")
        # The commands differ only in their input, and the last one is the one to repeat.
        del log[1:]
        tools.call(log, "moe-run", path("plan.so"), "--reference", f"--load={path('in.safetensors')}",
                   f"--save={path('out.safetensors')}")
        return safetensors.load(path("out.safetensors"))

    def loss(changed):
        out = run(changed)
        return float((out["y"] * tensors["cotangent.y"]).sum() + out["aux"] * tensors["cotangent.aux"])

    gradients = {name: array for name, array in run(tensors).items() if name.startswith("grad.")}
    if set(gradients) != set(model.gradient_names()):
        raise harness.CaseFailed(f"expected gradients {sorted(model.gradient_names())} but got {sorted(gradients)}")
    rng = np.random.default_rng(3)
    worst, worst_name = 0.0, None
    for gradient_name, gradient in gradients.items():
        name = gradient_name.removeprefix("grad.")
        for _ in range(DIRECTIONS):
            direction = rng.standard_normal(gradient.shape)
            direction /= np.linalg.norm(direction)
            plus, minus = (loss({**tensors, name: tensors[name] + sign * STEP * direction}) for sign in (1, -1))
            measured, derived = (plus - minus) / (2 * STEP), float((gradient * direction).sum())
            # If the gradient is almost orthogonal to the direction, the mean over random directions is the scale.
            scale = max(abs(derived), np.linalg.norm(gradient) / math.sqrt(gradient.size), 1e-8)
            error = abs(measured - derived) / scale
            if not error <= TOLERANCE:
                raise harness.CaseFailed(f"'{gradient_name}': {derived!r} along a direction of difference quotient "
                                         f"{measured!r}: relative error {error:.2e}, expected {TOLERANCE:.0e} at most")
            if error >= worst:
                worst, worst_name = error, gradient_name
    dropped = f", {base.dropped()} dropped" if base.dropped() else ""
    return f"{len(gradients)} gradients, worst {worst:.1e} ({worst_name}){dropped}"


def main():
    options = harness.parser(__doc__).parse_args()
    return harness.run_cases(list(cases()), partial(check, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
