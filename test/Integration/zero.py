#!/usr/bin/python3
"""Tests what buckets and the stages of ZeRO are for: few exchanges of the bytes that they have to move, and memory as Rajbhandari et al. (SC
2020) have it in their Figure 1."""

import json
import os
import re
import sys
from functools import partial

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "oracle"))
import harness

# A model whose parameters take most of the memory: many equal blocks, short sequences, and a small vocabulary.
MODEL = {"model_type": "mixtral", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 16,
         "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64, "num_local_experts": 4, "num_experts_per_tok": 2,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
RANKS = 8
LAUNCH = re.compile(r'plan\.launch "(all_reduce|reduce_scatter|all_gather)".* over <"(\w+)", (\d+), \d+>.*: \(memref<([\dx]*)x?(f32|bf16)')
SIZES = {"f32": 4, "bf16": 2}


def count(text):
    """Exchanges between data-parallel ranks by kind and group: their number, and the bytes of the larger side. Scalars are losses."""
    found = {}
    for kind, group, members, dims, dtype in LAUNCH.findall(text):
        elements = 1
        for size in filter(None, dims.split("x")):
            elements *= int(size)
        if elements > 1 and group in ("dp", "edp"):
            number, moved = found.get((kind, group), (0, 0))
            found[kind, group] = number + 1, moved + elements * SIZES[dtype] * (int(members) if kind == "all_gather" else 1)
    return found


def compile_plan(tools, folder, log, *flags):
    path = partial(os.path.join, folder)
    with open(path("model.json"), "w") as file:
        json.dump(MODEL, file)
    tools.call(log, "moe-compile", path("model.json"), "--whole-model", "--seq=8", "--optimizer=adam", "--weight-decay=0.1", *flags, "--emit=plan",
               "-o", path("plan.mlir"))
    with open(path("plan.mlir")) as file:
        return file.read()


def parameters_of(text):
    """Elements of all parameters of a rank, and of each bucket, before they are divided."""
    return [int(elements) for elements in re.findall(r'memref<(\d+)x\w+> {moe\.layout = #moe\.layout<[^>]*>, moe\.name = "bucket\d+"', text)]


def check_exchanges(tools, case, folder, log):
    zero, micro_batches = case
    text = compile_plan(tools, folder, log, "--parallel=dp=4,mp=2,ep=4", f"--zero={zero}", f"--micro-batches={micro_batches}", "--reference=false")
    found = count(text)
    shards = {"dp": 4, "edp": 2} if zero else {"dp": 1, "edp": 1}
    kind = "reduce_scatter" if zero else "all_reduce"
    rounds = micro_batches if zero >= 2 else 1
    for group in ("dp", "edp"):
        number, moved = found[kind, group]
        if number > 6 * rounds:
            raise harness.CaseFailed(f"{number} exchanges of gradients over {group}")
        layouts = re.findall(r'memref<(\d+)x\w+> {moe\.layout = #moe\.layout<\[([^\]]*)\]>, moe\.name = "bucket\d+"', text)
        own = sum(int(elements) * shards[group] for elements, names in layouts if ("ep" in names.split(", ")) == (group == "edp"))
        if moved != 4 * own * rounds:
            raise harness.CaseFailed(f"expected {4 * own * rounds} bytes of gradients over {group} but got {moved}")
        gathers = found.get(("all_gather", group), (0, 0))[1]
        if gathers != 4 * own * {0: 0, 1: 1, 2: 1, 3: 2 * micro_batches}[zero]:
            raise harness.CaseFailed(f"{gathers} bytes of parameters of {own} elements are gathered over {group}")
    return ", ".join(f"{number} {name} over {group}" for (name, group), (number, _) in sorted(found.items()))


def check_memory(tools, zero, folder, log):
    """Compares the bytes of a rank with those of its parameters, in f32: a parameter, its gradient and two states have 16 bytes."""
    text = compile_plan(tools, folder, log, f"--parallel=dp={RANKS}", f"--zero={zero}", "--bucket-bytes=64kB", "--recompute", "--reference=false",
                        "--micro-batches=2")
    shards = RANKS if zero else 1
    buckets = [elements * shards for elements in parameters_of(text)]
    whole = sum(buckets)
    arguments = sum(int(elements) * 4 for elements in re.findall(r'memref<(\d+)xf32> {moe\.layout = #moe\.layout<[^>]*>, moe\.name = "bucket', text))
    arena = int(re.search(r"plan\.arenas = {device = (\d+)", text)[1])
    # Figure 1 for f32: divided and whole values.
    expected = {0: 16, 1: 8 + 8 / RANKS, 2: 4 + 12 / RANKS, 3: 16 / RANKS}[zero] * whole
    # From ZeRO-1 on, the gathered parameters are stored beside the shards. A few buckets and a block's values are under way.
    expected += 4 * whole / RANKS if zero in (1, 2) else 0
    most = expected + 4 * 4 * max(buckets) * (zero >= 2) + 300_000
    if not 0.97 * expected <= arguments + arena <= most:
        raise harness.CaseFailed(f"expected {expected:.0f} to {most:.0f} bytes but got {arguments} + {arena}")
    return f"{(arguments + arena) / whole:.2f} bytes a parameter, by the table {expected / whole:.2f}"


def check_measured(tools, zero, folder, log):
    """A step uses all of the planned memory, and no more."""
    path = partial(os.path.join, folder)
    with open(path("model.json"), "w") as file:
        json.dump(MODEL, file)
    tools.call(log, "moe-compile", path("model.json"), "--whole-model", "--layers=4", "--seq=8", "--optimizer=adam", f"--zero={zero}",
               "--parallel=dp=4,ep=2", "--micro-batches=2", "--bucket-bytes=64kB", "--reference=false", "-o", path("plan.so"))
    memory = json.loads(tools.call(log, "moe-run", path("plan.so"), "--json"))["memory"]["device"]
    if memory["planned"] != memory["measured"]:
        raise harness.CaseFailed(f"{memory['planned']} bytes are planned and {memory['measured']} used")
    return f"{memory['measured']} bytes"


def main():
    options = harness.parser(__doc__.splitlines()[0]).parse_args()
    tools = harness.Tools(options.bin, options.backend)
    cases = []
    for zero in range(4):
        for micro_batches in (1, 3):
            cases.append((f"exchanges of ZeRO-{zero}, {micro_batches} micro-batches", (check_exchanges, (zero, micro_batches))))
        cases.append((f"memory of ZeRO-{zero}", (check_memory, zero)))
        cases.append((f"measured memory of ZeRO-{zero}", (check_measured, zero)))
    return harness.run_cases(cases, lambda case, folder, log: case[0](tools, case[1], folder, log), options)


if __name__ == "__main__":
    sys.exit(main())
