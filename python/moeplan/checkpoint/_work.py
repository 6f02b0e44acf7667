"""Plans a conversion: the tensors to write, and the values that each is made of."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Callable, Dict, Iterable, List, Mapping, Sequence, Tuple

import torch

from .._errors import Error
from . import _torch_dist
from ._dcp import DcpReader
from ._folder import FolderReader
from ._layout import Link, Side
from ._model import ENDS, FIRST, MASTER, SECOND, WEIGHT, Model, values_of
from ._pieces import Reader, Tensor

# Names of a parameter's values in the other formats, where {} is its tensor. If there is a copy in f32, it is PyTorch's weight.
_NAMES: Mapping[str, Mapping[str, str]] = {
    "dcp": {MASTER: "model.{}", WEIGHT: "model.{}", FIRST: "optimizer.state.{}.exp_avg", SECOND: "optimizer.state.{}.exp_avg_sq"},
    "torch_dist": {MASTER: "optimizer.state.param.{}", WEIGHT: "{}", FIRST: "optimizer.state.exp_avg.{}",
                   SECOND: "optimizer.state.exp_avg_sq.{}"},
}
_STEP = "optimizer.state.{}.step"  # in DCP


@dataclass(frozen=True)
class Target:
    """A tensor to write. Its values are those of the sources in `parts`: a side of the target, one of the source, and the number of
    their common elements along each axis. A target without parts is the number of steps."""

    tensor: Tensor
    parts: Sequence[Tuple[Side, Side, Mapping[str, int]]]


@dataclass(frozen=True)
class Work:
    """A conversion. `left` says what is not carried over."""

    reader: Reader
    step: int
    targets: Mapping[str, Target]
    left: Sequence[str]

    @property
    def tensors(self) -> Dict[str, Tensor]:
        return {name: one.tensor for name, one in self.targets.items()}


def plan_export(model: Model, links: Iterable[Link], to: str, reader: FolderReader) -> Work:
    """Makes the tensors of another format of a checkpoint of MoePlan."""
    for name in sorted({*reader.tensors, *model.values}):
        if reader.tensors.get(name) != model.values.get(name):
            raise Error(f"'{reader.folder}': tensor '{name}': expected {_say(model.values.get(name))} by the plan but the checkpoint has "
                        f"{_say(reader.tensors.get(name))}")
    targets: Dict[str, Target] = {}
    for tensor, found in _group(links, lambda link: link.other.tensor).items():
        shape, names = found[0].other.shape, ", ".join(f"'{link.plan.tensor}'" for link in found)
        if sum(math.prod(link.common.values()) for link in found) != math.prod(shape):
            raise Error(f"'{tensor}': expected parameters with all elements of shape {list(shape)}, but {names} have more or fewer")
        for end, name in _NAMES[to].items():
            stored = _find_stored(model, found[0].plan.tensor, end, to)
            dtypes = {model.values.get(link.plan.tensor + stored, Tensor(torch.int32, ())).dtype for link in found}
            if len(dtypes) > 1:
                raise Error(f"'{tensor}': expected {names} of one type and all with '{stored}', or none")
            if found[0].plan.tensor + stored in model.values and name.format(tensor) not in targets:
                parts = [(link.other, _rename(link.plan, link.plan.tensor + stored), link.common) for link in found]
                targets[name.format(tensor)] = Target(Tensor(dtypes.pop(), shape), parts)
        if to == "dcp" and found[0].plan.tensor + FIRST in model.values:
            targets[_STEP.format(tensor)] = Target(Tensor(torch.float32, ()), [])
    return Work(reader, reader.step, targets, ["the learning rate, and the position in the data"])


def _find_stored(model: Model, parameter: str, end: str, to: str) -> str:
    """The value that becomes the one that `end` stands for. Megatron's distributed optimizer has copies in f32 of all that it changes, also
    of weights that are f32."""
    is_copy = to == "torch_dist" and end == MASTER and parameter + FIRST in model.values
    return WEIGHT if is_copy and parameter + MASTER not in model.values else end


def plan_import(model: Model, links: Iterable[Link], is_from: str, reader: DcpReader) -> Work:
    """Makes the values of a checkpoint of MoePlan of another format."""
    of_parameter = _group(links, lambda link: link.plan.tensor)
    targets = {"step": Target(model.values["step"], [])}
    for parameter, end in values_of(model):
        parts = []
        for link in of_parameter[parameter]:
            name = _NAMES[is_from][end].format(link.other.tensor)
            if is_from == "torch_dist" and end == MASTER and name not in reader.tensors:
                # Optimizers that are not distributed have another name for it.
                name = f"optimizer.state.fp32_param.{link.other.tensor}"
            # PyTorch's weight is the copy in f32, of which the parameter is rounded.
            stored = MASTER if is_from == "dcp" and end == WEIGHT and parameter + MASTER in model.values else end
            _check_source(reader, name, link.other, model.values[parameter + stored].dtype, parameter + end)
            parts.append((_rename(link.plan, parameter + end), _rename(link.other, name), link.common))
        targets[parameter + end] = Target(model.values[parameter + end], parts)
    step = _torch_dist.read_step(reader.folder) if is_from == "torch_dist" else _read_step(reader)
    return Work(reader, step, targets, _list_left(reader, is_from, targets))


def _check_source(reader: DcpReader, name: str, side: Side, dtype: torch.dtype, value: str) -> None:
    if name not in reader.tensors:
        raise Error(f"'{reader.folder}': expected tensor '{name}', of which '{value}' is made, but it is not there")
    has = reader.tensors[name]
    if has.dtype != dtype or (has.shape != side.shape and not _is_padded(has, side)):
        raise Error(f"'{reader.folder}': tensor '{name}': expected {_say(Tensor(dtype, side.shape))} but got {_say(has)}")


def _is_padded(tensor: Tensor, side: Side) -> bool:
    """Whether the tensor is the side, with more rows. Megatron pads the vocabulary."""
    return side.dims[:1] == ("v",) and tensor.shape[1:] == side.shape[1:] and tensor.shape[0] > side.shape[0]


def _read_step(reader: DcpReader) -> int:
    steps = {int(reader.read(name, (), ())): name for name in sorted(reader.tensors) if _is_step(name)}
    if len(steps) != 1:
        found = ", ".join(f"{step} ('{name}')" for step, name in steps.items()) or "none"
        raise Error(f"'{reader.folder}': expected one number of steps in all '{_STEP.format('*')}' but got {found}")
    return next(iter(steps))


def _is_step(name: str) -> bool:
    return name.startswith("optimizer.state.") and name.endswith(".step")


def _list_left(reader: DcpReader, is_from: str, targets: Mapping[str, Target]) -> List[str]:
    """Lists entries that a checkpoint of MoePlan cannot have. Unknown tensors of the model or of the optimizer are an error."""
    sources = {source.tensor: source for target in targets.values() for _, source, _ in target.parts}
    rest = sorted(set(reader.tensors) - set(sources))
    if is_from == "dcp":
        rest = [name for name in rest if not _is_step(name)]
        unknown = [name for name in rest if name.startswith(("model.", "optimizer.state."))]
    else:
        # Copies in f32 of weights that are f32.
        copies = {f"optimizer.state.{kind}.{name}" for kind in ("param", "fp32_param") for name in sources}
        unknown = rest = [name for name in rest if name not in copies]
    if unknown:
        raise Error(f"'{reader.folder}': expected tensors that the plan has parameters for but got {_shorten(unknown)}")
    padded = sorted(name for name, side in sources.items() if _is_padded(reader.tensors[name], side))
    left = rest + reader.objects
    return ([_shorten(left)] if left else []) + ([f"rows of padding in {_shorten(padded)}"] if padded else [])


def _shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"'{name}'" for name in names[:3]) + more


def _group(links: Iterable[Link], key: Callable[[Link], str]) -> Dict[str, List[Link]]:
    groups: Dict[str, List[Link]] = {}
    for link in links:
        groups.setdefault(key(link), []).append(link)
    return groups


def _rename(side: Side, tensor: str) -> Side:
    return dataclasses.replace(side, tensor=tensor)


def _say(tensor: Tensor | None) -> str:
    return f"{tensor.dtype} of shape {list(tensor.shape)}" if tensor else "no such tensor"
