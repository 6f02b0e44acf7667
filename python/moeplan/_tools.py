"""Finds and runs the tools. They run in their own processes: MLIR stays out of this one, and a crash does not end a notebook."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from typing import Sequence

from ._errors import CompilerWarning, Diagnostic, Error, read_diagnostics

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_log = logging.getLogger("moeplan")
# A report of progress, such as "groups: 23 of 65; best so far 12.0 ms: ..".
_PROGRESS = re.compile(r"[\w ]+: \d+ of \d+($|;)")

HOW_TO_GET = """\
MoePlan's compiler is not a part of every package: it needs MLIR 19 (Debian: apt-get install libmlir-19-dev mlir-19-tools).
Install MLIR and then the package again, from the sources: pip install --force-reinstall --no-deps .
Or build the tools with CMake, and set MOEPLAN_BIN to their folder, such as build/release/bin, or add that folder to PATH."""


def find(tool: str) -> str:
    """Path of a tool: in the folder MOEPLAN_BIN, in the package, or in PATH."""
    named = os.environ.get("MOEPLAN_BIN")
    if named:
        path = shutil.which(tool, path=named)
        if path is None:
            raise Error(f"expected the program '{tool}' in '{named}', which MOEPLAN_BIN names, but found none")
        return path
    own = os.path.join(_PACKAGE, "bin")
    path = shutil.which(tool, path=own) or shutil.which(tool)
    if path is None:
        raise Error(f"expected the program '{tool}' in '{own}' or in PATH but found none\n{HOW_TO_GET}")
    return path


def run(tool: str, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Standard output of a tool, and its notes. Its warnings become Python's, its errors an Error, and its progress goes to the logger
    "moeplan"."""
    path = find(tool)
    with tempfile.TemporaryFile() as output:
        status, lines = _run_process([path, *arguments], output.fileno())
        output.seek(0)
        printed = output.read().decode("utf-8", "replace")
    diagnostics = read_diagnostics(lines)
    for diagnostic in diagnostics:
        if diagnostic.severity == "warning":
            warnings.warn(diagnostic.text, CompilerWarning, stacklevel=_count_own_frames())
    if status != 0:
        raise _make_error(tool, path, status, diagnostics)
    return printed, [diagnostic.text for diagnostic in diagnostics if diagnostic.severity != "warning"]


def _run_process(command: list[str], output: int) -> tuple[int, list[str]]:
    """Exit status, and the lines of standard error that do not report progress."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
    except OSError as error:
        raise Error(f"cannot run '{command[0]}': {error.strerror}") from error
    lines = []
    with process:
        try:
            assert process.stderr
            for line in process.stderr:
                if _PROGRESS.match(line):
                    _log.info("%s", line.rstrip())
                else:
                    lines.append(line.rstrip())
        except BaseException:
            process.kill()
            raise
    return process.returncode, lines


def _make_error(tool: str, path: str, status: int, diagnostics: list[Diagnostic]) -> Error:
    errors = [one for one in diagnostics if one.severity == "error"]
    text = "\n".join(one.text for one in errors)
    if status < 0:
        text = f"'{tool}' was ended by {signal.Signals(-status).name}: a fault of MoePlan, or too little memory\n{text}".rstrip()
    elif "error while loading shared libraries" in text:
        text += f"\n'{path}' needs libraries of MLIR 19, which are no part of the package (Debian: apt-get install libmlir-19)"
    return Error(text or f"'{tool}' ended with status {status} and no message", errors)


def _count_own_frames() -> int:
    """Number of frames up to the first one outside of the package, for warnings.warn."""
    count, frame = 1, sys._getframe(1)
    while frame.f_back and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        count, frame = count + 1, frame.f_back
    return count
