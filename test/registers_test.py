#!/usr/bin/env python3
"""Tests scripts/registers.py with a program that stands for nvcc."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "scripts", "registers.py")
NVCC = """#!/bin/sh
echo compiled >> "$(dirname "$0")/calls"
case "$*" in *-cubin*-Xptxas=-v*) ;; *) exit 1 ;; esac
echo "ptxas info    : Compiling entry function '_Z5firstv' for 'sm_90a'"
echo "ptxas info    : Function properties for _Z5firstv"
echo "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
echo "ptxas info    : Used 32 registers, used 1 barriers"
echo "ptxas info    : Compiling entry function '_Z6secondv' for 'sm_90a'"
echo "ptxas info    : Function properties for _Z6secondv"
echo "    40 bytes stack frame, 36 bytes spill stores, 48 bytes spill loads"
echo "ptxas info    : Used 255 registers, used 1 barriers"
"""


class Registers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.nvcc = self.at("nvcc")
        with open(self.nvcc, "w") as file:
            file.write(NVCC)
        os.chmod(self.nvcc, 0o755)

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def write_commands(self, files):
        entries = [{"directory": self.folder.name, "file": self.at(name), "command": f"{self.nvcc} -O3 -c {name} -o {name}.o"} for name in files]
        with open(self.at("compile_commands.json"), "w") as file:
            json.dump(entries, file)

    def run_script(self, *options):
        return subprocess.run([sys.executable, "-B", SCRIPT, *options], capture_output=True, text=True)

    def test_a_file_is_a_row(self):
        self.write_commands(["Some.cu", "RaggedCutlass90Tall.cu", "Other.cpp"])
        for _ in range(2):
            done = self.run_script(f"{self.folder.name}=9.0")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.splitlines()[2:], ["| RaggedCutlassTall | 2 | 32 to 255 | 1, up to 48 bytes |",
                                                            "| Some | 2 | 32 to 255 | 1, up to 48 bytes |"])
        # Reports are kept.
        with open(self.at("calls")) as file:
            self.assertEqual(len(file.readlines()), 2)

    def test_only_some_files(self):
        self.write_commands(["Some.cu", "Another.cu"])
        self.assertNotIn("| Another", self.run_script(self.folder.name, "--only=^Some").stdout)

    def test_errors(self):
        self.assertIn("has no compile_commands.json: configure it with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON", self.run_script(self.folder.name).stderr)
        self.write_commands(["Other.cpp"])
        self.assertIn("has no .cu files", self.run_script(self.folder.name).stderr)
        self.nvcc = "false nvcc"
        self.write_commands(["Some.cu"])
        done = self.run_script(self.folder.name)
        self.assertEqual(done.returncode, 2)
        self.assertIn("error: nvcc failed:", done.stderr)


if __name__ == "__main__":
    unittest.main()
