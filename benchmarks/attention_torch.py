#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention in bf16 on the shapes of attention_shapes.py.

Prints one JSON object for each shape and pass, one in a line. The backward is the step of both passes less the forward.
"""
import argparse
import json
import sys

import torch
import torch.nn.functional as F

import attention_shapes
from timed_torch import DEVICE, time_median


def measure(shape, steps):
    """Seconds of the forward and of the backward."""
    torch.manual_seed(0)
    make = lambda heads: torch.randn(shape.batch, heads, shape.sequence, shape.columns, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    q, k, v = make(shape.heads), make(shape.key_heads), make(shape.key_heads)
    run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shape.heads != shape.key_heads)
    cotangent = torch.randn_like(run())

    def run_forward():
        with torch.no_grad():
            run()

    forward = time_median(run_forward, steps)
    both = time_median(lambda: torch.autograd.grad(run(), (q, k, v), cotangent), steps)
    return {"forward": forward, "backward": both - forward}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=lambda text: text.split(","), default=[name for name in attention_shapes.SHAPES if name != "tiny"])
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    failed = 0
    for name in options.shape:
        shape = attention_shapes.SHAPES[name]
        flops = {"forward": attention_shapes.get_flops(shape), "backward": 2.5 * attention_shapes.get_flops(shape)}
        try:
            for which, seconds in measure(shape, options.steps).items():
                print(json.dumps({"shape": name, "pass": which, "method": "torch-sdpa", "ms": seconds * 1e3,
                                  "tflops": flops[which] / seconds / 1e12}), flush=True)
        except Exception as error:  # any error of PyTorch: no memory, no kernel for this GPU
            failed += 1
            print(json.dumps({"shape": name, "method": "torch-sdpa", "error": f"{type(error).__name__}: {error}"}), flush=True)
    return 1 if failed == len(options.shape) else 0


if __name__ == "__main__":
    sys.exit(main())
