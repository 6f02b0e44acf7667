"""The caller's process group, with the functions that the runtime needs."""

from __future__ import annotations

import inspect
from typing import Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from .._plan import Group


def ranks_of(group: Group, rank: int) -> Tuple[int, ...]:
    """Ranks of the world in the instance of `group` that has `rank`, by member."""
    member = rank // group.stride % group.size
    first = rank - member * group.stride
    return tuple(first + other * group.stride for other in range(group.size))


class Processes:
    """Processes of a plan. Rank r of the plan is rank r of `process_group`, by default of the group of all processes. Exchanges use
    torch.distributed. Without it there is one rank."""

    _known: Dict[Tuple[int, ...], "dist.ProcessGroup"] = {}

    def __init__(self, process_group: Optional["dist.ProcessGroup"] = None) -> None:
        self.is_distributed = dist.is_available() and dist.is_initialized()
        self.group = process_group if process_group is not None or not self.is_distributed else dist.group.WORLD
        self.rank = dist.get_rank(self.group) if self.is_distributed else 0
        self.size = dist.get_world_size(self.group) if self.is_distributed else 1

    def close(self) -> None:
        self.group = None

    @staticmethod
    def forget_groups() -> None:
        """Releases the groups that plans share, after the last of them. Only all processes together can make such groups again."""
        Processes._known.clear()

    def prepare(self, groups: List[Group]) -> None:
        """Makes the groups in which the ranks of a plan meet. All processes call it with the same groups."""
        for group in groups:
            if group.size == 1:
                continue
            # torch needs all processes for each group, in the same order, including processes outside of the group.
            for ranks in sorted({ranks_of(group, rank) for rank in range(self.size)}):
                self._find(ranks)

    def _global(self, ranks: Tuple[int, ...]) -> Tuple[int, ...]:
        if self.group is None or self.group is dist.group.WORLD:
            return ranks
        return tuple(dist.get_global_rank(self.group, rank) for rank in ranks)

    def _find(self, ranks: Tuple[int, ...]) -> "dist.ProcessGroup":
        key = self._global(ranks)
        if len(ranks) == self.size:
            return self.group
        if key not in Processes._known:
            options = {}
            # If the plan has only some of the processes, the others do not take part.
            if self.size < dist.get_world_size():
                if "use_local_synchronization" not in inspect.signature(dist.new_group).parameters:
                    raise RuntimeError("expected a plan for all processes: this version of torch cannot make groups of only some processes")
                if self.rank not in ranks:
                    return None
                options["use_local_synchronization"] = True
            Processes._known[key] = dist.new_group(list(key), **options)
        return Processes._known[key]

    def all_to_all(self, ranks: List[int], send: memoryview, sent: List[int], receive: memoryview, received: List[int]) -> None:
        dist.all_to_all_single(_bytes(receive), _bytes(send), received, sent, group=self._find(tuple(ranks)))

    def all_gather(self, ranks: List[int], send: memoryview, receive: memoryview) -> None:
        parts = list(_bytes(receive).chunk(len(ranks))) if len(send) else []
        if parts:
            dist.all_gather(parts, _bytes(send), group=self._find(tuple(ranks)))

    def communicator(self, ranks: List[int]) -> int:
        """Address of the ncclComm_t of these ranks for the current device, which torch makes with the first collective."""
        group = self._find(tuple(ranks))
        backend = group._get_backend(torch.device("cuda"))
        if not hasattr(backend, "_comm_ptr"):
            raise RuntimeError(f"expected a process group of NCCL, in a version of torch that gives its communicator, but got {backend}")
        dist.all_reduce(torch.zeros(1, device="cuda"), group=group)
        address = backend._comm_ptr()
        if not address:
            raise RuntimeError(f"{backend} has no communicator for GPU {torch.cuda.current_device()} after a collective")
        return address

    def check_alike(self, what: str, text: str) -> None:
        """Raises an error on all processes if they do not all have the same text."""
        if not self.is_distributed or self.size == 1:
            return
        texts: List[Optional[str]] = [None] * self.size
        dist.all_gather_object(texts, text, group=self.group)
        for rank, other in enumerate(texts):
            if other != texts[0]:
                raise RuntimeError(f"expected the same {what} on all ranks, but rank 0 has {texts[0]} and rank {rank} has {other}")


def _bytes(view: memoryview) -> torch.Tensor:
    return torch.frombuffer(view, dtype=torch.uint8) if len(view) else torch.empty(0, dtype=torch.uint8)
