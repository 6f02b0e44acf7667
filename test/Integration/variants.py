#!/usr/bin/python3
"""Tests plans of several batch shapes. Each shape runs as the plan of that shape alone does. Missing shapes and wrong options are refused."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

TIMEOUT = 300
CONFIG = {"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 32, "num_attention_heads": 4, "moe_intermediate_size": 16,
          "num_experts": 8, "num_experts_per_tok": 2, "norm_topk_prob": True, "hidden_act": "silu"}
SHAPES = [(1, 8), (1, 16), (3, 8), (3, 16)]
PARALLEL = "--parallel=dp=2,mp=2,ep=2,esp=2"


class Suite:
    """Runs commands, prints one line for each case, counts."""

    def __init__(self, tools, folder):
        self.tools, self.folder = os.path.abspath(tools), folder
        self.passed = self.failed = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def tool(self, *command):
        """(status, stdout, stderr) of a command in the folder."""
        done = subprocess.run([os.path.join(self.tools, command[0]), *command[1:]], capture_output=True, cwd=self.folder,
                              timeout=TIMEOUT, stdin=subprocess.DEVNULL, text=True)
        return done.returncode, done.stdout, done.stderr

    def make(self, *command):
        """The output of a command that has to succeed."""
        status, stdout, stderr = self.tool(*command)
        if status != 0:
            sys.exit(f"error: {' '.join(command)} exited with {status}\n{stderr}")
        return stdout

    def record(self, name, problem=None):
        self.passed += not problem
        self.failed += bool(problem)
        print(f"FAIL {name}: {problem}" if problem else f"ok   {name}", flush=True)

    def equal(self, name, got, expected):
        self.record(name, None if got == expected else f"expected {expected} but got {got}")

    def refused(self, name, command, pattern):
        status, stdout, stderr = self.tool(*command)
        if status != 2 or not re.search(pattern, stderr):
            return self.record(name, f"expected status 2 and '{pattern}' but got {status}\n{stdout[-500:]}{stderr[:2000]}")
        self.record(name)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def runs(suite):
    """Each shape verifies, and equals the plan of that shape alone to the last bit."""
    suite.make("moe-compile", "config.json", PARALLEL, "--batch=1,3", "--seq=8,16", "-o", "plan.so")
    for batch, seq in SHAPES:
        shape = [f"--batch={batch}", f"--seq={seq}"]
        suite.make("moe-compile", "config.json", PARALLEL, *shape, "-o", "alone.so")
        several = json.loads(suite.make("moe-run", "plan.so", *shape, "--verify", "--json", "--save=several.safetensors"))
        alone = json.loads(suite.make("moe-run", "alone.so", "--json", "--save=alone.safetensors"))
        name = f"{batch} x {seq}: "
        suite.equal(name + "what ran", [several[key] for key in ("batch", "sequence", "schedule")], [batch, seq, "baseline"])
        suite.equal(name + "verification", several["verify"]["ok"], True)
        for key in ("flops", "bytes", "arena_bytes", "ranks"):
            suite.equal(name + key, several[key], alone[key])
        suite.equal(name + "values", read(suite.path("several.safetensors")) == read(suite.path("alone.safetensors")), True)
    for options, expected in ([], [1, 8]), (["--batch=3"], [3, 8]), (["--seq=16"], [1, 16]):
        got = json.loads(suite.make("moe-run", "plan.so", *options, "--json"))
        suite.equal(f"default: {' '.join(options) or 'none'}", [got["batch"], got["sequence"]], expected)
    text = suite.make("moe-run", "plan.so", "--batch=3", "--verify")
    suite.equal("tables", "batch 3, sequence 8, schedule baseline" in text and "verification ok" in text, True)


def chooses(suite):
    """Parm's Algorithm 1: S1 or S2 runs, the one with the smaller alpha + beta * tokens."""
    chosen = set()
    for factor in ("2", "0.25"):
        options = ["config.json", PARALLEL, "--batch=1,3", "--seq=8,64", "--schedule=parm-auto", f"--capacity-factor={factor}",
                   "--cluster=parm-b"]
        suite.make("moe-compile", *options, "--emit=plan", "-o", "plan.mlir")
        suite.make("moe-compile", *options, "-o", "plan.so")
        seconds = {}
        for head in re.findall(r"^  module attributes \{(.*)\} \{$", read(suite.path("plan.mlir")).decode(), re.M):
            value = lambda name: json.loads(re.search(rf"plan\.{name} = (\[.*?\]|\".*?\"|\d+)", head).group(1))
            alpha, beta = value("seconds")
            batch, seq = value("batch"), value("sequence")
            seconds.setdefault((batch, seq), []).append((alpha + beta * (batch * seq), value("schedule")))
        suite.equal(f"auto, {factor}: shapes", list(seconds), [(1, 8), (1, 64), (3, 8), (3, 64)])
        for (batch, seq), choices in seconds.items():
            name = f"auto, {factor}: {batch} x {seq}: "
            suite.equal(name + "schedules", [schedule.split("+")[0] for _, schedule in choices], ["s1", "s2"])
            got = json.loads(suite.make("moe-run", "plan.so", f"--batch={batch}", f"--seq={seq}", "--verify", "--json"))
            # Python's min takes the first of equal ones, as the plan does.
            suite.equal(name + "choice", got["schedule"], min(choices, key=lambda choice: choice[0])[1])
            suite.equal(name + "verification", got["verify"]["ok"], True)
            chosen.add(got["schedule"].split("+")[0])
    suite.equal("auto: both are chosen", sorted(chosen), ["s1", "s2"])


def searches(suite):
    """--schedule=auto: each shape runs in the schedule that is best for it alone."""
    options = ["config.json", PARALLEL, "--schedule=auto", "--cluster=parm-a"]
    suite.make("moe-compile", *options, "--batch=1,4", "--seq=256", "-o", "plan.so", "--explain=why.json")
    variants = json.loads(read(suite.path("why.json")))["variants"]
    suite.equal("search: shapes", [(one["batch"], one["sequence"]) for one in variants], [(1, 256), (4, 256)])
    best = set()
    for one in variants:
        shape = [f"--batch={one['batch']}", "--seq=256"]
        name = f"search: {one['batch']} x 256: "
        chosen = [candidate["schedule"] for candidate in one["explanation"]["candidates"] if candidate["verdict"] == "chosen"]
        suite.make("moe-compile", *options, *shape, "-o", "alone.so")
        several = json.loads(suite.make("moe-run", "plan.so", *shape, "--verify", "--json", "--save=several.safetensors"))
        alone = json.loads(suite.make("moe-run", "alone.so", "--json", "--save=alone.safetensors"))
        suite.equal(name + "schedule", [several["schedule"], alone["schedule"]], 2 * chosen)
        suite.equal(name + "verification", several["verify"]["ok"], True)
        suite.equal(name + "values", read(suite.path("several.safetensors")) == read(suite.path("alone.safetensors")), True)
        best.update(chosen)
    suite.equal("search: the shapes' schedules differ", len(best), 2)


def outputs(suite):
    """Further outputs of moe-compile for several shapes."""
    options = ["config.json", PARALLEL, "--batch=1,3", "--seq=8,16"]
    suite.make("moe-compile", *options, "--emit=plan", "-o", "plan.mlir", "--report=report.txt")
    heads = [(int(b), int(l)) for b, l in re.findall(r"plan\.batch = (\d+).*plan\.sequence = (\d+)", read(suite.path("plan.mlir")).decode())]
    suite.equal("plan: variants", heads, SHAPES)
    lowered = suite.make("moe-opt", "plan.mlir", "--convert-plan-to-llvm")
    suite.equal("plan: lowered", len(re.findall(r"llvm\.func @moeplan_v\d+_(?:rank|reference)\(", lowered)), 8)
    suite.equal("llvm", len(re.findall(r"^define i32 @moeplan_v\d+_(?:rank|reference)\(", suite.make("moe-compile", *options, "--emit=llvm"), re.M)), 8)
    heads = re.findall(r"^== batch (\d+), sequence (\d+), schedule baseline ==$", read(suite.path("report.txt")).decode(), re.M)
    suite.equal("report: tables", [(int(b), int(l)) for b, l in heads], SHAPES)
    suite.make("moe-compile", *options, "-o", "plan.so", "--report=report.json")
    report = json.loads(read(suite.path("report.json")))
    suite.equal("report: JSON", [(v["batch"], v["sequence"], v["schedule"], sorted(v["report"])) for v in report["variants"]],
                [(*shape, "baseline", ["prediction", "rank", "reference"]) for shape in SHAPES])


def refusals(suite):
    """Missing shapes, and places that accept only one shape, are refused."""
    suite.make("moe-compile", "config.json", PARALLEL, "--batch=1,3", "--seq=8,16", "-o", "plan.so")
    suite.make("moe-compile", "config.json", PARALLEL, "--seq=8", "-o", "alone.so")
    known = r"the plan was compiled for, 1 x 8, 1 x 16, 3 x 8, 3 x 16, but got "
    suite.refused("moe-run: no such batch", ["moe-run", "plan.so", "--batch=2"], known + "2 x 8")
    suite.refused("moe-run: no such sequence", ["moe-run", "plan.so", "--batch=3", "--seq=9"], known + "3 x 9")
    for option in ("--batch=1", "--seq=8"):
        suite.refused(f"moe-run: {option} with one shape", ["moe-run", "alone.so", option], r"this one has one shape")
    suite.refused("moe-run: a list", ["moe-run", "plan.so", "--batch=1,3"], r"--batch: expected a positive integer but got '1,3'")

    def compile_bad(name, options, pattern, file="config.json"):
        suite.refused("moe-compile: " + name, ["moe-compile", file, PARALLEL, *options, "-o", "bad.so"], pattern)

    for stage in ("l0", "spmd"):
        compile_bad(f"--emit={stage}", ["--batch=1,2", f"--emit={stage}"], r"expected one --batch and one --seq .* 2 shapes; plan, llvm, obj and so")
    compile_bad("twice", ["--seq=8,16,8"], r"'seq': expected each value once but got 8 twice")
    compile_bad("no number", ["--seq=8,x"], r"--seq .*'x'")
    compile_bad("nothing behind a comma", ["--seq=8,"], r"--seq .*''")
    compile_bad("no sequences", ["--seq=8,0"], r"'seq': expected an integer from 1 to \d+ but got 0")
    compile_bad("no memory for the second", ["--seq=8,4096", "--memory-limit=1000000"],
                r"at most 1000000 bytes per rank: the smallest of \d+ needs \d+ bytes(.|\n)*no plan for --batch=1 --seq=4096")
    suite.make("moe-import", "config.json", "--seq=8", "-o", "model.mlir")
    compile_bad("a graph", ["--batch=1,2"], r"--batch cannot be combined with", file="model.mlir")
    suite.refused("moe-import", ["moe-import", "config.json", "--batch=1,2", "--seq=8,16"], r"expected one value of each but got 4 shapes")
    suite.refused("moe-sim: a configuration", ["moe-sim", "config.json", "--seq=8,16"], r"expected one value of each but got 2 shapes")
    suite.make("moe-compile", "config.json", PARALLEL, "--seq=8,16", "--emit=plan", "-o", "plan.mlir")
    suite.refused("moe-sim: a plan", ["moe-sim", "plan.mlir"], r"expected a plan of one shape but got one of 2 variants")


def run_groups(description, groups, prepare):
    """Exit status of a suite's groups, run in a folder that `prepare` fills."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--bin", required=True, metavar="DIR", help="the folder of the tools")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="moeplan-")
    suite = Suite(options.bin, folder)
    try:
        prepare(suite)
        for group in groups:
            group(suite)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed else 0


def prepare(suite):
    with open(suite.path("config.json"), "w") as file:
        json.dump(CONFIG, file)


if __name__ == "__main__":
    sys.exit(run_groups(__doc__, (runs, chooses, searches, outputs, refusals), prepare))
