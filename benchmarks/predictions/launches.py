#!/usr/bin/env python3
"""Compares predicted with measured products, MoE layers and attention of single GPUs, for held-out rows.

Usage: launches.py --bin=build/release/bin --measured=DIR [--seeds=0,1,2] [--shipped]

For each seed a random third of DIR's rows (see ../profiles/measured.py) is held out. Profiles are made from the other rows, and
price_launches predicts the held-out ones. `--shipped` predicts all rows with the shipped profiles instead.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit("error: expected numpy: pip install numpy")

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "profiles"))
import launches as profiles  # noqa: E402
import measured  # noqa: E402
from shipped import CLUSTERS, read_profile  # noqa: E402
from text import format_profile  # noqa: E402

READERS = {"product": measured.read_products, "MoE layer": measured.read_layers, "attention": measured.read_attention}
FAR = 0.5  # relative to the measurement


def price(binary, profile, lines):
    result = subprocess.run([binary, profile], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if result.returncode:
        sys.exit(result.stderr)
    return np.array([float(line) for line in result.stdout.split()])


def price_products(priced, rows, rest):
    return priced([f"product,bf16,{m:.0f},{n:.0f},{k:.0f}" for m, n, k, _ in rows])


def price_attention(priced, rows, rest):
    return priced([f"attention,bf16,2,{columns:.0f},{batch:.0f},{heads:.0f},{length:.0f}"
                   for batch, length, heads, _, columns, _ in rows])


def price_layers(priced, rows, rest):
    """Sums the launches: rows to the experts and back, both products, the activation, and `rest` seconds for the others."""
    seconds = np.full(len(rows), float(rest))
    for part in ("bytes,bf16,{to:.0f}", "bytes,bf16,{act:.0f}", "bytes,bf16,{back:.0f}",
                 "grouped,bf16,{both:.0f},{hidden:.0f},{each:.0f}*{used:.0f}",
                 "grouped,bf16,{hidden:.0f},{inner:.0f},{each:.0f}*{used:.0f}"):
        seconds += priced([part.format(to=4 * mine * hidden, act=6 * mine * inner, back=2 * (mine + tokens) * hidden,
                                       both=2 * inner, hidden=hidden, inner=inner, each=each, used=used)
                           for tokens, hidden, inner, _, used, each, mine, _ in rows])
    return seconds


PRICES = {"product": price_products, "MoE layer": price_layers, "attention": price_attention}
# Size classes of each kind: their names, and conditions on rows.
CLASSES = {
    "product": [
        ("all", lambda r: r[:, 0] > 0),
        ("rows below 64", lambda r: r[:, 0] < 64),
        ("rows 64 to 1023", lambda r: (r[:, 0] >= 64) & (r[:, 0] < 1024)),
        ("rows from 1024, another side 512 to 2048",
         lambda r: (r[:, 0] >= 1024) & (((r[:, 1:3] >= 512) & (r[:, 1:3] <= 2048)).any(1))),
        ("rows from 1024, another side below 512", lambda r: (r[:, 0] >= 1024) & (r[:, 1:3] < 512).any(1)),
        ("all sides above 2048", lambda r: (r[:, :3] > 2048).all(1))],
    "MoE layer": [
        ("all", lambda r: r[:, 0] > 0),
        ("32 experts or more, 4 to 64 rows", lambda r: (r[:, 4] >= 32) & (r[:, 5] >= 4) & (r[:, 5] <= 64)),
        ("below 8 experts", lambda r: r[:, 4] < 8),
        ("1024 tokens or more", lambda r: r[:, 0] >= 1024)],
    "attention": [
        ("all", lambda r: r[:, 0] > 0),
        ("below 2048 tokens", lambda r: r[:, 1] < 2048),
        ("2048 to 8192 tokens", lambda r: (r[:, 1] >= 2048) & (r[:, 1] <= 8192)),
        ("above 8192 tokens", lambda r: r[:, 1] > 8192)],
}


def predict(binary, name, folder, seed, errors):
    """Adds [rows, errors] of one profile to `errors`, by kind."""
    device = profiles.PROFILES[name]
    rows = {kind: read(folder, device) for kind, read in READERS.items()}
    rng = np.random.default_rng(seed)
    left_out = {kind: np.ones(len(mine), bool) if seed is None else rng.random(len(mine)) < 1 / 3
                for kind, mine in rows.items()}
    path = CLUSTERS / f"{name}.json"
    rest = profiles.read_rest(read_profile(name))
    with tempfile.TemporaryDirectory() as made:
        if seed is not None:
            profile = read_profile(name)
            learnt = [mine[~left_out[kind]] for kind, mine in rows.items()]
            rest = profiles.update(profile, device.upper(), *learnt)
            path = pathlib.Path(made) / f"{name}.json"
            path.write_text(format_profile(profile))
        for kind, mine in rows.items():
            chosen = mine[left_out[kind]]
            predicted = PRICES[kind](lambda lines: price(binary, path, lines), chosen, rest)
            errors.setdefault((device, kind), []).append((chosen, predicted / chosen[:, -1] - 1))


def report(errors):
    print(f"{'device':7}{'rows left out':50}{'n':>7}{'mean':>7}{'bias':>7}{'worst':>8}{'far':>7}{'others':>8}")
    for (device, kind), parts in sorted(errors.items()):
        rows = np.concatenate([rows for rows, _ in parts])
        wrong = np.concatenate([wrong for _, wrong in parts])
        for label, belongs in CLASSES[kind]:
            mine = wrong[belongs(rows)]
            if len(mine) == 0:
                continue
            size = np.abs(mine)
            others = size[size <= FAR].mean()
            print(f"{device:7}{kind + ', ' + label:50}{len(mine):7}{size.mean():7.1%}{mine.mean():+7.1%}"
                  f"{mine[size.argmax()]:+8.0%}{(size > FAR).mean():7.1%}{others:8.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--measured", required=True)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--only", default="hgx-h100,hgx-h200,hgx-b200,gb200-nvl72,hgx-b300,gb300-nvl72")
    parser.add_argument("--shipped", action="store_true")
    options = parser.parse_args()
    errors = {}
    for name in options.only.split(","):
        for seed in [None] if options.shipped else [int(seed) for seed in options.seeds.split(",")]:
            predict(str(pathlib.Path(options.bin) / "price_launches"), name, options.measured, seed, errors)
    report(errors)
    print(f"far: rows whose error is above {FAR:.0%}; others: the mean error of all other rows")


if __name__ == "__main__":
    main()
