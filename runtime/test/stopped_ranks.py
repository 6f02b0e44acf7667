#!/usr/bin/env python3
"""Stops one rank of a job under mpirun at a random moment, again and again.

Each trial runs moe-run on four processes (training with a log and checkpoints, or --verify), and sends SIGSTOP to a random rank at a
random time after all have started. All ranks must end within the time-out and two seconds, with an error that names the stopped one.
mpirun must then end, too, with an exit status other than 0. Each trial prints a line. The exit status is 1 if a trial failed.

If a rank is stopped inside MPI_Init, mpirun of Open MPI 4.1 may not end although no rank is left: PMIx waits for itself in
PMIx_server_finalize. Such trials are counted separately, and must pass all other checks.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RANKS = 4
ALLOWANCE = 2.0  # seconds beyond the time-out
MPIRUN = 10.0  # seconds in which mpirun ends when no rank is left


def processes_of(token):
    """{rank: pid} of the processes whose command line has `token`, mpirun left out."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                arguments = file.read().decode(errors="replace").split("\0")
            if not any(token in a for a in arguments) or not arguments[0].endswith("moe-run"):
                continue
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read().decode(errors="replace")
        except OSError:
            continue
        rank = re.search(r"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)\0", environment)
        if rank:
            found[int(rank.group(1))] = int(pid)
    return found


def command_of(mode, plan, folder, timeout):
    command = [f"--timeout={timeout:g}", "--backend=mpi", "--workers=1"]
    if mode == "train":
        data = os.path.join(folder, "data.txt")
        with open(data, "w") as file:
            file.write("some text of which the bytes are the tokens. " * 50)
        return [plan, "--train", f"--data={data}", "--steps=1000000", "--checkpoint-every=5",
                f"--checkpoint={folder}/c.safetensors", f"--log={folder}/log.jsonl"] + command
    return [plan, "--verify", "--iters=%d" % random.choice([200, 2000, 20000])] + command


def start(arguments, mode, folder):
    plan = os.path.join(folder, "plan.so")
    os.symlink(os.path.join(arguments.plans, {"train": "train-stages.so", "verify": "small.so"}[mode]), plan)
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       ASAN_OPTIONS="detect_leaks=0")
    error = open(os.path.join(folder, "err"), "w+")
    job = subprocess.Popen(
        [arguments.mpirun, "--quiet", "--oversubscribe", "-n", str(RANKS), arguments.moe_run] +
        command_of(mode, plan, folder, arguments.timeout),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=error, env=environment, start_new_session=True)
    return job, plan, error


def wait_for_ranks(job, plan):
    deadline = time.time() + 60
    while time.time() < deadline and job.poll() is None:
        found = processes_of(plan)
        if len(found) == RANKS:
            return found
        time.sleep(0.01)
    return {}


def wait_for_end(plan, limit):
    """Seconds until no rank is left, and whether that was within `limit`."""
    began = time.time()
    while processes_of(plan):
        if time.time() - began > limit:
            return time.time() - began, False
        time.sleep(0.02)
    return time.time() - began, True


def is_in_finalize(mpirun):
    """Whether mpirun waits for its own thread, as in PMIx_server_finalize. No other process can end that wait."""
    with open(f"/proc/{mpirun}/wchan") as file:
        return file.read().startswith("futex")


def trial(arguments, mode, folder):
    """The error or "", the seconds from the stop to the end of all ranks, and whether mpirun ended. None if the job ended before the
    stop."""
    job, plan, error = start(arguments, mode, folder)
    try:
        found = wait_for_ranks(job, plan)
        if not found:
            return None
        delay = random.uniform(0, arguments.within)
        time.sleep(delay)
        rank = random.randrange(RANKS)
        if job.poll() is not None:
            return None
        os.kill(found[rank], signal.SIGSTOP)
        seconds, ended = wait_for_end(plan, arguments.timeout + ALLOWANCE + arguments.slack)
        try:
            status = job.wait(timeout=MPIRUN)
        except subprocess.TimeoutExpired:
            status = None
        error.seek(0)
        text = error.read()
        what = f"{mode}, rank {rank} (process {found[rank]}) stopped after {delay:.2f} s: "
        if not ended:
            return what + f"processes {sorted(processes_of(plan).values())} are left after {seconds:.1f} s\n{text}", seconds, True
        if not re.search(rf"\brank {rank} \(process {found[rank]}\b|for rank {rank}, which did not connect"
                         rf"|does not reach rank {rank}\b|rank {rank} did not let", text):
            return what + f"the rank is not named\n{text}", seconds, True
        if status == 0 or (status is None and not is_in_finalize(job.pid)):
            return what + f"mpirun {'does not end' if status is None else 'exits with 0'}\n{text}", seconds, True
        return "", seconds, status is not None
    except ProcessLookupError:
        return None
    finally:
        for pid in processes_of(plan).values():
            os.kill(pid, signal.SIGKILL)
        if job.poll() is None:
            job.kill()
        job.wait()
        error.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moe-run", required=True)
    parser.add_argument("--plans", required=True, help="folder of the hand-written plans")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=2.0, help="seconds of --timeout")
    parser.add_argument("--within", type=float, default=2.0, help="seconds in which the stop comes")
    parser.add_argument("--slack", type=float, default=0.0, help="seconds more that a busy machine may take")
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    arguments.moe_run, arguments.plans = os.path.abspath(arguments.moe_run), os.path.abspath(arguments.plans)
    random.seed(arguments.seed)
    failures, times, returned = [], [], 0
    while len(times) < arguments.trials:
        folder = tempfile.mkdtemp(prefix="stopped-ranks-")
        try:
            outcome = trial(arguments, "train" if len(times) % 2 == 0 else "verify", folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if outcome is None:
            continue
        failures += [outcome[0]] if outcome[0] else []
        times.append(outcome[1])
        returned += outcome[2]
    for failure in failures:
        print("FAIL " + failure)
    print(f"{len(times) - len(failures)} of {len(times)} trials ended as they should; the longest took "
          f"{max(times):.2f} s after the stop, with a time-out of {arguments.timeout:g} s; mpirun itself ended in {returned}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
