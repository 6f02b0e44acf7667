#!/usr/bin/python3
"""Tests plans whose micro-batches are a loop: their results have the bits of plans that write each micro-batch out.

Each order of a pipeline meets 1 to 8 stages, and even and odd numbers of micro-batches. Some plans are also compared with the one-rank
reference, which has a loop of its own.
"""

import itertools
import os
import sys
from functools import partial

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness
import safetensors

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
FAMILIES = ("gpt2-moe", "deepseek-v3", "mixtral", "qwen2-moe", "gpt-oss")
# By order: stages on a device.
ORDERS = {"1f1b": (1, 2), "1f1b-overlap": (1, 2), "zb-h1": (1,), "zb-v": (2,), "dualpipe-v": (2,), "search": (1, 2)}
# What a step has besides: the optimizer updates divided states, and values are computed again.
REST = (["--optimizer=adam", "--zero", "--clip-norm=1"], ["--recompute=block"], ["--optimizer=sgd", "--recompute=selective", "--grad-dtype=f32"],
        ["--dropless", "--optimizer=adam"])
FULL_DEVICES, QUICK_DEVICES, MOST_STAGES = (1, 2, 3, 4, 8), (1, 2, 4), 8


def cases_of(suite):
    cases = []
    devices = FULL_DEVICES if suite == "full" else QUICK_DEVICES
    for order, pp, odd in itertools.product(ORDERS, devices, (0, 1)):
        for interleave in ORDERS[order]:
            alone = pp == 1
            if pp * interleave > MOST_STAGES or (alone and (interleave > 1 or not order.startswith("1f1b"))):
                continue
            # So many that there is a loop: interleaved 1F1B needs multiples of the devices.
            round_ = pp if interleave > 1 and order.startswith(("1f1b", "search")) else 1
            count = 8 * pp + 2 * round_ if interleave > 1 else 2 * (pp + 6)
            number = len(cases)
            cases.append((FAMILIES[number % len(FAMILIES)], order, pp, interleave, count + odd * round_, REST[number % len(REST)]))
    return cases if suite == "full" else cases[::3]


def run(tools, log, folder, flags, name):
    path = partial(os.path.join, folder)
    _, warnings = tools.call_for_all(log, "moe-compile", *flags, "-o", path(name + ".so"))
    tools.call(log, "moe-run", path(name + ".so"), "--iters=2", f"--save={path(name)}", f"--record-routing={path(name + '.jsonl')}")
    return safetensors.load(path(name)), "writes out all" in warnings


def check_bits(tools, case, folder, log):
    name, order, pp, interleave, micro_batches, rest = case
    dp = 2 if pp <= 2 else 1
    flags = [os.path.join(MODELS, name + ".json"), "--whole-model", "--seq=8", f"--parallel=pp={pp},dp={dp},ep={dp}", f"--pipeline={order}",
             f"--interleave={interleave}", f"--micro-batches={micro_batches}", *rest]
    if rest[0] == "--dropless":
        flags.append("--max-load=4")
    looped, is_written = run(tools, log, folder, [*flags, "--reference=false"], "loop")
    written, _ = run(tools, log, folder, [*flags, "--reference=false", "--unroll"], "written")
    different = [value for value in written if not np.array_equal(looped.get(value), written[value])]
    if different or looped.keys() != written.keys():
        raise harness.CaseFailed(f"{len(different)} of {len(written)} results differ, such as '{(different or ['?'])[0]}'")
    # A search finds an order for the micro-batches that it sees, and a file of routings has the order of the plan.
    with open(os.path.join(folder, "loop.jsonl")) as own, open(os.path.join(folder, "written.jsonl")) as other:
        if order != "search" and own.read() != other.read():
            raise harness.CaseFailed("the recorded routings differ")
    sizes = [os.path.getsize(os.path.join(folder, plan)) for plan in ("loop.so", "written.so")]
    if not is_written and sizes[0] >= sizes[1]:
        raise harness.CaseFailed(f"the plan with a loop has {sizes[0]} bytes, the one without {sizes[1]}")
    return f"{len(written)} equal results, {sizes[0] / sizes[1]:.0%} of the bytes" + (", written out" if is_written else "")


def check_reference(tools, case, folder, log):
    name, order, pp, interleave, micro_batches, rest = case
    path = partial(os.path.join, folder)
    flags = [os.path.join(MODELS, name + ".json"), "--whole-model", "--seq=8", f"--parallel=pp={pp},dp=2,ep=2", "--cluster=localhost",
             f"--pipeline={order}", f"--interleave={interleave}", f"--micro-batches={micro_batches}", *rest]
    tools.call(log, "moe-compile", *flags, "-o", path("plan.so"))
    tools.call(log, "moe-run", path("plan.so"), "--verify", f"--trace={path('trace.json')}")
    # Each call of an op in the loop is the launch of its iteration.
    tools.call(log, "moe-compile", *flags, "--emit=plan", "-o", path("plan.mlir"))
    tools.call(log, "moe-sim", path("plan.mlir"), "--cluster=localhost", f"--compare={path('trace.json')}")
    return "as the reference"


def main():
    parser = harness.parser(__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=("quick", "full"), default="quick")
    options = parser.parse_args()
    tools = harness.Tools(options.bin, options.backend)
    checks = {"bits": check_bits, "reference": check_reference}
    cases = cases_of(options.suite)
    referenced = [case for case in cases if case[2] <= 2][:: 1 if options.suite == "full" else 4]
    named = []
    for check, chosen in (("bits", cases), ("reference", referenced)):
        for case in chosen:
            name, order, pp, interleave, micro_batches, rest = case
            named.append((" ".join([check, name, order, f"pp={pp} x {interleave}", f"{micro_batches} micro-batches", *rest]), (check, case)))
    return harness.run_cases(named, lambda case, folder, log: checks[case[0]](tools, case[1], folder, log), options)


if __name__ == "__main__":
    sys.exit(main())
