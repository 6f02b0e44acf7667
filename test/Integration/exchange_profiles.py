#!/usr/bin/env python3
"""Tests benchmarks/profiles and benchmarks/predictions on made-up measurements of collectives.

Usage: exchange_profiles.py --bin=BIN
"""
import argparse
import csv
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROFILES = os.path.join(ROOT, "benchmarks", "profiles")
sys.path.insert(0, PROFILES)
import exchanges  # noqa: E402
from shipped import read_profile  # noqa: E402
from text import format_profile  # noqa: E402

BIN = ""


def get_microseconds(op, gpus, size):
    part = (2 if op == "all_reduce" else 1) * (gpus - 1) / gpus
    return 4 + 1.5 * gpus + part * size / 300e3


def write_measured(folder):
    """Writes half of the sizes, with 2% of noise and one disturbed row."""
    draw = random.Random(1)
    for device in exchanges.ALIKE:
        with open(os.path.join(folder, f"{device}-nccl.csv"), "w") as file:
            writer = csv.writer(file)
            writer.writerow(["op", "gpus", "bytes", "us"])
            for op in exchanges.NAMES:
                for gpus in (2, 4, 8):
                    for size in exchanges.SIZES:
                        if draw.random() < 0.5:
                            writer.writerow([op, gpus, size, get_microseconds(op, gpus, size) * draw.uniform(0.98, 1.02)])
            writer.writerow(["alltoall", 8, 512, 1000])


def run(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True)


class ExchangesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        write_measured(self.folder)

    def test_profile_has_what_was_measured(self):
        made = run(os.path.join(PROFILES, "exchanges.py"), f"--measured={self.folder}", f"--out={self.folder}")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if name.endswith(".json")),
                         sorted(f"{name}.json" for name in exchanges.PROFILES))
        sys.path.insert(0, os.path.join(ROOT, "benchmarks"))
        from exchanges_over_nodes import price
        rows = [(op, gpus, size) for op in exchanges.NAMES for gpus in (2, 4, 8) for size in (512, 2**15, 2**22, 2**29)]
        seconds = price(os.path.join(BIN, "price_exchanges"), os.path.join(self.folder, "hgx-h100.json"),
                        [(exchanges.NAMES[op], 1, gpus, size, "closed") for op, gpus, size in rows])
        for row, found in zip(rows, seconds):
            self.assertAlmostEqual(found * 1e6 / get_microseconds(*row), 1, delta=0.05, msg=str(row))

    def test_other_parts_of_a_profile_stay(self):
        profile = read_profile("hgx-h100")
        text = format_profile(profile)
        self.assertEqual(format_profile(exchanges.update(profile, "hopper", [])), text)
        self.assertEqual(read_profile("hgx-h100"), profile)
        changed = exchanges.update(profile, "h800", [{"collective": "all_gather"}])
        self.assertEqual(list(changed), list(profile))
        self.assertEqual(changed["collectives"], [{"collective": "all_gather"}])
        self.assertNotEqual(changed["links"], profile["links"])
        for key in ("device", "interference"):
            self.assertEqual(changed[key], profile[key])

    def test_unmeasured_profiles_are_those_that_ship(self):
        made = run(os.path.join(PROFILES, "unmeasured.py"), f"--out={self.folder}")
        self.assertEqual(made.returncode, 0, made.stderr)
        names = sorted(name for name in os.listdir(self.folder) if name.endswith(".json"))
        self.assertEqual(names, ["mi300x.json", "mi355x.json"])
        for name in names:
            with open(os.path.join(self.folder, name)) as file, open(os.path.join(ROOT, "share", "clusters", name)) as shipped:
                self.assertEqual(file.read(), shipped.read(), name)

    def test_rows_left_out_are_predicted(self):
        table = run(os.path.join(ROOT, "benchmarks", "predictions", "exchanges.py"), f"--bin={BIN}",
                    f"--measured={self.folder}", "--seeds=0")
        self.assertEqual(table.returncode, 0, table.stderr)
        large = [float(line.split()[-2].rstrip("%")) for line in table.stdout.splitlines() if re.search(" every +large", line)]
        self.assertEqual(len(large), len(exchanges.ALIKE), table.stdout)
        self.assertLess(max(large), 5, table.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    BIN = options.bin
    unittest.main(argv=[sys.argv[0], *rest])
