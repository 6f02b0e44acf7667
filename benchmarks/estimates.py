#!/usr/bin/env python3
"""What moe-plan estimates from samples of a model's blocks, against the steps that it compiles, over random options.

Each case draws a model, its depth, a cluster, sizes of groups and the options that people combine. moe-plan then estimates
that one candidate and compiles it. The script prints the errors, and fails where they are larger than they may be.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

MODELS = ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite", "olmoe-1b-7b", "gpt-oss-20b", "deepseek-v3", "qwen1.5-moe-a2.7b", "dbrx")
CLUSTERS = ("hgx-h100", "hgx-h200", "dgx-b200")
# Errors that are allowed: seconds in the mean and at most, bytes in the mean.
MEAN_SECONDS, WORST_SECONDS, MEAN_BYTES = 0.05, 0.15, 0.03
# Every candidate is compiled, however large it is.
ANY_MEMORY = "--memory-limit=1000000000000000"


def draw(rng):
    """A command of moe-plan whose candidate may be illegal."""
    world = rng.choice((8, 16, 32, 64))
    pp = rng.choice((1, 1, 2, 4, 8))
    mp = rng.choice((1, 1, 2, 4))
    ep = rng.choice((1, 2, 4, 8, 16))
    esp = rng.choice((1, 1, 1, 2))
    interleave = rng.choice((1, 1, 2)) if pp > 1 else 1
    batch = rng.choice((1, 1, 2))
    micro = pp * rng.choice((1, 2, 3, 5)) if pp > 1 else rng.choice((1, 2, 4, 7))
    command = [rng.choice(MODELS), str(world), rng.choice(CLUSTERS), f"--parallel=auto,pp={pp},mp={mp},ep={ep},esp={esp}", "--vary=none",
               ANY_MEMORY, f"--layers={rng.choice((6, 8, 12))}", f"--seq={rng.choice((2048, 4096))}", f"--batch={batch}",
               f"--micro-batches={micro}", f"--dtype={rng.choice(('bf16', 'bf16', 'f32'))}"]
    command += [f"--interleave={interleave}"] * (interleave > 1)
    command += [f"--max-load={load}" for load in rng.choice(((1.2,), (1.5,), (2,), ()))]
    command += [f"--recompute={rng.choice(('none', 'selective', 'block'))}"]
    command += ["--zero"] * (rng.random() < 0.5) + ["--sequence-parallel"] * (mp > 1 and rng.random() < 0.5)
    schedules = ["baseline", "baseline", "baseline+pipeline:2", "baseline+pipeline:4"]
    schedules += ["s1", "s2", "s2+saa", "ppmoe"] * (mp > 1)
    command += [f"--schedule={rng.choice(schedules)}"]
    return command


def run(tool, command):
    """The candidate that was compiled; None where it cannot be."""
    process = subprocess.run([tool, *command, "--json", "--num-threads=1"], capture_output=True, text=True)
    if process.returncode != 0:
        return None, process.stderr.strip().splitlines()[-1:]
    answer = json.loads(process.stdout)
    chosen = [one for one in answer["explanation"]["groups"]["candidates"] if one["verdict"] == "chosen"]
    return chosen[0], None


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
