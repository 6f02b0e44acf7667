#!/usr/bin/python3
"""Makes plans wrong and lets moe-compile --prove find it: by plan-verify, or by running the plan in exact arithmetic.

A fault is one change of the text of a plan that the compiler wrote. It depends on --seed, the plan and its class. The table at the end
says, for each class, who found its faults, in how many cases the run's first message names a changed launch, and which changes are none. A
change of memory, streams or order that plan-verify proves is another correct plan. A change of an attribute is none if it says nothing,
such as the seed of a dropout that drops nothing. All others have to be found.
"""

import argparse
import collections
import concurrent.futures
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "Integration", "models")
WHOLE = ("--whole-model", "--batch=2", "--seq=8")
TINY = ("--batch=2", "--seq=8")
# Name, model, options.
PLANS = (
    ("baseline", "mixtral", (*TINY, "--dtype=f32", "--parallel=dp=2,mp=2,ep=2,esp=2", "--capacity-factor=1")),
    ("s1", "mixtral", (*TINY, "--dtype=bf16", "--parallel=dp=2,mp=2,ep=2", "--schedule=s1+chunks:2", "--dropless")),
    ("s2", "mixtral", (*TINY, "--dtype=bf16", "--parallel=dp=2,mp=2,ep=2,esp=2", "--schedule=s2+saa", "--capacity-factor=1.5")),
    ("ppmoe", "mixtral", (*WHOLE, "--layers=1", "--dtype=bf16", "--parallel=dp=2,mp=2,ep=2", "--schedule=ppmoe", "--optimizer=sgd",
                            "--clip-norm=0.01")),
    ("mpipe", "mixtral", (*TINY, "--dtype=f32", "--parallel=dp=2,ep=2", "--schedule=baseline+chunks:4+mpipe-s1", "--capacity-factor=1")),
    ("shadows", "mixtral", (*TINY, "--dtype=f32", "--parallel=dp=4,ep=4", "--schedule=baseline+shadow:2+smart:2", "--dropless",
                            "--cluster=parm-b")),
    ("once", "deepseek-v3", (*TINY, "--dtype=bf16", "--parallel=dp=4,ep=4", "--schedule=baseline+once:node,2", "--dropless")),
    ("hier", "mixtral", (*TINY, "--dtype=f32", "--parallel=dp=4,ep=4", "--schedule=baseline+hier:2", "--capacity-factor=1")),
    ("zero", "mixtral", (*WHOLE, "--layers=1", "--dtype=bf16", "--parallel=dp=4,ep=2", "--micro-batches=2", "--optimizer=adam", "--zero=3",
                         "--clip-norm=0.01", "--dropless")),
    ("pipeline", "gpt2-moe", (*WHOLE, "--layers=2", "--dtype=bf16", "--parallel=pp=2,dp=2,ep=2", "--micro-batches=4", "--optimizer=sgd")),
    ("overlap", "deepseek-v2", (*WHOLE, "--layers=2", "--dtype=bf16", "--parallel=pp=2,dp=2,ep=2", "--micro-batches=4", "--pipeline=zb-h1")),
    ("loop", "mixtral", (*WHOLE, "--layers=2", "--dtype=f32", "--parallel=pp=2,dp=2,ep=2", "--micro-batches=16")),
    ("sequence", "qwen3-moe", (*WHOLE, "--layers=1", "--dtype=bf16", "--parallel=dp=1,cp=2,mp=2,ep=2", "--ring-attention",
                               "--sequence-parallel", "--recompute")),
)

KERNELS = os.path.join(HERE, "..", "..", "runtime", "kernels", "kernels.def")
# Classes of changes for which moe-compile --prove may prove the plan's results to be the same.
PROVED_ANEW = ("early_reuse", "missing_waits", "missing_records", "other_streams", "early_launches", "swapped_collectives")
LAUNCH = re.compile(r'^\s*plan\.launch "(\w+)"\((.*?)\) -> \((.*?)\)(.*)$')
SUMS = ("all_reduce", "reduce_scatter", "reduce", "reduce_experts")


def attribute_names():
    """Names of attributes in the order of a launch's params, by kernel."""
    with open(KERNELS, encoding="utf-8") as file:
        text = " ".join(line.strip() for line in file if not line.startswith(("#", "|", "/", "section", "struct")))
    names = {}
    for kernel, attributes in re.findall(r"(\w+)\([^;]*?\)(?: -> \([^;]*?\))? \[((?:[^\[\];])*)\][^;]*;", text):
        listed = re.sub(r"\w+ \w+\(|\)|@\w+(?: \w+)?,?", " ", attributes).split(",")
        pairs = [(part.split(":")[0].strip(), "real" in part or "positive" in part) for part in listed if part.strip()]
        names[kernel] = [name for name, real in pairs if not real] + [name for name, real in pairs if real]
    return names


NAMES = attribute_names()


class Line:
    """A launch of a plan's text."""

    def __init__(self, number, text):
        self.number, self.text = number, text
        self.kernel, inputs, outputs, self.rest = LAUNCH.match(text).groups()
        self.inputs = [name.strip() for name in inputs.split(",") if name.strip()]
        self.outputs = [name.strip() for name in outputs.split(",") if name.strip()]
        types = re.search(r": \((.*)\) -> (.*)$", self.rest)
        split = lambda listed: re.findall(r"memref<[^>]*(?:<[^>]*>)?[^>]*>", listed)
        self.types = dict(zip(self.inputs + self.outputs, split(types[1]) + split(types[2])))

    def params(self):
        match = re.search(r" params \[([^\]]*)\]", self.rest)
        return [value.strip() for value in match[1].split(",")] if match else []

    def with_inputs(self, inputs):
        return self.text.replace(f"({', '.join(self.inputs)}) ->", f"({', '.join(inputs)}) ->", 1)

    def attributes(self):
        return dict(zip(NAMES.get(self.kernel, ()), (float(value.split(" ")[0]) for value in self.params())))

    def with_params(self, params):
        return re.sub(r" params \[[^\]]*\]", f" params [{', '.join(params)}]", self.text, count=1)

    def group(self):
        match = re.search(r'over (<"[^>]*>)', self.rest)
        return match and match[1]

    def stream(self):
        match = re.search(r' on "([^"]*)"', self.rest)
        return match[1] if match else "compute"


class Program:
    """The lines of one rank program, and its launches."""

    def __init__(self, lines, first, end):
        self.first, self.end = first, end
        self.launches = [Line(i, lines[i]) for i in range(first, end) if LAUNCH.match(lines[i])]


def programs_of(lines):
    """Functions of ranks, without the reference, which is a plan of its own."""
    found = []
    for first, line in enumerate(lines):
        if line.startswith("  func.func"):
            end = next(i for i in range(first, len(lines)) if lines[i] == "  }")
            if "@reference" not in line:
                found.append(Program(lines, first, end))
    return found


def changed(lines, changes):
    """Lines by number that are replaced, removed (None) or followed by others (a list)."""
    text = []
    for number, line in enumerate(lines):
        change = changes.get(number, line)
        text += change if isinstance(change, list) else [] if change is None else [change]
    return "\n".join(text) + "\n"


# Each class of faults yields (description, changes of lines). `plan` has lines, programs and groups.


def missing_sums(plan):
    for one in plan.launches:
        if one.kernel == "all_reduce":
            text = one.text.replace('"all_reduce"', '"copy"', 1).replace(" collective over " + one.group(), "", 1)
            text = re.sub(r"absent = array<i64: 1>,? ?", "", text)
            text = re.sub(r"cost = #plan\.cost<[^>]*>,? ?|seconds = [^,}]*,? ?", "", text)
            if len(one.inputs) == 1:
                yield "a sum is a copy", {one.number: text}


def doubled_sums(plan):
    for one in plan.launches:
        if one.kernel == "all_reduce" and len(one.inputs) == 1:
            again = one.text.replace(f"({one.inputs[0]}) ->", f"({one.outputs[0]}) ->", 1)
            again = again.replace(one.types[one.inputs[0]], one.types[one.outputs[0]], 1)
            yield "a sum is done twice", {one.number: [one.text, again]}


def other_groups(plan):
    for one in plan.launches:
        for group in sorted(plan.groups):
            others = one.group() and group.split(",")[1:] != one.group().split(",")[1:]
            if one.kernel in SUMS + ("all_gather", "broadcast", "all_to_all", "all_to_all_v") and others:
                yield f"over {group}", {one.number: one.text.replace(one.group(), group, 1)}


def wrong_scales(plan):
    for one in plan.launches:
        if one.kernel in ("scale", "bias_grad", "bias_add") and one.params():
            yield "twice the scale", {one.number: one.with_params([f"{2 * float(one.params()[-1].split(' ')[0]):.17e}"])}


def wrong_roots(plan):
    for one in plan.launches:
        if one.kernel in ("broadcast", "reduce") and one.params():
            size = int(re.search(r'", (\d+),', one.group())[1])
            root = int(one.params()[0])
            yield "another root", {one.number: one.with_params([str((root + 1) % size)])}


def swapped_indices(plan):
    """Exchanges two values of indices or counts of one type."""
    for one in plan.launches:
        alike = collections.defaultdict(list)
        for name in one.inputs:
            alike[one.types[name]].append(name)
        for type_, names in alike.items():
            if "i32" in type_ and len(set(names)) > 1:
                a, b = names[:2]
                inputs = [b if name == a else a if name == b else name for name in one.inputs]
                yield f"{a} and {b} are exchanged", {one.number: one.with_inputs(inputs)}


def other_inputs(plan, isTaken=lambda type_: True):
    """Takes the value of another chunk, micro-batch or layer of the same type, which was made before."""
    for program in plan.programs:
        made = collections.defaultdict(list)
        for one in program.launches:
            for place, name in enumerate(one.inputs):
                others = [other for other in made[one.types[name]] if other not in one.inputs and other not in one.outputs]
                if others and isTaken(one.types[name]):
                    inputs = list(one.inputs)
                    inputs[place] = others[-1]
                    yield f"{others[-1]} in place of {name}", {one.number: one.with_inputs(inputs)}
            for name in one.outputs:
                if name not in made[one.types[name]]:
                    made[one.types[name]].append(name)


def other_counts(plan):
    """Takes the counts or slots of another layer or chunk."""
    return other_inputs(plan, lambda type_: "i32" in type_)


def early_reuse(plan):
    """Puts two buffers of one type at the same place."""
    buffers = collections.defaultdict(list)
    for number, line in enumerate(plan.lines):
        if match := re.match(r"(\s*%\S+ = plan\.buffer \{offset = )(\d+)( : i64.*\} : )(memref<.*)$", line):
            buffers[match[4]].append((number, match))
    for alike in buffers.values():
        for (_, a), (number, b) in zip(alike, alike[1:]):
            if a[2] != b[2]:
                yield "a buffer lies on another", {number: f"{b[1]}{a[2]}{b[3]}{b[4]}"}


def missing_waits(plan):
    for number, line in enumerate(plan.lines):
        if re.match(r"\s*plan\.wait ", line):
            yield "no wait", {number: None}


def missing_records(plan):
    for number, line in enumerate(plan.lines):
        if re.match(r"\s*plan\.record ", line):
            yield "no record", {number: None}


def swapped_collectives(plan):
    for program in plan.programs:
        collectives = [one for one in program.launches if " collective " in one.rest]
        for a, b in zip(collectives, collectives[1:]):
            if a.text != b.text:
                yield "two collectives in another order", {a.number: b.text, b.number: a.text}


def crossed_messages(plan):
    for program in plan.programs:
        for kernel in ("send", "receive"):
            messages = [one for one in program.launches if one.kernel == kernel]
            for a, b in zip(messages, messages[1:]):
                ends = [(one.inputs or one.outputs)[0] for one in (a, b)]
                if ends[0] != ends[1] and a.types[ends[0]] == b.types[ends[1]]:
                    yield f"two {kernel}s have each other's value", {a.number: a.text.replace(ends[0], ends[1], 1),
                                                                    b.number: b.text.replace(ends[1], ends[0], 1)}


def other_streams(plan):
    for one in plan.launches:
        other = "compute" if one.stream() != "compute" else "comm.intra"
        if f'on "{other}"' in plan.text and ' on "' in one.rest:
            yield f"on {other}", {one.number: one.text.replace(f' on "{one.stream()}"', f' on "{other}"', 1)}


def small_arenas(plan):
    for program in plan.programs:
        line = plan.lines[program.first]
        if match := re.search(r"plan\.arenas = \{device = (\d+)", line):
            size = int(match[1])
            for smaller in (0, size // 2, size - 256):
                yield f"an arena of {smaller} bytes", {
                    program.first: line.replace(match[0], f"plan.arenas = {{device = {smaller}", 1)}


def missing_launches(plan):
    for one in plan.launches:
        # The other one is only a check.
        if one.kernel != "assume_replicated":
            yield "no launch", {one.number: None}


def early_launches(plan):
    """Moves a launch before the producer of its operand, on the same stream."""
    for program in plan.programs:
        for a, b in zip(program.launches, program.launches[1:]):
            if b.number == a.number + 1 and a.stream() == b.stream() and set(a.outputs) & set(b.inputs + b.outputs):
                yield "before its input", {a.number: b.text, b.number: a.text}


def other_attributes(plan):
    for one in plan.launches:
        for place, value in enumerate(one.params()):
            if re.fullmatch(r"\d+(?: : i64)?", value):
                number = int(value.split(" ")[0])
                params = list(one.params())
                changed_number = 1 - number if number < 2 else number + 1
                params[place] = value.replace(str(number), str(changed_number), 1)
                name = NAMES[one.kernel][place] if place < len(NAMES.get(one.kernel, ())) else str(place)
                excuse = find_excuse(one.attributes(), name, changed_number, plan.world)
                yield f"{name} is {changed_number}" + (f" ({excuse})" if excuse else ""), {one.number: one.with_params(params)}


def find_excuse(attributes, name, value, world):
    """Reason for which the attribute has no effect, or none."""
    others = {**attributes, name: value}
    prefix = name[: -len("parts")] if name.endswith("parts") else name[: -len("stride")] if name.endswith("stride") else None
    if prefix is not None and {prefix + "parts", prefix + "stride"} <= attributes.keys():
        index = lambda of: [rank // max(1, int(of[prefix + "stride"])) % max(1, int(of[prefix + "parts"])) for rank in range(world)]
        if index(attributes) == index(others) and prefix != "cut_":
            return "no rank has another part"
    if name in ("seed", "row_parts", "row_stride") and attributes.get("dropout") == 0:
        return "nothing is dropped"
    if name in ("cut_stride", "zigzag", "sequences", "length") and attributes.get("cut_parts", 1) <= 1:
        return "sequences are not divided"
    if name in ("homes", "home_stride", "home_span") and attributes.get("leave", 0) < 0:
        return "there is no topology-aware gate"
    if name in ("top_groups", "group_score") and attributes.get("expert_groups") == 1:
        return "there are no groups of experts"
    if name in ("chunk_rows", "chunks") and value <= 1 and attributes.get("chunks", 1) <= 1:
        return "there is one chunk"
    if name == "stored" and attributes.get("direction") == 1:
        return "rows come from the experts"
    return None


def lost_addends(plan):
    """Drops the addend of a gradient that is added to the ones before."""
    for one in plan.launches:
        if one.kernel in ("matmul_wgrad", "grouped_matmul_wgrad", "norm_wgrad", "bias_grad", "embedding_grad"):
            alone = {"matmul_wgrad": 2, "grouped_matmul_wgrad": 3, "norm_wgrad": 2, "bias_grad": 2, "embedding_grad": 2}[one.kernel]
            absent = re.search(r"absent = array<i64: ([^>]*)>", one.rest)
            if absent and str(alone) in absent[1].split(", "):
                continue
            text = one.text.replace(f", {one.inputs[-1]}) ->", ") ->", 1)
            text = text.replace(f", {one.types[one.inputs[-1]]}) ->", ") ->", 1)
            if absent:
                text = text.replace(absent[0], f"absent = array<i64: {absent[1]}, {alone}>")
            elif " {" in text:
                text = text.replace(" {", f" {{absent = array<i64: {alone}>, ", 1)
            text = re.sub(r"in_place = array<i64: [^>]*>,? ?", "", text)
            yield "no addend", {one.number: text}


def other_parts(plan):
    for number, line in enumerate(plan.lines):
        if match := re.search(r" part (\d+) of (\d+)", line):
            part, parts = int(match[1]), int(match[2])
            yield "another part", {number: line.replace(match[0], f" part {(part + 1) % parts} of {parts}", 1)}


def other_results(plan):
    for program in plan.programs:
        arguments = re.findall(r"(%arg\d+): (memref<[^>]*>)", plan.lines[program.first])
        for one in program.launches:
            for name in one.outputs:
                for other, type_ in arguments:
                    if name.startswith("%arg") and other != name and type_ == one.types[name]:
                        outputs = [other if output == name else output for output in one.outputs]
                        if other not in one.outputs:
                            yield f"{other} in place of {name}", {
                                one.number: one.text.replace(f"-> ({', '.join(one.outputs)})", f"-> ({', '.join(outputs)})", 1)}


CLASSES = (missing_sums, doubled_sums, other_groups, wrong_scales, wrong_roots, swapped_indices, other_counts, other_inputs, early_reuse, missing_waits,
           missing_records, swapped_collectives, crossed_messages, other_streams, small_arenas, missing_launches, early_launches,
           other_attributes, lost_addends, other_parts, other_results)


class Plan:
    def __init__(self, text, world):
        self.text, self.lines = text, text.rstrip("\n").split("\n")
        self.programs = programs_of(self.lines)
        self.launches = [one for program in self.programs for one in program.launches]
        self.groups = {one.group() for one in self.launches if one.group()}
        self.world = world


def ops_of(plan, changes):
    """Numbers, as in errors, of the launches that are changed or take a changed value. Removed or doubled ones move others."""
    numbers = set()
    for program in plan.programs:
        for line in changes:
            value = re.match(r"\s*(%\S+) = ", plan.lines[line])
            for number, one in enumerate(program.launches):
                if one.number == line:
                    numbers |= {number, number + 1} if isinstance(changes[line], (list, type(None))) else {number}
                elif value and program.first < line < program.end and value[1] in one.inputs + one.outputs:
                    numbers.add(number)
    return numbers


def world_of(flags):
    groups = dict(pair.split("=") for pair in next(flag for flag in flags if flag.startswith("--parallel="))[11:].split(","))
    return int(groups.get("pp", 1)) * int(groups.get("dp", 1)) * int(groups.get("cp", 1)) * int(groups.get("mp", 1))


def called(command, seconds=120):
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return -1, "", f"did not finish in {seconds} s"


def judge(tools, path):
    """Finder of the fault, and its message: 'verifier', 'proof', 'nobody', or 'crash'."""
    status, stdout, stderr = called([os.path.join(tools, "moe-compile"), path, "--prove", "--num-threads=1"])
    if status == 0:
        return "nobody", stdout
    if status == 1 and "WRONG: " in stdout:
        return "proof", stdout[stdout.index("WRONG: "):].splitlines()[0]
    if status == 2 and "error: " in stderr:
        return "verifier", next(line for line in stderr.splitlines() if "error: " in line)
    return "crash", f"exit status {status}: {(stderr or stdout).strip()[:500]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, help="folder of moe-compile and moe-run")
    parser.add_argument("--each", type=int, default=1, help="faults of each class in each plan (default: 1)")
    parser.add_argument("--only", default="", help="plans and classes whose names together have this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", help="keep the plans in this folder")
    parser.add_argument("--verbose", action="store_true", help="print what is said of each fault")
    options = parser.parse_args()
    folder = options.keep or tempfile.mkdtemp(prefix="moeplan-faults-")
    os.makedirs(folder, exist_ok=True)
    work, failures = [], 0
    for name, model, flags in PLANS:
        path = os.path.join(folder, name + ".mlir")
        status, _, stderr = called([os.path.join(options.bin, "moe-compile"), os.path.join(MODELS, model + ".json"), *flags,
                                    "--emit=plan", "-o", path])
        if status != 0:
            print(f"FAIL {name}: {stderr.strip()}")
            failures += 1
            continue
        work.append((name, "sound", "the plan as it is", path, set()))
        with open(path, encoding="utf-8") as file:
            plan = Plan(file.read(), world_of(flags))
        for kind in CLASSES:
            label = f"{name} {kind.__name__}"
            if options.only not in label:
                continue
            rng = random.Random(f"{options.seed} {label}")
            faults = list(kind(plan))
            for number, (what, changes) in enumerate(rng.sample(faults, min(options.each, len(faults)))):
                path = os.path.join(folder, f"{name}-{kind.__name__}-{number}.mlir")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(changed(plan.lines, changes))
                line = min(changes)
                launch = LAUNCH.match(plan.lines[line])
                what += f": {launch[1] if launch else plan.lines[line].strip()[:80]}"
                work.append((name, kind.__name__, what, path, ops_of(plan, changes)))
    table = collections.defaultdict(collections.Counter)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (name, kind, what, path, ops), (who, said) in zip(work, pool.map(lambda item: judge(options.bin, item[3]), work)):
            if who == "nobody" and (kind in PROVED_ANEW or "(" in what.split(":")[0]):
                who = "none"
            table[kind][who] += 1
            table[kind]["named"] += who == "proof" and bool(ops & {int(number) for number in re.findall(r"op (\d+) ", said)})
            isBad = who not in (("nobody",) if kind == "sound" else ("verifier", "proof", "none"))
            failures += isBad
            if isBad or options.verbose:
                print(f"{'FAIL' if isBad else 'ok  '} {name} {kind}: {what}: {who}: {said if who != 'nobody' else ''}\n     {path}", flush=True)
    print(f"\n{'class':20} {'changes':>7} {'verifiers':>9} {'proof':>6} {'named':>6} {'no fault':>8} {'missed':>6}")
    for kind, counts in table.items():
        row = [counts["verifier"], counts["proof"], counts["none"], counts["nobody"] + counts["crash"]]
        if kind == "sound":
            row[2:] = [counts["nobody"], counts["crash"]]
        print(f"{kind:20} {sum(row):7} {row[0]:9} {row[1]:6} {counts['named']:6} {row[2]:8} {row[3]:6}")
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
