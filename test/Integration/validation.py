#!/usr/bin/env python3
"""Tests the figures of README.md, docs/Validation.md and docs/Schedules.md: they are the kept ones, and belong to today's commands."""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))
import reference_mappings as mappings  # noqa: E402

REFERENCE = mappings.load_reference()
FIGURES = mappings.load(os.path.join(ROOT, "benchmarks", "reference_figures.json"), {})
# Rounding of published figures.
ROUNDING = 0.01


def read(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


class PageTest(unittest.TestCase):
    def test_the_pages_have_the_kept_figures(self):
        parts = mappings.make_parts(REFERENCE, FIGURES)
        for page in mappings.PAGES:
            self.assertEqual(read(page), mappings.fill(page, parts), "run benchmarks/reference_mappings.py --pages")
        self.assertEqual(read("docs", "images", "reference-mappings.svg"), mappings.make_svg(REFERENCE, FIGURES))

    def test_a_page_without_markers_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "expected the page to have one '<!-- generated: summary -->'"):
            mappings.fill_page("no markers", {"summary": ""})

    def test_the_kept_figures_are_of_the_published_rows(self):
        commands = {row["name"]: {"theirs": mappings.get_their_commands(row), "ours": mappings.get_our_commands(row)} for row in REFERENCE["rows"]}
        commands |= {question["name"]: {kind: [command] for kind, command in mappings.get_question_commands(question).items()}
                     for question in REFERENCE["questions"]}
        for name, kept in FIGURES.items():
            for kind, one in kept.items():
                self.assertEqual(one["commands"], list(map(" ".join, commands[name][kind])))

    def test_steps_of_two_commits_are_not_compared(self):
        row = {"theirs": {"commit": "abc1234+56"}, "ours": {"commit": "def5678"}}
        self.assertFalse(mappings.is_of_one_commit(row.values()))
        self.assertTrue(mappings.is_of_one_commit([{"commit": "abc1234"}, {"commit": "abc1234+56"}]))


class ReferenceTest(unittest.TestCase):
    def test_rows(self):
        for row in REFERENCE["rows"]:
            with self.subTest(row["name"]):
                self.assertIn(row["source"], REFERENCE["sources"])
                self.assertTrue(os.path.exists(os.path.join(mappings.MODELS, row["model"] + ".json")))
                self.assertEqual(row["gpus"] % (row["tp"] * row["pp"]), 0)
                data = row["gpus"] // (row["tp"] * row["pp"])
                self.assertEqual(data * row["tp"] % (row["ep"] * row["etp"]), 0)
                self.assertEqual(row["gbs"] % (data * row["mbs"]), 0)

    def test_counts_of_flops_are_the_publishers(self):
        """Tokens and FLOPs of the same run are published together."""
        rows = [row for row in REFERENCE["rows"] if "tflops" in row and ("tokens_s" in row or "step_s" in row)]
        self.assertGreater(len(rows), 5)
        for row in rows:
            counted = mappings.get_tflops(row, mappings.get_measured_step(row))
            self.assertLess(abs(counted / row["tflops"] - 1), ROUNDING, row["name"])


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write_tool(self, name, script):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\necho $0 >> {self.folder}/calls\n{script}\n")
        os.chmod(path, 0o755)

    def run_row(self, *flags):
        figures = os.path.join(self.folder, "figures.json")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            mappings.main([f"--bin={self.folder}", f"--figures={figures}", "--only=mixtral-8x7b", *flags])
        with open(os.path.join(self.folder, "calls")) as file:
            calls = len(file.readlines())
        return mappings.load(figures)["mixtral-8x7b"], calls, out.getvalue()

    def test_what_tools_answer_is_kept(self):
        self.write_tool("moe-sim", """echo '{"step_s": 2.5, "memory": {"peak_bytes": 6e10}, "mean": {"exposed_communication_s": 0.2},
                        "kernels": [{"kernel": "grouped_matmul", "flops": 3e14, "busy_s": 0.5}, {"kernel": "add"}]}'""")
        sizes = dict.fromkeys(("tensor_model_parallel_size", "virtual_pipeline_model_parallel_size", "expert_tensor_parallel_size",
                               "micro_batch_size"), 1) | {"pipeline_model_parallel_size": 4, "expert_model_parallel_size": 8}
        answer = {"megatron": sizes, "recompute": "none", "schedule": "baseline", "is_estimate": False, "seconds": 2, "memory_bytes": 7e10}
        self.write_tool("moe-plan", f"echo '{json.dumps(answer)}'")
        kept, calls, out = self.run_row()
        self.assertEqual(calls, 2)
        self.assertEqual((kept["theirs"]["step_s"], kept["ours"]["step_s"], kept["ours"]["ep"]), (2.5, 2, 8))
        # 468 TFLOP/s with 82.93 GFLOP for each token and 16384 tokens of a GPU: 2.903 s.
        self.assertIn("| 468 | 544 | +16% | 600 | 8% | 60 |", out)
        self.assertIn("| TP, PP, EP, MBS | 544 | 679 | +25% |", out)
        self.assertEqual(self.run_row()[1], 2)
        self.assertEqual(self.run_row("--again")[1], 4)

    def test_long_pipelines_are_extended(self):
        """80 micro-batches from steps of 8 and 16 that take 2 s and 3 s: 3 + 64 / 8 s."""
        row = next(row for row in REFERENCE["rows"] if row["name"] == "gpt-oss-120b")
        self.assertEqual(mappings.count_micro_batches(row), (80, [8, 16]))
        self.assertEqual(mappings.extend(row, [2, 3]), 11)
        row = next(row for row in REFERENCE["rows"] if row["name"] == "mixtral-8x7b")
        self.assertEqual(mappings.count_micro_batches(row), (16, [16]))
        self.assertEqual(mappings.extend(row, [2]), 2)

    def test_a_refusal_is_kept_as_such(self):
        self.write_tool("moe-sim", "echo 'error: no room' >&2; exit 2")
        self.write_tool("moe-plan", "exec sleep 60")
        kept, _, out = self.run_row("--limit=1")
        self.assertEqual(kept["theirs"]["error"], "no room")
        self.assertEqual(kept["ours"]["error"], "no answer within 1 s")
        self.assertIn("no room", out)

    def test_unknown_rows_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "expected names of rows in reference_mappings.json but got nothing-such"):
            mappings.main(["--only=nothing-such"])


if __name__ == "__main__":
    unittest.main()
