"""The functions of the package. Each runs a tool once, and reads its output."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Mapping, Sequence, Union

from . import _tools
from ._errors import Error
from ._options import Option, make_arguments
from ._results import Answer, Compilation, Explanation, Simulation

Model = Union[str, "os.PathLike[str]"]
# Forms of the output that are no plan have no report.
_FORMS_BEFORE_PLANS = ("l0", "spmd")


def compile(model: Model, *, output: Model, **options: Option) -> Compilation:
    """Compiles a model to a plan, as moe-compile does, and writes it to the file `output`.

    `model` is a name such as "mixtral-8x7b", a configuration or an MLIR file. Keyword arguments are the options of moe-compile, with
    _ for -. A flag is True or False, a list stands for values with commas, and a dict for key=value,.. .

    >>> plan = moeplan.compile("switch-base-8", output="plan.so", parallel={"dp": 4, "ep": 4})
    >>> plan.rank.memory.device.bytes
    22042628
    """
    arguments = make_arguments("moe-compile", "compile", options, ["o", "report", "explain", "print-pipeline"])
    path = os.fspath(output)
    if path == "-":
        raise Error("expected output= to name a file but got '-'")
    with tempfile.TemporaryDirectory(prefix="moeplan-") as folder:
        files = _Files(folder, {} if options.get("emit") in _FORMS_BEFORE_PLANS else {"report": ["report.json", "report.txt"]})
        _, notes = _tools.run("moe-compile", [*arguments, *files.arguments, "-o", path, "--", os.fspath(model)])
        return Compilation(Path(path), files.read_json("report.json"), files.read("report.txt"), notes)


def simulate(model: Model, **options: Option) -> Simulation:
    """Predicts how long a step takes, as moe-sim does. Keyword arguments are the options of moe-sim, as for `compile`. A notebook shows
    the timeline of the step.

    >>> step = moeplan.simulate("mixtral-8x7b", parallel="dp=8,ep=8", cluster="hgx-h100")
    >>> print(f"{step.step_s:.3f} s, {step.mean.exposed_communication_s:.3f} s exposed")
    0.025 s, 0.000 s exposed
    """
    arguments = make_arguments("moe-sim", "simulate", options, ["json", "html"])
    with tempfile.TemporaryDirectory(prefix="moeplan-") as folder:
        files = _Files(folder, {"json": ["step.json"], "html": ["step.html"]})
        table, notes = _tools.run("moe-sim", [*arguments, *files.arguments, "--", os.fspath(model)])
        return Simulation(files.read_json("step.json"), table, notes, files.read_page("step.html"))


def explain(model: Model, *, schedule: str = "auto", **options: Option) -> Explanation:
    """Chooses a schedule, and groups with parallel="auto", and says why, as moe-compile --explain does. Nothing is written. Keyword
    arguments are the options of moe-compile, as for `compile`.

    >>> why = moeplan.explain("switch-base-8", parallel="dp=8,ep=8", cluster="hgx-h100")
    >>> [candidate.schedule for candidate in why.candidates if candidate.verdict == "chosen"]
    ['baseline']
    """
    options = {"schedule": schedule, **options}
    arguments = make_arguments("moe-compile", "explain", options, ["o", "report", "explain", "emit", "print-pipeline", "digest"])
    with tempfile.TemporaryDirectory(prefix="moeplan-") as folder:
        files = _Files(folder, {"explain": ["why.json", "why.html", "why.txt"]})
        _, notes = _tools.run("moe-compile", [*arguments, *files.arguments, "--emit=plan", "-o", os.devnull, "--", os.fspath(model)])
        return Explanation(files.read_json("why.json"), files.read("why.txt"), notes, files.read_page("why.html"))


def plan(model: Model, gpus: int, cluster: Model, **options: Option) -> Answer:
    """Chooses how to split a model over GPUs, as moe-plan does. This may take a minute; logging.getLogger("moeplan") reports the
    progress at level INFO. Keyword arguments are the options of moe-plan, as for `compile`.

    >>> answer = moeplan.plan("olmoe-1b-7b", 8, "hgx-h100", schedule="baseline", vary="none")
    >>> answer.parallel
    'pp=2,dp=4,mp=1,ep=1,esp=1'
    """
    arguments = make_arguments("moe-plan", "plan", options, ["json", "html"])
    with tempfile.TemporaryDirectory(prefix="moeplan-") as folder:
        files = _Files(folder, {"json": ["plan.json"], "html": ["plan.html"]})
        table, notes = _tools.run("moe-plan", [*arguments, *files.arguments, "--", os.fspath(model), str(gpus), os.fspath(cluster)])
        return Answer(files.read_json("plan.json"), table, notes, files.read_page("plan.html"))


class _Files:
    """Files of one run in `folder`, by the option that writes them."""

    def __init__(self, folder: str, names: Mapping[str, Sequence[str]]) -> None:
        self.folder = folder
        self.names = [name for some in names.values() for name in some]
        self.arguments = [f"--{option}={os.path.join(folder, name)}" for option, some in names.items() for name in some]

    def read(self, name: str) -> str:
        """Text of a file, or empty if the file was not requested."""
        return Path(self.folder, name).read_text(encoding="utf-8") if name in self.names else ""

    def read_json(self, name: str) -> Mapping[str, Any]:
        fields: Mapping[str, Any] = json.loads(self.read(name) or "{}")
        return fields

    def read_page(self, name: str) -> str:
        """A page with the command line that a user would type, without the files of this run."""
        page = self.read(name)
        for argument in self.arguments:
            page = page.replace(f" {argument}", "")
        return page.replace(" -- ", " ", 1)
