#!/usr/bin/env python3
"""Gives plans to a checkout of Megatron-LM, as files of `moe-plan --emit=megatron`.

Usage: megatron_lm.py --checkout=DIR [--plans=FILE] [--version=0.19] [--bin=DIR] [NAME..]
       megatron_lm.py --checkout=DIR --flags

It needs no GPU, but a Python with PyTorch and with the packages that Megatron-LM imports. A line of FILE has a name, `|`
and arguments of moe-plan. For each plan, Megatron-LM's own parser and validate_args() read the file. Then its
TransformerConfig is built, and its GPTModel on the meta device, stage by stage. The parameters of each stage are
compared with those of MoePlan's graph. The exit status is 1 if a check fails, or if none passes. --flags prints the
parser's arguments, as test/Unit/Inputs/megatron-flags.tsv has them.
"""

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from common import Refused, add_options, check_plans, count_blocks, replace_device, write_plan

REPLACED = """\
Replaced: the properties of the device, Transformer Engine's version (2.10) and its fused functions, and torch.distributed
by its fake backend. The models have Megatron-LM's own layers instead of Transformer Engine's, experts one by one, and only pipeline
parallelism, since a stage has the same parameters with other groups. Their vocabulary is not padded."""
USER_ARGUMENTS = "--tokenizer-type NullTokenizer --mock-data --lr 1e-4 --train-iters 10 --eval-iters 0".split()


def validate(text: str, world: int) -> tuple[Any, Any]:
    """Arguments and TransformerConfig of a file."""
    import megatron.training.arguments as arguments

    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(dict(re.findall(r"^#\s+export (\w+)=(\S+)", text, re.M)), WORLD_SIZE=str(world), RANK="0")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    sys.argv = ["pretrain_gpt.py", *shlex.split(" ".join(lines)), *USER_ARGUMENTS]
    said = io.StringIO()
    step = "parser"
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            args = arguments.parse_args()
            step = "validate_args"
            arguments.validate_args(args, {})
            step = "TransformerConfig"
            return args, arguments.core_transformer_config_from_args(args)
    except (SystemExit, Exception) as error:
        last = str(error) if step != "parser" else said.getvalue().strip().splitlines()[-1]
        raise Refused(f"{step}: {last}") from error


def start_stage(stage: int, stages: int, virtual: int | None) -> None:
    import torch.distributed as dist
    from megatron.core import parallel_state
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        parallel_state.destroy_model_parallel()
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=stage, world_size=stages, store=FakeStore())
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=stages,
        virtual_pipeline_model_parallel_size=virtual,
        create_gloo_process_groups=False,
    )


def simplify(args: Any) -> None:
    """Removes what does not change the parameters of a stage, and needs a GPU or Transformer Engine."""
    for name in ("tensor_model", "context", "expert_model", "expert_tensor"):
        setattr(args, f"{name}_parallel_size", 1)
    for name in """sequence_parallel moe_grouped_gemm moe_permute_fusion overlap_moe_expert_parallel_comm persist_layer_norm
            delay_wgrad_compute perform_initialization moe_enable_deepep apply_rope_fusion masked_softmax_fusion
            gradient_accumulation_fusion bias_swiglu_fusion bias_gelu_fusion use_megatron_fsdp""".split():
        setattr(args, name, False)
    for name in "granularity modules method num_layers".split():
        setattr(args, f"recompute_{name}", None)
    args.fp8 = args.fp4 = args.moe_flex_dispatcher_backend = None
    args.transformer_impl, args.moe_token_dispatcher_type, args.cuda_graph_impl = "local", "alltoall", "none"
    args.no_persist_layer_norm, args.padded_vocab_size = True, args.vocab_size


def accept_latent_attention() -> None:
    """Builds latent attention without Transformer Engine. The inner attention has no parameters, and ignores sizes of heads."""
    from megatron.core.transformer import attention, multi_latent_attention
    from megatron.core.transformer.dot_product_attention import DotProductAttention

    for module in (attention, multi_latent_attention):
        if not isinstance(getattr(module, "TELinear", None), type):
            setattr(module, "TELinear", type("TELinear", (), {}))

    build = DotProductAttention.__init__
    if build.__name__ != "build_any":

        def build_any(self: Any, *args: Any, k_channels: Any = None, v_channels: Any = None, **options: Any) -> None:
            build(self, *args, **options)

        setattr(DotProductAttention, "__init__", build_any)


def count_stages(args: Any) -> list[int]:
    """Parameters of each rank of the pipeline. A tied head is counted with the embedding alone."""
    import gpt_builders
    import torch
    from megatron.core import parallel_state
    from megatron.training.arguments import core_transformer_config_from_args
    from megatron.training.global_vars import set_args

    simplify(args)
    accept_latent_attention()
    set_args(args)
    ranks, virtual = args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size
    counts = []
    for rank in range(ranks):
        start_stage(rank, ranks, virtual)
        config = core_transformer_config_from_args(args)
        count = 0
        for chunk in range(virtual or 1):
            stage = chunk if virtual else None
            if virtual and hasattr(parallel_state, "set_virtual_pipeline_model_parallel_rank"):
                parallel_state.set_virtual_pipeline_model_parallel_rank(chunk)
            first = rank == 0 and chunk == 0
            last = rank == ranks - 1 and chunk == (virtual or 1) - 1
            with torch.device("meta"), contextlib.redirect_stdout(io.StringIO()):
                model = gpt_builders.gpt_builder(args, first, last, vp_stage=stage, config=config)
            count += sum(parameter.numel() for parameter in model.parameters())
            if last and not first and not args.untie_embeddings_and_output_weights:
                count -= args.vocab_size * args.hidden_size
        counts.append(count)
    return counts


def expect_stages(blocks: list[int], first: int, last: int, args: Any, layout: Any) -> list[int]:
    """Parameters of each rank of the pipeline, from those of MoePlan's graph."""
    ranks, virtual = args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size or 1
    if layout is None:
        sizes = [len(blocks) // (ranks * virtual)] * (ranks * virtual)
    else:
        sizes = [0] * (ranks * virtual)
        for rank, chunks in enumerate(layout.layout):
            for chunk, layers in enumerate(chunks):
                sizes[chunk * ranks + rank] = sum(layer.name == "decoder" for layer in layers)
    counts, begin = [0] * ranks, 0
    for stage, size in enumerate(sizes):
        counts[stage % ranks] += sum(blocks[begin : begin + size])
        begin += size
    counts[0] += first
    counts[-1] += last
    return counts


def print_flags() -> None:
    import megatron.training.arguments as arguments

    parser = arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
    for action in parser._actions:
        kind = {"int": "int", "float": "float"}.get(getattr(action.type, "__name__", ""), "str")
        if action.choices:
            kind = "|".join(str(choice) for choice in action.choices)
        values = "0" if action.nargs == 0 else f"{action.nargs or 1} {kind}"
        for option in action.option_strings:
            print(option.lstrip("-"), values, sep="\t")


def check(plan: list[str], options: argparse.Namespace) -> str:
    replace_device(plan[2])
    text, remark = write_plan(options, plan, "megatron")
    gaps = re.findall(r"^# Not in this file: (.*?)\.?$", text, re.M)
    args, config = validate(text, int(plan[1]))
    if not gaps or options.build_all:
        expected = expect_stages(*count_blocks(options, plan), args, config.pipeline_model_parallel_layout)
        try:
            found = count_stages(args)
        except Exception as error:
            raise Refused(f"GPTModel: {type(error).__name__}: {error}") from error
        different = [(rank, a, b) for rank, (a, b) in enumerate(zip(found, expected)) if a != b]
        if different:
            rank, a, b = different[0]
            raise Refused(f"{len(different)} of {len(found)} ranks have other parameters: {a} on {rank}, not {b}")
        return f"{len(found)} ranks, {sum(found) / 1e9:.3f} G parameters, all equal{remark}"
    return f"read{remark}; not built, since the file names gaps: " + "; ".join(gaps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True, help="folder of Megatron-LM's checkout")
    parser.add_argument("--flags", action="store_true", help="print the parser's arguments")
    parser.add_argument("--build-all", action="store_true", help="also build models with gaps")
    add_options(parser, "0.19")
    options = parser.parse_args()
    sys.path[0] = str(options.checkout)
    if options.flags:
        print_flags()
        return 0
    print(REPLACED)
    return check_plans(options, check)


if __name__ == "__main__":
    sys.exit(main())
