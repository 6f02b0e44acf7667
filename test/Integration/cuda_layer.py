#!/usr/bin/env python3
"""Tests benchmarks/cuda_layer.py from plans to tables on the emulation of CUDA. Its times mean nothing here; its behaviour is tested.

Usage: cuda_layer.py --bin DIR. MOERT_BACKENDS names the folder of the emulated backend. PyTorch takes part if this interpreter has it.
"""
import argparse
import collections
import importlib.util
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
HAS_TORCH = importlib.util.find_spec("torch") is not None

# An interpreter whose PyTorch takes 1 s for a step. PEER changes its answers: {"version": ..., "forms": [...], "verify grouped": HOW}.
PEER = f"""#!{sys.executable}
import collections, json, os, sys
peer = {{"version": "1.0", "forms": ["loop", "grouped"], **json.loads(os.environ.get("PEER", "{{}}"))}}
if sys.argv[1] == "-c":
    print(peer["version"])
    sys.exit()
for line in sys.stdin:
    job = json.loads(line)
    how = peer.get(job["do"] + " " + job.get("form", ""))
    with open(job["routing"] if "routing" in job else os.devnull, "rb") as file:
        counts = collections.Counter(file.read())
    answer = {{"machine": {{"version": peer["version"], "device": "a GPU", "forms": peer["forms"]}}, "verify": {{"errors": {{"y": 1e-3}}}},
              "time": {{"counts": [counts[e] for e in range(job.get("experts", 0))], "seconds": 1.0}}}}[job["do"]]
    if how == "dies":
        sys.exit(5)
    if how == "fails":
        answer = {{"error": "RuntimeError: only supported on other devices\\nand more"}}
    if how == "is wrong":
        answer = {{"errors": {{"y": 1e-3, "grad.w1": 0.5}}}}
    if how == "is no number":
        answer = {{"errors": {{"y": float("nan")}}}}
    if how == "routes otherwise":
        answer["counts"][0] += 1
    print(json.dumps(answer), flush=True)
"""


def run_script(*flags, **peer):
    command = [sys.executable, "-B", os.path.join(BENCHMARKS, "cuda_layer.py"), "--bin", BIN, "--shape=tiny", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "PEER": json.dumps(peer)})


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
        # w1 [2, 6] and w2 [3, 2]: 12 + 6 multiplications and additions for each row, three times.
        shape = TINY._replace(model=2, hidden=3)
        self.assertEqual(cuda_layer.get_flops(shape, 5), 5 * 2 * 3 * (12 + 6))

    def test_bytes_are_those_of_rows_that_go_in_and_out(self):
        # x has 20 elements, sorted rows 80, h 120: 4 and 2 of dispatch and combine in total, 8 of h.
        shape = TINY._replace(model=2, hidden=3, top_k=4)
        self.assertEqual(cuda_layer.get_bytes(shape, 10), 2 * (6 * 20 + 5 * 80 + 8 * 120))


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class TorchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import cuda_layer_torch
        cls.module = cuda_layer_torch

    def ask(self, do, form, choices=bytes([0, 1, 2, 3, 0, 1, 2, 4]), **job):
        with tempfile.NamedTemporaryFile() as file:
            file.write(choices)
            file.flush()
            return self.module.answer({"do": do, "form": form, "routing": file.name, "seed": 1, **cuda_layer.get_job(TINY), **job})

    def test_counts_are_those_of_the_file(self):
        for form in self.module.get_forms():
            answer = self.ask("time", form, steps=1)
            self.assertEqual(answer["counts"], [2, 2, 2, 1, 1] + 11 * [0])
            self.assertGreater(answer["seconds"], 0)

    def test_forms_are_right(self):
        for form in self.module.get_forms():
            errors = self.ask("verify", form)["errors"]
            self.assertLess(max(errors.values()), cuda_layer.TOLERANCE, form)
            self.assertEqual(errors["grad.empty"], 0)

    def test_gradients_of_experts_without_rows_are_found_out(self):
        class Garbage(self.module.torch.autograd.Function):
            @staticmethod
            def forward(ctx, w):
                return w.clone()

            @staticmethod
            def backward(ctx, grad):
                grad = grad.clone()
                grad[-1, 0, 0] = 1e-6
                return grad

        run_loop = self.module.run_loop
        self.module.run_loop = lambda rows, ends, w1, w2: run_loop(rows, ends, Garbage.apply(w1), w2)
        try:
            self.assertEqual(self.ask("verify", "loop")["errors"]["grad.empty"], 1)
        finally:
            self.module.run_loop = run_loop

    def test_a_form_that_raises_says_so(self):
        def refuse(*operands, offs):
            raise ValueError("only supported on other devices")

        grouped_mm, self.module.GROUPED_MM = self.module.GROUPED_MM, refuse
        try:
            for do in ("verify", "time"):
                self.assertEqual(self.ask(do, "grouped", steps=1), {"error": "ValueError: only supported on other devices"})
                self.assertNotIn("error", self.ask(do, "loop", steps=1))
        finally:
            self.module.GROUPED_MM = grouped_mm


class ScriptTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.plans = cls.folder.name
        cls.peer = os.path.join(cls.plans, "peer")
        with open(cls.peer, "w") as file:
            file.write(PEER)
        os.chmod(cls.peer, 0o755)
        result = run_script(f"--compile={cls.plans}")
        assert result.returncode == 0, result.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.plans, name)

    def measure(self, *flags, **peer):
        return run_script(f"--plans={self.plans}", "--worker=cuda_layer_emulated", f"--torch={sys.executable}", "--steps=2", *flags, **peer)

    def measure_with_peer(self, name, *flags, **peer):
        """Runs the script and returns the run and its cases."""
        result = self.measure("--tokens=32", f"--torch={self.peer}", "--json=" + self.path(name), *flags, **peer)
        with open(self.path(name)) as file:
            return result, json.load(file)["cases"]

    def test_all_cases_are_checked_measured_and_drawn(self):
        result = self.measure("--json=" + self.path("all.json"), "--svg=" + self.path("all.svg"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("ok    tiny: plan", result.stdout)
        with open(self.path("all.json")) as file:
            results = json.load(file)
        self.assertEqual(sorted(results["cases"]), ["tiny-32-balanced", "tiny-32-skewed", "tiny-64-balanced", "tiny-64-skewed"])
        for case in results["cases"].values():
            self.assertTrue(all(case[key] > 0 for key in ("load", "step", "eager", "of_peak", "products", "rest")), case)
            self.assertIn("dispatch", case["measured"]["ops"])
            self.assertEqual((case["measured"]["graphs"], case["measured"]["eager_graphs"]), (2, 0))
        self.assertEqual(results["cases"]["tiny-64-balanced"]["load"], 1)
        xml.dom.minidom.parse(self.path("all.svg"))
        forms = [form for form in ("loop", "grouped") if form in case]
        print(f"PyTorch: {case['setup']['torch']}: {forms}", file=sys.stderr)
        self.assertEqual("loop" in forms, HAS_TORCH)
        self.assertEqual(forms, case["setup"]["torch"]["forms"] if HAS_TORCH else [])

    def test_a_step_that_is_no_graph_fails(self):
        wrong = {"steps": [1, 1], "graphs": 0, "eager_graphs": 0}
        self.assertEqual(cuda_layer.find_wrong_launches(wrong), "0 of 2 steps were CUDA graphs")
        self.assertEqual(cuda_layer.find_wrong_launches({**wrong, "graphs": 2, "eager_graphs": 1}), "1 eager steps were CUDA graphs")
        self.assertEqual(cuda_layer.find_wrong_launches({**wrong, "graphs": 2}), "")

    def test_what_was_measured_is_not_measured_again(self):
        # The time is up at once, but the first call has measured all.
        flags = ["--json=" + self.path("again.json"), "--tokens=32", "--torch=none"]
        first = self.measure(*flags)
        again = self.measure(*flags, "--limit=0")
        self.assertEqual((first.returncode, again.returncode), (0, 0), first.stderr + again.stderr)
        self.assertEqual(first.stdout.splitlines()[-2:], again.stdout.splitlines()[-2:])
        self.assertIn("2 cases are left", self.measure("--tokens=64", "--torch=none", "--limit=0").stdout)

    def test_what_another_run_measured_is_measured_again(self):
        def measure(*flags, **peer):
            return self.measure_with_peer("other.json", *flags, **peer)

        def is_measured_again(*flags, **peer):
            left = "2 cases are left" in measure("--limit=0", *flags, **peer)[0].stdout
            result, cases = measure(*flags, **peer)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("2 kept cases" in result.stdout, left)
            self.assertTrue(all(case["steps"] == (3 if "--steps=3" in flags else 2) for case in cases.values()))
            return left

        _, cases = measure("--torch=none")
        self.assertTrue(all(case["setup"]["torch"] is None and "loop" not in case for case in cases.values()))
        self.assertTrue(is_measured_again())
        self.assertFalse(is_measured_again())
        self.assertTrue(is_measured_again(forms=["loop"]))
        self.assertTrue(is_measured_again(forms=["loop"], version="2.0"))
        self.assertTrue(is_measured_again("--steps=3", forms=["loop"], version="2.0"))
        self.assertTrue(is_measured_again())
        self.assertTrue(is_measured_again("--seed=7"))
        self.assertFalse(is_measured_again("--seed=7"))
        self.assertFalse(is_measured_again())
        with open(self.path("other.json")) as file:
            results = json.load(file)
        self.assertEqual(results["verify"]["tiny"]["seed"], 7)
        for stored in (*results["cases"].values(), *results["verify"].values()):
            stored["setup"]["device"] = "another"
        results["verify"]["tiny"]["plan"]["worst"] = 1e-9
        with open(self.path("other.json"), "w") as file:
            json.dump(results, file)
        result, _ = measure("--limit=0", "--svg=" + self.path("other.svg"))
        self.assertIn("2 cases are left", result.stdout)
        self.assertNotIn("1.0e-09", result.stdout)
        self.assertFalse(os.path.exists(self.path("other.svg")))

    def test_a_form_that_is_wrong_is_left_out(self):
        for how, worst in (("is wrong", "5.0e-01"), ("is no number", "inf")):
            name = how.replace(" ", "-") + ".json"
            for flags in ((), ("--limit=0",)):
                result, cases = self.measure_with_peer(name, *flags, **{"verify grouped": how})
                self.assertEqual(result.returncode, cuda_layer.PEER_FAILED, result.stderr)
                self.assertIn(f"FAIL  tiny: PyTorch's grouped: {worst} from f64", result.stdout)
                self.assertIn("ok    tiny: PyTorch's loop", result.stdout)
                self.assertEqual(len(cases), 2)
                self.assertTrue(all("loop" in case and "grouped" not in case for case in cases.values()))

    def test_a_form_that_fails_does_not_end_the_others(self):
        for how, form, other, text in (("fails", "grouped", "loop", "PyTorch: RuntimeError: only supported on other devices\n"),
                                       ("dies", "grouped", "loop", "PyTorch ended with 5 at"), ("dies", "loop", "grouped", "PyTorch ended with 5 at"),
                                       ("routes otherwise", "loop", "grouped", "tokens did not choose")):
            result, cases = self.measure_with_peer(f"{form}-{how.replace(' ', '-')}.json", **{f"time {form}": how})
            self.assertEqual(result.returncode, cuda_layer.PEER_FAILED, result.stderr)
            self.assertIn(f"FAIL  tiny-32-skewed: {form}: {text}", result.stdout)
            self.assertTrue(all(other in case and form not in case and f"{form}_error" in case for case in cases.values()), cases)
        result, cases = self.measure_with_peer("verify-dies.json", **{"verify loop": "dies"})
        self.assertEqual(result.returncode, cuda_layer.PEER_FAILED, result.stderr)
        self.assertTrue(all("grouped" in case and "loop" not in case for case in cases.values()))
        result, cases = self.measure_with_peer("machine-dies.json", **{"machine ": "dies"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("PyTorch: PyTorch ended with 5", result.stdout)

    def test_a_plan_of_another_layer_is_found_out(self):
        # The reference of this layer has sigmoids as scores.
        other = self.path("other")
        os.makedirs(other)
        for name in os.listdir(self.plans):
            if name.startswith("tiny"):
                os.link(self.path(name), os.path.join(other, name))
        with open(self.path("sigmoid.mlir"), "w") as file:
            file.write(cuda_layer.get_graph(cuda_layer.narrow(TINY)._replace(score="sigmoid"), cuda_layer.VERIFY_TOKENS, "f64"))
        reference = os.path.join(other, "tiny-verify-f64.so")
        os.remove(reference)
        subprocess.run([os.path.join(BIN, "moe-compile"), self.path("sigmoid.mlir"), "--reference=0", "-o", reference], check=True)
        result = self.measure(f"--plans={other}", "--torch=none")
        self.assertEqual(result.returncode, 1)
        self.assertIn("FAIL  tiny: plan", result.stdout)
        self.assertNotIn("tokens routing", result.stdout)

    def test_routing_that_cannot_be_is_found_out(self):
        # A token cannot choose the same expert twice, so its choices differ from this routing.
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
        self.assertIn("tiny-48-balanced.bin' does not exist; --compile=", result.stderr)

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
