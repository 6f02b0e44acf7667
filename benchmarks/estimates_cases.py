"""Random candidates of moe-plan, for the benchmark and the test of its estimates."""

import json
import subprocess

MODELS = ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite", "olmoe-1b-7b", "gpt-oss-20b", "deepseek-v3", "qwen1.5-moe-a2.7b", "dbrx")
CLUSTERS = ("hgx-h100", "hgx-h200", "hgx-b200")
# Memory that fits every candidate, so that all are compiled.
ANY_MEMORY = "--memory-limit=1000000000000000"


def draw(rng):
    """A command of moe-plan with a random candidate, which may be illegal."""
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
    command += [f"--recompute={rng.choice(('none', 'light', 'selective', 'cheap-4', 'cheap', 'block'))}"]
    command += ["--zero"] * (rng.random() < 0.5) + ["--sequence-parallel"] * (mp > 1 and rng.random() < 0.5)
    schedules = ["baseline", "baseline", "baseline+chunks:2", "baseline+chunks:4"]
    schedules += ["s1", "s2", "s2+saa", "ppmoe"] * (mp > 1)
    command += [f"--schedule={rng.choice(schedules)}"]
    return command


def run(tool, command):
    """The compiled candidate, or None if it cannot be compiled."""
    process = subprocess.run([tool, *command, "--json", "--num-threads=1"], capture_output=True, text=True)
    if process.returncode != 0:
        return None, process.stderr.strip().splitlines()[-1:]
    answer = json.loads(process.stdout)
    chosen = [one for one in answer["explanation"]["groups"]["candidates"] if one["verdict"] == "chosen"]
    return chosen[0], None
