"""Compares plan-verify with a brute-force check on random plans. Exits 0 and prints counts where they agree."""
import argparse
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

    def launch(self, number):
        rng = self.rng
        inputs = [rng.choice(self.readable[-6:]) for _ in range(rng.randint(1, 3))]
        outputs = [self.output(f"%{number}")]
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

    def program(self, name):
        launches = [self.launch(number) for number in range(self.rng.randint(3, 25))]
        buffers = [f"  {buffer} = plan.buffer : {self.types[buffer]}" for buffer in self.buffers]
        head = f"func.func @{name}(%a: memref<8x4xf32>) attributes {{plan.inputs = 1 : i64}} {{"
        return "\n".join([head, *buffers, *launches, "  return", "}"])


class Launch:
    def __init__(self, match, before):
        names = lambda text: [name.strip() for name in text.split(",") if name.strip()]
        self.inputs, self.outputs, self.before = names(match[1]), names(match[2]), before
        in_place = re.search(r"in_place = array<i64: ([\d, ]+)>", match[4])
        self.in_place = [int(number) for number in in_place[1].split(",")] if in_place else []
        self.collective = "collective" in match[0]


def parse(plan):
    """Returns the buffers as (space, begin, end), and the launches with the sets of launches that come before them; None
    for a wait without a record."""
    buffers, launches, done, events = {}, [], {}, {}
    for line in plan.splitlines():
        if match := re.search(r"(%\w+) = plan.buffer {offset = (\d+) : i64} : memref<(\d+)x4xf32, #plan<space (\w+)>>", line):
            buffers[match[1]] = (match[4], int(match[2]), int(match[2]) + 16 * int(match[3]))
        elif match := re.search(r"func.func @\w+\((%\w+): memref<8x4xf32>", line):
            buffers[match[1]] = ("argument", 0, 128)
        elif match := re.search(r'plan.record (\d+) on "([\w.]+)"', line):
            events[match[1]] = set(done.get(match[2], set()))
        elif match := re.search(r'plan.wait (\d+) on "([\w.]+)"', line):
            if match[1] not in events:
                return None
            done[match[2]] = done.get(match[2], set()) | events[match[1]]
        elif match := re.search(r'plan.launch "\w+"\(([^)]*)\) -> \(([^)]*)\).*? on "([\w.]+)"(.*)', line):
            before = set(done.get(match[3], set()))
            done[match[3]] = before | {len(launches)}
            launches.append(Launch(match, before))
    return buffers, launches


def is_within_valid(launch, overlap, buffers):
    for number, output in enumerate(launch.outputs):
        for position, value in enumerate(launch.inputs):
            in_place = number == 0 and position in launch.in_place and buffers[value][1] == buffers[output][1]
            if value != output and overlap(value, output) and not in_place:
                return False
        if any(overlap(output, other) for other in launch.outputs[:number]):
            return False
    return True


def is_ordered(launches, overlap):
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


def is_fresh(launches, buffers):
    owner = {}
    for launch in launches:
        for value in launch.inputs:
            space, begin, end = buffers[value]
            if space != "argument" and any(owner.get((space, byte)) != value for byte in range(begin, end, 16)):
                return False
        for value in launch.outputs:
            space, begin, end = buffers[value]
            owner.update({(space, byte): value for byte in range(begin, end, 16)})
    return True


def is_valid(plan):
    parsed = parse(plan)
    if parsed is None:
        return False
    buffers, launches = parsed

    def overlap(a, b):
        (space, begin, end), (other, other_begin, other_end) = buffers[a], buffers[b]
        return space == other and begin < other_end and other_begin < end

    return (all(is_within_valid(launch, overlap, buffers) for launch in launches) and is_ordered(launches, overlap)
            and is_fresh(launches, buffers))


def mutate(plan, rng):
    """Takes a wait away, moves a buffer or moves a launch to another stream."""
    lines = plan.splitlines()
    find = lambda text: [number for number, line in enumerate(lines) if text in line]
    kind = rng.choice(["wait", "wait", "buffer", "launch"])
    places = find("plan." + kind)
    if not places:
        return plan
    place = rng.choice(places)
    if kind == "wait":
        del lines[place]
    elif kind == "buffer":
        lines[place] = re.sub(r"offset = \d+", f"offset = {rng.choice([0, 16, 32, 64, 128, 256, 512])}", lines[place])
    else:
        lines[place] = re.sub(r' on "[\w.]+"', f' on "{rng.choice(STREAMS)}"', lines[place])
    return re.sub(r"device = \d+ : i64, host_pinned = \d+", "device = 65536 : i64, host_pinned = 65536", "\n".join(lines))


def run(tool, path, programs, *passes):
    with open(path, "w") as file:
        file.write(SPLIT.join(programs))
    command = [tool, path, "--split-input-file", "--mlir-print-op-on-diagnostic=false", *passes]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout.split("// -----"), result.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moe-opt", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--programs", type=int, required=True)
    parser.add_argument("--output", required=True, help="prefix of the files to write")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)

    programs = [Generator(rng).program(f"f{number}") for number in range(arguments.programs)]
    plans, errors = run(arguments.moe_opt, arguments.output + ".programs.mlir", programs,
                        "--moe-set-cluster=rates='#moe.cluster<node_ranks = 1>'", "--plan-assign-streams",
                        "--plan-assign-memory", "--plan-verify")
    if errors or not all(is_valid(plan) for plan in plans):
        sys.exit("an assigned plan is not valid: " + errors)
    print(len(plans), "plans are valid")

    mutants = [mutate(plan, rng) for plan in plans for _ in range(6)]
    outputs, _ = run(arguments.moe_opt, arguments.output + ".mutants.mlir", mutants, "--plan-verify")
    invalid = 0
    for mutant, output in zip(mutants, outputs, strict=True):
        valid = is_valid(mutant)
        invalid += not valid
        if valid != ("func.func" in output):
            sys.exit(f"plan-verify should have {'passed' if valid else 'refused'} this plan:\n{mutant}")
    print(len(mutants), "mutants,", invalid, "of them invalid: plan-verify and the brute-force check agree")


if __name__ == "__main__":
    main()
