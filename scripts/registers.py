#!/usr/bin/env python3
"""Compiles the kernels of a build for its compute capability, and prints a Markdown table of their registers and spills.

Usage: registers.py BUILD[=NAME].. [--logs=FOLDER] [--only=PATTERN]

BUILD is a build folder of the runtime that names one compute capability:

  cmake -S runtime -B BUILD -DCMAKE_CUDA_ARCHITECTURES=90a-real -DCMAKE_EXPORT_COMPILE_COMMANDS=ON

The folder needs no other build step. Each .cu file is compiled as its build would, but to device code alone, with ptxas's report. A file
takes up to several minutes. Its report is kept in --logs (default: BUILD/registers), and a file whose report is there is not compiled
again. Each folder is a column of the table, headed by NAME.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\w+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
# CMake puts the compute capability into the names of CUTLASS's files.
CAPABILITY = re.compile(r"(?<=RaggedCutlass)\d+")


def fail(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(2)


def list_units(build):
    """Returns the .cu files that nvcc compiles, with their commands: [(name, folder, command)]."""
    path = os.path.join(build, "compile_commands.json")
    if not os.path.exists(path):
        fail(f"'{build}' has no compile_commands.json: configure it with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    with open(path, encoding="utf-8") as file:
        entries = json.load(file)
    units = []
    for entry in entries:
        words = shlex.split(entry["command"])
        if entry["file"].endswith(".cu") and any(word.endswith("nvcc") for word in words[:2]):
            units.append((os.path.basename(entry["file"])[:-3], entry["directory"], words))
    if not units:
        fail(f"'{build}' has no .cu files: was it configured with nvcc?")
    return units


def compile_unit(folder, words, log):
    words = ["-cubin" if word == "-c" else word for word in words]
    words[words.index("-o") + 1] = os.devnull
    done = subprocess.run([*words, "-Xptxas=-v"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        fail(f"nvcc failed:\n{done.stdout[-4000:]}")
    with open(log + ".part", "w", encoding="utf-8") as file:
        file.write(done.stdout)
    os.replace(log + ".part", log)


def read_log(log):
    """Returns registers and spilled bytes of each kernel: {name: (registers, bytes)}."""
    kernels, entry, spilled = {}, None, 0
    with open(log, encoding="utf-8") as file:
        for line in file:
            if match := ENTRY.search(line):
                entry = match[1]
            elif match := SPILLS.search(line):
                spilled = max(int(match[2]), int(match[3]))
            elif (match := REGISTERS.search(line)) and entry:
                kernels[entry] = (int(match[1]), spilled)
                entry = None
    return kernels


def describe(kernels):
    """Describes the kernels of one file: the least and the most registers, and how many kernels spill up to how many bytes."""
    if not kernels:
        return ["-", "-"]
    registers = [count for count, _ in kernels.values()]
    spills = [count for _, count in kernels.values() if count > 0]
    least, most = min(registers), max(registers)
    return [str(most) if least == most else f"{least} to {most}", f"{len(spills)}, up to {max(spills)} bytes" if spills else "none"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("builds", nargs="+", metavar="BUILD[=NAME]", help="build folder of the runtime, and the head of its column")
    parser.add_argument("--logs", metavar="FOLDER", help="where ptxas's reports are kept (default: registers in each build folder)")
    parser.add_argument("--only", default="", metavar="PATTERN", help="compiles only files whose names match this regular expression")
    options = parser.parse_args()
    heads, columns = [], []
    for text in options.builds:
        build, _, name = text.partition("=")
        heads.append(name or os.path.basename(os.path.normpath(build)))
        logs = os.path.join(options.logs, heads[-1]) if options.logs else os.path.join(build, "registers")
        os.makedirs(logs, exist_ok=True)
        column = {}
        for unit, folder, words in list_units(build):
            log = os.path.join(logs, unit + ".txt")
            if not re.search(options.only, unit):
                continue
            if not os.path.exists(log):
                print(f"{heads[-1]}: {unit}", file=sys.stderr, flush=True)
                compile_unit(folder, words, log)
            column[CAPABILITY.sub("", unit)] = read_log(log)
        columns.append(column)
    print("| file | kernels | " + " | ".join(f"{head}: registers | kernels that spill" for head in heads) + " |")
    print("| --- | --- |" + " --- | --- |" * len(heads))
    for unit in sorted(set().union(*columns)):
        known = [column.get(unit, {}) for column in columns]
        cells = [cell for kernels in known for cell in describe(kernels)]
        print(f"| {unit} | {max(map(len, known))} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
