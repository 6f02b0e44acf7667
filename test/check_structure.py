#!/usr/bin/python3
"""Checks the structure of the sources: each part includes only allowed parts, only ops know the names of kernels, and the runtime reads the
parts of a call by name.

Usage: check_structure.py SOURCE_DIR
"""

import collections
import os
import re
import sys

# Each part, and the parts whose headers it may include besides its own. Parts may include only parts above them.
ALLOWED = {
    "runtime/include": [],
    "runtime/lib/core": ["runtime/include"],
    "runtime/lib/verify": ["runtime/include", "runtime/lib/core"],
    "runtime/lib/net": ["runtime/include", "runtime/lib/core"],
    "runtime/lib/host": ["runtime/include", "runtime/lib/core"],
    "runtime/lib/mpi": ["runtime/include", "runtime/lib/core", "runtime/lib/net", "runtime/lib/host"],
    "runtime/lib/cuda": ["runtime/include", "runtime/lib/core", "runtime/lib/net", "runtime/lib/host"],
    "runtime/lib/calibrate": ["runtime/include", "runtime/lib/core", "runtime/lib/net", "runtime/lib/host"],
    "runtime/lib/run": ["runtime/include", "runtime/lib/core"],
    "python/src": ["runtime/include"],
    "Support": ["runtime/include"],
    "OpFacts": [],
    "Scheduling": [],
    "Cost": ["Support", "OpFacts"],
    "Dialect/Moe/IR": ["Support", "OpFacts", "Scheduling"],
    "Dialect/Moe/Transforms": ["OpFacts", "Scheduling", "Dialect/Moe/IR"],
    "Dialect/Plan/IR": ["Support", "Dialect/Moe/IR", "OpFacts"],
    "Dialect/Plan/Transforms": ["Dialect/Plan/IR", "Dialect/Moe/IR"],
    "Conversion": ["Dialect/Moe/IR", "Dialect/Plan/IR", "Dialect/Plan/Transforms", "runtime/include"],
    "Import": ["Support", "Dialect/Moe/IR"],
    "Target": [],
    "Simulator": ["Support", "OpFacts", "Cost", "Dialect/Moe/IR", "Dialect/Plan/IR", "Dialect/Plan/Transforms",
                  "runtime/include"],
    "LaunchOrder": ["OpFacts", "Cost", "Dialect/Moe/IR", "Dialect/Plan/IR", "Dialect/Plan/Transforms", "Simulator"],
    "Compiler": ["Support", "OpFacts", "Scheduling", "Cost", "Dialect/Moe/IR", "Dialect/Moe/Transforms", "Dialect/Plan/IR",
                 "Dialect/Plan/Transforms", "Conversion", "Simulator", "LaunchOrder"],
    "Planner": ["Support", "OpFacts", "Scheduling", "Cost", "Dialect/Moe/IR", "Dialect/Moe/Transforms", "Dialect/Plan/IR",
                "Dialect/Plan/Transforms", "Conversion", "Simulator", "LaunchOrder", "Compiler"],
    "Frameworks": ["Support", "Cost", "Import", "Dialect/Moe/IR", "Dialect/Moe/Transforms", "Simulator", "LaunchOrder", "Compiler",
                   "Planner"],
    "Report": ["Support", "OpFacts", "Cost", "Dialect/Moe/IR", "Dialect/Plan/IR", "Dialect/Plan/Transforms", "Conversion",
               "Simulator", "Planner", "Frameworks"],
}


def part_of(path):
    """Part of the project that has a source or header. None for tests, tools and benchmarks."""
    if path.startswith("runtime/include/"):
        return "runtime/include"
    if path.startswith("runtime/"):
        folder = "/".join(path.split("/")[:3])
        return folder if folder in ALLOWED else None
    if path.startswith("python/src/"):
        return "python/src"
    for top in ("include/moe/", "lib/"):
        if path.startswith(top):
            names = path[len(top):].split("/")[:-1]
            for length in (3, 1):
                if "/".join(names[:length]) in ALLOWED:
                    return "/".join(names[:length])
    return None


def part_of_include(name):
    if name.startswith("moe/"):
        return part_of("include/" + name)
    if name.startswith(("moert.h", "moert/")):
        return "runtime/include"
    return part_of("runtime/lib/" + name)


def sources(root, folders, endings):
    for top in folders:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(endings):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, root), file.read()


def check_order():
    seen = set()
    for part, allowed in ALLOWED.items():
        for other in allowed:
            if other not in seen:
                yield f"check_structure.py: expected '{other}' above '{part}', which may include it: arrows go one way"
        seen.add(part)


def check_includes(root):
    for path, text in sources(root, ("include", "lib", "runtime", "python"), (".h", ".cpp", ".cu", ".cuh", ".td")):
        part = part_of(path)
        for number, line in enumerate(text.splitlines(), 1):
            match = re.match(r'\s*#?include\s+["<]([^">]+)[">]', line)
            if not match or part is None:
                continue
            other = part_of_include(match[1])
            if other and other != part and other not in ALLOWED[part]:
                yield f"{path}:{number}: '{part}' may not include '{match[1]}', which is of '{other}'"
            if part.startswith(("runtime", "python")) and match[1].startswith(("mlir/", "llvm/", "moe/")):
                yield f"{path}:{number}: '{part}' may not include '{match[1]}'"


# Parts that know ops and kernels only by their interfaces and attributes.
ANALYSES = ("Cost", "Dialect/Moe/Transforms", "Dialect/Plan/IR", "Dialect/Plan/Transforms", "Conversion", "Target",
            "Simulator", "LaunchOrder", "Compiler", "Planner", "Report")
# Names of kernels that mean something else there: streams, keys of profiles and costs, and the figures of Parm's
# Algorithm 1.
OTHER_MEANINGS = {
    "lib/Cost/ClusterProfile.cpp": {"copy"},
    "lib/Cost/CostModel.cpp": {"copy"},
    "lib/Cost/ReadDevice.cpp": {"attention"},
    "lib/Dialect/Plan/IR/PlanDialect.cpp": {"attention"},
    "include/moe/Dialect/Plan/IR/PlanDialect.h": {"copy"},
    "lib/Compiler/ParmAlgorithm1.cpp": {"all_to_all", "all_gather"},
    "lib/Report/PlanTable.cpp": {"all_to_all", "all_gather"},
    "lib/Conversion/PlanToLLVM/Metadata.cpp": {"fill"},
}


def check_names(root):
    """Ops name their kernels in Dialect/Moe/IR. Analyses ask interfaces and attributes."""
    with open(os.path.join(root, "runtime/kernels/kernels.def"), encoding="utf-8") as file:
        kernels = set(re.findall(r"^([a-z_0-9]+)\(", file.read(), re.M))
    if len(kernels) < 50:
        yield "runtime/kernels/kernels.def: expected the names of the kernels"
    for path, text in sources(root, ("include", "lib", "tools"), (".h", ".cpp")):
        if part_of(path) not in ANALYSES:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for name in re.findall(r'"(?:moe\.)?([a-z_0-9]+)"', line.split("//")[0]):
                if name in kernels and name not in OTHER_MEANINGS.get(path, ()):
                    yield f"{path}:{number}: '{name}' is a kernel: ask an interface of the op or an attribute of the launch"


def check_positions(root):
    """kernels.def may change the order of the attributes and operands of a call."""
    for path, text in sources(root, ("runtime/lib",), (".h", ".cpp", ".cu", ".cuh")):
        for number, line in enumerate(text.splitlines(), 1):
            if match := re.search(r"\b(ints|reals|views)(\[\d|\.front\(|\.at\(\d)", line.split("//")[0]):
                yield f"{path}:{number}: expected a name of core/Attributes.h but got the position '{match[0]}'"


def main():
    root = sys.argv[1]
    errors = [*check_order(), *check_includes(root), *check_names(root), *check_positions(root)]
    print("\n".join(f"error: {error}" for error in errors), file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
