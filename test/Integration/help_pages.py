#!/usr/bin/python3
"""Tests that the manual pages and shell completions are installed, and have each option that --help lists.

Usage: help_pages.py --bin DIR --build DIR --cmake FILE --version VERSION TOOL...

bash really completes with its file. If zsh and fish are there they read their files, and if groff is there it reads the manual pages.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Options of passes are indented more, and are given inside of --pass-pipeline.
LISTED = re.compile(r"^ {2,6}(--?[A-Za-z][^\s=\[]*)", re.MULTILINE)
# Options that must exist, independent of the help's format.
KNOWN = {"moe-run": ("--train", "--data-type", "--verify", "--version"), "moe-calibrate": ("-o", "--quick"),
         "moe-compile": ("--emit", "-o", "--parallel", "--help"), "moe-sim": ("--network",), "moe-import": ("--loss",),
         "moe-opt": ("--moe-chunk-experts", "--pass-pipeline")}
# Words before the cursor, and all that bash offers there.
COMPLETED = [
    ("moe-compile", ["--emi"], ["--emit="]),
    ("moe-compile", ["--emit", "="], ["l0", "spmd", "plan", "llvm", "obj", "so"]),
    ("moe-compile", ["mixtral-8x7b", "--emit", "=", "s"], ["spmd", "so"]),
    ("moe-run", ["--data"], ["--data=", "--data-type="]),
    ("moe-run", ["--verify", "="], ["f64", "exact", "gradients"]),
    ("moe-run", ["--data-type", "=", "u"], ["uint16", "uint32"]),
    ("moe-calibrate", ["--backend", "="], ["host", "cuda", "cuda-loopback"]),
    ("moe-run", ["--data", "=", "x"], []),
    ("moe-run", ["plan"], []),
]


def run(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8", **more).stdout


def complete(share, tool, words):
    """Completions that bash offers for `words`, as it splits them."""
    script = """source "$1"; shift
name=$1; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"_${name//-/_}"; printf '%s\\n' "${COMPREPLY[@]}" """
    return run("bash", "-u", "-c", script, "bash", os.path.join(share, "bash-completion/completions", tool), tool, *words).split()


def check_tool(options, share, tool):
    """Yields problems."""
    text = run(os.path.join(options.bin, tool), "--help")
    listed = set(LISTED.findall(text)) | set(KNOWN.get(tool, ()))
    if offered := listed ^ {name.rstrip("=") for name in complete(share, tool, ["-"])}:
        yield f"bash offers others than --help lists: {sorted(offered)}"
    files = {name: os.path.join(share, path) for name, path in (
        ("man", f"man/man1/{tool}.1"), ("zsh", f"zsh/site-functions/_{tool}"), ("fish", f"fish/vendor_completions.d/{tool}.fish"))}
    page = open(files["man"], encoding="utf-8").read().replace("\\", "")
    zsh = open(files["zsh"], encoding="utf-8").read()
    fish = open(files["fish"], encoding="utf-8").read()
    for name in listed:
        if f"fB{name}fR" not in page:
            yield f"{name} is not in the manual page"
        if not re.search(rf"^  '\*{re.escape(name)}[=\[]", zsh, re.MULTILINE):
            yield f"{name} is not in the completion of zsh"
        if not re.search(rf"^complete -c {tool} -[los] {re.escape(name.lstrip('-'))} ", fish, re.MULTILINE):
            yield f"{name} is not in the completion of fish"
    for command in (["zsh", "-n", files["zsh"]], ["fish", "-n", files["fish"]],
                    ["groff", "-man", "-ww", "-Tascii", files["man"]]):
        if shutil.which(command[0]):
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8")
            if done.returncode or done.stderr:
                yield f"{' '.join(command)}: {done.stderr}"


def check_version(options, tool):
    lines = run(os.path.join(options.bin, tool), "--version").splitlines()
    of_runtime = tool in ("moe-run", "moe-calibrate")
    if lines[0] != f"{tool} (MoePlan) {options.version}" or len(lines) != 2 - of_runtime:
        yield f"--version: expected '{tool} (MoePlan) {options.version}' but got {lines}"
    elif not of_runtime and not re.fullmatch(r"LLVM 19\.\d+\.\d+", lines[1]):
        yield f"--version: expected LLVM's version on the second line but got '{lines[1]}'"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, text in (("bin", "the folder of the tools"), ("build", "the folder of the build"), ("cmake", "cmake"),
                       ("version", "MoePlan's")):
        parser.add_argument(f"--{name}", required=True, help=text)
    parser.add_argument("tools", nargs="+", metavar="TOOL", help="a program that has pages")
    options = parser.parse_args()
    failed = 0

    def report(what, problems):
        nonlocal failed
        problems = list(problems)
        failed += bool(problems)
        print(f"ok   {what}" if not problems else f"FAIL {what}: " + "\n     ".join(problems), flush=True)

    with tempfile.TemporaryDirectory(prefix="moeplan-") as prefix:
        run(options.cmake, "--install", options.build, "--prefix", prefix, "--component", "help-pages")
        share = os.path.join(prefix, "share")
        for tool in options.tools:
            report(f"{tool} pages", check_tool(options, share, tool))
            report(f"{tool} version", check_version(options, tool))
        for tool, words, want in COMPLETED:
            got = complete(share, tool, words)
            report(f"{tool} {' '.join(words)}", [] if got == want else [f"expected {want} but bash offers {got}"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
