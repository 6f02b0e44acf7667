"""Checks the number of rows of a token that leave its node in a simulated layer (moe-sim --json). A token has `hidden` values in bf16
and 8 choices."""

import json
import sys

path, hidden, expected = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
with open(path) as file:
    moved = sum(kernel["bytes"] for kernel in json.load(file)["kernels"] if kernel["kernel"] == "all_to_all_v [ep_nodes]")
rows = moved / (4 * hidden * 2 + 2 * 8 * 4 + 8 * 4) / 4096
if abs(rows / expected - 1) > 0.002:
    sys.exit(f"expected {expected} rows of a token to leave its node but {rows:.4f} did")
