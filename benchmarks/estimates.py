#!/usr/bin/env python3
"""Compares moe-plan's estimates from samples of a model's blocks with the steps that it compiles, over random options.

Each case draws a model, its depth, a cluster, sizes of groups and the options that people combine. moe-plan then estimates that one
candidate and compiles it. The script prints the errors, and fails if they are larger than allowed.
"""

import argparse
import json
import os
import random
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

from estimates_cases import draw, run

# Allowed errors: mean and largest error of seconds, mean error of bytes.
MEAN_SECONDS, WORST_SECONDS, MEAN_BYTES = 0.05, 0.15, 0.03


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/release/bin", help="folder of the tools")
    parser.add_argument("--cases", type=int, default=300, help="compared candidates")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", help="write all cases to this file")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    tool = os.path.join(options.bin, "moe-plan")
    compared, illegal = [], {}
    with ThreadPoolExecutor(options.jobs) as pool:
        while len(compared) < options.cases:
            commands = [draw(rng) for _ in range(4 * options.jobs)]
            for command, (one, error) in zip(commands, pool.map(lambda command: run(tool, command), commands)):
                if one is None:
                    illegal[str(error)[:110]] = illegal.get(str(error)[:110], 0) + 1
                    continue
                seconds = one["estimate"] / one["seconds"] - 1
                memory = one["estimate_memory"] / one["memory"] - 1
                compared.append({"command": command, "seconds": one["seconds"], "seconds_error": seconds, "memory": one["memory"],
                                 "memory_error": memory, "options": one["parallel"]})
                if abs(seconds) > 0.05 or abs(memory) > 0.05:
                    print(f"{seconds:+7.1%} {memory:+7.1%}  {' '.join(command)}", flush=True)
    compared = compared[:options.cases]
    if options.json:
        with open(options.json, "w") as file:
            json.dump(compared, file, indent=1)
    ok = True
    for what, mean_allowed, worst_allowed in (("seconds", MEAN_SECONDS, WORST_SECONDS), ("memory", MEAN_BYTES, None)):
        errors = [one[f"{what}_error"] for one in compared]
        mean, worst = statistics.fmean(map(abs, errors)), max(errors, key=abs)
        print(f"{what}: {len(errors)} cases, mean error {mean:.1%}, bias {statistics.fmean(errors):+.1%}, worst {worst:+.1%}")
        ok &= mean <= mean_allowed and (worst_allowed is None or abs(worst) <= worst_allowed)
    for error, count in sorted(illegal.items(), key=lambda item: -item[1]):
        print(f"illegal, {count}: {error}", file=sys.stderr)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
