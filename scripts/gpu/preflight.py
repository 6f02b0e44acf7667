#!/usr/bin/env python3
"""Checks that the programs of a packed folder find their libraries here, says their versions, and runs one case on each backend.

Usage: preflight.py FOLDER

Prints a JSON object, whose `error` says everything that is missing. A GPU session begins with this, since without libraries no later step
can pass.
"""
import ctypes
import json
import os
import shutil
import subprocess
import sys

# Libraries that programs load when they need them, and their functions for the version: name, function, whether it returns the version
# itself and not through a pointer, and the divisors of its parts.
LOADED = (("libcublasLt.so.13", "cublasLtGetVersion", True, (10000, 100)),
          ("libnccl.so.2", "ncclGetVersion", False, (10000, 100)),
          ("libcudnn.so.9", "cudnnGetVersion", True, (10000, 100)),
          ("libcuda.so.1", "cuDriverGetVersion", False, (1000, 10)))
CASE = "^layer mixtral bf16, world {}, .*--dropless$"


def find_unresolved(folder):
    """Libraries that the dynamic linker does not find."""
    missing = []
    for part in ("bin", "lib"):
        for name in sorted(os.listdir(os.path.join(folder, part))):
            if name.startswith("."):
                continue
            done = subprocess.run(["ldd", os.path.join(folder, part, name)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            missing += [f"{part}/{name} needs {line.split()[0]}, which is not found" for line in done.stdout.splitlines() if "not found" in line]
    return missing


def find_path(name):
    """File of a loaded library."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        return next((line.split()[-1] for line in file if f"/{name}" in line), None)


def split_version(number, divisors):
    first, second = divisors
    return f"{number // first}.{number % first // second}.{number % second}"


def ask_version(name, function, returns, divisors):
    """Version and path of a library, or the error."""
    try:
        call = getattr(ctypes.CDLL(name), function)
    except (OSError, AttributeError) as error:
        return {"error": str(error)}
    if returns:
        call.restype = ctypes.c_size_t
        number = call()
    else:
        number = ctypes.c_int(0)
        status = call(ctypes.byref(number))
        if status:
            return {"error": f"{function} returned {status}"}
        number = number.value
    return {"version": split_version(number, divisors), "path": find_path(name)}


def run_case(folder, backend, world):
    command = ["python3", "-B", os.path.join(folder, "gpu", "replay.py"), os.path.join(folder, "kept"), "--bin", os.path.join(folder, "bin"),
               f"--backend={backend}", "--only=" + CASE.format(world), "--timeout=15"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "passed" if done.returncode == 0 else done.stdout.strip()[-1500:]


def main():
    if len(sys.argv) != 2:
        print("usage: preflight.py FOLDER", file=sys.stderr)
        return 2
    folder = sys.argv[1]
    with open(os.path.join(folder, "pack.json"), encoding="utf-8") as file:
        is_emulated = json.load(file)["emulated"]
    errors = find_unresolved(folder) if shutil.which("ldd") else []
    libraries = {} if is_emulated else {row[0]: ask_version(*row) for row in LOADED}
    errors += [f"{name}: {found['error']}" for name, found in libraries.items() if "error" in found]
    cases = {backend: run_case(folder, backend, world) for backend, world in (("cuda", 1), ("cuda-loopback", 2))}
    errors += [f"a case on backend {backend}: {' '.join(result.splitlines()[-2:])}" for backend, result in cases.items() if result != "passed"]
    print(json.dumps({"libraries": libraries, "cases": cases, **({"error": "; ".join(errors)} if errors else {})}))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
