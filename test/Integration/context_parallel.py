#!/usr/bin/python3
"""Tests context parallelism: whole training steps of models, whose sequences the ranks of cp divide, equal those of one rank.

Each case is a family of attention: windows, sinks, biases, latent heads, pieces of sequences, dropout, and others. The other groups,
schedules, micro-batches and the form of the exchange, gathered or round the ranks, rotate over the cases. The full suite has every
model with 2, 4 and 8 ranks of cp. It also compares the logits with numpy.
"""

import itertools
import json
import os
import sys
from dataclasses import dataclass
from functools import partial

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "oracle"))

import harness
import whole_models


@dataclass
class Case:
    model: str
    parallel: str
    flags: tuple = ()
    length: int = 16


# Models with capacities drop tokens by rank, which numpy counts in another order.
WITH_CAPACITY = ("switch", "gpt2-moe", "bert-moe")

QUICK = {
    "learned positions, dropout, capacity": Case("gpt2-moe", "dp=2,cp=2,ep=4"),
    "rotary positions, grouped heads": Case("qwen3-moe", "cp=4,mp=2,ep=4,esp=2", ("--sequence-parallel", "--schedule=s1")),
    "windows and sinks": Case("gpt-oss", "dp=2,cp=2,ep=4", ("--micro-batches=2", "--batch=2")),
    "windows and sinks, ring": Case("gpt-oss", "cp=4,ep=4", ("--ring-attention", "--batch=2")),
    "latent heads": Case("deepseek-v3", "cp=2,mp=2,ep=4", ("--zero",)),
    "latent heads, ring": Case("deepseek-v2", "cp=2,dp=2,ep=4", ("--ring-attention",)),
    "pieces of sequences": Case("llama4", "cp=4,ep=2"),
    "pieces of sequences, ring": Case("llama4", "cp=2,ep=2", ("--ring-attention", "--batch=2")),
    "biases, encoder and decoder": Case("switch", "dp=2,cp=2,mp=2,ep=4,esp=2"),
    "not causal": Case("bert-moe", "cp=4,ep=4", ("--batch=2",)),
    "stages, ring": Case("mixtral", "pp=2,cp=4,ep=4", ("--micro-batches=3", "--recompute=block", "--ring-attention")),
    "consecutive rows": Case("mixtral", "cp=4,ep=4", ("--schedule=chunks:2",), length=12),
}


def full_cases():
    """Every model. The other options rotate."""
    names = sorted(name.removesuffix(".json") for name in os.listdir(os.path.join(FOLDER, "models")))
    others = itertools.cycle(("", "dp=2,ep=2", "mp=2", "pp=2,ep=2", "mp=2,ep=2,esp=2"))
    flags = itertools.cycle(((), ("--ring-attention",), ("--batch=2", "--recompute=block"), ("--ring-attention", "--batch=2"),
                             ("--micro-batches=2", "--zero"), ("--sequence-parallel",), ("--schedule=s1", "--ring-attention")))
    for name in names:
        for cp in (2, 4, 8):
            other, flag = next(others), next(flags)
            if "pp=" in other and not any("micro" in one for one in flag):
                flag = (*flag, "--micro-batches=2")
            if "mp=" not in other:
                flag = tuple(one for one in flag if one != "--schedule=s1")
            yield f"{name}, cp {cp}, {other or 'alone'}{', '.join(('', *flag))}", Case(name, f"cp={cp},{other}".rstrip(","), flag)
    for name in names:
        if name not in WITH_CAPACITY:
            yield f"{name}, logits", whole_models.Case(name, "dp=2,cp=2,mp=1,ep=2,esp=1")


def check(tools, case, folder, log):
    if isinstance(case, whole_models.Case):
        return whole_models.check(tools, case, folder, log)
    plan = os.path.join(folder, "plan.so")
    source = os.path.join(FOLDER, "models", case.model + ".json")
    _, notes = tools.call_for_all(log, "moe-compile", source, "--whole-model", "--dtype=f64", f"--seq={case.length}",
                                  f"--parallel={case.parallel}", "--optimizer=adam", *case.flags, "-o", plan)
    if "leaves this layer as it is" in notes:
        raise harness.CaseFailed(f"expected the schedule in every layer\n{notes}")
    verify = json.loads(tools.call(log, "moe-run", plan, "--verify", "--iters=2", "--json"))["verify"]
    errors = {value["name"]: value["relative_error"] for value in verify["values"]}
    if verify.get("ok") is not True or None in errors.values():
        raise harness.CaseFailed(f"verify.ok is {verify.get('ok')}: {errors}")
    worst = max(errors, key=errors.get)
    return f"{len(errors)} tensors, worst {errors[worst]:.1e} ({worst})"


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--suite", choices=("quick", "full"), default="quick")
    options = parser.parse_args()
    cases = QUICK.items() if options.suite == "quick" else full_cases()
    return harness.run_cases(cases, partial(check, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
