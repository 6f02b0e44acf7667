#!/usr/bin/env python3
"""Predicted TFLOP/s of the largest launches of a layer, of three models on five clusters.

Usage: launch_rates.py --prices=build/release/bin/price_launches
"""
import argparse
import pathlib
import subprocess

CLUSTERS = pathlib.Path(__file__).resolve().parents[1] / "share" / "clusters"
NAMES = ("hgx-h100", "h800", "hgx-h200", "hgx-b200", "gb200-nvl72")
TOKENS = 4096
# Hidden size, inner size of an expert, experts of a rank, choices of a token, heads, columns of a head.
MODELS = {"Mixtral 8x7B, EP 8": (4096, 14336, 1, 2, 32, 128), "Qwen3-235B-A22B, EP 8": (4096, 1536, 16, 8, 64, 128),
          "DeepSeek-V3, EP 64": (7168, 2048, 4, 8, 128, 192)}


def make_launches(hidden, inner, experts, choices, heads, columns):
    """(name, row of price_launches, FLOPs) of each launch. Each rank has TOKENS tokens, and receives as many choices as its tokens make."""
    rows = TOKENS * choices // experts
    scores = 2 * heads * TOKENS * ((TOKENS + 1) // 2) * columns
    return [("experts, up", f"grouped,bf16,{2 * inner},{hidden},{rows}*{experts}", 4 * experts * rows * inner * hidden),
            ("experts, down", f"grouped,bf16,{hidden},{inner},{rows}*{experts}", 2 * experts * rows * inner * hidden),
            ("projection", f"product,bf16,{TOKENS},{heads * columns},{hidden}", 2 * TOKENS * heads * columns * hidden),
            ("attention", f"attention,bf16,2,{columns},1,{heads},{TOKENS}", 2 * scores),
            ("its backward", f"attention,bf16,5,{columns},1,{heads},{TOKENS}", 5 * scores)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prices", required=True)
    options = parser.parse_args()
    launches = [(model, *launch) for model, sizes in MODELS.items() for launch in make_launches(*sizes)]
    lines = "".join(f"{line}\n" for _, _, line, _ in launches)
    seconds = {name: subprocess.run([options.prices, CLUSTERS / f"{name}.json"], input=lines, capture_output=True, text=True,
                                    check=True).stdout.split() for name in NAMES}
    print(f"{'TFLOP/s':23}{'launch':14}" + "".join(f"{name:>12}" for name in NAMES))
    for number, (model, launch, _, flops) in enumerate(launches):
        rates = "".join(f"{flops / float(seconds[name][number]) / 1e12:12.0f}" for name in NAMES)
        print(f"{model if launch == 'experts, up' else '':23}{launch:14}{rates}")


if __name__ == "__main__":
    main()
