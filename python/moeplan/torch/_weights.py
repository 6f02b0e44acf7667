"""Converts between the parameters of a layer and the tensors of a block of transformers.

The rules are those of "Weights of a layer" in docs/Checkpoints.md. Each works in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, List, Sequence

import torch

Tensors = List[torch.Tensor]


@dataclass(frozen=True)
class Weight:
    """A parameter of a PlanModule. It is `to_plan` of the tensors `names` of a block, and these are `from_plan` of it."""

    names: Sequence[str]
    to_plan: Callable[[Tensors], torch.Tensor]
    from_plan: Callable[[torch.Tensor], Tensors]


def _transposed(name: str) -> Weight:
    """A matrix that is [.., out, in] in the block."""
    return Weight([name], lambda given: given[0].transpose(-1, -2), lambda whole: [whole.transpose(-1, -2)])


def _as_it_is(name: str) -> Weight:
    return Weight([name], lambda given: given[0], lambda whole: [whole])


def _interleave(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Interleaves the columns of both."""
    return torch.stack([gate, up], dim=-1).flatten(-2)


def _halves(name: str) -> Weight:
    """A matrix that is [.., gate and then up, in] in the block."""
    def to_plan(given: Tensors) -> torch.Tensor:
        return _interleave(*given[0].transpose(-1, -2).chunk(2, dim=-1))

    def from_plan(whole: torch.Tensor) -> Tensors:
        return [torch.cat([whole[..., 0::2], whole[..., 1::2]], dim=-1).transpose(-1, -2)]

    return Weight([name], to_plan, from_plan)


def _gate_and_up(gate: str, up: str) -> Weight:
    """Two matrices that are [out, in] in the block."""
    return Weight([gate, up], lambda given: _interleave(given[0].T, given[1].T), lambda whole: [whole[..., 0::2].T, whole[..., 1::2].T])


def _stacked(each: Sequence[Weight]) -> Weight:
    """A stack of one weight of each expert."""
    names = [name for one in each for name in one.names]
    width = len(each[0].names)

    def to_plan(given: Tensors) -> torch.Tensor:
        return torch.stack([one.to_plan(given[width * e : width * (e + 1)]) for e, one in enumerate(each)])

    return Weight(names, to_plan, lambda whole: [tensor for e, one in enumerate(each) for tensor in one.from_plan(whole[e])])


def find_weights(block: torch.nn.Module) -> Dict[str, Weight]:
    """Weights of a block of transformers, by the names of PlanModule, or {} for an unknown block. In version 5 experts are stacks,
    before that a list of modules."""
    tensors = {**dict(block.named_parameters()), **dict(block.named_buffers())}
    router = next((name for name in ("gate", "router") if name + ".weight" in tensors), None)
    if router is None or not hasattr(block, "experts"):
        return {}
    weights = {"gate": _transposed(router + ".weight")}
    if router + ".bias" in tensors:
        weights["gate_bias"] = _as_it_is(router + ".bias")
    if router + ".e_score_correction_bias" in tensors:
        weights["selection_bias"] = _as_it_is(router + ".e_score_correction_bias")
    weights.update(_find_experts(tensors))
    for shared in ("shared_expert", "shared_experts"):
        if shared + ".down_proj.weight" in tensors:
            weights["shared_w1"] = _gate_and_up(shared + ".gate_proj.weight", shared + ".up_proj.weight")
            weights["shared_w2"] = _transposed(shared + ".down_proj.weight")
    if "shared_expert_gate.weight" in tensors:
        weights["shared_gate"] = _transposed("shared_expert_gate.weight")
    used = {name for one in weights.values() for name in one.names}
    return weights if "w1" in weights and used == set(tensors) else {}


def _find_experts(tensors: Dict[str, torch.Tensor]) -> Dict[str, Weight]:
    if "experts.gate_up_proj_bias" in tensors:  # gpt-oss: [in, out], interleaved columns
        return {"w1": _as_it_is("experts.gate_up_proj"), "w2": _as_it_is("experts.down_proj"),
                "b1": _as_it_is("experts.gate_up_proj_bias"), "b2": _as_it_is("experts.down_proj_bias")}
    if "experts.gate_up_proj" in tensors:
        return {"w1": _halves("experts.gate_up_proj"), "w2": _transposed("experts.down_proj")}
    for gate, up, down in (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2")):
        count = sum(name.startswith("experts.") and name.endswith(f".{down}.weight") for name in tensors)
        if count:
            first = [_gate_and_up(f"experts.{e}.{gate}.weight", f"experts.{e}.{up}.weight") for e in range(count)]
            return {"w1": _stacked(first), "w2": _stacked([_transposed(f"experts.{e}.{down}.weight") for e in range(count)])}
    return {}
