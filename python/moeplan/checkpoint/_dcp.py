"""Folders of torch.distributed.checkpoint (DCP), which are also Megatron's torch_dist, read and written in pieces."""

from __future__ import annotations

import dataclasses
import io
import warnings
from collections import OrderedDict
from typing import Any, Dict, List, Mapping, Sequence, Tuple, Union, cast

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import create_default_global_save_plan
from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties,
                                                   TensorStorageMetadata)
from torch.distributed.checkpoint.planner import (LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, TensorWriteData,
                                                  WriteItem, WriteItemType)

from .._errors import Error
from ._pieces import Largest, Piece, Tensor, common_box, inside

Path = Tuple[Union[str, int], ...]


class _Receiver:
    """The part of a LoadPlanner that FileSystemReader.read_data calls."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def resolve_tensor(self, item: ReadItem) -> torch.Tensor:
        return self.tensor

    def commit_tensor(self, item: ReadItem, tensor: torch.Tensor) -> None:
        pass


class DcpReader:
    """Reads a folder of DCP. A chunk is a box as it was saved. PyTorch reads a chunk as a whole. Chunks of at most `keep` bytes stay in
    memory until newer ones have twice as many."""

    def __init__(self, folder: str, largest: Largest, keep: int) -> None:
        self.folder, self._largest, self._keep = folder, largest, keep
        self._reader = dcp.FileSystemReader(folder)
        metadata = self._reader.read_metadata()
        self._reader.set_up_storage_reader(metadata, is_coordinator=True)
        self._stored = {name: one for name, one in metadata.state_dict_metadata.items() if isinstance(one, TensorStorageMetadata)}
        self.tensors = {name: Tensor(one.properties.dtype, tuple(one.size)) for name, one in self._stored.items()}
        #: Names of entries that are no tensors.
        self.objects: List[str] = sorted(set(metadata.state_dict_metadata) - set(self._stored))
        self._kept: OrderedDict[Tuple[str, Tuple[int, ...]], torch.Tensor] = OrderedDict()

    def read(self, name: str, offset: Tuple[int, ...], lengths: Tuple[int, ...]) -> torch.Tensor:
        result = torch.empty(lengths, dtype=self.tensors[name].dtype)
        missing = result.numel()
        for chunk in self._stored[name].chunks:
            if common := common_box(tuple(chunk.offsets), tuple(chunk.sizes), offset, lengths):
                into = result[inside(offset, common)]
                if chunk.sizes.numel() * result.itemsize <= self._keep:
                    into.copy_(self._read_whole(name, chunk)[inside(tuple(chunk.offsets), common)])
                else:
                    self._read_part(name, chunk, [at.start for at in inside(tuple(chunk.offsets), common)], into)
                missing -= into.numel()
        if missing > 0:
            raise Error(f"'{self.folder}': expected all elements of tensor '{name}' but {missing} of {list(lengths)} at {list(offset)} are in no chunk")
        self._largest.note(result.nbytes, name)
        return result

    def _read_whole(self, name: str, chunk: ChunkStorageMetadata) -> torch.Tensor:
        key = name, tuple(chunk.offsets)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        tensor = torch.empty(chunk.sizes, dtype=self.tensors[name].dtype)
        self._read_part(name, chunk, [0] * tensor.dim(), tensor)
        self._kept[key] = tensor
        while sum(one.nbytes for one in self._kept.values()) > 2 * self._keep:
            self._kept.popitem(last=False)
        return tensor

    def _read_part(self, name: str, chunk: ChunkStorageMetadata, first: Sequence[int], into: torch.Tensor) -> None:
        self._largest.note(chunk.sizes.numel() * into.itemsize, name)
        index = MetadataIndex(name, chunk.offsets)
        item = ReadItem(LoadItemType.TENSOR, index, torch.Size([0] * into.dim()), index, torch.Size(first), into.shape)
        self._reader.read_data(LoadPlan([item]), cast(LoadPlanner, _Receiver(into))).wait()


class _PieceSaver(SavePlanner):
    """Plans one chunk for each piece, and makes its values when they are written."""

    def __init__(self, pieces: Sequence[Piece], tensors: Mapping[str, Tensor], paths: Mapping[str, Path]) -> None:
        self._pieces = {MetadataIndex(one.name, torch.Size(one.offset)): one for one in pieces}
        self._tensors, self._paths = tensors, paths
        self._buffer = bytearray(max(one.bytes for one in pieces))

    def set_up_planner(self, state_dict: Dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False) -> None:
        pass

    def create_local_plan(self) -> SavePlan:
        return SavePlan([self._plan_item(index, piece) for index, piece in self._pieces.items()])

    def _plan_item(self, index: MetadataIndex, piece: Piece) -> WriteItem:
        chunk = ChunkStorageMetadata(torch.Size(piece.offset), torch.Size(piece.lengths))
        shape = torch.Size(self._tensors[piece.name].shape)
        return WriteItem(index, WriteItemType.SHARD, tensor_data=TensorWriteData(chunk, TensorProperties(dtype=piece.dtype), shape))

    def create_global_plan(self, all_plans: List[SavePlan]) -> Tuple[List[SavePlan], Metadata]:
        plans, metadata = create_default_global_save_plan(all_plans)
        return plans, dataclasses.replace(metadata, planner_data=dict(self._paths))

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO:
        # FileSystemWriter keeps the last chunk of each tensor until its file is complete, but reads it no more (PyTorch 2.15). So all chunks
        # lie in one buffer.
        values = self._pieces[write_item.index].make()
        return torch.frombuffer(self._buffer, dtype=values.dtype, count=values.numel()).view(values.shape).copy_(values)


def write_dcp(folder: str, pieces: Sequence[Piece], tensors: Mapping[str, Tensor], paths: Mapping[str, Path]) -> None:
    """Writes a folder. `paths` has the keys of the nested state dict by the names of tensors."""
    writer = dcp.FileSystemWriter(folder, thread_count=1, per_thread_copy_ahead=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        dcp.save({}, storage_writer=writer, planner=_PieceSaver(pieces, tensors, paths), no_dist=True)
