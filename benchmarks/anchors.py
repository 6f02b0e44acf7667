#!/usr/bin/env python3
"""Says how well one measured step anchors the predictions of others of the same model and cluster (--measured).

Usage: anchors.py --bin DIR [--jobs N] ID,ID,..

The ids are those of steps.json. Each step is the anchor once, and moe-sim predicts the others with it. The table has the mean error of the others,
without an anchor and with each. The error of a step is predicted / measured - 1.
"""
import argparse
import concurrent.futures
import json
import os
import re
import statistics
import tempfile

import steps
from pages import make_table


def get_arguments(row):
    """A row as arguments of Megatron-LM, without those of the model."""
    arguments = {"seq_length": row["seq"], "micro_batch_size": row["mbs"], "global_batch_size": row["gbs"], "bf16": True,
                 "tensor_model_parallel_size": row["tp"], "pipeline_model_parallel_size": row["pp"], "context_parallel_size": row.get("cp") or 1,
                 "expert_model_parallel_size": row["ep"], "expert_tensor_parallel_size": row.get("etp") or 1, "sequence_parallel": row["tp"] > 1,
                 "use_distributed_optimizer": True, "overlap_grad_reduce": True, "grad_reduce_in_bf16": row.get("grad_reduce_dtype") == "bf16",
                 "overlap_moe_expert_parallel_comm": bool(row.get("overlap_a2a")),
                 "moe_token_dispatcher_type": "alltoall" if steps.get_dispatcher(row) == "alltoall" else "flex"}
    if (row.get("vpp") or 1) > 1:
        arguments["num_virtual_stages_per_pipeline_rank"] = row["vpp"]
    recompute = row.get("recompute")
    if recompute == "full":
        arguments |= {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    elif recompute and recompute != "none":
        arguments |= {"recompute_granularity": "selective", "recompute_modules": recompute if isinstance(recompute, list) else [recompute]}
    return arguments


def make_job(row):
    """A row as an entry of a file of --measured."""
    job = {"name": row["id"], "model": steps.get_model(row), "gpus": row["n_gpus"], "arguments": get_arguments(row), "step_ms": row["step_ms"],
           "dispatcher": steps.get_dispatcher(row)}
    graph = steps.get_graph(row)
    return job | ({"cuda_graph": graph} if graph else {})


def predict(options, row, anchor):
    """Milliseconds of a row, anchored in another one if there is one."""
    command = [os.path.join(options.bin, "moe-sim"), *steps.get_plan_options(row), *steps.get_framework_options(row)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        if anchor:
            json.dump([make_job(anchor)], file)
            file.flush()
            command.append(f"--measured={file.name}")
        text, error = steps.run(command)
    if error:
        raise SystemExit(f"{row['id']}: {error}")
    return float(re.search(r"^step +([\d.]+) ms", text, re.MULTILINE)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("ids")
    options = parser.parse_args()
    known = {row["id"]: row for row in steps.load_data()["rows"]}
    rows = [known[name] for name in options.ids.split(",")]
    tasks = [(row, anchor) for anchor in (None, *rows) for row in rows if row is not anchor]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as executor:
        found = list(executor.map(lambda task: predict(options, *task), tasks))
    errors = {(row["id"], anchor and anchor["id"]): abs(its / row["step_ms"] - 1) for (row, anchor), its in zip(tasks, found)}
    lines, means = [], []
    for anchor in rows:
        others = [row["id"] for row in rows if row is not anchor]
        means.append([statistics.mean(errors[name, its] for name in others) for its in (None, anchor["id"])])
        lines.append([f"`{anchor['id']}`", *(f"{mean:.1%}" for mean in means[-1])])
    lines.append(["mean", *(f"{statistics.mean(column):.1%}" for column in zip(*means))])
    print(make_table(["anchor", "error of the others without it", "with it"], lines))


if __name__ == "__main__":
    main()
