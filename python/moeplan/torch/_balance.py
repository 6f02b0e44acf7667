"""The load-balancing loss of transformers, over all layers and ranks."""

from __future__ import annotations

import sys
from typing import Any, List, Tuple

import torch
import torch.distributed as dist

from ._groups import Processes
from ._module import PlanModule
from ._replace import BlockModule


class _MeanOfRanks(torch.autograd.Function):
    """The mean over all ranks. A rank's loss is one of several whose mean is meant, so its input has the gradient of the mean itself."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, processes: Processes) -> torch.Tensor:
        return _mean(value, processes)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[torch.Tensor, None]:
        return gradient, None


class _OfAllRanks(torch.autograd.Function):
    """A parameter that all ranks have alike. Its gradient is the mean of theirs, or `times` as much."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, processes: Processes, times: float) -> torch.Tensor:
        ctx.processes, ctx.times = processes, times
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[torch.Tensor, None, None]:
        return _mean(gradient, ctx.processes) * ctx.times, None, None


def _mean(value: torch.Tensor, processes: Processes) -> torch.Tensor:
    value = value.contiguous().clone()
    if processes.size > 1:
        dist.all_reduce(value, group=processes.group)
    return value / processes.size


def load_balancing_loss(model: torch.nn.Module) -> torch.Tensor:
    """The loss that transformers computes from the router logits of all layers (`load_balancing_loss_func`, without a mask), for the tokens
    of all ranks in the last forward. Add it to the loss of each rank, times the model's `router_aux_loss_coef`. It has the gradients of
    the router and of the layers before. The model is one of replace_moe with `aux_loss=True`, of a family that has this loss.

    >>> loss = model(input_ids=tokens, labels=tokens).loss + model.config.router_aux_loss_coef * moeplan.torch.load_balancing_loss(model)
    """
    if not hasattr(sys.modules.get(type(model).__module__), "load_balancing_loss_func"):
        raise ValueError(f"expected a model whose family has a load-balancing loss in transformers but got {type(model).__name__}")
    modules: List[PlanModule] = [module for module in model.modules() if isinstance(module, BlockModule)]
    if not modules or any(module.router_input is None for module in modules):
        raise ValueError("expected a model of replace_moe with aux_loss=True, after a forward")
    choices, chances = 0, 0
    for module in modules:
        processes, times = module.halves.processes, module.gradient_share * module.token_shards
        router = _OfAllRanks.apply(module.gate, processes, times)
        logits = module.router_input @ router.to(module.router_input)
        if "gate_bias" in module.values:
            logits = logits + _OfAllRanks.apply(module.gate_bias, processes, times).to(logits)
        weights = torch.softmax(logits, dim=-1)
        chosen = torch.topk(weights, model.config.num_experts_per_tok, dim=-1).indices
        counts = torch.zeros(weights.shape[-1], dtype=weights.dtype, device=weights.device)
        counts.index_add_(0, chosen.flatten(), torch.ones_like(chosen.flatten(), dtype=weights.dtype))
        choices = choices + _mean(counts / weights.shape[0], processes)
        chances = chances + _MeanOfRanks.apply(weights.mean(dim=0), processes)
    return (choices * chances).sum() * len(chances) / len(modules) ** 2
