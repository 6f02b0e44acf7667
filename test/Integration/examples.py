#!/usr/bin/env python3
"""Builds the projects of examples/ against an installed MoePlan, as their first lines say, and runs them.

Usage: examples.py --cmake FILE --generator NAME --build DIR --source DIR [--define NAME=VALUE]..
"""
import argparse
import os
import subprocess
import sys
import tempfile


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", **options)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


def expect(name, text, printed):
    if text not in printed:
        sys.exit(f"error: {name}: expected '{text}' in:\n{printed}")
    print(f"ok   {name}: {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, text in (("cmake", "cmake"), ("generator", "of the projects' builds"), ("build", "the folder of the build"),
                       ("source", "the root of the project")):
        parser.add_argument(f"--{name}", required=True, help=text)
    parser.add_argument("--define", action="append", default=[], help="a variable of the projects' builds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moeplan-") as folder:
        prefix = os.path.join(folder, "prefix")
        for component in ("runtime", "compiler", "dev"):
            run(options.cmake, "--install", options.build, "--prefix", prefix, "--component", component)
        for project in ("schedule", "run_plan"):
            build = os.path.join(folder, project)
            run(options.cmake, "-S", os.path.join(options.source, "examples", project), "-B", build, "-G", options.generator,
                f"-DCMAKE_PREFIX_PATH={prefix}", *(f"-D{define}" for define in options.define))
            run(options.cmake, "--build", build)
        tool = lambda name, *arguments: run(os.path.join(prefix, "bin", name), *arguments, cwd=folder)
        model = os.path.join(os.path.abspath(options.source), "test", "Integration", "models", "mixtral.json")
        layer = (model, "--seq=16", "--capacity-factor=1", "--parallel=dp=4,ep=4")
        plugin = "--load-pass-plugin=" + os.path.join(folder, "schedule", "libgather-exchanges.so")
        tool("moe-compile", *layer, "--mode=forward", "--emit=spmd", "-o", "forward.mlir")
        rewritten = tool("moe-opt", "forward.mlir", plugin, "--pass-pipeline=builtin.module(func.func(gather-exchanges,canonicalize,cse))")
        expect("the schedule", "moe.all_gather", rewritten)
        with open(os.path.join(folder, "rewritten.mlir"), "w", encoding="utf-8") as file:
            file.write(rewritten)
        tool("moe-compile", "rewritten.mlir", "-o", "plan.so")
        expect("its plan", "verification ok", tool("moe-run", "plan.so", "--verify"))
        tool("moe-opt", "forward.mlir", plugin, "-o", "step.mlir",
             "--pass-pipeline=builtin.module(func.func(gather-exchanges,canonicalize,cse,moe-differentiate))")
        tool("moe-compile", "step.mlir", "-o", "step.so")
        expect("its gradients", "grad.layer0.w1", tool("moe-run", "step.so", "--verify"))
        tool("moe-compile", *layer, "-o", "plan.so")
        expect("the program", "ms on 4 ranks", run(os.path.join(folder, "run_plan", "run_plan"), os.path.join(folder, "plan.so")))


if __name__ == "__main__":
    main()
