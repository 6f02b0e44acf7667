#!/usr/bin/env python3
"""Turns the results of a GPU session into a page, and keeps the cluster profile that was measured.

Usage: gpu.sh report RESULTS.. [-o FILE] [--profile=FILE]

RESULTS are folders that `gpu.sh run` wrote. If several have a call, the last one counts. The default page is docs/Gpu.md, and the default
profile share/clusters/GPU.json, such as h200.json. Results of the emulation make a page only with -o, and a profile only with --profile.
"""
import argparse
import json
import math
import os
import re
import sys

import stages

HERE = os.path.dirname(os.path.abspath(__file__))
# These scripts are in scripts/gpu of the repository, and in gpu of the packed folder.
ROOT = os.path.dirname(HERE) if os.path.exists(os.path.join(os.path.dirname(HERE), "pack.json")) else os.path.dirname(os.path.dirname(HERE))
# NVIDIA's data sheets, SXM, dense: FLOP/s in bf16, bytes/s of the memory.
PEAKS = {"H200": (989.4e12, 4.8e12), "H100": (989.4e12, 3.35e12)}
TITLES = {1: "libraries and kernels", 2: "programs and figures"}


def fail(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(2)


def load(folders):
    """Records of all calls, {call: {step: record}}, and the description of the packed folder."""
    calls, about = {}, None
    for folder in folders:
        names = sorted(name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if re.fullmatch(r"call\d\.json", name))
        if not names:
            fail(f"'{folder}' has no results: expected call1.json or call2.json, which `gpu.sh run CALL` writes")
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                stored = json.load(file)
            if about and about["id"] != stored["pack"]:
                print(f"warning: {folder}/{name} is of another packed folder than the other results", file=sys.stderr)
            about = stored["about"]
            calls[stored["call"]] = {record["step"]: record for record in stored["steps"]}
    return calls, about


# ------------------------------------------------------------------------------------------------------------------ text


def write_table(header, rows):
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in [header, ["---"] * len(header), *rows]]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def write_generated(name, text):
    return f"<!-- generated: {name} -->\n{text}\n<!-- end: {name} -->"


def write_share(value, peak):
    return f"{value / peak:.0%}" if peak else ""


def write_short(text, most=160):
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most] + " .."


class Page:
    def __init__(self, calls, about):
        self.calls, self.about, self.sections = calls, about, []
        self.gpu = self.name_gpu()
        self.flops, self.bandwidth = next((peak for name, peak in PEAKS.items() if name in self.gpu), (None, None))

    def figures(self, call, step):
        return self.calls.get(call, {}).get(step, {}).get("figures", {})

    def find(self, call, pattern):
        """(name without the pattern's beginning, figures) of steps with figures."""
        for name, record in self.calls.get(call, {}).items():
            match = re.match(pattern, name)
            if match and record.get("figures"):
                yield name[match.end():], record["figures"]

    def name_gpu(self):
        if self.about["emulated"]:
            return "the emulation of CUDA"
        lines = (self.figures(1, "machine").get("gpus") or "").splitlines()
        return lines[1].split(",")[0].strip() if len(lines) > 1 else "a GPU of which call 1 says nothing"

    def add(self, title, intro, table=""):
        name = title.lower().replace(" ", "-")
        self.sections.append("\n\n".join(part for part in (f"## {title}", intro, write_generated(name, table) if table else "") if part))

    # ------------------------------------------------------------------------------------------------------ sections

    def add_head(self):
        lines = [f"Revision {self.about['revision'] or 'unknown'}, on {self.gpu}. `scripts/gpu.sh report` writes this page from a session's results."]
        if self.about["emulated"]:
            lines.append("The emulation's times mean nothing.")
        elif not self.about["cutlass"]:
            lines.append("The runtime was built without CUTLASS.")
        machine = self.figures(1, "machine")
        rows = [(name, write_short(str(machine[name]), 400)) for name in ("gpus", "nvcc", "torch", "system", "processors", "libraries") if machine.get(name)]
        rows += [(name, f"{found['version']} in {found['path']}") for name, found in self.figures(1, "preflight").get("libraries", {}).items()
                 if "version" in found]
        text = "# What ran on a GPU\n\n" + " ".join(lines) + " The [Glossary](Glossary.md) explains the terms."
        self.sections.append(text + ("\n\n" + write_generated("machine", write_table(["", ""], rows)) if rows else ""))

    def add_steps(self):
        rows, counts, skipped = [], {}, {}
        for call in sorted(self.calls):
            for record in self.calls[call].values():
                counts[record["state"]] = counts.get(record["state"], 0) + 1
                if record["state"] == "skipped":
                    skipped.setdefault((call, record["reason"]), []).append(record["step"])
                    continue
                rows.append((f"{call}: {TITLES.get(call, '')}", record["step"], record["state"], f"{record['seconds']:.1f}",
                             f"{record['expected']:.0f}" if record.get("expected") else "", write_short("; ".join([record["reason"], *record.get("notes", [])]))))
        rows += [(f"{call}: {TITLES.get(call, '')}", ", ".join(names), "skipped", "", "", write_short(reason)) for (call, reason), names in skipped.items()]
        missing = [f"{call} ({title})" for call, title in TITLES.items() if call not in self.calls]
        intro = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) + "."
        intro += f" These calls did not run: {', '.join(missing)}." if missing else ""
        self.add("Steps", intro, write_table(["call", "step", "state", "seconds", "expected", "reason and notes"], rows))

    def add_failures(self):
        texts = []
        for call in sorted(self.calls):
            for record in self.calls[call].values():
                if record["state"] not in ("failed", "timed out"):
                    continue
                texts.append(f"Call {call}, `{record['step']}`: {write_short(record['reason'], 300)}")
                figures = record.get("figures", {})
                details = [f"{test['test']}: {test['message']}" for test in figures.get("failed", [])]
                details += [f"{case['case']}: {case['error']}" for case in (figures.get("cases") if isinstance(figures.get("cases"), list) else []) if not case["ok"]]
                details += figures.get("found", [])
                details += [json.dumps(line) for line in figures.get("lines", []) if "error" in line]
                details += [] if details else (record.get("output", "") + record.get("errors", "")).strip().splitlines()[-12:]
                texts.append("```text\n$ " + record["command"] + "\n" + "\n".join(details)[:4000].replace("```", "'''") + "\n```")
        if texts:
            self.add("Failures", "The command, and the end of what it printed.", "\n\n".join(texts))

    def add_correctness(self):
        rows = []
        for call in self.calls:
            for name, figures in self.find(call, ""):
                if "tests" in figures:
                    rows.append((call, name, f"{figures['tests']} tests", len(figures["failed"]), len(figures["skipped"]), "", figures.get("errors", "")))
                if isinstance(figures.get("cases"), list):
                    errors = [case["worst"] for case in figures["cases"] if case.get("worst") is not None]
                    rows.append((call, name, f"{len(figures['cases'])} plans", sum(not case["ok"] for case in figures["cases"]), "",
                                 f"{max(errors):.1e}" if errors else "", figures.get("errors", "")))
        if rows:
            self.add("Tests and plans", "Tests compare each kernel with the host's. Plans are compared with one rank on the host. The last column counts "
                     "what compute-sanitizer found.", write_table(["call", "step", "ran", "failed", "skipped", "largest error", "found"], rows))

    def add_products(self):
        """Adds a table with a row for each product and a column for each method."""
        lines = [line for step in ("ragged-gemm", "ragged-gemm-torch") for line in self.figures(2, step).get("lines", []) if "method" in line]
        cases, methods = {}, []
        for line in lines:
            if line["method"] not in methods:
                methods.append(line["method"])
            key = tuple(line.get(name) for name in ("model", "routing", "pass", "experts", "rows", "n", "k"))
            cases.setdefault(key, {})[line["method"]] = line.get("tflops")
        if not cases:
            return
        rows, wins = [], dict.fromkeys(methods, 0)
        for key, found in cases.items():
            timed = {method: value for method, value in found.items() if value}
            best = max(timed, key=timed.get) if timed else None
            wins[best] = wins.get(best, 0) + 1
            values = [("" if method not in found else "error" if not found[method] else f"**{found[method]:.0f}**" if method == best else f"{found[method]:.0f}")
                      for method in methods]
            rows.append((*key, *values, write_share(timed[best] * 1e12, self.flops) if best else ""))
        summary = ", ".join(f"{method} in {wins[method]}" for method in methods)
        self.add("Ragged products", f"TFLOP/s of each method, the best one in bold, and its share of the data sheet's peak. Best: {summary} of {len(rows)}.",
                 write_table(["model", "routing", "pass", "experts", "rows", "n", "k", *methods, "of peak"], rows))

    def add_layers(self):
        rows, names = [], ("loop", "grouped")
        cases = {key: case for step in ("layer", "layer-8192") for key, case in self.figures(2, step).get("results", {}).get("cases", {}).items()}
        for key, case in cases.items():
            model, tokens, routing = key.rsplit("-", 2)
            estimates = stages.ESTIMATES.get(f"{model}-{tokens}", ("", "", ""))
            torch = [f"{case[name]:.2f}x" if name in case else "error" if f"{name}_error" in case else "" for name in names]
            rows.append((model, tokens, routing, f"{case['load']:.2f}", f"{case['step'] * 1e3:.3f}", f"{case['eager'] * 1e3:.3f}", *estimates, f"{case['of_peak']:.0%}", f"{case['products']:.0%}",
                         f"{case['rest']:.2f}x", *torch))
        if rows:
            self.add("Layers against PyTorch", "[The benchmark](../benchmarks/README.md#a-layer-on-a-gpu) explains the columns. Before the session, "
                     "the step was expected to take the milliseconds of the next three columns: at least (by the data sheet), the plan, and "
                     "PyTorch. More than 1x means that the plan is faster than PyTorch.",
                     write_table(["model", "tokens", "routing", "max/mean", "ms", "eager ms", "floor", "plan expected", "PyTorch expected", "of cuBLAS", "products", "rest", "loop", "grouped"], rows))

    def add_ops(self):
        rows = []
        for name, figures in self.find(2, "ops-"):
            for op in figures.get("ops", [])[:14]:
                rate, flops = (op[key] / op["seconds"] if op["seconds"] else math.nan for key in ("bytes", "flops"))
                rows.append((name, op["op"], op["calls"], f"{op['seconds'] * 1e6:.1f}", f"{rate / 1e9:.0f}", write_share(rate, self.bandwidth),
                             f"{flops / 1e12:.1f}", write_share(flops, self.flops)))
        if rows:
            self.add("Ops", "The ops of a step that take longest, by events on the device. Bytes and FLOPs are the plan's, and shares are those of the data sheet.",
                     write_table(["plan", "op", "calls", "us", "GB/s", "of bandwidth", "TFLOP/s", "of peak"], rows))

    def add_kernels(self):
        rows = [(name, kernel["kernel"], kernel["launches"], f"{kernel['ns'] / 1e3:.1f}",
                 *(f"{kernel[key]:.0f}%" if key in kernel else "" for key in ("of_bandwidth", "of_compute")))
                for name, figures in self.find(2, "ncu-") for kernel in figures.get("kernels", [])[:14]]
        if rows:
            self.add("Kernels", "Measured by `ncu` at the clocks that the device has. Shares are of what the device can sustain.",
                     write_table(["plan", "kernel", "launches", "us", "of bandwidth", "of compute"], rows))

    def add_attention(self):
        torch = {(line["shape"], line["pass"]): line for line in self.figures(2, "attention-torch").get("lines", []) if "ms" in line}
        by_cudnn, rows = dict(self.find(2, "attention-(?!torch|own-)")), []
        for name, figures in self.find(2, "attention-own-"):
            seconds = [{op["op"]: op["seconds"] for op in taken.get("ops", [])} for taken in (by_cudnn.get(name, {}), figures)]
            for which, op in (("forward", "attention"), ("backward", "attention_grad")):
                cudnn, own, other = seconds[0].get(op), seconds[1].get(op), torch.get((name, which))
                best = min((value for value in (cudnn, own) if value), default=None)
                if best:
                    rate = other["tflops"] * other["ms"] / (best * 1e3) if other else None
                    rows.append((name, which, *(f"{value * 1e3:.3f}" if value else "" for value in (cudnn, own)), f"{other['ms']:.3f}" if other else "",
                                 *stages.ESTIMATES.get(f"{name} {which}", ("", "", ""))[:2],
                                 f"{other['ms'] / (best * 1e3):.2f}x" if other else "", f"{rate:.0f}" if rate else "",
                                 write_share(rate * 1e12, self.flops) if rate else ""))
        if rows:
            self.add("Attention against PyTorch", "The plan's attention by cuDNN and by MoePlan's own kernels. It is an error if cuDNN does not compute the "
                     "former. PyTorch runs scaled_dot_product_attention. More than 1x means that the faster of both is faster than PyTorch.",
                     write_table(["shape", "pass", "cuDNN ms", "own ms", "PyTorch ms", "floor", "cuDNN expected", "speed", "TFLOP/s", "of peak"], rows))

    def add_torch(self):
        rows = [(figures["ranks"], figures["torch"], f"{max(figures['errors'].values()):.1e}", f"{figures['ms']:.3f}" if figures["ms"] else "")
                for _, figures in self.find(2, "torch-") if "ranks" in figures]
        if rows:
            self.add("Layers in PyTorch", "A plan's layer among PyTorch's own work, on its stream and its communicators. Several processes share the GPU.",
                     write_table(["processes", "PyTorch", "largest error", "forward and backward ms"], rows))

    def add_whole_steps(self):
        rows = []
        for name, figures in self.find(2, "step-"):
            if "step_ms" in figures:
                milliseconds = figures["step_ms"]["median"]
                rate = figures["flops"] / milliseconds * 1e3
                rows.append((name, f"{figures['step_ms']['min']:.3f}", f"{milliseconds:.3f}", f"{rate / 1e12:.1f}", write_share(rate, self.flops)))
        if rows:
            self.add("Whole steps", "Training steps of small models, as one CUDA graph where the plan allows it, and without.",
                     write_table(["plan", "least ms", "median ms", "TFLOP/s", "of peak"], rows))

    def write(self):
        self.add_head()
        self.add_steps()
        for add in (self.add_failures, self.add_correctness, self.add_products, self.add_layers, self.add_ops, self.add_kernels,
                    self.add_attention, self.add_torch, self.add_whole_steps):
            add()
        return "\n\n".join(self.sections) + "\n"


def keep_profile(page, path):
    """Writes the profile that call 2 measured. Returns whether there was one."""
    profile = page.figures(2, "calibrate").get("profile")
    if not profile:
        return False
    profile = {**profile, "name": os.path.basename(path)[:-len(".json")] if path.endswith(".json") else os.path.basename(path)}
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(profile, file, indent=2)
        file.write("\n")
    print(f"wrote {path}")
    return True


def name_profile(gpu):
    model = re.search(r"\b[A-Z]{1,3}\d+\b", gpu)
    return os.path.join(ROOT, "share", "clusters", (model[0].lower() if model else "gpu") + ".json")


def main():
    parser = argparse.ArgumentParser(prog="gpu.sh report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="RESULTS")
    parser.add_argument("-o", "--output", metavar="FILE")
    parser.add_argument("--profile", metavar="FILE")
    options = parser.parse_args()
    page = Page(*load(options.results))
    about = page.about
    if about["emulated"] and not options.output:
        fail("docs/Gpu.md is only for results of a GPU: write the page of these results of the emulation by -o FILE")
    path = options.output or os.path.join(ROOT, "docs", "Gpu.md")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    text = page.write()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"wrote {path}")
    if options.profile or not about["emulated"]:
        if not keep_profile(page, options.profile or name_profile(page.gpu)):
            print("no profile was measured: call 2 has none", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
