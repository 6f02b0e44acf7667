#!/usr/bin/python3
"""Checks that all C++ sources are as clang-format 19 writes them. Usage: check_format.py SOURCE_DIR"""

import os
import shutil
import subprocess
import sys

FOLDERS = ("include", "lib", "tools", "runtime", "benchmarks", "test", "python")


def main():
    root = sys.argv[1]
    formatter = shutil.which("clang-format-19") or "/usr/lib/llvm-19/bin/clang-format"
    files = [os.path.join(folder, name) for top in FOLDERS for folder, _, names in os.walk(os.path.join(root, top))
             for name in names if name.endswith((".cpp", ".h", ".cu", ".cuh"))]
    if not files:
        print(f"error: no sources under {root}", file=sys.stderr)
        return 2
    try:
        return subprocess.run([formatter, "--dry-run", "-Werror", *sorted(files)], stdin=subprocess.DEVNULL).returncode
    except OSError as error:
        print(f"error: {formatter}: {error}; expected clang-format-19", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
