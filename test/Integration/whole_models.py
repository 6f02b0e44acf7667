#!/usr/bin/python3
"""Tests whole models of every family at tiny sizes: for a random checkpoint, plans give the same as numpy.

The checkpoint has the names and shapes of the family's published ones. The plan's metadata says how its parameters are made from them.
"""

import json
import math
import os
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "oracle"))

import checkpoint
import harness
import models
import safetensors

BATCH, LENGTH = 2, 8
TOLERANCE = 1e-10
# mp=4 has two key heads on four ranks, and does not divide some vocabularies and numbers of heads.
LAYOUTS = {
    "one rank": "dp=1,mp=1,ep=1,esp=1",
    "dp 2, ep 2": "dp=2,mp=1,ep=2,esp=1",
    "mp 2, ep 2": "dp=1,mp=2,ep=2,esp=1",
    "dp 2, mp 2, ep 2, esp 2": "dp=2,mp=2,ep=2,esp=2",
    "mp 4, ep 4": "dp=1,mp=4,ep=4,esp=1",
}


@dataclass
class Case:
    model: str
    layout: str
    schedule: str = "baseline"


def cases():
    for name in sorted(os.listdir(os.path.join(FOLDER, "models"))):
        model = name.removesuffix(".json")
        for layout, flags in LAYOUTS.items():
            yield f"{model}, {layout}", Case(model, flags)
    # Sequences are routed apart, and no schedule changes which of their tokens are dropped.
    for schedule in ("s2+saa", "chunks:4", "s2+chunks:3"):
        yield f"switch, dp 2, mp 2, ep 2, esp 2, {schedule}", Case("switch", LAYOUTS["dp 2, mp 2, ep 2, esp 2"], schedule)
    yield "switch, mp 4, ep 4, ppmoe", Case("switch", LAYOUTS["mp 4, ep 4"], "ppmoe")
    yield "mixtral, dp 2, mp 2, ep 2, esp 2, s1", Case("mixtral", LAYOUTS["dp 2, mp 2, ep 2, esp 2"], "s1")
    yield "gpt-oss, dp 2, mp 2, ep 2, esp 2, s2", Case("gpt-oss", LAYOUTS["dp 2, mp 2, ep 2, esp 2"], "s2")


def check(tools, case, folder, log):
    path = partial(os.path.join, folder)
    source = os.path.join(FOLDER, "models", case.model + ".json")
    with open(source) as file:
        config = json.load(file)
    tools.call(log, "moe-compile", source, "--whole-model", "--mode=forward", "--dtype=f64", f"--batch={BATCH}",
               f"--seq={LENGTH}", f"--parallel={case.layout}", f"--schedule={case.schedule}", "-o", path("plan.so"))
    metadata = checkpoint.read_metadata(path("plan.so"))
    tensors = models.draw(config, seed=1)
    sequences = BATCH * metadata["parallel"]["dp"]
    rng = np.random.default_rng(2)
    ids = {argument["name"]: rng.integers(0, argument["below"], (sequences, LENGTH))
           for argument in metadata["programs"][0]["arguments"] if argument["role"] == "input"}

    inputs = checkpoint.parameters(metadata, tensors)
    flat = {name: values.reshape(-1).astype(np.int32) for name, values in ids.items()}
    safetensors.save(path("in.safetensors"), {**flat, **inputs})
    tools.call(log, "moe-run", path("plan.so"), "--verify", f"--load={path('in.safetensors')}",
               f"--save={path('out.safetensors')}")
    # Capacities are counted in each rank's tokens, and in each of its parts if S1 splits them.
    want = models.logits(config, tensors, groups=metadata["parallel"]["dp"], **ids)
    got = safetensors.load(path("out.safetensors"))["logits"]
    error = np.max(np.abs(got - want)) / np.max(np.abs(want))
    if not error <= TOLERANCE:
        raise harness.CaseFailed(f"expected the logits within {TOLERANCE:.0e} but they differ by {error:.1e}")
    return f"{sum(math.prod(v.shape) for v in inputs.values())} parameters, error {error:.1e}"


def main():
    options = harness.parser(__doc__).parse_args()
    return harness.run_cases(cases(), partial(check, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
