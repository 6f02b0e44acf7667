#!/usr/bin/env python3
"""Draws docs/images/schedule-*.svg from simulated plans: when each launch of a MoE layer, or each stage of a pipeline, runs.

Usage: schedule_figures.py [--bin DIR] [--only NAME,..]

Each picture has two or three plans on one time axis. In pictures of a layer, a lane is a stream of the rank that computes longest. In pictures of a
pipeline, a lane is a stage, and a box is the forward or the backward of a micro-batch, with its number. If the backward is split, gradients of weights are boxes of their own.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

IMAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "images")
PARM = ["mixtral-8x7b", "--seq=1024", "--capacity-factor=1.2", "--parallel=dp=8,mp=4,ep=8,esp=4", "--cluster=parm-b", "--mode=forward"]
PPMOE = ["mixtral-8x7b", "--seq=1024", "--capacity-factor=1.2", "--parallel=dp=8,mp=4,ep=4", "--cluster=parm-b", "--mode=forward"]
MPIPE = ["gpt3-medium-moe", "--seq=1024", "--batch=4", "--capacity-factor=1.2", "--parallel=dp=32,ep=32", "--cluster=parm-b", "--mode=forward"]
REUSE = [*MPIPE[:-1], "--mode=train"]
FASTER = ["gpt2-moe", "--seq=1024", "--batch=8", "--dropless", "--parallel=dp=16,ep=16", "--cluster=fastermoe-johnny", "--mode=forward",
          "--synthetic-routing=skew=8,first=0"]
PIPELINE = ["mixtral-8x7b", "--whole-model", "--layers=16", "--seq=4096", "--dtype=bf16", "--parallel=pp=4,dp=8,ep=8", "--micro-batches=8",
            "--cluster=hgx-h100", "--max-load=2"]
# Name of the picture, common options of the plans, and the name and further options of each plan from top to bottom.
FIGURES = (
    ("s1", PARM, ("baseline", "--schedule=baseline"), ("s1", "--schedule=s1")),
    ("s2", PARM, ("baseline", "--schedule=baseline"), ("s2", "--schedule=s2")),
    ("saa", PARM, ("s2", "--schedule=s2"), ("s2+saa", "--schedule=s2+saa")),
    ("ppmoe", PPMOE, ("baseline", "--schedule=baseline"), ("ppmoe", "--schedule=ppmoe")),
    ("chunks", MPIPE, ("baseline", "--schedule=baseline"), ("baseline+chunks:4", "--schedule=baseline+chunks:4")),
    ("reuse", REUSE, ("baseline+chunks:4", "--schedule=baseline+chunks:4"), ("baseline+chunks:4+mpipe-s4", "--schedule=baseline+chunks:4+mpipe-s4")),
    ("shadow", FASTER, ("baseline", "--schedule=baseline"), ("baseline+shadow", "--schedule=baseline+shadow")),
    ("smart", FASTER, ("baseline", "--schedule=baseline"), ("baseline+smart", "--schedule=baseline+smart")),
    ("1f1b", PIPELINE, ("1F1B", "--interleave=1"), ("interleaved 1F1B, two stages a device", "--interleave=2")),
    ("zero-bubble", PIPELINE, ("zb-h1", "--pipeline=zb-h1"), ("zb-v", "--pipeline=zb-v")),
    ("windows", PIPELINE, ("1F1B, two stages a device", "--interleave=2"), ("1f1b-overlap, two stages a device", "--interleave=2 --pipeline=1f1b-overlap"),
     ("dualpipe-v", "--pipeline=dualpipe-v")),
)
# Kind, its colours in light and dark, and a pattern of its kernels. The first match counts.
KINDS = (
    ("all-to-all", "#ca6f1e", "#f0a35e", ("all_to_all",)),
    ("other exchanges", "#7d3c98", "#bb8fe0", ("[",)),
    ("expert products", "#2471a3", "#5dade2", ("grouped_matmul",)),
    ("other computation", "#7f8c8d", "#a3b1b5", ("",)),
)
PASSES = (("forward", "#2471a3", "#5dade2"), ("backward", "#229954", "#52c787"), ("gradients of weights", "#b9770e", "#f0b35e"))
STREAMS = ("compute", "comm.intra", "comm.inter", "copy.d2h", "copy.h2d")
WIDTH, LEFT, RIGHT, LANE, GAP = 900, 110, 20, 30, 6


def get_kind(name):
    return next(index for index, kind in enumerate(KINDS) if any(part in name for part in kind[3]))


def read_trace(options, shape, flag, folder):
    """Events with a duration, the names of streams by process and thread, and microseconds of the step."""
    trace = os.path.join(folder, "trace.json")
    command = [os.path.join(options.bin, "moe-sim"), *shape, *flag.split(), f"--trace={trace}"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)}: {done.stderr.strip()}")
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    work = sorted((event for event in events if event["ph"] == "X" and event["dur"] > 0), key=lambda event: event["ts"])
    return work, names, max(event["ts"] + event["dur"] for event in work)


def get_streams(work, names):
    """(stream, boxes) of the rank that computes longest. A box is (kind, begin, end, text inside, text beside)."""
    computing = {}
    for event in work:
        if event["cat"] == "compute":
            computing[event["pid"]] = computing.get(event["pid"], 0) + event["dur"]
    slowest, lanes = max(sorted(computing), key=computing.get), {}
    for event in work:
        if event["pid"] == slowest:
            name = event["name"]
            box = (get_kind(name), event["ts"], event["ts"] + event["dur"], name.split(" [")[0].replace("_", " "), f"{name}: {event['dur'] / 1e3:.3f} ms")
            lanes.setdefault(names[slowest, event["tid"]], []).append(box)
    return sorted(lanes.items(), key=lambda lane: STREAMS.index(lane[0]))


def get_stages(work, names):
    """(stage, boxes) of a pipeline. A box is the uninterrupted work of a stage for one micro-batch."""
    lanes = {}
    for event in work:
        if names[event["pid"], event["tid"]] != "compute" or "micro_batch" not in event["args"]:
            continue
        boxes, args = lanes.setdefault(event["pid"], []), event["args"]
        kind, number, end = int(args["backward"]) + args.get("weights", False), str(args["micro_batch"] + 1), event["ts"] + event["dur"]
        # Work of two stages of one device is separated by the time between them.
        if boxes and boxes[-1][0] == kind and boxes[-1][3] == number:
            boxes[-1] = (kind, boxes[-1][1], end, number, boxes[-1][4])
        else:
            boxes.append((kind, event["ts"], end, number, f"{PASSES[kind][0]} of micro-batch {number}"))
        # Gradients of weights among the ops of their own backward have no boxes of their own.
        if [box[0] for box in boxes[-3:]] == [1, 2, 1] and {box[3] for box in boxes[-3:]} == {number}:
            boxes[-3:] = [(1, boxes[-3][1], *boxes[-1][2:])]
    return [(f"device {index + 1}", lanes[pid]) for index, pid in enumerate(sorted(lanes))]


def draw_box(box, scale, top):
    kind, begin, end, inside, beside = box
    left, width = LEFT + begin * scale, (end - begin) * scale
    text = f'<rect class="k{kind}" x="{left:.1f}" y="{top}" width="{max(width - 0.6, 0.4):.1f}" height="{LANE}"><title>{beside}</title></rect>'
    if width > 7 * len(inside) + 3:
        text += f'<text class="in" x="{left + width / 2:.1f}" y="{top + LANE / 2 + 4.5}">{inside}</text>'
    return text


def choose_tick(seconds):
    unit = 1e-3
    while seconds / unit > 100:
        unit *= 10
    return next(unit * factor for factor in (1, 2, 5, 10, 20, 50, 100) if seconds / (unit * factor) <= 10)


def draw(plans, kinds):
    """Draws `plans`: (name, lanes, seconds) from top to bottom."""
    longest = max(seconds for _, _, seconds in plans)
    scale = (WIDTH - LEFT - RIGHT) / (longest * 1e6)
    top, parts = 12, []
    for index, kind in enumerate(kinds):
        parts.append(f'<rect class="k{index}" x="{LEFT + 180 * index}" y="{top}" width="14" height="14"/><text x="{LEFT + 180 * index + 20}" y="{top + 12}">{kind[0]}</text>')
    top += 34
    for plan, lanes, seconds in plans:
        parts.append(f'<text class="name" x="{LEFT}" y="{top + 12}">{plan}: {seconds * 1e3:.1f} ms</text>')
        top += 20
        for name, boxes in lanes:
            parts.append(f'<rect class="lane" x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{LANE}"/><text class="stream" x="{LEFT - 8}" y="{top + LANE / 2 + 4.5}">{name}</text>')
            parts += [draw_box(box, scale, top) for box in boxes]
            top += LANE + GAP
        top += 12
    tick = choose_tick(longest)
    for number in range(int(longest / tick) + 1):
        x = LEFT + number * tick * 1e6 * scale
        parts.append(f'<path class="tick" d="M{x:.1f} {top - 10}v5"/><text class="in axis" x="{x:.1f}" y="{top + 8}">{number * tick * 1e3:g}</text>')
    parts.append(f'<text class="stream" x="{LEFT - 8}" y="{top + 8}">ms</text>')
    colours = lambda which: " ".join(f".k{index}{{fill:{kind[which]}}}" for index, kind in enumerate(kinds))
    style = f"""text{{fill:#222;font:13px sans-serif}} .in{{text-anchor:middle;fill:#fff}} .axis{{fill:#555}} .stream{{text-anchor:end;fill:#555}} .name{{font-weight:bold}}
.lane{{fill:#eef1f4}} .tick{{stroke:#888}} .back{{fill:#fff}} {colours(1)}
@media (prefers-color-scheme: dark) {{ text{{fill:#e6edf3}} .in{{fill:#0d1117}} .stream,.axis{{fill:#aab4bf}} .lane{{fill:#1b222b}} .back{{fill:#0d1117}} {colours(2)} }}"""
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 18}">\n<style>{style}</style>\n<rect class="back" width="{WIDTH}" height="{top + 18}"/>\n{body}\n</svg>\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--only", help="names of pictures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, shape, *variants in FIGURES:
            if options.only and name not in options.only.split(","):
                continue
            is_pipeline, plans = shape is PIPELINE, []
            for plan, flag in variants:
                work, names, end = read_trace(options, shape, flag, folder)
                plans.append((plan, (get_stages if is_pipeline else get_streams)(work, names), end / 1e6))
            with open(os.path.join(IMAGES, f"schedule-{name}.svg"), "w") as file:
                file.write(draw(plans, PASSES if is_pipeline else KINDS))
            print(f"{name:10}" + "  ".join(f"{plan} {seconds * 1e3:.2f} ms" for plan, _, seconds in plans))


if __name__ == "__main__":
    main()
