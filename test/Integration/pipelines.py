#!/usr/bin/python3
"""Tests schedules in chunks: by name, their search by times and memory, the memory that they use, and their choice at run time."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from variants import CONFIG, read, run_groups

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PARALLEL = "--parallel=dp=2,mp=2,ep=2,esp=2"
# A cluster whose devices have a link to the host, so that all strategies can be compared.
CLUSTER = "--cluster=mpipemoe-a100"
STRATEGIES = ("mpipe-s1", "mpipe-s2", "mpipe-s3", "mpipe-s4")
# Argument of --schedule, and its name in a plan.
NAMES = {
    "baseline+chunks:2": "chunks:2", "chunks:04": "chunks:4", "chunks:1": "baseline", "chunks:64": "chunks:64",
    "mpipe-s4+chunks:04,01": "chunks:4,1+mpipe-s4", "chunks:4,2+mpipe-s4": "chunks:4+mpipe-s4", "chunks:4,2": "chunks:4,2",
    "mpipe-s1": "mpipe-s1", "mpipe-s4+chunks:3": "chunks:3+mpipe-s4", "chunks:2+s2": "s2+chunks:2",
    "mpipe-s2+chunks:8+s1": "s1+chunks:8+mpipe-s2", "chunks:1+mpipe-s3": "mpipe-s3",
    "chunks:2+mpipe-s4+saa+s2": "s2+saa+chunks:2+mpipe-s4", "chunks:2+chunks:2": "chunks:2",
    "s1+chunks:1": "s1", "s1+pipeline:4": "s1+chunks:4", "smart+shadow:4,prefix": "shadow:4,prefix+smart", "shadow:02,simulate+shadow:02,simulate": "shadow:2",
    "smart:2,topology+chunks:2+shadow": "chunks:2+shadow+smart:2", "topology-gate+smart:ring+s2": "s2+smart:ring+topology-gate",
    "mpipe-s4+topology-gate+shadow:algorithm1": "shadow:algorithm1+topology-gate+mpipe-s4",
}


def compile_plan(suite, *options):
    """Text of the plan, and the notes about it."""
    status, stdout, stderr = suite.tool("moe-compile", "config.json", PARALLEL, "--seq=64", CLUSTER, *options, "--emit=plan", "-o", "-")
    if status != 0:
        sys.exit(f"error: {options} exited with {status}\n{stderr}")
    return stdout, stderr


def schedule_of(plan):
    return re.search(r'plan\.schedule = "(.*?)"', plan).group(1)


def bytes_of(report):
    """Bytes of a rank with Adam's states."""
    return int(re.search(r"^with Adam's two states of \d+ bytes: (\d+) bytes$", report, re.M).group(1))


def names(suite):
    """A plan writes its schedule's names in one order. All orders compile to the same plan."""
    for given, expected in NAMES.items():
        plan, _ = compile_plan(suite, f"--schedule={given}")
        suite.equal(f"name {given}", schedule_of(plan), expected)
        suite.equal(f"name {given}: again", compile_plan(suite, f"--schedule={expected}")[0], plan)


def rings(suite):
    """Fewer chunks' values are alive at once if --schedule says so, or if 'auto' cannot fit otherwise."""
    def verify(name, *options):
        suite.make("moe-compile", "config.json", "--seq=64", CLUSTER, *options, "-o", "plan.so")
        got = json.loads(suite.make("moe-run", "plan.so", "--verify", "--json"))
        suite.equal(f"ring {name}: verification", got["verify"]["ok"], True)
        return got["schedule"]

    for schedule in ("chunks:4,1", "chunks:4,1+mpipe-s4", "chunks:8,3+mpipe-s1", "s1+chunks:4,1+mpipe-s3", "s2+chunks:4,4+mpipe-s2"):
        suite.equal(f"ring {schedule}", verify(schedule, PARALLEL, f"--schedule={schedule}"), schedule)
    plans = [compile_plan(suite, f"--schedule=chunks:8{ring}+mpipe-s4", "--report=report.txt") and bytes_of(read(suite.path("report.txt")).decode())
             for ring in (",1", "")]
    suite.equal("ring: bytes", plans[0] < plans[1], True)
    options = ["--parallel=dp=2,ep=2", "--capacity-factor=1", "--schedule=auto"]
    _, _, stderr = suite.tool("moe-compile", "config.json", "--seq=64", CLUSTER, *options, "--memory-limit=1", "--emit=plan")
    needed, smallest = re.search(r"the smallest of \d+ needs (\d+) bytes, that of '(.*?)'", stderr).groups()
    chosen = verify("auto", *options, f"--memory-limit={needed}", "--explain=why.json")
    fitting = [one["schedule"] for one in json.loads(read(suite.path("why.json")))["candidates"] if "model_seconds" in one]
    suite.equal("ring: auto", [chosen in fitting, all(re.search(r"chunks:\d+,1", name) for name in [smallest, *fitting])], [True, True])


def table(report):
    """(taken, schedule, columns) of each line after the heading of the compared schedules."""
    lines = report.split("schedules compared:", 1)[1].split("* taken", 1)[0].splitlines()[1:]
    found = [re.match(r"\s*(\*?)\s+(\S*(?:chunks|mpipe|baseline)\S*)\s+(.*)$", line) for line in lines]
    return [(bool(m.group(1)), m.group(2), [float(column) for column in m.group(3).split()]) for m in found if m]


def searches(suite):
    """The compiler takes the chunk count with the shortest step, and for each count the strategy of Eq. 10."""
    counts = ["baseline", "chunks:2", "chunks:4", "chunks:8"]
    for schedule, expected in (
            ("chunks:auto", counts),
            ("mpipe-auto", list(STRATEGIES)),
            ("chunks:2+mpipe-auto", [f"chunks:2+{s}" for s in STRATEGIES]),
            # Without chunks a strategy saves next to nothing.
            ("chunks:auto+mpipe-s4", [f"{c}+mpipe-s4" for c in counts[1:]]),
            ("chunks:auto+mpipe-auto", [f"{c}+{s}" for c in counts[1:] for s in STRATEGIES]),
            ("s1+chunks:auto", ["s1", *("s1+" + c for c in counts[1:])])):
        plan, _ = compile_plan(suite, f"--schedule={schedule}", "--report=report.txt")
        rows = table(read(suite.path("report.txt")).decode()) if not schedule.startswith("s1") else []
        if rows:
            suite.equal(f"{schedule}: compared", [name for _, name, _ in rows], expected)
            suite.equal(f"{schedule}: taken", [name for taken, name, _ in rows if taken], [schedule_of(plan)])
        # An attribute of the plan has the whole table.
        compared = re.search(r"plan\.search = \[(.*?)\]", plan, re.S).group(1)
        entries = []
        for entry in re.findall(r"\{(.*?)\}", compared, re.S):
            value = lambda key, text=entry: (re.search(rf'{key} = "?([^",]*)"?', text) or [None, None])[1]
            entries.append({"schedule": value("schedule"), "chosen": value("verdict") == "chosen", "memory": int(value("memory").split()[0]),
                            "seconds": float(value("seconds").split()[0]),
                            "equation10": value("equation10") and float(value("equation10").split()[0])})
        suite.equal(f"{schedule}: entries", [entry["schedule"] for entry in entries], expected)
        chunks = lambda entry: entry["schedule"].split("+mpipe")[0] if "chunks" in entry["schedule"] else ""
        allowed = [e for e in entries if "mpipe-auto" not in schedule or
                   e["equation10"] == min(o["equation10"] for o in entries if chunks(o) == chunks(e))]
        suite.equal(f"{schedule}: best", [e["schedule"] for e in entries if e["chosen"]],
                    [min(allowed, key=lambda entry: entry["seconds"])["schedule"]])
        suite.equal(f"{schedule}: Eq. 10 where it decides", {e["equation10"] is not None for e in entries}, {"mpipe-auto" in schedule})
        # The search returns the plan of the schedule's name.
        fixed, _ = compile_plan(suite, f"--schedule={schedule_of(plan)}")
        body = lambda text: text[text.index("func.func"):]
        suite.equal(f"{schedule}: plan", body(fixed) == body(plan), True)
    suite.make("moe-compile", "config.json", PARALLEL, "--seq=64", CLUSTER, "--schedule=chunks:auto", "-o", "found.so")
    suite.equal("found plan runs", json.loads(suite.make("moe-run", "found.so", "--verify", "--json"))["verify"]["ok"], True)


def limits(suite):
    """--memory-limit finds a fitting schedule and reports it, or reports the smallest memory."""
    baseline = ["--schedule=baseline", "--report=report.txt"]
    compile_plan(suite, *baseline)
    needed = bytes_of(read(suite.path("report.txt")).decode())
    plan, stderr = compile_plan(suite, *baseline, f"--memory-limit={needed}")
    suite.equal("limit: as it is", (schedule_of(plan), stderr), ("baseline", ""))
    compiling = ["moe-compile", "config.json", PARALLEL, "--seq=64", CLUSTER]
    status, _, stderr = suite.tool(*compiling, "--memory-limit=1000", "-o", "small.so")
    impossible = re.search(r"no schedule with a plan of at most 1000 bytes per rank: the smallest of 25 needs (\d+) bytes, that of '(\S+)'", stderr)
    suite.record("limit: impossible", None if status == 2 and impossible and "arena 'device'" in stderr else f"{status}\n{stderr[:1000]}")
    least, smallest = int(impossible.group(1)), impossible.group(2)
    suite.record("limit: least is less", None if least < needed else f"{least} and {needed}")
    suite.refused("limit: one byte less", [*compiling, f"--memory-limit={least - 1}", "-o", "small.so"], rf"needs {least} bytes, that of '{re.escape(smallest)}'")
    for limit in (least, (least + needed) // 2, needed - 1):
        status, _, stderr = suite.tool(*compiling, f"--memory-limit={limit}", "-o", "small.so", "--report=report.txt")
        said = re.search(rf"warning: the plan of 'baseline' needs {needed} bytes a rank, more than the limit of {limit}; '(\S+)', "
                         r"the fastest of 25 that fits, needs (\d+)", stderr)
        name = f"limit {limit}: "
        suite.record(name + "warning", None if status == 0 and said else f"{status}\n{stderr[:1000]}")
        if not said:
            continue
        suite.record(name + "another schedule", None if said.group(1) != "baseline" else "baseline")
        suite.equal(name + "what it needs", (bytes_of(read(suite.path("report.txt")).decode()), int(said.group(2)) <= limit), (int(said.group(2)), True))
        got = json.loads(suite.make("moe-run", "small.so", "--verify", "--json"))
        suite.equal(name + "runs", (got["schedule"], got["verify"]["ok"]), (said.group(1), True))
    # Without a known link to the host, offloading is no candidate: of 5 chunk counts two candidates each are left.
    suite.refused("limit: without a host link", [*compiling[:-1], "--cluster=linkless.json", "--memory-limit=1000", "-o", "small.so"],
                  r"at most 1000 bytes per rank: the smallest of 10 needs \d+ bytes, that of '(chunks:\d+\+)?(mpipe-s4)?'")


def measured(suite):
    """A run uses all planned bytes of the arenas."""
    for dropless in ([], ["--capacity-factor=1"]):
        for schedule in ("baseline", "chunks:2", "chunks:4", "s2+chunks:3", *(f"chunks:4+{s}" for s in STRATEGIES), "s1+chunks:2+mpipe-s1"):
            suite.make("moe-compile", "config.json", PARALLEL, "--seq=64", *dropless, f"--schedule={schedule}", "-o", "plan.so")
            memory = json.loads(suite.make("moe-run", "plan.so", "--json"))["memory"]
            suite.equal(f"memory: {schedule} {' '.join(dropless) or 'dropless'}",
                        {space: size["measured"] for space, size in memory.items()}, {space: size["planned"] for space, size in memory.items()})
            suite.equal(f"memory: {schedule}: on the host", memory["host_pinned"]["planned"] > 0, schedule.split("+")[-1] in STRATEGIES[:3])


def granularity(suite):
    """MPipeMoE's Algorithm 1: one plan of four chunk counts for each of two shapes, chosen by prediction or by trial."""
    suite.make("moe-compile", "config.json", PARALLEL, CLUSTER, "--batch=1,4", "--seq=64", "--schedule=chunks:auto", "-o", "auto.so")
    suite.make("moe-compile", "config.json", PARALLEL, CLUSTER, "--batch=1,4", "--seq=64", "--schedule=chunks:auto", "--emit=plan", "-o", "auto.mlir")
    plan = read(suite.path("auto.mlir")).decode()
    heads = re.findall(r"^  module attributes \{(.*)\} \{$", plan, re.M)
    got = [(int(re.search(r"plan\.batch = (\d+)", h).group(1)), int(re.search(r"plan\.chunks = (\d+)", h).group(1))) for h in heads]
    suite.equal("auto: variants", got, [(b, c) for b in (1, 4) for c in (1, 2, 4, 8)])
    seconds = {g: float(re.search(r"plan\.seconds = \[([^,\]]*), 0\.0", h).group(1)) for g, h in zip(got, heads)}
    for batch in (1, 4):
        report = json.loads(suite.make("moe-run", "auto.so", f"--batch={batch}", "--seq=64", "--verify", "--json"))
        best = min((1, 2, 4, 8), key=lambda chunks: seconds[batch, chunks])
        suite.equal(f"auto: batch {batch}", (report["batch"], report["schedule"], report["verify"]["ok"]),
                    (batch, "baseline" if best == 1 else f"chunks:{best}", True))


def refusals(suite):
    """Contradictory or impossible options are refused."""
    one = ["moe-compile", "config.json", "--seq=8", "-o", "bad.so", "--cluster=linkless.json"]
    several = ["moe-compile", "config.json", "--seq=8,16", "-o", "bad.so"]
    suite.refused("auto and chunks:auto", [*several, "--schedule=parm-auto+chunks:auto"], r"expected one of 'parm-auto' and 'chunks:auto' .* several batch shapes")
    suite.refused("mpipe-auto without a host link", [*one, "--schedule=mpipe-auto"], r"has no 'device\.host_link'")


def prepare(suite):
    with open(suite.path("config.json"), "w") as file:
        json.dump({**CONFIG, "moe_intermediate_size": 64}, file)
    with open(os.path.join(ROOT, "share", "clusters", "mpipemoe-a100.json")) as file:
        linkless = json.load(file)
    linkless["device"].pop("host_link")
    with open(suite.path("linkless.json"), "w") as file:
        json.dump(linkless, file)


if __name__ == "__main__":
    sys.exit(run_groups(__doc__, (names, rings, searches, limits, measured, granularity, refusals), prepare))
