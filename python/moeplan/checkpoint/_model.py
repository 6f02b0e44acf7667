"""The values of a plan that its training checkpoints have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping

import torch

from .._errors import Error
from .._plan import Plan
from ._pieces import Tensor

#: Ends of the names of a parameter's values: its copy in f32, the parameter itself, and the two states of Adam.
ENDS = MASTER, WEIGHT, FIRST, SECOND = ".master", "", ".first", ".second"

_TYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32}


@dataclass(frozen=True)
class Model:
    """`parameters` has the metadata of each parameter, and `values` all values of a checkpoint, each by its name. `divides_experts`: the
    plan has an EP or ETP above 1."""

    parameters: Mapping[str, Mapping[str, Any]]
    values: Mapping[str, Tensor]
    divides_experts: bool


def read_model(path: str) -> Model:
    with Plan(path) as plan:
        # Variants differ in the shapes of their batches alone.
        variant = plan.variants[0]
    fields = {one["name"]: one for argument in variant.arguments.values() if argument.updated or argument.role == "parameter"
              for one in argument.fields.get("pieces", [argument.fields])}
    parameters = {name: one for name, one in fields.items() if one["role"] == "parameter"}
    values = {name: Tensor(_TYPES[one["dtype"]], tuple(one["shape"])) for name, one in fields.items()}
    known = {name + end for name in parameters for end in ENDS} | {"step"}
    if "step" not in values or (unknown := next((name for name in values if name not in known), "")):
        found = f"has the state '{unknown}'" if "step" in values else "has no step"
        raise Error(f"'{path}': expected a plan with --optimizer=adam but it {found}")
    return Model(parameters, values, variant.parallel.get("ep", 1) * variant.parallel.get("esp", 1) > 1)


def values_of(model: Model) -> Iterator[tuple[str, str]]:
    """All values but the step, as the parameter and the end of the name."""
    return ((name, end) for name in model.parameters for end in ENDS if name + end in model.values)
