"""Reads measurements of single GPUs that NVIDIA aiconfigurator (Apache-2.0) published.

A folder has `DEVICE-gemm.csv` (dtype, m, n, k, us), `DEVICE-attention.csv` (batch, sequence, heads, kv_heads, head_dim,
us) and `DEVICE-moe.csv` (tokens, hidden, inter, topk, experts, tp, ep, distribution, us). All are in bf16.
"""
import csv
import pathlib

import numpy as np


def read(folder, device, kind, columns):
    with open(pathlib.Path(folder) / f"{device}-{kind}.csv") as file:
        return [tuple(kind(row[name]) for name, kind in columns.items()) + (float(row["us"]) * 1e-6,)
                for row in csv.DictReader(file) if row.get("dtype", "bfloat16") == "bfloat16"]


def read_products(folder, device):
    """Rows [rows, columns, depth, seconds]."""
    return np.array(read(folder, device, "gemm", {"m": int, "n": int, "k": int}), float)


def read_attention(folder, device):
    """Rows [batch, length, heads, key heads, columns of a head, seconds] of causal attention, forward."""
    return np.array(read(folder, device, "attention",
                         {"batch": int, "sequence": int, "heads": int, "kv_heads": int, "head_dim": int}), float)


def read_layers(folder, device):
    """Rows [tokens, hidden, inner columns, choices of a token, experts held, rows of each of them, rows of all, seconds] of gated MoE
    layers whose tokens choose all experts equally often.

    The tokens are those of all ranks of ep, and the measured experts are those of one rank. If there are fewer choices than experts, each
    choice takes an expert of its own.
    """
    columns = {"tokens": int, "hidden": int, "inter": int, "topk": int, "experts": int, "tp": int, "ep": int,
               "distribution": str}
    rows = []
    for tokens, hidden, inner, choices, experts, tp, ep, distribution, seconds in read(folder, device, "moe", columns):
        if distribution != "balanced":
            continue
        mine = tokens * choices / ep
        used = max(min(experts // ep, round(mine)), 1)
        rows.append((tokens, hidden, inner // tp, choices, used, max(mine / used, 1), mine, seconds))
    return np.array(rows)
