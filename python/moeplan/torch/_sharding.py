"""Parts of values on ranks."""

from __future__ import annotations

from typing import List, Sequence, Tuple, Union

import torch
import torch.distributed as dist

from .._plan import Cut, Group, Value
from ._groups import Processes


def part_slices(value: Value, groups: Sequence[Group], rank: int) -> Tuple[Union[slice, torch.Tensor], ...]:
    """Position of the part of `rank` in the whole value. With sequences that "cp" divides, these are rows of several chunks."""
    by_name = {group.name: group for group in groups}
    slices: List[Union[slice, torch.Tensor]] = []
    for dim, names in enumerate(value.layout):
        index = 0
        for group in (by_name[name] for name in names):
            index = index * group.size + rank // group.stride % group.size
        size = value.local_shape[dim]
        if value.cut and names and names[-1] == "cp":
            slices.append(_cut_rows(value.cut, by_name["cp"].size, index, size))
        else:
            slices.append(slice(index * size, (index + 1) * size))
    return tuple(slices)


def _cut_rows(cut: Cut, members: int, index: int, size: int) -> torch.Tensor:
    """Rows of part `index`. Member r has chunk r of each sequence, and of twice as many chunks also the r-th from the end."""
    member, chunk = index % members, cut.sequence // cut.chunks
    own = [member] if cut.chunks == members else [member, cut.chunks - 1 - member]
    rows = torch.cat([torch.arange(at * chunk, (at + 1) * chunk) for at in own])
    starts = index // members * members * size + torch.arange(0, members * size, cut.sequence)
    return (starts[:, None] + rows).flatten()


def take_part(whole: torch.Tensor, value: Value, groups: Sequence[Group], rank: int) -> torch.Tensor:
    """A copy of the part of `rank`."""
    if tuple(whole.shape) != value.shape:
        raise ValueError(f"'{value.name}': expected shape {list(value.shape)} but got {list(whole.shape)}")
    return whole[part_slices(value, groups, rank)].clone(memory_format=torch.contiguous_format)


def is_divided(value: Value) -> bool:
    return value.shape != value.local_shape


def gather_parts(part: torch.Tensor, value: Value, groups: Sequence[Group], processes: Processes) -> torch.Tensor:
    """Gathers the whole value. All ranks call it."""
    if not is_divided(value):
        return part.detach().clone()
    parts = [torch.empty_like(part) for _ in range(processes.size)]
    dist.all_gather(parts, part.detach().contiguous(), group=processes.group)
    whole = part.new_empty(value.shape)
    for rank, one in enumerate(parts):
        whole[part_slices(value, groups, rank)] = one
    return whole


def count_copies(value: Value, world: int) -> int:
    """Number of ranks that hold each part."""
    parts = 1
    for whole, local in zip(value.shape, value.local_shape):
        parts *= whole // local
    return world // parts
