"""Takes figures from the output of the steps of a GPU session. Each function takes a step's files and returns a dictionary.

A figure `error` makes the step fail. No figure here needs more than Python's own library.
"""
import csv
import json
import os
import re
import statistics


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def summarise(figures):
    """The figures of a step that fit into its line."""
    if "tests" in figures:
        return f"{figures['tests']} tests, {len(figures['failed'])} failed"
    if "cases" in figures and isinstance(figures["cases"], list):
        worst = [case["worst"] for case in figures["cases"] if case.get("worst") is not None]
        failed = [case["case"] for case in figures["cases"] if not case["ok"]]
        return f"{len(figures['cases'])} cases, {len(failed)} failed" + (f", largest error {max(worst):.1e}" if worst else "") + "".join(
            f"; {name}" for name in failed[:3])
    if "libraries" in figures and isinstance(figures["libraries"], dict):
        return ", ".join(f"{name} {found.get('version', 'missing')}" for name, found in figures["libraries"].items())
    if "results" in figures:
        return ", ".join(f"{key} {case['step'] * 1e3:.2f} ms ({case['eager'] * 1e3:.2f} eager)" + "".join(
            f" {form} {case[form]:.2f}x" for form in ("grouped",) if form in case) for key, case in figures["results"]["cases"].items())
    if "step_ms" in figures:
        median = figures["step_ms"] if isinstance(figures["step_ms"], float) else figures["step_ms"]["median"]
        ops = {op["op"]: op for op in figures.get("ops", []) if op["op"] in ("attention", "attention_grad")}
        return f"step {median:.3f} ms" + "".join(f", {name} {op['seconds'] * 1e3:.3f} ms" for name, op in ops.items())
    if "kernels" in figures:
        return f"{len(figures['kernels'])} kernels"
    return figures.get("summary", "")


def take_json_lines(output, folder):
    """The JSON objects among the lines of standard output."""
    lines = []
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                lines.append(json.loads(line))
            except ValueError:
                return {"lines": lines, "error": f"expected a JSON object but got {line[:200]!r}"}
    return {"lines": lines, "summary": f"{len(lines)} lines", **({} if lines else {"error": "expected lines of JSON objects but got none"})}


def take_json(output, folder):
    """The JSON object in standard output."""
    try:
        return json.loads(output)
    except ValueError as error:
        return {"error": f"expected a JSON object but got {output[:200]!r}: {error}"}


def take_tests(output, folder):
    """GoogleTest's own report. A step whose tests all skip themselves fails."""
    path = os.path.join(folder, "tests.json")
    if not os.path.exists(path):
        return {"error": "the program ended before it wrote its report"}
    # GoogleTest before 1.13 writes no comma before the failures outside of tests.
    report = json.loads(re.sub(r'\}(\s*\{\s*"name": "NonTestSuiteFailure")', r"},\1", read(path)))
    cases = [(f"{suite['name']}.{case['name']}", case) for suite in report["testsuites"] for case in suite["testsuite"]]
    # If the environment skips all tests, GoogleTest counts them as passed, but without a time.
    ran = [(name, case) for name, case in cases if case["status"] == "RUN" and not case["timestamp"].startswith("1970")]
    failed = [{"test": name, "message": case["failures"][0]["failure"][:1000]} for name, case in ran if case.get("failures")]
    skipped = [name for name, case in ran if case.get("result") == "SKIPPED"]
    figures = {"tests": len(ran), "failed": failed, "skipped": skipped}
    if not ran or len(skipped) == len(ran):
        said = [line for line in output.splitlines() if line and not re.search(r"^(Running main|Failed$|\[)|: (Skipped|Failure)$", line)]
        figures["error"] = f"no test ran: {' '.join(said)[:300]}"
    return figures


def take_cases(output, folder):
    """Records of replay.py."""
    path = os.path.join(folder, "cases.json")
    records = [json.loads(line) for line in read(path).splitlines()] if os.path.exists(path) else []
    return {"cases": records, **({} if records else {"error": "no case ran"})}


def take_findings(output, folder):
    """Findings of compute-sanitizer. The step fails if it checked nothing."""
    summaries = [int(number) for number in re.findall(r"^=+ ERROR SUMMARY: (\d+) error", output, re.M)]
    summaries += [int(number) for number in re.findall(r"^=+ RACECHECK SUMMARY: (\d+) hazard", output, re.M)]
    found = [line.lstrip("= ") for line in output.splitlines() if re.match(r"=+ (Invalid|Uninitialized|Barrier|Error|Program hit|(ERROR|WARN).*hazard)", line)]
    return {"errors": sum(summaries), "programs": len(summaries), "found": found[:20]}


def take_tests_and_findings(output, folder):
    return {**take_tests(output, folder), **judge_findings(take_findings(output, folder))}


def take_cases_and_findings(output, folder):
    """Under a tool, only its findings are printed with failing cases. A finding has its own exit status."""
    figures = take_cases(output, folder)
    found = take_findings("\n".join(case.get("error", "") for case in figures["cases"]), folder)
    return {**figures, **{key: found[key] for key in ("errors", "found")}}


def judge_findings(findings):
    if not findings["programs"]:
        return {**findings, "error": "compute-sanitizer printed no summary"}
    return findings


def take_layer(output, folder):
    """Figures of cuda_layer.py. A missed goal is a figure, a wrong result a failure."""
    path = os.path.join(folder, "layer.json")
    if not os.path.exists(path):
        return {"error": "no case was measured: " + output.strip()[-300:]}
    results = json.loads(read(path))
    wrong = [f"{name}: {entry['plan']['error']}" for name, entry in results["verify"].items() if "error" in entry["plan"]]
    table = [line for line in output.splitlines() if line.strip()]
    return {"results": results, "table": table, "left": "cases are left" in output, **({"error": "; ".join(wrong)} if wrong else {})}


def take_profile(output, folder):
    path = os.path.join(folder, "profile.json")
    return {"profile": json.loads(read(path))} if os.path.exists(path) else {"error": "no profile was written"}


def take_products(output, folder):
    path = os.path.join(folder, "products.json")
    return {"products": json.loads(read(path))} if os.path.exists(path) else {"error": "no table was written"}


def take_ops(output, folder):
    """Time, bytes and FLOPs of each kind of op in the traced step."""
    report, ops = json.loads(output), {}
    for event in json.loads(read(os.path.join(folder, "trace.json")))["traceEvents"]:
        if event.get("ph") != "X":
            continue
        op = ops.setdefault(event["name"], {"op": event["name"], "calls": 0, "seconds": 0.0, "bytes": 0.0, "flops": 0.0})
        op["calls"] += 1
        op["seconds"] += event["dur"] * 1e-6
        for key in ("bytes", "flops"):
            op[key] += event["args"].get(key) or 0
    return {"step_ms": report["step_ms"]["median"], "ops": sorted(ops.values(), key=lambda op: -op["seconds"])}


def take_step(output, folder):
    report = json.loads(output)
    return {"step_ms": report["step_ms"], "flops": report["flops"], "backend": report["backend"], "other_device_bytes": report["other_device_bytes"]}


NCU = {"gpu__time_duration.sum": "ns", "dram__bytes.sum": "bytes", "dram__throughput.avg.pct_of_peak_sustained_elapsed": "of_bandwidth",
       "sm__throughput.avg.pct_of_peak_sustained_elapsed": "of_compute"}
UNITS = {"nsecond": 1, "ns": 1, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9,
         "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "KB": 1e3, "MB": 1e6, "GB": 1e9, "B": 1, "%": 1}


def take_kernels(output, folder):
    """A table of ncu (`--csv --page raw`): a row of names, a row of units, and a row for each launch."""
    lines = output.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        text = next((line for line in lines if "ERR_NVGPUCTRPERM" in line), output.strip()[-300:])
        return {"error": f"expected ncu's table but got: {text}"}
    names, units, *rows = csv.reader(line for line in lines[begin:] if line.startswith('"'))
    kernels = {}
    for row in rows:
        launch = dict(zip(names, row))
        kernel = kernels.setdefault(re.sub(r"[(<].*", "", launch["Kernel Name"]), {short: [] for short in NCU.values()})
        for metric, short in NCU.items():
            if metric in launch:
                factor = UNITS.get(units[names.index(metric)], 1)
                kernel[short].append(float(launch[metric].replace(",", "")) * factor)
    return {"kernels": sorted(({"kernel": name, "launches": len(values["ns"]), "ns": sum(values["ns"]),
                                **{short: statistics.mean(values[short]) for short in NCU.values() if short != "ns" and values[short]}}
                               for name, values in kernels.items()), key=lambda kernel: -kernel["ns"])}
