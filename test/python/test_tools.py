"""compile, simulate, explain and plan: fields of the tools' JSON, tables, pages, warnings, and errors with the compiler's text."""

import json
import logging
import os
import stat
import subprocess
import sys
import tempfile
import unittest
import warnings

import moeplan
from moeplan import _tools

# A layer that is compiled quickly.
SMALL = {"seq": 16, "layers": 1}


class ToolsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="moeplan-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def fails(self, expected, function, *arguments, **options):
        with self.assertRaisesRegex(moeplan.Error, expected) as caught:
            function(*arguments, **options)
        return caught.exception

    def with_tools(self, **scripts):
        """Replaces the tools by these shell scripts."""
        folder = self.path("bin")
        os.mkdir(folder)
        for name, text in scripts.items():
            path = self.path(f"bin/{name.replace('_', '-')}", f"#!/bin/sh\n{text}\n")
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        before = os.environ.get("MOEPLAN_BIN")
        os.environ["MOEPLAN_BIN"] = folder
        self.addCleanup(lambda: os.environ.pop("MOEPLAN_BIN") if before is None else os.environ.update(MOEPLAN_BIN=before))


class FieldsTest(ToolsTest):
    def test_compile_has_the_fields_of_the_report(self):
        output = self.path("plan.so")
        plan = moeplan.compile("switch-base-8", output=output, parallel={"dp": 2, "ep": 2}, **SMALL)
        self.assertEqual(os.fspath(plan), output)
        self.assertTrue(os.path.getsize(output))
        subprocess.run([_tools.find("moe-compile"), "switch-base-8", "--parallel=dp=2,ep=2", "--seq=16", "--layers=1",
                        f"--report={self.path('report.json')}", "-o", self.path("other.so")], check=True)
        with open(self.path("report.json"), encoding="utf-8") as file:
            self.assertEqual(plan.to_dict(), json.load(file))
        self.assertIn("memory of one rank", repr(plan))
        self.assertIsNone(plan._repr_html_())

    def test_simulate_has_the_fields_of_json(self):
        step = moeplan.simulate("switch-base-8", parallel="dp=2,ep=2", cluster="hgx-h100", straggler=["0:2", "1:2"], zero=False, **SMALL)
        printed = subprocess.run([_tools.find("moe-sim"), "switch-base-8", "--parallel=dp=2,ep=2", "--cluster=hgx-h100", "--seq=16",
                                  "--straggler=0:2", "--straggler=1:2", "--layers=1", "--json"], check=True, capture_output=True).stdout
        self.assertEqual(step.to_dict(), json.loads(printed))
        self.assertEqual(step.mean.streams[0].name, step["mean"]["streams"][0]["name"])
        self.assertRegex(repr(step), r"(?m)^step +[0-9.]+ ms$")
        with self.assertRaisesRegex(AttributeError, "step_s"):
            step.step_seconds

    def test_simulate_shows_its_page(self):
        step = moeplan.simulate("switch-base-8", parallel="dp=2,ep=2", cluster="hgx-h100", **SMALL)
        self.assertIn("<h2>Timeline</h2>", step.page)
        self.assertIn("moe-sim --parallel=dp=2,ep=2 --cluster=hgx-h100 --seq=16 --layers=1 switch-base-8", step.page)
        shown = step._repr_html_()
        self.assertTrue(shown.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;'), shown[:99])
        self.assertIn("&lt;h2&gt;Timeline&lt;/h2&gt;", shown)
        # Only the frame has the page.
        self.assertEqual(shown.count("<"), 2)

    def test_explain_says_why(self):
        why = moeplan.explain("switch-base-8", parallel="dp=2,ep=2", cluster="hgx-h100", **SMALL)
        self.assertEqual([one.verdict for one in why.candidates].count("chosen"), 1)
        self.assertIn("schedules chosen from", repr(why))
        self.assertIn("<html", why.page)

    def test_explain_says_why_groups_were_chosen(self):
        why = moeplan.explain("switch-base-8", parallel="auto", world=2, schedule="baseline", cluster="hgx-h100", **SMALL)
        self.assertIn("chosen", [one.verdict for one in why.groups.candidates])

    def test_plan_answers(self):
        with self.assertLogs("moeplan", logging.INFO) as logs:
            answer = moeplan.plan("gpt2-moe", 4, "hgx-h100", layers=2, seq=64, parallel="auto,pp=1", schedule="baseline", vary="none",
                                  global_batch=8)
        self.assertRegex(logs.output[0], r"\d+ of \d+")
        self.assertEqual((answer.gpus, answer.cluster), (4, "hgx-h100"))
        self.assertIn("--parallel=", answer.options)
        self.assertRegex(repr(answer), r"(?m)^groups  TP\d")
        self.assertIn("<html", answer.page)

    def test_several_shapes(self):
        plan = moeplan.compile("switch-base-8", output=self.path("plan.so"), batch=[1, 2], **SMALL)
        self.assertEqual([one.batch for one in plan.variants], [1, 2])

    def test_forms_before_plans_have_no_report(self):
        graph = moeplan.compile("switch-base-8", output=self.path("graph.mlir"), emit="l0", **SMALL)
        self.assertEqual(dict(graph), {})
        step = moeplan.simulate(graph, parallel="dp=2")
        self.assertEqual(step.num_ranks, 2)


class MessagesTest(ToolsTest):
    def test_options_that_no_tool_has(self):
        self.fails(r"moeplan\.compile has no option 'paralel'.*did you mean 'parallel'\?", moeplan.compile, "switch-base-8", output="x", paralel="dp=2")
        self.fails(r"moeplan\.plan has no option 'cpus'", moeplan.plan, "switch-base-8", 8, "hgx-h100", cpus=3)
        self.fails("takes no option 'json'", moeplan.simulate, "switch-base-8", json=True)
        self.fails("has no option 'mlir_timing'", moeplan.compile, "switch-base-8", output="x", mlir_timing=True)

    def test_values_that_are_wrong(self):
        self.fails("expected --parallel to be like dp=4,mp=2,ep=4,esp=2 .* but got 'epp=4'", moeplan.simulate, "switch-base-8", parallel={"epp": 4})
        self.fails(r"expected --micro-batches to be a number but got 'x'", moeplan.compile, "switch-base-8", output="x", micro_batches="x")
        self.fails("'hgx-h10'.*did you mean 'hgx-h100'", moeplan.simulate, "switch-base-8", cluster="hgx-h10")
        self.fails("expected output= to name a file", moeplan.compile, "switch-base-8", output="-", emit="plan")
        self.fails("cannot write '.*no/plan.so'", moeplan.compile, "switch-base-8", output=self.path("no/plan.so"), **SMALL)

    def test_a_model_that_is_wrong_names_the_place(self):
        model = self.path("model.mlir", "func.func @model() { moe.nothing }\n")
        error = self.fails(r"model.mlir:1:22: error: custom op 'moe.nothing' is unknown\n.*\n +\^", moeplan.compile, model, output=self.path("x.so"))
        self.assertEqual([(one.file, one.line, one.column) for one in error.diagnostics], [(model, 1, 22)])

    def test_a_plan_that_does_not_fit(self):
        error = self.fails("no schedule with a plan of at most 1000 bytes per rank", moeplan.compile, "switch-base-8",
                           output=self.path("x.so"), memory_limit=1000, **SMALL)
        # Its notes list the parts of the memory.
        self.assertIn("memory of one rank", error.diagnostics[0].text)
        self.assertFalse(os.path.exists(self.path("x.so")))

    def test_warnings_of_the_compiler(self):
        model = self.path("config.json", '{"model_type": "mixtral", "foo": 3, "hidden_size": 64, "intermediate_size": 64}\n')
        with self.assertWarnsRegex(moeplan.CompilerWarning, r"config.json:1:\d+: warning: 'foo'") as caught:
            moeplan.simulate(model, **SMALL)
        # The warning has the line of the call.
        self.assertEqual(caught.filename, __file__)
        self.fails("'foo'", moeplan.simulate, model, strict=True, **SMALL)

    def test_no_warning_otherwise(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            moeplan.simulate("switch-base-8", **SMALL)


class FindTest(ToolsTest):
    def test_no_tools(self):
        os.mkdir(self.path("empty"))
        script = "import moeplan\nmoeplan._tools._PACKAGE = '/nowhere'\ntry: moeplan.simulate('x')\nexcept moeplan.Error as error: print(error)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                              env={"PATH": self.path("empty"), "PYTHONPATH": os.environ["PYTHONPATH"]})
        self.assertRegex(done.stdout, r"expected the program 'moe-sim' in '/nowhere/bin' or in PATH but found none")
        self.assertIn("pip install", done.stdout)
        self.assertIn("MOEPLAN_BIN", done.stdout)

    def test_a_folder_without_tools(self):
        self.with_tools()
        self.fails("expected the program 'moe-sim' in '.*bin', which MOEPLAN_BIN names", moeplan.simulate, "x")

    def test_a_tool_that_crashes(self):
        self.with_tools(moe_sim="echo PLEASE submit a bug report >&2; kill -SEGV $$")
        error = self.fails("'moe-sim' was ended by SIGSEGV", moeplan.simulate, "x")
        self.assertIn("PLEASE submit a bug report", str(error))

    def test_a_tool_without_its_libraries(self):
        self.with_tools(moe_sim="echo \"$0: error while loading shared libraries: libMLIR.so.19.1: cannot open\" >&2; exit 127")
        self.fails("libMLIR.so.19.1(.|\n)*apt-get install libmlir-19", moeplan.simulate, "x")

    def test_progress_is_logged_and_is_no_message(self):
        self.with_tools(moe_plan="echo 'model.json:2:1: warning: odd' >&2; echo 'groups: 1 of 65; best so far 2 ms' >&2; echo '  x' >&2; exit 2")
        with self.assertLogs("moeplan", logging.INFO) as logs, self.assertWarns(moeplan.CompilerWarning) as caught:
            self.fails("'moe-plan' ended with status 2 and no message", moeplan.plan, "x", 8, "y")
        self.assertEqual(logs.output, ["INFO:moeplan:groups: 1 of 65; best so far 2 ms"])
        self.assertEqual(str(caught.warning), "model.json:2:1: warning: odd\n  x")


if __name__ == "__main__":
    unittest.main()
