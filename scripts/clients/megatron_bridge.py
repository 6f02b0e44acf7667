#!/usr/bin/env python3
"""Gives plans to Megatron-Bridge, as files of `moe-plan --emit=megatron-bridge`.

Usage: megatron_bridge.py [--plans=FILE] [--version=0.6] [--bin=DIR] [--models=DIR] [NAME..]

It needs no GPU, but a Python that imports Megatron-Bridge. A line of FILE has a name, `|` and arguments of moe-plan. For
each plan, the recipe that the file names makes a configuration, the file's function changes it, and Megatron-Bridge's
runtime_config_update() applies precision and overlap, and validates it. Then the script compares the configuration with
the plan once more. The exit status is 1 if a check fails, or if none passes.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from common import NotChecked, Refused, add_options, check_plans, replace_device, write_plan

REPLACED = """\
Replaced: configurations of Hugging Face by those of --models, the properties of the device, and Transformer Engine's
version and fused functions where it is missing."""

# Recipes for models without one.
OTHER_RECIPES = {
    "0.6": ("megatron.bridge.recipes.qwen.h100.qwen3_moe", "qwen3_30b_a3b_pretrain_8gpu_h100_bf16_config"),
    "0.2": ("megatron.bridge.recipes.qwen.qwen3_moe", "qwen3_30b_a3b_pretrain_config"),
}


def replace_configs(models: Path, name: str) -> None:
    """Lets transformers read MoePlan's file of the model in the place of one from the hub."""
    import transformers
    from transformers import AutoConfig

    text = json.loads((models / f"{name}.json").read_text())
    kind = {"kimi_k2": "deepseek_v3"}.get(text.get("model_type"), text.get("model_type"))
    try:
        config = AutoConfig.for_model(kind, **{key: value for key, value in text.items() if key != "model_type"})
    except Exception as error:
        reason = str(error).strip().splitlines()[0].partition(". Should")[0]
        raise NotChecked(f"transformers {transformers.__version__} refuses the configuration: {reason}") from error
    config.architectures = text["architectures"]
    for owner in (AutoConfig, transformers.PretrainedConfig):
        setattr(owner, "from_pretrained", classmethod(lambda *_, **__: config))


def use_other_recipe(module: str, function: str, model: str, models: Path) -> Any:
    """A recipe of another model, whose model is then replaced as the file says."""
    from megatron.bridge import AutoBridge

    replace_configs(models, "qwen3-30b-a3b")
    cfg = getattr(importlib.import_module(module), function)()
    replace_configs(models, model)
    try:
        cfg.model = AutoBridge.from_hf_pretrained(model).to_megatron_provider(load_weights=False)
    except ValueError as error:
        raise NotChecked(f"no recipe and no bridge: {str(error).strip().splitlines()[0]}") from error
    return cfg


def compare(cfg: Any, plan: dict[str, Any]) -> list[str]:
    """Settings that differ from the plan after validation."""
    arguments = dict(re.findall(r"^    cfg\.([\w.]+) = (.+)$", plan["text"], re.M))
    wrong = []
    for field, text in arguments.items():
        if field in ("mixed_precision", "comm_overlap", "model.pipeline_model_parallel_layout"):
            continue
        with contextlib.suppress(NameError, SyntaxError):
            expected = eval(text.split(" = ")[-1], {})
            found: Any = cfg
            for part in field.split("."):
                found = getattr(found, part)
            if found != expected and str(getattr(found, "name", found)) != str(expected):
                wrong.append(f"{field} is {found}, not {expected}")
    return wrong


def check(plan: list[str], options: argparse.Namespace) -> str:
    replace_device(plan[2])
    text, remark = write_plan(options, plan, "megatron-bridge")
    found = re.search(r"^#\s+from ([\w.]+) import (\w+)$", text, re.M)
    module, function = found.groups() if found else OTHER_RECIPES[options.version]
    from megatron.bridge.training.config import runtime_config_update

    replace_configs(options.models, plan[0])
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(WORLD_SIZE=plan[1], RANK="0", LOCAL_RANK="0")
    scope: dict[str, Any] = {}
    exec(compile(text, "plan.py", "exec"), scope)
    step = "recipe"
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            if found:
                cfg = getattr(importlib.import_module(module), function)()
            else:
                cfg = use_other_recipe(module, function, plan[0], options.models)
            step = "apply_plan"
            cfg = scope["apply_plan"](cfg)
            step = "validate"
            runtime_config_update(cfg)
    except NotChecked:
        raise
    except Exception as error:
        raise Refused(f"{step}: {type(error).__name__}: {error}") from error
    wrong = compare(cfg, {"text": text})
    if wrong:
        raise Refused("after validation " + "; ".join(wrong))
    return f"{function}{'' if found else ' with another model'}, validated{remark}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=Path("share/models"), help="folder of MoePlan's models")
    add_options(parser, "0.6")
    options = parser.parse_args()
    print(REPLACED)
    return check_plans(options, check)


if __name__ == "__main__":
    sys.exit(main())
