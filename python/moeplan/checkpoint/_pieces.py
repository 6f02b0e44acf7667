"""Checkpoints as tensors that are read and written in pieces, and the largest piece that was in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Mapping, Optional, Protocol, Tuple

import torch

Box = Tuple[Tuple[int, ...], Tuple[int, ...]]  #: two corners of a box, or where it begins and its lengths


@dataclass(frozen=True)
class Tensor:
    dtype: torch.dtype
    shape: Tuple[int, ...]


@dataclass(frozen=True)
class Piece:
    """A box of a tensor to write. `make` computes its values."""

    name: str
    dtype: torch.dtype
    offset: Tuple[int, ...]
    lengths: Tuple[int, ...]
    make: Callable[[], torch.Tensor]

    @property
    def bytes(self) -> int:
        return math.prod(self.lengths) * self.dtype.itemsize


@dataclass
class Largest:
    """The largest piece that was in memory."""

    bytes: int = 0
    tensor: str = ""

    def note(self, count: int, tensor: str) -> None:
        if count > self.bytes:
            self.bytes, self.tensor = count, tensor


class Reader(Protocol):
    """An open checkpoint."""

    folder: str

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """All tensors by name."""

    def read(self, name: str, offset: Tuple[int, ...], lengths: Tuple[int, ...]) -> torch.Tensor:
        """A box of a tensor."""


def common_box(offset: Tuple[int, ...], lengths: Tuple[int, ...], other: Tuple[int, ...], others: Tuple[int, ...]) -> Optional[Box]:
    """The corners of the box that two boxes share, or None."""
    low = tuple(map(max, offset, other))
    high = tuple(min(a + b, c + d) for a, b, c, d in zip(offset, lengths, other, others))
    return (low, high) if all(a < b for a, b in zip(low, high)) else None


def inside(offset: Tuple[int, ...], box: Box) -> Tuple[slice, ...]:
    """The place of the box with these corners in a tensor that begins at `offset`."""
    return tuple(slice(low - at, high - at) for at, low, high in zip(offset, *box))
