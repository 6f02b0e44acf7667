#!/usr/bin/env python3
"""Tests what check_prose.py refuses and accepts."""
import unittest

from check_prose import check_comments, check_terms


def list_places(file, text):
    return [f"{line}: {place.split(':')[0]}" for line, place in check_comments(file, text)]


class CheckProseTest(unittest.TestCase):
    def test_first_word_of_a_comment(self):
        self.assertEqual(list_places("a.cpp", "/// Of each rank.\nint rows; ///< so many rows\n"),
                         ["1: comment begins with 'Of'", "2: comment begins with 'so many'"])
        self.assertEqual(list_places("a.td", "def A; // What an expert's op does.\n"), ["1: comment begins with 'What'"])
        self.assertEqual(list_places("a.cpp", "/* Who waits. */\nf(/*of=*/1); // Number of ranks. Where a rank waits, it does so here.\n"),
                         ["1: comment begins with 'Who'"])

    def test_fragments_within_a_comment(self):
        self.assertEqual(list_places("a.h", "// The owner, or null.\n// Else it waits. Which is rare.\n"), ["1: comment begins with 'Else'"])
        self.assertEqual(list_places("a.h", "// Holds rows. Of course, all are used.\n"), [])

    def test_only_the_first_line_of_a_comment_begins_it(self):
        self.assertEqual(list_places("a.cpp", "// Waits for the rank\n// which sends.\n"), [])
        self.assertEqual(list_places("a.cpp", "int a; // Number of ranks\n       // which send\nint b; // which sends\n"),
                         ["3: comment begins with 'which'"])
        self.assertEqual(list_places("a.cpp", "// Waits.\n//\n// Which sends.\n"), ["3: comment begins with 'Which'"])

    def test_questions(self):
        self.assertEqual(list_places("a.py", "# Which rank sends?\nf()\n"), [])

    def test_strings_are_no_comments(self):
        self.assertEqual(list_places("a.cpp", 'char *a = "// Of b", *c = R"(// Of d)", e = \'"\'; // What f is\n'),
                         ["1: comment begins with 'What'"])
        self.assertEqual(list_places("a.py", 'print("# Of b")  # What c is\nd = """\nOf d."""\n'), ["1: comment begins with 'What'"])

    def test_python_and_scripts(self):
        self.assertEqual(list_places("a.py", '"""Of a module."""\ndef f():\n    """Does it.\n\n    Whose rows? Else none.\n\n      of peak  a share\n    """\n'),
                         ["1: comment begins with 'Of'", "5: comment begins with 'Else'"])
        self.assertEqual(list_places("CMakeLists.txt", "project(a) # Nothing\n"), ["1: comment begins with 'Nothing'"])
        self.assertEqual(list_places("a.sh", '#!/bin/sh\n# Else fails\nset -- "$#"\n'), ["2: comment begins with 'Else'"])

    def test_errors(self):
        self.assertEqual(list_places("a.cpp", 'return emitOpError() << "of " << a;\nreturn Status::error(kCode, "nothing to do");\n'),
                         ["1: error begins with 'of'", "2: error begins with 'nothing'"])
        self.assertEqual(list_places("a.py", 'raise ' 'ValueError(f"what {a} is")\n'), ["1: error begins with 'what'"])
        self.assertEqual(list_places("a.cpp", 'expectError(f(), "of 2 ranks");\n'), [])

    def test_invented_terms(self):
        for text in ("It hangs on the rank.", "Rows in no use.", "It is verified so.", "They pass over calls.", "ranks that die",
                     "It puts gradients of weights off."):
            self.assertEqual(len(check_terms(1, text)), 1, text)
        for text in ("A warning says so.", "One pass over memory.", "plan.so.", "It depends on the rank."):
            self.assertEqual(check_terms(1, text), [], text)
        self.assertEqual(list_places("a.cpp", "// It depends. It hangs\n// on the rank.\n"), ["1: has 'hangs on'"])


if __name__ == "__main__":
    unittest.main()
