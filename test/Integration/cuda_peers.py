#!/usr/bin/env python3
"""Runs layers on 8 emulated GPUs that reach each other's memory. Steps of dropless layers must be graphs, and copy engines move what has
one size.

Usage: cuda_peers.py --bin DIR. MOERT_BACKENDS names the folder of the emulated backend.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

BIN = None
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
RANKS = 8
NOTE = "note: the calls of a step are launched one by one"
# Blocks of experts, exchanges in parts and phases, several ranks of an expert, and a pipeline.
PLANS = (("granite-moe", "--parallel=dp=8,ep=8"),
         ("granite-moe", "--parallel=dp=8,ep=8", "--schedule=baseline+chunks:2"),
         ("granite-moe", "--parallel=dp=4,mp=2,ep=4,esp=2", "--schedule=s1"),
         ("granite-moe", "--parallel=dp=4,mp=2,ep=4,esp=2", "--schedule=s2"),
         ("granite-moe", "--parallel=dp=8,ep=8", "--schedule=baseline+smart:2", "--cluster=parm-b"),
         ("qwen3-moe", "--parallel=pp=2,dp=4,ep=4", "--whole-model", "--layers=2", "--micro-batches=4"))


class PeersTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(self.folder.cleanup)
        self.plan = os.path.join(self.folder.name, "plan.so")

    def compile(self, model, *options, capacity=("--dropless", "--max-load=none")):
        subprocess.run([os.path.join(BIN, "moe-compile"), os.path.join(MODELS, model + ".json"), "--batch=2", "--seq=32", "--dtype=bf16",
                        *capacity, *options, "-o", self.plan], check=True, stderr=subprocess.DEVNULL)

    def start(self, *options, **variables):
        port = str(20000 + os.getpid() % 20000)
        environment = {**os.environ, "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_PORT": port,
                       "CUDA_EMULATION_DEVICES": str(RANKS), "NCCL_EMULATION_FOLDER": self.folder.name, **variables}
        command = [os.path.join(BIN, "moe-run"), self.plan, "--backend=cuda", *options]
        return [subprocess.Popen(command, env={**environment, "RANK": str(i), "LOCAL_RANK": str(i)}, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for i in range(RANKS)]

    def run_all(self, *options, **variables):
        """Output of rank 0 of a run that must succeed."""
        processes = self.start(*options, "--timeout=60", **variables)
        outputs = [process.communicate()[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0] * RANKS, "\n".join(outputs))
        return outputs[0]

    def verify(self, **variables):
        """Output of rank 0 of a run that must agree with the reference."""
        output = self.run_all("--iters=4", "--verify", **variables)
        self.assertIn("verification ok", output)
        return output

    def count_launches(self, **variables):
        """Launches of a rank in the first step."""
        counts = os.path.join(self.folder.name, "counts.json")
        self.run_all("--iters=1", CUDA_EMULATION_COUNTS=counts, **variables)
        with open(counts, encoding="utf-8") as file:
            return json.load(file)["launches"]

    def test_steps_are_graphs(self):
        for plan in PLANS:
            with self.subTest(plan=plan):
                self.compile(*plan)
                self.assertNotIn(NOTE, self.verify())

    def test_products_that_need_the_host_are_not_chosen(self):
        self.compile(*PLANS[0])
        table = os.path.join(self.folder.name, "products.json")
        kinds = (("forward", False), ("forward", True), ("weight_gradient", False))
        choices = [{"pass": step, "transposed": transposed, "dtype": "bf16", "experts": 1, "rows": 128, "n": 64, "k": 64,
                    "method": "cublas-grouped"} for step, transposed in kinds]
        with open(table, "w", encoding="utf-8") as file:
            json.dump({"moert_products": 1, "choices": choices}, file)
        # The first step, which is no graph, already does without them.
        self.assertEqual(self.count_launches(MOERT_PRODUCTS=table), self.count_launches())

    def test_without_windows(self):
        self.compile(*PLANS[0])
        for variables in ({"MOERT_PEER_EXCHANGE": "0"}, {"CUDA_EMULATION_NCCL": "22700"}, {"CUDA_EMULATION_WINDOWS": "0"}):
            output = self.verify(**variables)
            self.assertIn(NOTE, output)
            self.assertIn("all_to_all_v 'layer0': the host must read values", output)

    def count_copies(self, what, steps, **variables):
        output = self.run_all(f"--iters={steps}", "--no-cuda-graph", NCCL_DEBUG="INFO", **variables)
        return output.count(f"NCCL INFO {what} by copy engines")

    def test_copy_engines(self):
        # Messages for several experts of a rank are packed. From the second step on, copy engines also fill their buffers.
        for what, plan, calls in (("AlltoAll", ("granite-moe", "--parallel=dp=8,ep=4", "--schedule=baseline+chunks:2"), 8), ("AllGather", PLANS[2], 2)):
            with self.subTest(plan=plan):
                self.compile(*plan, capacity=["--capacity-factor=1.5"])
                self.assertEqual(self.count_copies(what, 3) - self.count_copies(what, 2), calls)
                self.assertNotIn(NOTE, self.verify())
        for variables in ({"MOERT_TRANSFER_SMS": "0"}, {"MOERT_PEER_EXCHANGE": "0"}, {"CUDA_EMULATION_NCCL": "22700"}):
            self.assertEqual(self.count_copies("AllGather", 2, **variables), 0, variables)

    def test_a_rank_dies(self):
        self.compile(*PLANS[0])
        # Copy engines wait for the rank until the end of this time.
        processes = self.start("--iters=1000000", "--timeout=60", MOERT_TEST_STUCK_STEP="5")
        time.sleep(4)
        processes[3].kill()
        begin = time.monotonic()
        outputs = [process.communicate(timeout=60)[0] for process in processes]
        self.assertLess(time.monotonic() - begin, 30)
        self.assertTrue(all(process.returncode for process in processes), outputs)
        self.assertIn("rank 3", outputs[0])


def main():
    global BIN
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    args, rest = parser.parse_known_args()
    BIN = args.bin
    unittest.main(argv=[sys.argv[0], *rest], verbosity=1)


if __name__ == "__main__":
    main()
