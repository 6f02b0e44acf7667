#!/usr/bin/python3
"""Makes the cases that a GPU session runs: tiny layers and whole models in 16 bits and f32, of several steps and in training.

Usage: gpu_cases.py --bin BIN --keep=DIR

Each case runs on the host first, in which it has to pass. scripts/gpu/replay.py runs the kept files elsewhere. Steps are at least four: a
device captures the second as a graph, and launches the graph from the third on. The losses of training on the host are kept as `expected`.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
STEPS = 4
# Largest differences of the losses of training on another device, which sums products in another order, and rounds at other places in 16
# bits.
TOLERANCE = {"bf16": 5e-2, "f16": 5e-2, "f32": 1e-3}
TEXT = b"the quick brown fox jumps over the lazy dog. " * 40

# Wide enough that products fill tiles, and that rows of experts end inside tiles.
WIDE = {"hidden_size": 256, "intermediate_size": 192, "num_local_experts": 16, "num_experts_per_tok": 4}
ONE = "dp=1"
ROOM, DROPS = "--capacity-factor=1.25", "--capacity-factor=0.5"
LAYERS = [  # model, dtype, layout, flags
    ("mixtral", "bf16", ONE, ["--dropless"]),
    ("mixtral", "bf16", ONE, [ROOM]),
    ("mixtral", "bf16", ONE, [DROPS, "--layers=2"]),
    ("mixtral", "f32", ONE, ["--dropless"]),
    ("mixtral", "f16", ONE, ["--dropless"]),
    ("mixtral", "bf16", ONE, [ROOM, "--schedule=chunks:2+mpipe-s1"]),
    ("deepseek-v3", "bf16", ONE, ["--dropless"]),
    ("deepseek-v3", "bf16", ONE, [ROOM]),
    ("deepseek-v3", "f32", ONE, [ROOM]),
    ("gpt-oss", "bf16", ONE, ["--dropless"]),
    ("switch", "bf16", ONE, [ROOM]),
    ("wide", "bf16", ONE, ["--dropless", "--seq=256"]),
    ("wide", "bf16", ONE, [ROOM, "--seq=256"]),
    ("wide", "bf16", "dp=2,ep=2", ["--dropless", "--seq=192"]),
    ("mixtral", "bf16", "dp=2,ep=2", ["--dropless"]),
    ("mixtral", "bf16", "dp=2,ep=2", [ROOM, "--schedule=chunks:2"]),
    ("mixtral", "bf16", "dp=2,mp=2,ep=2,esp=2", ["--dropless", "--schedule=s1"]),
    ("mixtral", "bf16", "dp=2,mp=2,ep=2,esp=2", [ROOM, "--schedule=s2"]),
    ("mixtral", "f32", "dp=2,mp=2,ep=2,esp=2", [DROPS, "--schedule=s2+saa"]),
    ("deepseek-v3", "bf16", "dp=1,mp=4,ep=4", [ROOM, "--schedule=ppmoe"]),
    ("mixtral", "bf16", "dp=4,ep=4", ["--dropless", "--schedule=shadow:2,prefix"]),
    ("mixtral", "f32", "dp=4,ep=4", ["--dropless", "--schedule=smart"]),
    ("gpt-oss", "f32", "dp=4,ep=2,esp=2", ["--dropless", "--schedule=chunks:2+mpipe-s4"]),
]
ADAM = ["--optimizer=adam", "--clip-norm=1", "--weight-decay=0.1"]
WHOLE = [
    ("mixtral", "bf16", ONE, ["--dropless", *ADAM]),
    ("deepseek-v3", "bf16", ONE, [ROOM, "--recompute", *ADAM]),
    ("gpt-oss", "bf16", ONE, ["--dropless"]),
    ("gpt2-moe", "f32", ONE, [ROOM, "--optimizer=sgd"]),
    ("mixtral", "bf16", "dp=2,ep=2", ["--dropless", "--zero", *ADAM]),
    ("qwen3-moe", "bf16", "dp=2,mp=2,ep=2,esp=2", [ROOM, "--sequence-parallel", "--schedule=s1", *ADAM]),
    ("mixtral", "bf16", "pp=2,dp=2,ep=2", ["--dropless", "--micro-batches=4", *ADAM]),
    ("gpt-oss", "bf16", "dp=2,ep=2", ["--dropless", "--micro-batches=2", "--grad-dtype=f32", "--zero", *ADAM]),
]
TRAINED = [
    ("bytes", "bf16", ONE, ["--dropless", *ADAM]),
    ("bytes", "bf16", ONE, [ROOM, "--micro-batches=2", *ADAM]),
    ("bytes", "f32", ONE, [ROOM, "--optimizer=sgd"]),
    ("bytes", "bf16", "dp=2,mp=2,ep=2,esp=2", ["--dropless", "--zero", "--micro-batches=2", *ADAM]),
]


def get_world(layout):
    sizes = dict(part.split("=") for part in layout.split(","))
    return int(sizes.get("pp", 1)) * int(sizes.get("dp", 1)) * int(sizes.get("mp", 1))


def list_cases():
    for kind, cases in (("layer", LAYERS), ("whole", WHOLE), ("trained", TRAINED)):
        for model, dtype, layout, flags in cases:
            name = f"{kind} {model} {dtype}, world {get_world(layout)}, {layout} {' '.join(flags)}"
            yield name, (kind, model, dtype, layout, flags)


def write_config(model, folder):
    """Writes the model's configuration. `wide` is a wider mixtral."""
    with open(os.path.join(MODELS, ("mixtral" if model == "wide" else model) + ".json"), encoding="utf-8") as file:
        config = json.load(file)
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**config, **(WIDE if model == "wide" else {})}, file)
    return path


def keep_losses(tools, dtype, folder, log):
    """Keeps the losses that training prints on the host."""
    with open(os.path.join(folder, "text"), "wb") as file:
        file.write(TEXT)
    run = ["plan.so", "--train", "--data=text", f"--steps={STEPS + 2}", "--rate=0.003", "--json"]
    words = [os.path.join(folder, "plan.so"), "--train", f"--data={os.path.join(folder, 'text')}", *run[3:]]
    steps = json.loads(tools.call(log, "moe-run", *words))["steps"]
    # In 16 bits the routing differs after some steps, and norms of gradients show this more than losses.
    kept = ("loss", "cross_entropy") + (("gradient_norm",) if dtype == "f32" else ())
    steps = [{key: step[key] for key in kept if key in step} for step in steps]
    with open(os.path.join(folder, "expected"), "w", encoding="utf-8") as file:
        json.dump({"run": run, "tolerance": TOLERANCE[dtype], "steps": steps}, file, indent=1)


def check(tools, case, folder, log):
    kind, model, dtype, layout, flags = case
    plan = os.path.join(folder, "plan.so")
    shape = ["--seq=32"] * ("--seq" not in " ".join(flags)) if kind == "layer" else ["--whole-model", "--batch=2", f"--seq={16 if kind == 'trained' else 8}"]
    tools.call(log, "moe-compile", write_config(model, folder), *shape, f"--dtype={dtype}", f"--parallel={layout}",
               "--cluster=hgx-h100", *flags, "-o", plan)
    report = json.loads(tools.call(log, "moe-run", plan, "--verify", f"--iters={STEPS}", "--json"))
    if kind == "trained":
        keep_losses(tools, dtype, folder, log)
    return f"{len(report['verify']['values'])} values, largest error {report['verify']['max_relative_error']:.1e}"


def main():
    options = harness.parser(__doc__).parse_args()
    tools = harness.Tools(options.bin, options.backend)
    return harness.run_cases(list(list_cases()), lambda case, folder, log: check(tools, case, folder, log), options)


if __name__ == "__main__":
    sys.exit(main())
