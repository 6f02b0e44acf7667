#!/usr/bin/env python3
"""Computes the figures of moe-plan and moe-sim that README.md, docs/Validation.md and docs/Schedules.md show.

Usage: reference_mappings.py --bin DIR [--pages] [--svg=FILE] [--only=NAME,..] [--again] [--limit=SECONDS]
       reference_mappings.py --pages     writes the pages from the kept figures

reference_mappings.json has published mappings of MoE training on H100, each with its source. Two steps are computed for each row:

  theirs   moe-sim predicts the step of the published mapping, as far as MoePlan can express it. If a pipeline has more than six
           micro-batches a stage, two shorter pipelines give its time: each further micro-batch adds the same time
  ours     moe-plan chooses for the same devices, sequences and global batch

The computed figures are not fitted to the published ones. They are kept in reference_figures.json (--figures=FILE), and computed again only
with --again. If a row takes longer than --limit (3600), the file says so. The script writes the page's tables between markers. The rest of
the page is written by hand.

TFLOP/s count the same FLOPs as the source: products of the forward three times, without recomputation and embedding, but with the head.
Attention counts all scores ("full") or those at or before the diagonal ("causal"), in windows if layers have them ("windowed").
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

from run_all import get_commit

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(FOLDER)
# The generated parts of each page.
PAGES = {"README.md": ["answer", "published", "accuracy"], "docs/Schedules.md": ["choices"],
         "docs/Validation.md": ["summary", "theirs", "ours", "differences", "left-out", "sources"]}
MODELS = os.path.join(FOLDER, "..", "share", "models")
CLUSTER, DEVICES_PER_NODE = "hgx-h100", 8
# The published runs issue their kernels from PyTorch, and sum gradients in f32. Both predictions do the same.
FRAMEWORK = ["--host=megatron", "--grad-dtype=f32"]
GIGA, TERA = 1e9, 1e12
# A dropless layer reserves rows for this multiple of the mean load. The published runs balance their tokens by force.
MAX_LOAD = 1.5
LIMIT_S = 3600


def load(path, default=None):
    if default is not None and not os.path.exists(path):
        return default
    with open(path) as file:
        return json.load(file)


def load_reference():
    return load(os.path.join(FOLDER, "reference_mappings.json"))


# ---------------------------------------------------------------------------------------------------------- FLOPs of a token


def count_scores(config, seq, attention):
    """Keys that a query sees, summed over blocks."""
    blocks, window = config["num_hidden_layers"], config.get("sliding_window") or seq
    if attention == "full":
        return blocks * seq
    types = config.get("layer_types", []) if attention == "windowed" else []
    sliding = types.count("sliding_attention")
    return sliding * min(window, seq / 2) + (blocks - sliding) * seq / 2


def count_attention_weights(config):
    """Weights of a block's projections, and columns of a key and a value of all heads."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    if "kv_lora_rank" not in config:
        size = config.get("head_dim") or hidden // heads
        return 2 * hidden * size * (heads + config["num_key_value_heads"]), 2 * heads * size
    plain, rotary, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    query, key = config["q_lora_rank"], config["kv_lora_rank"]
    weights = query * (hidden + heads * (plain + rotary)) + hidden * (key + rotary) + key * heads * (plain + value)
    return weights + heads * value * hidden, heads * (plain + rotary + value)


def count_flops(model, seq, attention):
    """FLOPs of training on one token, as publishers count them."""
    config = load(os.path.join(MODELS, model + ".json"))
    hidden, blocks = config["hidden_size"], config["num_hidden_layers"]
    experts = config.get("num_experts") or config.get("num_local_experts") or config["n_routed_experts"]
    inner = config.get("moe_intermediate_size") or config["intermediate_size"]
    dense = config.get("first_k_dense_replace", 0)
    chosen = config["num_experts_per_tok"] + config.get("n_shared_experts", 0)
    projections, columns = count_attention_weights(config)
    weights = blocks * projections + (blocks - dense) * hidden * (3 * inner * chosen + experts)
    weights += dense * 3 * hidden * config["intermediate_size"] + hidden * config["vocab_size"]
    return 6 * (weights + columns * count_scores(config, seq, attention))


def get_measured_step(row):
    """Seconds of a step, or None if no throughput is published."""
    if "step_s" in row:
        return row["step_s"]
    tokens = row["gbs"] * row["seq"] / row["gpus"]
    if "tokens_s" in row:
        return tokens / row["tokens_s"]
    return tokens * count_flops(row["model"], row["seq"], row["attention"]) / (row["tflops"] * TERA) if "tflops" in row else None


def get_tflops(row, step_s):
    """TFLOP/s of a GPU, counted as the row's source counts."""
    return row["gbs"] * row["seq"] / row["gpus"] * count_flops(row["model"], row["seq"], row["attention"]) / step_s / TERA


# ------------------------------------------------------------------------------------------------------------------- answers


def get_groups(row):
    """The published mapping as an argument of --parallel."""
    data = row["gpus"] // (row["tp"] * row["pp"])
    return f"pp={row['pp']},dp={data},mp={row['tp']},ep={row['ep']},esp={row['etp']}"


def count_micro_batches(row):
    """Micro-batches of a step, and of the simulated steps: two shorter pipelines predict a long one."""
    count = row["gbs"] * row["tp"] * row["pp"] // (row["gpus"] * row["mbs"])
    shorter = [2 * row["pp"], 4 * row["pp"]]
    return count, shorter if row["pp"] > 1 and count > 6 * row["pp"] else [count]


def get_their_command(row, count):
    command = ["moe-sim", row["model"], "--whole-model", f"--seq={row['seq']}", "--dtype=bf16", "--optimizer=adam", "--zero",
               f"--cluster={CLUSTER}", f"--parallel={get_groups(row)}", f"--batch={row['mbs']}", f"--micro-batches={count}",
               f"--max-load={MAX_LOAD}", "--memory-limit=0", *FRAMEWORK]
    recompute = {"full": ["--recompute=block"], "norm, act": ["--recompute=selective"]}.get(row["recompute"], [])
    command += [f"--interleave={row['vp']}"] * (row["vp"] > 1) + recompute
    # The members of a tensor-parallel group in Megatron send different tokens to the experts, as in Parm's S1.
    schedule = "s1" if row["tp"] > 1 else "baseline"
    # DeepEP sends a token once to each node, and there once to each rank.
    if row.get("dispatcher") == "deepep":
        schedule += "+once:node" if row["ep"] * row["etp"] > DEVICES_PER_NODE else "+once:rank"
    return command + ["--sequence-parallel"] * (row["tp"] > 1) + [f"--schedule={schedule}"]


def get_our_commands(row):
    return [["moe-plan", row["model"], str(row["gpus"]), CLUSTER, f"--seq={row['seq']}", f"--global-batch={row['gbs']}", f"--max-load={MAX_LOAD}",
             *FRAMEWORK]]


def get_question_commands(question):
    """The commands whose answers are compared, by the names of their figures."""
    command = ["moe-plan", question["model"], str(question["gpus"]), CLUSTER, *question.get("options", [])]
    others = {"1f1b": ["--pipeline=1f1b"], **({"published": question["published"]} if "published" in question else {})}
    return {"choice": command, **{name: command + options for name, options in others.items()}}


def run(bin_folder, command, limit_s):
    """The command's JSON output, or {"error": ..}."""
    program = os.path.join(bin_folder, command[0])
    try:
        result = subprocess.run([program, *command[1:], "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {limit_s:g} s"}
    except OSError as error:
        sys.exit(f"error: {program}: {error.strerror}; build it, and give its folder with --bin")
    if result.returncode:
        found = re.search(r"error: (.*)", result.stderr)
        return {"error": found[1] if found else f"exit status {result.returncode}"}
    return json.loads(result.stdout)


def get_their_commands(row):
    return [get_their_command(row, count) for count in count_micro_batches(row)[1]]


def extend(row, values):
    """Extrapolates a value to the published number of micro-batches. Each further one adds the same amount."""
    count, simulated = count_micro_batches(row)
    slope = (values[1] - values[0]) / (simulated[1] - simulated[0]) if len(values) > 1 else 0
    return values[-1] + slope * (count - simulated[-1])


def keep_choice(_, outs):
    out = outs[0]
    names = ("seconds", "tokens_per_second_per_gpu", "bubble_seconds", "exposed_communication_seconds", "hidden_communication_seconds",
             "recompute", "pipeline", "parallel", "options")
    return {name: out[name] for name in names if name in out} | {"step_s": out["seconds"]}


def keep_text(bin_folder, question):
    """The first lines of an answer, as a reader sees them."""
    command = get_question_commands(question)["choice"]
    result = subprocess.run([os.path.join(bin_folder, command[0]), *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return [re.sub(r"^\s*--.*", "...", line) for line in result.stdout.splitlines()[:5]]


def get_expert_flops(out):
    """FLOPs per second of the experts' products."""
    kernels = [kernel for kernel in out["kernels"] if kernel["kernel"].startswith("grouped_matmul")]
    return sum(kernel["flops"] for kernel in kernels) / sum(kernel["busy_s"] for kernel in kernels)


def keep_theirs(row, outs):
    return {"expert_flops_per_s": get_expert_flops(outs[-1]), "step_s": extend(row, [out["step_s"] for out in outs]), "peak_bytes": outs[-1]["memory"]["peak_bytes"],
            "exposed_s": extend(row, [out["mean"]["exposed_communication_s"] for out in outs])}


def keep_ours(_, outs):
    out = outs[0]
    names = {"tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size", "vp": "virtual_pipeline_model_parallel_size",
             "ep": "expert_model_parallel_size", "etp": "expert_tensor_parallel_size", "mbs": "micro_batch_size"}
    return {**{key: out["megatron"][name] for key, name in names.items()}, "recompute": out["recompute"], "schedule": out["schedule"],
            "is_estimate": out["is_estimate"], "step_s": out["seconds"], "peak_bytes": out["memory_bytes"]}


def answer(options, figures, row, kind, commands, keep):
    """Runs `commands` unless their figures are kept, and keeps the result of `keep` for the outputs."""
    kept = figures.setdefault(row["name"], {})
    texts = [" ".join(command) for command in commands]
    if kind in kept and kept[kind]["commands"] == texts and not options.again:
        return
    begin, outs = time.monotonic(), []
    for command in commands:
        outs.append(run(options.bin, command, options.limit))
        if "error" in outs[-1]:
            break
    kept[kind] = {**(outs[-1] if "error" in outs[-1] else keep(row, outs)), "commands": texts, "commit": get_commit()}
    print(f"{row['name']}, {kind}: {kept[kind].get('error') or '%.3f s' % kept[kind]['step_s']} ({time.monotonic() - begin:.0f} s)", flush=True)
    save(options, figures)


def save(options, figures):
    with open(options.figures, "w") as file:
        json.dump(figures, file, indent=1, sort_keys=True)
        file.write("\n")


# ---------------------------------------------------------------------------------------------------------------------- page


def make_table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def get_step(figures, row, kind):
    return figures.get(row["name"], {}).get(kind, {}).get("step_s")


def get_error(figures, row):
    """Relative error of the throughput that is predicted for the published mapping."""
    measured, predicted = get_measured_step(row), get_step(figures, row, "theirs")
    return measured / predicted - 1 if measured and predicted else None


def describe_failure(figures, row, kind):
    error = figures.get(row["name"], {}).get(kind, {}).get("error", "not computed yet")
    return "no plan fits" if "with a plan of at most" in error else error


def make_their_table(reference, figures):
    lines = []
    for row in reference["rows"]:
        measured, predicted, error = get_measured_step(row), get_step(figures, row, "theirs"), get_error(figures, row)
        cells = [f"{get_tflops(row, step):.0f}" if step else "" for step in (measured, predicted)]
        cells += [f"{round(100 * error):+d}%"] if error is not None else [""]
        if predicted:
            kept = figures[row["name"]]["theirs"]
            cells += [f"{kept['expert_flops_per_s'] / TERA:.0f}", f"{100 * kept['exposed_s'] / predicted:.0f}%", f"{kept['peak_bytes'] / GIGA:.0f}"]
        else:
            cells += [describe_failure(figures, row, "theirs"), "", ""]
        mapping = [row[key] for key in ("gpus", "gbs", "tp", "pp", "vp", "ep", "etp", "mbs", "recompute")]
        lines.append([row["title"], *mapping, *cells])
    return make_table(["model", "GPUs", "GBS", "TP", "PP", "VP", "EP", "ETP", "MBS", "computed again", "measured", "predicted",
                       "error", "expert products", "exposed", "GB"], lines)


def describe_groups(groups):
    names = {"tp": "TP", "pp": "PP", "vp": "VP", "ep": "EP", "etp": "ETP", "mbs": "MBS"}
    return " ".join(f"{name}{groups[key]}" for key, name in names.items() if groups.get(key, 1) != 1 or key in ("tp", "pp", "ep"))


def is_of_one_commit(kept):
    return len({one["commit"].partition("+")[0] for one in kept}) == 1


def make_our_table(reference, figures):
    lines = []
    for row in reference["rows"]:
        theirs, ours = get_step(figures, row, "theirs"), get_step(figures, row, "ours")
        if not ours:
            lines.append([row["title"], row["gpus"], describe_groups(row), describe_failure(figures, row, "ours"), "", "", "", ""])
            continue
        kept = figures[row["name"]]["ours"]
        # Two compilers cannot be compared.
        gain = f"{round(100 * (theirs / ours - 1)):+d}%" if theirs and is_of_one_commit(figures[row["name"]].values()) else ""
        same = [name for key, name in (("tp", "TP"), ("pp", "PP"), ("ep", "EP"), ("vp", "VP"), ("mbs", "MBS")) if kept[key] == row[key]]
        lines.append([row["title"], row["gpus"], describe_groups(row), f"{describe_groups(kept)}, recompute {kept['recompute']}, {kept['schedule']}",
                      ", ".join(same) or "none",
                      f"{get_tflops(row, theirs):.0f}" if theirs else "", f"{get_tflops(row, ours):.0f}", gain])
    return make_table(["model", "GPUs", "published mapping", "MoePlan's choice", "both have", "predicted, published",
                       "predicted, chosen", "gain"], lines)


def get_error_sizes(reference, figures):
    return sorted(abs(error) for error in (get_error(figures, row) for row in reference["rows"]) if error is not None)


def make_summary(reference, figures):
    errors = {row["title"]: get_error(figures, row) for row in reference["rows"] if get_error(figures, row) is not None}
    if not errors:
        return "No figure is kept yet."
    sizes = get_error_sizes(reference, figures)
    worst = max(errors, key=lambda title: abs(errors[title]))
    return (f"{len(errors)} published mappings with a measured throughput were predicted. Predictions within 10% of the measurement: "
            f"{sum(size <= 0.1 for size in sizes)}. Within 25%: {sum(size <= 0.25 for size in sizes)}. The mean of the errors' sizes is "
            f"{100 * sum(sizes) / len(sizes):.0f}%, the median {100 * sizes[len(sizes) // 2]:.0f}%. The largest error is that of {worst}, "
            f"{100 * errors[worst]:+.0f}%.")


def make_source_table(reference):
    lines = []
    for name, source in reference["sources"].items():
        rows = ", ".join(row["title"] for row in reference["rows"] if row["source"] == name)
        link = f"[{source['title']}](https://github.com/{source['repository']}/blob/{source['commit']}/{source['file']})"
        lines.append([link, source["says"], rows])
    return make_table(["source", "what it says of them", "rows"], lines)


def make_difference_table(reference):
    return make_table(["row", "what the prediction does not express, and what the source leaves open"],
                      [[row["title"], row["differs"]] for row in reference["rows"]])


def make_left_out_table(reference):
    return make_table(["left out", "why"], [[row["what"], row["why"]] for row in reference["left_out"]])


# The rest follows from these, or is a default.
SHOWN_OPTIONS = ("--parallel", "--interleave", "--pipeline", "--recompute", "--side-by-side", "--schedule")


def make_choice_table(reference, figures):
    lines, commits = [], set()
    for question in reference["questions"]:
        kept = figures.get(question["name"], {})
        choice, before = kept.get("choice", {}), kept.get("1f1b", {})
        if "seconds" not in choice or "seconds" not in before:
            continue
        communication = choice["hidden_communication_seconds"] + choice["exposed_communication_seconds"]
        shares = [choice[name] / choice["seconds"] for name in ("bubble_seconds", "exposed_communication_seconds")]
        lines.append([question["title"], f"{before['tokens_per_second_per_gpu']:,.0f}", f"{choice['tokens_per_second_per_gpu']:,.0f}",
                      f"{before['seconds'] / choice['seconds']:.2f}", f"`{' '.join(option for option in choice['options'].split() if option.startswith(SHOWN_OPTIONS))}`",
                      f"{choice['hidden_communication_seconds'] / communication:.0%}", ", ".join(f"{share:.1%}" for share in shares)])
        commits |= {choice["commit"], before["commit"]}
    table = make_table(["model, devices, sequences of a step", "1F1B alone", "choice", "gain", "options of the choice", "hidden", "bubble, exposed"], lines)
    return f"{table}\n\nThese figures are of commit {', '.join(sorted(commits))}."


def make_answer(figures):
    return "```text\n" + "\n".join(figures.get("plan-mixtral-8x7b", {}).get("choice", {}).get("text", [])) + "\n```"


def make_published(figures):
    kept = figures.get("plan-mixtral-8x7b", {})
    if "published" not in kept:
        return "No figure is kept yet."
    longer = kept["published"]["seconds"] / kept["choice"]["seconds"] - 1
    return f"A step with the mapping that Megatron-LM publishes takes {longer:.0%} longer."


def make_accuracy(reference, figures):
    sizes = get_error_sizes(reference, figures)
    if not sizes:
        return "No figure is kept yet."
    return (f"Whole steps of {len(sizes)} published H100 runs are predicted with a mean error of {sum(sizes) / len(sizes):.0%}, and "
            f"{sum(size <= 0.25 for size in sizes)} of them within 25%: [Validation](docs/Validation.md).")


def make_parts(reference, figures):
    """Generated parts of the page, by the names of their markers."""
    return {"summary": make_summary(reference, figures), "theirs": make_their_table(reference, figures),
            "ours": make_our_table(reference, figures), "differences": make_difference_table(reference),
            "left-out": make_left_out_table(reference), "sources": make_source_table(reference),
            "choices": make_choice_table(reference, figures), "answer": make_answer(figures), "published": make_published(figures),
            "accuracy": make_accuracy(reference, figures)}


def fill_page(text, parts):
    """`text` with the parts between markers replaced."""
    for name, part in parts.items():
        begin, end = f"<!-- generated: {name} -->\n", f"\n<!-- end: {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            sys.exit(f"error: expected the page to have one '{begin.strip()}' and one '{end.strip()}' after it")
        text = text[:text.index(begin) + len(begin)] + part + text[text.index(end):]
    return text


def fill(page, parts):
    """Returns the text of a page with its parts."""
    with open(os.path.join(ROOT, page)) as file:
        return fill_page(file.read(), {name: parts[name] for name in PAGES[page]})


# ------------------------------------------------------------------------------------------------------------------- picture

# Colours of light and dark pages.
STYLE = """<style>
text { font: 13px sans-serif; fill: #222 } .quiet { fill: #666 } .back { fill: #fff } .grid { stroke: #ddd } .gap { stroke: #999; stroke-width: 2 }
.measured { fill: #222 } .predicted { fill: #2471a3 } .ours { fill: #ca6f1e }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .quiet { fill: #999 } .back { fill: #111 } .grid { stroke: #333 } .gap { stroke: #777 }
  .measured { fill: #eee } .predicted { fill: #5dade2 } .ours { fill: #f0a04b }
}
</style>"""
LEFT, RIGHT, TOP, LINE = 210, 24, 64, 30
WIDTH, HIGHEST, TICK = 760, 600, 100


def to_x(value):
    return LEFT + (WIDTH - LEFT - RIGHT) * value / HIGHEST


def draw_mark(kind, value, y, title):
    """Draws a mark: a circle for a measured throughput, a square for the published mapping, a diamond for our choice."""
    x = to_x(value)
    shape = {"measured": f"M{x - 6:.1f} {y}a6 6 0 1 0 12 0a6 6 0 1 0 -12 0z", "predicted": f"M{x - 5:.1f} {y - 5}h10v10h-10z",
             "ours": f"M{x:.1f} {y - 7}l7 7l-7 7l-7 -7z"}[kind]
    return f'<path class="{kind}" d="{shape}"><title>{title}: {value:.0f}</title></path>'


def make_svg(reference, figures):
    """Draws TFLOP/s of a GPU with a line for each row: measured, predicted for the published mapping, predicted for our choice."""
    rows = [row for row in reference["rows"] if get_step(figures, row, "theirs") or get_step(figures, row, "ours")]
    height = TOP + LINE * len(rows) + 40
    bottom = height - 36
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">', STYLE,
             f'<rect class="back" width="{WIDTH}" height="{height}"/>']
    legend = {"measured": "measured", "predicted": "predicted, published mapping", "ours": "predicted, MoePlan's choice"}
    for (kind, text), value in zip(legend.items(), (0, 115, 375)):
        parts += [draw_mark(kind, value, 24, text), f'<text x="{to_x(value) + 12:.0f}" y="29">{text}</text>']
    for tick in range(0, HIGHEST + 1, TICK):
        parts += [f'<path class="grid" d="M{to_x(tick):.1f} {TOP - 16}V{bottom}"/>',
                  f'<text class="quiet" x="{to_x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick}</text>']
    parts += [f'<text class="quiet" x="{to_x(HIGHEST / 2):.0f}" y="{bottom + 32}" text-anchor="middle">TFLOP/s of a GPU</text>']
    for number, row in enumerate(rows):
        y = TOP + LINE * number
        steps = {"measured": get_measured_step(row), "predicted": get_step(figures, row, "theirs"), "ours": get_step(figures, row, "ours")}
        values = {kind: get_tflops(row, step) for kind, step in steps.items() if step}
        parts += [f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{row["title"]}</text>',
                  f'<path class="gap" d="M{to_x(min(values.values())):.1f} {y}H{to_x(max(values.values())):.1f}"/>']
        parts += [draw_mark(kind, value, y, legend[kind]) for kind, value in values.items()]
    return "\n".join([*parts, "</svg>", ""])


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bin", "svg", "only"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--figures", default=os.path.join(FOLDER, "reference_figures.json"))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--limit", type=float, default=LIMIT_S)
    options = parser.parse_args(arguments)
    reference, figures = load_reference(), load(options.figures, {})
    known = [row["name"] for row in reference["rows"] + reference["questions"]]
    names = options.only.split(",") if options.only else known
    unknown = set(names) - set(known)
    if unknown:
        sys.exit(f"error: --only: expected names of rows in reference_mappings.json but got {', '.join(sorted(unknown))}")
    kinds = (("theirs", get_their_commands, keep_theirs), ("ours", get_our_commands, keep_ours))
    for kind, get_commands, keep in kinds if options.bin else ():
        for row in reference["rows"]:
            if row["name"] in names:
                answer(options, figures, row, kind, get_commands(row), keep)
    for question in reference["questions"] if options.bin else ():
        if question["name"] in names:
            for kind, command in get_question_commands(question).items():
                answer(options, figures, question, kind, [command], keep_choice)
            choice = figures[question["name"]]["choice"]
            if "published" in question and "seconds" in choice and (options.again or "text" not in choice):
                choice["text"] = keep_text(options.bin, question)
                save(options, figures)
    parts = make_parts(reference, figures)
    print("\n\n".join(parts[name] for name in ("summary", "theirs", "ours", "choices")))
    if options.pages:
        for page in PAGES:
            write(os.path.join(ROOT, page), fill(page, parts))
        write(os.path.join(ROOT, "docs", "images", "reference-mappings.svg"), make_svg(reference, figures))
    if options.svg:
        write(options.svg, make_svg(reference, figures))


if __name__ == "__main__":
    main()
