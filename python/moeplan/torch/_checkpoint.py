"""Saves and loads whole parameters, under the names that a model had before replace_moe."""

from __future__ import annotations

from typing import Dict, Iterator, Mapping, Tuple

import torch

from ._module import PlanModule
from ._sharding import gather_parts


def _find_modules(model: torch.nn.Module) -> Iterator[Tuple[str, PlanModule]]:
    for name, module in model.named_modules():
        if isinstance(module, PlanModule):
            yield name + "." if name else "", module


def full_state_dict(model: torch.nn.Module) -> Dict[str, torch.Tensor]:
    """model.state_dict() as it would be without replace_moe: whole parameters under Hugging Face's names, so that
    `model.save_pretrained(path, state_dict=..)` writes a checkpoint of the model. PlanModules that replace_moe did not make have whole
    parameters under their own names. All ranks call it, and all get the whole."""
    state = dict(model.state_dict())
    for prefix, module in _find_modules(model):
        groups, processes = module.halves.any_pair.variant.groups, module.halves.processes
        for name, value in module.values.items():
            whole = gather_parts(getattr(module, name), value, groups, processes)
            del state[prefix + name]
            weight = module.weights.get(name)
            if weight is None:
                state[prefix + name] = whole
            else:
                state.update({prefix + one: tensor.contiguous() for one, tensor in zip(weight.names, weight.from_plan(whole))})
    return state


def load_full_state_dict(model: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Loads a result of full_state_dict, or the state_dict of the model before replace_moe. Each rank takes its parts. Missing and
    unknown names are errors."""
    rest = dict(state)
    for prefix, module in _find_modules(model):
        for name in module.values:
            weight = module.weights.get(name)
            names = [prefix + one for one in (weight.names if weight else [name])]
            missing = [one for one in names if one not in rest]
            if missing:
                raise KeyError(f"expected {', '.join(missing)} in the state of the model")
            tensors = [rest.pop(one) for one in names]
            module.load_whole(name, weight.to_plan(tensors) if weight else tensors[0])
            rest[prefix + name] = getattr(module, name)
    model.load_state_dict(rest)
