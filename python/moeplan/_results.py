"""Answers of the tools: the fields of their JSON, their tables and their pages."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

# Lines of a report that a session shows. print() shows all of a longer one.
_MOST_LINES = 60


class Record(Mapping[str, Any]):
    """A JSON object. Its fields are attributes, or items: `record.step_s` is `record["step_s"]`. Objects in it are records, too."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = {name: _wrap(value) for name, value in fields.items()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._fields:
            raise AttributeError(f"expected one of the fields {', '.join(self.__dict__.get('_fields', {}))} but got '{name}'")
        return self._fields[name]

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __repr__(self) -> str:
        return f"Record({self.to_dict()!r})"

    def to_dict(self) -> dict[str, Any]:
        """The object as plain dicts and lists, as json.loads makes them."""
        return {name: _unwrap(value) for name, value in self._fields.items()}


def _wrap(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Record(value)
    return [_wrap(one) for one in value] if isinstance(value, list) else value


def _unwrap(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    return [_unwrap(one) for one in value] if isinstance(value, list) else value


class Result(Record):
    """Answer of a tool.

    `table` is what the tool prints for people, and `notes` what it says beside that. `page` is the same as a page (HTML), or empty.
    A notebook shows the page.
    """

    table: str
    notes: Sequence[str]
    page: str

    def __init__(self, fields: Mapping[str, Any], table: str, notes: Sequence[str] = (), page: str = "") -> None:
        super().__init__(fields)
        self.table, self.notes, self.page = table.strip("\n"), tuple(notes), page

    def __str__(self) -> str:
        return "\n".join([self.table, *self.notes])

    def __repr__(self) -> str:
        lines = str(self).split("\n")
        if len(lines) <= _MOST_LINES:
            return "\n".join(lines)
        return "\n".join([f"({len(lines) - _MOST_LINES} lines before these: print() shows them)", *lines[-_MOST_LINES:]])

    def _repr_html_(self) -> str | None:
        return _frame(self.page) if self.page else None


def _frame(page: str) -> str:
    """A page inside of a notebook. The page's scripts run, but cannot access the notebook."""
    style = "width:100%;height:720px;border:1px solid #8888;border-radius:6px;resize:vertical"
    return f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="MoePlan" style="{style}"></iframe>'


class Compilation(Result):
    """A compiled plan. The fields are those of `moe-compile --report=FILE.json`: the figures of the program of a rank (`rank`; a
    pipeline has one for each stage), of the `reference`, and the `prediction` of a step on the cluster. It can be used as the path of
    its file, `output`."""

    output: Path
    rank: Record
    reference: Record
    prediction: Record

    def __init__(self, output: Path, fields: Mapping[str, Any], table: str, notes: Sequence[str]) -> None:
        super().__init__(fields, table, notes)
        self.output = output

    def __fspath__(self) -> str:
        return os.fspath(self.output)


class Simulation(Result):
    """A simulated step. The fields are those of `moe-sim --json`, which docs/Outputs.md describes. Those in `_s` are seconds."""

    plan: str
    cluster: str
    schedule: str
    mode: str
    form: str
    routing: str
    num_ranks: int
    step_s: float
    speed: Record
    critical: Record
    mean: Record
    kernels: list[Record]
    roofline: Record
    ranks: list[Record]
    ops: list[Record]
    critical_path: list[Record]
    memory: Record


class Explanation(Result):
    """Reasons for the choice of a schedule or groups. The fields are those of `moe-compile --explain=FILE.json`, which docs/Outputs.md
    describes: `candidates` and what was found about them, or `groups` with them if groups were chosen."""


class Answer(Result):
    """The planner's answer. The fields are those of `moe-plan --json`, which docs/Outputs.md describes. `options` has the options with
    which moe-compile makes the plan, `seconds` is the time of a step, and `explanation` has all candidates."""

    model: str
    cluster: str
    device: str
    gpus: int
    megatron: Record
    parallel: str
    schedule: str
    options: str
    seconds: float
    tokens_per_second_per_gpu: float
    flops_per_second_per_gpu: float
    memory_bytes: int
    memory_limit_bytes: int
    explanation: Record
