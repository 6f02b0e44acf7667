#!/usr/bin/env python3
"""Training on a GPU that is resumed has the bits of training that was not, with MOERT_DETERMINISTIC=1, on the emulation of CUDA.

Usage: cuda_resume.py --bin DIR. MOERT_BACKENDS names the folder of the emulated backend, whose cuDNN adds gradients in an order of each
process's own.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import unittest

BIN = None
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "bytes.json")


class ResumeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        with open(self.at("text"), "wb") as file:
            file.write(b"the quick brown fox jumps over the lazy dog. " * 200)
        self.call("moe-compile", MODEL, "--whole-model", "--batch=2", "--seq=64", "--dtype=bf16", "--parallel=dp=1", "--optimizer=adam",
                  "--mode=train", "-o", self.at("plan.so"))

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def call(self, program, *options, **variables):
        done = subprocess.run([os.path.join(BIN, program), *options], capture_output=True, text=True, env={**os.environ, **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def train(self, steps, state, **variables):
        return self.call("moe-run", self.at("plan.so"), "--backend=cuda", "--train", f"--data={self.at('text')}", "--rate=0.01",
                         f"--steps={steps}", f"--checkpoint={self.at(state)}", **variables)

    def read(self, state):
        with open(self.at(state), "rb") as file:
            return file.read()

    def test_resumed_training(self):
        # Attention must be cuDNN's for its sums to matter.
        variables = {"MOERT_DETERMINISTIC": "1", "MOERT_CUDNN": "always"}
        self.train(5, "whole", **variables)
        self.train(2, "parts", **variables)
        self.assertIn("resumed from", self.train(5, "parts", **variables))
        self.assertEqual(self.read("whole"), self.read("parts"))

    def test_the_option_is_checked(self):
        with self.assertRaisesRegex(AssertionError, "MOERT_DETERMINISTIC: expected 0 or 1 but got 'true'"):
            self.train(1, "state", MOERT_DETERMINISTIC="true")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    arguments, rest = parser.parse_known_args()
    BIN = arguments.bin
    unittest.main(argv=[sys.argv[0], *rest])
