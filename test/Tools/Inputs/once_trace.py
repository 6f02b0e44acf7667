"""Checks moe-sim's report of a recorded step of once.json on 8 ranks, in nodes of NODE_RANKS ranks: the rows that each exchange moves, and
the ranks and nodes that a token meets, of DEVICES devices each. The expected numbers are counted from the trace's choices. Those of
exchanges are counted from the run's bytes, if RUN.json is given.

Usage: once_trace.py TRACE SIM.json ITERATION NODE_RANKS DEVICES [RUN.json]"""

import json
import sys
from collections import Counter

HIDDEN, EXPERTS, TOP_K, RANKS = 24, 16, 4, 8
OWN = EXPERTS // RANKS
# The token and its gradient, there and back, in f32, twice the weights, and the choices.
ROW = 4 * HIDDEN * 4 + 2 * TOP_K * 4 + TOP_K * 4

trace, sim, iteration, node_ranks, devices = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
with open(trace) as file:
    layers = [line for line in map(json.loads, file) if line["iteration"] == iteration]
with open(sim) as file:
    report = json.load(file)
rows, reach = Counter(), []
for layer in sorted(layers, key=lambda line: line["layer"]):
    tokens, met = 0, Counter()
    for rank, flat in enumerate(layer["choices"]):
        for first in range(0, len(flat), TOP_K):
            ranks = {expert // OWN for expert in flat[first:first + TOP_K]}
            nodes = {to // node_ranks for to in ranks}
            places = {node * node_ranks + rank % node_ranks for node in nodes}
            rows["ep_nodes"] += len(nodes - {rank // node_ranks})
            rows["ep_node"] += len(ranks - places)
            machines = {to // devices for to in ranks}
            met.update(ranks=len(ranks), nodes=len(machines), other_nodes=len(machines - {rank // devices}))
            tokens += 1
    reach.append({key: count / tokens for key, count in met.items()})

moved = {kernel["kernel"][14:-1]: kernel["bytes"] * RANKS for kernel in report["kernels"] if kernel["kernel"].startswith("all_to_all_v")}
expected = {group: count * ROW for group, count in rows.items()}
if len(sys.argv) > 6:
    with open(sys.argv[6]) as file:
        expected = {group: 0 for group in moved}
        for exchange in json.load(file)["collectives"]:
            if exchange["collective"] == "all_to_all_v":
                expected[exchange["group"]] += exchange["bytes_received"]
if {group: round(size, 3) for group, size in moved.items()} != expected:
    sys.exit(f"expected exchanges of {expected} bytes but they have {moved}")
if len(report["reach"]) != len(reach):
    sys.exit(f"expected the reach of {len(reach)} layers but got {len(report['reach'])}")
for said, counted in zip(report["reach"], reach):
    wrong = {key: said[key] for key in counted if abs(said[key] - counted[key]) > 1e-9}
    if wrong or not said["counted"] or said["num_ranks"] != RANKS or said["num_nodes"] != RANKS // devices:
        sys.exit(f"expected {counted} of {RANKS} ranks, counted, but got {said}")
