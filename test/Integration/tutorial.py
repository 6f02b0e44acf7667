#!/usr/bin/python3
"""Runs docs/Tutorial.md and README.md as a reader would, and compares the shown output with the printed output.

In each page, in order:

  ```LANGUAGE FILE   the block is written to that file
  ```sh              the block is run and must succeed
  ```sh fails        the block must fail with an exit status of 1 or 2
  ```text            each line must be found, in this order, in the output of the command block before it; "..." stands for
                     anything, and white space counts as one space
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TIMEOUT = 300


def blocks_of(path):
    """(line number, info string, text) of each fenced block."""
    with open(path) as file:
        text = file.read()
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start()) + 1, match.group(1).strip(), match.group(2)


def run(script, folder, environment):
    """(exit status, stdout and stderr together) of a shell script. It stops at the first command that fails."""
    try:
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=folder, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return "no end", ""
    return done.returncode, done.stdout.decode(errors="replace")


def missing_line(shown, output):
    """The first line of `shown` that does not follow in `output`; None if all do."""
    lines = [" ".join(line.split()) for line in output.splitlines()]
    position = 0
    for wanted in shown.splitlines():
        wanted = " ".join(wanted.split())
        if wanted in ("", "..."):
            continue
        pattern = re.compile(".*".join(re.escape(part.strip()) for part in wanted.split("...")).replace(r"\ ", " "))
        found = next((i for i in range(position, len(lines)) if pattern.fullmatch(lines[i])), None)
        if found is None:
            return wanted
        position = found + 1
    return None


def tail(output):
    return "\n".join("    " + line[:200] for line in output.splitlines()[-25:])


def run_tutorial(path, folder, environment):
    """Yields (where, problem or None) for each block that can fail."""
    output = None
    for line, info, text in blocks_of(path):
        where = f"{os.path.basename(path)}:{line}"
        words = info.split()
        if not words:
            continue
        if words[0] == "text":
            if output is None:
                yield where, "no command block before it"
            elif (missing := missing_line(text, output)) is not None:
                yield where, f"not printed: {missing}\n{tail(output)}"
            else:
                yield where, None
        elif words[0] == "sh":
            status, output = run(text, folder, environment)
            good = status in (1, 2) if words[1:] == ["fails"] else status == 0
            yield where, None if good else f"exit status {status}\n{tail(output)}"
        elif len(words) == 2:
            with open(os.path.join(folder, words[1]), "w") as file:
                file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, metavar="DIR", help="the folder of the tools")
    tools = os.path.abspath(parser.parse_args().bin)
    root = tempfile.mkdtemp(prefix="moeplan-")
    folders = {name: os.path.join(root, name) for name in ("python", "tutorial", "readme")}
    for folder in folders.values():
        os.mkdir(folder)
    # python3 in the text is the interpreter of this test, which has numpy.
    os.symlink(sys.executable, os.path.join(folders["python"], "python3"))
    environment = {**os.environ, "PATH": os.pathsep.join([folders["python"], tools, os.environ["PATH"]]), "LC_ALL": "C.UTF-8"}
    passed = failed = 0
    try:
        for where, problem in [*run_tutorial(os.path.join(ROOT, "docs", "Tutorial.md"), folders["tutorial"], environment),
                               *run_tutorial(os.path.join(ROOT, "README.md"), folders["readme"], environment)]:
            passed += problem is None
            failed += problem is not None
            print(f"ok   {where}" if problem is None else f"FAIL {where}: {problem}", flush=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
