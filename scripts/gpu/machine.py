#!/usr/bin/env python3
"""Prints a JSON object that describes this machine: versions, topology and clocks. Missing entries are null."""
import json
import os
import platform
import shutil
import subprocess

GPU = "name,driver_version,vbios_version,memory.total,pci.bus_id,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit,temperature.gpu,mig.mode.current,ecc.mode.current"
COMMANDS = {
    "gpus": ["nvidia-smi", f"--query-gpu={GPU}", "--format=csv"],
    "topology": ["nvidia-smi", "topo", "-m"],
    "clocks": ["nvidia-smi", "-q", "-d", "CLOCK,PERFORMANCE,POWER"],
    "driver": ["nvidia-smi"],
    "nvcc": ["nvcc", "--version"],
    "ncu": ["ncu", "--version"],
    "compute-sanitizer": ["compute-sanitizer", "--version"],
    "libraries": ["ldconfig", "-p"],
    "cpu": ["lscpu"],
    "torch": ["python3", "-c", "import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version(), torch.cuda.nccl.version())"],
}


def ask(command):
    if not shutil.which(command[0]):
        return None
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"error: {error}"
    if done.returncode and command[0] == "python3":
        return None
    return done.stdout.strip()


def main():
    answers = {name: ask(command) for name, command in COMMANDS.items()}
    if answers["libraries"]:
        wanted = ("cublas", "nccl", "cudnn", "cudart", "cuda.so")
        answers["libraries"] = "\n".join(line.strip() for line in answers["libraries"].splitlines() if any(name in line for name in wanted))
    print(json.dumps({"system": platform.platform(), "python": platform.python_version(), "processors": os.cpu_count(), **answers}))


if __name__ == "__main__":
    main()
