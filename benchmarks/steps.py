#!/usr/bin/env python3
"""Predicts training steps that others measured, and says how far the predictions are from the measurements.

Usage: steps.py --bin DIR [--only TEXT,..] [--jobs N] [--again] [--whole]
                               predicts, and keeps the figures in steps_figures.json
       steps.py                prints the errors of the kept figures
       steps.py --calibrate    also writes them to share/frameworks/megatron.json
       steps.py --pages        also writes docs/Validation.md, its picture, and the sentence in README.md

steps.json has the measured steps: the configuration, the time, and the repository and file that it is from. A step is predicted by moe-sim with
--framework=megatron and --from-samples. With --whole it is also compiled and simulated as a whole, which takes minutes for some steps. The error of
a step is predicted / measured - 1.

A prediction is calibrated by class: how many times as long as predicted the measured steps of this class took. A class needs ten steps of two
sources. If it has fewer, it is joined with others: graphs first, then routing, nodes, tokens and device. A source is a repository. That of AWS,
which has all steps on EFA, is divided by model. The calibration is tested on each source with the steps of the other sources alone. Steps in
narrow types, such as MXFP8, are apart: they are in no figure of the others, and have classes of their own.
"""
import argparse
import concurrent.futures
import json
import math
import os
import re
import statistics
import subprocess
import sys

from pages import FOLDER, ROOT, load, make_table, save, write, write_pages
from run_all import get_commit

PAGES = {"README.md": ["accuracy"], "docs/Validation.md": ["summary", "errors", "narrow", "narrow-rows", "pairs", "settings", "worst", "memory", "rows", "left-out"]}
PICTURE = os.path.join(ROOT, "docs", "images", "measured-steps.svg")
FIGURES = os.path.join(FOLDER, "steps_figures.json")
DESCRIPTION = os.path.join(ROOT, "share", "frameworks", "megatron.json")
MODELS = {"qwen3-235b-a22b": "qwen3-235b-a22b", "qwen3-30b-a3b": "qwen3-30b-a3b", "gpt-oss-120b": "gpt-oss-120b", "gpt-oss-20b": "gpt-oss-20b",
          "kimi-k2": "kimi-k2", "deepseek-v3": "deepseek-v3", "moonlight-16b-a3b": "moonlight-16b-a3b", "llama-4-maverick": "llama-4-maverick",
          "deepseek-v2-lite": "deepseek-v2-lite", "deepseek-v2 236b": "deepseek-v2"}
CLUSTERS = {"H100": "hgx-h100", "H100 (p5)": "aws-p5", "B200": "hgx-b200", "B200 (p6)": "aws-p6-b200", "B300": "hgx-b300", "B300 (p6)": "aws-p6-b300",
            "GB200": "gb200-nvl72", "GB300": "gb300-nvl72", "H800": "h800"}
MEGATRON = ("NVIDIA/Megatron-LM", "NVIDIA-NeMo/Megatron-Bridge", "yanring/Megatron-MoE-ModelZoo", "awslabs/awsome-distributed-ai", "InternLM/xtuner",
            "NVIDIA/dgxc-benchmarking", "mlcommons", "alibaba/Pai-Megatron-Patch")
# Names of precisions in the sources, and in the description of the framework.
PRECISIONS = {"bf16": "bf16", "mxfp8": "mxfp8", "nvfp4": "nvfp4", "fp8-current-scaling": "fp8-tensor", "fp8-blockwise": "fp8-block"}
# Keys that another row tells, by the ids of rows: the peaks of the memory are equal, to 4 MB.
SAME_RECIPE = {"bridge-overlap-30b-": {"grad_reduce_dtype": "bf16"}}  # card-qwen3-30b-a3b-H100-bf16
# Steps that contradict themselves, by their ids.
LEFT_OUT = {"bridge-26.06.01-GPT_OSS_120B-": "60% above the same step of the releases before and after",
            "mlm-recipe-qwen3_235b__h100__bf16_256GPU_TP2PP8EP32-readme": "214 TFLOP/s in an early container, 302 in a later one",
            **dict.fromkeys(("bridge-cg-30b-eager", "bridge-cg-30b-graph"), "its TFLOP/s and its time are those of 23 sequences, and it says 8")}
NEEDED = ("n_gpus", "seq", "mbs", "gbs", "tp", "pp", "ep", "step_ms")
DEVICES_PER_NODE = 8
TOKEN_BINS = (1000, 2500, 5000)
# How many steps and sources a class needs, and the keys that are dropped for it, in this order.
LEAST_ROWS, LEAST_SOURCES = 10, 2
CLASS_KEYS = ("device", "tokens", "nodes", "routing", "graph")


# --------------------------------------------------------------------------------------------------------------------------- rows


def get_model(row):
    """The model's name in share/models, or None."""
    name = row["model"].lower()
    return next((ours for theirs, ours in MODELS.items() if name.startswith(theirs)), None)


def get_source(row):
    parts = row["source"].split()
    if parts[0].startswith("awslabs"):
        return parts[0] + " " + get_model(row)
    return parts[0]


def load_data():
    """steps.json, with the keys of rows that another row tells."""
    data = load(os.path.join(FOLDER, "steps.json"))
    data["rows"] = [row | next((keys for start, keys in SAME_RECIPE.items() if row["id"].startswith(start)), {}) for row in data["rows"]]
    return data


def why_not(row):
    """Why a row is not predicted; empty if it is."""
    if not row["source"].startswith(MEGATRON):
        return "another framework than Megatron"
    for key in NEEDED:
        if not row.get(key):
            return f"the source does not say {key}"
    if row["precision"] not in PRECISIONS:
        return f"the description of Megatron-LM has no precision '{row['precision'].split(' (')[0]}'"
    if not get_model(row) or "MTP)" in row["model"] and "no MTP" not in row["model"]:
        return "the model cannot be imported yet"
    if row.get("num_layers_run") == 96:
        return "96 layers of a model of 94"
    return next((why for start, why in LEFT_OUT.items() if row["id"].startswith(start)), "")


def merge_releases(rows):
    """Leaves out repetitions of a step by earlier releases of the same repository."""
    newest = {}
    for row in rows:
        key = row["id"]
        if release := re.match(r"bridge-(\d\d\.\d\d(?:\.\d+)?)-", row["id"]):
            key = (row["gpu"], *get_plan_options(row), *get_framework_options(row))
            row = {**row, "release": release[1]}
        if key not in newest or row["release"] > newest[key]["release"]:
            newest[key] = row
    kept = {row["id"] for row in newest.values()}
    return [row for row in rows if row["id"] in kept]


def is_narrow(row):
    """Whether products compute in fewer bits than bf16 has."""
    return row["precision"] != "bf16"


def split(rows):
    """Steps in bf16, and those in narrow types, which are a group of their own."""
    return [row for row in rows if not is_narrow(row)], [row for row in rows if is_narrow(row)]


def get_family(row):
    return "hopper" if row["gpu"].startswith("H") else "blackwell"


def get_tokens(row):
    """Tokens of a rank in a micro-batch."""
    return row["mbs"] * row["seq"] // (row["tp"] * (row.get("cp") or 1))


def get_token_bin(tokens):
    return sum(tokens >= limit for limit in TOKEN_BINS)


def is_in_node(row):
    size = 72 if row["gpu"].startswith("GB") else DEVICES_PER_NODE
    return row["ep"] * (row.get("etp") or 1) <= size


def get_class(row):
    """The class of a row, by CLASS_KEYS."""
    return (get_family(row), get_token_bin(get_tokens(row)), "inside" if is_in_node(row) else "over",
            "natural" if is_natural(row) else "forced", "full" if "full" in (row.get("cuda_graph") or "") else "none")


# ---------------------------------------------------------------------------------------------------------------------- predictions


def get_dispatcher(row):
    """As the source says. Without a word, Megatron-Bridge has HybridEP on nodes of 72 devices, as 60 of its 64 other steps there."""
    usual = "hybridep" if "Megatron-Bridge" in row["source"] and row["gpu"].startswith("GB") else "alltoall"
    name = (row.get("dispatcher") or usual).split(" ")[0]
    return {"nccl-alltoall": "alltoall", "deepep-v2-nccl-gin": "deepep-v2"}.get(name, name)


def get_graph(row):
    graph = row.get("cuda_graph") or ""
    for text, scope in (("full", "full_iteration"), ("attn", "attn+moe_router"), ("moe_router", "moe_router")):
        if text in graph:
            return scope
    return ""


def count_blocks(model):
    config = load(os.path.join(ROOT, "share", "models", f"{model}.json"))
    return config.get("text_config", config)["num_hidden_layers"]


def get_stage_blocks(row):
    """Blocks of each stage: as the source says, or else as Megatron divides them. Where the blocks cannot be divided evenly, the embedding and the
    head count as a block each, or the last and the first stages have one less."""
    stages, blocks = row["pp"] * (row.get("vpp") or 1), count_blocks(get_model(row))
    layout = row.get("pp_layout")
    if isinstance(layout, str) and layout.startswith("E"):
        counts = [stage.count("t") for stage in expand_layout(layout).split("|")]
        if len(counts) == stages and sum(counts) == blocks:
            return counts
    if (blocks + 2) % stages == 0 and blocks % stages:
        return [(blocks + 2) // stages - (stage in (0, stages - 1)) for stage in range(stages)]
    most = -(-blocks // stages)
    less = most * stages - blocks
    ends = sorted(range(stages), key=lambda stage: min(stages - 1 - stage, stage + 0.5))[:less]
    return [most - (stage in ends) for stage in range(stages)]


def expand_layout(layout):
    """Megatron's layout with all repetitions written out."""
    while found := re.search(r"\(([^()]*)\)\*(\d+)|([tmEL])\*(\d+)", layout):
        part, times = (found[1], found[2]) if found[2] else (found[3], found[4])
        layout = layout[:found.start()] + part * int(times) + layout[found.end():]
    return layout


def get_plan_options(row):
    """The arguments that the plan depends on."""
    cp, etp, vpp = row.get("cp") or 1, row.get("etp") or 1, row.get("vpp") or 1
    dp = row["n_gpus"] // (row["tp"] * row["pp"] * cp)
    parallel = f"pp={row['pp']},dp={dp},mp={row['tp']},ep={row['ep']},esp={etp}" + (f",cp={cp}" if cp > 1 else "")
    options = [get_model(row), "--whole-model", f"--seq={row['seq']}", "--dtype=bf16", "--optimizer=adam", "--clip-norm=1", "--zero", f"--cluster={CLUSTERS[row['gpu']]}",
               f"--parallel={parallel}", f"--batch={row['mbs']}", f"--micro-batches={row['gbs'] // (dp * row['mbs'])}",
               f"--max-load={1.5 if is_natural(row) else 1}", "--memory-limit=0",
               f"--grad-dtype={'model' if row.get('grad_reduce_dtype') == 'bf16' else 'f32'}"]
    recompute = str(row.get("recompute"))
    if recompute == "full":
        options.append("--recompute=block")
    elif any(module in recompute for module in ("layernorm", "mla_up_proj")):
        options.append("--recompute=selective")
    elif "moe_act" in recompute:
        options.append("--recompute=light")
    schedule = "s1" if row["tp"] > 1 else "baseline"
    if get_dispatcher(row) != "alltoall":
        schedule += "+once:rank" if is_in_node(row) else "+once:node"
    if row["pp"] > 1:
        options.append("--stage-blocks=" + ",".join(map(str, get_stage_blocks(row))))
    options += [f"--schedule={schedule}"] + ["--sequence-parallel"] * (row["tp"] > 1) + [f"--interleave={vpp}"] * (vpp > 1)
    return options + ["--pipeline=1f1b-overlap"] * bool(row.get("overlap_a2a"))


def is_natural(row):
    """Whether the model routes the tokens, and drops none. A capacity makes routing about even."""
    routing = row.get("routing") or ""
    return routing.startswith("natural") and "capacity" not in routing


def get_framework_options(row):
    graph = get_graph(row)
    options = ["--framework=megatron", f"--dispatcher={get_dispatcher(row)}"] + [f"--cuda-graph={graph}"] * bool(graph)
    options += ["--synthetic-routing=preset=aux-loss"] * is_natural(row)
    return options + [f"--precision={PRECISIONS[row['precision']]}"] * is_narrow(row)


def run(command):
    """The output of a command, or None with the error."""
    result = subprocess.run([*command, "--num-threads=1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        found = re.search(r"error: (.*)", result.stderr)
        return None, found[1] if found else f"exit status {result.returncode}"
    return result.stdout, ""


def get_memory(row):
    """GiB that the source measured, and what it counted."""
    for key, counted, times in (("mem_gib", "allocated", 1), ("mem_reserved_gib", "reserved", 1), ("mem_gb", "not said", 1e9 / 2**30)):
        if row.get(key):
            return row[key] * times, counted
    return None


def read_memory(text):
    """GB in moe-sim's answer."""
    found = re.search(r"^memory +([\d.]+) (MB|GB|TB)", text, re.MULTILINE)
    return float(found[1]) * {"MB": 1e-3, "GB": 1, "TB": 1e3}[found[2]]


def predict(options, row):
    """The figures of a row, or its error. `whole_ms` is the same step when all of it is compiled and simulated."""
    command = [os.path.join(options.bin, "moe-sim"), *get_plan_options(row), *get_framework_options(row)]
    text, error = run(command + ["--from-samples", "--json"])
    if error:
        return {"error": error}
    step = json.loads(text)
    figure = {"step_ms": round(step["step_s"] * 1e3, 3), "memory_gb": round(step["peak_bytes"] / 1e9, 3)}
    if options.whole:
        text, error = run(command)
        if error:
            return {"error": error}
        figure |= {"whole_ms": float(re.search(r"^step +([\d.]+) ms", text, re.MULTILINE)[1]), "memory_gb": read_memory(text)}
    return figure


def predict_all(options, rows, figures):
    names = options.only.split(",") if options.only else [""]
    todo = [row for row in rows if any(name in row["id"] for name in names) and (options.again or "step_ms" not in figures.get(row["id"], {}))]
    commit = get_commit()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as executor:
        for row, figure in zip(todo, executor.map(lambda row: predict(options, row), todo)):
            figures[row["id"]] = {**figure, "commit": commit}
            print(f"{row['id']}: {figure.get('error') or '%.0f ms, measured %.0f' % (figure['step_ms'], row['step_ms'])}", flush=True)
            save(FIGURES, figures)


# --------------------------------------------------------------------------------------------------------------------- calibration


def get_ratio(figures, row):
    """Logarithm of measured / predicted."""
    return math.log(row["step_ms"] / figures[row["id"]]["step_ms"])


def get_levels(row):
    """The row's class and the joined ones, from the finest to all rows: tuples with None for joined keys."""
    whole = get_class(row)
    return [whole[:kept] + (None,) * (len(whole) - kept) for kept in range(len(whole), -1, -1)]


def make_interval(ratios):
    """Middle and half width, in logarithms: two thirds of further steps are expected inside."""
    middle = statistics.median(ratios)
    far = sorted(abs(ratio - middle) for ratio in ratios)
    place = min(len(far) - 1, math.ceil(2 / 3 * (len(far) + 1)) - 1)
    tail = min(len(far) - 1, math.ceil(0.9 * (len(far) + 1)) - 1)
    return middle, max(far[place], far[tail] / 2)


def find_interval(figures, rows, row):
    """The interval for a row from `rows`, by the finest class that has enough of them, and that class with its rows."""
    for level in get_levels(row):
        of = [other for other in rows if all(key is None or key == its for key, its in zip(level, get_class(other)))]
        if len(of) >= LEAST_ROWS and len({get_source(other) for other in of}) >= LEAST_SOURCES:
            return *make_interval([get_ratio(figures, other) for other in of]), level, of
    return None


def test_calibration(figures, rows):
    """Shares of rows inside the interval, and inside the doubled one, from the rows of other sources."""
    inside, doubled, count = 0, 0, 0
    for row in rows:
        found = find_interval(figures, [other for other in rows if get_source(other) != get_source(row)], row)
        if not found:
            continue
        middle, half = found[:2]
        distance = abs(get_ratio(figures, row) - middle)
        inside, doubled, count = inside + (distance <= half), doubled + (distance <= 2 * half), count + 1
    return inside / count, doubled / count, count


def describe_class(level):
    """Keys of the description for a class."""
    device, tokens, nodes, routing, graph = level
    limits = (0, *TOKEN_BINS, None)
    entry = {"devices": {"hopper": ["H100", "H200", "H800"], "blackwell": ["B200", "B300", "GB200", "GB300"]}[device]} if device else {}
    if tokens is not None:
        entry["tokens"] = {"min": limits[tokens]} | ({"below": limits[tokens + 1]} if limits[tokens + 1] else {})
    if nodes:
        entry["inside_node"] = nodes == "inside"
    return entry | ({"even_routing": routing == "forced"} if routing else {}) | ({"whole_graph": graph == "full"} if graph else {})


def make_narrow_entries(figures, rows):
    """Entries of `measured_steps` for each precision with enough steps, and for whole graphs and others of it."""
    entries = []
    for name in sorted({row["precision"] for row in rows}):
        for graph in (None, "none", "full"):
            of = [row for row in rows if row["precision"] == name and graph in (None, get_class(row)[-1])]
            if len(of) < LEAST_ROWS or len({get_source(row) for row in of}) < LEAST_SOURCES:
                continue
            middle, half = make_interval([get_ratio(figures, row) for row in of])
            entries.append({"precision": PRECISIONS[name], **describe_class((None,) * 4 + (graph,)), "low": round(math.exp(middle - half), 3),
                            "high": round(math.exp(middle + half), 3), "steps": len(of), "sources": len({get_source(row) for row in of}),
                            "source": "benchmarks/steps.py --calibrate"})
    return entries


def make_entries(figures, rows):
    """Entries of `measured_steps`, coarse classes first, so that the last one that fits is the finest."""
    found = {}
    rows, narrow = split(rows)
    for row in rows:
        middle, half, level, of = find_interval(figures, rows, row)
        found[level] = (middle, half, of)
    if (None,) * len(CLASS_KEYS) not in found:
        found[(None,) * len(CLASS_KEYS)] = (*make_interval([get_ratio(figures, row) for row in rows]), rows)
    entries = []
    for level, (middle, half, of) in sorted(found.items(), key=lambda item: sum(key is not None for key in item[0])):
        entries.append({**describe_class(level), "low": round(math.exp(middle - half), 3), "high": round(math.exp(middle + half), 3), "steps": len(of),
                        "sources": len({get_source(row) for row in of}), "source": "benchmarks/steps.py --calibrate"})
    return entries + make_narrow_entries(figures, narrow)


# --------------------------------------------------------------------------------------------------------------------------- pairs


def get_pairs(data, rows):
    """Pairs of predicted rows that differ in one thing, with the kind of change."""
    known = {row["id"]: row for row in rows}
    for group in data["pairs"]:
        members = [known[name] for name in group["rows"] if name in known]
        for number, one in enumerate(members):
            for other in members[number + 1:]:
                yield group, one, other


def get_kind(group):
    text = group["varies"].lower()
    for kind, words in (("software", ("software", "release")), ("dispatcher", ("dispatcher", "deepep", "hybridep", "alltoall", "uccl")),
                        ("overlap", ("overlap",)), ("graph", ("graph",)), ("recompute", ("recompute",)), ("micro-batch", ("mbs", "micro", "batch")),
                        ("layout", ("layout", "pp", "ep", "tp"))):
        if any(word in text for word in words):
            return kind
    return "other"


def measure_pairs(figures, data, rows, is_strict=True):
    """By kind: the errors of the logarithms of ratios, and whether the signs are right, for differences above 3%. Steps of a strict group differ in
    one thing."""
    kinds = {}
    for group, one, other in get_pairs(data, rows):
        measured = math.log(one["step_ms"] / other["step_ms"])
        if group["strict"] != is_strict or abs(measured) < math.log(1.03):
            continue
        predicted = math.log(figures[one["id"]]["step_ms"] / figures[other["id"]]["step_ms"])
        kind = get_kind(group) + (", AWS" if one["source"].startswith("awslabs") else "")
        kinds.setdefault(kind, []).append((abs(predicted - measured), predicted * measured > 0))
    return kinds


def rank(values):
    return [sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2 for value in values]


def measure_orders(figures, rows):
    """Settings with at least four steps: Spearman's rank correlation, and what the predicted best loses."""
    settings = {}
    for row in rows:
        settings.setdefault((get_model(row), row["n_gpus"], CLUSTERS[row["gpu"]], row["seq"]), []).append(row)
    results = {}
    for setting, of in settings.items():
        # The time of a token, because global batches may differ.
        measured = [row["step_ms"] / row["gbs"] for row in of]
        predicted = [figures[row["id"]]["step_ms"] / row["gbs"] for row in of]
        if len(of) >= 4 and len(set(measured)) > 1 and len(set(predicted)) > 1:
            pick = measured[min(range(len(of)), key=predicted.__getitem__)]
            results[setting] = (statistics.correlation(rank(measured), rank(predicted)), pick / min(measured) - 1, len(of))
    return results


# -------------------------------------------------------------------------------------------------------------------------- output


FAMILIES = {"hopper": "Hopper", "blackwell": "Blackwell"}
TOKEN_NAMES = ("below 1,000 tokens of a rank and micro-batch", "1,000 to 2,500", "2,500 to 5,000", "above 5,000")


def get_error(figures, row):
    return figures[row["id"]]["step_ms"] / row["step_ms"] - 1


def describe_errors(figures, rows):
    errors = [get_error(figures, row) for row in rows]
    sizes = [abs(error) for error in errors]
    return [len(rows), f"{statistics.mean(sizes):.0%}", f"{statistics.median(sizes):.0%}", f"{statistics.mean(errors):+.0%}",
            f"{sum(size <= 0.25 for size in sizes) / len(sizes):.0%}"]


def make_error_table(figures, rows):
    groups = [("all", lambda row: True)] + [(title, lambda row, name=name: get_family(row) == name) for name, title in FAMILIES.items()]
    groups += [(title, lambda row, number=number: get_token_bin(get_tokens(row)) == number) for number, title in enumerate(TOKEN_NAMES)]
    groups += [(name, lambda row, name=name: get_source(row) == name) for name in sorted({get_source(row) for row in rows})]
    lines = [[name, *describe_errors(figures, of)] for name, fits in groups if (of := [row for row in rows if fits(row)])]
    return make_table(["steps", "number", "mean error", "median", "bias", "within 25%"], lines)


def make_narrow_table(figures, rows):
    """The errors of steps in each precision: bf16's are in make_error_table()."""
    groups = [(PRECISIONS[name], [row for row in rows if row["precision"] == name]) for name in sorted({row["precision"] for row in rows})]
    groups += [(f"{name}, {title}", [row for row in of if (get_class(row)[-1] == "full") == full]) for name, of in list(groups)
               for title, full in (("whole graphs", True), ("no whole graphs", False))]
    return make_table(["steps", "number", "mean error", "median", "bias", "within 25%"], [[name, *describe_errors(figures, of)] for name, of in groups if of])


def make_pair_table(figures, data, rows):
    kinds = measure_pairs(figures, data, rows)
    loose = measure_pairs(figures, data, rows, is_strict=False)
    every = [pair for of in kinds.values() for pair in of]
    others = [(f"{kind}, and other things", of) for kind, of in sorted(loose.items()) if kind.startswith(("overlap", "recompute"))]
    lines = [[kind, len(of), f"{statistics.mean(error for error, _ in of):.2f}", f"{sum(right for _, right in of) / len(of):.0%}"]
             for kind, of in [*sorted(kinds.items()), ("all", every), *others] if of]
    return make_table(["difference", "pairs", "mean error of the ratio's logarithm", "right order"], lines)


def make_setting_table(figures, rows):
    orders = measure_orders(figures, rows)
    lines = [[f"{model}, {gpus} devices of {cluster}, {seq} tokens", count, f"{correlation:.2f}", f"{loss:.0%}"]
             for (model, gpus, cluster, seq), (correlation, loss, count) in sorted(orders.items())]
    mean = [statistics.mean(values) for values in list(zip(*orders.values()))[:2]]
    return make_table(["setting", "steps", "Spearman's correlation", "the predicted best loses"], lines + [["mean", "", f"{mean[0]:.2f}", f"{mean[1]:.0%}"]])


def make_summary(figures, rows):
    inside, doubled, count = test_calibration(figures, rows)
    of = describe_errors(figures, rows)
    return (f"{of[0]} steps were predicted. The mean error is {of[1]}, the median {of[2]}, and {of[4]} of them are within 25%. The printed range was "
            f"tested on {count} steps, each with a range from other sources alone: {inside:.0%} of them lie inside it, and {doubled:.0%} inside the "
            "range with ends twice as far.")


def make_worst_table(figures, rows):
    worst = sorted(rows, key=lambda row: -abs(get_ratio(figures, row)))[:10]
    return make_row_table(figures, worst)


def make_row_table(figures, rows):
    lines = [[f"`{row['id']}`", row["n_gpus"], CLUSTERS[row["gpu"]], get_tokens(row), f"{row['step_ms']:,.0f}", f"{figures[row['id']]['step_ms']:,.0f}",
              f"{get_error(figures, row):+.0%}"] for row in rows]
    return make_table(["step", "devices", "cluster", "tokens", "measured ms", "predicted ms", "error"], lines)


def make_memory_table(figures, rows):
    lines = []
    for row in rows:
        if get_memory(row) and figures[row["id"]].get("memory_gb"):
            measured, counted = get_memory(row)
            predicted = figures[row["id"]]["memory_gb"] * 1e9 / 2**30
            lines.append([f"`{row['id']}`", f"{measured:.1f}", counted, f"{predicted:.1f}", f"{predicted / measured - 1:+.0%}"])
    return make_table(["step", "measured GiB", "counted", "predicted GiB", "error"], lines)


def make_left_out_table(data, figures):
    reasons = {}
    kept = {row["id"] for row in merge_releases([row for row in data["rows"] if not why_not(row)])}
    for row in data["rows"]:
        why = why_not(row) or ("" if row["id"] in kept else "a later release repeats it") or figures.get(row["id"], {}).get("error") or ("" if row["id"] in figures else "not predicted yet")
        if why:
            reasons.setdefault(why, []).append(row)
    names = {why: len(of) if len(of) > 12 else ", ".join(f"`{row['id']}`" for row in of) for why, of in reasons.items()}
    return make_table(["reason", "number", "steps"], [[why, len(of), names[why] if isinstance(names[why], str) else "see `benchmarks/steps.json`"]
                                                      for why, of in sorted(reasons.items(), key=lambda item: -len(item[1]))])


def make_parts(figures, data, every):
    rows, narrow = split(merge_releases(every))
    of = describe_errors(figures, rows)
    return {"summary": make_summary(figures, rows), "errors": make_error_table(figures, rows), "pairs": make_pair_table(figures, data, split(every)[0]),
            "settings": make_setting_table(figures, rows), "worst": make_worst_table(figures, rows), "rows": make_row_table(figures, rows),
            "memory": make_memory_table(figures, rows),
            "narrow": make_narrow_table(figures, narrow), "narrow-rows": make_row_table(figures, narrow), "left-out": make_left_out_table(data, figures),
            "accuracy": f"{of[0]} whole steps that others measured in Megatron-LM are predicted with a mean error of {of[1]}, and {of[4]} of them within 25%. "
                        "Some figures of the prediction were fitted to these steps. Each answer for Megatron-LM has a range that measured steps of its kind were in: [Validation](docs/Validation.md)."}


# Colours of light and dark pages.
STYLE = """<style>
text { font: 13px sans-serif; fill: #222 } .quiet { fill: #666 } .back { fill: #fff } .grid { stroke: #ddd } .even { stroke: #888 }
.hopper { fill: #2471a3; fill-opacity: 0.6 } .blackwell { fill: #ca6f1e; fill-opacity: 0.6 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .quiet { fill: #999 } .back { fill: #111 } .grid { stroke: #333 } .even { stroke: #aaa }
  .hopper { fill: #5dade2; fill-opacity: 0.7 } .blackwell { fill: #f0a04b; fill-opacity: 0.7 }
}
</style>"""
WIDTH, LEFT, RIGHT, TOP, LINE = 760, 260, 20, 56, 30
LEAST, MOST, TICKS = 0.25, 2.5, (0.25, 0.5, 0.8, 1, 1.25, 2)


def to_x(ratio):
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + (WIDTH - LEFT - RIGHT) * share


def make_svg(figures, rows):
    """Draws predicted / measured of each step, with a line for each source."""
    rows = split(rows)[0]
    sources = sorted({get_source(row) for row in rows})
    bottom = TOP + LINE * len(sources)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 44}" width="{WIDTH}" height="{bottom + 44}">', STYLE,
             f'<rect class="back" width="{WIDTH}" height="{bottom + 44}"/>']
    for number, (name, title) in enumerate(FAMILIES.items()):
        parts.append(f'<circle class="{name}" cx="{LEFT + 110 * number}" cy="20" r="5"/><text x="{LEFT + 12 + 110 * number}" y="25">{title}</text>')
    for tick in TICKS:
        parts += [f'<path class="{"even" if tick == 1 else "grid"}" d="M{to_x(tick):.1f} {TOP - 14}V{bottom}"/>',
                  f'<text class="quiet" x="{to_x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>']
    parts.append(f'<text class="quiet" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{bottom + 34}" text-anchor="middle">predicted / measured</text>')
    for number, source in enumerate(sources):
        y = TOP + LINE * number
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{source.replace("awslabs/awsome-distributed-ai", "awslabs")}</text>')
        parts += [f'<circle class="{get_family(row)}" cx="{to_x(1 + get_error(figures, row)):.1f}" cy="{y}" r="5"><title>{row["id"]}: '
                  f'{1 + get_error(figures, row):.2f}</title></circle>' for row in rows if get_source(row) == source]
    return "\n".join([*parts, "</svg>", ""])


def calibrate(figures, data, rows):
    description = load(DESCRIPTION)
    description["measured_steps"] = make_entries(figures, merge_releases(rows))
    errors = sorted(error for of in measure_pairs(figures, data, split(rows)[0]).values() for error, _ in of)
    description["measured_pairs"] = {"error": round(errors[math.ceil(2 / 3 * len(errors)) - 1], 3), "pairs": len(errors),
                                     "source": "benchmarks/steps.py --calibrate"}
    write(DESCRIPTION, json.dumps(description, indent=2) + "\n")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bin", "only"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--jobs", type=int, default=2)
    for name in ("again", "whole", "calibrate", "pages"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args(arguments)
    data, figures = load_data(), load(FIGURES, {})
    rows = [row for row in data["rows"] if not why_not(row)]
    if options.bin:
        predict_all(options, rows, figures)
    rows = [row for row in rows if "step_ms" in figures.get(row["id"], {})]
    if not rows:
        sys.exit("error: no figures; predict steps with --bin")
    parts = make_parts(figures, data, rows)
    print("\n\n".join(parts[name] for name in ("summary", "errors", "pairs", "settings", "worst", "memory", "narrow")))
    if options.calibrate:
        calibrate(figures, data, rows)
    if options.pages:
        write_pages(PAGES, parts)
        write(PICTURE, make_svg(figures, merge_releases(rows)))


if __name__ == "__main__":
    main()
