#!/usr/bin/env python3
"""Simulates DeepSeek-V3 and Qwen3-235B with and without buckets, stages of ZeRO and context parallelism.

Usage: large_runs.py --bin DIR [--only=PART]

Each table has the same model and tokens in all rows, and one option that changes; with divided sequences, dp and the number of micro-batches
change too. PART is buckets, zero or context. GB is the memory of the fullest H100, which has 79.1 GB for plans. Exit status 1 if a claim fails.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

LIMIT = 79.1
V3 = ("deepseek-v3", "--parallel=pp=16,dp=32,mp=2,ep=32", "--micro-batches=32", "--interleave=2", "--recompute=block",
      "--sequence-parallel", "--schedule=s1")
QWEN = ("qwen3-235b-a22b", "--parallel=pp=8,dp=16,mp=2,ep=32", "--micro-batches=16", "--interleave=4", "--recompute=block",
        "--sequence-parallel", "--schedule=s1")
# One stage. Each parameter of the model is on each rank, or is divided.
QWEN_FLAT = ("qwen3-235b-a22b", "--parallel=pp=1,dp=128,mp=2,ep=32", "--micro-batches=2", "--recompute=block", "--sequence-parallel",
             "--schedule=s1")


def long_sequences(model, parallel, micro_batches, *more):
    return (model, parallel, "--seq=32768", f"--micro-batches={micro_batches}", "--recompute=block", "--sequence-parallel", "--schedule=s1", *more)


PARTS = {
    "buckets": [
        ("DeepSeek-V3, 1024 H100", V3, [("an exchange for each parameter", "--bucket-bytes=0"), ("buckets of 25 MB", "--bucket-bytes=25MB"),
                                        ("buckets, auto", "--bucket-bytes=auto")]),
        ("Qwen3-235B-A22B, 256 H100", QWEN, [("an exchange for each parameter", "--bucket-bytes=0"),
                                             ("buckets of 25 MB", "--bucket-bytes=25MB"), ("buckets, auto", "--bucket-bytes=auto")]),
    ],
    "zero": [
        ("DeepSeek-V3, 1024 H100", V3, [(f"ZeRO-{stage}", f"--zero={stage}") for stage in range(4)]),
        ("Qwen3-235B-A22B, 256 H100", QWEN, [(f"ZeRO-{stage}", f"--zero={stage}") for stage in range(4)]),
        ("Qwen3-235B-A22B in one stage, 256 H100", QWEN_FLAT,
         [(f"ZeRO-{stage}", f"--zero={stage}") for stage in range(4)] + [("ZeRO-3 in blocks of 64 ranks", "--zero=3", "--zero-ranks=64")]),
    ],
    "context": [
        ("DeepSeek-V3, sequences of 32,768, 1024 H100", (), [
            ("whole sequences", *long_sequences("deepseek-v3", "--parallel=pp=16,dp=32,mp=2,ep=32", 4)),
            ("cp=4, gathered keys", *long_sequences("deepseek-v3", "--parallel=pp=16,dp=8,cp=4,mp=2,ep=32", 16))]),
        ("Qwen3-235B-A22B, sequences of 32,768, 256 H100", (), [
            ("whole sequences", *long_sequences("qwen3-235b-a22b", "--parallel=pp=8,dp=16,mp=2,ep=32", 4)),
            ("cp=4, gathered keys", *long_sequences("qwen3-235b-a22b", "--parallel=pp=8,dp=4,cp=4,mp=2,ep=32", 16)),
            ("cp=4, ring", *long_sequences("qwen3-235b-a22b", "--parallel=pp=8,dp=4,cp=4,mp=2,ep=32", 16, "--ring-attention"))]),
    ],
}


def simulate(tool, flags):
    command = [tool, "--whole-model", "--dtype=bf16", "--optimizer=adam", "--cluster=hgx-h100", "--memory-limit=0", "--json", *flags]
    for default in ("--seq=4096", "--zero=1"):
        if not any(flag.split("=")[0] == default.split("=")[0] for flag in flags):
            command.append(default)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def count_launches(result, *kinds):
    """Number of exchanges of an average rank over groups of data-parallel ranks."""
    # Parts of a group have its name and their size.
    names = re.compile(rf"({'|'.join(kinds)}) \[(dp|edp|dp_cp)(_\d+)?\]")
    return round(sum(kernel["launches"] for kernel in result["kernels"] if names.fullmatch(kernel["kernel"])))


def print_table(tool, title, common, rows):
    """Prints a table. Returns [(GB, seconds)]."""
    print(f"\n{title}: {' '.join(common) if common else ' '.join(rows[0][1:])}\n")
    print(f"{'':34}{'ms':>9}{'tokens/s':>10}{'exposed':>9}{'GB':>7}{'sums':>6}{'gathers':>9}")
    measured = []
    for name, *flags in rows:
        # The model's name is among the flags if rows have different groups.
        result = simulate(tool, [*common, *flags])
        mean, seconds = result["mean"], result["step_s"]
        bytes_ = result["memory"]["peak_bytes"]
        measured.append((bytes_ / 1e9, seconds))
        print(f"{name:34}{seconds * 1e3:9.0f}{result['speed']['tokens_per_s']:10.0f}"
              f"{mean['exposed_communication_s'] / seconds:9.1%}{bytes_ / 1e9:7.1f}"
              f"{count_launches(result, 'all_reduce', 'reduce_scatter'):6}{count_launches(result, 'all_gather'):9}"
              + ("" if bytes_ / 1e9 <= LIMIT else "  does not fit"), flush=True)
    return measured


def claim(is_so, text):
    print(f"{'ok' if is_so else 'FAIL':6}{text}")
    return is_so


def check(part, tables):
    def all_of(holds):
        return all(holds(rows) for rows in tables)

    if part == "buckets":
        return claim(all_of(lambda rows: rows[-1][1] <= 1.005 * min(seconds for _, seconds in rows)), "no other size of buckets is more than 0.5% faster than auto")
    if part == "zero":
        return claim(all_of(lambda rows: all(after[0] <= before[0] for before, after in zip(rows[:4], rows[1:4]))),
                     "each stage of ZeRO needs no more memory than the one before it")
    return claim(all_of(lambda rows: all(row[0] < rows[0][0] for row in rows[1:])), "divided sequences need less memory")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--only", choices=PARTS, help="this part alone")
    options = parser.parse_args()
    tool = str(pathlib.Path(options.bin) / "moe-sim")
    good = True
    for part in [options.only] if options.only else PARTS:
        good &= check(part, [print_table(tool, title, common, rows) for title, common, rows in PARTS[part]])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
