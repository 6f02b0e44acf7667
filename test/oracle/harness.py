"""Shared code of the tests that drive the tools: models as MLIR text, commands, comparison, parallel cases."""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
import zlib

import numpy as np

TOLERANCE = {"f64": 1e-12, "f32": 1e-5}
SINGLE_RANK = "--parallel=dp=1,mp=1,ep=1,esp=1"


class CaseFailed(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Layout:
    """A world of ranks and its groups. The remaining ranks are data-parallel."""

    world: int
    mp: int
    ep: int
    esp: int

    @property
    def dp(self):
        return self.world // self.mp

    def __str__(self):
        return f"world {self.world} mp {self.mp} ep {self.ep} esp {self.esp}"

    def fit(self, schedule):
        """The schedule, or the baseline in place of S1 and S2 that have nothing to divide."""
        layer, *others = schedule.split("+")
        if layer not in ("s1", "s2") or self.mp > 1 or self.esp > 1:
            return schedule
        return "+".join(["baseline", *(one for one in others if one != "saa")])

    def flag(self):
        return f"--parallel=dp={self.dp},mp={self.mp},ep={self.ep},esp={self.esp}"


# Models as text


def tensor_type(shape, dtype):
    return f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"


def layer_attributes(layer, max_load):
    f64 = lambda value: f"{value:.17e} : f64"
    i64 = lambda value: f"{value} : i64"
    attributes = {"top_k": i64(layer.top_k), "activation": f"#moe<activation {layer.activation}>"}
    if layer.score != "softmax":
        attributes["score"] = f"#moe<score {layer.score}>"
    if layer.routing_scale != 1.0:
        attributes["routing_scale"] = f64(layer.routing_scale)
    if layer.expert_groups != 1:
        attributes["expert_groups"] = i64(layer.expert_groups)
        attributes["top_groups"] = i64(layer.top_groups)
        attributes["group_score"] = f"#moe<group_score {layer.group_score}>"
    if layer.capacity_factor is not None:
        attributes["capacity_factor"] = f64(layer.capacity_factor)
    if layer.expert_capacity is not None:
        attributes["expert_capacity"] = i64(layer.expert_capacity)
    if layer.is_dropless and max_load is not None:
        attributes["max_load"] = f64(max_load)
    if layer.groups != 1:
        attributes["groups"] = i64(layer.groups)
    units = ["renormalize"] * layer.renormalize + ["weigh_inputs"] * layer.weigh_inputs
    return "{" + ", ".join([f"{k} = {v}" for k, v in attributes.items()] + units) + "}"


def verified_errors(report, model):
    """Relative errors by name in the report of moe-run --verify, which must have compared the outputs and all gradients as equal."""
    errors = {value["name"]: value["relative_error"] for value in report["verify"]["values"]}
    missing = {"y", "aux", *model.gradient_names()} - errors.keys()
    if missing or report["verify"]["ok"] is not True:
        raise CaseFailed(f"not compared: {sorted(missing)}; errors: {errors}")
    return errors


def mlir_text(model, dtype, max_load=None):
    """The L0 graph of an oracle.Model, named and ordered as moe-import would."""
    shapes = model.shapes()
    value = {name: "%" + name.replace(".", "_") for name in shapes}
    arguments = ", ".join(
        f'{value[name]}: {tensor_type(shape, dtype)} {{moe.name = "{name}", '
        f'moe.role = "{"input" if name == "x" else "parameter"}"}}'
        for name, shape in shapes.items())
    x_type, scalar = tensor_type(shapes["x"], dtype), tensor_type((), dtype)
    result = lambda kind, name: f'{kind} {{moe.name = "{name}", moe.role = "output"}}'
    lines = [f"func.func @model({arguments}) -> ({result(x_type, 'y')}, {result(scalar, 'aux')}) {{"]
    x, aux = "%x", None
    for i, layer in enumerate(model.layers):
        present = layer.shapes()
        operand = lambda name: value[f"layer{i}.{name}"]
        listed = lambda *names: ", ".join(operand(name) for name in names if name in present)
        text = f'  %y{i}, %aux{i} = moe.layer "layer{i}" {x} gate({listed("gate", "gate_bias")})'
        if layer.selection_bias:
            text += f" selection_bias({operand('selection_bias')})"
        text += f" experts({listed('w1', 'w2', 'b1', 'b2')})"
        if layer.shared_inner:
            text += f" shared({listed('shared_w1', 'shared_w2', 'shared_gate')})"
        types = ", ".join([x_type] + [tensor_type(shape, dtype) for shape in present.values()])
        lines.append(f"{text} {layer_attributes(layer, max_load)} : ({types}) -> ({x_type}, {scalar})")
        if model.residual:
            lines.append(f"  %x{i} = moe.add {x}, %y{i} : {x_type}")
        x = f"%x{i}" if model.residual else f"%y{i}"
        if aux:
            lines.append(f"  %sum{i} = moe.add {aux}, %aux{i} : {scalar}")
        aux = f"%sum{i}" if aux else f"%aux{i}"
    return "\n".join(lines + [f"  return {x}, {aux} : {x_type}, {scalar}", "}", ""])


# Commands


def metadata_of(plan):
    """Metadata of a compiled plan (docs/PlanFormat.md), with each op written out."""
    with open(plan, "rb") as file:
        data = file.read()
    begin = data.index(b'{"moeplan":')
    metadata = json.loads(data[begin : data.index(b"\0", begin)])
    for plan in metadata.get("variants", [metadata]):
        for program in [*plan["programs"], plan["reference"]]:
            ops = program.get("ops", [])
            program["ops"] = [ops[op] if isinstance(op, int) else op for op in ops]
    return metadata


def is_chosen(plan):
    """Whether the plan's bytes, which are the same in each run, choose it. They choose half of the plans."""
    with open(plan, "rb") as file:
        return zlib.crc32(file.read()) % 2 == 0


class Tools:
    """The tools in one folder. Each call raises CaseFailed unless the command exits with 0.

    With a backend of one process for each rank, moe-run is started as often as its plan has ranks. If moe-run verifies on the host, it also
    verifies every second plan in exact arithmetic, which takes longer, on other values.
    """

    def __init__(self, folder, backend="host", timeout=300):
        self.folder = os.path.abspath(folder)
        self.backend = backend
        self.timeout = timeout
        # The user of a container is often root.
        os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
        os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")

    def call(self, log, tool, *arguments):
        """Runs the tool, adds its command line to `log`, returns its stdout."""
        return self.call_for_all(log, tool, *arguments)[0]

    def call_for_all(self, log, tool, *arguments):
        """Runs the tool as call() does, and returns stdout and stderr."""
        command = [os.path.join(self.folder, tool), *map(str, arguments)]
        if tool == "moe-run" and self.backend != "host":
            command += [f"--backend={self.backend}"]
        if tool == "moe-run" and self.backend == "mpi":
            command = ["mpirun", "--quiet", "--oversubscribe", "-n", str(metadata_of(arguments[0])["world"]), *command]
        log.append(shlex.join(command))
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=self.timeout)
        except subprocess.TimeoutExpired:
            raise CaseFailed(f"{tool} did not finish in {self.timeout} s") from None
        except OSError as error:
            raise CaseFailed(f"{tool}: {error}") from None
        if done.returncode != 0:
            tail = "\n".join((done.stdout[-1500:] + done.stderr[-3000:]).splitlines()[-30:])
            raise CaseFailed(f"{tool} exited with {done.returncode}\n{tail}")
        if tool == "moe-run" and "--verify" in arguments and self.backend == "host" and is_chosen(arguments[0]):
            kept = [one for one in map(str, arguments) if one.startswith(("--iters=", "--batch=", "--seq=", "--seed="))]
            self.call_for_all(log, tool, arguments[0], "--verify=exact", *kept)
        return done.stdout, done.stderr


# Comparison


def relative_error(got, want):
    """||got - want|| / ||want||, or the norm of `got` for a zero `want`."""
    norm = np.linalg.norm(want)
    difference = np.linalg.norm(np.asarray(got, dtype=np.float64) - want)
    return float(difference / norm) if norm > 0 else float(difference)


# Cases


def add_arguments(parser):
    parser.add_argument("--bin", required=True, metavar="DIR", help="the folder of moe-compile and moe-run")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time (default 2)")
    parser.add_argument("--only", metavar="TEXT", help="only the cases whose name contains TEXT")
    parser.add_argument("--fraction", type=float, default=1, metavar="F", help="run this part of the cases, always the same (default 1)")
    parser.add_argument("--backend", default="host", metavar="NAME",
                        help="run plans on this; on mpi the cases of 2 and 4 ranks, on cuda of one (default host)")
    parser.add_argument("--keep", metavar="DIR", help="keep every case's files here, not only those of failing ones")


def parser(description):
    result = argparse.ArgumentParser(description=description, allow_abbrev=False)
    add_arguments(result)
    return result


def runs_on(backend, name):
    """Whether the backend is tried with the size of a case's world, if its name has one."""
    world, stages = re.search(r"\bworld (\d+)", name), re.search(r"\bpp (\d+)x", name)
    ranks = int(world.group(1)) * int(stages.group(1) if stages else 1) if world else 0
    return ranks in {"mpi": (2, 4), "cuda": (1,)}.get(backend, (ranks,))


def write_runs(name, folder, log):
    """Writes the case's name and the calls of moe-run --verify, one per line, for replay.py. Files have their names in `folder`."""
    runs = []
    for line in log:
        command = shlex.split(line)
        tools = [i for i, word in enumerate(command) if os.path.basename(word) == "moe-run"]
        if tools and "--verify" in command:
            runs.append(shlex.join(word.replace(folder + os.sep, "") for word in command[tools[0] + 1 :]))
    if runs:
        with open(os.path.join(folder, "runs"), "w", encoding="utf-8") as file:
            file.write("\n".join([name, *runs]) + "\n")


def run_cases(cases, check, options):
    """Runs check(case, folder, log) -> note for each (name, case). Prints a line for each and their number. Returns the exit status.

    A case fails by raising. Its commands are printed and its folder is kept.
    """
    draw = random.Random(1)
    cases = [case for case in cases if draw.random() < options.fraction]
    cases = [(name, case) for name, case in cases
             if (not options.only or options.only in name) and runs_on(options.backend, name)]
    if not cases:
        print("error: no case is selected", file=sys.stderr)
        return 2
    root = options.keep or tempfile.mkdtemp(prefix="moeplan-")
    os.makedirs(root, exist_ok=True)

    def run_one(index_and_case):
        index, (name, case) = index_and_case
        folder = tempfile.mkdtemp(prefix=f"{index:04d}-", dir=root)
        log = []
        try:
            note = check(case, folder, log)
        except CaseFailed as error:
            return name, folder, log, str(error)
        except Exception:
            return name, folder, log, traceback.format_exc()
        if options.keep:
            write_runs(name, folder, log)
        else:
            shutil.rmtree(folder)
        return name, None, log, note

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run_one, item) for item in enumerate(cases)]):
            name, folder, log, note = future.result()
            if folder is None:
                print(f"ok   {name}" + (f": {note}" if note else ""), flush=True)
                continue
            failed += 1
            print(f"FAIL {name}\n  " + note.strip().replace("\n", "\n  "))
            for command in log:
                print(f"  $ {command}")
            print(f"  files: {folder}", flush=True)
    if not failed and not options.keep:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0
