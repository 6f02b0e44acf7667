"""Shared by the scripts of this folder: plans of moe-plan, and replacements of a GPU."""

import argparse
import importlib
import logging
import math
import os
import re
import shlex
import subprocess
import sys
import typing
import warnings
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator


class Refused(Exception):
    """A check that failed, and why."""


class NotChecked(Exception):
    """Why there is nothing to check: moe-plan has no plan, or the framework no such model."""


def replace_device(cluster: str) -> None:
    """Makes Megatron-LM believe in a device of this cluster, and in Transformer Engine 2.10."""
    import torch

    major = 10 if "b200" in cluster or "b300" in cluster else 9

    class Properties:
        name, total_memory, multi_processor_count, minor = f"NVIDIA {'B200' if major > 9 else 'H100'}", 80 << 30, 132, 0

    setattr(Properties, "major", major)
    cuda: Any = torch.cuda
    cuda.get_device_capability = lambda *_: (major, 0)
    cuda.get_device_properties = lambda *_: Properties()
    cuda.get_device_name = lambda *_: Properties.name
    cuda.device_count = lambda: 8
    cuda.current_device = lambda: torch.device("meta")
    cuda.Stream = type("Stream", (), {"__init__": lambda *_, **__: None})
    setattr(torch.Tensor, "cuda", lambda tensor, *_, **__: tensor)
    utils: Any = importlib.import_module("megatron.core.utils")
    utils._te_version = utils.PkgVersion("2.10.0")
    fused = "permute permute_with_probs sort_chunks_by_index sort_chunks_by_index_with_probs unpermute".split()
    for module, names in (
        ("models.common.embeddings.rope_utils", ["apply_rotary_pos_emb", "apply_rotary_pos_emb_thd"]),
        ("extensions.transformer_engine", fused),
        ("transformer.moe.moe_utils", fused),
    ):
        for name in names:
            setattr(importlib.import_module(f"megatron.core.{module}"), f"fused_{name}", object())


def run_tool(binary: Path, *arguments: str) -> str:
    result = subprocess.run([str(binary), *arguments], capture_output=True, text=True)
    if result.returncode < 0:
        raise Refused(f"{binary.name} ended by signal {-result.returncode}")
    if result.returncode != 0:
        raise NotChecked(next((line for line in result.stderr.splitlines() if "error:" in line), result.stderr))
    return result.stdout


def write_plan(options: argparse.Namespace, plan: list[str], framework: str) -> tuple[str, str]:
    """The framework's file of a plan, and a remark. A plan that no rank has memory for is still a file to read."""
    arguments = [*plan, f"--emit={framework}:{options.version}"]
    try:
        return run_tool(options.bin / "moe-plan", *arguments), ""
    except NotChecked as error:
        if "with a plan of at most" not in str(error):
            raise
    return run_tool(options.bin / "moe-plan", *arguments, "--memory-limit=1000TB"), " (needs more memory than a rank has)"


def count_blocks(options: argparse.Namespace, plan: list[str]) -> tuple[list[int], int, int]:
    """Parameters of each block of a plan's model, those before the blocks, and those behind them."""
    changes = [argument for argument in plan if argument.startswith(("--layers=", "--vocab-size="))]
    graph = run_tool(options.bin / "moe-import", plan[0], "--whole-model", *changes)
    blocks: dict[int, int] = {}
    first = last = 0
    header = next(line for line in graph.splitlines() if "func.func @model" in line)
    for shape, attributes in re.findall(r"%arg\d+: tensor<([\dx]+)x[a-z]+\d+> \{(.*?)\}(?=, %arg|\) ->)", header):
        name = re.search(r'moe\.name = "([^"]+)"', attributes)
        if not name or 'moe.role = "parameter"' not in attributes:
            continue
        size = math.prod(map(int, shape.split("x")))
        block = re.match(r"layer(\d+)\.", name.group(1))
        if block:
            # Frameworks count it as a buffer.
            if not name.group(1).endswith(".selection_bias"):
                blocks[int(block.group(1))] = blocks.get(int(block.group(1)), 0) + size
        elif re.match("embedding|positions", name.group(1)):
            first += size
        else:
            last += size
    return [blocks[index] for index in sorted(blocks)], first, last


def add_options(parser: argparse.ArgumentParser, version: str) -> None:
    plans = Path(__file__).with_name("plans.txt")
    parser.add_argument("--plans", type=Path, default=plans, help="file with a name, | and arguments of moe-plan on each line. Default: plans.txt beside this file, all models")
    parser.add_argument("--clusters", default="hgx-h100,hgx-b200,gb200-nvl72", help="clusters that take the place of CLUSTER")
    parser.add_argument("--version", default=version, help=f"version for --emit. Default: {version}")
    parser.add_argument("--bin", type=Path, default=Path("build/dev/bin"), help="folder of MoePlan's tools")
    parser.add_argument("names", nargs="*", help="plans to check. Default: all")


def read_plans(options: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    lines = options.plans.read_text().splitlines()
    known = [line.partition("|")[0] for line in lines]
    for name in options.names:
        if name not in known:
            sys.exit(f"error: expected names of plans in {options.plans}, but got '{name}'")
    for line in lines:
        name, _, arguments = line.partition("|")
        if not arguments or (options.names and name not in options.names):
            continue
        clusters = options.clusters.split(",") if "CLUSTER" in arguments.split() else [""]
        for cluster in clusters:
            words = [cluster if word == "CLUSTER" else word for word in shlex.split(arguments)]
            yield f"{name} {cluster}".strip(), words


def check_all(checks: Iterable[tuple[str, Callable[[], str]]]) -> int:
    """Runs the checks, prints a line for each, and returns the exit status."""
    failed = passed = unchecked = 0
    for name, check in checks:
        try:
            said = check()
            passed += 1
        except NotChecked as error:
            unchecked += 1
            said = f"not checked: {error}"
        except Refused as error:
            failed += 1
            said = f"FAILED: {error}"
        print(f"{name}: {said}", flush=True)
    print(f"{passed} pass, {failed} fail, {unchecked} not checked")
    return 1 if failed or not passed else 0


def check_plans(options: argparse.Namespace, check: Callable[[list[str], argparse.Namespace], str]) -> int:
    """Checks each plan, and returns the exit status."""
    # Python 3.11 lacks a decorator that newer versions of Megatron-LM import.
    setattr(typing, "override", getattr(typing, "override", lambda function: function))
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    return check_all((name, partial(check, plan, options)) for name, plan in read_plans(options))
