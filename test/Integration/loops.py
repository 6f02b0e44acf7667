#!/usr/bin/python3
"""Tests plans whose micro-batches are a loop: their results have the bits of plans that write each micro-batch out.

Each order of a pipeline meets 1 to 8 stages, and even and odd numbers of micro-batches. Some plans are also compared with the one-rank
reference, which has a loop of its own.
"""

import itertools
import json
import os
import re
import sys
from functools import partial

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness
import safetensors

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
FAMILIES = ("gpt2-moe", "deepseek-v3", "mixtral", "qwen2-moe", "gpt-oss")
# Stages on a device, by order.
ORDERS = {"1f1b": (1, 2), "1f1b-overlap": (1, 2), "zb-h1": (1,), "zb-v": (2,), "dualpipe-v": (2,), "search": (1, 2)}
# Further options of a step: the optimizer updates divided states, and values are recomputed.
REST = (["--optimizer=adam", "--zero=1", "--clip-norm=1"], ["--recompute=block", "--optimizer=sgd", "--zero=3", "--bucket-bytes=4kB"],
        ["--optimizer=sgd", "--recompute=selective", "--grad-dtype=f32", "--zero=2"], ["--dropless", "--optimizer=adam"])
DEVICES, MOST_STAGES = (1, 2, 3, 4, 8), 8


def cases_of():
    cases = []
    for order, pp, odd in itertools.product(ORDERS, DEVICES, (0, 1)):
        # Long pipelines take longest, so each order has one of them with an even or an odd number.
        if pp >= 4 and odd != (list(ORDERS).index(order) + pp // 4) % 2:
            continue
        for interleave in ORDERS[order]:
            alone = pp == 1
            if pp * interleave > MOST_STAGES or (alone and (interleave > 1 or not order.startswith("1f1b"))):
                continue
            # Enough micro-batches for a loop. Interleaved 1F1B needs multiples of the devices.
            round_ = pp if interleave > 1 and order.startswith(("1f1b", "search")) else 1
            count = 8 * pp + 2 * round_ if interleave > 1 else 2 * (pp + 6)
            number = len(cases)
            # Number of micro-batches that are ordered together.
            together = (1, 2, 1, 3)[number % 4]
            rest = [*REST[number % len(REST)], f"--side-by-side={together}"]
            cases.append((FAMILIES[number % len(FAMILIES)], order, pp, interleave, together * (count + odd * round_), rest))
    return cases


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
    # The order of launches does not change sums.
    written, _ = run(tools, log, folder, [*flags, "--reference=false", "--unroll", "--side-by-side=1"], "written")
    different = [value for value in written if not np.array_equal(looped.get(value), written[value])]
    if different or looped.keys() != written.keys():
        raise harness.CaseFailed(f"{len(different)} of {len(written)} results differ, such as '{(different or ['?'])[0]}'")
    # A search orders the micro-batches that it sees, and a file of routings has the order of the plan.
    with open(os.path.join(folder, "loop.jsonl")) as own, open(os.path.join(folder, "written.jsonl")) as other:
        if order != "search" and "--side-by-side=1" in rest and own.read() != other.read():
            raise harness.CaseFailed("the recorded routings differ")
    # An iteration with side-by-side micro-batches has more of them, and is as long as a short step.
    sizes = [os.path.getsize(os.path.join(folder, plan)) for plan in ("loop.so", "written.so")]
    if not is_written and "--side-by-side=1" in rest and sizes[0] >= sizes[1]:
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


def differences(a, b, close, place=""):
    """Places where two values of JSON differ by more than rounding. Numbers are equal if `close` says so."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return [] if close(a, b, place) else [place]
    if type(a) is not type(b) or (isinstance(a, (list, dict)) and len(a) != len(b)):
        return [place]
    if isinstance(a, dict):
        return [found for key in a for found in differences(a[key], b.get(key), close, f"{place}.{key}")]
    if isinstance(a, list):
        return [found for number, pair in enumerate(zip(a, b)) for found in differences(*pair, close, f"{place}[{number}]")]
    return [] if a == b else [place]


def numbers_by_words(text):
    """Numbers of each line, by its words: lines of equal times may change places."""
    number = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
    return {number.sub("#", line).strip(): [float(value) for value in number.findall(line)] for line in text.splitlines()}


def check_simulation(tools, case, folder, log):
    """Checks that a simulation that skips iterations gives the results of one with all iterations."""
    name, order, pp, interleave, micro_batches, rest = case
    plan = os.path.join(folder, "plan.mlir")
    tools.call(log, "moe-compile", os.path.join(MODELS, name + ".json"), "--whole-model", "--seq=8", f"--parallel=pp={pp},dp=2,ep=2",
               "--cluster=hgx-h100", f"--pipeline={order}", f"--interleave={interleave}", f"--micro-batches={8 * micro_batches}", *rest,
               "--reference=false", "--emit=plan", "-o", plan)
    simulate, path = partial(tools.call, log, "moe-sim", plan, "--cluster=hgx-h100"), os.path.join(folder, "report.json")
    text, few, every_text = simulate(), json.loads(simulate("--json")), simulate("--all-iterations", f"--json={path}")
    with open(path, encoding="utf-8") as file:
        every = json.load(file)
    # If ops end at the same time, any of them may be the cause of a wait, and a buffer may end slightly before another one begins.
    for report in (few, every):
        report.pop("critical_path"), report["memory"].pop("points")
        report["kernels"] = {kernel.pop("kernel"): kernel for kernel in report["kernels"]}
    if abs(few["step_s"] / every["step_s"] - 1) > 1e-9:
        raise harness.CaseFailed(f"the step takes {few['step_s']} s, but {every['step_s']} s with all iterations")
    # Because of rounding, one of two simultaneous ops may find memory that is not yet free, or in some searched orders be slowed by a third
    # op.
    step, slack = every["step_s"], 5e-3 if order == "search" else 1e-8
    found = differences(few, every, lambda x, y, place: abs(x - y) <= (0.1 * x if "bytes" in place and "memory" in place or "peak" in place
                                                                       else max(slack * step if place.endswith("_s") else 0, 1e-8 * abs(x))))
    tables = [numbers_by_words(re.sub(r"^loop .*\n", "", one, flags=re.M)) for one in (text, every_text)]
    found += differences(*tables, lambda x, y, place: abs(x - y) <= max(0.0015, slack * step * 1e3, 2e-3 * abs(x)) or place.startswith(".memory"))
    if found:
        raise harness.CaseFailed(f"{len(found)} values differ, such as {found[0]}")
    # Longer pipelines of tiny models may not become periodic within half of the iterations.
    left_out = re.search(r"^loop +(\d+) iterations \((\d+) simulated", text, re.M)
    if not left_out and order == "1f1b" and pp <= 2:
        raise harness.CaseFailed("no iteration is left out")
    return f"{left_out[2]} of {left_out[1]} iterations simulated" if left_out else "all iterations simulated"


def main():
    parser = harness.parser(__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=("quick", "full"), default="quick")
    options = parser.parse_args()
    tools = harness.Tools(options.bin, options.backend)
    checks = {"bits": check_bits, "reference": check_reference, "simulation": check_simulation}
    cases = cases_of()
    referenced = [case for case in cases if case[2] <= 2]
    named = []
    # The quick suite is every third case of the full one.
    for check, chosen in (("bits", cases), ("reference", referenced), ("simulation", cases[::2])):
        for case in chosen[:: 1 if options.suite == "full" else 3]:
            name, order, pp, interleave, micro_batches, rest = case
            named.append((" ".join([check, name, order, f"pp={pp} x {interleave}", f"{micro_batches} micro-batches", *rest]), (check, case)))
    return harness.run_cases(named, lambda case, folder, log: checks[case[0]](tools, case[1], folder, log), options)


if __name__ == "__main__":
    sys.exit(main())
