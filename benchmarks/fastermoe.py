#!/usr/bin/env python3
"""FasterMoE's evaluation (PPoPP 2022): its choices of shadows, its schedules simulated on its clusters, and the host backend.

Usage: fastermoe.py --bin DIR [--svg=PREFIX] [--json=FILE] [--parts=decisions,models,orders,why,host].

  decisions  which experts become shadows, by policy, over 500 iterations of synthetic routing (16 ranks, 16 experts): the mean
             predicted step, the share of experts that are shadows, and the regret against the best of all 65536 sets
  models     the seven models of Table 2 on fastermoe-johnny and fastermoe-trevor, link by link, with the same routing: step
             times and speed-ups by schedule, beside Fig. 13, Table 3 and the share of the schedule's bound of Fig. 12
  orders     plans with shadows and phases: the searched order against the papers'
  why        how the speed-ups depend on uneven routing
  host       8 ranks on this machine, one expert with 60% of the tokens: step times, bytes and loads before and after, and the
             FLOPs of the slowest rank against the counts' prediction

All layers are dropless, top-2, two products, f32, with 2048 tokens a rank. These are 4096 choices, as in the recorded data from which the
routing's statistics come. docs/Routing.md, "Routing traces", has the statistics, and benchmarks/Papers.md compares the figures with the
paper's. The exit status is 1 if a claim fails. Claims are about properties that the schedules must have. Differences from the paper's
figures are only printed.
"""
import argparse
import ctypes
import json
import math
import os
import sys
import tempfile

import numpy as np

from layers import COLORS, Axes, Svg, graph, report, run

TOKENS, TOP_K = 2048, 2
# Table 2: layers, experts, H, hidden over H, cluster.
MODELS = {
    "MoE-GPT-S": (12, 16, 1024, 2, "fastermoe-johnny"), "MoE-GPT": (12, 16, 2048, 2, "fastermoe-johnny"),
    "MoE-GPT-L": (12, 16, 4096, 2, "fastermoe-johnny"), "MoE-BERT-Deep": (24, 16, 1024, 2, "fastermoe-johnny"),
    "MoE-BERT-Deep-L": (24, 16, 4096, 2, "fastermoe-johnny"), "MoE-BERT-Wide": (12, 64, 1024, 2, "fastermoe-trevor"),
    "MoE-BERT-Wide-L": (12, 64, 2048, 2, "fastermoe-trevor"),
}
# Fig. 13: the largest speed-ups among the models of a cluster.
PAPER = {"fastermoe-johnny": {"shadow": 1.95, "smart": 1.40, "both": 2.20}, "fastermoe-trevor": {"shadow": 4.74, "smart": 1.40, "both": 5.72}}
# Table 3, MoE-GPT on johnny, ms per iteration, for the whole model. The layers here are a part of it.
TABLE3 = {"baseline": 2117, "both": 1609, "both+gate": 1471}
# Schedule and order by name. The paper's shadows alone overlap with nothing, so they are in program order. "searched" has the same schedule
# in the compiler's order.
SCHEDULES = {"baseline": ("baseline", "program"), "shadow": ("shadow:12", "program"), "searched": ("shadow:12", "search"),
             "smart": ("smart:{group}", "search"), "both": ("shadow:12+smart:{group}", "search"), "gate": ("topology-gate", "program"),
             "both+gate": ("shadow:12+smart:{group}+topology-gate", "search")}
# Iterations over which a model's step is averaged. Each layer has its own routing.
ITERATIONS = [0, 5, 20, 60, 150, 300, 499]
ITERATION_COUNT = 500


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    return path


def dropless(model, tokens, experts, top_k=TOP_K):
    return graph(model, tokens, experts, top_k=top_k, factor=None)


class Bench:
    def __init__(self, bin_folder, folder):
        self.bin, self.folder = bin_folder, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def tool(self, name, *arguments):
        return run([os.path.join(self.bin, name), *arguments])

    def write_layer(self, hidden, alpha, ranks, experts):
        return write(self.path(f"layer-{hidden}-{experts}.mlir"), dropless((hidden, alpha * hidden), ranks * TOKENS, experts))

    def compile(self, graph_file, ranks, schedule, cluster, out, *flags):
        self.tool("moe-compile", graph_file, f"--parallel=dp={ranks},ep={ranks}", f"--schedule={schedule}", f"--cluster={cluster}",
                  *flags, "-o", out)
        return out

    def write_trace(self, plan, cluster, ranks, iterations, seed=0):
        """Routing {iteration: [ranks, experts]} of one layer."""
        path = self.path(f"trace-{ranks}-{seed}.jsonl")
        if not os.path.exists(path):
            self.tool("moe-sim", plan, f"--cluster={cluster}", f"--synthetic-routing=preset=unbalanced,first=0,seed={seed},iterations={iterations}",
                      f"--write-routing={path}", "--json")
        with open(path) as file:
            return path, {entry["iteration"]: np.array(entry["counts"]) for entry in map(json.loads, file)}


# ------------------------------------------------------------------------------------------------------------- decisions


class Costs(ctypes.Structure):
    """moert_shadow_costs of moert/shadows.h."""

    _fields_ = [("size", ctypes.c_uint32), ("policy", ctypes.c_uint32)] + [
        (name, ctypes.c_int64) for name in ("workers", "node_workers", "most", "room", "phases")] + [
        (name, ctypes.c_double) for name in ("row_compute", "row_send", "row_local", "row_node", "expert", "start")] + [
        ("least", ctypes.c_int64)]


class Shadows:
    """The runtime's choice, and its cost function in numpy for all sets at once."""

    def __init__(self, bench, attributes, workers, experts):
        self.library = ctypes.CDLL(os.path.join(bench.bin, "..", "lib", "libmoert.so"))
        self.library.moert_shadows_seconds.restype = ctypes.c_double
        self.costs = Costs(size=ctypes.sizeof(Costs), workers=workers, most=experts, phases=1, **attributes)
        self.workers, self.experts = workers, experts
        masks = np.arange(2**experts, dtype=np.uint32)
        self.sets = ((masks[:, None] >> np.arange(experts, dtype=np.uint32)) & 1).astype(np.float32)

    def choose(self, policy, counts):
        counts, chosen = np.ascontiguousarray(counts, np.int32), np.zeros(self.experts, np.int32)
        self.costs.policy = policy
        code = self.library.moert_shadows_choose(ctypes.byref(self.costs), counts.ctypes, ctypes.c_int64(len(counts)),
                                                 ctypes.c_int64(self.experts), chosen.ctypes)
        assert code == 0
        return chosen

    def get_all_seconds(self, counts):
        """Seconds by set: the paper's (Eq. 7 and 8) and those of the layer with nodes (moert_shadows_seconds). Each worker has one
        expert."""
        c, n = self.costs, self.workers
        matrix = counts.astype(np.float32)  # [from, to]
        own = np.diag(np.diag(matrix))
        # Shadowing e takes the rows of others from worker e, and gives each worker its own rows of e.
        loads = matrix.sum(0) + self.sets @ (matrix.T - np.diag(matrix.sum(0)))
        r = self.sets.sum(1)
        compute = 3 * c.row_compute * loads.max(1)
        paper = np.where(r == 0, (3 * c.row_compute + 4 * c.row_send) * loads.max(1), compute + 2 * r * c.expert)
        kept, others = 1 - self.sets, matrix - own
        sent, received = kept @ others.T, kept * others.sum(0)
        node = np.arange(n) // c.node_workers
        crossing = matrix * (node[:, None] != node[None, :])
        per_node = np.equal.outer(np.arange(node.max() + 1), node).astype(np.float32)
        node_sent, node_received = kept @ (per_node @ crossing).T, (kept * crossing.sum(0)) @ per_node.T
        exchange = c.start + np.maximum(c.row_local * np.maximum(sent.max(1), received.max(1)),
                                        c.row_node * np.maximum(node_sent.max(1), node_received.max(1)))
        return paper, compute + 4 * exchange + 2 * r * c.expert


def read_attributes(spmd):
    """Attributes of the first moe.choose_shadows."""
    line = next(line for line in spmd.splitlines() if "moe.choose_shadows" in line)
    get = lambda name, default: next((part.split(" = ")[1].split(" : ")[0] for part in line[line.index("{") + 1:line.index("}")].split(", ")
                                      if part.startswith(name + " = ")), default)
    attributes = {name: float(get(name, 0)) for name in ("row_compute", "row_send", "row_local", "row_node", "expert", "start")}
    return {**attributes, "node_workers": int(get("node_workers", 1)), "room": 0}


def simulate_decisions(bench, name, results):
    """Simulates the same choices in whole steps, link by link."""
    _, experts, hidden, alpha, cluster = MODELS[name]
    layer, steps = bench.write_layer(hidden, alpha, 16, experts), {}
    plain = bench.compile(layer, 16, "baseline", cluster, bench.path("plain.mlir"), "--emit=plan")
    path, trace = bench.write_trace(plain, cluster, 16, ITERATION_COUNT)
    for title, schedule in (("none", "baseline"), *((p, f"shadow:16,{p}") for p in ("algorithm1", "prefix", "simulate"))):
        plan = bench.compile(layer, 16, schedule, cluster, bench.path("policy.mlir"), "--order=program", "--emit=plan")
        steps[title] = np.mean([simulate(bench, plan, cluster, path, iteration)["step_s"] for iteration in list(trace)[::20]])
    results[f"decisions.{name}.simulated"] = steps
    print("simulated, every 20th iteration, ms: " + ", ".join(f"{title} {1e3 * its:.1f}" for title, its in steps.items()))
    return report(steps["simulate"] <= min(steps["prefix"], steps["algorithm1"]) * 1.02, "in the simulator, too, simulate's steps are at most 2% longer than the others'")


def measure_decisions(bench, results):
    ok = True
    for name in ("MoE-GPT-S", "MoE-GPT-L"):
        _, experts, hidden, alpha, cluster = MODELS[name]
        layer = bench.write_layer(hidden, alpha, 16, experts)
        spmd = bench.tool("moe-compile", layer, "--parallel=dp=16,ep=16", "--schedule=shadow:16", f"--cluster={cluster}", "--emit=spmd", "-o", "-")
        plan = bench.compile(layer, 16, "baseline", cluster, bench.path("plain.mlir"), "--emit=plan")
        _, trace = bench.write_trace(plan, cluster, 16, ITERATION_COUNT)
        shadows = Shadows(bench, read_attributes(spmd), 16, experts)
        rows = {}
        for counts in trace.values():
            paper, layer_seconds = shadows.get_all_seconds(counts)
            for policy, title in enumerate(("algorithm1", "prefix", "simulate")):
                chosen = int(sum(int(bit) << e for e, bit in enumerate(shadows.choose(policy, counts))))
                rows.setdefault(title, []).append((paper[chosen] / paper.min() - 1, layer_seconds[chosen], layer_seconds[chosen] / layer_seconds.min() - 1,
                                                   bin(chosen).count("1") / experts))
            rows.setdefault("none", []).append((paper[0] / paper.min() - 1, layer_seconds[0], layer_seconds[0] / layer_seconds.min() - 1, 0))
            best = int(layer_seconds.argmin())
            rows.setdefault("best of all sets", []).append((paper[best] / paper.min() - 1, layer_seconds[best], 0, bin(best).count("1") / experts))
        print(f"\nDecisions, {name} on {cluster}: {len(trace)} iterations, 16 ranks, 16 experts; an expert's broadcast "
              f"{1e3 * shadows.costs.expert:.2f} ms, a row's computation {1e6 * shadows.costs.row_compute:.2f} us\n")
        print(f"{'policy':<18}{'mean step ms':>13}{'shadows':>9}{'regret':>9}{'worst':>9}{'regret by Eq. 7, 8':>20}{'worst':>9}")
        for title, values in rows.items():
            paper, seconds, regret, share = np.array(values).T
            results[f"decisions.{name}.{title}"] = {"mean_s": seconds.mean(), "share": share.mean(), "regret": regret.mean(), "paper_regret": paper.mean()}
            print(f"{title:<18}{1e3 * seconds.mean():>13.2f}{share.mean():>9.1%}{regret.mean():>9.2%}{regret.max():>9.1%}{paper.mean():>20.2%}{paper.max():>9.1%}")
        mean = {title: results[f"decisions.{name}.{title}"] for title in rows}
        ok &= simulate_decisions(bench, name, results)
        ok &= report(mean["simulate"]["regret"] <= 0.002, f"simulate is within 0.2% of the best set in the mean: {mean['simulate']['regret']:.4%}")
        ok &= report(mean["simulate"]["mean_s"] <= min(mean["prefix"]["mean_s"], mean["algorithm1"]["mean_s"]) * (1 + 1e-9),
                     "simulate's steps are no longer than those of Algorithm 1 and of the prefix search")
        ok &= report(mean["prefix"]["paper_regret"] <= mean["algorithm1"]["paper_regret"] + 1e-12, "by Eq. 7 and 8 the prefix search is no worse than Algorithm 1")
    return ok


# ---------------------------------------------------------------------------------------------------------------- models


def group_of(cluster):
    """Ranks of a group of the smart schedule: half of a node on johnny, a node on trevor."""
    return {"fastermoe-johnny": 4, "fastermoe-trevor": 4}[cluster]


def compile_all(bench, layer, ranks, cluster):
    """Plans by title."""
    return {title: bench.compile(layer, ranks, schedule.format(group=group_of(cluster)), cluster, bench.path(f"{title}.mlir"), "--emit=plan",
                                 f"--order={order}") for title, (schedule, order) in SCHEDULES.items()}


def simulate(bench, plan, cluster, trace, iteration, network="link-level"):
    return json.loads(bench.tool("moe-sim", plan, f"--cluster={cluster}", f"--network={network}", f"--routing={trace}", f"--iteration={iteration}", "--json"))


def get_bound(sim):
    """Fig. 12: upper bound of the gain from overlap, (comm + comp) / max(comm, comp), of the slowest rank."""
    busiest = max(sim["ranks"], key=lambda rank: rank["compute_s"])
    compute, communication = busiest["compute_s"], sim["mean"]["communication_s"]
    return (compute + communication) / max(compute, communication)


def measure_models(bench, results):
    ok, most = True, {}
    print(f"\nModels: MoE layers of an iteration, forward and backward, mean of {len(ITERATIONS)} iterations up to {ITERATIONS[-1]}, seconds; "
          "speed-ups over the baseline, mean (most)\n")
    print(f"{'model':<17}{'baseline':>9}" + "".join(f"{title:>16}" for title in list(SCHEDULES)[1:]) + "  of bound")
    for name, (layers, experts, hidden, alpha, cluster) in MODELS.items():
        ranks = experts
        layer = bench.write_layer(hidden, alpha, ranks, experts)
        plans = compile_all(bench, layer, ranks, cluster)
        seconds, bounds = {title: [] for title in plans}, []
        # Layers have different routing: one layer for each iteration, and as many seeds as iterations.
        for seed, iteration in enumerate(ITERATIONS):
            path, _ = bench.write_trace(plans["baseline"], cluster, ranks, ITERATION_COUNT, seed)
            for title, plan in plans.items():
                sim = simulate(bench, plan, cluster, path, iteration)
                seconds[title].append(sim["step_s"])
                if title == "baseline":
                    bounds.append(get_bound(sim))
        ups = {title: np.array(seconds["baseline"]) / np.array(values) for title, values in seconds.items()}
        reached = (ups["smart"] - 1) / (np.array(bounds) - 1)
        whole = {title: layers * float(np.mean(values)) for title, values in seconds.items()}
        means = {title: whole["baseline"] / whole[title] for title in whole}
        results[f"models.{name}"] = {"seconds": whole, "means": means, "speedups": {t: list(u) for t, u in ups.items()}, "bound": bounds, "reached": list(reached)}
        print(f"{name:<17}{whole['baseline']:>9.3f}" + "".join(f"{means[t]:>8.2f} ({ups[t].max():5.2f})" for t in list(SCHEDULES)[1:])
              + f"  {reached.mean():.0%} ({reached.max():.0%})")
        for title in ("shadow", "searched", "smart", "both"):
            key = cluster, title
            most[key] = max(most.get(key, 0), means[title])
        ok &= report(means["shadow"] >= 1 and means["both"] >= 1, f"{name}: shadows and both gain in the mean")
    print("\nMost over the models of a cluster, mean over iterations, beside Fig. 13:\n")
    for (cluster, title), value in most.items():
        print(f"{cluster:<18}{title:<10}{value:>7.2f}" + (f"   paper {PAPER[cluster][title]:.2f}" if title in PAPER[cluster] else ""))
        results[f"most.{cluster}.{title}"] = value
    gpt = results["models.MoE-GPT"]["seconds"]
    print("\nMoE-GPT on johnny, ms an iteration, beside Table 3 (which has the whole model):\n")
    for title, paper in TABLE3.items():
        faster = f"{gpt['baseline'] / gpt[title]:.2f} faster, paper {TABLE3['baseline'] / paper:.2f}" if title != "baseline" else ""
        print(f"{title:<12}{1e3 * gpt[title]:>9.0f}   paper {paper}   {faster}".rstrip())
    return ok


def draw_models(results, path):
    svg = Svg(900, 330)
    titles = list(SCHEDULES)[1:]
    top = max(results[f"models.{name}"]["means"][t] for name in MODELS for t in titles)
    axes = Axes(svg, 60, 40, 810, 220, list(range(0, int(math.ceil(top)) + 1)))
    for i, name in enumerate(MODELS):
        left = 70 + i * 115
        for j, title in enumerate(titles):
            mean = results[f"models.{name}"]["means"][title]
            y = axes.y(mean)
            svg.rect(left + 16 * j, y, 14, axes.y(0) - y, COLORS[j], f"{name}, {title}: {mean:.2f}")
        svg.text(left + 48, axes.y(0) + 16, name.replace("MoE-", ""))
    for j, title in enumerate(titles):
        svg.rect(70 + 120 * j, 14, 10, 10, COLORS[j])
        svg.text(84 + 120 * j, 23, title, "start")
    svg.line([(60, axes.y(1)), (870, axes.y(1))], "#555", stroke_dasharray="4 3")
    svg.text(465, 310, "MoE layers on the paper's clusters, simulated: speed-up over the baseline, of all iterations together")
    svg.upright(22, 150, "speed-up")
    svg.write(path)


# ---------------------------------------------------------------------------------------------------------------- orders


def measure_orders(bench, results):
    """Orders are searched with other routing than they meet here, as before a plan's first step."""
    ok = True
    print(f"\nOrders: steps in ms, mean of {len(ITERATIONS)} iterations, of plans in the searched order and in the papers'\n")
    for name in ("MoE-GPT", "MoE-BERT-Wide"):
        _, experts, hidden, alpha, cluster = MODELS[name]
        layer = bench.write_layer(hidden, alpha, experts, experts)
        plain = bench.compile(layer, experts, "baseline", cluster, bench.path("plain.mlir"), "--emit=plan")
        for schedule in ("smart:4", "smart:2", "shadow:12+smart:4", "shadow:12+chunks:2"):
            steps = {}
            for order in ("search", "fastermoe", "mpipemoe", "program"):
                plan = bench.compile(layer, experts, schedule, cluster, bench.path("order.mlir"), f"--order={order}", "--emit=plan")
                steps[order] = np.mean([simulate(bench, plan, cluster, bench.write_trace(plain, cluster, experts, ITERATION_COUNT, seed)[0], iteration)["step_s"]
                                        for seed, iteration in enumerate(ITERATIONS)])
            results[f"orders.{name}.{schedule}"] = steps
            print(f"{name:<15}{schedule:<22}" + "  ".join(f"{order} {1e3 * seconds:.1f}" for order, seconds in steps.items()))
            ratio = steps["search"] / min(steps["fastermoe"], steps["mpipemoe"])
            ok &= report(ratio <= 1.02, f"{name} {schedule}: searched {ratio:.3f} of the better of the papers' orders")
    return ok


# ------------------------------------------------------------------------------------------------------------------- why


def measure_why(bench, results):
    """Shows how the speed-ups depend on uneven routing."""
    print("\nWhy: speed-ups over the baseline by the skew of the routing (standard deviation of log p), mean of 5 layers, iteration 400\n")
    print(f"{'model':<15}{'skew':>6}{'load max/mean':>15}" + "".join(f"{title:>11}" for title in list(SCHEDULES)[1:]))
    for name in ("MoE-GPT", "MoE-BERT-Wide"):
        _, experts, hidden, alpha, cluster = MODELS[name]
        layer = bench.write_layer(hidden, alpha, experts, experts)
        plans = compile_all(bench, layer, experts, cluster)
        for skew in (0, 0.5, 1.0, 1.5, 2.0, 2.7):
            loads, seconds = [], {title: 0.0 for title in plans}
            for seed in range(5):
                path = bench.path(f"skew-{experts}-{skew}-{seed}.jsonl")
                bench.tool("moe-sim", plans["baseline"], f"--cluster={cluster}", f"--synthetic-routing=seed={seed},first=400,iterations=1,skew={skew}",
                           f"--write-routing={path}", "--json")
                with open(path) as file:
                    load = np.array(json.loads(file.readline())["counts"]).sum(0)
                loads.append(load.max() / load.mean())
                for title, plan in plans.items():
                    seconds[title] += simulate(bench, plan, cluster, path, 400)["step_s"]
            ups = {title: seconds["baseline"] / its for title, its in seconds.items()}
            results[f"why.{name}.{skew}"] = {"load": np.mean(loads), **ups}
            print(f"{name:<15}{skew:>6}{np.mean(loads):>15.2f}" + "".join(f"{ups[title]:>11.2f}" for title in list(SCHEDULES)[1:]))
    return True


# ------------------------------------------------------------------------------------------------------------------ host


def get_loads(counts, shadows):
    """Rows that each rank computes, with one expert on each rank."""
    matrix = counts.astype(float)
    kept = [e for e in range(len(matrix)) if e not in shadows]
    return np.array([matrix[:, w].sum() * (w in kept) + sum(matrix[w, e] for e in shadows) for w in range(len(matrix))])


def measure_host(bench, results, cluster):
    """One expert of 8 has 60% of the choices of every rank."""
    ranks, tokens, hidden = 8, 2048, (256, 512)
    layer = write(bench.path("host.mlir"), dropless(hidden, ranks * tokens, ranks, top_k=1))
    popular = int(0.6 * tokens)
    rest = [(tokens - popular) // (ranks - 1)] * (ranks - 1)
    rest[-1] += tokens - popular - sum(rest)
    counts = [[popular, *rest] for _ in range(ranks)]
    trace = write(bench.path("skewed.jsonl"), json.dumps({"iteration": 0, "layer": 0, "counts": counts}) + "\n")
    runs = {}
    for title, schedule in (("baseline", "baseline"), ("shadow", "shadow:1"), ("smart", "smart:2"), ("both", "shadow:1+smart:2")):
        plan = bench.compile(layer, ranks, schedule, cluster, bench.path("host.so"))
        runs[title] = json.loads(bench.tool("moe-run", plan, f"--routing={trace}", "--iters=7", "--verify", "--json"))
    expert_bytes = 2 * hidden[0] * hidden[1] * 4
    print(f"\nHost: 8 ranks with {tokens} tokens, M {hidden[0]}, H {hidden[1]}, top-1, one expert with 60% of the choices; steps in ms, MB received\n")
    print(f"{'schedule':<10}{'step':>9}{'all_to_all_v':>14}{'broadcast':>11}{'reduce':>9}{'load max/mean':>15}{'slowest GFLOP':>15}")
    ok, bytes_of, slowest = True, {}, {}
    for title, got in runs.items():
        received = {c["collective"]: c["bytes_received"] for c in got["collectives"]}
        broadcast = received.get("broadcast_experts", 0)
        count = round(broadcast / (expert_bytes * (ranks - 1)))
        loads = get_loads(np.array(counts), [0][:count])
        bytes_of[title], slowest[title] = received, max(got["rank_flops"])
        results[f"host.{title}"] = {"step_ms": got["step_ms"]["median"], "bytes": received, "load": loads.max() / loads.mean(), "flops": slowest[title]}
        print(f"{title:<10}{got['step_ms']['median']:>9.1f}{received['all_to_all_v'] / 1e6:>14.2f}{broadcast / 1e6:>11.2f}"
              f"{received.get('reduce_experts', 0) / 1e6:>9.2f}{loads.max() / loads.mean():>15.2f}{slowest[title] / 1e9:>15.3f}")
        ok &= report(got["verify"]["ok"], f"{title}: verified")
        ok &= report(count == (1 if "shadow" in got["schedule"] else 0), f"{title}: {count} shadows")
    before, after = get_loads(np.array(counts), []), get_loads(np.array(counts), [0])
    # Three passes of two products. All other work of the slowest rank is the same before and after, except the sum of gradients.
    row = 3 * 2 * 2 * hidden[0] * hidden[1]
    predicted = row * (before.max() - after.max())
    gained = slowest["baseline"] - slowest["shadow"]
    ok &= report(abs(gained / predicted - 1) <= 0.01, f"the slowest rank computes {gained / 1e9:.4f} GFLOP less, predicted {predicted / 1e9:.4f} ({gained / predicted - 1:+.2%})")
    off = np.array(counts)
    left = 4 * hidden[0] * 4 * (off[:, 1:].sum() - np.trace(off[1:, 1:]))
    ok &= report(bytes_of["shadow"]["all_to_all_v"] == left, f"exchanged bytes are those of the other experts: {left / 1e6:.2f} MB")
    ok &= report(bytes_of["shadow"].get("broadcast_experts", 0) == bytes_of["shadow"].get("reduce_experts", 0) == expert_bytes * (ranks - 1),
                 "one expert's weights go to 7 ranks, and as many gradients come back")
    ok &= report(bytes_of["smart"]["all_to_all_v"] == bytes_of["baseline"]["all_to_all_v"], "the smart schedule moves the same bytes")
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--svg", help="write PREFIX-models.svg")
    parser.add_argument("--json", help="write all figures")
    parser.add_argument("--parts", default="decisions,models,orders,why,host")
    parser.add_argument("--cluster", default="localhost", help="this machine's profile, for the host's decisions")
    options = parser.parse_args()
    parts, results, ok = options.parts.split(","), {}, True
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.bin, folder)
        if "decisions" in parts:
            ok &= measure_decisions(bench, results)
        if "models" in parts:
            ok &= measure_models(bench, results)
            if options.svg:
                draw_models(results, options.svg + "-models.svg")
        if "orders" in parts:
            ok &= measure_orders(bench, results)
        if "why" in parts:
            ok &= measure_why(bench, results)
        if "host" in parts:
            ok &= measure_host(bench, results, options.cluster)
    if options.json:
        write(options.json, json.dumps(results, indent=1, default=float))
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
