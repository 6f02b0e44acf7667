#!/usr/bin/python3
"""Verifies random plans, each in its own type and in exact arithmetic, to find unexpected errors.

A plan depends on (--seed, its number). It has a tiny model of some family, its MoE layers alone or the whole model, groups, schedule,
chunks, micro-batches, optimizer, kept values, and type. If moe-compile refuses a plan, this is no failure, and another plan is drawn.
The refusals are listed by message at the end. These are failures: a refusal that shows internals of the compiler, a crash, and a plan that
runs but is not verified, be it a false alarm or a real error.
"""

import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from functools import partial

import draws

HERE = os.path.dirname(os.path.abspath(__file__))

MODELS = os.path.join(HERE, "models")
LAYERS = ("baseline", "s1", "s2", "s2+saa", "ppmoe", "parm-auto", "auto")
STRATEGIES = ("", "", "+mpipe-s1", "+mpipe-s2", "+mpipe-s3", "+mpipe-s4")
SHADOWS = ("+shadow:1", "+shadow:2,prefix", "+shadow:3,simulate", "+smart", "+shadow:2+smart")
# Texts that do not help a user: names of ops and passes in the compiler, and internal errors.
INTERNAL = re.compile(r"'(moe|plan|moe_\w+|func|builtin)\.\w+' op|\bop (result|operand|requires)|operand #\d|SSA|dominate|pass (pipeline|manager)|"
                      r"[Ii]nternal|Assertion|Stack dump|LLVM ERROR|UNREACHABLE|terminate called|failed to legalize|unrealized", re.M)


def draw_groups(rng):
    """Groups of at most 8 ranks."""
    while True:
        pp, dp, mp = rng.choice((1, 1, 1, 2, 4)), rng.choice((1, 2, 2, 4)), rng.choice((1, 1, 2, 4))
        ep, esp = rng.choice((1, 2, 2, 4)), rng.choice((1, 1, 1, 2))
        if pp * dp * mp <= 8 and (dp * mp) % (ep * esp) == 0:
            return {"pp": pp, "dp": dp, "mp": mp, "ep": ep, "esp": esp}


def draw_schedule(rng):
    schedule = rng.choice(LAYERS)
    if schedule == "auto":
        return "auto", []
    if rng.random() < 0.2:
        return (schedule if schedule not in ("ppmoe", "parm-auto") else "baseline") + rng.choice(SHADOWS), ["--dropless"]
    if rng.random() < 0.4:
        schedule += rng.choice(("+chunks:2", "+chunks:3", "+chunks:4", "+chunks:4,2")) + rng.choice(STRATEGIES)
    return schedule, []


def draw_step(rng, groups):
    """Options that only a whole model's step has."""
    flags = [rng.choice(("--recompute", "--recompute=cheap", "--recompute=cheap-4"))] * (rng.random() < 0.3) + ["--sequence-parallel"] * (groups["mp"] > 1 and rng.random() < 0.5)
    micro_batches = rng.choice((1, 1, 2, 3, 4))
    flags.append(f"--micro-batches={micro_batches}")
    if groups["pp"] > 1:
        interleaves = micro_batches == 4 and rng.random() < 0.5
        orders = ("zb-v", *(("dualpipe-v",) if groups["pp"] == 2 else ())) if interleaves else ("zb-h1",)
        orders = ("1f1b", "1f1b-overlap", "search", *orders)
        flags += ["--interleave=2"] * interleaves + [f"--pipeline={rng.choice(orders)}"]
    elif rng.random() < 0.3:
        flags.append("--pipeline=1f1b-overlap")
    if micro_batches % 2 == 0 and rng.random() < 0.3:
        flags.append("--side-by-side=2")
    optimizer = rng.choice(("none", "none", "sgd", "adam"))
    if optimizer != "none":
        flags += [f"--optimizer={optimizer}", f"--clip-norm={rng.choice((0, 0.01, 1))}", f"--weight-decay={rng.choice((0, 0.1))}"]
        flags += rng.choice(([], [], ["--zero=1"], ["--zero=2"], ["--zero=3"], ["--zero=3", "--zero-ranks=4"]))
        flags += rng.choice(([], ["--bucket-bytes=0"], ["--bucket-bytes=4kB"]))
    return flags


def draw(seed, number, attempt):
    """Arguments of moe-compile and moe-run."""
    rng = random.Random(f"{seed} {number} {attempt}")
    groups, whole = draw_groups(rng), rng.random() < 0.6
    if not whole:
        groups["pp"] = 1
    schedule, form = draw_schedule(rng)
    form = form or rng.choice(([], [], ["--dropless"], ["--capacity-factor=0.6"], ["--capacity-factor=1.5"]))
    mode = rng.choice(("train", "train", "train", "forward"))
    flags = [os.path.join(MODELS, rng.choice(sorted(name for name in os.listdir(MODELS) if name.endswith(".json")))),
             "--parallel=" + ",".join(f"{name}={size}" for name, size in groups.items()), f"--schedule={schedule}", *form,
             f"--batch={rng.choice((1, 2, 2, 3))}", f"--seq={rng.choice((4, 8, 8, 12, 16))}", f"--mode={mode}",
             f"--dtype={rng.choice(('f32', 'f32', 'f64', 'bf16'))}"]
    if "auto" in schedule:
        flags.append("--cluster=parm-b")
    if not whole:
        return flags + [f"--layers={rng.choice((1, 1, 2))}"], []
    flags += ["--whole-model"] + (draw_step(rng, groups) if mode == "train" else [])
    return flags, [f"--seed={rng.randrange(1000)}"] + ["--iters=3"] * any(flag.startswith("--optimizer") for flag in flags)


class Outcome:
    def __init__(self):
        self.verified, self.notes, self.failures, self.refusals = 0, collections.Counter(), [], []


def called(command, seconds=300):
    """(exit status, standard output, standard error)."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return -1, "", f"did not finish in {seconds} s"


def message_of(stderr):
    """The first error, without places and numbers."""
    line = next((line for line in stderr.splitlines() if "error:" in line), stderr.strip().splitlines()[-1:] or ["nothing"])
    line = line if isinstance(line, str) else line[0]
    return re.sub(r"[-+]?\d[\d.e+-]*", "N", re.sub(r"^.*?error: ", "", line))


def verify(tools, command, flags, run_flags, plan, outcome):
    """Verifies in exact arithmetic, and in the plan's own type unless 16 bits hide too much."""
    for verification in ["--verify=exact"] + ["--verify"] * ("--dtype=bf16" not in flags):
        run = [os.path.join(tools, "moe-run"), plan, verification, "--json", "--workers=1", *run_flags]
        status, stdout, stderr = called(run)
        if status != 0:
            told = "\n    ".join(stderr.strip().splitlines()[:6])
            outcome.failures.append(f"exit status {status}: {verification} {' '.join(run_flags)}\n    $ {' '.join(command)}\n    {told}")
            continue
        report = json.loads(stdout)["verify"]
        outcome.notes[report["dtype"]] += 1
        outcome.notes["with rounding measured"] += report["rounded_runs"] > 0
        outcome.notes["with near ties"] += report["near_ties"] > 0
    outcome.verified += 1


def try_one(tools, seed, number):
    """Draws until a plan can be compiled."""
    outcome = Outcome()
    for attempt in range(50):
        flags, run_flags = draw(seed, number, attempt)
        with tempfile.TemporaryDirectory(prefix="moeplan-") as folder:
            plan = os.path.join(folder, "plan.so")
            command = [os.path.join(tools, "moe-compile"), *flags, "--num-threads=1", "-o", plan]
            status, _, stderr = called(command)
            if status == 0:
                verify(tools, command, flags, run_flags, plan, outcome)
                return outcome
            outcome.refusals.append((message_of(stderr), " ".join(flags)))
            if status not in (1, 2) or INTERNAL.search(stderr):
                told = "\n    ".join(stderr.strip().splitlines()[:8])
                outcome.failures.append(f"refused with exit status {status} and an internal message\n    $ {' '.join(command)}\n    {told}")
    return outcome


def main():
    options = draws.parser(__doc__, "plans", count=40).parse_args()
    verified, notes, failures, refusals = 0, collections.Counter(), 0, collections.defaultdict(list)
    for number, outcome in draws.outcomes(options, partial(try_one, os.path.abspath(options.bin), options.seed)):
        verified += outcome.verified
        notes += outcome.notes
        for failure in outcome.failures:
            failures += 1
            print(f"FAIL plan {number}: {failure}", flush=True)
        for message, flags in outcome.refusals:
            refusals[message].append(flags)
        if (number + 1) % 50 == 0:
            print(f"{verified} plans, {failures} failures", flush=True)
    print(f"\n{sum(map(len, refusals.values()))} draws refused:")
    for message, all_flags in sorted(refusals.items(), key=lambda item: -len(item[1])):
        print(f"{len(all_flags):5} {message}\n        e.g. {all_flags[0]}")
    print(f"\n{verified} of {options.count} plans verified ({', '.join(f'{count} {name}' for name, count in sorted(notes.items()))}), {failures} failures")
    return 1 if failures or verified < options.count else 0


if __name__ == "__main__":
    sys.exit(main())
