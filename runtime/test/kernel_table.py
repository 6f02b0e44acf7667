#!/usr/bin/env python3
"""Tests the errors of generate.py for wrong tables: the line where the statement begins, and the expected text. Also tests that the
names of operands and attributes follow the order of the table."""

import argparse
import os
import subprocess
import sys
import tempfile

GOOD = """# A comment.
struct Pair by_value;
struct Shape;
section Things
| Some text.

/// out = a.
copy(a[.., n], b?[m | a: m, 1]: acc) -> (out[.., n] = a: a) [Pair pair(first, @rank), kind: moert_kind, factor: real] checked;
"""
# The same attributes and operands in another order, and the names by which the runtime reads them.
ORDERS = {
    "scale(a, counts: i32) -> (out) [Shape shape(rows, factor: real), columns];": [
        "struct Scale { enum : size_t { a, counts, out }; };",
        "  int64_t rows = 0;\n  int64_t columns = 0;\n  double factor = 0;",
        "    return {call.ints[0], call.ints[1], call.reals[0]};",
        "(call.views[0], call.views[1], call.views[2], Shape{.rows = call.ints[0], .factor = call.reals[0]}, call.ints[1])"],
    "scale(counts: i32, a) -> (out) [columns, Shape shape(factor: real, rows)];": [
        "struct Scale { enum : size_t { counts, a, out }; };",
        "  int64_t columns = 0;\n  int64_t rows = 0;\n  double factor = 0;",
        "    return {call.ints[0], call.ints[1], call.reals[0]};",
        "(call.views[0], call.views[1], call.views[2], call.ints[0], Shape{.factor = call.reals[0], .rows = call.ints[1]})"],
    "scale(a) -> (out) [columns] by_hand and View rest;": [
        "static Status callScale(Kernels &kernels, const Call &call, View rest) { "
        "return kernels.scale(call.views[0], call.views[1], call.ints[0], rest); }"],
}
# Text that is appended to GOOD, and its error after the number of its first line.
WRONG = [
    ("nonsense", "expected a section, text, a comment or a kernel but got 'nonsense'"),
    ("add(a b) -> (out);", "expected an operand, 'name[?][shape] [= input | ..][: type]', but got 'a b'"),
    ("add(a: f32) -> (out);", "'add': expected 'a' to be real, acc, wide, gradient, float, i32, any or of the type of another operand but got 'f32'"),
    ("add(a: a) -> (out);", "'add': expected 'a' to be real, acc, wide, gradient, float, i32, any or of the type of another operand but got 'a'"),
    ("add(a[m, 2]) -> (out);", "expected a shape of up to four names or 1, perhaps behind '..', but got '[m, 2]'"),
    ("add(a[m, ..]) -> (out);", "expected a shape of up to four names or 1, perhaps behind '..', but got '[m, ..]'"),
    ("add(a[m | n | k]) -> (out);", "expected 'A', 'A | B' or 'A | word: B' but got '[m | n | k]'"),
    ("add(a[m | b: n]) -> (out);", "'add': expected an input or a flag before ':' in a shape but got 'b'"),
    ("add(a[a, b, c, d], e[e, f, g, h], i[i, j, k, l], m[m]);", "'add' has more than 12 names of dimensions"),
    ("add(a) -> (out = b);", "'add': 'out' names 'b', which is none of its inputs"),
    ("add(a, a) -> (out);", "'add' has two operands of one name"),
    ("add(a) -> (out) [n: float];", "expected an attribute, 'name[: int, flag, real, positive or an enum]', but got 'n: float'"),
    ("add(a) -> (out) [Part part(n)];", "expected a struct that a line 'struct Part;' declares but got 'Part'"),
    ("add(a) -> (out) quickly;", "unknown word 'quickly' behind 'add'"),
    ("add(a) -> (out) ragged b;", "'add': 'ragged' names 'b', which is none of its inputs"),
    ("add(a) -> out;", "expected 'name(inputs) [-> (outputs)] [[attributes]] [words];' but got 'add(a) -> out;'"),
    # The error is at the beginning of the statement.
    ("add(a,\n    b) ->\n    (out = c);", "'add': 'out' names 'c', which is none of its inputs"),
    ("add(a)", "expected a kernel, ended by ';', before the end of the file"),
]


def generate(generator, text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernels.def")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        result = subprocess.run([sys.executable, "-B", generator, path, folder], capture_output=True, text=True)
        made = {}
        if result.returncode == 0:
            for name in sorted(os.listdir(os.path.join(folder, "moert"))):
                with open(os.path.join(folder, "moert", name), encoding="utf-8") as file:
                    made[name] = file.read()
        return made, result.stderr.replace(folder + os.sep, "").strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("generator")
    generator = parser.parse_args().generator
    failures = 0

    def expect(want, got):
        nonlocal failures
        if want != got:
            failures += 1
            print(f"expected {want!r}\n but got {got!r}")

    made, errors = generate(generator, GOOD)
    expect((["kernels.h", "kernels.inc"], ""), (list(made), errors))
    for statement, parts in ORDERS.items():
        made, errors = generate(generator, GOOD + statement + "\n")
        expect(([], ""), ([part for part in parts if part not in made.get("kernels.inc", "")], errors))
    line = GOOD.count("\n") + 1
    for statement, message in WRONG:
        expect(({}, f"kernels.def:{line}: error: {message}"), generate(generator, GOOD + statement + "\n"))
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
