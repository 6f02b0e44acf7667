#!/usr/bin/python3
"""Tests bad input. No tool crashes or hangs. Each says what it expected, and exits with 2 (with 1 if a check failed)."""

import argparse
import json
import math
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import safetensors

TIMEOUT = 60
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

with open(os.path.join(ROOT, "lib/Compiler/Schedule.cpp")) as table:
    REWRITES = re.findall(r'makeLayer<LayerRewrite::\w+>\("([^"]+)"', table.read())

LAYER = """\
func.func @model(%x: tensor<16x8xf32> {moe.name = "x", moe.role = "input"},
                 %gate: tensor<8x4xf32> {moe.name = "layer0.gate", moe.role = "parameter"},
                 %bias: tensor<4xf32> {moe.name = "layer0.gate_bias", moe.role = "parameter"},
                 %w1: tensor<4x8x6xf32> {moe.name = "layer0.w1", moe.role = "parameter"},
                 %w2: tensor<4x6x8xf32> {moe.name = "layer0.w2", moe.role = "parameter"})
    -> (tensor<16x8xf32> {moe.name = "y", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"}) {
  %y, %aux = moe.layer "layer0" %x gate(%gate, %bias) experts(%w1, %w2) {ATTRIBUTES}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4x8x6xf32>, tensor<4x6x8xf32>)
      -> (tensor<16x8xf32>, tensor<f32>)
  return %y, %aux : tensor<16x8xf32>, tensor<f32>
}
"""
CAPACITY = "activation = #moe<activation relu>, capacity_factor = 2.0 : f64, top_k = 1 : i64"
GRAPH = LAYER.replace("ATTRIBUTES", CAPACITY)

CONFIG = {"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 64, "moe_intermediate_size": 32, "num_experts": 8,
          "num_experts_per_tok": 2, "norm_topk_prob": True, "hidden_act": "silu"}


class Suite:
    """Runs commands, prints one line for each case, counts."""

    def __init__(self, options, folder):
        self.tools, self.folder = os.path.abspath(options.bin), folder
        self.only = options.only
        self.passed = self.failed = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def tool(self, command, limit=None):
        """(status, stdout, stderr) of a command in the folder, with an address space of at most `limit` bytes."""
        set_limit = None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        command = [os.path.join(self.tools, command[0]), *command[1:]]
        try:
            done = subprocess.run(command, capture_output=True, cwd=self.folder, timeout=TIMEOUT, preexec_fn=set_limit,
                                  stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return "no end", "", ""
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def make(self, *command):
        status, _, stderr = self.tool(command)
        if status != 0:
            sys.exit(f"error: {' '.join(command)} exited with {status}\n{stderr}")

    def record(self, name, problem):
        if problem:
            self.failed += 1
            print(f"FAIL {name}: {problem}", flush=True)
        else:
            self.passed += 1
            print(f"ok   {name}", flush=True)

    def problem(self, command, patterns, status, limit=None):
        """None if the command exits with `status` and its stderr has each pattern (a regular expression). Otherwise the problem."""
        got, stdout, stderr = self.tool(command, limit)
        shown = f"\n  $ {' '.join(command)}\n  " + "\n  ".join((stdout[-500:] + stderr[:2000]).splitlines()[:20])
        if got not in (status if isinstance(status, tuple) else (status,)):
            return f"expected status {status} but got {got}{shown}"
        if "<unknown>" in stderr:
            return f"expected no unknown place in the message{shown}"
        # An error is a few lines; a dump of the program is not.
        if len(stderr) > 6000:
            return f"expected a message of at most 6000 characters but got {len(stderr)}{shown}"
        for pattern in patterns:
            if not re.search(pattern, stderr):
                return f"expected '{pattern}' in the message{shown}"
        return None

    def expect(self, name, command, *patterns, status=2, limit=None):
        if not self.only or self.only in name:
            self.record(name, self.problem(command, patterns, status, limit))

    def expect_each(self, name, commands, *patterns, status=2):
        """Checks one case of many commands, each a (description, command)."""
        if self.only and self.only not in name:
            return
        for what, command in commands:
            if problem := self.problem(command, patterns, status):
                return self.record(name, f"{what}: {problem}")
        self.record(name, None)


def cuts(size, count):
    """Lengths at which to truncate data of `size` bytes: its first bytes, its last ones, and some between."""
    edges = {0, 1, 2, 7, 8, 9, size - 1, size - 2, size // 2}
    return sorted({n for n in edges | {round(i * size / count) for i in range(count)} if 0 <= n < size})


def compile_graph(suite):
    """Invalid model graphs."""
    def bad(name, text, *patterns):
        file = suite.write("bad.mlir", text)
        suite.expect("graph: " + name, ["moe-compile", file, "-o", "bad.so"], *patterns)

    bad("syntax error", GRAPH.replace("gate(%gate, %bias)", "gate[%gate]"), r"bad\.mlir:7:\d+: error: .*expected '\('")
    bad("unknown op", GRAPH.replace("moe.layer", "moe.lyer"), r"bad\.mlir:7:\d+: error: .*'moe\.lyer' is unknown")
    bad("unknown dialect", GRAPH.replace("moe.layer", "mow.layer"), r"bad\.mlir:7:\d+: error: .*`mow' not found")
    bad("unknown value", GRAPH.replace("return %y", "return %z"), r"bad\.mlir:10:\d+: error: .*undeclared SSA value")
    bad("unknown activation", GRAPH.replace("relu", "tanh"), r"bad\.mlir:7:\d+: error: expected .*Activation to be one of: relu, gelu")
    bad("empty", "", r"exactly one function but got 0")
    bad("no function", "module {}\n", r"bad\.mlir:1:1: error: expected a model graph of exactly one function but got 0")
    bad("two functions", GRAPH + GRAPH.replace("@model", "@other"), r"exactly one function but got 2")
    bad("declaration", "func.func private @model(tensor<4x4xf32>)\n", r"expected a model graph of one block")
    bad("two blocks", "func.func @model(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {\n  return %x : tensor<4x4xf32>\n^bb1:\n"
        "  return %x : tensor<4x4xf32>\n}\n", r"bad\.mlir:\d+:\d+: error: expected a model graph of one block")
    bad("not an op of a model graph", """\
func.func @model(%x: tensor<4x4xf32> {moe.name = "x", moe.role = "input"}) -> tensor<4x4xf32> {
  %0 = moe.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
""", r"bad\.mlir:2:\d+: error: 'moe\.matmul' op expected an op of a model graph")
    bad("zero tokens", GRAPH.replace("16x8", "0x8"), r"bad\.mlir:7:\d+: error: .*expected at least one token")
    bad("no static shape", GRAPH.replace("16x8", "?x8"), r"bad\.mlir:7:\d+: error: .*2-D tensor of f32, f64, bf16 or f16")
    bad("shape of w1", GRAPH.replace("4x8x6", "4x7x6"),
        r"error: .*expected w1 to be 'tensor<4x8x6xf32>' but got 'tensor<4x7x6xf32>'")
    bad("shape of the gate", GRAPH.replace("tensor<8x4x", "tensor<8x5x"), r"error: .*expected .* but got")
    bad("element type", GRAPH.replace("f32", "i32"), r"error: .*must be 2-D tensor of f32, f64, bf16 or f16")
    bad("top_k over the experts", GRAPH.replace("top_k = 1", "top_k = 5"), r"error: .*expected .*top_k.* but got 5")
    bad("capacity factor", GRAPH.replace("factor = 2.0", "factor = -2.0"), r"error: .*expected .*capacity.* but got")
    bad("same name twice", GRAPH.replace("layer0.gate_bias", "layer0.gate"), r'moe\.name once but got "layer0\.gate"')
    bad("unknown role", GRAPH.replace('"parameter"', '"weight"'), r'in a model graph to be input or parameter or step but got "weight"')
    # 2^64 bytes and more, at which sizes in 64 bits would wrap around.
    huge = GRAPH.replace("16x8x", "4294967296x4294967296x").replace("<8x4x", "<4294967296x4x").replace(
        "4x8x6", "4x4294967296x6").replace("4x6x8", "4x6x4294967296")
    bad("too large to count", huge, r"error: expected tensors of at most \d+ bytes but got .*4294967296")
    bad("bytecode", b"ML\xefR\x06", r"bad\.mlir: error: expected MLIR text but got bytecode; moe-opt writes a file that you trust as text")
    for opening in ("(", "[", "tuple<", "{a = "):
        bad("deep nesting of " + opening, opening * 100000, r"bad\.mlir:1: error: expected brackets nested at most 256 deep")
    bad("binary", b"\x7fELF\x00\xff\xfe" + bytes(range(256)), r"bad\.mlir:1:1: error: ")
    suite.make("moe-compile", suite.write("graph.mlir", GRAPH), "--emit=plan", "-o", suite.path("stage.mlir"))
    suite.expect("plan: an option of models", ["moe-compile", "stage.mlir", "--schedule=s1", "-o", "bad.so"],
                 r"expected --schedule with a model only: 'stage\.mlir' is a plan, in which this is fixed")
    suite.expect("plan: as a rank program", ["moe-compile", "stage.mlir", "--emit=spmd"],
                 r"expected --emit=plan, llvm, obj or so with 'stage\.mlir', which is already a plan")
    suite.make("moe-compile", "graph.mlir", "--emit=spmd", "-o", suite.path("rank.mlir"))
    suite.expect("graph: the program of a rank in moe-sim", ["moe-sim", "rank.mlir"],
                 r"rank\.mlir:1:1: error: expected a model graph but got a rank program")
    with open(suite.path("rank.mlir")) as file:
        rank = file.read()
    commands = []
    for length in cuts(len(rank.rstrip()), 60):
        commands.append((f"{length} bytes", ["moe-compile", suite.write(f"rank{length}.mlir", rank[:length]), "-o", "bad.so"]))
    suite.expect_each("program of a rank: truncated", commands, r"error: ")

    def bad_rank(name, old, new, *patterns):
        suite.expect("program of a rank: " + name, ["moe-compile", suite.write("bad.mlir", rank.replace(old, new)), "-o", "bad.so"], *patterns)

    bad_rank("a declaration beside it", "func.func @rank", "func.func private @other()\n  func.func @rank",
             r"bad\.mlir:2:3: error: expected @rank and at most a @reference beside it but got @other")
    bad_rank("a model's op", "return", "%model = moe.linear %0, %0 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>\n    return", r"bad\.mlir:\d+:\d+: error: ")
    bad_rank("same name twice", "layer0.gate_bias", "layer0.gate", r'moe\.name once but got "layer0\.gate"')
    commands = []
    for length in cuts(len(GRAPH.rstrip()), 60):
        file = suite.write(f"cut{length}.mlir", GRAPH[:length])
        commands.append((f"{length} bytes", ["moe-compile", file, "-o", "bad.so"]))
    suite.expect_each("graph: truncated", commands, r"error: ")


def compile_options(suite):
    """Options of moe-compile, on a good graph."""
    suite.write("graph.mlir", GRAPH)

    def bad(name, arguments, *patterns, file="graph.mlir"):
        out = [] if any(a.startswith("-o") for a in arguments) else ["-o", "bad.so"]
        suite.expect("option: " + name, ["moe-compile", file, *arguments, *out], *patterns)

    like = r"expected --parallel to be like dp=4,mp=2,ep=4,esp=2 .* between 1 and 4096"
    for text in ("dp=0", "dp=-2", "tp=2", "dp", "dp=", "dp=two", "dp=4097", "=4", "dp=99999999999999999999", "dp=2;ep=2"):
        bad(f"--parallel={text}", [f"--parallel={text}"], like + f".* but got '{re.escape(text)}'")
    bad("--parallel twice", ["--parallel=dp=2,dp=2"], r"expected each group once .* 'dp' twice")
    bad("--parallel too large", ["--parallel=dp=4096,mp=4096"], r"world to be between 1 and 4096 but got 16777216")
    bad("--parallel, another world", ["--parallel=dp=3,ep=2"], r"expected pp \* ep \* esp = 2 to divide the world of 3")
    bad("--parallel, no chain", ["--parallel=dp=3,mp=2,ep=2,esp=3"], r"expected .*divi")
    bad("pp", ["--parallel=pp=64,dp=2"], r"expected at most \d+ stages, since the model has no more places for a cut, but got 64")
    bad("experts by ep", ["--parallel=dp=8,ep=8"], r"expected .*experts?|expected dimension 0 of 'layer0\.w1', 4, .* ep = 8")
    bad("columns by esp", ["--parallel=mp=4,esp=4"], r"expected dimension 2 of 'layer0\.w1', 6, .* divisible by esp = 4")
    bad("tokens by dp", ["--parallel=dp=32"], r"expected dimension 0 of 'x', 16, .* divisible by dp = 32")
    bad("--schedule", ["--schedule=foo"], r"expected --schedule to be made of .*baseline.* but got 'foo'")
    bad("--schedule, one of two", ["--schedule=baseline+foo"], r"expected --schedule .* but got 'baseline\+foo'")
    bad("--schedule, none", ["--schedule="], r"expected --schedule")
    for name in ("chunks", "mpipe-s0", "mpipe-s5", "mpipe", "s1:2", "mpipe-s1:2", "s1+", "+s1", "chunks2", "auto:chunks", "shadows",
                 "smart2", "topology-gate:1", "topology-gate:", "topology"):
        bad(f"--schedule={name}", [f"--schedule={name}"],
            rf"made of {', '.join(REWRITES)}, auto, saa, once:rank\|node\[,RANKS\], hier\[:RANKS\], chunks:N\|auto\[,RING\], mpipe-s1, mpipe-s2, mpipe-s3, mpipe-s4, mpipe-auto, "
            r"shadow\[:MAX,POLICY\], smart\[:RANKS,ORDER\], topology-gate, joined by '\+', "
            rf"but got '{re.escape(name)}'")
    for count in ("0", "65", "-1", "x", "", "2x", "1.5", "99999999999999999999", "2:4", "AUTO", "2,", "2,0", "2,65", "2,x", ",2", "auto,",
                  "2,2,2"):
        bad(f"--schedule=chunks:{count}", [f"--schedule=chunks:{count}"],
            rf"expected chunks:N or chunks:N,RING with N and RING from 1 to 64, or auto for N, in --schedule but got 'chunks:{re.escape(count)}'")
    for name, words, arguments in (("shadow", "algorithm1, prefix, simulate", ("0", "-1", "x", "1.5", "2,", ",prefix", "prefix,2", "2,ring", "2,prefix,3",
                                                                               "PREFIX", "99999999999999999999")),
                                   ("smart", "ring, topology", ("0", "-2", "y", "2 ", "ring,2", "2,prefix", "2,4", "2,ring,"))):
        for argument in arguments:
            bad(f"--schedule={name}:{argument}", [f"--schedule={name}:{argument}"],
                rf"expected a positive number, one of {words}, or both with a comma between, after '{name}:' in --schedule but got '{re.escape(argument)}'")
    for name in ("shadow", "smart", "smart:1+shadow:2,prefix", "s2+smart"):
        bad(f"--schedule={name} with a capacity", [f"--schedule={name}"],
            rf"graph\.mlir:7:\d+: error: .*expected a dropless layer \(--dropless\) for '{'shadow' if 'shadow' in name else 'smart'}': with a capacity")
    for one, other in (("mpipe-s1", "mpipe-s2"), ("mpipe-s4", "mpipe-auto"), ("chunks:2", "chunks:4"), ("chunks:auto", "chunks:2"),
                       ("s1", "s2"), ("s2", "ppmoe"), ("baseline", "parm-auto"), ("shadow", "shadow:2"), ("shadow:2", "shadow:2,prefix"), ("smart:2", "smart:4"),
                       ("smart:ring", "smart")):
        bad(f"--schedule={one}+{other}", [f"--schedule={one}+{other}"],
            rf"'{one}' and '{other}' are mutually exclusive in --schedule")
    for argument in ("", "x", "rank,2", "node,0", "node,x", "node,", "nodes"):
        bad(f"--schedule=once:{argument}", [f"--schedule=once:{argument}"],
            rf"expected once:rank, once:node, or once:node,RANKS with RANKS of at least 1, in --schedule but got 'once:{argument}'")
    for other in ("shadow", "smart:2", "mpipe-s1"):
        bad(f"--schedule=once:rank+{other}", [f"--schedule=once:rank+{other}"],
            rf"'once:rank' and '{other}' are mutually exclusive in --schedule: 'once:rank' changes exchanges that send a row for each choice")
    bad("--schedule=once:rank+chunks:4,2", ["--schedule=once:rank+chunks:4,2"],
        r"expected 'once:rank' with chunks:N without a ring in --schedule but got 'once:rank\+chunks:4,2'")
    for argument in ("", "1", "x", "2,2"):
        bad(f"--schedule=hier:{argument}", [f"--schedule=hier:{argument}"],
            rf"expected hier, or hier:RANKS with RANKS of at least 2, in --schedule but got 'hier:{argument}'")
    for schedule, one, other in (("s2+saa+hier", "hier", "saa"), ("hier+shadow", "hier", "shadow")):
        bad(f"--schedule={schedule}", [f"--schedule={schedule}"],
            rf"'{one}' and '{other}' are mutually exclusive in --schedule: '{one}' changes exchanges among all ranks")
    bad("--schedule=once:rank+hier", ["--schedule=once:rank+hier"], r"'once:rank' and 'hier' are mutually exclusive in --schedule")
    for name in ("saa", "s1+saa", "saa+chunks:2", "parm-auto+saa"):
        bad(f"--schedule={name}", [f"--schedule={name}"], rf"expected 'saa' with 's2' in --schedule, .* but got '{re.escape(name)}'")
    for name in ("auto+saa", "auto+chunks:2", "shadow+auto"):
        bad(f"--schedule={name}", [f"--schedule={name}"],
            r"'auto' cannot be combined with other parts in --schedule, since it chooses the whole schedule")
    for name in ("chunks:2", "chunks:auto", "shadow:2", "smart", "topology-gate", "mpipe-auto"):
        bad(f"--schedule=ppmoe+{name}", [f"--schedule=ppmoe+{name}"],
            rf"'{name}' and 'ppmoe' are mutually exclusive in --schedule: 'ppmoe' has no exchanges with the experts")
    bad("--schedule=ppmoe+saa", ["--schedule=ppmoe+saa"], r"expected 'saa' with 's2' in --schedule, .* but got 'ppmoe\+saa'")
    bad("--mode", ["--mode=foo"], r"expected --mode to be train or forward but got 'foo'")
    bad("--emit", ["--emit=foo"], r"--emit .*'foo'")
    bad("--memory-limit, negative", ["--memory-limit=-5"], r"--memory-limit .*expected bytes, as in .* but got '-5'")
    bad("--memory-limit, no integer", ["--memory-limit=1e9"], r"--memory-limit .*'1e9'")
    bad("--memory-limit, too small", ["--memory-limit=1000"], r"at most 1000 bytes per rank: the smallest of \d+ needs \d+ bytes, that of '\S+'",
        r"arena 'device': \d+ bytes", r"at most \d+ alive, at ")
    bad("unknown option", ["--foo"], r"[Uu]nknown command line argument '--foo'")
    bad("no output", ["-o", "-"], r"expected -o FILE")
    bad("output in no folder", ["-o", "no/such/plan.so"], r"cannot write 'no/such/plan\.so': No such file")
    bad("output is a folder", ["-o", suite.folder], r"cannot write '.*': Is a directory")
    bad("text output in no folder", ["--emit=spmd", "-o", "no/such/out.mlir"], r"cannot write 'no/such/out\.mlir'")
    bad("report in no folder", ["--report=no/such/report"], r"cannot write 'no/such/report'")
    for option in ("--seq=8", "--batch=2", "--layers=2", "--dropless", "--dtype=f64", "--capacity-factor=1", "--max-load=2"):
        name = option.split("=")[0]
        bad(f"{name} with a graph", [option], rf"{name} cannot be combined with 'graph\.mlir': it is a model graph, and no configuration")
    bad("missing graph", [], r"none\.mlir: error: cannot read the file: No such file", file="none.mlir")
    bad("missing configuration", [], r"'none': expected a file, a folder with a config.json or the name of .* switch-base-8", file="none")
    bad("a path that does not exist", [], r"'none/mixtral-8x7b\.json': expected a file", file="none/mixtral-8x7b.json")
    bad("a folder", [], r"dir\.mlir: error: expected a file but got a folder", file=make_folder(suite, "dir.mlir"))
    os.symlink("/dev/zero", suite.path("endless.mlir"))
    os.symlink("/dev/zero", suite.path("endless.json"))
    device = r"error: expected a file but got a device or a socket"
    bad("a device as graph", [], r"endless\.mlir: " + device, file="endless.mlir")
    bad("a device as configuration", [], r"endless\.json: " + device, file="endless.json")
    bad("a device as cluster", ["--cluster=" + suite.path("endless.json")], r"endless\.json: " + device)
    bad("--num-threads", ["--num-threads=1000000"], r"expected --num-threads to be at most 1024 but got 1000000")
    bad("--order in a pipeline", ["--parallel=pp=2", "--schedule=chunks:2", "--order=mpipemoe"],
        r"--order=mpipemoe cannot be combined with pp = 2: the launches of a stage stay in the order of --pipeline")
    for name, flags, why in (
            ("unknown", ["--pipeline=2f2b"], r"expected --pipeline to be 1f1b, 1f1b-overlap, zb-h1, zb-v, dualpipe-v or search but got '2f2b'"),
            ("without a pipeline", ["--pipeline=zb-h1"], r"--pipeline=zb-h1 needs a pipeline \(pp of at least 2 in --parallel\)"),
            ("with too many stages", ["--parallel=pp=2", "--pipeline=zb-h1", "--interleave=2", "--micro-batches=4"],
             r"expected 1 stage on each device for the pipeline order zb-h1 but got 2"),
            ("with too few micro-batches", ["--parallel=pp=2", "--pipeline=dualpipe-v", "--micro-batches=3"],
             r"expected at least 4 micro-batches for the pipeline order dualpipe-v on 2 devices but got 3"),
            ("without a backward", ["--parallel=pp=2", "--pipeline=zb-v", "--mode=forward"],
             r"expected a backward for the pipeline order zb-v; forwards alone are in the order 1f1b")):
        bad(f"--pipeline {name}", flags, why)
    for name in ("chunks:4,2", "chunks:2+mpipe-s1", "mpipe-s4"):
        bad(f"--recompute with {name}", ["--recompute", f"--schedule={name}"],
            r"--recompute and --schedule=.* are mutually exclusive: .*; use \+chunks:N without a ring and without \+mpipe, or leave out --recompute")
    suite.expect("option: nothing at all", ["moe-compile"], r"expected a model or --megatron-args")


def make_folder(suite, name):
    os.makedirs(suite.path(name), exist_ok=True)
    return name


def configurations(suite):
    """Invalid configurations of Hugging Face."""
    def bad(name, config, *patterns, options=()):
        file = suite.write("config.json", config if isinstance(config, (str, bytes)) else json.dumps(config, indent=1))
        suite.expect("config: " + name, ["moe-compile", file, *options, "-o", "bad.so"], *patterns)
        suite.expect("config, moe-import: " + name, ["moe-import", file, *options], *patterns)

    suite.make("moe-import", suite.write("config.json", json.dumps(CONFIG)), "--seq=8")
    without = lambda key: {k: v for k, v in CONFIG.items() if k != key}
    for schedule in ("shadow", "smart:1"):
        name = schedule.split(":")[0]
        suite.expect(f"config: {schedule} with --capacity-factor",
                     ["moe-compile", "config.json", "--seq=8", "--capacity-factor=1", f"--schedule={schedule}", "-o", "bad.so"],
                     rf"config\.json:1:\d+: error: .*expected a dropless layer \(--dropless\) for '{name}'")
    bad("--strict", {**CONFIG, "router_gain": 2}, r"config\.json:11:2: error: 'router_gain': expected a key that MoePlan knows of",
        options=["--strict"])
    bad("a default that does not fit", {**without("num_experts_per_tok"), "num_experts": 4},
        r"config\.json:1:1: error: 'num_experts_per_tok': expected .* but got 8, the default of a missing key")
    bad("no architecture", without("architectures"), r"'architectures': expected a name that docs/Models.md lists but the key is missing")
    bad("unknown architecture", {**CONFIG, "architectures": ["LlamaForCausalLM"]},
        r"config\.json:2:2: error: 'architectures': expected a model with experts, or --whole-model for one without, but got \[\"LlamaForCausalLM\"\]")
    bad("ill-typed integer", {**CONFIG, "num_experts": "eight"},
        r"config\.json:7:2: error: 'num_experts': expected an integer from 1 to \d+ but got \"eight\"")
    bad("ill-typed boolean", {**CONFIG, "norm_topk_prob": 3}, r"'norm_topk_prob': expected true or false but got 3")
    bad("ill-typed activation", {**CONFIG, "hidden_act": "tanh"}, r"'hidden_act': expected .*silu.* but got \"tanh\"")
    for number in ("0", "-1", "1.5", "1e300", "99999999999999999999999", "9223372036854775807"):
        bad(f"hidden_size {number}", json.dumps(CONFIG).replace("64", number), r"'hidden_size': expected an integer from 1")
    bad("more choices than experts", {**CONFIG, "num_experts_per_tok": 9}, r"'num_experts_per_tok': expected .* but got 9")
    bad("an array", "[1, 2]", r"config\.json:1:1: error: expected a JSON object but got \[1,2\]")
    bad("a number", "12", r"expected a JSON object but got 12")
    bad("empty", "", r"config\.json:1:1: error: expected JSON")
    bad("not UTF-8", b'{"architectures": ["\xff\xfe"]}', r"config\.json:1:\d+: error: expected JSON: Invalid UTF-8")
    bad("deep nesting", "[" * 1000000, r"expected JSON nested at most \d+ deep")
    bad("deep nesting in a key", '{"a": ' + '{"b": [' * 5000 + "]}" * 5000 + "}", r"expected JSON nested at most \d+ deep")
    text = json.dumps(CONFIG, indent=1)
    commands = [(f"{n} bytes", ["moe-import", suite.write(f"cut{n}.json", text[:n])]) for n in cuts(len(text), 60)]
    suite.expect_each("config: truncated", commands, r"\.json:\d+:\d+: error: expected JSON")
    for option, pattern in (("--seq=0", "'seq': expected an integer from 1"), ("--batch=-1", "'batch': expected an integer"),
                            ("--layers=0", "'layers': expected an integer"), ("--seq=99999999999", "'seq': expected"),
                            ("--capacity-factor=0", "'capacity-factor': expected a number greater than 0"),
                            ("--capacity-factor=nan", "'capacity-factor': expected a number"),
                            ("--max-load=-1", r"'max-load': expected a number from 1 to 1.0E\+06 but got -1.0E\+00"),
                            ("--max-load=1e300", r"'max-load': expected a number from 1 to 1.0E\+06 but got 1.0E\+300"),
                            ("--capacity-factor=1e300", r"'capacity-factor': expected a number greater than 0 and at most 1.0E\+06"), ("--seq=x", "--seq .*'x'"),
                            ("--dtype=f8", "'f8'")):
        bad(option, CONFIG, pattern, options=[option])
    bad("both token forms", CONFIG, r"'capacity-factor' and 'dropless': expected one of them but got both",
        options=["--capacity-factor=1", "--dropless"])
    suite.expect("config: no such output", ["moe-import", suite.write("config.json", text), "-o", "no/such/file"],
                 r"'no/such/file': No such file")


def plans(suite):
    """Invalid plans, and options of moe-run."""
    suite.make("moe-compile", suite.write("graph.mlir", GRAPH), "--parallel=dp=2,ep=2", "-o", suite.path("plan.so"))
    with open(suite.path("plan.so"), "rb") as file:
        plan = file.read()
    suite.make("moe-run", suite.path("plan.so"), "--verify", "--workers=1")

    def bad(name, file, *patterns, status=2):
        suite.expect("plan: " + name, ["moe-run", file], *patterns, status=status)

    match = re.search(rb'"abi": ?(\d)', plan)
    if not match:
        sys.exit("error: expected '\"abi\":1' in the plan")
    other = plan[: match.start(1)] + b"1" + plan[match.end(1) :]
    bad("another ABI", suite.write("abi.so", other), r"abi\.so': .*(abi|version).*1")
    bad("no metadata", suite.write("json.so", plan.replace(b'"moeplan"', b'"moeplam"')), r"json\.so': .*moeplan")
    bad("metadata that are no JSON", suite.write("json.so", plan.replace(b'"moeplan"', b'xmoeplan"')), r"json\.so': .*")
    libc = next((path for path in ("/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6")
                 if os.path.exists(path)), None)
    if libc:
        bad("the C library", libc, r"is not a plan: it does not export 'moeplan_metadata'")
    bad("text", suite.write("text.so", "not a plan\n"), r"cannot load plan")
    bad("empty file", suite.write("empty.so", ""), r"cannot load plan")
    bad("missing", "none.so", r"cannot load plan: .*none\.so.*No such file")
    bad("a folder", make_folder(suite, "folder.so"), r"cannot load plan: .*Is a directory")
    # Only a linker reads the bytes after the parts of the program headers.
    used = max(struct.unpack_from("<Q", plan, offset + 8)[0] + struct.unpack_from("<Q", plan, offset + 32)[0]
               for offset in (struct.unpack_from("<Q", plan, 32)[0] + 56 * i
                              for i in range(struct.unpack_from("<H", plan, 56)[0])))
    commands = [(f"{n} bytes", ["moe-run", suite.write(f"cut{n}.so", plan[:n])]) for n in cuts(used, 40)]
    suite.expect_each("plan: truncated", commands, r"cannot load plan: ")

    def option(name, *patterns):
        suite.expect("moe-run: " + name, ["moe-run", "plan.so", name], *patterns)

    for value in ("0", "-1", "x", "1e3", "99999999999999999999"):
        for name in ("--iters", "--seq"):
            option(f"{name}={value}", rf"{name}: expected a positive integer but got '{re.escape(value)}'")
    option("--workers=5000", r"--workers: expected an integer from 1 to 4096 but got '5000'")
    for value in ("-1", "x", "1.5", "99999999999999999999"):
        option(f"--seed={value}", r"--seed: expected an integer that is not negative but got")
    for value in ("0", "-1", "nan", "inf", "x", "1e400"):
        option(f"--timeout={value}", r"--timeout: expected a positive number of seconds but got")
    option("--backend=foo", r"unknown backend 'foo', expected caller, host, mpi, cuda or cuda-loopback")
    option("--iters", r"--iters: expected a value")
    option("--verify=1", r"--verify: expected no value or one of f64, exact and gradients but got '1'")
    exact = ["moe-run", "plan.so", "--verify=exact"]
    suite.expect("moe-run: exact on a GPU", [*exact, "--backend=cuda-loopback"],
                 r"--verify=exact runs on backend host, but the backend is 'cuda-loopback'")
    suite.expect("moe-run: exact saves", [*exact, "--save=x.safetensors"], r"--verify=exact computes with random elements of a field")
    option("--foo", r"unknown option '--foo'; moe-run --help lists the options")
    option("other.so", r"unexpected argument 'other\.so'")
    suite.expect("moe-run: --reference --verify", ["moe-run", "plan.so", "--reference", "--verify"], r"--reference and --verify are mutually exclusive")
    suite.expect("moe-run: nothing at all", ["moe-run"], r"expected a plan: moe-run PLAN\.so")
    option("--save=no/such/file", r"'no/such/file': cannot be written")
    option("--trace=no/such/file", r"'no/such/file': cannot be written")
    option("--load=none", r"'none': cannot be opened for reading")


def tensors(suite):
    """safetensors files for --load."""
    suite.make("moe-compile", suite.write("graph.mlir", GRAPH), "-o", suite.path("plan.so"))

    def bad(name, content, *patterns, status=2, options=()):
        if isinstance(content, dict):
            safetensors.save(suite.path("in.safetensors"), content, "f32")
        else:
            suite.write("in.safetensors", content)
        suite.expect("tensors: " + name, ["moe-run", "plan.so", "--load=in.safetensors", "--allow-missing", *options], *patterns, status=status)

    def raw(header, data=b"", length=None):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + data

    def one(dtype, shape, offsets, data):
        return raw({"layer0.gate": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}, data)

    bad("wrong shape", {"layer0.gate": np.zeros((4, 8))},
        r"'layer0\.gate': expected F32 \[8, 4\] but got F32 \[4, 8\]")
    bad("wrong dtype", one("F64", [8, 4], [0, 256], bytes(256)), r"expected F32 \[8, 4\] but got F64 \[8, 4\]")
    bad("unknown dtype", one("F8", [8, 4], [0, 32], bytes(32)), r"unknown dtype \"F8\", expected one of F32")
    bad("unknown name", {"layer0.gats": np.zeros((8, 4))},
        r"no argument 'layer0\.gats'; its arguments are .*'layer0\.gate'")
    bad("text", "this is no safetensors file at all\n", r"the header says it has \d+ bytes, expected at most")
    bad("header too long", raw(b"{}", length=1 << 62), r"the header says it has \d+ bytes, expected at most 100000000")
    bad("header behind the end", raw(b"{}", length=1000), r"1000 bytes, but only 2 follow: the file is truncated")
    bad("header no JSON", raw(b"{..}"), r"the header is not JSON")
    bad("header not UTF-8", raw(b'{"\xff": 1}'), r"the header is not JSON")
    bad("header an array", raw([1]), r"expected the header to be an object but got array")
    bad("header nested deep", raw(b"[" * 100000), r"header")
    bad("a tensor that is no object", raw({"layer0.gate": 3}), r"'layer0\.gate': expected an object but got number")
    bad("no shape", raw({"layer0.gate": {"dtype": "F32", "data_offsets": [0, 0]}}), r"missing 'shape'")
    bad("negative size", one("F32", [-8, 4], [0, 128], bytes(128)), r"expected an integer that is not negative but got -8")
    bad("size that overflows", one("F32", [1 << 62, 8], [0, 128], bytes(128)), r"the shape is too large")
    bad("offsets outside", one("F32", [8, 4], [0, 128], bytes(127)), r"lie outside the 127 bytes")
    bad("offsets the wrong way", one("F32", [8, 4], [128, 0], bytes(128)), r"data_offsets \[128,0\] lie outside")
    bad("bytes of another shape", one("F32", [8, 4], [0, 64], bytes(64)), r"expected 128 bytes for F32 \[8, 4\]")
    bad("bytes behind", one("F32", [8, 4], [0, 128], bytes(130)), r"expected 128 bytes of data but the file has 130")
    bad("a name twice", raw(b'{"a": {}, "a": {}}'), r"names \"a\" twice")
    for value in (math.nan, math.inf, -math.inf):
        gate = np.zeros((8, 4))
        gate[2, 3] = value
        bad(f"{value}", {"layer0.gate": gate}, r"'layer0\.gate' of .* holds (NaN|Inf) at \[2, 3\]; with --allow-nan such values are taken")
        bad(f"{value} under --verify", {"layer0.gate": gate}, r"argument 'layer0\.gate' holds (NaN|Inf) at \[2, 3\]", status=1,
            options=["--verify", "--allow-nan"])
    safetensors.save(suite.path("good.safetensors"), {"layer0.gate": np.zeros((8, 4)), "x": np.zeros((16, 8))}, "f32")
    suite.expect("tensors: a parameter is missing", ["moe-run", "plan.so", "--load=good.safetensors"],
                 r"lacks 3: 'layer0\.gate_bias', 'layer0\.w1', 'layer0\.w2'; with --allow-missing")
    suite.make("moe-run", suite.path("plan.so"), "--allow-missing", "--load=" + suite.path("good.safetensors"))
    with open(suite.path("good.safetensors"), "rb") as file:
        good = file.read()
    commands = [(f"{n} bytes", ["moe-run", "plan.so", "--load=" + suite.write(f"cut{n}.safetensors", good[:n])])
                for n in cuts(len(good), 30)]
    suite.expect_each("tensors: truncated", commands, r"cut\d+\.safetensors': ")


def memory(suite):
    """Plans that do not fit into memory."""
    sanitized = re.search(rb"__[at]san_init", open(os.path.join(suite.tools, "moe-run"), "rb").read())
    large = GRAPH.replace("16x8x", "524288x16384x").replace("<8x4x", "<16384x4x").replace("4x8x6", "4x16384x65536").replace(
        "4x6x8", "4x65536x16384")
    suite.make("moe-compile", suite.write("large.mlir", large), "--parallel=dp=64,ep=4", "-o", suite.path("large.so"))
    refusal = r"64 ranks.* arena of \d+ bytes.*(TiB|bytes)"
    suite.expect("memory: terabytes", ["moe-run", "large.so"], refusal)
    suite.expect("memory: terabytes, --verify", ["moe-run", "large.so", "--verify", "--timeout=5"], refusal)
    if sanitized:
        return  # The shadow memory of a sanitizer exceeds any limit.
    # This plan needs about 1 GB.
    middle = GRAPH.replace("16x8x", "2048x1024x").replace("<8x4x", "<1024x4x").replace("4x8x6", "4x1024x8192").replace(
        "4x6x8", "4x8192x1024")
    suite.make("moe-compile", suite.write("middle.mlir", middle), "-o", suite.path("middle.so"))
    for limit in (200, 400, 600, 800):
        suite.expect(f"memory: {limit} MB of address space", ["moe-run", "middle.so"], r"needs \d+ bytes .* of which this machine has .* available",
                     limit=limit << 20)


def simulations(suite):
    """Options and inputs of moe-sim, and clusters."""
    suite.write("graph.mlir", GRAPH)
    with open(os.path.join(ROOT, "test", "Simulator", "Inputs", "toy.json")) as file:
        toy = file.read()
    suite.write("toy.json", toy)

    def bad(name, arguments, *patterns, cluster="toy.json"):
        suite.expect("moe-sim: " + name, ["moe-sim", "graph.mlir", "--parallel=dp=2", f"--cluster={cluster}", *arguments], *patterns)

    bad("no such cluster", [], r"'none': expected a file or the name of one of the shared clusters, which are .*hgx-h100", cluster="none")
    suite.expect("moe-compile: no such cluster", ["moe-compile", "graph.mlir", "--cluster=none", "-o", "bad.so"],
                 r"'none': expected a file or the name of one of the shared clusters")
    bad("too few devices", ["--parallel=dp=8"], r"cluster 'toy' has 4 devices, but the plan is for 8 ranks")
    bad("no fit and no links", [], r"cluster 'toy' has neither links nor a fit for 'all_reduce' of dtype 'f32' among 2 members",
        cluster=write_cluster(suite, "fitless.json", toy, lambda c: c.pop("links")))
    bad("--network", ["--network=wires"], r"--network.*'wires'")
    bad("link-level without links", ["--network=link-level"], r"cluster 'toy' has no links, which the link-level form needs",
        cluster="fitless.json")
    for text in ("0", "0:", ":2", "0:-1", "0:0", "0:nan", "0:inf", "0:fast"):
        bad(f"--straggler={text}", [f"--straggler={text}"], r"expected --straggler to end in ':' and a positive factor but got")
    for text in ("2:2", "-1:2", "one:2"):
        bad(f"--straggler={text}", [f"--straggler={text}"], r"expected --straggler to name a rank below 2 but got")
    bad("--link-fault, one end", ["--link-fault=node0/device0:0.5"], r"expected --link-fault=FROM,TO:FACTOR with a factor of at most 1")
    bad("--link-fault, faster", ["--link-fault=node0/device0,node0/switch:2"], r"expected --link-fault=.*at most 1")
    bad("--link-fault, no such link", ["--link-fault=node0/device0,node0/device1:0.5"], r"link 'node0/device0' to 'node0/device1': expected one of the links")
    bad("two routings", ["--routing=r.jsonl", "--synthetic-routing"], r"--routing and --synthetic-routing are mutually exclusive")
    bad("--iteration without routing", ["--iteration=3"], r"--iteration needs --routing or --synthetic-routing")
    bad("--write-routing without one", ["--write-routing=r.jsonl"], r"--write-routing needs --synthetic-routing")
    for text in ("speed=1", "preset=even", "seed=x", "iterations=0", "skew=-1", "skew=nan", "seed"):
        bad(f"--synthetic-routing={text}", [f"--synthetic-routing={text}"], re.escape(text.split("=")[0]))
    bad("missing routing", ["--routing=none.jsonl"], r"none\.jsonl")
    bad("missing trace", ["--compare=none.json"], r"none\.json")
    bad("a trace that is none", ["--compare=toy.json"], r"toy\.json")
    for option in ("--html", "--trace"):
        bad(f"{option} in no folder", [f"{option}=no/such/file"], r"cannot write 'no/such/file'")
    routing(suite)
    clusters(suite, toy)


def write_cluster(suite, name, toy, change):
    cluster = json.loads(toy)
    change(cluster)
    suite.write(name, json.dumps(cluster, indent=1))
    return name


def routing(suite):
    """Routing traces that are invalid, or of another plan: 2 ranks with 8 tokens each, 4 experts, top 1."""
    suite.write("dropless.mlir", LAYER.replace("ATTRIBUTES", CAPACITY.replace("capacity_factor = 2.0 : f64, ", "")))
    good = '{"iteration": 0, "layer": 0, "counts": [[2, 2, 2, 2], [8, 0, 0, 0]]}\n'

    def run(text, *options):
        suite.write("routing.jsonl", text)
        return ["moe-sim", "dropless.mlir", "--parallel=dp=2", "--cluster=toy.json", "--routing=routing.jsonl", *options]

    suite.expect("routing: good", run(good), status=0)
    for name, text, *patterns in (
            ("empty", "", r"routing\.jsonl"),
            ("no JSON", "counts\n", r"routing\.jsonl:1"),
            ("second line", good + "{\n", r"routing\.jsonl:2"),
            ("no counts", '{"iteration": 0, "layer": 0}\n', r"routing\.jsonl:1.*counts"),
            ("negative", good.replace("8, 0", "9, -1"), r"routing\.jsonl:1"),
            ("ragged", good.replace("[8, 0, 0, 0]", "[8, 0, 0]"), r"routing\.jsonl:1"),
            ("too large", good.replace("8, 0", "99999999999, 0"), r"routing\.jsonl:1"),
            ("ranks", good.replace(", [8, 0, 0, 0]", ""), r"expected counts of 2 ranks but got 1"),
            ("experts", good.replace("2, 2, 2, 2", "4, 4").replace("8, 0, 0, 0", "8, 0"), r"expected counts of 4 experts but got 2"),
            ("sums", good.replace("8, 0", "7, 0"), r"counts of rank 1 to add up to 8 but got 7"),
            ("layers", good.replace('"layer": 0', '"layer": 1'), r"layer"),
            ("twice", good + good, r"routing\.jsonl:2")):
        suite.expect("routing: " + name, run(text), *patterns)
    suite.expect("routing: iteration", run(good, "--iteration=5"), r"iteration")
    suite.expect_each("routing: truncated", [(f"{n} bytes", [*run(good)[:4], f"--routing={suite.write(f'cut{n}.jsonl', good[:n])}"])
                                             for n in cuts(len(good.rstrip()), 20)], r"cut\d+\.jsonl")


def clusters(suite, toy):
    """Invalid profiles. test/Unit/ClusterProfileTest.cpp has all messages of the schema."""
    def bad(name, change, *patterns):
        suite.expect("cluster: " + name, ["moe-sim", "graph.mlir", "--parallel=dp=2",
                                          f"--cluster={write_cluster(suite, 'bad.json', toy, change)}"], *patterns)

    bad("unknown key", lambda c: c.update(nodez=2), r"bad\.json:\d+:\d+: error: .*'nodez'")
    bad("no source", lambda c: c["device"].pop("source"), r"bad\.json:\d+:\d+: error: .*'device\.source'")
    bad("type", lambda c: c["device"]["rates"][0].update(flop_per_s="fast"), r"bad\.json:\d+:\d+: error: .*'device\.rates\[0\]\.flop_per_s'")
    bad("link", lambda c: c["links"][0].update({"from": "device7"}), r"bad\.json:\d+:\d+: error: .*'links\[0\]\.from'")
    suite.expect_each("cluster: truncated", [(f"{n} bytes", ["moe-sim", "graph.mlir", f"--cluster={suite.write(f'cut{n}.json', toy[:n])}"])
                                             for n in cuts(len(toy.rstrip()), 40)], r"cut\d+\.json:\d+:\d+: error: ")


GROUPS = [compile_graph, compile_options, configurations, plans, tensors, memory, simulations]


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--bin", required=True, metavar="DIR", help="the folder of the tools")
    parser.add_argument("--only", metavar="TEXT", help="only the cases whose name contains TEXT")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="moeplan-")
    suite = Suite(options, folder)
    try:
        for group in GROUPS:
            group(suite)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not suite.passed + suite.failed:
        print("error: no case is selected", file=sys.stderr)
        return 2
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
