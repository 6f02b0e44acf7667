"""The files of Megatron's torch_dist folders besides DCP's: `common.pt` and `metadata.json`.

Checked with megatron-core 0.16.1 (`megatron/core/dist_checkpointing`, `megatron/core/optimizer`, `megatron/training/checkpointing.py`).
"""

from __future__ import annotations

import json
import os
import pickle
from types import ModuleType
from typing import Any, Dict, Iterator

import torch

from .._errors import Error
from ._types import Adam

COMMON, METADATA, LATEST = "common.pt", "metadata.json", "latest_checkpointed_iteration.txt"


def write_rest(folder: str, step: int, adam: Adam, chained: bool) -> None:
    """Writes the files without tensors. `chained`: Megatron has one optimizer for the experts and one for all else."""
    states = [_make_state(step, adam, expert) for expert in ((False, True) if chained else (False,))]
    content = {"distrib_optim_sharding_type": "fully_reshardable", "distrib_optim_fully_reshardable_mem_efficient": False,
               "singleton_local_shards": False, "chained_optim_avoid_prefix": True}
    torch.save({"checkpoint_version": 3.0, "iteration": step, "content_metadata": content,
                "optimizer": dict(enumerate(states)) if chained else states[0]}, os.path.join(folder, COMMON))
    with open(os.path.join(folder, METADATA), "w", encoding="utf-8") as file:
        json.dump({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}, file)


def _make_state(step: int, adam: Adam, expert: bool) -> Dict[str, Any]:
    """State of an optimizer without its tensors, with the keys of DistributedOptimizer and those of FP32Optimizer."""
    groups = [{"lr": 0.0, "betas": (adam.beta1, adam.beta2), "eps": adam.eps, "weight_decay": adam.weight_decay * decay, "bias_correction": True,
               "step": step, "wd_mult": decay, "lr_mult": 1.0, "is_expert_parallel": expert, "is_decoupled_lr": False} for decay in (1.0, 0.0)]
    return {"optimizer": {"param_groups": groups}, "param_state_sharding_type": "fully_reshardable",
            "param_groups": groups, "state": {"common_step": torch.tensor(float(step))}}


def read_step(folder: str) -> int:
    """The number of steps of Adam, or the iteration if the optimizer has no state."""
    path = os.path.join(folder, COMMON)
    common = torch.load(path, map_location="cpu", weights_only=False, pickle_module=_WithoutCode("_WithoutCode"))
    steps = sorted(set(_find_steps(common.get("optimizer", {}))))
    if len(steps) > 1:
        raise Error(f"'{path}': expected one number of steps for all parameters but got {', '.join(map(str, steps))}")
    if steps:
        return steps[0]
    if "iteration" not in common:
        raise Error(f"'{path}': expected an 'iteration', which Megatron's training writes")
    return int(common["iteration"])


def _find_steps(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for key, one in value.items():
            if key in ("step", "common_step") and one is not None:
                yield int(one)
            else:
                yield from _find_steps(one)
    elif isinstance(value, list):
        for one in value:
            yield from _find_steps(one)


class _Unknown:
    """Stands for an object of Megatron's, whose code is not run."""

    def __new__(cls, *arguments: Any, **options: Any) -> _Unknown:
        return object.__new__(cls)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class _WithoutCode(ModuleType):
    """A pickle module for torch.load that makes tensors and plain containers, and nothing else."""

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            known = (module, name) in (("collections", "OrderedDict"), ("torch._utils", "_rebuild_tensor_v2"), ("torch.serialization", "_get_layout"))
            is_type = module == "torch" and isinstance(getattr(torch, name, None), (torch.dtype, type)) and name.endswith("Storage")
            return super().find_class(module, name) if known or is_type else _Unknown

    load = staticmethod(pickle.load)
