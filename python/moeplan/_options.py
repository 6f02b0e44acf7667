"""Keyword arguments as options of a tool."""

from __future__ import annotations

import difflib
import functools
import os
import re
import subprocess
from typing import Mapping, Sequence, Union

from ._errors import Error
from ._tools import find

Scalar = Union[str, int, float, "os.PathLike[str]"]
# True and False are flags, None leaves the option out, a list is joined by commas, and a dict is key=value,.. .
Option = Union[Scalar, None, Sequence[Scalar], Mapping[str, Scalar]]


@functools.lru_cache(maxsize=None)
def read_options(tool: str, path: str) -> dict[str, bool]:
    """The options of a tool, and whether each may be repeated, as its help has them. Options of LLVM's own are left out."""
    done = subprocess.run([path, "--help-hidden"], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    _, _, own = done.stdout.partition(f"\n{tool} options:\n")
    if done.returncode != 0 or not own:
        raise Error(f"expected the options of {tool} from '{path} --help-hidden' but it ended with status {done.returncode}\n{done.stderr}".rstrip())
    entries = re.split(r"^  --?(?=[a-z])", own, flags=re.M)[1:]
    names = [re.match(r"[\w-]+", entry) for entry in entries]
    return {name[0]: "May be repeated" in " ".join(entry.split()) for name, entry in zip(names, entries) if name}


def make_arguments(tool: str, function: str, options: Mapping[str, Option], reserved: Sequence[str]) -> list[str]:
    """Options of `tool` for the keyword arguments `options` of `function`. The function itself sets those in `reserved`."""
    arguments: list[str] = []
    if not options:
        return arguments
    known = read_options(tool, find(tool))
    for keyword, value in options.items():
        name = keyword.replace("_", "-")
        if name in reserved:
            raise Error(f"moeplan.{function} takes no option '{keyword}': the function writes these files itself, and returns their contents")
        if name not in known or len(name) == 1:
            raise Error(_describe_unknown(tool, function, keyword, [one for one in known if one not in reserved and len(one) > 1]))
        arguments += _make_option(name, value, known[name])
    return arguments


def _make_option(name: str, value: Option, is_repeated: bool) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--{name}=false"]
    if isinstance(value, Mapping):
        return [f"--{name}=" + ",".join(f"{key}={_format(one)}" for key, one in value.items())]
    if isinstance(value, Sequence) and not isinstance(value, str):
        texts = [_format(one) for one in value]
        return [f"--{name}={text}" for text in texts] if is_repeated else [f"--{name}=" + ",".join(texts)]
    return [f"--{name}={_format(value)}"]


def _format(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _describe_unknown(tool: str, function: str, keyword: str, known: Sequence[str]) -> str:
    names = [name.replace("-", "_") for name in known]
    near = difflib.get_close_matches(keyword, names)
    hint = f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
    return f"moeplan.{function} has no option '{keyword}': its options are those of {tool} --help-hidden{hint}"
