"""Converts checkpoints between the formats of MoePlan, PyTorch and Megatron."""

from __future__ import annotations

import os
from functools import partial
from typing import Dict, List, Optional, Sequence, Tuple

import torch

from .._errors import Error
from . import _torch_dist
from ._dcp import DcpReader, Path, write_dcp
from ._folder import FolderReader, write_folder
from ._layout import copy, split
from ._megatron import link_megatron
from ._model import read_model
from ._names import link_hugging_face
from ._pieces import Largest, Piece
from ._types import FORMATS, Adam, Conversion
from ._work import Target, Work, plan_export, plan_import


def run(source: str, target: str, *, to: str, plan: str, heads: Optional[int], piece_bytes: int, adam: Adam,
        expert_parallel: Optional[bool]) -> Conversion:
    """The work of convert()."""
    if to not in FORMATS:
        raise Error(f"to='{to}': expected one of {', '.join(FORMATS)}")
    folder, is_from = _find_checkpoint(source)
    if (is_from == "moeplan") == (to == "moeplan"):
        raise Error(f"'{source}' is a checkpoint in the format {is_from}: expected to convert it from or to moeplan, but got to='{to}'")
    if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise Error(f"'{target}': expected a new or empty folder, because checkpoints are not overwritten")
    model, largest = read_model(plan), Largest()
    if "torch_dist" in (is_from, to):
        links = link_megatron(model.parameters, heads)
    else:
        links = [link for parameter in model.parameters.values() for link in link_hugging_face(parameter)]
    if to == "moeplan":
        work = plan_import(model, links, is_from, DcpReader(folder, largest, piece_bytes))
    else:
        work = plan_export(model, links, to, FolderReader(folder, largest))
    pieces = [piece for name, one in work.targets.items() for piece in _cut(name, one, work, piece_bytes, largest)]
    if to == "torch_dist":
        chained = model.divides_experts if expert_parallel is None else expert_parallel
        written = _write_megatron(target, work, pieces, adam, chained)
    else:
        written = _write(target, to, work, pieces)
    return Conversion(written, work.step, len(work.targets), sum(one.bytes for one in pieces), largest.bytes, largest.tensor, tuple(work.left))


def _find_checkpoint(path: str) -> Tuple[str, str]:
    """The folder of the checkpoint in `path`, and its format."""
    for name, folder in (("latest", "{}"), (_torch_dist.LATEST, "iter_{:0>7}")):
        if os.path.exists(os.path.join(path, name)):
            with open(os.path.join(path, name), encoding="utf-8") as file:
                latest = file.read().strip()
            path = os.path.join(path, latest if latest == "release" else folder.format(latest))
            break
    for name, found in (("index.json", "moeplan"), (_torch_dist.METADATA, "torch_dist"), (".metadata", "dcp")):
        if os.path.exists(os.path.join(path, name)):
            return path, found
    raise Error(f"'{path}': expected a checkpoint, with 'index.json' (MoePlan), '{_torch_dist.METADATA}' (Megatron) or '.metadata' (PyTorch)")


def _cut(name: str, target: Target, work: Work, piece_bytes: int, largest: Largest) -> List[Piece]:
    dtype, shape = target.tensor.dtype, target.tensor.shape
    if not target.parts:
        return [Piece(name, dtype, (), (), lambda: torch.tensor(work.step, dtype=dtype))]

    def make(offset: Tuple[int, ...], lengths: Tuple[int, ...]) -> torch.Tensor:
        into = torch.empty(lengths, dtype=dtype)
        largest.note(into.nbytes, name)
        for side, source, common in target.parts:
            copy(side, source, common, offset, into, work.reader.read)
        return into

    boxes = split(shape, target.parts[0][0].steps, max(1, piece_bytes // dtype.itemsize))
    return [Piece(name, dtype, offset, lengths, partial(make, offset, lengths)) for offset, lengths in boxes]


def _write(target: str, to: str, work: Work, pieces: Sequence[Piece]) -> str:
    if to == "moeplan":
        return write_folder(target, work.step, pieces, work.tensors)
    paths: Dict[str, Path] = {}
    for name in work.targets:
        kind, rest = name.split(".", 1)
        paths[name] = (kind, rest) if kind == "model" else (kind, "state", *rest[len("state.") :].rsplit(".", 1))
    write_dcp(target, pieces, work.tensors, paths)
    return target


def _write_megatron(target: str, work: Work, pieces: Sequence[Piece], adam: Adam, chained: bool) -> str:
    folder = os.path.join(target, f"iter_{work.step:07d}")
    os.makedirs(folder)
    write_dcp(folder, pieces, work.tensors, {})
    _torch_dist.write_rest(folder, work.step, adam, chained)
    with open(os.path.join(target, _torch_dist.LATEST), "w", encoding="utf-8") as file:
        file.write(f"{work.step}\n")
    return folder
