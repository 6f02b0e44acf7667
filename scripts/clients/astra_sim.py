#!/usr/bin/env python3
"""Runs a step of moe-sim in ASTRA-sim, and prints its times beside moe-sim's.

Usage: astra_sim.py [--keep=DIR] ASTRA_SIM MOE_SIM ARGUMENT..

ASTRA_SIM is a binary of ASTRA-sim with an analytical network, and MOE_SIM is moe-sim with its arguments. The script adds
--chakra=DIR to them, and runs the files of that folder twice: once as a replay, once on ASTRA-sim's network.
--keep=DIR keeps the folder. The exit status is not 0 if a rank does not finish.

Example: astra_sim.py AstraSim_Analytical_Congestion_Unaware moe-sim mixtral-8x7b --parallel=dp=8,ep=8 --cluster=hgx-h100
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def run(command: list[str], folder: pathlib.Path) -> str:
    """Output of a command that runs in the folder, where ASTRA-sim also writes its logs."""
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(f"astra_sim.py: '{' '.join(command)}' ended with status {made.returncode}:\n{made.stdout[-2000:]}{made.stderr[-2000:]}")
    sys.stderr.write(made.stderr)
    return made.stdout


def simulate(binary: str, folder: pathlib.Path, system: str, ranks: int) -> float:
    """Seconds until the last rank has ended in ASTRA-sim."""
    output = run([binary, f"--workload-configuration={folder}/moeplan", f"--comm-group-configuration={folder}/moeplan.groups.json",
                  f"--system-configuration={folder}/{system}", f"--network-configuration={folder}/network.yml",
                  f"--remote-memory-configuration={folder}/memory.json"], folder)
    ends = {int(rank): int(cycles) for rank, cycles in re.findall(r"sys\[(\d+)\] finished, (\d+) cycles", output)}
    if len(ends) != ranks:
        missing = sorted(set(range(ranks)) - set(ends))
        sys.exit(f"astra_sim.py: {len(missing)} of {ranks} ranks did not finish with {system}; the first is rank {missing[0]}")
    return max(ends.values()) * 1e-9  # A cycle is 1 ns.


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("binary")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    if "--help" in sys.argv[1:2]:
        sys.exit(__doc__)
    options = parser.parse_args()
    if not options.command:
        parser.error("expected moe-sim and its arguments after ASTRA_SIM")
    found = shutil.which(options.binary)
    if not found:
        parser.error(f"expected a program but got '{options.binary}'")
    binary = str(pathlib.Path(found).resolve())
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or pathlib.Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        report = json.loads(run([*options.command, f"--chakra={folder}", "--json"], pathlib.Path.cwd()))
        step, ranks = report["step_s"], report["num_ranks"]
        print(f"{'':24}{'ms':>12}{'of moe-sim':>12}")
        print(f"{'moe-sim':24}{step * 1e3:12.3f}")
        for name, system in (("ASTRA-sim, replay", "replay.json"), ("ASTRA-sim, simulation", "system.json")):
            seconds = simulate(binary, folder, system, ranks)
            print(f"{name:24}{seconds * 1e3:12.3f}{seconds / step - 1:+12.2%}")


if __name__ == "__main__":
    main()
