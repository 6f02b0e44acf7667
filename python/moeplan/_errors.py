"""Errors, and warnings of the compiler."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable

# Head of a message: "file:line:column: error: text", "moe-compile: error: text" or "error: text".
_HEAD = re.compile(r"(?:(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): |(?P<tool>moe-[a-z]+): )?(?P<severity>error|warning|note|remark): ")
# Head of a message of LLVM's command-line parser, which has no severity.
_USAGE = re.compile(r"moe-[a-z]+: ")


@dataclass(frozen=True)
class Diagnostic:
    """A message of the compiler. `file`, `line` and `column` are its place, and None if it has none. `text` is the message as the
    compiler writes it, with its place, its line of the source and its notes."""

    severity: str
    text: str
    file: str | None = None
    line: int | None = None
    column: int | None = None


class Error(Exception):
    """An error of MoePlan. Its text is the compiler's or the runtime's message. `diagnostics` has the compiler's messages one by one.

    >>> try:
    ...     moeplan.simulate("switch-base-8", parallel="dp=4", cluster="hgx-h10")
    ... except moeplan.Error as error:
    ...     print(error)
    error: 'hgx-h10': expected a file or the name of one of the shared clusters, ...; did you mean 'hgx-h100'?
    """

    def __init__(self, text: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(text)
        self.diagnostics = tuple(diagnostics)


class CompilerWarning(UserWarning):
    """A warning of the compiler, with its text and its place."""


def read_diagnostics(lines: Iterable[str]) -> list[Diagnostic]:
    """Messages in a tool's standard error. Lines without a head, and notes, belong to the message before them."""
    found: list[tuple[re.Match[str] | None, list[str]]] = []
    for line in lines:
        head = _HEAD.match(line)
        begins = head["severity"] in ("error", "warning") if head else _USAGE.match(line) and found and found[-1][0]
        if begins or not found:
            found.append((head, [line]))
        else:
            found[-1][1].append(line)
    return [_make_diagnostic(head, "\n".join(text).strip()) for head, text in found]


def _make_diagnostic(head: re.Match[str] | None, text: str) -> Diagnostic:
    if head is None:
        return Diagnostic("error", text)
    if head["file"] is None:
        return Diagnostic(head["severity"], text)
    return Diagnostic(head["severity"], text, head["file"], int(head["line"]), int(head["column"]))
