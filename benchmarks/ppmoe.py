#!/usr/bin/env python3
"""PPMoE's evaluation (arXiv 2304.11414): its tables simulated on its clusters, whole training steps of whole models.

Usage: ppmoe.py --bin DIR [--svg=FILE] [--json=FILE] [--parts=table2,open,parts].

  table2  throughput of the 13 settings of Table 2, and their ratios: PPMoE over DPMoE, and each MoE model over its slowest dense
          model, beside the paper's
  open    choices that the paper leaves open: sequences of a micro-batch, micro-batches of a pipeline; and the cost of the start-ups of
          exchanges. A plan has one exchange for each parameter
  parts   the parts of a forward step, beside Tables 1 and 3

The paper trains with micro-batches as large as memory allows, but does not give their size. Each setting is simulated in these ways:

  plan       the most sequences (a power of two) whose plan fits the device. Neighbouring stages of a pipeline hand over whole
             tensors, from eight devices of a node at once
  sequence   plan with sequence parallelism, so that each device of tp hands over a part
  megatron   the most sequences whose activations fit as Megatron-LM 2.5 and 2.6 keep them, scores of the attention included. They are
             34 s b h + 5 a s^2 b bytes a block (arXiv 2205.05198, Eq. 1 and 2), and are recomputed if not even one sequence fits. Each
             device of a stage hands over an eighth (scatter_gather_tensors_in_pipeline, on by default). Kernels take the same time
  ring a2a   megatron with the all-to-all that the paper describes (section 4.3): a ring, linear in the number of its members
  one ring   plan with one ring for all_reduce, at the rates of the links, instead of the measurement in the profile
  uncut      plan; in DPMoE with tensor parallelism, experts are whole, on as many ranks

bf16 stands for the paper's f16. A sequence has 2048 tokens. A pipeline has four micro-batches for each stage, other settings have one.
DPMoE's experts are on data-parallel ranks, and divided over the tensor-parallel ranks except in uncut. The exit status is 1 if a claim
fails. Claims are about properties that must hold. Differences from the paper's figures are only printed.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from typing import NamedTuple

from layers import CLUSTERS, COLORS, Axes, Svg, load_profile, remove_start_ups, report, write_profile

LENGTH, EXPERTS, NODE = 2048, 64, 8
MODELS = {"small": "gpt3-medium-moe", "large": "gpt3-6.7b-moe"}
VARIANTS = ("plan", "sequence", "megatron", "ring a2a", "one ring", "uncut")


class Row(NamedTuple):
    """A setting of Table 2."""

    size: str
    kind: str
    dp: int
    tp: int
    pp: int
    zero: bool
    paper: float

    @property
    def ranks(self):
        return self.dp * self.tp * self.pp

    @property
    def title(self):
        name = {"small": ("0.3B", "6.7B"), "large": ("6.7B", "143B")}[self.size][self.kind != "Dense"]
        return f"{name} {self.kind} {self.dp}/{self.tp}/{self.pp}"


ROWS = [Row("small", "Dense", 1, 8, 4, False, 3244), Row("small", "Dense", 4, 8, 1, True, 4174), Row("small", "Dense", 32, 1, 1, True, 5120),
        Row("small", "DPMoE", 32, 1, 1, True, 2147), Row("small", "DPMoE", 4, 8, 1, True, 218), Row("small", "PPMoE", 1, 8, 4, False, 2708),
        Row("large", "Dense", 1, 8, 16, False, 356), Row("large", "Dense", 16, 8, 1, True, 597), Row("large", "Dense", 128, 1, 1, True, 410),
        Row("large", "DPMoE", 256, 1, 1, True, 93), Row("large", "DPMoE", 128, 2, 1, True, 183), Row("large", "DPMoE", 32, 8, 1, True, 63),
        Row("large", "PPMoE", 1, 8, 16, False, 323)]
# Tables 1 and 3: shares of a forward step.
TABLE1 = {"MoE": .826, "1st all-to-all": .337, "2nd all-to-all": .318, "gate": .021, "other": .174}
TABLE3 = {"MoE": .382, "gate": .078, "experts": .070, "MoE all-reduce": .207, "FFN": .274, "FFN all-reduce": .188, "other": .344}


def load_model(row):
    return load_profile(os.path.join(CLUSTERS, "..", "models", MODELS[row.size] + ".json"))


def count_flops(row):
    """FLOPs of a token's products, forward and backward. A top-1 MoE model has as many as its dense model."""
    model = load_model(row)
    width, layers = model["n_embd"], model["n_layer"]
    return 3 * (2 * (12 * layers * width**2 + width * model["vocab_size"]) + 4 * layers * LENGTH * width)


def count_activations(row, recompute):
    """Bytes that Megatron-LM keeps for a sequence on a device of the first stage, which has `pp` micro-batches under way."""
    model = load_model(row)
    width, layers = model["n_embd"], model["n_layer"] // row.pp
    block = LENGTH * width * (10 + 24 / row.tp + 5 * model["n_head"] * LENGTH / width / row.tp)
    return row.pp * layers * 2 * LENGTH * width + block if recompute else row.pp * layers * block


def place_experts(row, variant):
    """ep and esp."""
    if row.kind == "Dense":
        return 1, 1
    if row.kind == "PPMoE":
        return row.tp, 1
    return (min(EXPERTS, row.dp * row.tp), 1) if variant == "uncut" else (min(EXPERTS, row.dp), row.tp)


def get_schedule(row):
    """Schedule of the row's layers, as an argument of --schedule."""
    return "ppmoe" if row.kind == "PPMoE" else "baseline"


class Bench:
    def __init__(self, bin_folder, folder):
        self.bin, self.folder, self.steps = bin_folder, folder, {}

    def write_model(self, row):
        """Writes a model. In a dense one no block is MoE."""
        model = load_model(row)
        if row.kind == "Dense":
            model["moe_every"] = model["n_layer"] + 1
        return write_profile(model, os.path.join(self.folder, f"{row.size}-{row.kind}.json"))

    def write_cluster(self, row, variant):
        profile = load_profile("ppmoe-v100-32" if row.ranks <= 32 else "ppmoe-v100-128")
        profile["nodes"] = max(profile["nodes"], row.ranks // NODE)
        wire = next(link["bytes_per_s"] for link in profile["links"] if link["to"] == "network")
        fit = lambda name, members, per_node, alpha, beta: profile["collectives"].append({
            "collective": name, "members": members, "per_node": per_node, "alpha_s": alpha, "beta_s_per_byte": beta, "source": "the links"})
        if variant == "one ring":
            profile["collectives"] = []
        if variant == "no start-ups":
            remove_start_ups(profile)
        if row.pp > 1 and variant in ("megatron", "ring a2a"):
            # Stages are whole nodes: eight devices send at once, each an eighth.
            fit("broadcast", 2, 1, 15.3e-6, 1 / wire)
        if variant == "ring a2a" and row.kind == "DPMoE":
            # In the ring, a block goes from member to member to its destination: (n - 1) / 2 times the payload on each link. The nodes'
            # links carry it once for each member of tp.
            members = place_experts(row, variant)[0]
            fit("all_to_all", members, min(members, NODE // row.tp), 9.6e-6 * (members - 1), (members - 1) / 2 * row.tp / wire)
        return write_profile(profile, os.path.join(self.folder, f"{'-'.join(map(str, row[:5]))}-{variant.replace(' ', '')}.json"))

    def simulate(self, row, batch, count, *flags, variant="plan", mode="train", schedule=""):
        """Report of a step with `count` micro-batches of `batch` sequences, its throughput, and whether its plan fits. The default is
        the row's own schedule."""
        key = row, batch, count, flags, variant, mode, schedule
        if key not in self.steps:
            ep, esp = place_experts(row, variant)
            layers = [f"--schedule={schedule or get_schedule(row)}", *(["--dropless"] if row.kind == "PPMoE" else [])]
            step = ["--optimizer=adam", f"--micro-batches={count}", *(["--zero"] if row.zero else [])] if mode == "train" else []
            command = [os.path.join(self.bin, "moe-sim"), self.write_model(row), "--whole-model", f"--mode={mode}", f"--seq={LENGTH}",
                       f"--batch={batch}", "--dtype=bf16", f"--parallel=pp={row.pp},dp={row.dp},mp={row.tp},ep={ep},esp={esp}",
                       f"--cluster={self.write_cluster(row, variant)}", "--reference=0", "--json", *layers, *step, *flags]
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if result.returncode != 0:
                sys.exit(f"error: {' '.join(command)}: {result.stderr.strip()}")
            got = json.loads(result.stdout)
            ops = got.pop("ops")
            if mode == "forward":
                got["ops"] = ops
            got["fits"] = "the plan needs" not in result.stderr
            got["throughput"] = batch * count * row.dp * LENGTH / row.ranks / got["step_s"]
            self.steps[key] = got
        return self.steps[key]

    def choose_batch(self, row, *always):
        """The largest number of sequences whose plan fits, and its flags, including `always`. It tries few micro-batches first to save
        time: more of them need hardly more memory."""
        count = count_micro_batches(row)
        for flags in (always, (*always, "--recompute")):
            batch = 1
            while self.simulate(row, 2 * batch, row.pp, *flags)["fits"]:
                batch *= 2
            while batch and not self.simulate(row, batch, count, *flags)["fits"]:
                batch //= 2
            if batch:
                return batch, flags
        return 1, (*always, "--recompute")

    def choose_megatron_batch(self, row):
        """The largest number of sequences that fits with Megatron's activations. Memory that does not depend on them is taken from our
        plans."""
        one, two = (self.simulate(row, batch, row.pp)["memory"] for batch in (1, 2))
        room = one["device_bytes"] - (2 * one["peak_bytes"] - two["peak_bytes"])
        for recompute in (False, True):
            batch = int(room / count_activations(row, recompute))
            if batch >= 1 or recompute:
                return 2 ** (max(1, batch).bit_length() - 1), ("--recompute",) if recompute else ()

    def measure(self, row, variant):
        """Batch, flags and report of a setting under a variant. None if the variant changes nothing."""
        applies = {"uncut": row.kind == "DPMoE" and row.tp > 1, "ring a2a": row.kind == "DPMoE", "one ring": row.tp == NODE,
                   "sequence": row.tp > 1}
        if not applies.get(variant, True):
            return None
        if variant in ("megatron", "ring a2a"):
            batch, flags = self.choose_megatron_batch(row)
        else:
            batch, flags = self.choose_batch(row, *(["--sequence-parallel"] if variant == "sequence" else []))
        return batch, flags, self.simulate(row, batch, count_micro_batches(row), *flags, variant=variant)


def count_micro_batches(row):
    return 4 * row.pp if row.pp > 1 else 1


# ---------------------------------------------------------------------------------------------------------------- table 2


def get_gain(size, throughput):
    """Speed-up of PPMoE over the fastest DPMoE."""
    best = lambda kind: max(throughput[row] for row in ROWS if (row.size, row.kind) == (size, kind))
    return best("PPMoE") / best("DPMoE")


def get_speed_ratio(row, throughput):
    """Speed-up over the slowest dense setting of the same size."""
    return throughput[row] / min(throughput[other] for other in ROWS if (other.size, other.kind) == (row.size, "Dense"))


def find_dense(row):
    """Dense setting of the same DP, TP and PP, if the paper has one."""
    return next((other for other in ROWS if other.kind == "Dense" and (other.size, other[2:5]) == (row.size, row[2:5])), None)


def print_ratios(columns):
    print(f"\nRatios\n\n{'':<37}{'paper':>9}" + "".join(f"{title:>10}" for title in columns if title != "paper"))
    line = lambda title, get: print(f"{title:<37}" + "".join(f"{get(throughput):>{9 if name == 'paper' else 10}.2f}" for name, throughput in columns.items()))
    for size in MODELS:
        line(f"PPMoE over the best DPMoE, {size}", lambda throughput: get_gain(size, throughput))
    moe = [row for row in ROWS if row.kind != "Dense"]
    for row in moe:
        line(f"{row.title} over slowest dense", lambda throughput: get_speed_ratio(row, throughput))
    for row in filter(find_dense, moe):
        line(f"{row.title} over the same dense", lambda throughput: throughput[row] / throughput[find_dense(row)])


def measure_table2(bench, results):
    got = {row: {variant: bench.measure(row, variant) for variant in VARIANTS} for row in ROWS}
    # A variant that changes nothing has the results of its base.
    base = {"sequence": "plan", "ring a2a": "megatron", "one ring": "plan", "uncut": "plan"}
    find = lambda row, variant: got[row][variant] or got[row][base[variant]]
    columns = {"paper": {row: row.paper for row in ROWS}}
    columns |= {variant: {row: find(row, variant)[2]["throughput"] for row in ROWS} for variant in VARIANTS}
    print_ratios(columns)
    print(f"\nTokens a second and GPU (times the paper's); sequences of a micro-batch, r where recomputed; DP/TP/PP\n\n{'':<20}{'paper':>6}"
          + "".join(f"{title:>15}" for title in VARIANTS) + f"{'b: plan, megatron':>20}{'TFLOP/s: paper, plan, megatron':>33}")
    for row in ROWS:
        cell = lambda variant: f"{columns[variant][row]:.0f} ({columns[variant][row] / row.paper:.2f})" if got[row][variant] else "-"
        batches = ", ".join(f"{got[row][v][0]}{'r' if '--recompute' in got[row][v][1] else ''}" for v in ("plan", "megatron"))
        rates = ", ".join(f"{columns[name][row] * count_flops(row) / 1e12:.1f}" for name in ("paper", "plan", "megatron"))
        print(f"{row.title:<20}{row.paper:>6}" + "".join(f"{cell(variant):>15}" for variant in VARIANTS) + f"{batches:>20}{rates:>33}")
    print_parts_of_steps(got)
    results["table2"] = {row.title: {"paper": row.paper, **{v: columns[v][row] for v in VARIANTS}} for row in ROWS}
    return check_table2(got, columns)


def print_parts_of_steps(got):
    print("\nSeconds of the critical path (megatron): products, other computation, exchanges of rows, of tp, of dp, of stages\n")
    for row in ROWS:
        step, parts = got[row]["megatron"][2], defaultdict(float)
        for kernel in step["kernels"]:
            parts[classify(kernel)] += kernel["critical_s"]
        print(f"{row.title:<20}{step['step_s']:>7.2f} s: " + ", ".join(f"{part} {parts[part] / step['step_s']:.0%}" for part in
              ("products", "other", "rows", "tp", "dp", "stages")))


def classify(kernel):
    """Purpose of a kernel in a report."""
    name = kernel["kernel"]
    if kernel["resource"] != "network":
        return "products" if kernel["resource"] == "matrix" else "other"
    if "[pp]" in name:
        return "stages"
    if "all_to_all" in name:
        return "rows"
    return "tp" if "[mp]" in name or "[esp]" in name else "dp"


def check_table2(got, columns):
    ok = True
    ok &= report(get_gain("large", columns["plan"]) > 1, "plan: PPMoE beats DPMoE in the large setting")
    for variant in ("plan", "megatron"):
        for size in MODELS:
            slowest = min((row for row in ROWS if (row.size, row.kind) == (size, "DPMoE")), key=columns[variant].get)
            ok &= report(slowest.tp == NODE, f"{variant}, {size}: DPMoE is slowest with TP {NODE}, where each exchange is made {NODE} times")
    for row in ROWS:
        kernels = {kernel["kernel"] for kernel in got[row]["plan"][2]["kernels"]}
        if row.kind == "PPMoE":
            ok &= report(not any("all_to_all" in kernel for kernel in kernels), f"{row.title} has no all-to-all")
    return ok


def draw(results, path):
    svg = Svg(1000, 400)
    axes = Axes(svg, 60, 40, 920, 250, [0, 1, 2, 3, 4, 5], "1e{:d}")
    names = ("paper", "plan", "sequence", "megatron", "ring a2a")
    for i, row in enumerate(ROWS):
        left = 66 + i * 70 + (12 if row.size == "large" else 0)
        for j, name in enumerate(names if row.kind == "DPMoE" else names[:4]):
            value = results["table2"][row.title][name]
            y = axes.y(math.log10(value))
            svg.rect(left + 12 * j, y, 10, axes.y(0) - y, COLORS[j], f"{row.title}, {name}: {value:.0f}")
        for k, text in enumerate(row.title.split()):
            svg.text(left + 27, axes.y(0) + 18 + 17 * k, text)
    for j, name in enumerate(names):
        svg.rect(70 + 120 * j, 14, 10, 10, COLORS[j])
        svg.text(84 + 120 * j, 23, name, "start")
    svg.text(520, 370, "PPMoE's Table 2: models, kind and DP/TP/PP, simulated on its clusters")
    svg.upright(18, 165, "tokens a second and GPU")
    svg.write(path)


# ------------------------------------------------------------------------------------------------------------------- open


def get_start_up_gain(bench, row):
    """Speed-up of a step if exchanges over links start at once. Fitted exchanges keep their start-ups."""
    batch, flags = bench.choose_megatron_batch(row)
    slow, fast = (bench.simulate(row, batch, 1, *flags, variant=variant)["step_s"] for variant in ("megatron", "no start-ups"))
    return slow / fast


def measure_open(bench, results):
    rows = [row for row in ROWS if row.size == "small" and (row.tp == 1 or row.kind == "PPMoE")]
    batches = (1, 2, 4, 8, 16)
    print(f"\nOpen: tokens a second and GPU by sequences of a micro-batch (in pipelines scattered as megatron)\n\n{'':<20}{'paper':>6}"
          + "".join(f"{batch:>8}" for batch in batches))
    for row in rows:
        values = [bench.simulate(row, batch, count_micro_batches(row), variant="megatron")["throughput"] for batch in batches]
        results[f"open.batch.{row.title}"] = values
        print(f"{row.title:<20}{row.paper:>6}" + "".join(f"{value:>8.0f}" for value in values))
    row = rows[-1]
    batch, flags = bench.choose_megatron_batch(row)
    counts = [n * row.pp for n in (1, 2, 4, 8)]
    values = [bench.simulate(row, batch, count, *flags, variant="megatron")["throughput"] for count in counts]
    results["open.micro_batches"] = values
    print(f"\n{row.title}, {batch} sequences, by micro-batches: " + ", ".join(f"{count}: {value:.0f}" for count, value in zip(counts, values)))
    print("\nWithout start-ups (megatron): " + ", ".join(f"{row.title} {get_start_up_gain(bench, row):.2f} times as fast" for row in ROWS if row.dp > 1))
    return report(values == sorted(values), "more micro-batches are not slower: they fill the pipeline")


# ------------------------------------------------------------------------------------------------------------------ parts


def get_parts(row, step):
    """Seconds of a forward step by purpose, over all stages, without transfers between stages. Ops of a MoE layer have the label of its
    block."""
    blocks, parts, exchanges = load_model(row)["n_layer"], defaultdict(float), defaultdict(int)
    moe = {f"layer{block}" for block in range(blocks)}
    ffn = {f"layer{block}.ffn" for block in range(0, blocks, 2)}
    for op in step["ops"]:
        kernel, label, seconds = op["kernel"], op["label"], op["end_s"] - op["begin_s"]
        if "[pp]" in kernel:
            continue
        parts["total"] += seconds
        if label in moe:
            parts["MoE"] += seconds
            if "all_to_all" in kernel:
                exchanges[label] += 1
                parts["1st all-to-all" if exchanges[label] % 2 else "2nd all-to-all"] += seconds
            elif "all_reduce [mp]" in kernel:
                parts["MoE all-reduce"] += seconds
            elif kernel in ("grouped_matmul", "bias_add", "activation"):
                parts["experts"] += seconds
            elif kernel not in ("dispatch", "combine", "scale"):
                parts["gate"] += seconds
        elif label in ffn and kernel not in ("norm", "add", "dropout"):
            parts["FFN"] += seconds
            if "all_reduce" in kernel:
                parts["FFN all-reduce"] += seconds
    parts["other"] = parts["total"] - parts["MoE"] - (parts["FFN"] if row.kind == "PPMoE" else 0)
    return parts


def measure_parts(bench, results):
    ok = True
    find = lambda title: next(row for row in ROWS if row.title == title)
    tables = {"Table 1": (find("143B DPMoE 256/1/1"), TABLE1, 7617, "ring a2a"), "Table 3": (find("6.7B PPMoE 1/8/4"), TABLE3, 6257, "one ring")}
    for name, (row, paper, total, slow) in tables.items():
        most, _ = bench.choose_megatron_batch(row)
        cases = [("megatron", most), ("megatron", 1), (slow, 1)]
        columns = [get_parts(row, bench.simulate(row, batch, 1, variant=variant, mode="forward")) for variant, batch in cases]
        print(f"\n{name}: shares of the forward of {row.title}, by variant and sequences\n\n{'':<16}{'paper':>8}"
              + "".join(f"{f'{variant}, {batch}':>14}" for variant, batch in cases))
        for part, share in paper.items():
            print(f"{part:<16}{share:>8.1%}" + "".join(f"{parts[part] / parts['total']:>14.1%}" for parts in columns))
        print(f"{'ms in all':<16}{total:>8}" + "".join(f"{1e3 * parts['total']:>14.0f}" for parts in columns))
        results[name] = [dict(parts) for parts in columns]
        if row.kind == "PPMoE":
            ok &= report(abs(columns[0]["MoE all-reduce"] / columns[0]["FFN all-reduce"] - 1) < 0.01, "MoE layers and feed-forward blocks reduce the same")
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--svg", help="write the bars of Table 2")
    parser.add_argument("--json", help="write all figures")
    parser.add_argument("--parts", default="table2,open,parts")
    options = parser.parse_args()
    parts, results, ok = options.parts.split(","), {}, True
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.bin, folder)
        if "table2" in parts:
            ok &= measure_table2(bench, results)
            if options.svg:
                draw(results, options.svg)
        if "open" in parts:
            ok &= measure_open(bench, results)
        if "parts" in parts:
            ok &= measure_parts(bench, results)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
