#!/usr/bin/python3
"""Runs kept cases again, on another backend or machine. Plans need no compiler there.

Usage: equivalence.py --bin BIN --schedule=s1 --keep=DIR   where moe-compile is; then, with the tools that `runtime/` alone builds,
       replay.py DIR --bin BIN --backend=cuda-loopback     where the devices are.

Only calls that moe-run verified run again. A case passes if each such call exits with 0. The script needs NumPy.
"""

import os
import shlex
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness


def find_cases(root):
    """(name, (folder, command lines)) of every folder below `root` that has some, in the order of their names."""
    for folder, subfolders, files in os.walk(root):
        subfolders.sort()
        if "runs" in files:
            with open(os.path.join(folder, "runs"), encoding="utf-8") as file:
                name, *runs = file.read().splitlines()
            yield name, (os.path.abspath(folder), runs)


def check(tools, case):
    folder, runs = case
    for run in runs:
        words = [word for word in shlex.split(run) if not word.startswith("--backend=")]
        tools.call([], "moe-run", *(in_folder(folder, word) for word in words))
    return f"{len(runs)} runs"


def in_folder(folder, word):
    """A plan, or an option whose value is a file of the case, with its whole path."""
    option, equals, value = word.rpartition("=")
    return option + equals + os.path.join(folder, value) if os.path.exists(os.path.join(folder, value)) else word


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("root", metavar="DIR", help="what --keep was given")
    options = parser.parse_args()
    tools = harness.Tools(options.bin, options.backend)
    options.keep = None
    return harness.run_cases(list(find_cases(options.root)), lambda case, folder, log: check(tools, case), options)


if __name__ == "__main__":
    sys.exit(main())
