#!/usr/bin/env python3
"""Checks the examples in the op descriptions: each ```mlir block with a function parses, verifies and round-trips, and index rules of
its ops have their operands, results and dimensions.

Usage: td_examples.py MOE_OPT INCLUDE_DIR. Also fails for an op that no example of its file shows. Exit status 1 on failure.
"""
import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"```mlir\n(.*?)```", re.S)
OP = re.compile(r'^def (Moe|Plan)_\w+Op\s*:\s*\w+<"(\w+)"', re.M)


def get_examples(text):
    """Examples of a td file, each with its first line."""
    for match in BLOCK.finditer(text):
        if "func.func" in match.group(1):
            yield text.count("\n", 0, match.start(1)) + 1, match.group(1)


def main():
    tool, include = sys.argv[1], pathlib.Path(sys.argv[2])
    examples = ops = failures = 0
    for path in sorted(include.rglob("*Ops.td")):
        text = path.read_text()
        found = list(get_examples(text))
        for line, example in found:
            run = subprocess.run([tool, "--verify-roundtrip", "-"], input=example, capture_output=True, text=True)
            examples += 1
            if run.returncode != 0:
                failures += 1
                print(f"{path}:{line}: example fails\n{run.stderr}")
            # The example is no program of ranks, but its rules are checked before that error.
            run = subprocess.run([tool, "--moe-verify-spmd", "-"], input=example, capture_output=True, text=True)
            if "expected an index rule" in run.stderr:
                failures += 1
                print(f"{path}:{line}: {run.stderr}")
        for dialect, mnemonic in OP.findall(text):
            ops += 1
            if not any(re.search(rf"\b{dialect.lower()}\.{mnemonic}\b", example) for _, example in found):
                failures += 1
                print(f"{path}: expected an example of {dialect.lower()}.{mnemonic}")
    print(f"{examples} examples of {ops} ops, {failures} failures")
    return 1 if failures or not examples else 0


if __name__ == "__main__":
    sys.exit(main())
