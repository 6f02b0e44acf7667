#!/usr/bin/env python3
"""Times PyTorch's grouped_mm on the cases of ragged_gemm/cases.json, in bf16.

Prints one JSON object for each product and pass, one in a line, as the program ragged_gemm does. A case that fails has "error" in place of
figures. Passes: forward is x w, dgrad the gradient of x, wgrad that of w.
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.nn.functional as F

from timed_torch import DEVICE, time_median

# public since 2.10
GROUPED_MM = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ragged_gemm", "cases.json")


def get_passes(rows, n, k):
    """Functions of the passes, with operands in the layout of training: weights as [experts, n, k]."""
    make = lambda *size: torch.randn(*size, device=DEVICE, dtype=torch.bfloat16)
    ends = torch.tensor(rows, device=DEVICE).cumsum(0).to(torch.int32)
    x, dy, w = make(sum(rows), k), make(sum(rows), n), make(len(rows), n, k)
    return {"forward": lambda: GROUPED_MM(x, w.transpose(-2, -1), offs=ends),
            "dgrad": lambda: GROUPED_MM(dy, w, offs=ends),
            "wgrad": lambda: GROUPED_MM(dy.t(), x, offs=ends)}


def measure(case, product, which, steps):
    n, k, rows = product["n"], product["k"], case["rows"]
    record = {"model": case["model"], "routing": case["routing"], "tokens": case["tokens"], "pass": which, "method": "torch-grouped_mm",
              "dtype": "bf16", "experts": case["experts"], "rows": sum(rows), "n": n, "k": k}
    try:
        seconds = time_median(get_passes(rows, n, k)[which], steps)
    except Exception as error:  # any error of PyTorch: no memory, no kernel for this GPU
        return {**record, "error": f"{type(error).__name__}: {str(error)[:300]}"}
    return {**record, "ms": seconds * 1e3, "tflops": 2 * sum(rows) * n * k / seconds / 1e12}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=CASES, metavar="FILE")
    parser.add_argument("--model", type=lambda text: text.split(","), help="some models (default: all but tiny, a try-out)")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS", help="begin no case after this time")
    options = parser.parse_args()
    if not GROUPED_MM:
        sys.exit(f"error: PyTorch {torch.__version__} has no grouped_mm")
    with open(options.cases, encoding="utf-8") as file:
        cases = [case for case in json.load(file)["cases"] if (case["model"] in options.model if options.model else case["model"] != "tiny")]
    begin, measured = time.monotonic(), 0
    for case in cases:
        for product in case["products"]:
            for which in ("forward", "dgrad", "wgrad"):
                if time.monotonic() - begin > options.limit:
                    print("time is up: cases are left", file=sys.stderr)
                    return 0 if measured else 1
                record = measure(case, product, which, options.steps)
                measured += "error" not in record
                print(json.dumps(record), flush=True)
                if DEVICE.type == "cuda":
                    torch.cuda.empty_cache()
    return 0 if measured else 1


if __name__ == "__main__":
    sys.exit(main())
