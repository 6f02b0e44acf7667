"""Elements that a tensor of a plan and a tensor of another format share, and copies of them in pieces.

A dimension of a tensor is a product of axes, outermost first. Each axis has a name, a letter. For example, the columns of a plan's `w1`
are "hg": column 2 h + g is column h of the gate (g = 0) or of the up projection (g = 1). In Megatron, the rows of `linear_fc1` are "gh".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Callable, Iterator, List, Mapping, Sequence, Tuple

import torch

from ._pieces import Box

Read = Callable[[str, Tuple[int, ...], Tuple[int, ...]], torch.Tensor]  #: reads a box of a tensor

# Largest ratio of elements that are read to those that are used. Above it, a box is read in several parts.
_MOST_READ = 4


@dataclass(frozen=True)
class Side:
    """A tensor. `dims` has the axes of each dimension, `sizes` the length of each axis. `starts` says where the common elements begin
    in an axis, if not at 0."""

    tensor: str
    dims: Tuple[str, ...]
    sizes: Mapping[str, int]
    starts: Mapping[str, int] = field(default_factory=dict)

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(math.prod(self.sizes[axis] for axis in dim) for dim in self.dims)

    @property
    def steps(self) -> Tuple[int, ...]:
        """For each dimension, the length of one index of its outermost axis."""
        return tuple(math.prod(self.sizes[axis] for axis in dim[1:]) for dim in self.dims)


@dataclass(frozen=True)
class Link:
    """Elements that two tensors share. `common` has their number along each axis. It is 1 for an axis that only one of both has."""

    plan: Side
    other: Side
    common: Mapping[str, int]


def split(shape: Sequence[int], steps: Sequence[int], most: int) -> Iterator[Box]:
    """Divides a tensor into boxes of at most `most` elements, or of one step in each dimension. Boxes begin at multiples of steps."""
    if not shape:
        yield (), ()
        return
    rest = math.prod(shape[1:])
    fits = steps[0] * rest <= most or len(shape) == 1
    rows = max(steps[0], most // max(rest, 1) // steps[0] * steps[0]) if fits else steps[0]
    for first in range(0, shape[0], rows):
        count = min(rows, shape[0] - first)
        inner = [((0,) * (len(shape) - 1), tuple(shape[1:]))] if fits else split(shape[1:], steps[1:], max(1, most // count))
        for offset, lengths in inner:
            yield (first, *offset), (count, *lengths)


def copy(target: Side, source: Side, common: Mapping[str, int], offset: Sequence[int], into: torch.Tensor, read: Read) -> None:
    """Copies the common elements that lie in the box of `target` at `offset`, which `into` holds. The box is one of split()."""
    ranges = {axis: (0, count) for axis, count in common.items()}
    shape: List[int] = []
    places: List[slice] = []
    for dim, step, first, length in zip(target.dims, target.steps, offset, into.shape):
        begin, end = first // step, (first + length) // step
        for axis in dim:
            start = target.starts.get(axis, 0)
            if axis == dim[0]:
                low, high = max(begin, start), min(end, start + common[axis])
                if low >= high:
                    return
                ranges[axis] = (low - start, high - start)
                shape.append(end - begin)
                places.append(slice(low - begin, high - begin))
            else:
                shape.append(target.sizes[axis])
                places.append(slice(start, start + common[axis]))
    part = _take(source, ranges, read)
    axes, wanted = "".join(source.dims), "".join(target.dims)
    for axis in set(axes) - set(wanted):
        part = part.select(axes.index(axis), 0)
        axes = axes.replace(axis, "")
    for axis in set(wanted) - set(axes):
        part, axes = part.unsqueeze(0), axis + axes
    into.view(shape)[tuple(places)].copy_(part.permute([axes.index(axis) for axis in wanted]))


def _take(side: Side, ranges: Mapping[str, Tuple[int, int]], read: Read) -> torch.Tensor:
    """The elements of `ranges`, with one dimension for each axis."""
    for dim in side.dims:
        axis, inner = _outermost_range(dim, ranges)
        used = math.prod(ranges[one][1] - ranges[one][0] for one in inner)
        if axis and math.prod(side.sizes[one] for one in inner) > _MOST_READ * used and ranges[axis][1] - ranges[axis][0] > 1:
            parts = [_take(side, {**ranges, axis: (index, index + 1)}, read) for index in range(*ranges[axis])]
            return torch.cat(parts, dim="".join(side.dims).index(axis))
    offset: List[int] = []
    lengths: List[int] = []
    shape: List[int] = []
    places: List[slice] = []
    for dim, step in zip(side.dims, side.steps):
        axis, inner = _outermost_range(dim, ranges)
        first = 0
        for one in dim:
            low, high = (bound + side.starts.get(one, 0) for bound in ranges[one])
            stride = math.prod(side.sizes[other] for other in dim[dim.index(one) + 1 :])
            if one in inner:
                shape.append(side.sizes[one])
                places.append(slice(low, high))
            else:
                first += low * stride
                shape.append(high - low)
                places.append(slice(None))
        stride = math.prod(side.sizes[one] for one in inner)
        offset.append(first)
        lengths.append((ranges[axis][1] - ranges[axis][0]) * stride)
    return read(side.tensor, tuple(offset), tuple(lengths)).view(shape)[tuple(places)]


def _outermost_range(dim: str, ranges: Mapping[str, Tuple[int, int]]) -> Tuple[str, str]:
    """The first axis with more than one index, or the last one, and the axes inside it."""
    at = next((at for at, axis in enumerate(dim) if ranges[axis][1] - ranges[axis][0] > 1), len(dim) - 1)
    return dim[at], dim[at + 1 :]
