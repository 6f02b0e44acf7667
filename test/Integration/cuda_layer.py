#!/usr/bin/env python3
"""benchmarks/cuda_layer.py from plans to tables, on the emulation of CUDA: what it measures means nothing here, how it works does.

Usage: cuda_layer.py --bin DIR. MOERT_BACKENDS says where the emulated backend is. PyTorch takes part where this interpreter has it.
"""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

BENCHMARKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks")
sys.path.insert(0, BENCHMARKS)
import cuda_layer  # noqa: E402

BIN = None
TINY = cuda_layer.SHAPES["tiny"]


def run_script(*flags):
    command = [sys.executable, "-B", os.path.join(BENCHMARKS, "cuda_layer.py"), "--bin", BIN, "--shape=tiny", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


class RoutingTest(unittest.TestCase):
    def split(self, choices):
        tokens = [choices[i:i + TINY.top_k] for i in range(0, len(choices), TINY.top_k)]
        self.assertEqual(len(tokens), 256)
        self.assertTrue(all(len(set(token)) == TINY.top_k and max(token) < TINY.experts for token in tokens))
        return collections.Counter(choices)

    def test_balanced_routing_gives_all_experts_as_much(self):
        counts = self.split(cuda_layer.draw_balanced(TINY, 256, random.Random(1)))
        self.assertEqual(set(counts.values()), {256 * TINY.top_k // TINY.experts})

    def test_skewed_routing_favours_the_first_experts(self):
        counts = self.split(cuda_layer.draw_skewed(TINY, 256, random.Random(1)))
        self.assertGreater(counts[0], 2 * 256 * TINY.top_k // TINY.experts)
        self.assertGreater(counts[0], 3 * counts[TINY.experts - 1])


class FloorTest(unittest.TestCase):
    def test_flops_are_those_of_six_products(self):
        # w1 [2, 6] and w2 [3, 2]: 12 + 6 multiplications and additions a row, three times.
        shape = TINY._replace(model=2, hidden=3)
        self.assertEqual(cuda_layer.get_flops(shape, 5), 5 * 2 * 3 * (12 + 6))

    def test_bytes_are_those_of_rows_that_go_in_and_out(self):
        # x 20, sorted 80, h 120 elements: 4 and 2 of dispatch and combine in all, 8 of h.
        shape = TINY._replace(model=2, hidden=3, top_k=4)
        self.assertEqual(cuda_layer.get_bytes(shape, 10), 2 * (6 * 20 + 5 * 80 + 8 * 120))


class ScriptTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.plans = cls.folder.name
        result = run_script(f"--compile={cls.plans}")
        assert result.returncode == 0, result.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.plans, name)

    def measure(self, *flags):
        return run_script(f"--plans={self.plans}", "--worker=cuda_layer_emulated", f"--torch={sys.executable}", "--steps=2", *flags)

    def test_all_cases_are_checked_measured_and_drawn(self):
        result = self.measure("--json=" + self.path("all.json"), "--svg=" + self.path("all.svg"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("ok    tiny: plan", result.stdout)
        with open(self.path("all.json")) as file:
            results = json.load(file)
        self.assertEqual(sorted(results["cases"]), ["tiny-32-balanced", "tiny-32-skewed", "tiny-64-balanced", "tiny-64-skewed"])
        for case in results["cases"].values():
            self.assertTrue(all(case[key] > 0 for key in ("load", "step", "of_peak", "products", "rest")), case)
            self.assertIn("dispatch", case["measured"]["ops"])
        self.assertEqual(results["cases"]["tiny-64-balanced"]["load"], 1)
        xml.dom.minidom.parse(self.path("all.svg"))
        forms = [form for form in ("loop", "grouped") if form in case]
        print(f"PyTorch: {results['torch']}: {forms}", file=sys.stderr)
        self.assertEqual("loop" in forms, "cannot import" not in results["torch"])

    def test_what_was_measured_is_not_measured_again(self):
        # Time is up at once, but the first call has had all of it.
        flags = ["--json=" + self.path("again.json"), "--tokens=32", "--torch=none"]
        first = self.measure(*flags)
        again = self.measure(*flags, "--limit=0")
        self.assertEqual((first.returncode, again.returncode), (0, 0), first.stderr + again.stderr)
        self.assertEqual(first.stdout.splitlines()[-2:], again.stdout.splitlines()[-2:])
        self.assertIn("2 cases are left", self.measure("--tokens=64", "--torch=none", "--limit=0").stdout)

    def test_a_plan_of_another_layer_is_found_out(self):
        # Its reference takes sigmoids for scores.
        other = self.path("other")
        os.makedirs(other)
        for name in os.listdir(self.plans):
            if name.startswith("tiny"):
                os.link(self.path(name), os.path.join(other, name))
        with open(self.path("sigmoid.mlir"), "w") as file:
            file.write(cuda_layer.get_graph(TINY._replace(score="sigmoid"), cuda_layer.VERIFY_TOKENS, "f64"))
        reference = os.path.join(other, "tiny-verify-f64.so")
        os.remove(reference)
        subprocess.run([os.path.join(BIN, "moe-compile"), self.path("sigmoid.mlir"), "--reference=0", "-o", reference], check=True)
        result = self.measure(f"--plans={other}", "--torch=none")
        self.assertEqual(result.returncode, 1)
        self.assertIn("FAIL  tiny: plan", result.stdout)
        self.assertNotIn("tokens routing", result.stdout)

    def test_routing_that_cannot_be_is_found_out(self):
        # A token that is to choose one expert twice chooses two.
        broken = self.path("tiny-32-balanced.bin")
        with open(broken, "rb") as file:
            choices = file.read()
        with open(broken, "wb") as file:
            file.write(choices[:1] + choices[:1] + choices[2:])
        result = self.measure("--tokens=32", "--torch=none")
        with open(broken, "wb") as file:
            file.write(choices)
        self.assertEqual(result.returncode, 1)
        self.assertIn("tiny-32-balanced: tokens did not choose", result.stderr)

    def test_a_plan_that_is_not_there_is_named(self):
        result = self.measure("--tokens=48", "--torch=none")
        self.assertEqual(result.returncode, 1)
        self.assertIn("tiny-48-balanced.bin' is not there; --compile=", result.stderr)

    def test_no_device_has_an_exit_status_of_its_own(self):
        worker = os.path.join(BIN, "cuda_layer")
        if not os.path.exists(worker):
            self.skipTest("built without CUDA")
        result = subprocess.run([worker], env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, cuda_layer.NO_DEVICE)
        self.assertIn("no CUDA device", result.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    BIN = options.bin
    unittest.main(argv=[sys.argv[0], *rest])
