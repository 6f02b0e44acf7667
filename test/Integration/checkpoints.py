#!/usr/bin/python3
"""Tests published checkpoints in moe-run: --load gives the same as numpy, and --save-checkpoint writes the checkpoint back.

The checkpoints are random, of every family, with the published names: in f32, bf16 and f16, as one file and as several with an index. A
wrong checkpoint ends in an error that says what would have been right.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(FOLDER, "models")
sys.path.insert(0, os.path.join(FOLDER, "..", "oracle"))

import checkpoint
import harness
import models
import safetensors

BATCH, LENGTH = 2, 8
TOLERANCE = 1e-4
NAMES = ("mixtral", "qwen3-moe", "olmoe", "gpt2", "gpt2-moe", "bert-moe", "gpt-oss", "qwen2-moe", "switch", "deepseek-v2",
         "deepseek-v3", "granite-moe", "qwen3-vl-moe", "ernie4-5-moe", "dbrx", "hunyuan-moe", "minimax-m2", "llama4", "llama")
LAYOUTS = {"one rank": "dp=1", "dp 2, mp 2, ep 2, esp 2": "dp=2,mp=2,ep=2,esp=2"}
ONE_FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
# Tensors that no plan uses: masks and positions, as some families publish them.
EXTRA = {"a.first": np.arange(5.0), "model.position_ids": np.arange(6).reshape(2, 3), "z.last": np.zeros((0, 4))}
UNUSED = "the plan has no use for 3 of the "


@dataclass
class Case:
    check: callable
    model: str
    layout: str
    prefix: str = ""  # prefix that the checkpoint's names lack
    exchanged: bool = False  # whether its stacks of experts have rows and columns exchanged


def read_config(model):
    with open(os.path.join(MODELS, model + ".json")) as file:
        return json.load(file)


def write_checkpoint(folder, tensors, dtype, shards):
    """Writes {name: array} as models are published: one file, or several with an index."""
    os.makedirs(folder)
    if shards == 1:
        return safetensors.save(os.path.join(folder, ONE_FILE), tensors, dtype, {"format": "pt", "by": "a test"})
    names, weight_map = list(tensors), {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        # Neighbours go to different files, so that the experts and projections of one value are separated.
        part = names[i::shards]
        weight_map.update(dict.fromkeys(part, file))
        safetensors.save(os.path.join(folder, file), {name: tensors[name] for name in part}, dtype, {"format": "pt"})
    with open(os.path.join(folder, INDEX), "w") as file:
        json.dump({"metadata": {"total_size": 0}, "weight_map": weight_map}, file, indent=2)


def round_all(tensors, dtype):
    return {name: safetensors.round_to(array, dtype) for name, array in tensors.items()}


def stored(tensors, prefix="", exchanged=False):
    swapped = lambda name, array: array.swapaxes(1, 2) if exchanged and ".experts." in name else array
    return {name.removeprefix(prefix): swapped(name, array) for name, array in tensors.items()}


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def expect_same_files(want, got):
    names = sorted(os.listdir(want))
    if sorted(os.listdir(got)) != names:
        raise harness.CaseFailed(f"expected the files {names} but got {sorted(os.listdir(got))}")
    for name in names:
        if read_bytes(os.path.join(want, name)) != read_bytes(os.path.join(got, name)):
            raise harness.CaseFailed(f"'{name}' is not what was loaded")


def layouts_of(path):
    """(dtype, shards, folder) of each way to write a checkpoint."""
    for dtype, shards in (("f32", 1), ("f32", 3), ("bf16", 3), ("f16", 1)):
        yield dtype, shards, path(f"{dtype}-{shards}")


def compile_plan(tools, log, case, mode, plan, *flags, dtype="f32"):
    tools.call(log, "moe-compile", os.path.join(MODELS, case.model + ".json"), "--whole-model", f"--mode={mode}",
               f"--dtype={dtype}", f"--batch={BATCH}", f"--seq={LENGTH}", f"--parallel={case.layout}", *flags, "-o", plan)
    return checkpoint.read_metadata(plan)


def check_loading(tools, case, folder, log):
    """Checks the logits of every layout, and that saving gives back every byte."""
    path = partial(os.path.join, folder)
    config = read_config(case.model)
    metadata = compile_plan(tools, log, case, "forward", path("plan.so"))
    tensors = models.draw(config, seed=1)
    rng = np.random.default_rng(2)
    sequences = BATCH * metadata["parallel"]["dp"]
    ids = {argument["name"]: rng.integers(0, argument["below"], (sequences, LENGTH))
           for argument in metadata["programs"][0]["arguments"] if argument["role"] == "input"}
    safetensors.save(path("ids"), {name: values.reshape(-1).astype(np.int32) for name, values in ids.items()})

    worst = 0.0
    for dtype, shards, source in layouts_of(path):
        write_checkpoint(source, {**stored(tensors, case.prefix, case.exchanged), **EXTRA}, dtype, shards)
        form = source if dtype == "f32" else os.path.join(source, [INDEX, ONE_FILE][shards == 1])
        _, said = tools.call_for_all(log, "moe-run", path("plan.so"), f"--load={path('ids')}", f"--load={form}",
                                     f"--save={path('out')}", f"--save-checkpoint={source}-back")
        if UNUSED not in said or "random" in said:
            raise harness.CaseFailed(f"expected '{UNUSED}..' and nothing random but got: {said}")
        expect_same_files(source, source + "-back")
        want = models.logits(config, round_all(tensors, dtype), groups=metadata["parallel"]["dp"], **ids)
        error = np.max(np.abs(safetensors.load(path("out"))["logits"] - want)) / np.max(np.abs(want))
        if not error <= TOLERANCE:
            raise harness.CaseFailed(f"{dtype}, {shards} files: logits differ by {error:.1e}")
        worst = max(worst, error)
    check_new(tools, case, path, metadata, round_all(tensors, "f32"), log)
    return f"{len(tensors)} tensors, largest error {worst:.1e}"


def check_new(tools, case, path, metadata, tensors, log):
    """Parameters without a checkpoint are saved as one with the published names."""
    safetensors.save(path("own"), checkpoint.parameters(metadata, stored(tensors, case.prefix, case.exchanged)), "f32")
    tools.call(log, "moe-run", path("plan.so"), f"--load={path('ids')}", f"--load={path('own')}",
               f"--save-checkpoint={path('new', ONE_FILE)}")
    made = safetensors.load(path("new", ONE_FILE))
    if sorted(made) != sorted(tensors):
        raise harness.CaseFailed(f"expected the tensors {sorted(tensors)} but got {sorted(made)}")
    for name, tensor in tensors.items():
        if made[name].shape != tensor.shape or not np.array_equal(made[name], tensor):
            raise harness.CaseFailed(f"tensor '{name}' is not what the parameters were made of")


def check_stepping(tools, case, folder, log):
    """Steps with a learning rate of 0 go through the parameters' own layout, and give back every byte."""
    path = partial(os.path.join, folder)
    compile_plan(tools, log, case, "train", path("plan.so"), "--optimizer=adam")
    tensors = models.draw(read_config(case.model), seed=3)
    safetensors.save(path("rate"), {"learning_rate": np.zeros((), np.float32)})
    for dtype, shards, source in layouts_of(path):
        write_checkpoint(source, {**tensors, **EXTRA}, dtype, shards)
        flags = [path("plan.so"), f"--load={source}", f"--save-checkpoint={source}-back"]
        tools.call(log, "moe-run", *flags, f"--load={path('rate')}")
        expect_same_files(source, source + "-back")
    # Saving in place at the usual rate changes everything that the plan uses.
    tools.call(log, "moe-run", path("plan.so"), f"--load={path('f32-3')}", f"--save-checkpoint={path('f32-3')}")
    before, after = ({name: array for file in sorted(os.listdir(path(where))) if file.endswith(".safetensors")
                      for name, array in safetensors.load(path(where, file)).items()}
                     for where in ("f32-3-back", "f32-3"))
    changed = [name for name in before if not np.array_equal(before[name], after[name])]
    if set(EXTRA) & set(changed) or not changed:
        raise harness.CaseFailed(f"a step changed {changed}")
    return f"a step changes {len(changed)} of {len(before)} tensors"


def check_training(tools, case, folder, log):
    """--train begins with the checkpoint's weights and writes those after the last step."""
    path = partial(os.path.join, folder)
    metadata = compile_plan(tools, log, case, "train", path("plan.so"), "--optimizer=adam")
    with open(path("text"), "wb") as file:
        file.write(b"the quick brown fox jumps over the lazy dog. " * 50)
    tensors = models.draw(read_config(case.model), seed=4)
    for dtype, shards, source in layouts_of(path):
        write_checkpoint(source, {**tensors, **EXTRA}, dtype, shards)
        train = ["moe-run", path("plan.so"), "--train", f"--data={path('text')}", f"--load={source}", "--json"]
        tools.call(log, *train, "--steps=2", "--rate=0", f"--save-checkpoint={source}-back")
        expect_same_files(source, source + "-back")

    train = train[:-2]
    run = lambda *flags: json.loads(tools.call(log, *train, "--json", "--rate=0.01", *flags))["steps"]
    first = run("--steps=3", f"--load={path('f32-3')}", f"--checkpoint={path('state')}",
                f"--save-checkpoint={path('three')}")
    state = safetensors.load(path("state"))
    made = {name: array for file in sorted(os.listdir(path("three"))) if file.endswith(".safetensors")
            for name, array in safetensors.load(path("three", file)).items() if name not in EXTRA}
    for name, value in checkpoint.parameters(metadata, made).items():
        if not np.array_equal(value, state[name]):
            raise harness.CaseFailed(f"'{name}' is not what it was after the last step")
    # The training is interrupted after three steps, at which the other one has a checkpoint, too. The loaded layout is still the one that
    # is written.
    run("--steps=5", f"--load={path('f32-3')}", f"--checkpoint={path('state')}", f"--save-checkpoint={path('resumed')}")
    run("--steps=5", f"--load={path('f32-3')}", f"--checkpoint={path('other')}", "--checkpoint-every=3",
        f"--save-checkpoint={path('whole')}")
    expect_same_files(path("whole"), path("resumed"))
    return f"{len(made)} tensors, loss {first[0]['loss']:.3f} to {first[-1]['loss']:.3f}"


def read_dtypes(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: entry["dtype"] for name, entry in header.items() if name != "__metadata__"}


def check_16_bits(tools, case, folder, log):
    """Plans of 16 bits give back the loaded values. A new checkpoint has their type, except for routers."""
    path = partial(os.path.join, folder)
    tensors = models.draw(read_config(case.model), seed=5)
    for dtype in ("bf16", "f16"):
        compile_plan(tools, log, case, "forward", path("plan.so"), dtype=dtype)
        source, new = path(dtype), path(f"{dtype}-new", ONE_FILE)
        write_checkpoint(source, tensors, dtype, 3)
        tools.call(log, "moe-run", path("plan.so"), f"--load={source}", f"--save-checkpoint={source}-back")
        expect_same_files(source, source + "-back")
        tools.call(log, "moe-run", path("plan.so"), f"--save-checkpoint={new}")
        for name, made in read_dtypes(new).items():
            if made != ("F32" if name.endswith("e_score_correction_bias") else dtype.upper()):
                raise harness.CaseFailed(f"a plan in {dtype} writes '{name}' as {made}")
    return f"{len(tensors)} tensors"


# Wrong checkpoints


def edit_index(folder, change):
    path = os.path.join(folder, INDEX)
    index = json.loads(read_bytes(path))
    change(index)
    with open(path, "w") as file:
        json.dump(index, file)


def edit_tensors(folder, change):
    tensors = safetensors.load(os.path.join(folder, ONE_FILE))
    change(tensors)
    safetensors.save(os.path.join(folder, ONE_FILE), tensors)


def edit_header(folder, old, new):
    """Replaces `old` by `new`, which is as long."""
    content = read_bytes(os.path.join(folder, ONE_FILE))
    assert old in content and len(old) == len(new)
    with open(os.path.join(folder, ONE_FILE), "wb") as file:
        file.write(content.replace(old, new, 1))


GATE, HEAD = "model.layers.0.block_sparse_moe.gate.weight", "lm_head.weight"
EXPERT = "model.layers.1.block_sparse_moe.experts.2.w3.weight"
SECOND = "model-00002-of-00003.safetensors"
# A change of a Mixtral in one file or in three, the argument of --load in that folder, and the error.
WRONG = {
    "a shape": (1, lambda f: edit_tensors(f, lambda t: t.update({GATE: t[GATE].T})), "",
                f"tensor '{GATE}' of argument 'layer0.gate': expected [4, 24] but got [24, 4]"),
    "a shape of an expert": (1, lambda f: edit_tensors(f, lambda t: t.update({EXPERT: t[EXPERT][:-1]})), "",
                             f"tensor '{EXPERT}' of argument 'layer1.w1': expected [20, 24] but got [19, 24]"),
    "a dtype": (1, lambda f: edit_header(f, b'"lm_head.weight": {"dtype": "F32"', b'"lm_head.weight": {"dtype": "I32"'),
                "", f"tensor '{HEAD}' of argument 'head': expected F32, F64, BF16 or F16 but got I32"),
    "a dtype that nobody knows": (1, lambda f: edit_header(f, b'"F32"', b'"F33"'), "", 'unknown dtype "F33", expected one'),
    "an expert too few": (1, lambda f: edit_tensors(f, lambda t: t.pop(EXPERT)), "",
                          f"tensor '{EXPERT}' of argument 'layer1.w1': expected this tensor beside the others but it is missing"),
    "a truncated file": (1, lambda f: os.truncate(os.path.join(f, ONE_FILE), 30000), "", "lie outside the"),
    "a truncated header": (1, lambda f: os.truncate(os.path.join(f, ONE_FILE), 300), "", "the file is truncated"),
    "a truncated shard": (3, lambda f: os.truncate(os.path.join(f, SECOND), 20000), "", SECOND),
    "other names": (1, lambda f: edit_tensors(f, lambda t: [t.update({"x." + n: t.pop(n)}) for n in list(t)]), "",
                    "of a checkpoint it knows tensors such as 'model.embed_tokens.weight'"),
    "no such folder": (1, lambda f: None, "elsewhere", "cannot be opened"),
    "an empty folder": (1, lambda f: os.remove(os.path.join(f, ONE_FILE)), "",
                        f"expected '{INDEX}' or '{ONE_FILE}' in the folder"),
    "no such index": (1, lambda f: None, INDEX, "cannot be opened"),
    "a missing shard": (3, lambda f: os.remove(os.path.join(f, SECOND)), "", f"expected the file '{SECOND}' of tensor '"),
    "an index that is not JSON": (3, lambda f: os.truncate(os.path.join(f, INDEX), 100), "", "'weight_map'"),
    "an index without a map": (3, lambda f: edit_index(f, lambda i: i.pop("weight_map")), "", "'weight_map'"),
    "an index of nothing": (3, lambda f: edit_index(f, lambda i: i["weight_map"].clear()), "", "at least one tensor"),
    "a number for a file": (3, lambda f: edit_index(f, lambda i: i["weight_map"].update({HEAD: 3})), INDEX,
                            f"tensor '{HEAD}': expected the name of a file but got 3"),
    "a path outside": (3, lambda f: edit_index(f, lambda i: i["weight_map"].update({HEAD: "../x.safetensors"})), "",
                       f"tensor '{HEAD}': expected the name of a file in the index's folder but got '../x.safetensors'"),
    "an absolute path": (3, lambda f: edit_index(f, lambda i: i["weight_map"].update({HEAD: "/etc/passwd"})), "",
                         "in the index's folder but got '/etc/passwd'"),
    "a tensor that a shard lacks": (3, lambda f: edit_index(f, lambda i: i["weight_map"].update({"lost": SECOND})), "",
                                    f"expected '{SECOND}' to have tensor 'lost', as the index says, but it does not"),
    "another shard's tensor": (3, lambda f: edit_index(f, lambda i: i["weight_map"].update(
        {name: SECOND for name in i["weight_map"]})), "", f"expected '{SECOND}' to have tensor '"),
}


def run_failing(tools, log, *arguments):
    command = [os.path.join(tools.folder, "moe-run"), *arguments]
    log.append(" ".join(command))
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    if done.returncode != 2:
        raise harness.CaseFailed(f"expected exit status 2 but got {done.returncode}: {done.stderr[-500:]}")
    return done.stderr


def expect_error(text, said):
    if text not in said:
        raise harness.CaseFailed(f"expected an error with '{text}' but got: {said[-800:]}")


def check_wrong(tools, case, folder, log):
    path = partial(os.path.join, folder)
    compile_plan(tools, log, case, "forward", path("plan.so"))
    tensors = models.draw(read_config(case.model), seed=1)
    for name, (shards, spoil, given, text) in WRONG.items():
        source = path(name.replace(" ", "-"))
        write_checkpoint(source, tensors, "f32", shards)
        spoil(source)
        expect_error(text, run_failing(tools, log, path("plan.so"), f"--load={os.path.join(source, given)}"))

    run = partial(run_failing, tools, log, path("plan.so"))
    write_checkpoint(path("one"), tensors, "f32", 1)
    write_checkpoint(path("three"), tensors, "f32", 3)
    write_checkpoint(path("headless"), {name: tensors[name] for name in tensors if name != HEAD}, "f32", 1)
    for text, *flags in [
            ("expected a folder for the 3 files of", f"--load={path('three')}", f"--save-checkpoint={path('x.safetensors')}"),
            ("expected one checkpoint to take the layout of", f"--load={path('one')}", f"--load={path('three')}",
             f"--save-checkpoint={path('x')}"),
            (f"expected tensor '{HEAD}' of argument 'head'", f"--load={path('headless')}", "--allow-missing",
             f"--save-checkpoint={path('x')}"),
            (f"parameters, of which it has some, but it lacks 1: 'head' (tensor '{HEAD}'); with --allow-missing",
             f"--load={path('headless')}"),
            ("cannot be", f"--load={path('one')}", f"--save-checkpoint={path('plan.so', 'x')}"),
            ("--save-checkpoint: expected a value", "--save-checkpoint")]:
        expect_error(text, run(*flags))
    # Values that the checkpoint lacks are random if this is allowed, and moe-run says so.
    _, said = tools.call_for_all(log, "moe-run", path("plan.so"), f"--load={path('headless')}", "--allow-missing")
    expect_error("lacks 1 of the plan's", said)
    expect_error("does not have: 'tokens', 'head'\n", said)
    return f"{len(WRONG)} checkpoints"


def check_square(tools, case, folder, log):
    """If a stack of experts is square and another one has rows and columns exchanged, the layout of the square one is unknown."""
    path = partial(os.path.join, folder)
    config = read_config(case.model)
    config["text_config"]["moe_intermediate_size"] = 12
    with open(path("square.json"), "w") as file:
        json.dump(config, file)
    compile_plan(tools, log, Case(case.check, path("square"), case.layout), "forward", path("plan.so"))
    tensors = models.draw(config, seed=1)
    write_checkpoint(path("published"), tensors, "f32", 1)
    tools.call(log, "moe-run", path("plan.so"), f"--load={path('published')}")
    write_checkpoint(path("exchanged"), stored(tensors, exchanged=True), "f32", 1)
    said = run_failing(tools, log, path("plan.so"), f"--load={path('exchanged')}")
    expect_error("down_proj' has rows and columns exchanged, and 'model.language_model.layers.1.mlp.experts.gate_up_proj' is square", said)
    return "refused"


def cases():
    for model in NAMES:
        for layout, flags in LAYOUTS.items():
            yield f"load {model}, {layout}", Case(check_loading, model, flags)
    # GPT-2's checkpoints are published for the model without its head.
    for model in ("gpt2", "gpt2-moe"):
        yield f"load {model} without prefix", Case(check_loading, model, LAYOUTS["dp 2, mp 2, ep 2, esp 2"], "transformer.")
    for model in NAMES:
        flags = LAYOUTS["dp 2, mp 2, ep 2, esp 2"]
        yield f"step {model}, dp 2, mp 2, ep 2, esp 2", Case(check_stepping, model, flags)
    for layout, flags in LAYOUTS.items():
        yield f"train bytes, {layout}", Case(check_training, "bytes", flags)
    for model in ("mixtral", "deepseek-v3"):
        yield f"16 bits {model}", Case(check_16_bits, model, LAYOUTS["dp 2, mp 2, ep 2, esp 2"])
    # transformers 5 saves Qwen3-VL's stacks with rows and columns exchanged.
    yield "load qwen3-vl-moe, exchanged", Case(check_loading, "qwen3-vl-moe", LAYOUTS["dp 2, mp 2, ep 2, esp 2"], exchanged=True)
    yield "square qwen3-vl-moe", Case(check_square, "qwen3-vl-moe", "dp=1")
    yield "wrong checkpoints", Case(check_wrong, "mixtral", "dp=1")


def main():
    options = harness.parser(__doc__.splitlines()[0]).parse_args()
    tools = harness.Tools(options.bin)
    return harness.run_cases(cases(), lambda case, folder, log: case.check(tools, case, folder, log), options)


if __name__ == "__main__":
    sys.exit(main())
