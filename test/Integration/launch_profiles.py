#!/usr/bin/env python3
"""Tests benchmarks/profiles/launches.py and benchmarks/predictions/launches.py on made-up measurements of launches.

Usage: launch_profiles.py --bin=BIN
"""
import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROFILES = os.path.join(ROOT, "benchmarks", "profiles")
sys.path.insert(0, PROFILES)
import launches  # noqa: E402
import precisions  # noqa: E402
from shipped import CLUSTERS  # noqa: E402
from text import format_profile, parse_profile  # noqa: E402

BIN = ""
PEAK, BANDWIDTH, START, REST = 989.4e12, 2.837e12, 2e-6, 30e-6


def get_product(groups, rows, columns, depth):
    """Seconds of products that run together, at 60% of the peak or 90% of the bandwidth."""
    flops = 2 * groups * rows * columns * depth
    moved = 2 * groups * (rows * columns + columns * depth + rows * depth)
    return max(flops / PEAK / 0.6, moved / BANDWIDTH / 0.9)


def get_attention(batch, length, heads, columns):
    return START + 4 * batch * heads * length * ((length + 1) // 2) * columns / PEAK / 0.5


def get_layer(tokens, hidden, inner, choices, experts):
    rows = tokens * choices
    moved = [4 * rows * hidden, 6 * rows * inner, 2 * (rows + tokens) * hidden]
    return (REST + sum(max(part / BANDWIDTH, START) for part in moved) +
            get_product(experts, rows / experts, 2 * inner, hidden) + get_product(experts, rows / experts, hidden, inner))


def write(folder, kind, names, rows):
    with open(os.path.join(folder, f"h100-{kind}.csv"), "w") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "us"])
        writer.writerows([*sizes, seconds * 1e6] for *sizes, seconds in rows)


def write_measured(folder):
    """Writes most of a grid of sizes, with 2% of noise."""
    draw = random.Random(1)
    sizes = [2**i for i in range(5, 16)]

    def choose(rows):
        return [(*sizes, seconds * draw.uniform(0.98, 1.02)) for *sizes, seconds in rows if draw.random() < 0.8]

    write(folder, "gemm", ("dtype", "m", "n", "k"),
          choose(("bfloat16", m, n, k, START + get_product(1, m, n, k)) for m in [1, 8, *sizes] for n in sizes for k in sizes))
    write(folder, "attention", ("batch", "sequence", "heads", "kv_heads", "head_dim"),
          choose((batch, length, heads, heads, columns, get_attention(batch, length, heads, columns))
                 for batch in (1, 4, 16, 64) for length in (1, *sizes[:10]) for heads in (1, 4, 16, 64) for columns in (64, 128)))
    write(folder, "moe", ("tokens", "hidden", "inter", "topk", "experts", "tp", "ep", "distribution"),
          choose((tokens, hidden, inner, 4, experts, 1, 1, "balanced", get_layer(tokens, hidden, inner, 4, experts))
                 for tokens in sizes[1:10] for hidden in sizes[5:8] for inner in sizes[3:8] for experts in (8, 16, 32, 64, 128)
                 if tokens * 4 >= experts))


class PrecisionsTest(unittest.TestCase):
    def test_products_in_narrow_types_are_fitted(self):
        """A fixed time of 10 us, half of the time in bf16, and 1 ps for an element of the rows."""
        shapes = [(rows, columns, depth) for rows in (512, 4096, 16384) for columns in (256, 1024, 8192) for depth in (1024, 4096)]
        plain = {shape: START + get_product(1, *shape) for shape in shapes}
        narrow = {shape: 1e-5 + 0.5 * seconds + 1e-12 * shape[0] * shape[2] for shape, seconds in plain.items()}
        terms = precisions.make_terms(plain, narrow)
        self.assertEqual(len(terms), 11)  # no router, and no small product
        for figure, expected in zip(precisions.fit(terms), (1e-5, 0.5, 1e-12)):
            self.assertAlmostEqual(figure / expected, 1)
        self.assertEqual(precisions.describe(terms), "11 products: fixed_s 10.0 us, times 0.500, 1.00 ps for an element, error 0.000")
        # Products that take no fixed time get none, and no negative one.
        self.assertEqual(precisions.fit(precisions.make_terms(plain, {shape: 0.5 * seconds - 1e-6 for shape, seconds in plain.items()}))[0], 0)


class LaunchesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        write_measured(self.folder)

    def run_script(self, *command):
        done = subprocess.run([sys.executable, *command, f"--measured={self.folder}", "--only=hgx-h100"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_rows_left_out_are_predicted(self):
        table = self.run_script(os.path.join(ROOT, "benchmarks", "predictions", "launches.py"), f"--bin={BIN}")
        errors = {line[7:57].strip(): float(line[64:71].strip().rstrip("%"))
                  for line in table.splitlines() if line.startswith("h100")}
        for kind in ("product", "MoE layer", "attention"):
            self.assertLess(errors[f"{kind}, all"], 10, table)

    def test_only_curves_change(self):
        self.run_script(os.path.join(PROFILES, "launches.py"), f"--out={self.folder}")
        with open(os.path.join(self.folder, "hgx-h100.json")) as file:
            made = json.load(file)
        shipped = json.loads((CLUSTERS / "hgx-h100.json").read_text())
        for profile in (made, shipped):
            for key in ("attention", "rates", "kernel_s"):
                del profile["device"][key]
        self.assertEqual(made, shipped)

    def test_shipped_profiles_state_the_rest_of_a_layer(self):
        for name in launches.PROFILES:
            self.assertGreater(launches.read_rest(parse_profile((CLUSTERS / f"{name}.json").read_text())), 1e-6, name)

    def test_text_of_shipped_profiles(self):
        for name in launches.PROFILES:
            text = (CLUSTERS / f"{name}.json").read_text()
            self.assertEqual(parse_profile(format_profile(parse_profile(text))), parse_profile(text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    BIN = options.bin
    unittest.main(argv=[sys.argv[0], *rest])
