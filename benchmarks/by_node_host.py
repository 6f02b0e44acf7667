#!/usr/bin/env python3
"""Measures on the host backend what once:rank, once:node and hier gain on links of two speeds, against the prediction of moe-sim.

Usage: by_node_host.py --bin DIR [--cluster=FILE] [--rounds=N] [--steps=N] [--only=TEXT]. Ranks on two cores compute forward and backward of
one layer. They are in two nodes of two or four. Links are emulated, as mpipemoe_host.py describes: those in a node have ten times the
bandwidth of those between nodes. The exchanges between nodes of the baseline take 0.5, 1 or 2 times as long as its computation.

A dropless layer has the baseline, once:rank and once:node. Its tokens choose 8 of 32 experts. A layer with a capacity has the baseline and
hier. There a message between nodes takes 1 ms to be sent off, however small it is.

`moe-sim --emulate-links` predicts steps on the profile of this machine (--cluster, by moe-calibrate, with nothing else running). A gain is
t(baseline) / t(schedule). In each round all plans of a layer run one after the other, and the median of each plan's steps counts. A
measured gain is the median of the rounds' gains.

Claim: each measured gain is within 10% of the predicted gain.
"""
import argparse
import os
import statistics
import sys
import tempfile

from layers import LinkedPlans, graph, load_profile, report, run, write_profile

WANTED = 0.1
TOP_K, EXPERTS = 8, 32
# M, H and tokens of a rank, ranks of each of two nodes, and exchange time over computation time.
SHAPES = [((256, 512), 256), ((384, 768), 128)]
SCHEDULES = {"dropless": ("baseline", "once:rank", "once:node"), "capacity": ("baseline", "hier")}
CASES = [(form, shape, per_node, ratio) for form in SCHEDULES for shape in SHAPES for per_node in (2, 4) for ratio in (0.5, 1.0, 2.0)]


def describe(case):
    form, ((m, h), tokens), per_node, ratio = case
    return f"{form} M={m} H={h} B={tokens} 2x{per_node} links x{ratio:g}"


def make_profile(per_node, rate, post):
    """Two nodes of devices. Their NICs send `rate` bytes/s, and a message leaves `post` seconds after the one before."""
    profile = load_profile("mpipemoe-a100")
    source = "made up by benchmarks/by_node_host.py"
    profile["name"], profile["nodes"], profile["devices_per_node"], profile["collectives"] = "emulated-links", 2, per_node, []
    profile.pop("protocols", None)
    profile["links"] = [{"from": "device*", "to": "switch", "bytes_per_s": 10 * rate, "latency_s": 1e-5, "source": source},
                        {"from": "device*", "to": "nic*", "bytes_per_s": 10 * rate, "latency_s": 1e-5, "source": source},
                        {"from": "nic*", "to": "network", "bytes_per_s": rate, "latency_s": 1e-4, "post_s": post, "source": source}]
    return profile


class Case(LinkedPlans):
    """A layer's plans, by schedule."""

    def __init__(self, options, folder, number, case):
        super().__init__(options, folder, number)
        form, ((m, h), tokens), self.per_node, ratio = case
        self.ranks, self.model, self.links = 2 * self.per_node, self.path("layer.mlir"), self.path("links.json")
        with open(self.model, "w") as file:
            file.write(graph((m, h), tokens * self.ranks, EXPERTS, TOP_K, None if form == "dropless" else 1.0))
        self.post = 0.0 if form == "dropless" else 1e-3
        self.write(1e12)
        compute = self.predict("baseline")["mean"]["compute_s"]
        # There are four exchanges, each with half of the rows for the other node.
        self.write(4 * TOP_K * tokens * m * 4 / 2 / (ratio * compute))
        self.prepare(SCHEDULES[form])

    def write(self, rate):
        write_profile(make_profile(self.per_node, rate, self.post), self.links)

    def compile(self, schedule, path, *flags):
        run([os.path.join(self.options.bin, "moe-compile"), self.model, f"--parallel=dp={self.ranks},ep={self.ranks}",
             f"--schedule={schedule}", "--order=program", f"--cluster={self.links}", "--reference=false", *flags, "-o", path])


def print_case(text, case):
    print(text)
    for schedule in case.plans:
        line = f"  {schedule:<12} {1e3 * case.get_seconds(schedule):8.1f} ({1e3 * case.predicted[schedule]['step_s']:8.1f}) ms"
        if schedule != "baseline":
            line += f"   gain {case.get_gain(schedule):6.3f} ({case.get_predicted_gain(schedule):6.3f})"
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--cluster", default="localhost", help="profile of this machine, by moe-calibrate")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each plan")
    parser.add_argument("--steps", type=int, default=5, help="steps of each run, after one that does not count")
    parser.add_argument("--only", default="", help="only cases whose description contains this text")
    options = parser.parse_args()
    print("measured steps; predicted in brackets")
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        for number, shape in enumerate(case for case in CASES if options.only in describe(case)):
            case = Case(options, folder, number, shape)
            for _ in range(options.rounds):
                case.measure()
            print_case(describe(shape), case)
            errors += [abs(case.get_gain(schedule) / case.get_predicted_gain(schedule) - 1) for schedule in case.plans
                       if schedule != "baseline"]
    if not errors:
        parser.error(f"--only: expected a part of a case's description, such as '{describe(CASES[0])}', but got '{options.only}'")
    print()
    ok = report(max(errors) <= WANTED, f"{len(errors)} gains are as predicted within {100 * statistics.fmean(errors):.1f}% in the mean, "
                f"{100 * max(errors):.1f}% at worst; wanted {WANTED:.0%}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
