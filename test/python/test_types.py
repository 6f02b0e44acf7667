"""mypy --strict accepts a small client of the package, and finds the errors in another one."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

GOOD = """\
import moeplan

def describe(model: str) -> list[str]:
    plan = moeplan.compile(model, output="plan.so", parallel={"dp": 2, "ep": 2}, batch=[1, 2], whole_model=True, memory_limit=None)
    step: moeplan.Simulation = moeplan.simulate(model, parallel="dp=2,ep=2", cluster="hgx-h100")
    seconds: float = step.step_s
    answer = moeplan.plan(model, 64, "hgx-h100", seq=4096)
    why = moeplan.explain(model, parallel="auto", world=8)
    with moeplan.Plan(plan) as opened:
        shape: tuple[int, ...] = opened.arguments["x"].local_shape
        return [repr(step), answer.options, why.table, str(seconds), str(shape), opened.handle.metadata(), *[one.kernel for one in step.kernels]]

try:
    describe("switch-base-8")
except moeplan.Error as error:
    print(error.diagnostics[0].line)
"""

BAD = """\
import moeplan

moeplan.compile("switch-base-8")
length: str = moeplan.simulate("switch-base-8").step_s
moeplan.Plan("plan.so").handle.choose("1", 2)
"""


@unittest.skipIf(importlib.util.find_spec("mypy") is None, "mypy is not installed")
class TypesTest(unittest.TestCase):
    def check(self, *arguments):
        with tempfile.TemporaryDirectory(prefix="moeplan-") as cache:
            return subprocess.run([sys.executable, "-m", "mypy", "--strict", f"--cache-dir={cache}", *arguments], capture_output=True, text=True,
                                  env={**os.environ, "MYPYPATH": os.environ["PYTHONPATH"]})

    def check_client(self, text):
        with tempfile.TemporaryDirectory(prefix="moeplan-") as folder:
            path = os.path.join(folder, "client.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return self.check(path)

    def test_a_client(self):
        done = self.check_client(GOOD)
        self.assertEqual((done.returncode, done.stdout), (0, "Success: no issues found in 1 source file\n"), done.stderr)

    def test_what_is_wrong(self):
        done = self.check_client(BAD)
        self.assertEqual(done.stdout.count("error:"), 3, done.stdout)
        self.assertIn("client.py:3: error: Missing named argument \"output\"", done.stdout)

    def test_the_package_itself(self):
        """The package is checked without moeplan.torch, because the types of torch change with its versions."""
        done = self.check("-m", "moeplan")
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
