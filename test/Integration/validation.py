#!/usr/bin/env python3
"""Tests the figures of README.md, docs/Validation.md, docs/Schedules.md and share/frameworks: they are the kept ones, and belong to today's
commands."""
import contextlib
import io
import json
import math
import os
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))
import answers  # noqa: E402
import pages  # noqa: E402
import steps  # noqa: E402

DATA, FIGURES = steps.load_data(), pages.load(steps.FIGURES)
ROWS = [row for row in DATA["rows"] if not steps.why_not(row)]
PREDICTED = [row for row in ROWS if "step_ms" in FIGURES.get(row["id"], {})]


def read(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


class PageTest(unittest.TestCase):
    def check(self, page, names, parts, script):
        self.assertEqual(read(page), pages.fill(page, names, parts), f"run benchmarks/{script} --pages")

    def test_the_pages_have_the_kept_figures(self):
        figures = pages.load(os.path.join(ROOT, "benchmarks", "answers_figures.json"))
        for page, names in answers.PAGES.items():
            self.check(page, names, answers.make_parts(answers.load_questions(), figures), "answers.py")
        for page, names in steps.PAGES.items():
            self.check(page, names, steps.make_parts(FIGURES, DATA, PREDICTED), "steps.py")
        self.assertEqual(read("docs", "images", "measured-steps.svg"), steps.make_svg(FIGURES, steps.merge_releases(PREDICTED)))

    def test_the_description_has_the_kept_figures(self):
        self.assertEqual(pages.load(steps.DESCRIPTION)["measured_steps"], steps.make_entries(FIGURES, steps.merge_releases(PREDICTED)), "run benchmarks/steps.py --calibrate")

    def test_a_page_without_markers_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "expected the page to have one '<!-- generated: summary -->'"):
            pages.fill_page("no markers", {"summary": ""})

    def test_the_kept_answers_are_those_of_the_questions(self):
        commands = {question["name"]: answers.get_commands(question) for question in answers.load_questions()}
        for name, kept in pages.load(os.path.join(ROOT, "benchmarks", "answers_figures.json")).items():
            for kind, one in kept.items():
                self.assertEqual(one["commands"], [" ".join(commands[name][kind])])


class StepTest(unittest.TestCase):
    def test_the_newest_release_stands_for_all(self):
        """Rows that are equal but for the release are one; others, and those of other sources, stay."""
        one = {"model": "gpt-oss-120b", "gpu": "B200", "n_gpus": 64, "seq": 4096, "mbs": 4, "gbs": 1280, "tp": 1, "pp": 1, "ep": 8, "precision": "bf16",
               "source": "NVIDIA-NeMo/Megatron-Bridge"}
        rows = [{**one, "id": name, **other} for name, other in (("bridge-26.02.01-a", {}), ("bridge-26.04-a", {}), ("bridge-26.04-b", {"mbs": 2}), ("aws-a", {}))]
        self.assertEqual([row["id"] for row in steps.merge_releases(rows)], ["bridge-26.04-a", "bridge-26.04-b", "aws-a"])

    def test_memory_is_that_of_the_source(self):
        self.assertEqual(steps.get_memory({"mem_gib": 36.6, "mem_reserved_gib": 40}), (36.6, "allocated"))
        self.assertAlmostEqual(steps.get_memory({"mem_gb": 2**30 / 1e9})[0], 1)
        self.assertIsNone(steps.get_memory({}))
        self.assertEqual(steps.read_memory("step        1 ms\nmemory      79.1 GB at most, 100.0% of"), 79.1)

    def test_rows(self):
        self.assertGreater(len(PREDICTED), 90)
        for row in ROWS:
            with self.subTest(row["id"]):
                self.assertTrue(os.path.exists(os.path.join(ROOT, "share", "models", steps.get_model(row) + ".json")))
                self.assertTrue(os.path.exists(os.path.join(ROOT, "share", "clusters", steps.CLUSTERS[row["gpu"]] + ".json")))
                cp = row.get("cp") or 1
                self.assertEqual(row["n_gpus"] % (row["tp"] * row["pp"] * cp), 0)
                data = row["n_gpus"] // (row["tp"] * row["pp"] * cp)
                self.assertEqual(data * row["tp"] * cp % (row["ep"] * (row.get("etp") or 1)), 0)
                self.assertEqual(row["gbs"] % (data * row["mbs"]), 0)

    def test_ids_are_unique(self):
        self.assertEqual(len({row["id"] for row in DATA["rows"]}), len(DATA["rows"]))

    def test_intervals_contain_two_thirds(self):
        """Logarithms of ratios from 1 to 100."""
        middle, half = steps.make_interval(list(range(1, 101)))
        self.assertEqual(middle, 50.5)
        self.assertTrue(33 <= half <= 36, half)
        # A long tail widens the range, so that its double has nine tenths.
        middle, half = steps.make_interval([0] * 80 + [10] * 20)
        self.assertEqual((middle, half), (0, 5))

    def test_small_classes_are_joined(self):
        row = {"gpu": "H100", "mbs": 1, "seq": 4096, "tp": 1, "ep": 16, "source": "a x"}
        levels = steps.get_levels(row)
        self.assertEqual(levels[0], ("hopper", 2, "over", "forced", "none"))
        self.assertEqual(levels[1], ("hopper", 2, "over", "forced", None))
        self.assertEqual(levels[-1], (None,) * 5)
        rows = [{**row, "id": str(number), "step_ms": 1 + number, "source": f"{'ab'[number % 2]} x"} for number in range(12)]
        figures = {one["id"]: {"step_ms": 1} for one in rows}
        self.assertEqual(steps.find_interval(figures, rows, row)[2], levels[0])
        # One source alone says nothing.
        self.assertIsNone(steps.find_interval(figures, [one for one in rows if one["source"] == "a x"], row))
        other = {**row, "mbs": 2, "source": "c x"}
        self.assertEqual(steps.find_interval(figures, rows, other)[2][:2], ("hopper", None))

    def test_orders(self):
        self.assertEqual(steps.rank([3, 1, 1]), [2, 0.5, 0.5])
        rows = [{"id": str(number), "model": "Qwen3-30B-A3B", "n_gpus": 8, "gpu": "H100", "seq": 4096, "gbs": 1, "step_ms": number} for number in (1, 2, 3, 4)]
        figures = {"1": {"step_ms": 2}, "2": {"step_ms": 1}, "3": {"step_ms": 3}, "4": {"step_ms": 4}}
        correlation, loss, count = steps.measure_orders(figures, rows)["qwen3-30b-a3b", 8, "hgx-h100", 4096]
        self.assertAlmostEqual(correlation, 0.8)
        self.assertEqual((loss, count), (1, 4))

    def test_pairs(self):
        rows = [{"id": name, "source": "a x", "step_ms": ms} for name, ms in (("one", 100), ("two", 200))]
        data = {"pairs": [{"group": "g", "varies": "micro-batch size", "strict": True, "rows": ["one", "two", "three"]}]}
        figures = {"one": {"step_ms": 100}, "two": {"step_ms": 100 * math.e}}
        (error, right), = steps.measure_pairs(figures, data, rows)["micro-batch"]
        self.assertAlmostEqual(error, 1 - math.log(2))
        self.assertTrue(right)


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

    def count_calls(self):
        with open(os.path.join(self.folder, "calls")) as file:
            return len(file.readlines())

    def answer(self, *flags):
        figures = os.path.join(self.folder, "figures.json")
        with contextlib.redirect_stdout(io.StringIO()):
            answers.main([f"--bin={self.folder}", f"--figures={figures}", "--only=plan-qwen3-30b-a3b", *flags])
        return pages.load(figures)["plan-qwen3-30b-a3b"]

    def test_answers_are_kept(self):
        answer = dict.fromkeys(("seconds", "tokens_per_second_per_gpu", "bubble_seconds", "exposed_communication_seconds",
                                "hidden_communication_seconds"), 2.5) | {"options": "--parallel=pp=2 --other"}
        self.write_tool("moe-plan", f"echo '{json.dumps(answer)}'")
        self.assertEqual(self.answer()["choice"]["seconds"], 2.5)
        self.assertEqual(self.count_calls(), 2)
        self.answer()
        self.assertEqual(self.count_calls(), 2)
        self.answer("--again")
        self.assertEqual(self.count_calls(), 4)

    def test_a_refusal_is_kept_as_such(self):
        self.write_tool("moe-plan", "echo 'error: no room' >&2; exit 2")
        self.assertEqual(self.answer()["choice"]["error"], "no room")

    def test_unknown_questions_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "expected names of questions in answers.json but got nothing-such"):
            answers.main(["--only=nothing-such"])

    def test_steps_are_kept(self):
        """The figures of a step, and those of the whole one on demand."""
        self.write_tool("moe-sim", """case "$*" in
*--from-samples*) echo '{"step_s": 0.2505, "peak_bytes": 12500000000}';;
*) echo 'step        251.5 ms'; echo 'memory      12.5 GB at most';;
esac""")
        figures = os.path.join(self.folder, "steps.json")
        arguments = [f"--bin={self.folder}", "--only=bridge-26.04.01-GPT_OSS_120B-H100-64-bf16-gbs1280", "--jobs=1"]
        for flags, expected in (([], (250.5, 12.5, None)), (["--again", "--whole"], (250.5, 12.5, 251.5))):
            with mock.patch.object(steps, "FIGURES", figures), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
                steps.main(arguments + flags)
            (kept,) = pages.load(figures).values()
            self.assertEqual((kept["step_ms"], kept["memory_gb"], kept.get("whole_ms")), expected)

    def test_stages_hold_the_blocks_of_the_source(self):
        """As the layout says, with the embedding and the head as blocks, or with one block less at the ends."""
        def count(**row):
            return steps.get_stage_blocks({"tp": 1, **row})

        self.assertEqual(count(model="gpt-oss-120b", pp=4, vpp=1), [9, 9, 9, 9])
        self.assertEqual(count(model="qwen3-235b-a22b", pp=8, vpp=4), [2] + [3] * 30 + [2])
        self.assertEqual(count(model="deepseek-v3", pp=4, vpp=4, pp_layout="Et*4|(t*4|)*14tmL"), [4] * 15 + [1])
        self.assertEqual(count(model="kimi-k2", pp=4, vpp=1), [15, 16, 15, 15])


if __name__ == "__main__":
    unittest.main()
