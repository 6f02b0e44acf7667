#!/usr/bin/python3
"""Tests that the output of moe-compile at a stage leads to the same plan: a rank program as input, and its passes in moe-opt.

Plans are compared byte for byte, as text, and some as plan .so.
"""

import os
import re
import sys
from dataclasses import dataclass
from functools import partial

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
WHOLE = ("--whole-model", "--batch=2", "--mode=train")
GROUPS = "--parallel=dp=2,mp=2,ep=2,esp=2"


@dataclass(frozen=True)
class Case:
    model: str
    flags: tuple
    # Options of the stages after the program of a rank.
    behind: tuple = ()
    library: bool = False
    pipelines: bool = False


def cases():
    case = lambda name, *arguments, **more: (name, Case(*arguments, **more))
    yield case("baseline", "switch", (GROUPS,), library=True, pipelines=True)
    yield case("forward", "mixtral", (GROUPS, "--mode=forward"), pipelines=True)
    yield case("no reference", "mixtral", (GROUPS,), ("--reference=false",))
    yield case("s1", "mixtral", (*WHOLE, GROUPS, "--schedule=s1"), library=True)
    yield case("s2+saa", "switch", (GROUPS, "--schedule=s2+saa"), ("--cluster=parm-b",), pipelines=True)
    yield case("ppmoe", "gpt2-moe", (*WHOLE, "--parallel=dp=2,mp=4,ep=2,esp=2", "--schedule=ppmoe"))
    yield case("parm-auto", "switch", (GROUPS, "--schedule=parm-auto"), ("--cluster=parm-b",))
    yield case("chunks", "mixtral", (GROUPS, "--schedule=s2+chunks:2+mpipe-s4"))
    yield case("chunks in the order of a paper", "mixtral", (GROUPS, "--schedule=chunks:2"), ("--order=mpipemoe",), pipelines=True)
    # One sequence of one token cannot be divided, but its launches are put into the order of chunks.
    yield case("chunks that cannot be", "mixtral", (GROUPS, "--seq=1", "--schedule=chunks:2"))
    yield case("shadows and phases", "mixtral", ("--dropless", "--parallel=dp=4,ep=4", "--schedule=shadow:2+smart:1"), ("--cluster=hgx-h100",))
    yield case("topology gate", "mixtral", ("--parallel=dp=4,ep=4", "--schedule=topology-gate"), ("--cluster=hgx-h100",))
    yield case("a step", "gpt2-moe", (*WHOLE, GROUPS, "--optimizer=adam", "--zero", "--clip-norm=1", "--micro-batches=2", "--dtype=bf16"), pipelines=True)
    yield case("sequence parallel", "qwen3", (*WHOLE, "--parallel=dp=2,mp=2", "--sequence-parallel", "--recompute"))
    yield case("auto", "switch", (GROUPS, "--schedule=auto"), ("--cluster=hgx-h100",))
    yield case("chunks that are chosen", "mixtral", (*WHOLE, GROUPS, "--schedule=chunks:auto"), ("--cluster=hgx-h100",))


def same(what, got, want):
    if got == want:
        return
    pairs = enumerate(zip(got.splitlines(), want.splitlines()), 1)
    line, (one, other) = next(((i, pair) for i, pair in pairs if pair[0] != pair[1]), (0, ("its end", "its end")))
    raise harness.CaseFailed(f"{what}, line {line}: expected\n{other[:400]}\nbut got\n{one[:400]}")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def check_round_trip(compile, model, case, path):
    plan = compile(model, *case.behind, "--emit=plan", "-o", "-")
    compile(model, *case.behind, "--emit=spmd", "-o", path("rank.mlir"))
    same("the plan of the program of a rank", compile(path("rank.mlir"), *case.behind, "--emit=plan", "-o", "-"), plan)
    again = compile(path("rank.mlir"), *case.behind, "--emit=spmd", "-o", "-")
    same("the program of a rank", again, read(path("rank.mlir")).decode())
    if not case.library:
        return
    compile(model, *case.behind, "-o", path("direct.so"))
    compile(path("rank.mlir"), *case.behind, "-o", path("plan.so"))
    if read(path("direct.so")) != read(path("plan.so")):
        raise harness.CaseFailed("expected the same plan .so from the model and from the program of a rank")


def functions_of(text):
    """Functions of a plan without times, which are added after the passes, and without labels, which only MoE layers have in a graph as
    text."""
    return re.sub(r', seconds = [^:,}]* : f64|, label = "[^"]*"', "", text[text.index("func.func"):])


def check_pipelines(tools, compile, model, case, path, log):
    options = (*case.behind, "--reference=false")
    plan = compile(model, *options, "--emit=plan", "-o", "-")
    parallel = re.search(r"moe\.parallel = (#moe\.parallel<.*?>)", plan)[1]
    graph = compile(model, *options, "--emit=l0", "-o", "-").replace("module {", f"module attributes {{moe.parallel = {parallel}}} {{", 1)
    graph = re.sub(r"func\.func @\w+", "func.func @rank", graph, count=1)
    stages = [line.split(": ", 1) for line in compile(model, *options, "--emit=llvm", "--print-pipeline").splitlines()]
    for name, pipeline in stages:
        with open(path("in.mlir"), "w") as file:
            file.write(graph)
        graph = tools.call(log, "moe-opt", path("in.mlir"), "--mlir-print-debuginfo", "--mlir-print-local-scope", f"--pass-pipeline={pipeline}")
        if name == "verify":
            with open(path("in.mlir"), "w") as file:
                file.write(graph)
            same("the plan of the pipelines", functions_of(tools.call(log, "moe-opt", path("in.mlir"))), functions_of(plan).rstrip() + "\n\n")
    order = ["order"] if "order" in "".join(case.behind) else []
    wanted = ["forward", "backward", "plan", *order, "memory", "verify", "llvm"]
    if [name for name, _ in stages] != wanted:
        raise harness.CaseFailed(f"expected the stages {wanted} but got {[name for name, _ in stages]}")


def check(tools, case, folder, log):
    path = partial(os.path.join, folder)
    flags = case.flags if any("--seq" in flag for flag in case.flags) else (*case.flags, "--seq=8")
    model = os.path.join(MODELS, f"{case.model}.json")
    compile = lambda file, *options: tools.call(log, "moe-compile", file, *(flags if file == model else ()), *options)
    check_round_trip(compile, model, case, path)
    if case.pipelines:
        check_pipelines(tools, compile, model, case, path, log)


def main():
    options = harness.parser(__doc__).parse_args()
    return harness.run_cases(cases(), partial(check, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
