"""Options and results of convert(), which need no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

FORMATS = ("moeplan", "dcp", "torch_dist")


@dataclass(frozen=True)
class Adam:
    """Options of Adam, with the defaults of moe-compile. MoePlan's checkpoints have none, but Megatron takes those of its checkpoint."""

    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Conversion:
    """Report of convert(). `folder` is the checkpoint in the target, and `step` its number of steps. `tensors` and `bytes` count what was
    written. `largest_bytes` is the size of the largest piece that was in memory, a part of `largest_tensor`. `left` says what was not
    carried over."""

    folder: str
    step: int
    tensors: int
    bytes: int
    largest_bytes: int
    largest_tensor: str
    left: Tuple[str, ...]
