#!/usr/bin/python3
"""Tests whole models in training: loss, every gradient and the optimizer's step, against the one-rank reference.

Each tiny model meets each layout, with schedules, micro-batches, optimizers, buckets and stages of ZeRO drawn at random. The reference itself is checked
against central differences of its own loss.
"""

import itertools
import json
import os
import random
import re
import subprocess
import sys
import time
from functools import partial

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness
import safetensors
from harness import Layout

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
QUICK_LAYOUTS = [Layout(2, 1, 2, 1), Layout(2, 2, 2, 1), Layout(4, 2, 2, 2), Layout(4, 4, 2, 1), Layout(4, 2, 4, 1)]
# The draws of the quick suite come first, so that the full one has the same cases.
LAYOUTS = {
    "quick": QUICK_LAYOUTS,
    "full": [*QUICK_LAYOUTS, Layout(2, 1, 1, 1), Layout(2, 2, 1, 2), Layout(4, 1, 4, 1), Layout(4, 4, 4, 1), Layout(4, 4, 2, 2),
             Layout(8, 2, 4, 1), Layout(8, 4, 2, 2), Layout(8, 2, 2, 2)],
}
DRAWN = {
    "schedule": ("baseline", "s1", "s2", "s2+saa", "chunks:2", "shadow:2,prefix", "smart", "ppmoe", "ppmoe"),
    "form": ("config", "--dropless", "--capacity-factor=1.5"),
    "optimizer": ("none", "adam", "adam", "sgd"),
    "micro_batches": (1, 1, 2, 3),
    "zero": (0, 1, 2, 3),
    "zero_ranks": (0, 0, 4),
    "bucket_bytes": ("auto", "0", "4kB"),
    "clip": (0, 0.01),
    "dtype": ("f64", "f32", "f32", "bf16"),
    "pp": (1, 1, 2, 4),
    "interleave": (1, 2),
    "recompute": (False, False, True),
    "sequence_parallel": (False, True),
}
# Models whose f16 gradients are compared. Losses are not scaled, and with Adam the rounding of the smallest gradients of other models
# counts as much as the largest.
MODELS_IN_F16 = ("deepseek-v3", "gpt-oss", "mixtral", "qwen2-moe")
BATCH, SEQ = 2, 8


def models():
    return sorted(name[:-5] for name in os.listdir(MODELS) if name.endswith(".json"))


def choose_cases(suite, seed=20261121):
    rng = random.Random(seed)
    cases = []
    for layout, name in itertools.product(LAYOUTS[suite], models()):
        o = {key: rng.choice(values) for key, values in DRAWN.items()}
        if o["schedule"] == "ppmoe" and layout.mp % (layout.ep * layout.esp):
            o["schedule"] = "baseline"
        if "shadow" in o["schedule"] or o["schedule"] == "smart":
            o["form"] = "--dropless"
            # The cluster of the shadows' costs has no bf16.
            o["dtype"] = "f32" if o["dtype"] == "bf16" else o["dtype"]
        if o["pp"] == 1 or o["micro_batches"] == 1:
            o["interleave"] = 1
        elif o["interleave"] > 1:
            o["micro_batches"] = 4
        o["grad_dtype"] = ("model", "f32")[len(cases) % 2]
        orders = ("1f1b", "1f1b-overlap", *(("zb-h1",) if o["interleave"] == 1 else ("zb-v", "dualpipe-v")), "search")
        orders = orders if o["pp"] > 1 else orders[:2]
        o["pipeline"] = orders[sum((case[2]["pp"] > 1) == (o["pp"] > 1) for case in cases) % len(orders)]
        if o["pipeline"] == "dualpipe-v":
            o["micro_batches"] = 2 * o["pp"]
        # In every third case, and in all orders, micro-batches are ordered together.
        o["side_by_side"] = 1 if len(cases) % 3 else 2
        o["micro_batches"] *= o["side_by_side"]
        cases.append((name, layout, o))
    return cases


def flags_of(name, layout, o):
    flags = [os.path.join(MODELS, name + ".json"), "--whole-model", f"--batch={BATCH}", f"--seq={SEQ}",
             f"--dtype={o['dtype']}", f"{layout.flag()},pp={o['pp']}", f"--schedule={o['schedule']}",
             f"--micro-batches={o['micro_batches']}", f"--interleave={o['interleave']}", f"--pipeline={o['pipeline']}",
             f"--side-by-side={o['side_by_side']}"]
    flags += ["--recompute"] * o["recompute"]
    flags += ["--sequence-parallel"] * o["sequence_parallel"]
    if o["form"] != "config":
        flags.append(o["form"])
    if o["optimizer"] != "none":
        flags += [f"--optimizer={o['optimizer']}", f"--clip-norm={o['clip']}", "--weight-decay=0.1"]
        flags += [f"--zero={o['zero']}", f"--bucket-bytes={o['bucket_bytes']}"]
        flags += [f"--zero-ranks={o['zero_ranks']}"] * (o["zero"] > 0)
    return flags


def check_equivalence(tools, case, folder, log):
    name, layout, o = case
    plan = os.path.join(folder, "plan.so")
    sums = [f"--grad-dtype={o['grad_dtype']}"]
    _, warnings = tools.call_for_all(log, "moe-compile", *flags_of(name, layout, o), *sums, "--mode=train", "-o", plan)
    if "warning" in warnings and "as it was" in warnings:
        raise harness.CaseFailed(f"the compiler left a layer as it was: {warnings}")
    iters = 1 if o["optimizer"] == "none" else 3
    report = json.loads(tools.call(log, "moe-run", plan, "--verify", f"--iters={iters}", "--json"))
    if report["ranks"] != layout.world * o["pp"]:
        raise harness.CaseFailed(f"expected {layout.world * o['pp']} ranks but got {report['ranks']}")
    values = report["verify"]["values"]
    return f"{len(values)} values, largest error {max(value['relative_error'] for value in values):.1e}"


def check_logits(tools, case, folder, log):
    """Checks the forward alone."""
    name, layout, o = case
    plan = os.path.join(folder, "plan.so")
    o = dict(o, optimizer="none", micro_batches=1, interleave=1, pipeline="1f1b", side_by_side=1)
    tools.call(log, "moe-compile", *flags_of(name, layout, o), "--mode=forward", "-o", plan)
    report = json.loads(tools.call(log, "moe-run", plan, "--verify", "--json"))
    return f"largest error {max(value['relative_error'] for value in report['verify']['values']):.1e}"


def check_masters(tools, case, folder, log):
    """Checks 16-bit parameters. They equal their rounded f32 masters, which have more digits. Tokens are divided, and products are not,
    so that rounding does not change the choice of experts."""
    name, layout, dtype, pp = case
    path = partial(os.path.join, folder)
    tools.call(log, "moe-compile", os.path.join(MODELS, name + ".json"), "--whole-model", f"--batch={BATCH}", f"--seq={SEQ}", f"--dtype={dtype}",
               f"{layout.flag()},pp={pp}", "--micro-batches=2", "--optimizer=adam", "--clip-norm=1", "--zero", "--mode=train", "-o", path("plan.so"))
    report = json.loads(tools.call(log, "moe-run", path("plan.so"), "--verify", f"--save={path('out.safetensors')}", "--json"))
    saved = safetensors.load(path("out.safetensors"))
    masters = {n[: -len(".master")]: value for n, value in saved.items() if n.endswith(".master")}
    if not masters:
        raise harness.CaseFailed("there are no f32 masters")
    rounded = {n: safetensors.round_to(value, dtype) for n, value in masters.items()}
    for n, value in rounded.items():
        if not np.array_equal(saved[n], value):
            raise harness.CaseFailed(f"'{n}' is not its master in {dtype}")
    kept = np.mean([np.mean(rounded[n] != masters[n]) for n in masters])
    if kept < 0.5:
        raise harness.CaseFailed(f"only {kept:.0%} of the masters' elements are no {dtype}")
    return f"{len(masters)} masters, largest error {max(value['relative_error'] for value in report['verify']['values']):.1e}"


def check_sums(tools, case, folder, log):
    """32 micro-batches of the same tokens have the gradients of one of them. Sums in f32 keep them, sums in bf16 do not."""
    path, repeats = partial(os.path.join, folder), 32

    def gradients_of(micro_batches, *flags):
        tools.call(log, "moe-compile", os.path.join(MODELS, "qwen2-moe.json"), "--whole-model", f"--batch={BATCH}", f"--seq={SEQ}",
                   "--dtype=bf16", harness.SINGLE_RANK, "--mode=train", f"--micro-batches={micro_batches}", "--reference=false",
                   *flags, "-o", path("plan.so"))
        ids = np.random.default_rng(1).integers(0, 40, (2, BATCH * SEQ), dtype=np.int32)
        shape = (micro_batches, BATCH * SEQ) if micro_batches > 1 else BATCH * SEQ
        safetensors.save(path("ids"), {n: np.resize(values, shape) for n, values in zip(("tokens", "labels"), ids)})
        tools.call(log, "moe-run", path("plan.so"), f"--load={path('ids')}", f"--save={path('out')}")
        return {n[5:]: g.astype(np.float64) for n, g in safetensors.load(path("out")).items() if n.startswith("grad.")}

    # The model draws no random numbers.
    one = gradients_of(1, "--grad-dtype=f32")

    def error_of(gradients):
        return np.median([np.linalg.norm(gradients[n] - one[n]) / np.linalg.norm(one[n]) for n in one])

    wide, narrow = error_of(gradients_of(repeats, "--grad-dtype=f32")), error_of(gradients_of(repeats))
    if not (wide < 1e-5 and narrow > 1e-3):
        raise harness.CaseFailed(f"median error {wide:.1e} where sums are f32, {narrow:.1e} where they are bf16")
    return f"median error {wide:.1e} where sums are f32, {narrow:.1e} where they are bf16"


def check_differences(tools, case, folder, log):
    """Checks the loss along a random direction of each parameter."""
    name, _, form = case
    path = partial(os.path.join, folder)
    flags = [os.path.join(MODELS, name + ".json"), "--whole-model", "--batch=2", f"--seq={SEQ}", "--dtype=f64",
             harness.SINGLE_RANK, "--mode=train", form, "--micro-batches=2"]
    tools.call(log, "moe-compile", *flags, "-o", path("plan.so"))
    tools.call(log, "moe-import", flags[0], "--whole-model", f"--seq={SEQ}", "-o", path("graph.mlir"))
    with open(path("graph.mlir"), encoding="utf-8") as file:
        padding = re.search(r"moe\.embedding .*padding = (\d+)", file.read())
    rng = np.random.default_rng(1)
    tools.call(log, "moe-run", path("plan.so"), f"--save={path('out.safetensors')}")
    gradients = {n[5:]: g for n, g in safetensors.load(path("out.safetensors")).items() if n.startswith("grad.")}
    values = {n: rng.standard_normal(g.shape) * 0.3 + (1 if n.endswith("gamma") else 0) for n, g in gradients.items()}

    def run(changed):
        safetensors.save(path("in.safetensors"), changed, "f64")
        del log[1:]
        # Values without a gradient are not in the file.
        tools.call(log, "moe-run", path("plan.so"), "--allow-missing", f"--load={path('in.safetensors')}",
                   f"--save={path('out.safetensors')}")
        return safetensors.load(path("out.safetensors"))

    gradients = {n: g for n, g in run(values).items() if n.startswith("grad.")}
    worst, step = 0.0, 1e-5
    for n, value in values.items():
        direction = rng.standard_normal(value.shape)
        if n == "embedding" and padding:
            direction[int(padding[1])] = 0  # It changes the loss but gets no gradient.
        direction /= np.linalg.norm(direction)
        up, down = (float(run(dict(values, **{n: value + sign * step * direction}))["loss"]) for sign in (1, -1))
        found, expected = (up - down) / (2 * step), float((gradients["grad." + n] * direction).sum())
        error = abs(found - expected) / (abs(expected) + 1e-3)
        if error > 1e-5:
            raise harness.CaseFailed(f"{n}: the loss changes by {found:.9g} along a direction but its gradient says "
                                     f"{expected:.9g}")
        worst = max(worst, error)
    return f"{len(values)} parameters, largest error {worst:.1e}"


def check_resume(tools, case, folder, log):
    """Training that is killed at any moment resumes without a difference."""
    path = partial(os.path.join, folder)
    flags = [os.path.join(MODELS, "bytes.json"), "--whole-model", "--batch=2", "--seq=16", "--dtype=f32",
             "--parallel=dp=2,mp=2,ep=2,esp=1", "--optimizer=adam", "--clip-norm=1", "--zero", "--micro-batches=2"]
    tools.call(log, "moe-compile", *flags, "--mode=train", "-o", path("plan.so"))
    with open(path("text"), "wb") as file:
        file.write(b"the quick brown fox jumps over the lazy dog. " * 200)
    training = ["--train", f"--data={path('text')}", "--steps=24", "--rate=0.01", "--warmup=4", "--final-rate=0.001"]
    whole = json.loads(tools.call(log, "moe-run", path("plan.so"), *training, "--checkpoint-every=3",
                                  f"--checkpoint={path('other')}", "--json"))["steps"]
    command = [os.path.join(tools.folder, "moe-run"), path("plan.so"), *training, "--checkpoint-every=3",
               f"--checkpoint={path('checkpoint')}", f"--log={path('log')}"]
    log.append(" ".join(command))
    rng, kills = random.Random(5), 0
    while kills < 4:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Each attempt does something before the kill, so that it gets further.
        try:
            process.wait(timeout=rng.uniform(0.05, 0.4))
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    tools.call(log, *["moe-run", *command[1:]])
    with open(path("log")) as file:
        logged = [json.loads(line) for line in file]
    want = [{k: v for k, v in step.items() if k != "seconds"} for step in whole]
    got = [{k: v for k, v in step.items() if k != "seconds"} for step in logged]
    if got != want:
        raise harness.CaseFailed(f"after {kills} kills the steps differ from those of one run")
    if not want[-1]["loss"] < 0.8 * want[0]["loss"]:
        raise harness.CaseFailed(f"the loss did not fall: {want[0]['loss']} to {want[-1]['loss']}")
    return f"killed {kills} times, loss {want[0]['loss']:.3f} to {want[-1]['loss']:.3f}"


def check_tokens(tools, case, folder, log):
    """An array of token ids trains alike in each file type and on any number of ranks, interrupted or not."""
    path, steps, sequences = partial(os.path.join, folder), 20, 4
    with open(os.path.join(MODELS, "bytes.json")) as file:
        model = dict(json.load(file), vocab_size=1000)
    with open(path("model.json"), "w") as file:
        json.dump(model, file)
    ids = 600 + np.arange(5000) * 7 % 20
    ids.astype("<i4").tofile(path("ids.bin"))
    np.save(path("ids.npy"), ids)  # int64, as numpy makes of Python's lists

    def train(dp, steps, *data):
        run = ["moe-run", path(f"dp{dp}.so"), "--train", f"--steps={steps}", "--rate=0.01", "--json", *data]
        return [step["loss"] for step in json.loads(tools.call(log, *run))["steps"]]

    losses = {}
    for dp in (1, 2, 4):
        tools.call(log, "moe-compile", path("model.json"), "--whole-model", f"--batch={sequences // dp}", "--seq=16",
                   "--dtype=f64", "--dropless", f"--routing-groups={sequences}", f"--parallel=dp={dp},ep={min(dp, 2)}",
                   "--optimizer=adam", "-o", path(f"dp{dp}.so"))
    of_array = [f"--data={path('ids.bin')}", "--data-type=int32"]
    losses["one rank"] = train(1, steps, *of_array)
    losses["one rank, .npy"] = train(1, steps, f"--data={path('ids.npy')}")
    losses["two ranks"] = train(2, steps, *of_array)
    losses["four ranks, interrupted"] = [loss for end in (7, steps)
                                         for loss in train(4, end, *of_array, f"--checkpoint={path('checkpoint')}")]
    want = losses["one rank"]
    for name, got in losses.items():
        if len(got) != steps or not np.allclose(got, want, rtol=1e-9, atol=0):
            raise harness.CaseFailed(f"{name}: expected the losses of one rank, {want}, but got {got}")
    if losses["one rank, .npy"] != want or not want[-1] < 0.8 * want[0]:
        raise harness.CaseFailed(f"expected the same falling losses from both files but got {losses}")
    return f"loss {want[0]:.3f} to {want[-1]:.3f}, largest difference " \
           f"{max(abs(a - b) for got in losses.values() for a, b in zip(got, want)):.1e}"


def main():
    parser = harness.parser(__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=("quick", "full"), default="quick")
    options = parser.parse_args()
    tools = harness.Tools(options.bin, options.backend)
    checks = {"train": check_equivalence, "forward": check_logits, "differences": check_differences,
              "masters": check_masters, "sums": check_sums, "resume": check_resume, "tokens": check_tokens}
    cases = []
    for name, layout, o in choose_cases(options.suite):
        text = " ".join([name, str(layout), o["schedule"], o["form"].strip("-"), o["dtype"]])
        step = f" {o['optimizer']} x{o['micro_batches']} pp {o['pp']}x{o['interleave']} {o['pipeline']}" + " recompute" * o["recompute"]
        step += f" {o['side_by_side']} side by side" * (o["side_by_side"] > 1)
        step += " f32 gradients" * (o["grad_dtype"] == "f32")
        step += " sequence-parallel" * o["sequence_parallel"] + f" zero {o['zero']}" * (o["zero"] > 0) + " clipped" * bool(o["clip"])
        cases.append((text + step, ("train", (name, layout, o))))
    for index, (name, layout, o) in enumerate(choose_cases(options.suite, seed=2)):
        if index % 3 == 0:
            cases.append((" ".join([name, str(layout), o["schedule"], o["form"].strip("-"), o["dtype"], "forward"]),
                          ("forward", (name, layout, o))))
    for name in models():
        cases.append((f"{name} differences", ("differences", (name, None, "--dropless"))))
        for dtype, pp in [("bf16", 1), ("bf16", 2)] + [("f16", 1)] * (name in MODELS_IN_F16):
            cases.append((f"{name} masters of {dtype} pp {pp}", ("masters", (name, Layout(2, 1, 2, 1), dtype, pp))))
    cases.append(("sums over micro-batches", ("sums", None)))
    cases.append(("resumed training", ("resume", None)))
    cases.append(("token arrays", ("tokens", None)))
    return harness.run_cases(cases, lambda case, folder, log: checks[case[0]](tools, case[1], folder, log), options)


if __name__ == "__main__":
    sys.exit(main())
