#!/usr/bin/env python3
"""Runs kept cases again, on another backend or machine. Plans need no compiler there.

Usage: equivalence.py --bin BIN --schedule=s1 --keep=DIR   where moe-compile is; then, with the tools that `runtime/` alone builds,
       replay.py DIR --bin BIN --backend=cuda-loopback     where the devices are.

Only calls that moe-run verified run again. A case passes if each such call exits with 0. Where a case has a file `expected`, it is also
trained, and the losses of all its steps are compared with those in the file. The script needs nothing but Python.

With --processes each rank is a process of backend `cuda`, and all share one GPU, which shows what NCCL itself does. NCCL takes processes
with different names of their machines (NCCL_HOSTID) for processes of several machines, and refuses no GPU then.
"""
import argparse
import concurrent.futures
import json
import math
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple


class Case(NamedTuple):
    name: str
    folder: str
    runs: list  # command lines
    expected: dict  # expected losses of training, or empty


class CaseFailed(Exception):
    pass


def find_cases(root):
    """All folders below `root` with cases, ordered by name."""
    cases = []
    for folder, subfolders, files in os.walk(root):
        subfolders.sort()
        if "runs" not in files:
            continue
        with open(os.path.join(folder, "runs"), encoding="utf-8") as file:
            name, *runs = file.read().splitlines()
        expected = {}
        if "expected" in files:
            with open(os.path.join(folder, "expected"), encoding="utf-8") as file:
                expected = json.load(file)
        cases.append(Case(name, os.path.abspath(folder), runs, expected))
    return cases


def count_ranks(name):
    world, stages = re.search(r"\bworld (\d+)", name), re.search(r"\bpp (\d+)x", name)
    return int(world[1]) * int(stages[1] if stages else 1) if world else None


def runs_on(options, name):
    """Whether a case runs on the backend. `cuda` has a rank in each process, and a process without a launcher has one rank."""
    ranks = count_ranks(name)
    return options.backend != "cuda" or ranks is not None and (ranks > 1) == options.processes


def in_folder(folder, word):
    """A plan, or an option whose value is a file of the case, with its whole path."""
    option, equals, value = word.rpartition("=")
    path = os.path.join(folder, value)
    return option + equals + path if value and os.path.exists(path) else word


def call(options, case, words):
    """Standard output and error of moe-run, those of the first process if there are several."""
    words = [in_folder(case.folder, word) for word in words if not word.startswith("--backend=")]
    command = [*options.wrap, os.path.join(options.bin, "moe-run"), *words, "--backend=" + options.backend]
    try:
        outputs = run_processes(command, count_ranks(case.name), options.timeout) if options.processes else run_alone(command, options.timeout)
    except subprocess.TimeoutExpired:
        raise CaseFailed(f"timed out after {options.timeout:g} s: {shlex.join(command)}") from None
    except OSError as error:
        raise CaseFailed(f"{command[0]}: {error}") from None
    for number, (status, stdout, stderr) in enumerate(outputs):
        if status:
            tail = "\n".join((stdout[-2000:] + stderr[-3000:]).splitlines()[-30:])
            raise CaseFailed(f"exit status {status} of process {number}: {shlex.join(command)}\n{tail}")
    return outputs[0][1:]


def run_alone(command, timeout):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=timeout)
    return [(done.returncode, done.stdout, done.stderr)]


def get_shared_environment(rank, ranks, port, folder):
    """Environment of a rank that shares the first GPU with the others. NCCL's transports between machines need no other hardware."""
    return {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "CUDA_VISIBLE_DEVICES": "0", "MOERT_TEST_SHARE_GPU": "1",
            "NCCL_HOSTID": f"rank{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
            "NCCL_EMULATION_FOLDER": folder}


def find_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def run_processes(command, ranks, timeout):
    """Exit status, standard output and error of each rank."""
    port, processes = find_port(), []
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        try:
            for rank in range(ranks):
                processes.append(subprocess.Popen(command, env=get_shared_environment(rank, ranks, port, folder), stdout=subprocess.PIPE,
                                                  stderr=subprocess.PIPE, text=True, errors="replace"))
            end, outputs = time.monotonic() + timeout, []
            for process in processes:
                stdout, stderr = process.communicate(timeout=max(end - time.monotonic(), 0.1))
                outputs.append((process.returncode, stdout, stderr))
            return outputs
        finally:
            for process in processes:
                process.kill()
                process.communicate()


def get_error(got, want):
    """Relative error, infinite if there is no number."""
    if not isinstance(got, (int, float)) or not math.isfinite(got):
        return math.inf
    return abs(got - want) / max(abs(want), 1e-30)


def check_training(options, case):
    """Largest relative error of the printed losses."""
    stdout, stderr = call(options, case, case.expected["run"])
    got, want, worst = parse_object(stdout).get("steps", []), case.expected["steps"], 0.0
    if len(got) != len(want):
        raise CaseFailed(f"expected {len(want)} steps but got {len(got)}")
    for step, figures in enumerate(want):
        for key, value in figures.items():
            error = get_error(got[step].get(key), value)
            worst = max(worst, error)
            if error > case.expected["tolerance"]:
                raise CaseFailed(f"step {step}: expected {key} {value:.9g} but got {got[step].get(key)}: an error of {error:.1e}, "
                                 f"with {case.expected['tolerance']:g} allowed")
    return worst, stderr


def parse_object(text):
    """The JSON object that moe-run printed. A tool around it may print lines before and after."""
    begin, end = text.find("{\n"), text.rfind("\n}")
    try:
        return json.loads(text[begin:end + 2])
    except ValueError as error:
        raise CaseFailed(f"expected a JSON object but got {text[:300]!r}: {error}") from None


def check(options, case):
    """Record of the case."""
    begin, record = time.monotonic(), {"case": case.name, "ok": True}
    try:
        notes = []
        for run in case.runs:
            stdout, stderr = call(options, case, shlex.split(run))
            notes += stderr.splitlines()
            if "--json" in shlex.split(run):
                verify = parse_object(stdout)["verify"]
                record.update(worst=verify["max_relative_error"], dtype=verify["dtype"])
        if case.expected:
            record["worst_of_training"], stderr = check_training(options, case)
            notes += stderr.splitlines()
        if notes:
            record["notes"] = sorted(set(notes))[:5]
    except CaseFailed as error:
        record.update(ok=False, error=str(error))
    return {**record, "seconds": round(time.monotonic() - begin, 3)}


def print_record(record):
    if record["ok"]:
        errors = [f"{record[key]:.1e}" for key in ("worst", "worst_of_training") if record.get(key) is not None]
        print(f"ok   {record['case']}" + (f": largest error {', in training '.join(errors)}" if errors else ""), flush=True)
    else:
        print(f"FAIL {record['case']}\n  " + record["error"].replace("\n", "\n  "), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("root", metavar="DIR", help="the folder of --keep")
    parser.add_argument("--bin", required=True, metavar="DIR", help="the folder of moe-run")
    parser.add_argument("--backend", default="host", metavar="NAME", help="backend that runs the plans; cuda has only cases of one rank (default host)")
    parser.add_argument("--processes", action="store_true", help="with --backend=cuda: run the cases of several ranks, as processes that share one GPU")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time (default 2)")
    parser.add_argument("--only", metavar="PATTERN", help="only the cases whose name matches this regular expression")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for each call (default 300)")
    parser.add_argument("--wrap", type=shlex.split, default=[], metavar="COMMAND", help="begin each call with this, such as compute-sanitizer")
    parser.add_argument("--json", metavar="FILE", help="also write one JSON object for each case to FILE, one in a line")
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    if options.processes and options.backend != "cuda":
        parser.error(f"--processes: expected --backend=cuda but got '{options.backend}', whose ranks are in one process or need MPI")
    cases = [case for case in find_cases(options.root)
             if runs_on(options, case.name) and (not options.only or re.search(options.only, case.name))]
    if not cases:
        print(f"error: '{options.root}' has no selected case", file=sys.stderr)
        return 2
    records = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(check, options, case) for case in cases]):
            records.append(future.result())
            print_record(records[-1])
            if options.json:
                with open(options.json, "a", encoding="utf-8") as file:
                    file.write(json.dumps(records[-1]) + "\n")
    failed = sum(not record["ok"] for record in records)
    print(f"{len(records) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
