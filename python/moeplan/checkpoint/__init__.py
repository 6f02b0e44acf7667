"""Training checkpoints in the formats of MoePlan, PyTorch (DCP) and Megatron (torch_dist).

`python -m moeplan.checkpoint` is the command line of `convert`. docs/Checkpoints.md describes the formats.
"""

from __future__ import annotations

import importlib.util
from typing import Optional

from .._errors import Error
from ._types import FORMATS, Adam, Conversion

__all__ = ["FORMATS", "Adam", "Conversion", "convert"]


def convert(source: str, target: str, *, to: str, plan: str, heads: Optional[int] = None, piece_bytes: int = 64_000_000,
            adam: Adam = Adam(), expert_parallel: Optional[bool] = None) -> Conversion:
    """Writes the checkpoint `source` to the new folder `target`, in the format `to`: "moeplan", "dcp" or "torch_dist".

    The format of `source` is found. One of both formats is that of MoePlan, and `plan` is a plan .so with the model and its optimizer.
    Tensors are read and written in pieces of about `piece_bytes` bytes. The other options are for torch_dist. `heads` is the number of
    attention heads. `adam`, and whether the job has EP or ETP above 1 (`expert_parallel`, by default as in the plan), decide what the
    folder says of the optimizer.

    >>> moeplan.checkpoint.convert("state/", "dcp/", to="dcp", plan="gpt.so").step
    200
    """
    for package in ("torch", "numpy"):
        if importlib.util.find_spec(package) is None:
            raise Error(f"moeplan.checkpoint needs the package '{package}': pip install {package}")
    from ._convert import run

    return run(source, target, to=to, plan=plan, heads=heads, piece_bytes=piece_bytes, adam=adam, expert_parallel=expert_parallel)
