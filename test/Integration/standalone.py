#!/usr/bin/env python3
"""The standalone program needs few libraries, and none newer than glibc 2.34. It has each registry of MLIR and LLVM once, so that it
answers as the program with shared libraries does.

Usage: standalone.py --bin TOOLS
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

NEEDED = re.compile(r"(libc|libm|libmvec|libgcc_s|libstdc\+\+|ld-linux-[\w-]+)\.so\.\d+$")
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}
QUESTIONS = [
    ["plan", "qwen3-30b-a3b", "8", "hgx-h100", "--layers=2", "--global-batch=16", "--parallel=auto,pp=1,mp=1", "--vary=zero", "--emit=torchtitan"],
    ["compile", "switch-base-8", "--seq=16", "--parallel=dp=2,ep=2", "--emit=plan"],
    ["compile", "switch-base-8", "--seq=16", "--parallel=dp=2,ep=2", "--emit=llvm"],
    ["compile", "switch-base-8", "--seq=16", "--parallel=dp=2,ep=2", "-o", "plan.so"],
    ["compile", "--help-hidden"],
    ["sim", "switch-base-8", "--seq=512", "--parallel=dp=2,ep=2", "--cluster=hgx-h100", "--json"],
    ["import", "mixtral-8x7b"],
    ["opt", "--show-dialects"],
    ["opt", "--list-passes"],
    ["plan", "mixtral-8x7b", "64", "hgx-h101"],
]


def check(name, good, output=""):
    print(f"{'ok  ' if good else 'FAIL'} {name}" + ("" if good else f": {output}"))
    return bool(good)


def read_elf(path, option, pattern):
    return re.findall(pattern, subprocess.run(["objdump", option, path], stdout=subprocess.PIPE, text=True, check=True).stdout)


def find_new_symbols(path):
    """Versioned symbols that older systems lack."""
    found = []
    for name, number, symbol in read_elf(path, "-T", r"\*UND\*.*\((GLIBC|GLIBCXX|CXXABI)_([\d.]+)\) +(\S+)"):
        if tuple(map(int, number.split("."))) > NEWEST[name]:
            found.append(f"{symbol}@{name}_{number}")
    return found


def ask(program, question):
    """Exit status, what is printed with the program's path removed, and the plan that is written."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, *question], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        plan = os.path.join(folder, "plan.so")
        written = open(plan, "rb").read() if os.path.exists(plan) else b""
    return done.returncode, re.sub(rb"moeplan(-standalone)?\b", b"moeplan", done.stdout), written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="the folder of the tools")
    options = parser.parse_args()
    shared, standalone = (os.path.abspath(os.path.join(options.bin, name)) for name in ("moeplan", "moeplan-standalone"))
    others = [name for name in read_elf(standalone, "-p", r"NEEDED +(\S+)") if not NEEDED.match(name)]
    good = check("needs few libraries", not others, others)
    new = find_new_symbols(standalone)
    good &= check("loads with older libraries", not new, new)
    for question in QUESTIONS:
        one, other = ask(shared, question), ask(standalone, question)
        good &= check(f"same answer: {' '.join(question)}", one == other and len(one[1]) + len(one[2]) > 40, (one[:2], other[:2]))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
