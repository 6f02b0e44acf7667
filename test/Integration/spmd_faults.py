#!/usr/bin/python3
"""Makes one sum of a rank program wrong. moe-verify-spmd must refuse every sum that is done twice or not at all.

The programs are those of whole models in training, after schedules and differentiation. The script changes one op at a time in their text.
No such change leaves an equivalent program, because the members' terms differ, or are shares of one value. A missing sum may be accepted
for a reason that docs/Verification.md gives. The script recognises these sums by the values that they add, and counts them. It also counts
faults that placements cannot show (scales and addends that are left out), and expects nothing of them.
"""

import collections
import os
import re
import subprocess
import sys
from functools import partial

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import harness

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
WHOLE = ["--whole-model", "--batch=2", "--seq=8", "--mode=train", "--emit=spmd", "--reference=false"]
PROGRAMS = {
    "baseline": ("mixtral", ["--parallel=dp=4,mp=1,ep=2,esp=2"]),
    "baseline duplicates": ("mixtral", ["--parallel=dp=2,mp=2,ep=2,esp=2"]),
    "baseline capacity": ("switch", ["--layers=2", "--parallel=dp=2,mp=2,ep=2,esp=2"]),
    "s1": ("mixtral", ["--parallel=dp=2,mp=2,ep=2,esp=2", "--schedule=s1"]),
    "s1 capacity": ("switch", ["--layers=2", "--parallel=dp=2,mp=2,ep=2,esp=2", "--schedule=s1"]),
    "s2": ("mixtral", ["--parallel=dp=2,mp=2,ep=2,esp=2", "--schedule=s2"]),
    "s2 capacity": ("switch", ["--layers=2", "--parallel=dp=2,mp=4,ep=4,esp=2", "--schedule=s2"]),
    "s2 phases": ("switch", ["--layers=2", "--parallel=dp=2,mp=2,ep=2,esp=2", "--schedule=s2+saa"]),
    "ppmoe": ("gpt2-moe", ["--parallel=dp=2,mp=4,ep=2,esp=2", "--schedule=ppmoe"]),
    "sequence parallel": ("qwen3", ["--parallel=dp=2,mp=2,ep=1,esp=1", "--sequence-parallel"]),
    "chunks": ("qwen2-moe", ["--parallel=dp=2,mp=1,ep=2,esp=1", "--schedule=chunks:2"]),
    "chunks s1": ("bert-moe", ["--parallel=dp=2,mp=2,ep=2,esp=2", "--schedule=s1+chunks:2"]),
    "shadows": ("mixtral", ["--parallel=dp=4,mp=1,ep=4,esp=1", "--schedule=shadow:2", "--dropless"]),
    "zero": ("gpt2-moe", ["--parallel=dp=2,mp=2,ep=2,esp=2", "--schedule=s1", "--optimizer=adam", "--clip-norm=1", "--zero"]),
}
PROVED = ("doubled", "broadcast", "assumed")
# Programs that gather duplicated tokens, and the group along which they do.
DUPLICATES = {"baseline duplicates": "mp", "baseline capacity": "mp"}

SUM = re.compile(r"( *)(%\w+) = moe\.(all_reduce|reduce_scatter) (%\w+)(?: counts\(%\w+\))? over (<[^>]*>)(.*?) : \((tensor<[^>]*>).*\) -> (tensor<[^>]*>)$")
EXPERTS_SUM = re.compile(r"( *)(%\w+) = moe\.reduce_experts (%\w+), (%\w+)(?: addend\(%\w+\))? over (<[^>]*>).*? : \((tensor<[^>]*>), (tensor<[^>]*>).*\) -> (tensor<[^>]*>)$")
LINEAR = re.compile(r" *(%\w+) = moe\.(scale|add) (%\w+)")


def rename(lines, old, new):
    return [re.sub(re.escape(old) + r"(?!\w)", new, line) for line in lines]


def wrong_sums(line):
    """Faults of a line that is a sum: the kind, the lines in its place, and the value that its users take."""
    if match := SUM.match(line):
        indent, result, name, operand, group, attributes, whole, part = match.groups()
        one = [f"{indent}%wrong0 = moe.all_gather {result} over {group}{attributes} : ({part}) -> {whole}"] if name == "reduce_scatter" else []
        shared = "%wrong0" if one else result
        varying = f"{indent}%wrong1 = moe.to_varying {shared} over {group} : {whole}"
        yield "doubled", [line, *one, varying, f"{indent}%wrong2 = moe.{name} %wrong1 over {group}{attributes} : ({whole}) -> {part}"], "%wrong2"
        for kind, text in (("broadcast", "moe.broadcast {} over {} {{root = 0 : i64}}"), ("assumed", "moe.assume_replicated {} over {}")):
            shared = f"{indent}%wrong0 = {text.format(operand, group)} : {whole}"
            if name == "all_reduce":
                yield kind, [shared], "%wrong0"
            else:
                yield kind, [shared, f"{indent}%wrong1 = moe.slice %wrong0 over {group}{attributes} : ({whole}) -> {part}"], "%wrong1"
    elif match := EXPERTS_SUM.match(line):
        indent, result, values, shadows, group, places, shadows_type, own = match.groups()
        yield "doubled", [
            line,
            f"{indent}%wrong0 = moe.broadcast_experts {result}, {shadows} over {group} : ({own}, {shadows_type}) -> {places}",
            f"{indent}%wrong1 = moe.reduce_experts %wrong0, {shadows} over {group} : ({places}, {shadows_type}) -> {own}",
        ], "%wrong1"


def faults_of(lines):
    """All faults: the kind, the line, and the program that has the fault."""
    for i, line in enumerate(lines):
        for kind, changed, value in wrong_sums(line):
            result = re.match(r" *(%\w+) =", line)[1]
            yield kind, line, lines[:i] + changed + rename(lines[i + 1 :], result, value)
        if match := LINEAR.match(line):
            result, name, operand = match.groups()
            yield f"no {name}", line, lines[:i] + rename(lines[i + 1 :], result, operand)


def defining(lines, value):
    return next((line for line in lines if re.match(rf" *(%\w+, )*{re.escape(value)}(, %\w+)* = ", line)), "")


def reason_of(name, kind, lines, line):
    """The reason for which moe-verify-spmd may accept that the sum is left out. None if it must not."""
    match = SUM.match(line)
    if kind == "doubled" or not match:
        return None
    definition = defining(lines, match[4])
    while sum_before := SUM.match(definition):
        definition = defining(lines, sum_before[4])
    if LINEAR.match(definition) and "= moe.router_means" in defining(lines, LINEAR.match(definition)[3]):
        return "means of one group"
    # A bucket of only such shares is as unknown as they are.
    packed = re.match(r" *%\w+ = moe\.pack ((%\w+, )*%\w+)", definition)
    definitions = [defining(lines, value) for value in packed[1].split(", ")] if packed else [definition]
    definitions = [one for one in definitions if "= moe.fill" not in one]
    if definitions and all("= moe.bias_grad" in one and "scale = " in one for one in definitions):
        return "shares of a bias"
    if DUPLICATES.get(name) == re.match(r'<"(\w+)"', match[5])[1]:
        return "duplicated tokens"
    return None


def refused(tools, log, programs, folder):
    """Errors of each of the programs, which are checked in one call."""
    path = os.path.join(folder, "programs.mlir")
    begins, text = [], []
    for lines in programs:
        begins.append(len(text) + 1)
        text += [*lines, "// -----"]
    with open(path, "w") as file:
        file.write("\n".join(text[:-1]) + "\n")
    command = [os.path.join(tools.folder, "moe-opt"), path, "--moe-verify-spmd", "-split-input-file", "-o", os.devnull]
    log.append(" ".join(command))
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=tools.timeout)
    errors = [[] for _ in programs]
    for begin, error in re.findall(r"within split at .*?:(\d+) offset .*?error: (.*)", done.stderr):
        if not re.match(r"'[\w.]+' op expected", error):
            raise harness.CaseFailed(f"expected an error of moe-verify-spmd but got: {error}")
        # A split begins at its separator.
        errors[max(i for i, line in enumerate(begins) if line <= int(begin) + 1)].append(error)
    if done.returncode not in (0, 1) or any(map(bool, errors)) != (done.returncode == 1):
        raise harness.CaseFailed(f"exit status {done.returncode}: {done.stderr[-500:]}")
    return errors


def check(tools, counts, case, folder, log):
    name, model, flags = case
    path = os.path.join(folder, "rank.mlir")
    tools.call(log, "moe-compile", os.path.join(MODELS, model + ".json"), *WHOLE, *flags, "-o", path)
    with open(path) as file:
        lines = file.read().rstrip("\n").split("\n")
    faults = list(faults_of(lines))
    sound, *errors = refused(tools, log, [lines, *(program for _, _, program in faults)], folder)
    if sound:
        raise harness.CaseFailed(f"a sound program is refused: {sound[0]}")
    own, accepted = collections.Counter(), []
    for (kind, line, _), error in zip(faults, errors):
        reason = None if error or kind not in PROVED else reason_of(name, kind, lines, line)
        own[kind, "in all"] += 1
        own[kind, "refused"] += bool(error)
        own[kind, reason] += reason is not None
        if kind in PROVED and not error and not reason:
            accepted.append(f"{kind}: {line.strip()}")
    counts.update(own)
    if accepted:
        shown = "\n".join(accepted[:10])
        raise harness.CaseFailed(f"moe-verify-spmd accepts {len(accepted)} sums that are wrong, among them\n{shown}")
    return describe(own)


def describe(counts):
    parts = []
    for kind in dict.fromkeys(kind for kind, _ in counts):
        reasons = [f"{count} {what}" for (of, what), count in sorted(counts.items(), key=str) if of == kind and count and what not in ("in all", "refused", None)]
        parts.append(f"{kind} {counts[kind, 'refused']} of {counts[kind, 'in all']}" + (f" (all but {', '.join(reasons)})" if reasons else ""))
    return "; ".join(parts)


def main():
    options = harness.parser(__doc__.splitlines()[0]).parse_args()
    counts = collections.Counter()
    status = harness.run_cases([(name, (name, *case)) for name, case in PROGRAMS.items()], partial(check, harness.Tools(options.bin), counts), options)
    print("refused: " + describe(counts))
    return status


if __name__ == "__main__":
    sys.exit(main())
