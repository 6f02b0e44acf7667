#!/usr/bin/env python3
"""Installs parts of a build, builds a project that finds them by find_package(MoePlan), and runs its program `consumer`.

Usage: find_package.py --cmake FILE --generator NAME --build DIR --project DIR --prints TEXT [--component NAME].. [--define NAME=VALUE]..
                       [ARGUMENT..]
"""
import argparse
import os
import subprocess
import sys
import tempfile


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    if done.returncode:
        sys.exit(f"error: {' '.join(command)} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, text in (("cmake", "cmake"), ("generator", "of the project's build"), ("build", "the folder of the build"),
                       ("project", "the source folder of the project"), ("prints", "the output of its program")):
        parser.add_argument(f"--{name}", required=True, help=text)
    parser.add_argument("--component", action="append", default=[], help="a component to install")
    parser.add_argument("--define", action="append", default=[], help="a variable of the project's build")
    parser.add_argument("arguments", nargs="*", help="of its program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moeplan-") as folder:
        prefix, build = os.path.join(folder, "prefix"), os.path.join(folder, "build")
        for component in options.component:
            run(options.cmake, "--install", options.build, "--prefix", prefix, "--component", component)
        run(options.cmake, "-S", options.project, "-B", build, "-G", options.generator, f"-DCMAKE_PREFIX_PATH={prefix}",
            *(f"-D{define}" for define in options.define))
        run(options.cmake, "--build", build)
        printed = run(os.path.join(build, "consumer"), *options.arguments).strip()
    print(printed)
    if printed != options.prints:
        sys.exit(f"error: expected the program to print '{options.prints}'")


if __name__ == "__main__":
    main()
