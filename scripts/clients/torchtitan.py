#!/usr/bin/env python3
"""Gives plans to an installed torchtitan, as files of `moe-plan --emit=torchtitan`.

Usage: torchtitan.py [--plans=FILE] [--bin=DIR] [--step] [NAME..]
       torchtitan.py --job=FILE [--job=FILE..] [--step]

It needs no GPU, but a Python that has torchtitan 0.2.1 (files are .toml) or 0.3.0 (files are .py). A line of FILE has a
name, `|` and arguments of moe-plan; --job names files that moe-plan has written. For each of them, torchtitan reads the
keys, makes the meshes of the degrees, builds the model on the meta device, and divides it over the ranks of a fake
process group. The model's parameters are compared with those of MoePlan's graph. --step also trains a step, on as many
processes as the file has ranks, over gloo. The exit status is 1 if a check fails, or if none passes.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import types
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any, Callable

from common import NotChecked, Refused, add_options, check_all, check_plans, count_blocks, write_plan

# The folder of this file would hide the package with its name.
sys.path = [one for one in sys.path if Path(one or ".").resolve() != Path(__file__).resolve().parent]

REPLACED_FOR_CPUS = ("the device type (cpu), the memory statistics of the device, the tokenizer and the data, all_to_all of lists, "
                     "histograms of integers, kernels of Triton, and FSDP's sums that divide first")
DEGREES = ["data_parallel_replicate_degree", "data_parallel_shard_degree", "context_parallel_degree",
           "tensor_parallel_degree", "pipeline_parallel_degree"]


def use_cpus() -> None:
    """Makes torch.cpu the device of torchtitan. It has no statistics of memory."""
    import torch
    import torch._utils

    torch._utils._get_available_device_type = lambda: "cpu"
    properties = argparse.Namespace(name="cpu", total_memory=1 << 34)
    functions: dict[str, Callable[..., Any]] = {
        "current_device": lambda: 0,
        "get_device_name": lambda *_: "cpu",
        "get_device_properties": lambda *_: properties,
        "memory_stats": lambda *_: defaultdict(int),
        "reset_peak_memory_stats": lambda *_: None,
        "empty_cache": lambda *_: None,
    }
    for name, function in functions.items():
        setattr(torch.cpu, name, function)


class AbsentObject:
    """A buffer of DeepEP that remembers its options alone."""

    def __init__(self, group: Any = None, **options: Any) -> None:
        self.__dict__.update(options, group=group, num_bytes=0)


class AbsentClass(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: 0


class AbsentModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return AbsentClass(name, (AbsentObject,), {})


def replace_deep_ep() -> None:
    """Lets torchtitan import DeepEP where it is not installed."""
    if not importlib.util.find_spec("deep_ep"):
        for name in ("deep_ep", "deep_ep.utils"):
            sys.modules[name] = AbsentModule(name)


def get_world(parallelism: Any) -> int:
    world = 1
    for name in DEGREES:
        world *= getattr(parallelism, name)
    return world


def exchange_on_cpus() -> None:
    """Exchanges lists as one tensor, since gloo's exchange of lists needs equal sizes, and counts integers."""
    import torch
    import torch.distributed as dist

    count_floats = torch.histc

    def histc(tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        return count_floats(tensor.float(), *args, **options).to(tensor.dtype)

    def all_to_all(outputs: list[Any], inputs: list[Any], group: Any = None, async_op: bool = False) -> None:
        rows = [len(one) for one in outputs]
        joined = inputs[0].new_empty(sum(rows), *inputs[0].shape[1:])
        dist.all_to_all_single(joined, torch.cat(inputs), rows, [len(one) for one in inputs], group)
        for output, part in zip(outputs, joined.split(rows)):
            output.copy_(part)

    setattr(dist, "all_to_all", all_to_all)
    setattr(torch, "histc", histc)


def sum_on_cpus(trainer: Any) -> None:
    """Lets FSDP divide gradients after it sums them, since gloo has no PREMUL_SUM."""
    from torch.distributed.fsdp import FSDPModule

    for part in trainer.model_parts:
        for module in part.modules():
            if isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)


class Titan2:
    """A job of torchtitan 0.2."""

    def __init__(self, file: Path, scratch: Path, more: list[str]) -> None:
        from torchtitan.config import ConfigManager
        from torchtitan.protocols.train_spec import get_train_spec

        lines = file.read_text().splitlines()
        (scratch / "moeplan_flavor.py").write_text("\n".join(line[3:] for line in lines if line.startswith("#> ")))
        sys.path.insert(0, str(scratch))
        self.config = ConfigManager().parse_args([f"--job.config_file={file}", *more])
        if self.config.experimental.custom_import:
            importlib.import_module(self.config.experimental.custom_import)
        self.parallelism = self.config.parallelism
        self.spec = get_train_spec(self.config.model.name)
        self.arguments = self.spec.model_args[self.config.model.flavor]

    def make_dims(self) -> Any:
        from torchtitan.distributed import ParallelDims

        one = self.parallelism
        return ParallelDims(dp_replicate=one.data_parallel_replicate_degree, dp_shard=one.data_parallel_shard_degree,
                            cp=one.context_parallel_degree, tp=one.tensor_parallel_degree,
                            pp=one.pipeline_parallel_degree, ep=one.expert_parallel_degree,
                            etp=one.expert_tensor_parallel_degree, world_size=get_world(one))

    def build(self) -> Any:
        import torch

        self.arguments.update_from_config(self.config)
        with torch.device("meta"):
            return self.spec.model_cls(self.arguments)

    def divide(self, model: Any, dims: Any) -> None:
        import torch

        if not dims.pp_enabled:
            self.spec.parallelize_fn(model, dims, self.config)
            return
        if not self.spec.pipelining_fn:
            raise RuntimeError(f"{self.config.model.name} has no pipelining_fn")
        self.spec.pipelining_fn(model, dims, self.config, torch.device("cpu"), self.arguments,
                                self.spec.parallelize_fn, lambda *_: None)

    def replace_attention(self) -> str:
        if getattr(self.arguments, "attn_type", "sdpa") == "sdpa":
            return ""
        self.arguments.attn_type, self.arguments.attn_mask_type = "sdpa", "causal"
        return ", attention (SDPA)"

    def train(self) -> None:
        from torchtitan.models.moe import kernels
        from torchtitan.train import Trainer

        setattr(kernels, "fill_indices_wrapper", kernels.fill_indices_cpu)
        trainer = Trainer(self.config)
        sum_on_cpus(trainer)
        trainer.train()
        trainer.close()

    @staticmethod
    def get_data_options(scratch: Path) -> list[str]:
        return [f"--model.hf_assets_path={scratch}", "--training.dataset=c4_test",
                f"--training.dataset_path={scratch}/texts", "--training.steps=1", "--lr_scheduler.warmup_steps=1",
                f"--job.dump_folder={scratch}/out"]


class Titan3:
    """A job of torchtitan 0.3."""

    def __init__(self, file: Path, scratch: Path, more: list[str]) -> None:
        from torchtitan.config import ConfigManager

        sys.path.insert(0, str(file.resolve().parent))
        self.config = ConfigManager().parse_args([f"--module={file.stem}", "--config=moeplan", *more])
        self.parallelism = self.config.parallelism
        self.spec = self.config.model_spec

    def make_dims(self) -> Any:
        from torchtitan.distributed import ParallelDims

        one = self.parallelism
        return ParallelDims(dp_replicate=one.data_parallel_replicate_degree, dp_shard=one.data_parallel_shard_degree,
                            cp=one.context_parallel_degree, tp=one.tensor_parallel_degree,
                            pp=one.pipeline_parallel_degree, ep=one.expert_parallel_degree,
                            world_size=get_world(one), spmd_backend=one.spmd_backend)

    def build(self) -> Any:
        import torch
        from torchtitan.distributed import utils

        utils.set_spmd_backend(self.parallelism.spmd_backend)
        self.spec.model.update_from_config(config=self.config)
        with torch.device("meta"):
            return self.spec.model.build()

    def divide(self, model: Any, dims: Any) -> None:
        import torch

        one = self.config
        common = {"parallel_dims": dims, "training": one.training, "parallelism": one.parallelism,
                  "compile_config": one.compile, "ac_config": one.activation_checkpoint, "dump_folder": ""}
        if dims.pp_enabled:
            self.spec.pipelining_fn(model, **common, device=torch.device("cpu"), model_config=self.spec.model,
                                    parallelize_fn=self.spec.parallelize_fn, loss_fn=lambda *_: None)
        else:
            self.spec.parallelize_fn(model, **common)

    def replace_attention(self) -> str:
        from torchtitan.models.common.attention import ScaledDotProductAttention

        for layer in self.spec.model.layers:
            layer.attention.inner_attention = ScaledDotProductAttention.Config()
        return ", attention (SDPA)"

    def train(self) -> None:
        trainer = self.config.build()
        sum_on_cpus(trainer)
        trainer.train()
        trainer.close()

    @staticmethod
    def get_data_options(scratch: Path) -> list[str]:
        return [f"--hf_assets_path={scratch}", "--dataloader.dataset=c4_test",
                f"--dataloader.dataset_path={scratch}/texts", "--training.steps=1", "--lr_scheduler.warmup_steps=1",
                f"--dump_folder={scratch}/out"]


def get_titan() -> type[Titan2] | type[Titan3]:
    return Titan2 if importlib.metadata.version("torchtitan").startswith("0.2.") else Titan3


def check_file(file: Path, expected: int, gaps: list[str]) -> str:
    """Reads a file, and divides its model over a fake process group. Compares parameters if `expected` is not 0."""
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore

    with tempfile.TemporaryDirectory() as scratch:
        step = "keys"
        try:
            job = get_titan()(file, Path(scratch), [])
            step, world = "degrees", get_world(job.parallelism)
            torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
            dims = job.make_dims()
            dims.build_mesh()
            step, model = "model", job.build()
            found = sum(one.numel() for one in model.parameters())
            if expected and found != expected and not gaps:
                raise ValueError(f"{found} parameters, not {expected}")
            step = "parallelism"
            job.divide(model, dims)
        except Exception as error:  # torchtitan raises errors of many kinds.
            raise Refused(f"{step}: {type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
    compared = ", equal" if found == expected else f", not {expected / 1e9:.3f} G" if expected else ""
    return f"divided over {world} ranks, {found / 1e9:.3f} G parameters{compared}" + "".join(f"; {gap}" for gap in gaps)


def write_data(scratch: Path) -> None:
    """Writes a tokenizer of 200 words, and texts of them."""
    words = {word: index for index, word in enumerate(["<s>", "</s>", "<unk>", *(f"w{i}" for i in range(200))])}
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(scratch / "tokenizer.json"))
    (scratch / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    texts = [{"text": " ".join(f"w{i * j % 200}" for j in range(300))} for i in range(1, 200)]
    (scratch / "texts").mkdir()
    (scratch / "texts/texts.json").write_text("\n".join(map(json.dumps, texts)))


def start_step(file: Path, world: int) -> str:
    """Starts the processes of a step, and returns the line that they print about it."""
    with tempfile.TemporaryDirectory() as scratch:
        write_data(Path(scratch))
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={world}", __file__,
                   f"--rank-in={scratch}", f"--job={file}"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    lines = (done.stdout + done.stderr).splitlines()
    if done.returncode:
        errors = [line.strip() for line in lines if re.match(r"\s*(\[rank\d+\]: *)?[\w.]+(Error|Exception): ", line)]
        raise Refused(f"step: {errors[0] if errors else lines[-1]}")
    return next(line for line in lines if line.startswith("trained"))


def train(file: Path, scratch: Path) -> None:
    """Trains a step as one of torchrun's processes."""
    import torch

    titan = get_titan()
    job = titan(file, scratch, titan.get_data_options(scratch))
    replaced = REPLACED_FOR_CPUS + job.replace_attention()
    exchange_on_cpus()
    job.train()
    if int(os.environ["RANK"]) == 0:
        print(f"trained on {os.environ['WORLD_SIZE']} processes with torch {torch.__version__}; replaced: {replaced}")


def check_job(file: Path, expected: int, gaps: list[str], step: bool) -> str:
    # A process has one process group. A child inherits the modules, which take seconds to import.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        said = pool.apply(check_file, (file, expected, gaps))
    if step:
        with tempfile.TemporaryDirectory() as scratch:
            world = get_world(get_titan()(file, Path(scratch), []).parallelism)
        said += "; " + start_step(file, world)
    return said


def check(plan: list[str], options: argparse.Namespace) -> str:
    text, remark = write_plan(options, plan, "torchtitan")
    gaps = re.findall(r"^# Not in this file: (.*?)\.?$", text, re.M)
    refused = [gap for gap in gaps if "has no model" in gap] + re.findall(r"^# Cannot run: (.*): plan again with", text, re.M)
    if refused:
        raise NotChecked(f"the file says: {refused[0]}")
    blocks, first, last = count_blocks(options, plan)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / f"job.{'toml' if options.version == '0.2' else 'py'}"
        file.write_text(text)
        return check_job(file, sum(blocks) + first + last, gaps, options.step) + remark


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    version = ".".join(importlib.metadata.version("torchtitan").split(".")[:2])
    parser.add_argument("--job", type=Path, action="append", default=[], help="file to check in the place of plans")
    parser.add_argument("--step", action="store_true", help="train a step over gloo")
    parser.add_argument("--rank-in", type=Path, help=argparse.SUPPRESS)
    add_options(parser, version)
    options = parser.parse_args()
    use_cpus()
    if options.rank_in:
        train(options.job[0], options.rank_in)
        return 0
    print(f"torchtitan {version}, torch {importlib.metadata.version('torch')}")
    print("Replaced: the device type (cpu), torch.distributed by its fake backend, and DeepEP where it is missing.")
    replace_deep_ep()
    importlib.import_module("torchtitan.train")
    if options.job:
        return check_all((str(job), partial(check_job, job, 0, [], options.step)) for job in options.job)
    return check_plans(options, check)


if __name__ == "__main__":
    sys.exit(main())
