#!/usr/bin/python3
"""Runs a program as several processes on emulated GPUs, as a launcher would.

Usage: processes.py COUNT BACKENDS COMMAND..

Options before COUNT:
  --visible=a,b,..     CUDA_VISIBLE_DEVICES of each process; '/' stands for a comma inside one of them
  --fails=TEXT         all processes must fail, and process 0 must print TEXT
  --status=CODE        process 0 must end with CODE
  --prints=TEXT        all processes must succeed, and process 0 must print TEXT
  --kill=RANK,SECONDS  kills this process so long after the start
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time


def start(index, args, folder):
    environment = dict(os.environ, RANK=str(index), WORLD_SIZE=str(args.count), LOCAL_RANK=str(index),
                       LOCAL_WORLD_SIZE=str(args.count), OMPI_COMM_WORLD_RANK=str(index), MASTER_PORT=str(20000 + os.getpid() % 20000),
                       CUDA_EMULATION_DEVICES="8", MOERT_BACKENDS=args.backends,
                       NCCL_EMULATION_FOLDER=folder)
    if args.visible:
        environment["CUDA_VISIBLE_DEVICES"] = args.visible.split(",")[index].replace("/", ",")
    return subprocess.Popen(args.command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--visible")
    parser.add_argument("--fails")
    parser.add_argument("--prints", default="")
    parser.add_argument("--status", type=int)
    parser.add_argument("--kill")
    parser.add_argument("count", type=int)
    parser.add_argument("backends")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        processes = [start(i, args, folder) for i in range(args.count)]
        if args.kill:
            rank, seconds = args.kill.split(",")
            time.sleep(float(seconds))
            processes[int(rank)].kill()
        outputs = [process.communicate()[0] for process in processes]
    codes = [process.returncode for process in processes]
    if args.fails:
        fits = all(codes) and args.fails in outputs[0]
    else:
        fits = not any(codes) and args.prints in outputs[0]
    fits &= args.status in (None, codes[0])
    if not fits:
        for i, output in enumerate(outputs):
            print(f"--- process {i} ended with {codes[i]}:\n{output}", file=sys.stderr)
        wanted = f"failures, and '{args.fails}'" if args.fails else f"no failure, and '{args.prints}'"
        wanted += "" if args.status is None else f" and status {args.status}"
        print(f"error: expected {wanted} of process 0", file=sys.stderr)
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
