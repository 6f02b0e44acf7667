"""PlanModules in wrappers that make ranks alike. Their parameters are another part on each rank."""

from __future__ import annotations

import functools
from typing import Any, List

import torch

from ._module import PlanModule


def _names_of_parts(module: torch.nn.Module) -> List[str]:
    return [f"{prefix}.{name}" if prefix else name
            for prefix, one in module.named_modules() if isinstance(one, PlanModule) for name in one.values]


def leave_parts_out_of_ddp() -> None:
    """Lets DistributedDataParallel leave out the parameters and buffers of all PlanModules in its module. It knows what to leave out by
    names in the very module that it gets, which a wrapper or torch.compile changes."""
    parallel = torch.nn.parallel.DistributedDataParallel
    init = parallel.__init__

    @functools.wraps(init)
    def init_without_parts(self: Any, module: torch.nn.Module, *arguments: Any, **options: Any) -> None:
        if names := _names_of_parts(module):
            known = list(getattr(module, "_ddp_params_and_buffers_to_ignore", []))
            parallel._set_params_and_buffers_to_ignore_for_model(module, known + names)
        init(self, module, *arguments, **options)

    parallel.__init__ = init_without_parts
