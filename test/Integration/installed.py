#!/usr/bin/python3
"""Programs that are installed find the shared models and clusters, the runtime and its backends beside them.

Usage: installed.py --build DIR [--cmake FILE]
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

# A program, its arguments, and a part of its output. PREFIX is the folder of the installation.
COMMANDS = [
    (["moe-import", "switch-base-8", "--batch=1", "--seq=32", "-o", "switch.mlir"], ""),
    (["moe-compile", "switch.mlir", "--parallel=dp=2,ep=2", "-o", "switch.so"], ""),
    (["moe-run", "switch.so", "--verify"], r"verif"),
    (["moe-sim", "switch.mlir", "--parallel=dp=2,ep=2", "--cluster=hgx-h100"], r"hgx-h100"),
    (["moe-plan", "--help"], r"moe-plan"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="the folder of the build")
    parser.add_argument("--cmake", default="cmake", help="cmake")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="moeplan-") as folder:
        prefix = os.path.join(folder, "prefix")
        for component in ("runtime", "compiler"):
            subprocess.run([options.cmake, "--install", options.build, "--prefix", prefix, "--component", component],
                           check=True, stdout=subprocess.DEVNULL)
        # The error for an unknown name lists the shared names, from the installed folder alone.
        os.rename(os.path.join(prefix, "share/moeplan/models/switch-base-8.json"),
                  os.path.join(prefix, "share/moeplan/models/of-this-prefix.json"))
        COMMANDS[0][0][1] = "of-this-prefix"
        for (program, *arguments), expected in COMMANDS:
            done = subprocess.run([os.path.join(prefix, "bin", program), *arguments], cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, encoding="utf-8")
            good = done.returncode == 0 and re.search(expected, done.stdout)
            failed += not good
            print(f"{'ok  ' if good else 'FAIL'} {program} {' '.join(arguments)}" + ("" if good else f": {done.returncode}: {done.stdout}"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
