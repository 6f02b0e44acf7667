"""Functions for optimizers of parameters of which each rank holds a part."""

from __future__ import annotations

from typing import Iterable

import torch
import torch.distributed as dist

from ._module import PlanModule
from ._sharding import count_copies


def clip_grad_norm_(model: torch.nn.Module, max_norm: float) -> torch.Tensor:
    """torch.nn.utils.clip_grad_norm_ for a model with PlanModules: their parts count once, and all other parameters are the same on all
    ranks. Returns the norm before clipping."""
    modules = [module for module in model.modules() if isinstance(module, PlanModule)]
    divided = {id(getattr(module, name)) for module in modules for name in module.values}
    others = [one.grad for one in model.parameters() if one.grad is not None and id(one) not in divided]
    total = _square(others)
    for module in modules:
        processes = module.halves.processes
        own = torch.zeros((), dtype=torch.float64, device=module.halves.device)
        for name, value in module.values.items():
            gradient = getattr(module, name).grad
            if gradient is not None:
                own += _square([gradient]).to(own.device) / count_copies(value, processes.size)
        if processes.size > 1:
            dist.all_reduce(own, group=processes.group)
        total += own.cpu()
    norm = total.sqrt()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for one in model.parameters():
        if one.grad is not None:
            one.grad.mul_(factor.to(one.grad))
    return norm


def _square(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for tensor in tensors:
        total += tensor.detach().double().square().sum().cpu()
    return total
