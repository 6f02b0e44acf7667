"""Plans in the models of Hugging Face's library transformers."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
import types
from typing import Any, Dict, Iterable, List, Optional, Union

import torch
import torch.distributed as dist

from .._commands import compile
from .._plan import Plan
from ._groups import Processes
from ._halves import _TYPES, Halves
from ._module import PlanModule
from ._weights import find_weights


def compile_block(config: Any, output: "os.PathLike[str] | str", **options: Any) -> None:
    """Compiles one MoE block of a model to the plan `output`, which PlanModule takes. `config` is the model's configuration of
    transformers. `options` are those of moe-compile, such as parallel="dp=4,ep=4", schedule="s1", batch=1, seq=512, dtype="bf16"."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config.to_dict(), file, default=str)
        file.flush()
        compile(file.name, output=os.fspath(output), halves=True, residual=False, **options)


def _compile_for_all(config: Any, processes: Processes, folder: str, options: Dict[str, Any]) -> str:
    """Compiles on rank 0, and sends the plan to all, including other machines."""
    path = os.path.join(folder, "block.so")
    made: List[Any] = [None, None]
    if processes.rank == 0:
        try:
            compile_block(config, path, **options)
            with open(path, "rb") as file:
                made[0] = file.read()
        except Exception as error:  # All processes need the error.
            made[1] = error
    if processes.size > 1:
        dist.broadcast_object_list(made, src=0 if processes.group is None else dist.get_global_rank(processes.group, 0),
                                   group=processes.group)
    if made[1] is not None:
        raise made[1]
    with open(path, "wb") as file:
        file.write(made[0])
    return path


def _check_layers(config: Any, plan: Plan, processes: Processes) -> None:
    """Checks that `plan` computes a block of `config`: blocks of other models may have the same shapes."""
    with tempfile.TemporaryDirectory() as folder:
        with Plan(_compile_for_all(config, processes, folder, {"parallel": "dp=1", "seq": 8})) as own:
            expected = own.variants[0].layers
    given = plan.variants[0].layers
    if not given:
        raise ValueError(f"'{plan.path}' does not say what its layers compute: compile it again")
    if given != expected:
        lists = [{part for layer in layers for part in layer.split(", ")} for layers in (expected, given)]
        wanted, other = (", ".join(sorted(a - b)) or "no more" for a, b in (lists, lists[::-1]))
        raise ValueError(f"expected a plan of the model's block, with {wanted}, but '{plan.path}' is of a block with {other}")


def _compile_more(config: Any, halves: Halves, options: Dict[str, Any], rows: int) -> None:
    """Compiles for all a plan of one sequence with `rows` tokens on a rank, and adds it."""
    sequence = rows * halves.any_pair.variant.parallel.get("cp", 1)
    with tempfile.TemporaryDirectory() as folder:
        halves.add(Plan(_compile_for_all(config, halves.processes, folder, {**options, "batch": 1, "seq": sequence})))


def replace_moe(model: torch.nn.Module, plan: Union[str, "os.PathLike[str]", Plan, None] = None, *,
                process_group: Optional["dist.ProcessGroup"] = None, workers: int = 1, verify: bool = False, gradients: str = "mean",
                aux_loss: bool = False, **options: Any) -> torch.nn.Module:
    """Puts a PlanModule in place of each MoE block of a model of transformers (Mixtral, Qwen3-MoE, OLMoE, DeepSeek-V3, gpt-oss and others
    whose blocks are built alike), and gives it this rank's part of the block's weights. Returns the model.

    `plan` is one of compile_block. Without it, `options` are those of compile_block, and rank 0 compiles for all. All ranks call this with
    the same weights. Each rank then runs its own tokens; ranks that share an `mp` group run the same ones. DistributedDataParallel leaves
    out the new parameters, whose gradients the plan adds up. docs/PyTorch.md has an example.

    >>> moeplan.torch.replace_moe(model, parallel="dp=4,ep=4", schedule="s1", seq=512)
    """
    if (plan is None) != bool(options):
        raise TypeError("expected either a plan, or options for its compilation such as parallel= and seq=")
    if any(isinstance(module, PlanModule) for module in model.modules()):
        raise ValueError("expected a model without PlanModules: replace_moe was called before; to change the plan, load the model again")
    unlike = [name for name, module in model.named_modules() if type(module).__name__ == "Llama4TextMoe"]
    if unlike:
        raise ValueError(f"expected no blocks of Llama 4, whose experts weigh their inputs and have another layout: {', '.join(unlike)}")
    blocks = {name: weights for name, module in model.named_modules() if (weights := find_weights(module))}
    if not blocks:
        raise ValueError(f"expected a model with MoE blocks that replace_moe knows but got {type(model).__name__}")
    others = [name for name, module in model.named_modules()
              if isinstance(getattr(module, "experts", None), torch.nn.Module) and name not in blocks]
    if others:
        raise ValueError(f"replace_moe does not know these MoE blocks, which would stay unchanged: {', '.join(others)}")
    config = getattr(model, "config", None)
    if getattr(config, "output_router_logits", False):
        raise ValueError("expected output_router_logits=False: a plan keeps no router logits; with aux_loss=True each layer has its auxiliary "
                         "loss in `aux_loss`")
    if any(getattr(config, key, 0) for key in ("router_jitter_noise", "input_jitter_noise")):
        raise ValueError("expected no jitter noise in the configuration: plans have none")
    processes = Processes(process_group)
    processes.check_alike("options of replace_moe", repr(sorted(options.items())))
    processes.check_alike("weights", _digest_sample(model.get_submodule(name) for name in blocks))
    with tempfile.TemporaryDirectory() as folder:
        if plan is None:
            options.setdefault("dtype", _name_of(next(model.parameters()).dtype))
            plan = _compile_for_all(config, processes, folder, options)
        halves = Halves(plan, process_group, next(model.parameters()).device, workers, verify)
    if not options:
        _check_layers(config, halves.plan, processes)
    else:
        halves.compile_more = functools.partial(_compile_more, config, halves, options)
    for name, weights in blocks.items():
        block = model.get_submodule(name)
        module = _make_module(block, weights, halves, gradients, aux_loss)
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, module)
    if hasattr(model, "save_pretrained"):
        model.save_pretrained = types.MethodType(_save_pretrained, model)
    return model


def _save_pretrained(self: Any, save_directory: Any, *arguments: Any, state_dict: Any = None, **options: Any) -> Any:
    if state_dict is None:
        raise ValueError("expected state_dict=moeplan.torch.full_state_dict(model), which all ranks call: this rank has only parts of the "
                         "parameters, under other names")
    return type(self).save_pretrained(self, save_directory, *arguments, state_dict=state_dict, **options)


def _digest_sample(blocks: Iterable[torch.nn.Module]) -> str:
    """A digest of every 1009th element of the blocks, which takes little time."""
    digest = hashlib.sha256()
    for block in blocks:
        for name, value in [*block.named_parameters(), *block.named_buffers()]:
            digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
            digest.update(value.detach().flatten()[::1009].to("cpu", torch.float64).numpy().tobytes())
    return "SHA-256 " + digest.hexdigest()[:16]


def _name_of(dtype: torch.dtype) -> str:
    return next((name for name, one in _TYPES.items() if one == dtype), str(dtype))


def _make_module(block: torch.nn.Module, weights: Dict[str, Any], halves: Halves, gradients: str, aux_loss: bool) -> PlanModule:
    module = BlockModule(halves, gradients=gradients, aux_loss=aux_loss)
    if set(weights) != set(module.values):
        raise ValueError(f"expected a plan with the parameters {', '.join(sorted(weights))} but it has {', '.join(sorted(module.values))}")
    tensors = {**dict(block.named_parameters()), **dict(block.named_buffers())}
    for name, weight in weights.items():
        module.load_whole(name, weight.to_plan([tensors[one].detach() for one in weight.names]))
    module.weights = weights
    module.gives_scores = type(block).__name__ == "GptOssMLP"
    module.train(block.training)
    return module


class BlockModule(PlanModule):
    """A PlanModule in the place of a block of transformers."""

    #: Whether the block returns a pair, of which its model takes the first.
    gives_scores = False
    #: Input of the last forward, if the auxiliary loss is kept.
    router_input: Optional[torch.Tensor] = None

    def forward(self, x: torch.Tensor) -> Any:
        if self.keeps_aux:
            self.router_input = x.reshape(-1, x.shape[-1])
        y = super().forward(x)
        return (y, None) if self.gives_scores else y
