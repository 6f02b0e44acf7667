#!/usr/bin/env python3
"""Predicted exchanges over nodes: bus bandwidth by size, and link level against closed form.

Usage: exchanges_over_nodes.py --prices=build/release/bin/price_exchanges [--cluster=hgx-h100]

The claim: both forms agree within 10% where traffic is even. Exit status 1 if they do not.
"""
import argparse
import pathlib
import subprocess
import sys

CLUSTERS = pathlib.Path(__file__).resolve().parents[1] / "share" / "clusters"
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
NODES = (1, 2, 4, 8, 16)
PER_NODE = (1, 2, 4, 8)
SIZES = (2**10, 2**14, 2**20, 2**24, 2**28, 2**30)


def price(binary, profile, rows):
    """Seconds of [(collective, nodes, members of a node, bytes, form)]."""
    text = "".join(",".join(str(cell) for cell in row) + "\n" for row in rows)
    output = subprocess.run([binary, profile], input=text, capture_output=True, text=True)
    if output.returncode:
        sys.exit(output.stderr)
    return [float(line) for line in output.stdout.split()]


def print_bandwidths(binary, profile, per_node):
    print(f"\nBus bandwidth in GB/s, of {per_node} members a node\n")
    print(f"{'collective':15} {'nodes':>5}" + "".join(f"{size:>12}" for size in SIZES))
    for collective in COLLECTIVES:
        for nodes in NODES:
            seconds = price(binary, profile, [(collective, nodes, per_node, size, "closed") for size in SIZES])
            members = nodes * per_node
            part = (2 if collective == "all_reduce" else 1) * (members - 1) / members
            print(f"{collective:15} {nodes:5}" +
                  "".join(f"{part * size / time / 1e9:12.3g}" for size, time in zip(SIZES, seconds)))


def print_agreement(binary, profile):
    print(f"\nLink level against closed form: the largest difference of {len(PER_NODE) * len(SIZES)} groups and sizes\n")
    print(f"{'collective':15}" + "".join(f"{nodes:>4} nodes" for nodes in NODES))
    worst = 0
    for collective in COLLECTIVES:
        largest = []
        for nodes in NODES:
            rows = [(collective, nodes, members, size) for members in PER_NODE for size in SIZES if nodes * members > 1]
            closed, links = (price(binary, profile, [(*row, form) for row in rows]) for form in ("closed", "link"))
            largest.append(max(abs(b / a - 1) for a, b in zip(closed, links)))
        print(f"{collective:15}" + "".join(f"{value:10.1%}" for value in largest))
        worst = max(worst, *largest)
    print(f"\n{'ok  ' if worst <= 0.1 else 'FAIL'}  link level and closed form differ by at most {worst:.1%}, wanted 10%")
    return worst <= 0.1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prices", required=True, help="the program price_exchanges")
    parser.add_argument("--cluster", default="hgx-h100")
    options = parser.parse_args()
    profile = CLUSTERS / f"{options.cluster}.json"
    print_bandwidths(options.prices, profile, 8)
    return 0 if print_agreement(options.prices, profile) else 1


if __name__ == "__main__":
    sys.exit(main())
