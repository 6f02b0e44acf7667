#!/usr/bin/python3
"""Tests checkpoints in many files: training goes on in any other layout, and transformers' layout of large models goes both ways.

Each layout saves after three steps and each goes on from there, with the losses of training that was not interrupted. A process that is
killed while it saves leaves a checkpoint to go on from.
"""

import glob
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from functools import partial

import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(FOLDER, "models")
sys.path.insert(0, os.path.join(FOLDER, "..", "oracle"))

import harness
import safetensors

# Layouts. A step of each is two micro-batches of four sequences.
LAYOUTS = {
    "one rank": ("--parallel=dp=1", "--batch=4"),
    "dp, mp and ep": ("--parallel=dp=2,mp=2,ep=4", "--batch=2"),
    "dp and ep, ZeRO-3": ("--parallel=dp=4,ep=2", "--batch=1", "--zero=3", "--bucket-bytes=4kB"),
    "pp, dp and ep, ZeRO-2": ("--parallel=pp=2,dp=2,ep=2", "--batch=2", "--zero=2"),
    "mp and esp": ("--parallel=dp=1,mp=2,ep=1,esp=2", "--batch=4"),
    "all but pp, ZeRO-1": ("--parallel=dp=2,mp=2,ep=2,esp=2", "--batch=2", "--zero=1"),
}
FOR_ALL = ("--whole-model", "--layers=2", "--seq=16", "--dropless", "--routing-groups=4", "--micro-batches=2", "--optimizer=adam",
           "--clip-norm=1", "--dtype=f64")
SHARD_BYTES = 10_000  # less than some parts need
SHARDS = f"--shard-bytes={SHARD_BYTES}"
HALF, WHOLE = 3, 6
TOLERANCE = 1e-12


def compile_layouts(tools, names, path, log):
    for name in names:
        tools.call(log, "moe-compile", os.path.join(MODELS, "gpt2-moe.json"), *FOR_ALL, *LAYOUTS[name], "-o",
                   path(name + ".so"))
    with open(path("text"), "wb") as file:
        file.write(bytes(random.Random(1).randrange(40) for _ in range(4000)))


def train(tools, name, path, log, *flags):
    """The losses by step."""
    report = tools.call(log, "moe-run", path(name + ".so"), "--train", f"--data={path('text')}", "--data-type=bytes", "--rate=0.01",
                        "--warmup=2", "--json", *flags)
    return {step["step"]: step["loss"] for step in json.loads(report)["steps"]}


def check_latest(folder):
    """Step of the checkpoint in `latest`. Checks that it is complete: each element of each tensor is in a block of a readable file."""
    with open(os.path.join(folder, "latest")) as file:
        step = os.path.join(folder, file.read().strip())
    with open(os.path.join(step, "index.json")) as file:
        index = json.load(file)
    files = [safetensors.load(os.path.join(step, name)) for name in index["files"]]
    if any(sum(array.nbytes for array in arrays.values()) > SHARD_BYTES for arrays in files):
        raise harness.CaseFailed(f"expected files of at most {SHARD_BYTES} bytes")
    if not any("range" in block for tensor in index["tensors"].values() for block in tensor["blocks"]):
        raise harness.CaseFailed("expected tensors in ranges")
    for name, tensor in index["tensors"].items():
        seen = np.zeros(tensor["shape"], dtype=int)
        for block in tensor["blocks"]:
            box = tuple(slice(begin, begin + length) for begin, length in zip(block["offset"], block["lengths"]))
            first, end = block.get("range", (0, seen[box].size))
            part = np.zeros(seen[box].size, dtype=int)
            part[first:end] = 1
            seen[box] += part.reshape(seen[box].shape)
            text = name + "[" + ", ".join(f"{s.start}:{s.stop}" for s in box) + "]"
            text += f".flat[{first}:{end}]" if "range" in block else ""
            if files[block["file"]][text].size != end - first:
                raise harness.CaseFailed(f"expected {end - first} elements in '{text}'")
        if not np.all(seen == 1):
            raise harness.CaseFailed(f"'{name}': expected each element once")
    return index["step"]


def check_layouts(tools, pairs, folder, log):
    path = partial(os.path.join, folder)
    compile_layouts(tools, dict.fromkeys(itertools.chain(*pairs)), path, log)
    first = pairs[0][0]
    want = train(tools, first, path, log, f"--steps={WHOLE}")
    worst = 0.0
    for before, after in pairs:
        saved, state = path(before), path("state")
        if not os.path.exists(saved):
            train(tools, before, path, log, f"--steps={HALF}", f"--checkpoint={saved}/", SHARDS)
            if check_latest(saved) != HALF:
                raise harness.CaseFailed(f"expected a checkpoint of step {HALF}")
        shutil.copytree(saved, state)
        got = train(tools, after, path, log, f"--steps={WHOLE}", f"--checkpoint={state}/", SHARDS)
        shutil.rmtree(state)
        if sorted(got) != list(range(HALF, WHOLE)):
            raise harness.CaseFailed(f"{before} to {after}: expected steps {HALF} to {WHOLE - 1} but got {sorted(got)}")
        error = max(abs(got[step] - want[step]) / abs(want[step]) for step in got)
        if not error <= TOLERANCE:
            raise harness.CaseFailed(f"{before} to {after}: losses differ by {error:.1e}: {got} and {want}")
        worst = max(worst, error)
        if before == after:
            # The same saves at the same steps give the same bits, although the last bit of replicas may differ.
            again = train(tools, after, path, log, f"--steps={WHOLE}", f"--checkpoint={path('again')}/",
                          f"--checkpoint-every={HALF}")
            if any(again[step] != got[step] for step in got):
                raise harness.CaseFailed(f"{before}: expected the losses {again} but got {got}")
            shutil.rmtree(path("again"))
    if not want[WHOLE - 1] < want[HALF - 1] < want[0]:
        raise harness.CaseFailed(f"expected losses that fall but got {want}")
    return f"{len(pairs)} times, losses differ by {worst:.1e}"


def check_kills(tools, trials, folder, log):
    """A rank that is killed in a call that changes files ends the job, and the next job resumes."""
    path = partial(os.path.join, folder)
    name = "dp, mp and ep"
    compile_layouts(tools, [name], path, log)
    want = train(tools, name, path, log, f"--steps={WHOLE}")
    state = (f"--checkpoint={path('state')}/", "--checkpoint-every=1", SHARDS)
    killer = os.path.join(tools.folder, "..", "runtime", "test", "plans", "killed.so")
    # Each of several processes writes less, after the start of MPI.
    calls = (40, 110) if tools.backend == "mpi" else (1, 300)
    if not os.path.exists(killer):
        return "left out: sanitizers have to be loaded before all else"
    rng, steps, done = random.Random(3), set(), 0
    while done < trials:
        shutil.rmtree(path("state"), ignore_errors=True)
        train(tools, name, path, log, "--steps=1", *state)
        # In one process all ranks write.
        victim, call = rng.randrange(4), rng.randrange(*calls)
        kill = f'[ "${{OMPI_COMM_WORLD_RANK:-{victim}}}" != {victim} ] || export MOERT_TEST_KILL_AT={call} LD_PRELOAD={killer}; exec "$@"'
        command = ["sh", "-c", kill, "sh", os.path.join(tools.folder, "moe-run"), path(name + ".so"), "--train",
                   f"--data={path('text')}", "--rate=0.01", "--warmup=2", "--steps=3", f"--backend={tools.backend}", *state]
        if tools.backend == "mpi":
            command = ["mpirun", "--quiet", "--oversubscribe", "-n", "4", *command]
        log.append(" ".join(command))
        killed = subprocess.run(command, capture_output=True, timeout=60)
        done += killed.returncode != 0
        step = check_latest(path("state"))
        got = train(tools, name, path, log, f"--steps={WHOLE}", *state)
        if sorted(got) != list(range(step, WHOLE)) or max(abs(got[s] - want[s]) for s in got) > TOLERANCE:
            raise harness.CaseFailed(f"rank {victim} killed at call {call}: expected {want} from step {step} on but got {got}")
        steps.add(step)
    return f"{done} kills, went on from steps {sorted(steps)}"


def find_rank(process, backend):
    """A process that runs a rank."""
    if backend != "mpi":
        return process.pid
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        return int(file.read().split()[-1])


def check_termination(tools, folder, log):
    """SIGTERM at one rank ends the step under way. All ranks write its checkpoint, and the same command resumes."""
    path = partial(os.path.join, folder)
    name = "dp, mp and ep"
    compile_layouts(tools, [name], path, log)
    state = f"--checkpoint={path('state')}/"
    command = [os.path.join(tools.folder, "moe-run"), path(name + ".so"), "--train", f"--data={path('text')}", "--rate=0.01", "--warmup=2",
               "--steps=1000000", "--checkpoint-every=1000000", f"--backend={tools.backend}", state, SHARDS]
    if tools.backend == "mpi":
        command = ["mpirun", "--quiet", "--oversubscribe", "-n", "4", *command]
    log.append(" ".join(command))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [process.stdout.readline() for _ in range(3)]
    os.kill(find_rank(process, tools.backend), signal.SIGTERM)
    rest, said = process.communicate(timeout=60)
    last = int((lines + rest.splitlines())[-1].split()[1])
    if process.returncode != 128 + signal.SIGTERM or f"moe-run: SIGTERM: '{path('state')}/' has the checkpoint of all steps so far" not in said:
        raise harness.CaseFailed(f"expected exit status 143 and a message but got {process.returncode}: {said}")
    if check_latest(path("state")) != last + 1:
        raise harness.CaseFailed(f"expected a checkpoint after step {last} but got one of {check_latest(path('state'))} steps")
    got = train(tools, name, path, log, f"--steps={last + 3}", state, SHARDS)
    if sorted(got) != [last + 1, last + 2]:
        raise harness.CaseFailed(f"expected steps {last + 1} and {last + 2} but got {got}")
    return f"stopped after step {last}"


# transformers' folders

EXPLAIN = """
import sys, torch, transformers
model, info = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], torch_dtype=torch.float32, output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"], info
total = sum(value.double().sum().item() for value in model.state_dict().values())
print(repr(total), sum(value.numel() for value in model.state_dict().values()))
"""


def load_folder(folder):
    """Tensors of a folder, and the number of their files."""
    paths = sorted(glob.glob(os.path.join(folder, "*.safetensors")))
    arrays = {}
    for path in paths:
        arrays.update(safetensors.load(path))
    return arrays, [os.path.basename(path) for path in paths]


def check_published(tools, dtype, folder, log):
    path = partial(os.path.join, folder)
    config = os.path.join(MODELS, "mixtral.json")
    tools.call(log, "moe-compile", config, "--whole-model", "--batch=1", "--seq=8", f"--dtype={dtype}",
               "--optimizer=adam", "--parallel=dp=2,mp=2,ep=2,esp=2", "-o", path("plan.so"))
    with open(path("text"), "wb") as file:
        file.write(bytes(random.Random(1).randrange(40) for _ in range(4000)))
    step = ["moe-run", path("plan.so"), "--train", f"--data={path('text')}", "--data-type=bytes", "--steps=2"]
    said = lambda *flags: tools.call_for_all(log, *step, *flags)[1]
    said(f"--save-checkpoint={path('one')}")
    said(f"--save-checkpoint={path('many')}", "--shard-bytes=20KB", f"--checkpoint={path('state')}/")
    whole, one = load_folder(path("one"))
    parts, many = load_folder(path("many"))
    if one != ["model.safetensors"] or many != [f"model-{i + 1:05}-of-{len(many):05}.safetensors" for i in range(len(many))]:
        raise harness.CaseFailed(f"expected one file, and several that are numbered, but got {one} and {many}")
    # Sums of several processes may differ in the last bit.
    limit = 1e-2 if dtype == "bf16" else 1e-5
    if len(many) < 2 or sorted(whole) != sorted(parts) or any(
            np.max(np.abs(whole[name] - parts[name])) > limit for name in whole):
        raise harness.CaseFailed("expected the same tensors in one file and in several")
    with open(path("many", "model.safetensors.index.json")) as file:
        index = json.load(file)
    width = {"bf16": 2, "f32": 4}[dtype]
    if index["metadata"]["total_size"] != width * sum(array.size for array in parts.values()) or sorted(index["weight_map"]) != sorted(parts):
        raise harness.CaseFailed(f"the index does not fit the files: {index['metadata']}")
    # The way back goes through a plan that changes nothing, into other files, over the existing ones.
    text = said(f"--load={path('many')}", "--rate=0", f"--save-checkpoint={path('one')}")
    back, names = load_folder(path("one"))
    if names != many or f"removed '{path('one', 'model.safetensors')}'" not in text or any(
            not np.array_equal(parts[name], back[name]) for name in parts):
        raise harness.CaseFailed(f"expected {many} with the same values in place of {one} but got {names}: {text}")
    return f"{len(parts)} tensors in {len(many)} files; " + check_transformers(config, path, parts)


def check_transformers(config, path, tensors):
    """Tensors that transformers reads from the folder, in a process without this folder's modules."""
    shutil.copy(config, path("many", "config.json"))
    done = subprocess.run([sys.executable, "-c", EXPLAIN, path("many")], capture_output=True, text=True, cwd="/")
    if "No module named" in done.stderr:
        return "not read by transformers, which this Python does not have"
    if done.returncode != 0:
        raise harness.CaseFailed(f"transformers: {done.stderr[-2000:]}")
    total, count = done.stdout.split()
    want = float(sum(array.astype(np.float64).sum() for array in tensors.values()))
    if int(count) != sum(array.size for array in tensors.values()) or abs(float(total) - want) > 1e-3:
        raise harness.CaseFailed(f"expected transformers to find values of sum {want} but got {total}")
    return "transformers reads them"


def cases(options):
    """Cases whose names end in their world, from which the harness takes the numbers of ranks for a backend."""
    names = list(LAYOUTS)
    if options.suite == "full":
        for before in names:
            yield f"world 4 at most, from {before}", partial(check_layouts, pairs=[(before, after) for after in names])
        yield "world 4, killed", partial(check_kills, trials=8)
    else:
        yield "world 4 at most, from one layout to all others", partial(check_layouts, pairs=[(names[1], after) for after in names])
        yield "world 4, from ZeRO-1", partial(check_layouts, pairs=[("all but pp, ZeRO-1", "mp and esp")])
    yield "world 4, terminated", check_termination
    for dtype in ("bf16", "f32") if options.suite == "full" else ("bf16",):
        yield f"world 4, published in {dtype}", partial(check_published, dtype=dtype)


def main():
    parser = harness.parser(__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=("quick", "full"), default="quick")
    options = parser.parse_args()
    tools = harness.Tools(options.bin, options.backend)
    return harness.run_cases(cases(options), lambda check, folder, log: check(tools=tools, folder=folder, log=log), options)


if __name__ == "__main__":
    sys.exit(main())
