"""MoePlan's checkpoints in many files (docs/Checkpoints.md): reads boxes of tensors, and writes tensors piece by piece."""

from __future__ import annotations

import json
import math
import os
import struct
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

import numpy as np
import torch

from .._errors import Error
from ._pieces import Largest, Piece, Tensor, common_box, inside

_VERSION = 1
#: Most bytes of data in a file, as moe-run writes it.
FILE_BYTES = 5_000_000_000

DTYPES = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "I32": torch.int32}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class _Box:
    """A box of a tensor whose elements lie one after another in a file."""

    path: str
    entry: str  #: tensor of the file
    first: int  #: first element in the entry
    offset: Tuple[int, ...]
    lengths: Tuple[int, ...]


class FolderReader:
    """Reads a checkpoint `step-..`."""

    def __init__(self, folder: str, largest: Largest) -> None:
        self.folder, self._largest = folder, largest
        index = _read_json(os.path.join(folder, "index.json"))
        if index.get("moeplan_checkpoint") != _VERSION:
            raise Error(f"'{folder}/index.json': expected version {_VERSION} of 'moeplan_checkpoint' but got {index.get('moeplan_checkpoint')}")
        self.step: int = index["step"]
        self.tensors = {name: Tensor(DTYPES[one["dtype"]], tuple(one["shape"])) for name, one in index["tensors"].items()}
        self._boxes = {name: list(self._find_boxes(name, one, index["files"])) for name, one in index["tensors"].items()}
        self._headers: Dict[str, Tuple[int, Mapping[str, Any]]] = {}

    def _find_boxes(self, name: str, tensor: Mapping[str, Any], files: Sequence[str]) -> Iterator[_Box]:
        for block in tensor["blocks"]:
            offset, lengths = block["offset"], block["lengths"]
            begin, end = block.get("range", (0, math.prod(lengths)))
            entry = _entry_name(name, offset, lengths) + (f".flat[{begin}:{end}]" if "range" in block else "")
            for first, inner, size in _split_range(tuple(lengths), begin, end):
                yield _Box(os.path.join(self.folder, files[block["file"]]), entry, first - begin,
                           tuple(map(sum, zip(offset, inner))), size)

    def read(self, name: str, offset: Tuple[int, ...], lengths: Tuple[int, ...]) -> torch.Tensor:
        dtype = self.tensors[name].dtype
        result, missing = torch.empty(lengths, dtype=dtype), math.prod(lengths)
        for box in self._boxes[name]:
            if common := common_box(box.offset, box.lengths, offset, lengths):
                into = result[inside(offset, common)]
                # A copy, because PyTorch warns of arrays that it cannot write to.
                into.copy_(torch.from_numpy(np.array(self._map(box, dtype.itemsize)[inside(box.offset, common)])).view(dtype))
                missing -= into.numel()
        if missing > 0:
            raise Error(f"'{self.folder}': expected all elements of tensor '{name}' but {missing} of {list(lengths)} at {list(offset)} are in no file")
        self._largest.note(result.nbytes, name)
        return result

    def _map(self, box: _Box, width: int) -> "np.ndarray[Any, Any]":
        if box.path not in self._headers:
            with open(box.path, "rb") as file:
                (size,) = struct.unpack("<Q", file.read(8))
                self._headers[box.path] = 8 + size, json.loads(file.read(size))
        data, header = self._headers[box.path]
        if box.entry not in header:
            raise Error(f"'{box.path}': expected tensor '{box.entry}', as 'index.json' says, but it is not there")
        integer = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[width]
        begin = data + header[box.entry]["data_offsets"][0] + box.first * width
        bytes_of_box: Any = np.memmap(box.path, np.uint8, "r", begin, (math.prod(box.lengths) * width,))
        return np.asarray(bytes_of_box.view(integer).reshape(box.lengths))


def write_folder(folder: str, step: int, pieces: Sequence[Piece], tensors: Mapping[str, Tensor]) -> str:
    """Writes the checkpoint `step-..` of the folder, and names it in `latest` at the end."""
    name = f"step-{step:08d}"
    os.makedirs(os.path.join(folder, name))
    files: List[str] = []
    blocks: Dict[str, List[Mapping[str, Any]]] = {one: [] for one in tensors}
    for group in _group(pieces):
        files.append(f"rank-00000-{len(files) + 1:05d}.safetensors")
        _write_file(os.path.join(folder, name, files[-1]), group)
        for piece in group:
            blocks[piece.name].append({"file": len(files) - 1, "offset": piece.offset, "lengths": piece.lengths})
    index = {"moeplan_checkpoint": _VERSION, "step": step, "data": {"seed": 0, "tokens": 0, "step_tokens": 0}, "files": files,
             "tensors": {one: {"dtype": _NAMES[tensor.dtype], "shape": tensor.shape, "blocks": blocks[one]} for one, tensor in sorted(tensors.items())}}
    _write_text(os.path.join(folder, name, "index.json"), json.dumps(index, separators=(",", ":")) + "\n")
    _write_text(os.path.join(folder, "latest"), name + "\n")
    return os.path.join(folder, name)


def _group(pieces: Sequence[Piece]) -> Iterator[List[Piece]]:
    """Pieces of one file each."""
    group: List[Piece] = []
    size = 0
    for piece in pieces:
        if group and size + piece.bytes > FILE_BYTES:
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece.bytes
    yield group


def _write_file(path: str, pieces: Sequence[Piece]) -> None:
    header, at = {}, 0
    for piece in pieces:
        header[_entry_name(piece.name, piece.offset, piece.lengths)] = {
            "dtype": _NAMES[piece.dtype], "shape": piece.lengths, "data_offsets": [at, at + piece.bytes]}
        at += piece.bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for piece in pieces:
            file.write(piece.make().reshape(-1).view(torch.uint8).numpy().data)
        file.flush()
        os.fsync(file.fileno())


def _entry_name(name: str, offset: Sequence[int], lengths: Sequence[int]) -> str:
    return name + "[" + ", ".join(f"{first}:{first + length}" for first, length in zip(offset, lengths)) + "]"


def _split_range(lengths: Tuple[int, ...], begin: int, end: int) -> Iterator[Tuple[int, Tuple[int, ...], Tuple[int, ...]]]:
    """Boxes that together are elements [begin, end) of a box in row-major order. Each has its first element, its offset and its lengths."""
    if begin >= end:
        return
    if not lengths:
        yield begin, (), ()
        return
    row = math.prod(lengths[1:])
    first, last = -(-begin // row), end // row
    if first > last:
        parts = [(first - 1, begin, end)]
    else:
        parts = [(first - 1, begin, first * row), (last, last * row, end)]
        if first < last:
            yield first * row, (first, *[0] * (len(lengths) - 1)), (last - first, *lengths[1:])
    for index, low, high in parts:
        for at, offset, size in _split_range(lengths[1:], low - index * row, high - index * row):
            yield index * row + at, (index, *offset), (1, *size)


def _read_json(path: str) -> Mapping[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            result: Mapping[str, Any] = json.load(file)
            return result
    except (OSError, ValueError) as error:
        raise Error(f"'{path}': {error}") from error


def _write_text(path: str, text: str) -> None:
    partial = path + ".partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
