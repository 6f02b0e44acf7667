#!/usr/bin/env python3
"""The files of a wheel work in any folder: they compile, run and open a plan, and need nothing of the build. Without the compiler the
package says how to get it. scripts/wheel.sh makes the wheel itself.

Usage: wheel.py --build FOLDER --source FOLDER [--cmake FILE] [--left-out=REASON]

It runs with the Python for which the package is built. Exit status 77, which ctest counts as skipped, if there is no package.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

CLIENT = """\
import os, sys, moeplan
with moeplan.Plan(sys.argv[1]) as plan:
    print("world", plan.world)
print("library", next(line.split()[-1] for line in open("/proc/self/maps") if "libmoert.so" in line))
try:
    print("seconds", moeplan.simulate("switch-base-8", cluster="hgx-h100", parallel="dp=2,ep=2").step_s)
except moeplan.Error as error:
    print("error", str(error).replace(chr(10), " "))
"""
PROGRAMS = ("moe-compile", "moe-import", "moe-opt", "moe-plan", "moe-sim", "moe-run", "moe-calibrate")


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", **options)
    if done.returncode != 0:
        sys.exit(f"FAIL {' '.join(command)}\n{done.stdout}")
    return done.stdout


def check(name, good, output):
    print(f"{'ok  ' if good else 'FAIL'} {name}" + ("" if good else f": {output}"))
    return bool(good)


def find_build_folders(site, source):
    """Folders of this checkout where programs and libraries of the wheel look for others."""
    found = []
    for top, _, names in os.walk(site):
        for name in names:
            path = os.path.join(top, name)
            with open(path, "rb") as file:
                if file.read(4) != b"\x7fELF":
                    continue
            for folders in re.findall(r"(?:RPATH|RUNPATH) +(\S+)", run(["objdump", "-p", path])):
                found += [f"{name}: {folder}" for folder in folders.split(":") if folder.startswith(os.path.abspath(source))]
    return found


def use(python, site, plan):
    """The lines that the client prints, by their first words."""
    output = run([python, "-B", "-c", CLIENT, plan], cwd=os.path.dirname(plan), env={"PATH": "/usr/bin:/bin", "PYTHONPATH": site})
    return dict(line.split(" ", 1) for line in output.splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="", help="the build folder")
    parser.add_argument("--source", required=True, help="the root of the project")
    parser.add_argument("--cmake", default="cmake", help="the program cmake")
    parser.add_argument("--left-out", default="", help="why the package was not built")
    options = parser.parse_args()
    if options.left_out:
        print(f"skipped: the Python package is left out of this build: {options.left_out}")
        return 77
    with tempfile.TemporaryDirectory(prefix="moeplan-") as folder:
        first, site, plan = (os.path.join(folder, name) for name in ("first", "site", "plan.so"))
        run([options.cmake, "--install", options.build, "--component", "python", "--prefix", first])
        shutil.copytree(os.path.join(options.source, "python", "moeplan"), os.path.join(first, "moeplan"), dirs_exist_ok=True)
        # The place where pip would leave them is not known before.
        shutil.move(first, site)
        good, clean = True, {"PATH": "/usr/bin:/bin"}
        for name in PROGRAMS:
            printed = run([os.path.join(site, "bin", name), "--version"], env=clean)
            good &= check(f"{name} starts", printed.startswith(f"{name} (MoePlan)"), printed)
        run([os.path.join(site, "bin", "moe-compile"), "switch-base-8", "--seq=16", "--parallel=dp=2,ep=2", "-o", plan], env=clean)
        os.symlink(os.path.join(site, "bin", "moe-run"), os.path.join(folder, "moe-run"))
        printed = run([os.path.join(folder, "moe-run"), plan, "--verify"], env=clean)
        good &= check("a plan runs, by a link", "verification ok" in printed, printed)
        told = use(sys.executable, site, plan)
        good &= check("opens a plan", told.get("world") == "2", told)
        good &= check("has its own runtime", told["library"].startswith(site + "/moeplan/lib/"), told)
        good &= check("simulates", float(told.get("seconds", "0")) > 0, told)
        found = find_build_folders(site, options.source)
        good &= check("looks in no folder of the build", not found, found)
        shutil.rmtree(os.path.join(site, "moeplan", "bin"))
        told = use(sys.executable, site, plan)
        good &= check("says how to get the compiler", "pip install" in told.get("error", "") and "MOEPLAN_BIN" in told["error"], told)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
