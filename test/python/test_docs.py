"""Runs the examples of docs/Python.md and of the docstrings."""

import doctest
import os
import re
import tempfile
import unittest

import moeplan

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/Python.md")


class DocsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="moeplan-")
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def run_examples(self, name, text):
        test = doctest.DocTestParser().get_doctest(text, {"moeplan": moeplan}, name, name, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        output = []
        runner.run(test, out=output.append)
        self.assertEqual("".join(output), "")
        return len(test.examples)

    def test_page(self):
        with open(PAGE, encoding="utf-8") as file:
            blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
        self.assertEqual(self.run_examples("Python.md", "\n".join(blocks)), 13)

    def test_docstrings(self):
        # The places in the order in which they use plan.so.
        places = [moeplan, moeplan.compile, moeplan.simulate, moeplan.explain, moeplan.plan, moeplan.Plan, moeplan.Error]
        self.assertGreater(min(self.run_examples(place.__name__, place.__doc__) for place in places), 0)


if __name__ == "__main__":
    unittest.main()
