#!/usr/bin/python3
"""Tests mutated inputs. No tool crashes, hangs or shows its internals. Each exits with 0, or with 1 or 2 and a message.

An input depends on (--seed, its number). It is a file of the tests or of share/ that a tool reads. Some of its numbers, words, lines, JSON
values or bytes are changed. Inputs are configurations of models, clusters, routing traces, MLIR of both dialects, and safetensors.
"""

import collections
import copy
import glob
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
from functools import partial

import draws

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
SECONDS = 60
MOST_WRITTEN = 64 << 20  # bytes of a file. A longer message ends its command by SIGXFSZ
# Texts that no user should see.
INSIDE = re.compile(r"Assertion|Stack dump|LLVM ERROR|UNREACHABLE|terminate called|PLEASE submit|AddressSanitizer|runtime error:|bad_alloc")
# Errors of MLIR 19's parser, in mlir-opt as in moe-opt. It frees values of a program that defines one twice while it still reads them, and
# reserves memory for all results below a number such as %0#2147483648.
PARSER = re.compile(r"error: redefinition of SSA value|out of memory[\s\S]*MLIR Parser: custom op parser")
NUMBERS = ["0", "-1", "1", "2", "3", "7", "64", "4096", "2147483647", "2147483648", "4294967296", "9223372036854775807", "-9223372036854775808",
           "18446744073709551616", "1e308", "1e-320", "-0.0", "0.5", "1e999", "nan", "inf"]
VALUES = [None, True, False, 0, 1, -1, 3, 1 << 31, 1 << 53, (1 << 63) - 1, -(1 << 63), 0.5, 1e308, 1e-308, "", "x", "silu", "\u0000", [], [1], [[]], {}, {"a": 1}]
PASSES = ("--canonicalize", "--cse", "--moe-partition", "--moe-differentiate", "--moe-verify-spmd", "--moe-pause-mp", "--moe-chunk-experts=chunks=2",
          "--convert-moe-to-plan", "--plan-assign-streams", "--plan-assign-memory", "--plan-verify", "--convert-plan-to-llvm", "--moe-print-cost")


def change_value(rng, root):
    """Changes one value of JSON: replaces, removes or adds it."""
    places, todo = [], [root]
    while todo:
        node = todo.pop()
        keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            places.append((node, key))
            todo.append(node[key])
    if not places:
        return
    node, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.15:
        del node[key]
    elif kind < 0.3:
        other, other_key = rng.choice(places)
        node[key] = json.loads(json.dumps(other[other_key])) if other_key in other or isinstance(other, list) and other_key < len(other) else 0
    elif kind < 0.45 and isinstance(node[key], (int, float)):
        node[key] = node[key] * rng.choice((2, 3, -1, 0.5, 1000003))
    else:
        node[key] = copy.deepcopy(rng.choice(VALUES))


def change_json(rng, content):
    try:
        root = json.loads(content)
    except ValueError:
        return change_text(rng, content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        change_value(rng, root)
    return json.dumps(root, indent=1).encode()


def change_text(rng, content):
    """Changes numbers, words and lines."""
    text = content.decode(errors="replace")
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.random()
        tokens = list(re.finditer(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?" if kind < 0.4 else r"[A-Za-z_][\w.]*" if kind < 0.7 else r"[^\n]*\n", text))
        if not tokens:
            continue
        token = rng.choice(tokens)
        if kind < 0.4:
            new = rng.choice(NUMBERS)
        else:
            new = rng.choice(("", token.group() * 2, rng.choice(tokens).group()))
        text = text[: token.start()] + new + text[token.end() :]
    return text.encode(errors="replace")


def change_bytes(rng, content):
    data = bytearray(content)
    for _ in range(rng.choice((1, 2, 8))):
        at = rng.randrange(len(data) + 1)
        kind = rng.random()
        if kind < 0.4 and data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        elif kind < 0.6:
            del data[at : at + rng.choice((1, 8, 200))]
        elif kind < 0.8:
            data[at:at] = rng.choice((b"\0", b"{", b"[" * 20, b"\xff\xfe", b'"', b"9" * 30))
        else:
            del data[at:]
    return bytes(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Kinds:
    """Kinds of mutated inputs, and the commands that read them."""

    def __init__(self, folder, tools):
        files = lambda pattern: sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True))
        self.configs = [read(path) for path in files("test/Integration/models/*.json") + files("test/Integration/configs/*.json") + files("share/models/*.json")]
        self.clusters = [read(path) for path in files("share/clusters/*.json") + files("test/Simulator/Inputs/*.json")]
        self.traces = [b'{"iteration": 0, "layer": 0, "counts": [[2, 2, 2, 2, 2, 2, 2, 2], [16, 0, 0, 0, 0, 0, 0, 0]]}\n']
        chunks = []
        for path in files("test/Dialect/**/*.mlir") + files("test/Conversion/**/*.mlir"):
            chunks += [chunk for chunk in read(path).split(b"// -----\n") if len(chunk) < 20000]
        self.programs = chunks
        self.plan = os.path.join(folder, "plan.so")
        subprocess.run([os.path.join(tools, "moe-compile"), os.path.join(HERE, "models", "mixtral.json"), "--mode=forward", "--batch=1", "--seq=4",
                        "-o", self.plan], check=True, capture_output=True)
        tensors = os.path.join(folder, "in.safetensors")
        subprocess.run([os.path.join(tools, "moe-run"), self.plan, f"--save={tensors}"], check=True, capture_output=True)
        self.tensors = [read(tensors)]
        self.model = os.path.join(HERE, "models", "mixtral.json")

    def draw(self, rng, path):
        """(content, command that reads `path`) of a random input."""
        kind = rng.choice(("config",) * 4 + ("program",) * 4 + ("cluster",) * 2 + ("trace", "tensors"))
        change = rng.choices((change_json if kind in ("config", "cluster", "trace") else change_text, change_text, change_bytes), (6, 2, 2))[0]
        if kind == "program":
            # One process reads several programs, one by one.
            pieces = [(change_text if rng.random() < 0.9 else change_bytes)(rng, rng.choice(self.programs)) for _ in range(10)]
            return b"\n// -----\n".join(pieces), ["moe-opt", "--split-input-file", path, *rng.sample(PASSES, rng.choice((0, 1, 1, 2)))], len(pieces)
        content = change(rng, rng.choice({"config": self.configs, "cluster": self.clusters, "trace": self.traces, "tensors": self.tensors}[kind]))
        if kind == "config":
            whole = ["--whole-model", "--layers=2"] if rng.random() < 0.7 else []
            return content, ["moe-import", path, *whole, "--seq=8"], 1
        if kind == "tensors":
            return content, ["moe-run", self.plan, f"--load={path}", "--allow-missing"], 1
        simulate = ["moe-sim", self.model, "--dropless", "--batch=1", "--seq=8", "--parallel=dp=2,ep=2"]
        if kind == "trace":
            return content, [*simulate, "--cluster=hgx-h100", f"--routing={path}"], 1
        return content, [*simulate, f"--cluster={path}"], 1


def limit(gigabytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN,) * 2)
    if gigabytes:
        resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30,) * 2)


def try_one(tools, kinds, folder, gigabytes, seed, number):
    """(problem or None, tool, inputs) of a case."""
    rng = random.Random(f"{seed} {number}")
    path = os.path.join(folder, f"{number}.input")
    content, command, inputs = kinds.draw(rng, path)
    with open(path, "wb") as file:
        file.write(content)
    wrong = None
    try:
        with tempfile.TemporaryFile() as errors:
            done = subprocess.run([os.path.join(tools, command[0]), *command[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=errors, timeout=SECONDS, preexec_fn=partial(limit, gigabytes))
            errors.seek(0)
            stderr = errors.read().decode(errors="replace")
        if (done.returncode < 0 or INSIDE.search(stderr)) and PARSER.search(stderr):
            command[0] = "MLIR's parser, which has the fault"
        elif done.returncode not in (0, 1, 2):
            wrong = f"exit status {done.returncode}\n{stderr[:1500]}"
        elif INSIDE.search(stderr):
            wrong = f"shows its inside\n{stderr[:1500]}"
        elif done.returncode and not stderr.strip():
            wrong = f"exit status {done.returncode} without a message"
    except subprocess.TimeoutExpired:
        wrong = f"did not end in {SECONDS} s"
    if not wrong:
        os.remove(path)
    return wrong and f"input {number} ({path}): {' '.join(command)}\n    " + "\n    ".join(wrong.splitlines()), command[0], inputs


def main():
    parser = draws.parser(__doc__, "commands", count=300)
    parser.add_argument("--gigabytes", type=int, default=6, help="address space of a command (default 6); 0: no limit, which sanitizers need")
    parser.add_argument("--keep", metavar="DIR", help="folder for the inputs that failed; without it they are removed")
    options = parser.parse_args()
    tools = os.path.abspath(options.bin)
    failures, inputs = 0, collections.Counter()
    with tempfile.TemporaryDirectory(prefix="moeplan-") as temporary:
        folder = options.keep or temporary
        os.makedirs(folder, exist_ok=True)
        kinds = Kinds(temporary, tools)
        for number, (wrong, tool, count) in draws.outcomes(options, partial(try_one, tools, kinds, folder, options.gigabytes, options.seed)):
            inputs[tool] += count
            if wrong:
                failures += 1
                print(f"FAIL {wrong}", flush=True)
            if (number + 1) % 500 == 0:
                print(f"{sum(inputs.values())} inputs, {failures} failures", flush=True)
    print(f"{sum(inputs.values())} inputs ({', '.join(f'{count} of {tool}' for tool, count in sorted(inputs.items()))}), {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
