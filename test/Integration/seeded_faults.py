#!/usr/bin/python3
"""Makes plans wrong, one call at a time. --verify=exact must find each fault.

The faults are those that a compiler makes. A sum over a group is forgotten or done twice. A norm lacks one of its terms. A scale is wrong.
Masked labels count. The gradient of a shadow is lost. Each correct plan must pass. Faults that --verify in f32 finds are only counted,
because its own rounding hides the smallest.
"""

import os
import subprocess
import sys
from functools import partial

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
WHOLE = ["--whole-model", "--batch=2", "--seq=8", "--dtype=f32"]
PLANS = {
    "clipped": ("qwen2-moe", [*WHOLE, "--parallel=dp=2,mp=2,ep=2,esp=1", "--micro-batches=2", "--optimizer=adam", "--clip-norm=0.01"]),
    "zero": ("gpt2-moe", [*WHOLE, "--parallel=dp=2,mp=1,ep=2,esp=1", "--schedule=s2", "--optimizer=sgd", "--clip-norm=0.01", "--zero"]),
    "shadows": ("mixtral", [*WHOLE, "--parallel=dp=2,mp=1,ep=2,esp=1", "--schedule=shadow:2", "--dropless"]),
}
FAULTS = {"all_reduce": ("skip", "double"), "sum_squares": ("skip",), "scale": ("double",), "label_count": ("all",), "reduce_experts": ("skip",)}
# Number of faults of each kind in a plan, evenly spread.
MOST = 4


def choose_faults(plan):
    """Faults of the ranks' program alone: the reference's op of the same number must be another call."""
    metadata = harness.metadata_of(plan)
    ranks, reference = metadata["programs"][0]["ops"], metadata["reference"]["ops"]
    chosen = []
    for name, kinds in FAULTS.items():
        ops = [i for i, op in enumerate(ranks) if op["name"] == name and (i >= len(reference) or reference[i]["name"] != name)]
        ops = ops[:: max(1, -(-len(ops) // MOST))]
        chosen += [f"{name} {op} {kind}" for op in ops for kind in kinds]
    return chosen


def passes(tools, log, plan, flags, preload, fault=None):
    environment = dict(os.environ)
    if fault:
        environment.update(LD_PRELOAD=preload, MOERT_TEST_FAULT=fault)
    command = [os.path.join(tools.folder, "moe-run"), plan, *flags]
    log.append(" ".join([f"MOERT_TEST_FAULT='{fault}' LD_PRELOAD={preload}"] * bool(fault) + command))
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=tools.timeout, env=environment)
    if done.returncode not in (0, 1) or (done.returncode == 1 and "check failed" not in done.stderr and "differ" not in done.stderr):
        raise harness.CaseFailed(f"exit status {done.returncode}: {done.stderr[-500:]}")
    return done.returncode == 0


def check(tools, preload, case, folder, log):
    model, flags = case
    plan = os.path.join(folder, "plan.so")
    tools.call(log, "moe-compile", os.path.join(MODELS, model + ".json"), *flags, "--mode=train", "-o", plan)
    # A state of the optimizer from the first step shows errors that a common factor of all gradients hides.
    for verification in ("--verify", "--verify=exact"):
        if not passes(tools, log, plan, [verification], preload):
            raise harness.CaseFailed(f"a sound plan fails {verification}")
    faults = choose_faults(plan)
    missed = [fault for fault in faults if passes(tools, log, plan, ["--verify=exact"], preload, fault)]
    if missed:
        raise harness.CaseFailed(f"--verify=exact does not find {missed}")
    found = sum(not passes(tools, log, plan, ["--verify"], preload, fault) for fault in faults)
    return f"{len(faults)} faults, of which f32 shows {found}"


def main():
    parser = harness.parser(__doc__.splitlines()[0])
    parser.add_argument("--preload", required=True, metavar="FILE", help="seeded-faults.so, which makes calls wrong")
    options = parser.parse_args()
    check_one = partial(check, harness.Tools(options.bin), os.path.abspath(options.preload))
    return harness.run_cases(list(PLANS.items()), check_one, options)


if __name__ == "__main__":
    sys.exit(main())
