#!/usr/bin/env python3
"""Compares predicted with measured collectives inside a node, for held-out rows.

Usage: exchanges.py --bin=build/release/bin --measured=DIR [--seeds=0,1,2]

For each seed a random third of DIR's rows (see ../profiles/exchanges.py) is held out. Profiles are made from the other rows, and
price_exchanges predicts the held-out ones. `--shipped` predicts all rows with the shipped profiles.
"""
import argparse
import collections
import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "profiles"), str(HERE.parent)]
import exchanges as profiles  # noqa: E402
from exchanges_over_nodes import price  # noqa: E402
from shipped import CLUSTERS, read_profile  # noqa: E402
from text import format_profile  # noqa: E402

BORDER = 2**20  # border between small and large messages, in bytes


def split(measured, seed):
    """Rows for fitting and held-out rows, each {device: rows}."""
    learnt, left_out = collections.defaultdict(list), collections.defaultdict(list)
    rows = [(device, row) for device, mine in sorted(measured.items()) for row in mine]
    random.Random(seed).shuffle(rows)
    for number, (device, row) in enumerate(rows):
        (left_out if number < len(rows) // 3 else learnt)[device].append(row)
    return learnt, left_out


def predict(binary, name, profile, rows, errors):
    device = profiles.PROFILES[name][0]
    questions = [(profiles.NAMES[op], 1, gpus, size, "closed") for op, gpus, size, _ in rows[device]]
    for (op, gpus, size, seconds), predicted in zip(rows[device], price(binary, profile, questions)):
        size_class = "large" if size >= BORDER else "small"
        for key in ((device, op, gpus, size_class), (device, "every", "", size_class)):
            errors[key].append(predicted / seconds - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--measured", required=True)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--shipped", action="store_true")
    options = parser.parse_args()
    binary = str(pathlib.Path(options.bin) / "price_exchanges")
    names = [name for name, (device, _) in profiles.PROFILES.items() if device]
    measured = {profiles.PROFILES[name][0]: profiles.read_rows(options.measured, profiles.PROFILES[name][0])
                for name in names}
    errors = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for seed in [None] if options.shipped else [int(seed) for seed in options.seeds.split(",")]:
            learnt, left_out = (measured, measured) if seed is None else split(measured, seed)
            for name in names:
                device, kind = profiles.PROFILES[name]
                path = CLUSTERS / f"{name}.json"
                if seed is not None:
                    rows = {other: learnt[other] for other in profiles.ALIKE[device]}
                    made = profiles.update(read_profile(name), kind, profiles.make_collectives(rows, device))
                    path = pathlib.Path(folder) / f"{name}.json"
                    path.write_text(format_profile(made))
                predict(binary, name, path, left_out, errors)
    print(f"{'device':7} {'op':15} {'gpus':>4} {'bytes':6} {'rows':>5} {'mean error':>10} {'worst':>7}")
    for (device, op, gpus, size), values in sorted(errors.items(), key=str):
        worst = max(values, key=abs)
        mean = sum(map(abs, values)) / len(values)
        print(f"{device:7} {op:15} {gpus:>4} {size:6} {len(values):5} {mean:10.1%} {worst:+7.0%}")


if __name__ == "__main__":
    main()
