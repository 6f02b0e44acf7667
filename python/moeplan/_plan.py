"""Open plans, and their metadata."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Mapping, Optional

from . import _runtime
from ._errors import Error

_BYTES = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2, "i32": 4}


@dataclass(frozen=True)
class Cut:
    """Division of sequences of `sequence` rows by the group "cp", into `chunks` equal chunks each. Member r of n has chunk r, and of 2 n
    chunks also chunk 2 n - 1 - r."""

    sequence: int
    chunks: int


@dataclass(frozen=True)
class Value:
    """An argument or a result. `shape` is the shape of the whole value, `local_shape` that of a rank's part. `layout` has the groups
    that divide each dimension. `updated`: a step overwrites the argument. `cut` says which rows a rank has if "cp" divides sequences.
    `fields` has all keys of the metadata."""

    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    local_shape: tuple[int, ...]
    layout: tuple[tuple[str, ...], ...]
    updated: bool
    cut: Optional[Cut]
    fields: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def local_bytes(self) -> int:
        """Bytes of a rank's part."""
        return math.prod(self.local_shape) * _BYTES[self.dtype]


@dataclass(frozen=True)
class Group:
    """A group of ranks. Rank r is member (r // stride) % size."""

    name: str
    size: int
    stride: int


@dataclass(frozen=True)
class Program:
    """Program of the ranks from `first_rank` on. `arenas` are bytes by the kind of memory."""

    symbol: str
    first_rank: int
    ranks: int
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]
    arenas: Mapping[str, int]
    streams: tuple[str, ...]
    ops: tuple[Mapping[str, Any], ...] = field(repr=False)

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of one rank: "arguments", "results" and the arenas, such as "device"."""
        return {"arguments": sum(one.local_bytes for one in self.arguments), "results": sum(one.local_bytes for one in self.results),
                **self.arenas}


@dataclass(frozen=True)
class Variant:
    """Programs for one shape. `half` is "forward" or "backward" if they are one half of a step (moe-compile --halves), else None.
    `batch` and `sequence` are None in a plan with a single shape. `layers` says what the MoE layers compute, apart from sizes, capacities
    and schedules: different texts, none in a plan of older versions or in text. `reference` is the program of one rank with which runs
    are compared, or None."""

    half: str | None
    batch: int | None
    sequence: int | None
    world: int
    parallel: Mapping[str, int]
    schedule: str
    mode: str
    dtype: str
    layers: tuple[str, ...]
    groups: tuple[Group, ...]
    programs: tuple[Program, ...]
    reference: Program | None

    @property
    def arguments(self) -> dict[str, Value]:
        """Arguments by name. In a pipeline these are those of all stages."""
        return {one.name: one for program in self.programs for one in program.arguments}

    @property
    def results(self) -> dict[str, Value]:
        """Results by name. In a pipeline these are those of all stages."""
        return {one.name: one for program in self.programs for one in program.results}

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of the rank that needs the most: "arguments", "results" and the arenas, such as "device"."""
        return max((program.memory for program in self.programs), key=lambda memory: sum(memory.values()))


class Plan:
    """An open plan .so. A plan is code: open only plans that you trust.

    >>> with moeplan.Plan("plan.so") as plan:
    ...     print(plan.world, plan.arguments["x"].local_shape)
    4 (512, 768)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.handle = _runtime.Plan(self.path)
        #: Metadata of the plan, with the keys of docs/PlanFormat.md.
        self.metadata: dict[str, Any] = json.loads(self.handle.metadata())
        self.variants = tuple(map(_make_variant, self.metadata.get("variants", [self.metadata])))

    def choose(self, batch: int, sequence: int) -> Variant:
        """Variant for `batch` sequences of `sequence` tokens on each data-parallel rank. Raises an error if the plan has none."""
        return self.variants[self.handle.choose(batch, sequence)]

    @property
    def only_variant(self) -> Variant:
        """The only variant of a plan, whose groups, programs and so on are those of the plan."""
        if len(self.variants) != 1:
            shapes = ", ".join(f"({one.batch}, {one.sequence})" for one in self.variants)
            raise Error(f"expected a plan of one variant but '{self.path}' has {len(self.variants)}, for (batch, sequence) {shapes}; use "
                        "choose(batch, sequence), or variants")
        return self.variants[0]

    def close(self) -> None:
        """Closes the plan. May be called again."""
        self.handle.close()

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        lines = [f"plan '{self.path}'" + (", closed" if self.handle.is_closed else "")]
        for one in self.variants:
            shape = f"batch {one.batch}, sequence {one.sequence}: " if one.batch is not None else ""
            memory = ", ".join(f"{name} {size} bytes" for name, size in one.memory.items())
            groups = ", ".join(f"{name} {size}" for name, size in one.parallel.items())
            lines.append(f"{shape}{one.schedule}, {one.mode}, {one.dtype}, world of {one.world} ({groups}); memory of a rank: {memory}")
        return "\n".join(lines)

    @property
    def world(self) -> int:
        """The number of ranks."""
        return self.only_variant.world

    @property
    def parallel(self) -> Mapping[str, int]:
        """The sizes of the groups, as in --parallel."""
        return self.only_variant.parallel

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups over which ranks exchange data."""
        return self.only_variant.groups

    @property
    def programs(self) -> tuple[Program, ...]:
        """One program for all ranks, or one for each stage of a pipeline."""
        return self.only_variant.programs

    @property
    def arguments(self) -> dict[str, Value]:
        """Arguments of all programs, by name."""
        return self.only_variant.arguments

    @property
    def results(self) -> dict[str, Value]:
        """Results of all programs, by name."""
        return self.only_variant.results

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of the rank that needs the most, as in Variant."""
        return self.only_variant.memory


def _make_variant(fields: Mapping[str, Any]) -> Variant:
    return Variant(half=fields.get("half"), batch=fields.get("batch"), sequence=fields.get("sequence"), world=fields["world"],
                   parallel=fields.get("parallel", {}), schedule=fields["schedule"], mode=fields["mode"], dtype=fields["dtype"],
                   layers=tuple(fields.get("layers", ())),
                   groups=tuple(Group(one["name"], one["size"], one["stride"]) for one in fields["groups"]),
                   programs=tuple(map(_make_program, fields["programs"])),
                   reference=_make_program(fields["reference"]) if fields.get("reference") else None)


def _make_program(fields: Mapping[str, Any]) -> Program:
    return Program(symbol=fields["symbol"], first_rank=fields.get("first_rank", 0), ranks=fields.get("ranks", 1),
                   arguments=tuple(map(_make_value, fields["arguments"])), results=tuple(map(_make_value, fields["results"])),
                   arenas=fields["arenas"], streams=tuple(fields["streams"]), ops=tuple(fields["ops"]))


def _make_value(fields: Mapping[str, Any]) -> Value:
    return Value(name=fields["name"], role=fields["role"], dtype=fields["dtype"], shape=tuple(fields["shape"]),
                 local_shape=tuple(fields["local_shape"]), layout=tuple(map(tuple, fields["layout"])), updated=fields.get("updated", False),
                 cut=Cut(**fields["cut"]) if "cut" in fields else None, fields=fields)
