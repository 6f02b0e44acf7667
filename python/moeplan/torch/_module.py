"""The layer, and its two operators of torch."""

from __future__ import annotations

import math
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch

from .._plan import Plan, Value
from ._halves import _TYPES, Halves
from ._sharding import take_part
from ._weights import Weight


def _forward(x: torch.Tensor, parameters: List[torch.Tensor], key: int) -> List[torch.Tensor]:
    return Halves.by_key(key).pair_for(x.shape[0]).run_forward(x, parameters)


def _backward(cotangents: List[torch.Tensor], x: torch.Tensor, parameters: List[torch.Tensor], results: List[torch.Tensor],
              key: int) -> List[torch.Tensor]:
    return Halves.by_key(key).pair_for(x.shape[0]).run_backward(cotangents, x, parameters, results)


# The operators have shapes for torch.compile and torch.export, if this version of torch has them.
if hasattr(torch.library, "custom_op"):
    _forward = torch.library.custom_op("moeplan::forward", _forward, mutates_args=())
    _backward = torch.library.custom_op("moeplan::backward", _backward, mutates_args=())

    @_forward.register_fake
    def _(x: torch.Tensor, parameters: List[torch.Tensor], key: int) -> List[torch.Tensor]:
        return Halves.by_key(key).pair_for(int(x.shape[0])).forward.empty_results(x)

    @_backward.register_fake
    def _(cotangents: List[torch.Tensor], x: torch.Tensor, parameters: List[torch.Tensor], results: List[torch.Tensor],
          key: int) -> List[torch.Tensor]:
        return Halves.by_key(key).pair_for(int(x.shape[0])).backward.empty_results(x)


class _Run(torch.autograd.Function):
    """Computes the outputs of a plan. The backward multiplies the gradients of outputs by `shares`, and divides that of the input by `share`.
    Each rank has a loss of its own outputs, and their mean is meant. The auxiliary loss is one value of all ranks."""

    @staticmethod
    def forward(ctx: Any, key: int, shares: Tuple[float, ...], share: float, x: torch.Tensor,
                *parameters: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        results = _forward(x, list(parameters), key)
        ctx.key, ctx.shares, ctx.share = key, shares, share
        ctx.count = len(parameters)
        ctx.save_for_backward(x, *parameters, *results)
        return tuple(results[:len(shares)])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        x, *saved = ctx.saved_tensors
        parameters, results = saved[: ctx.count], saved[ctx.count :]
        pair = Halves.by_key(ctx.key).pair_for(x.shape[0])
        # The gradients of parameters are linear in the cotangents, which are smaller. The input's own gradient is no mean.
        given = [one if share == 1 else one * share for one, share in zip(cotangents, ctx.shares)]
        gradients = dict(zip(pair.gradients, _backward([one.contiguous() for one in given], x, parameters, results, ctx.key)))
        if ctx.share != 1 and "grad." + pair.input.name in gradients:
            gradients["grad." + pair.input.name].mul_(1 / ctx.share)
        return (None, None, None, gradients.get("grad." + pair.input.name),
                *(gradients.get("grad." + value.name) for value in pair.parameters))


class PlanModule(torch.nn.Module):
    """A Mixture-of-Experts layer that a plan computes: [.., M] to [.., M], with the tokens that the plan has for a rank.

    `plan` is one of `moe-compile --halves --residual=false`, or Halves that several layers share. `process_group` has one process for
    each rank of the plan. The parameters are this rank's parts. They have the names of docs/Checkpoints.md without "layer0.", such as `gate`,
    `w1` and `w2`. Random values are the same parts of the same whole on all ranks.

    The backward also adds up the gradients of parameters over ranks. `gradients="mean"` divides them by the number of data-parallel ranks,
    as DistributedDataParallel does. So the loss of a rank is the mean over its own tokens. With "sum" they are sums. These parameters need
    no DistributedDataParallel, which leaves them out. FSDP must be told to: `ignored_states` (FullyShardedDataParallel) or `ignored_params`
    (fully_shard) are the parameters of all PlanModules. Otherwise the first forward is an error.

    `aux_loss=True` keeps the layer's auxiliary loss of the last forward in `aux_loss`, to be added to the loss. It is the mean over all
    ranks.

    >>> layer = moeplan.torch.PlanModule("layer.so")
    >>> y = layer(torch.randn(512, 768))
    """

    def __init__(self, plan: Union[str, "os.PathLike[str]", Plan, Halves], process_group: Optional["torch.distributed.ProcessGroup"] = None,
                 *, device: Union[str, torch.device] = "cpu", gradients: str = "mean", aux_loss: bool = False, workers: int = 1, seed: int = 0) -> None:
        super().__init__()
        self.halves = plan if isinstance(plan, Halves) else Halves(plan, process_group, device, workers)
        if gradients not in ("mean", "sum"):
            raise ValueError(f"expected gradients='mean' or 'sum' but got {gradients!r}")
        pair = self.halves.any_pair
        #: Number of parts of the tokens, each of which some ranks have.
        self.token_shards = pair.variant.parallel["dp"] * pair.variant.parallel.get("cp", 1)
        #: Factor of the gradients of a rank's own outputs.
        self.gradient_share = 1 / self.token_shards if gradients == "mean" else 1.0
        self._outputs = [value.name for value in pair.outputs]
        self.keeps_aux = aux_loss and "aux" in self._outputs
        #: The auxiliary loss of the last forward, if it is kept.
        self.aux_loss: Optional[torch.Tensor] = None
        #: Weights from which replace_moe made the parameters, by the names of this module.
        self.weights: Dict[str, Weight] = {}
        #: The plan's parameters, by the names of this module.
        self.values: Dict[str, Value] = {value.name.replace("layer0.", "").replace(".", "_"): value for value in pair.parameters}
        # Parameters as they were made. FSDP puts others in their place.
        self._own: Dict[str, torch.nn.Parameter] = {}
        for name, value in self.values.items():
            part = torch.empty(value.local_shape, dtype=_TYPES[value.dtype], device=self.halves.device)
            if "grad." + value.name in pair.gradients:
                self.register_parameter(name, torch.nn.Parameter(part))
                self._own[name] = getattr(self, name)
            else:
                self.register_buffer(name, part)
        self.reset_parameters(seed)

    def reset_parameters(self, seed: int = 0) -> None:
        """Sets normal random numbers, of standard deviation 1/sqrt(rows), for matrices, and zeros for vectors."""
        generator = torch.Generator().manual_seed(seed)
        for name, value in self.values.items():
            is_bias = len(value.shape) == 1 or name in ("b1", "b2")
            whole = torch.zeros(value.shape, dtype=torch.float64) if is_bias else torch.randn(value.shape, generator=generator,
                                                                                              dtype=torch.float64)
            self.load_whole(name, whole if is_bias else whole / math.sqrt(value.shape[-2]))

    def load_whole(self, name: str, whole: torch.Tensor) -> None:
        """Sets this rank's part of a parameter or buffer from the whole value."""
        with torch.no_grad():
            variant, rank = self.halves.any_pair.variant, self.halves.processes.rank
            getattr(self, name).copy_(take_part(whole, self.values[name], variant.groups, rank))

    def _check_parts(self) -> None:
        """FSDP would cut the parts again, and gather a mixture of all ranks' parts."""
        if getattr(self, "_is_fsdp_managed_module", False) and any(getattr(self, name) is not own for name, own in self._own.items()):
            raise RuntimeError("expected FSDP to leave out the parameters of PlanModules, which are another part on each rank: give "
                               "ignored_states= to FullyShardedDataParallel, or ignored_params= to fully_shard, with the parameters of all "
                               "PlanModules")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._check_parts()
        rows = x.reshape(-1, x.shape[-1])
        share = self.gradient_share
        shares = tuple(share * self.token_shards if name == "aux" else share for name in self._outputs)
        outputs = _Run.apply(self.halves.key, shares, share, rows, *(getattr(self, name) for name in self.values))
        if self.keeps_aux:
            self.aux_loss = outputs[self._outputs.index("aux")]
        return outputs[self._outputs.index("y")].reshape(x.shape)

    def extra_repr(self) -> str:
        variant = self.halves.any_pair.variant
        groups = ", ".join(f"{name}={size}" for name, size in variant.parallel.items() if size > 1)
        return f"{variant.schedule}, {groups or 'one rank'}, {variant.dtype}, tokens={sorted(self.halves.pairs)}"
