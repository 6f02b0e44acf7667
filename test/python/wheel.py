#!/usr/bin/env python3
"""A wheel that is built without MLIR installs into a new virtual environment. There it opens a plan, needs nothing of the build, and says
how to get the compiler.

Usage: wheel.py --bin TOOLS --source FOLDER [--cc FILE] [--cxx FILE] [--left-out=REASON]

It runs with the Python for which the package is built, which needs scikit-build-core. Exit status 77, which ctest counts as skipped, if
something is missing.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile

CLIENT = """\
import os, sys, moeplan
with moeplan.Plan(sys.argv[1]) as plan:
    print("world", plan.world)
print("library", next(line.split()[-1] for line in open("/proc/self/maps") if "libmoert.so" in line))
try:
    moeplan.simulate("switch-base-8")
except moeplan.Error as error:
    print("error", str(error).replace(chr(10), " "))
print("folder", os.path.dirname(moeplan.__file__))
"""


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", **options)
    if done.returncode != 0:
        sys.exit(f"FAIL {' '.join(command)}\n{done.stdout}")
    return done.stdout


def find_missing(options):
    if options.left_out:
        return f"the Python package is left out of this build: {options.left_out}"
    for module, remedy in (("scikit_build_core", "pip install scikit-build-core"), ("ensurepip", "Debian: apt-get install python3-venv")):
        if importlib.util.find_spec(module) is None:
            return f"{sys.executable} has no {module} ({remedy})"
    return ""


def check(name, good, output):
    print(f"{'ok  ' if good else 'FAIL'} {name}" + ("" if good else f": {output}"))
    return bool(good)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="the folder of the tools")
    parser.add_argument("--source", required=True, help="the root of the project")
    parser.add_argument("--cc", default="cc", help="the C compiler")
    parser.add_argument("--cxx", default="c++", help="the C++ compiler")
    parser.add_argument("--left-out", default="", help="why the package was not built")
    options = parser.parse_args()
    missing = find_missing(options)
    if missing:
        print(f"skipped: {missing}")
        return 77
    with tempfile.TemporaryDirectory(prefix="moeplan-") as folder:
        plan, wheels, venv = (os.path.join(folder, name) for name in ("plan.so", "wheels", "venv"))
        run([os.path.join(options.bin, "moe-compile"), "switch-base-8", "--seq=16", "--parallel=dp=2,ep=2", "-o", plan])
        # The build is in the source tree. It compiles as fast as possible, because the test runs little of it.
        build = os.path.join(os.path.abspath(options.source), "build", "wheel-test")
        run([sys.executable, "-m", "pip", "wheel", options.source, "--no-build-isolation", "--no-deps", f"--wheel-dir={wheels}",
             f"--config-settings=build-dir={build}",
             *(f"--config-settings=cmake.define.{define}" for define in
               ("MOE_COMPILER=OFF", "CMAKE_CXX_FLAGS_RELEASE=-O0", "CMAKE_UNITY_BUILD=ON"))],
            env={**os.environ, "CC": options.cc, "CXX": options.cxx})
        (wheel,) = os.listdir(wheels)
        names = zipfile.ZipFile(os.path.join(wheels, wheel)).namelist()
        good = check("wheel has what it needs", {"moeplan/__init__.py", "moeplan/py.typed", "moeplan/_runtime.pyi"} < set(names) and
                     [name for name in names if "/lib/libmoert.so." in name] and not [name for name in names if "moe-compile" in name], names)
        run([sys.executable, "-m", "venv", venv])
        python = os.path.join(venv, "bin", "python")
        run([python, "-m", "pip", "install", "--no-index", "--no-deps", os.path.join(wheels, wheel)])
        output = run([python, "-c", CLIENT, plan], cwd=folder, env={"PATH": os.path.join(venv, "bin")})
        told = dict(line.split(" ", 1) for line in output.splitlines())
        good &= check("opens a plan", told["world"] == "2", output)
        good &= check("has its own runtime", told["library"].startswith(told["folder"] + "/lib/") and told["folder"].startswith(venv), output)
        good &= check("says how to get the compiler", "pip install" in told["error"] and "MOEPLAN_BIN" in told["error"], output)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
