#!/usr/bin/env python3
"""Writes cases.json: the ragged products of published models, with the rows of each expert.

Usage: make_cases.py [FILE]     standard output unless given

A case is a layer on one device. Each has two products for swiglu experts: rows x k times k x n, with one k x n matrix for each expert.
Balanced routing gives all experts of the device the same rows. In skewed routing they have weights 1, 1/2, 1/3 and so on. A device that has
only some of the experts gets as many rows as it sends.
"""
import json
import sys
from typing import NamedTuple


class Model(NamedTuple):
    name: str
    hidden: int
    inner: int
    experts: int  # experts on the device
    top_k: int
    devices: int = 1  # devices that share the experts


MODELS = [
    Model("mixtral-8x7b", 4096, 14336, 8, 2),
    Model("qwen3-30b-a3b", 2048, 768, 128, 8),
    Model("qwen3-235b-a22b", 4096, 1536, 128, 8),
    Model("deepseek-v3", 7168, 2048, 256, 8),
    Model("deepseek-v3-32-local", 7168, 2048, 32, 8, 8),
    Model("deepseek-v3-8-local", 7168, 2048, 8, 8, 32),
]
TOKENS = (4096, 16384)


def divide(rows, weights):
    """Whole numbers in proportion to the weights, with the given sum. The rounding remainder goes to the largest fractions."""
    total = sum(weights)
    exact = [rows * weight / total for weight in weights]
    counts = [int(value) for value in exact]
    order = sorted(range(len(weights)), key=lambda e: (counts[e] - exact[e], e))
    for e in order[:rows - sum(counts)]:
        counts[e] += 1
    return counts


def get_rows(model, tokens, routing):
    if routing == "balanced":
        return divide(tokens * model.top_k, [1] * model.experts)
    counts = divide(tokens * model.top_k, [1 / (e + 1) for e in range(model.experts)])
    # No token chooses an expert twice, so an expert's surplus goes to the others.
    most = tokens * model.devices
    while max(counts) > most:
        room = [e for e in range(model.experts) if counts[e] < most]
        excess = sum(max(count - most, 0) for count in counts)
        counts = [min(count, most) for count in counts]
        for e, more in zip(room, divide(excess, [counts[e] + 1 for e in room])):
            counts[e] += more
    # Spreads the load over the memory, because 7 divides none of the numbers of experts.
    return [counts[e * 7 % model.experts] for e in range(model.experts)]


def get_cases():
    for model in MODELS:
        for tokens in TOKENS:
            for routing in ("balanced", "skewed"):
                yield {"model": model.name, "routing": routing, "tokens": tokens, "experts": model.experts, "top_k": model.top_k,
                       "products": [{"n": 2 * model.inner, "k": model.hidden}, {"n": model.hidden, "k": model.inner}],
                       "rows": get_rows(model, tokens, routing)}


def get_text():
    tiny = {"model": "tiny", "routing": "skewed", "tokens": 32, "experts": 8, "top_k": 2, "products": [{"n": 128, "k": 64}, {"n": 64, "k": 64}],
            "rows": [24, 0, 8, 16, 1, 7, 8, 0]}
    lines = [json.dumps(case) for case in [*get_cases(), tiny]]
    return '{"cases": [\n' + ",\n".join(lines) + "\n]}\n"


def main():
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            file.write(get_text())
    else:
        sys.stdout.write(get_text())


if __name__ == "__main__":
    main()
