#!/usr/bin/env python3
"""Prints how long products in narrow types take, as figures for `precisions[]` of share/frameworks, from measurements.

Usage: precisions.py --measured=DIR [--only=h100,..]

DIR has `DEVICE-gemm.csv` (measured.py), and `DEVICE-gemm-fp8.csv` with the same columns for other types. A product of `rows` x `columns` x
`depth` takes fixed_s + times * (seconds in bf16) + seconds_per_element * rows * depth, where the last term quantises the rows. The fit has the
least sum of squared relative errors, with no negative figure. The error is the mean of a random third of the rows, from a fit of the others.
"""
import csv
import itertools
import pathlib
import random
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measured  # noqa: E402

DEVICES = ("h100", "h200", "b200", "gb200", "b300", "gb300")
LEAST_SIDE = 512  # columns and depth of linear layers
LEAST_FLOPS = 3e9  # smaller products are all overhead


def read_narrow(folder, device):
    """{dtype: {(rows, columns, depth): seconds}}"""
    products = {}
    with open(pathlib.Path(folder) / f"{device}-gemm-fp8.csv") as file:
        for row in csv.DictReader(file):
            products.setdefault(row["dtype"], {})[tuple(int(row[key]) for key in "mnk")] = float(row["us"]) * 1e-6
    return products


def make_terms(plain, narrow):
    """Rows of the terms, over the seconds in the narrow type, of products in both tables."""
    terms = []
    for shape, seconds in narrow.items():
        rows, columns, depth = shape
        if shape in plain and min(columns, depth) >= LEAST_SIDE and 2 * rows * columns * depth >= LEAST_FLOPS:
            terms.append(np.array([1, plain[shape], rows * depth]) / seconds)
    return np.array(terms)


def fit(terms):
    """Figures that are not negative: the best of the fits that leave some of them out."""
    best, least = None, np.inf
    sizes = np.linalg.norm(terms, axis=0)
    for kept in itertools.product((False, True), repeat=terms.shape[1]):
        if any(kept):
            figures = np.zeros(terms.shape[1])
            figures[list(kept)] = np.linalg.lstsq((terms / sizes)[:, kept], np.ones(len(terms)), rcond=None)[0]
            figures /= sizes
            error = np.sum((terms @ figures - 1) ** 2)
            if error < least and (figures >= 0).all():
                best, least = figures, error
    return best


def describe(terms):
    order = list(range(len(terms)))
    random.Random(0).shuffle(order)
    held, known = terms[order[:len(order) // 3]], terms[order[len(order) // 3:]]
    fixed, times, element = fit(terms)
    error = np.mean(np.abs(held @ fit(known) - 1))
    return f"{len(terms)} products: fixed_s {fixed * 1e6:.1f} us, times {times:.3f}, {element * 1e12:.2f} ps for an element, error {error:.3f}"


def main(arguments):
    options = dict(argument.removeprefix("--").split("=", 1) for argument in arguments)
    for device in options["only"].split(",") if "only" in options else DEVICES:
        plain = {tuple(int(size) for size in row[:3]): row[3] for row in measured.read_products(options["measured"], device)}
        for dtype, narrow in sorted(read_narrow(options["measured"], device).items()):
            print(f"{device} {dtype}: {describe(make_terms(plain, narrow))}")


if __name__ == "__main__":
    main(sys.argv[1:])
