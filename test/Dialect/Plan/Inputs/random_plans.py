"""Compares plan-verify with a brute-force check on random plans. Exits 0 and prints counts if they agree."""
import argparse
import collections
import itertools
import math
import random
import re
import subprocess
import sys

SPLIT = "\n// -----\n"
STREAMS = ["compute", "copy", "comm.inter"]


class Generator:
    """Makes one rank program of launches that read recent values, write one or two buffers, and may work in place."""

    def __init__(self, rng):
        self.rng = rng
        self.types = {"%a": "memref<8x4xf32>"}
        self.buffers = []
        self.readable = ["%a"]

    def output(self, name):
        if self.buffers and self.rng.random() < 0.1:
            name = self.rng.choice(self.buffers)  # a second writer of an old buffer
        if name not in self.types:
            space = self.rng.choice(["device"] * 4 + ["host_pinned"])
            self.types[name] = f"memref<{self.rng.choice([2, 4, 8, 16])}x4xf32, #plan<space {space}>>"
            self.buffers.append(name)
        return name

    def launch(self, number, output=None):
        rng = self.rng
        inputs = [rng.choice(self.readable[-6:]) for _ in range(rng.randint(1, 3))]
        outputs = [output or self.output(f"%{number}")]
        if rng.random() < 0.2:
            outputs.append(self.output(f"%second{number}"))
        outputs = list(dict.fromkeys(outputs))
        for output in outputs:
            if output in self.readable:
                self.readable.remove(output)
            self.readable.append(output)
        modifiers = ""
        if rng.random() < 0.8:
            modifiers += f' on "{rng.choice(STREAMS)}"'
        elif rng.random() < 0.5:
            modifiers += ' collective over <"mp", 2, 1>'
        if rng.random() < 0.4:
            places = sorted(rng.sample(range(len(inputs)), rng.randint(1, len(inputs))))
            modifiers += f" {{in_place = array<i64: {', '.join(map(str, places))}>}}"
        types = lambda values: ", ".join(self.types[value] for value in values)
        return (f'  plan.launch "k{number}"({", ".join(inputs)}) -> ({", ".join(outputs)}){modifiers}'
                f" : ({types(inputs)}) -> ({types(outputs)})")

    def declare(self, buffers):
        return [f"  {buffer} = plan.buffer : {self.types[buffer]}" for buffer in buffers]

    def write(self, name, lines, results=""):
        head = f"func.func @{name}(%a: memref<8x4xf32>{results}) attributes {{plan.inputs = 1 : i64}} {{"
        return "\n".join([head, *lines, "  return", "}"])

    def program(self, name):
        launches = [self.launch(number) for number in range(self.rng.randint(3, 25))]
        return self.write(name, self.declare(self.buffers) + launches)


# The memory and the slots, each with its type. Iteration i writes slot first + step * i, and returns to it after `period`.
Ring = collections.namedtuple("Ring", "memory slot parts first step period")


class LoopGenerator(Generator):
    """Makes programs of a prologue, a loop that uses rings, and an epilogue. A ring is a buffer, or the result %y."""

    def program(self, name):
        rng = self.rng
        self.lines, self.numbers = [], itertools.count()
        self.rings = [self.ring(memory) for memory in rng.sample(["%ring", "%other", "%y"], rng.randint(1, 2))]
        # Slots that the iterations before the first one would have written.
        slots = [self.view(ring, back, moves=False) for ring in self.rings for back in range(1, ring.period + 1)]
        self.launch_all(slots + [None] * rng.randint(1, 4))
        outside, prologue = list(self.buffers), self.end_section()

        outputs = [self.view(ring, back=0) for ring in self.rings] * rng.randint(1, 2) + [None] * rng.randint(1, 5)
        rng.shuffle(outputs)
        self.launch_all(outputs, reach=lambda ring: ring.period - 1)
        inside, self.buffers = self.buffers[len(outside):], outside
        body = self.declare(inside) + self.end_section()

        self.launch_all([None] * rng.randint(1, 4), reach=lambda ring: ring.period)
        count = rng.choice([rng.randint(2, 8), rng.randint(9, 40)])
        buffers = self.declare(self.buffers + [ring.memory for ring in self.rings if ring.memory != "%y"])
        lines = [*buffers, *prologue, f"  plan.loop {count} {{", *body, "  }", *self.lines]
        return self.write(name, lines, f", %y: {self.types['%y']}" if "%y" in self.types else "")

    def ring(self, memory):
        rng = self.rng
        parts, step, rows = rng.randint(2, 5), rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 2, 4])
        space = f", #plan<space {rng.choice(['device'] * 4 + ['host_pinned'])}>" if memory != "%y" else ""
        self.types[memory] = f"memref<{parts * rows}x4xf32{space}>"
        return Ring(memory, f"memref<{rows}x4xf32{space}>", parts, rng.randrange(parts), step, parts // math.gcd(parts, step))

    def view(self, ring, back, moves=True):
        """Adds a view of the slot that the iteration `back` iterations ago writes."""
        name = f"%view{next(self.numbers)}"
        self.types[name] = ring.slot
        part = f"part {(ring.first - ring.step * back) % ring.parts} of {ring.parts}" + moves * f" by {ring.step}"
        self.lines.append(f"  {name} = plan.view {ring.memory} {part} : {self.types[ring.memory]} -> {ring.slot}")
        return name

    def launch_all(self, outputs, reach=lambda ring: 0):
        """Adds launches, which may read values that the last `reach` iterations have written to a ring."""
        for output in outputs:
            ring = self.rng.choice(self.rings)
            if reach(ring) and self.rng.random() < 0.6:
                self.readable.append(self.view(ring, self.rng.randint(1, reach(ring))))
            self.lines.append(self.launch(next(self.numbers), output))

    def end_section(self):
        """Returns the lines since the last section. The next section reads only `self.buffers` and the input."""
        lines, self.lines = self.lines, []
        self.readable = [value for value in self.readable if value in ["%a", *self.buffers]]
        return lines


class Launch:
    def __init__(self, match, values, before):
        find = lambda text: [values[name.strip()] for name in text.split(",") if name.strip()]
        self.inputs, self.outputs, self.before = find(match[1]), find(match[2]), before
        in_place = re.search(r"in_place = array<i64: ([\d, ]+)>", match[4])
        self.in_place = [int(number) for number in in_place[1].split(",")] if in_place else []
        self.collective = "collective" in match[0]


# Bytes that a launch uses. `memory` is the name of their buffer or argument.
Value = collections.namedtuple("Value", "name memory space begin end")


def issue(plan):
    """Unrolls the loop: yields lines and their iterations. Behind the loop, the iteration is the number of iterations."""
    before, count, body, behind = (*re.split(r"plan\.loop (\d+) {\n(.*?)\n *}\n", plan, flags=re.DOTALL), 0, "", "")[:4]
    for text, iterations in (before, [0]), (body, range(int(count))), (behind, [int(count)]):
        lines = text.splitlines()
        yield from ((line, iteration) for iteration in iterations for line in lines)


def parse(plan):
    """Returns the launches in the order of issue, with the sets of launches before them, or None for a wait without a record."""
    values, launches, done, events = {}, [], {}, {}
    for line, iteration in issue(plan):
        if match := re.search(r"(%\w+) = plan.buffer {offset = (\d+) : i64} : memref<(\d+)x4xf32, #plan<space (\w+)>>", line):
            values[match[1]] = Value(match[1], match[1], match[4], int(match[2]), int(match[2]) + 16 * int(match[3]))
        elif match := re.search(r"(%\w+) = plan.view (%\w+) part (\d+) of (\d+)(?: by (\d+))? .* -> memref<(\d+)x4xf32", line):
            part, size = (int(match[3]) + int(match[5] or 0) * iteration) % int(match[4]), 16 * int(match[6])
            begin = values[match[2]].begin + part * size
            values[match[1]] = values[match[2]]._replace(name=match[1], begin=begin, end=begin + size)
        elif "func.func" in line:
            for name, rows in re.findall(r"(%\w+): memref<(\d+)x4xf32>", line):
                values[name] = Value(name, name, name, 0, 16 * int(rows))
        elif match := re.search(r'plan.(record|wait) (\d+)(?: turn (\d+) of (\d+))? on "([\w.]+)"', line):
            event, stream = int(match[2]) + (iteration + int(match[3] or 0)) % int(match[4] or 1), match[5]
            if match[1] == "record":
                events[event] = done.get(stream, set())
            elif event in events:
                done[stream] = done.get(stream, set()) | events[event]
            else:
                return None
        elif match := re.search(r'plan.launch "\w+"\(([^)]*)\) -> \(([^)]*)\).*? on "([\w.]+)"(.*)', line):
            before = done.get(match[3], set())
            done[match[3]] = before | {len(launches)}
            launches.append(Launch(match, values, before))
    return launches


def overlap(a, b):
    return a.space == b.space and a.begin < b.end and b.begin < a.end


def is_within_valid(launch):
    for number, output in enumerate(launch.outputs):
        for position, value in enumerate(launch.inputs):
            in_place = number == 0 and position in launch.in_place and value.begin == output.begin
            if value != output and overlap(value, output) and not in_place:
                return False
        if any(overlap(output, other) for other in launch.outputs[:number]):
            return False
    return True


def is_ordered(launches):
    collectives = [number for number, launch in enumerate(launches) if launch.collective]
    if any(first not in launches[second].before for first, second in zip(collectives, collectives[1:])):
        return False
    for number, second in enumerate(launches):
        for first in (launches[other] for other in range(number) if other not in second.before):
            if any(overlap(a, b) for a in second.outputs for b in first.inputs + first.outputs):
                return False
            if any(overlap(a, b) for a in second.inputs for b in first.outputs):
                return False
    return True


def is_fresh(launches):
    owner = {("%arg0", byte): "%arg0" for byte in range(0, 128, 16)}
    for launch in launches:
        for value in launch.inputs:
            if any(owner.get((value.space, byte)) != value.memory for byte in range(value.begin, value.end, 16)):
                return False
        for value in launch.outputs:
            owner.update({(value.space, byte): value.memory for byte in range(value.begin, value.end, 16)})
    return True


def takes_slots(plan):
    """Whether a launch takes bytes of a ring's slot without coming after all users of the ring, or comes before a reader of the ring.
    The slot depends on the number of iterations, and plan-verify leaves some out. It therefore refuses such plans, even if that slot was
    free."""
    rings, owner, users, taken = set(re.findall(r"plan.view (%\w+) part \d+ of \d+ by", plan)), {}, {}, set()
    for number, launch in enumerate(parse(plan)):
        if any(value.memory in taken for value in launch.inputs):
            return True
        for value in launch.outputs:
            others = {owner.get((value.space, byte)) for byte in range(value.begin, value.end, 16)} & rings - {value.memory}
            if any(users[ring] - launch.before for ring in others) or any(read.memory in others for read in launch.inputs):
                return True
            taken |= others
            owner.update({(value.space, byte): value.memory for byte in range(value.begin, value.end, 16)})
        for value in launch.inputs + launch.outputs:
            users.setdefault(value.memory, set()).add(number)
    return False


def is_valid(plan):
    launches = parse(plan)
    return launches is not None and all(map(is_within_valid, launches)) and is_ordered(launches) and is_fresh(launches)


def change(pattern, replace):
    """A mutation of one place, chosen at random, at which the plan has `pattern`."""
    def mutate(plan, rng):
        match = rng.choice(list(re.finditer(pattern, plan)))
        return plan[:match.start()] + str(replace(rng, match)) + plan[match.end():]
    return pattern, mutate


def resize(plan, rng):
    """Gives a ring one slot more or less, in all of its views. In one view alone, other parts would have another type."""
    ring, parts = rng.choice(re.findall(r"plan.view (%\w+) part \d+ of (\d+)", plan))
    parts, new = int(parts), max(1, int(parts) + rng.choice([-1, 1]))
    memory = re.compile(rf"({ring}(?: = plan.buffer.*)?: memref<)(\d+)")
    views = re.compile(rf"(plan.view {ring} part )(\d+) of \d+(.*? : memref<)(\d+)")
    plan = memory.sub(lambda match: f"{match[1]}{int(match[2]) // parts * new}", plan)
    return views.sub(lambda match: f"{match[1]}{int(match[2]) % new} of {new}{match[3]}{int(match[4]) // parts * new}", plan)


# Pattern that a plan must have, and function that makes a mutant, by kind. Mutants are well-formed: only their order or memory may be
# wrong.
MUTATIONS = {
    "no wait": change(r"plan.wait .*", lambda rng, match: ""),
    "no record": change(r"plan.record .*", lambda rng, match: ""),
    "offset": change(r"(?<=offset = )\d+", lambda rng, match: rng.choice([0, 16, 32, 64, 128, 256, 512])),
    "stream": change(r'(?<= on ")[\w.]+(?=".* -> )', lambda rng, match: rng.choice(STREAMS)),
    "turn": change(r"(?<=turn )\d+(?= of (\d+))", lambda rng, match: rng.randrange(int(match[1]))),
    "turns": change(r"(?<=turn )(\d+) of \d+", lambda rng, match: f"{match[1]} of {int(match[1]) + rng.randint(1, 6)}"),
    "part": change(r"(?<=part )\d+(?= of (\d+))", lambda rng, match: rng.randrange(int(match[1]))),
    "parts": (r"plan.view", resize),
    "step": change(r" by \d+", lambda rng, match: rng.choice(["", " by 0", " by 1", " by 2", " by 3"])),
}


def mutate(plan, rng):
    """Returns a mutant of each kind, by kind."""
    plan = re.sub(r"device = \d+ : i64, host_pinned = \d+", "device = 65536 : i64, host_pinned = 65536", plan)
    return {kind: mutate(plan, rng) for kind, (pattern, mutate) in MUTATIONS.items() if re.search(pattern, plan)}


def run(tool, path, programs, *passes):
    with open(path, "w") as file:
        file.write(SPLIT.join(programs))
    command = [tool, path, "--split-input-file", "--mlir-print-op-on-diagnostic=false", *passes]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout.split("// -----"), result.stderr


def check(programs, rng, tool, path):
    plans, errors = run(tool, path + ".programs.mlir", programs, "--moe-set-cluster=rates='#moe.cluster<node_ranks = 1>'",
                        "--plan-assign-streams", "--plan-assign-memory", "--plan-verify")
    wrong = [program for program, plan in zip(programs, plans, strict=True) if "func.func" not in plan or not is_valid(plan)]
    if wrong:
        sys.exit(f"{errors}{len(wrong)} assigned plans are not valid, the shortest is that of\n{min(wrong, key=len)}")
    print(len(plans), "plans are valid")

    mutants = [mutant for plan in plans for mutant in mutate(plan, rng).items()]
    outputs, _ = run(tool, path + ".mutants.mlir", [mutant for _, mutant in mutants], "--plan-verify")
    invalid, wrong = {kind: 0 for kind, _ in mutants}, []
    for (kind, mutant), output in zip(mutants, outputs, strict=True):
        valid = is_valid(mutant)
        invalid[kind] += not valid
        if valid != ("func.func" in output) and not (valid and takes_slots(mutant)):
            wrong.append(f"plan-verify should have {'passed' if valid else 'refused'} this plan ({kind}):\n{mutant}")
    if wrong:
        sys.exit(f"{len(wrong)} of {len(mutants)} mutants: {min(wrong, key=len)}")
    if not all(invalid.values()):
        sys.exit(f"no mutant of some kind is invalid: {invalid}")
    print(len(mutants), "mutants, of them invalid", invalid, "- plan-verify and the brute-force check agree")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moe-opt", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--programs", type=int, required=True, help="number of straight programs")
    parser.add_argument("--loops", type=int, required=True, help="number of programs with a loop")
    parser.add_argument("--output", required=True, help="prefix of the files to write")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    for generator, count in (Generator, arguments.programs), (LoopGenerator, arguments.loops):
        programs = [generator(rng).program(f"f{number}") for number in range(count)]
        check(programs, rng, arguments.moe_opt, arguments.output)


if __name__ == "__main__":
    main()
