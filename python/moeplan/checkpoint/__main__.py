"""Command line of moeplan.checkpoint."""

from __future__ import annotations

import argparse
import sys

from .._errors import Error
from . import FORMATS, Adam, convert


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m moeplan.checkpoint", description=(
        "Converts a training checkpoint of MoePlan to a folder of PyTorch's distributed checkpoints (dcp) or of Megatron (torch_dist), or "
        "such a folder to a checkpoint of MoePlan. Weights and the states of Adam are read and written in pieces."))
    parser.add_argument("source", metavar="FROM", help="the folder of --checkpoint, of dcp.save, or of Megatron's --save; its format is found")
    parser.add_argument("target", metavar="TO", help="a new folder")
    parser.add_argument("--to", required=True, choices=FORMATS, help="the format of TO")
    parser.add_argument("--plan", required=True, metavar="PLAN.so", help="a plan with the model and --optimizer=adam; plans are code")
    parser.add_argument("--heads", type=int, metavar="N", help="the number of attention heads; Megatron's layout depends on it")
    parser.add_argument("--piece-bytes", type=int, default=64_000_000, metavar="BYTES", help="bytes of a piece (default: %(default)s)")
    group = parser.add_argument_group("options for torch_dist", "Megatron takes these from the checkpoint. Give those of moe-compile.")
    group.add_argument("--beta1", type=float, default=0.9, help="decay of Adam's first state (default: %(default)s)")
    group.add_argument("--beta2", type=float, default=0.95, help="decay of Adam's second state (default: %(default)s)")
    group.add_argument("--eps", type=float, default=1e-8, help="eps of Adam (default: %(default)s)")
    group.add_argument("--weight-decay", type=float, default=0.0, help="weight decay (default: %(default)s)")
    group.add_argument("--expert-parallel", action=argparse.BooleanOptionalAction, default=None, help=(
        "whether the job has EP or ETP above 1, and so an optimizer of its own for experts (default: as the plan)"))
    options = parser.parse_args()
    try:
        adam = Adam(options.beta1, options.beta2, options.eps, options.weight_decay)
        done = convert(options.source, options.target, to=options.to, plan=options.plan, heads=options.heads, piece_bytes=options.piece_bytes,
                       adam=adam, expert_parallel=options.expert_parallel)
    except Error as error:
        print(f"moeplan.checkpoint: error: {error}", file=sys.stderr)
        return 1
    for left in done.left:
        print(f"moeplan.checkpoint: note: not carried over: {left}", file=sys.stderr)
    print(f"wrote '{done.folder}': step {done.step}, {done.tensors} tensors, {done.bytes} bytes")
    print(f"largest piece in memory: {done.largest_bytes} bytes, of '{done.largest_tensor}'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
