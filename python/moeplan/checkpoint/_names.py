"""Hugging Face's tensors of a plan's parameters, by the `source` of each (docs/Checkpoints.md, "Weights of a whole model")."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence

from .._errors import Error
from ._layout import Link, Side


def link_hugging_face(parameter: Mapping[str, Any]) -> List[Link]:
    """Links of a parameter with the tensors of its source. `parameter` has the keys of an argument in a plan's metadata."""
    source = parameter.get("source")
    if source is None:
        raise Error(f"'{parameter['name']}': expected a parameter with a 'source', as plans of a config.json have")
    # A stack of all experts is one tensor. Otherwise each expert has its own.
    experts = source["experts"] if "experts" in source and "stacked" not in source else 1
    return [_link(parameter["name"], parameter["shape"], source, tensor, number, expert)
            for expert in range(experts) for number, tensor in enumerate(source["tensors"])]


def _link(parameter: str, shape: Sequence[int], source: Mapping[str, Any], tensor: str, number: int, expert: int) -> Link:
    """The link with the `number`-th tensor of an expert. Axes: e experts, r rows, b blocks, c columns, g gate and up, o one."""
    alternates, blocks = len(source["tensors"]) > 1 or source.get("halves", False), source.get("blocks", 1)
    sizes = {"e": source.get("experts", 1), "r": shape[-2] if len(shape) > 1 else 1, "b": blocks, "g": 2 if alternates else 1, "o": 1}
    sizes["c"] = shape[-1] // sizes["g"] // blocks
    rows = ["r"] if len(shape) > (2 if "experts" in source else 1) else []
    block = "b" if "of" in source else ""
    own = ["e"] * ("experts" in source) + rows + [block + "c" + ("g" if alternates else "")]
    columns = block + ("g" if source.get("halves") else "") + "c"
    dims = [columns, *rows] if source.get("transpose") else [*rows, columns]
    if "stacked" in source:
        dims = ["e" + dims[0], *dims[1:]] if source["stacked"] == 2 else ["e", *dims]
    if source.get("row"):
        dims = ["o", *dims]
    # An index that the tensor has none for is fixed on the side of the parameter.
    fixed = {axis: at for axis, at in (("e", expert), ("g", number)) if axis in "".join(own) and axis not in "".join(dims)}
    common = {axis: 1 if axis in fixed else sizes[axis] for axis in "".join(own) + "".join(dims)}
    return Link(Side(parameter, tuple(own), sizes, fixed),
                Side(tensor.replace("{e}", str(expert)), tuple(dims), {**sizes, "c": source.get("of", sizes["c"])}, {"c": source.get("begin", 0)}),
                common)
