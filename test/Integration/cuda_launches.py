#!/usr/bin/env python3
"""Counts what a step enqueues on a GPU, and how often the host waits for it, on the emulation of CUDA.

Usage: cuda_launches.py --bin DIR. MOERT_BACKENDS names the folder of the emulated backend.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

BIN = None
PROCESSES = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "runtime", "test", "cuda", "processes.py")

# A layer of Mixtral 8x7B with smaller matrices.
MIXTRAL = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 64, "intermediate_size": 128,
           "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 8,
           "num_experts_per_tok": 2, "vocab_size": 64, "hidden_act": "silu", "max_position_embeddings": 128,
           "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": None, "tie_word_embeddings": False}


class LaunchesTest(unittest.TestCase):
    products = ""  # table of methods for products of experts

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def compile(self, *options, parallel="dp=1"):
        with open(self.at("model.json"), "w") as file:
            json.dump(MIXTRAL, file)
        subprocess.run([os.path.join(BIN, "moe-compile"), self.at("model.json"), f"--parallel={parallel}", "--seq=64", *options, "-o",
                        self.at("plan.so")], check=True, stderr=subprocess.DEVNULL)

    def run_plan(self, *options):
        environment = {**os.environ, "CUDA_EMULATION_COUNTS": self.at("counts.json"), "MOERT_PRODUCTS": self.products}
        done = subprocess.run([os.path.join(BIN, "moe-run"), self.at("plan.so"), "--backend=cuda", *options], capture_output=True,
                              text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.at("counts.json")) as file:
            return json.load(file)

    def per_step(self, *options):
        """Launches and waits of a step, after workspaces have reached their size."""
        few, many = (self.run_plan(f"--iters={steps}", *options) for steps in (3, 7))
        return {name: (many[name] - few[name]) / 4 for name in few}

    def test_a_dropless_layer(self):
        self.compile("--dtype=bf16")
        dropless = self.per_step("--no-cuda-graph")
        self.assertLessEqual(dropless["launches"], 28)
        print("launches of a dropless layer:", dropless["launches"])
        self.compile("--dtype=bf16", "--capacity-factor=2")
        # Neither form reads counts. The remaining waits are for the end of the step.
        self.assertEqual(dropless["waits"], self.per_step("--no-cuda-graph")["waits"])

    def count_small_grids(self, schedule, **variables):
        """Grouped kernels of a step on two ranks that leave multiprocessors free: as many in the first step as in later ones."""
        self.compile("--dtype=bf16", f"--schedule={schedule}", parallel="dp=2,ep=2")
        counts = []
        for steps in (1, 3):
            command = [sys.executable, "-B", PROCESSES, "2", os.environ["MOERT_BACKENDS"], os.path.join(BIN, "moe-run"), self.at("plan.so"),
                       "--backend=cuda", "--no-cuda-graph", f"--iters={steps}", "--verify"]
            subprocess.run(command, check=True, env={**os.environ, "CUDA_EMULATION_COUNTS": self.at("counts.json"), **variables})
            with open(self.at("counts.json")) as file:
                counts.append(json.load(file)["small_grids"])
        self.assertEqual(counts[1], 3 * counts[0])
        return counts[0]

    def test_products_leave_room_for_transfers_that_run_beside_them(self):
        # The products of one chunk run beside the exchanges of the other one: two of the forward's four.
        chunks, whole = self.count_small_grids("baseline+chunks:2"), self.count_small_grids("baseline")
        print("products beside transfers, with and without chunks:", chunks, whole)
        self.assertGreater(chunks, whole)
        self.assertEqual(self.count_small_grids("baseline+chunks:2", MOERT_TRANSFER_SMS="0"), 0)

    def test_f32_is_multiplied_by_cublas_whose_sizes_are_the_host_s(self):
        self.compile("--dtype=bf16")
        narrow = self.per_step("--no-cuda-graph")["waits"]
        self.compile("--dtype=f32")
        self.assertGreater(self.per_step("--no-cuda-graph")["waits"], narrow)

    def test_a_table_chooses_the_methods_of_products(self):
        self.compile("--dtype=bf16")
        usual = self.per_step("--no-cuda-graph")
        kinds = [("forward", False, "cublaslt-2"), ("forward", True, "cublas-grouped"), ("weight_gradient", False, "cublaslt-1")]
        choices = [{"pass": step, "transposed": transposed, "dtype": "bf16", "experts": 8, "rows": 128, "n": 256, "k": 64,
                    "method": method} for step, transposed, method in kinds]
        self.products = self.at("products.json")
        with open(self.products, "w") as file:
            json.dump({"moert_products": 1, "choices": choices}, file)
        chosen = self.per_step("--no-cuda-graph")
        for name in ("launches", "waits"):
            self.assertGreater(chosen[name], usual[name])
        # A graph uses the methods of the device, from the first step on.
        self.assertLessEqual(self.per_step()["launches"], 2)
        first = self.run_plan("--iters=1")
        self.run_plan("--iters=4", "--verify")
        self.products = ""
        self.assertEqual(first["launches"], self.run_plan("--iters=1")["launches"])

    def test_steps_become_graphs(self):
        whole = ["--whole-model", "--dtype=bf16", "--optimizer=adam"]
        for options in (["--dtype=bf16"], ["--dtype=bf16", "--capacity-factor=2"], whole, [*whole, "--recompute"],
                        [*whole, "--capacity-factor=2"]):
            with self.subTest(options=options):
                self.compile(*options)
                self.assertLessEqual(self.per_step()["launches"], 2)
                self.run_plan("--iters=4", "--verify")

    def test_only_the_first_step_allocates(self):
        self.compile("--dtype=bf16")
        first, third = (self.run_plan(f"--iters={steps}") for steps in (1, 3))
        self.assertEqual(first["allocations"], third["allocations"])
        self.assertEqual(first["queues"], 32)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    arguments, rest = parser.parse_known_args()
    BIN = arguments.bin
    unittest.main(argv=[sys.argv[0], *rest])
