#!/usr/bin/env python3
"""Runs one of the two calls of a GPU session, in the folder that `gpu.sh pack` made.

Usage: gpu.sh run CALL [RESULTS]     RESULTS is $OUT unless given, or ./gpu-results

Call 1 takes at most 2 minutes: libraries, versions, and each kernel. Call 2 takes at most 8 minutes: programs, then figures by worth.
A call writes RESULTS/callN.json, with command, exit status, seconds and figures of each step, and appends all output to RESULTS/gpu.log.
It prints a line when a step ends. Each step has a time-out, and its failure does not affect other steps. When the time of the call is up,
no step is left running. The same call again runs the remaining steps: steps that ran are not run again, unless with --again or if they ran
with another folder. Call 2 also writes RESULTS/profile.json, the cluster profile that moe-calibrate measured, and RESULTS/products.json,
the fastest methods of products of experts. Later steps use this table. --list prints the steps of both calls and their times.

Exit status: 0 all steps passed, or had a reason not to run; 1 some failed; 2 bad usage; 3 some are left.
"""
import argparse
import concurrent.futures
import glob
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

import figures
import stages

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT_OUTPUT, LOGGED_OUTPUT, LOG_BYTES = 4000, 60000, 4 << 20
# Kept file with which a step of this name resumes.
GOES_ON = {"layer": "layer.json"}
# Programs that this script has started and that still run.
RUNNING = set()
# Prints the folders of Python's packages in which NVIDIA's libraries may be. It imports neither.
PACKAGES = """
from importlib.util import find_spec
for name in ("nvidia", "torch"):
    found = find_spec(name)
    for folder in found.submodule_search_locations or [] if found else []:
        print(folder)
"""


def fail(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(2)


def find_pack(given):
    """Folder of these scripts, or the default folder of `pack`."""
    roots = [given] if given else [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "..", "build", "gpu-pack")]
    for root in roots:
        path = os.path.join(root, "pack.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return stages.Pack(os.path.abspath(root), json.load(file))
    fail(f"'{roots[-1]}' is no folder that `gpu.sh pack` made: it has no pack.json")


def unpack(pack):
    """Unpacks programs and libraries, once. Another archive has another id."""
    done = pack.path("bin", ".unpacked-" + pack.about["id"])
    if os.path.exists(done):
        return
    try:
        with tarfile.open(pack.path(stages.ARCHIVE)) as tar:
            tar.extractall(pack.root)
        open(done, "w").close()
    except OSError as error:
        fail(f"cannot unpack '{pack.path(stages.ARCHIVE)}' beside it: {error}; copy the folder to where it can be written")


def find_package_folders():
    """Folders of libraries in Python's packages: those of CUDA, cuBLAS, cuDNN and NCCL are often there alone."""
    python = shutil.which("python3")
    done = subprocess.run([python, "-c", PACKAGES], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) if python else None
    packages = done.stdout.split() if done else []
    # Beside a package, NVIDIA's packages are folders of `nvidia`.
    return [folder for package in packages for pattern in ("*/lib", "../nvidia/*/lib", "lib")
            for folder in sorted(glob.glob(os.path.join(package, pattern)))]


def get_environment(pack):
    """Environment of programs. Their own rpath finds libraries of the folder. CUDA's libraries are those of the machine."""
    env = {key: value for key, value in os.environ.items() if key not in ("MOERT_BACKENDS", "MOERT_GUARD", "MOERT_PRODUCTS", "MOERT_CUDNN")}
    nvcc = shutil.which("nvcc")
    folders = find_package_folders()
    folders += [os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "lib64")] if nvcc else []
    folders += ["/usr/local/cuda/lib64"]
    # Python's module of the runtime has no rpath to the folder.
    found = [pack.path("lib"), *dict.fromkeys(os.path.realpath(folder) for folder in folders if os.path.isdir(folder))]
    if pack.is_emulated:
        found = found[:1]
    path = [env["LD_LIBRARY_PATH"]] if env.get("LD_LIBRARY_PATH") else []
    if found or path:
        env["LD_LIBRARY_PATH"] = ":".join([*path, *found])
    return env


def check_device(pack):
    """Checks that there is a GPU. Without one, all steps would fail one by one."""
    if pack.is_emulated:
        return
    if not shutil.which("nvidia-smi"):
        fail("nvidia-smi is not on this machine: the folder needs a machine with an NVIDIA GPU")
    done = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    if done.returncode or "GPU" not in done.stdout:
        fail(f"this machine has no NVIDIA GPU: nvidia-smi -L says: {done.stdout.strip()}")


def shorten(text, most):
    if len(text) <= most:
        return text
    head = most // 4
    return text[:head] + f"\n... {len(text) - most} characters are left out ...\n" + text[head - most:]


def end_group(process):
    """Ends the processes that a step has started and left running, too."""
    RUNNING.discard(process)
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


def run_command(command, env, timeout):
    """Exit status (None after a time-out), standard output, standard error."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, start_new_session=True)
        except OSError as error:
            return 127, "", f"{command[0]}: {error}"
        RUNNING.add(process)
        try:
            status = process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end_group(process)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        return (status, *texts)


def take_figures(step, output, work):
    """Figures of a step. A step that broke off may have left damaged files."""
    try:
        return step.take(output, work)
    except (ValueError, KeyError, TypeError, IndexError, OSError) as error:
        return {"error": f"no figures: {type(error).__name__}: {error}"}


def judge(step, status, limit, taken, errors):
    """State and reason."""
    if status is None:
        return ("timed out", f"did not end within {limit:.0f} s")
    if status not in step.passed:
        sent = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        # The program's own message is closer to the cause than the missing figures.
        said = errors.strip().splitlines()[-1][:300] if errors.strip() else taken.get("error", "")
        return ("failed", sent + (f": {said}" if said else ""))
    return ("failed", taken["error"]) if "error" in taken else ("passed", "")


def describe(record):
    """The line of a step."""
    parts = [figures.summarise(record.get("figures", {})), record["reason"], *record.get("notes", [])]
    text = "; ".join(part for part in parts if part)
    seconds = f"{record['seconds']:.1f} s" + (f" of {record['expected']:.0f} expected" if record["seconds"] else "")
    return f"{record['state']:<9} {record['step']} {seconds}" + (f": {text[:400]}" if text else "")


class Session:
    def __init__(self, pack, options):
        self.pack, self.call, self.results, self.again = pack, options.call, options.results, options.again
        self.only, self.longest = options.only, options.longest
        self.path = os.path.join(self.results, f"call{self.call}.json")
        self.deadline = time.monotonic() + stages.CALL_SECONDS[self.call]
        self.env = get_environment(pack)
        self.before = self.load()

    def load(self):
        """Records of steps that ran with this folder, by name."""
        if not os.path.exists(self.path):
            return {}
        with open(self.path, encoding="utf-8") as file:
            stored = json.load(file)
        if stored["pack"] != self.pack.about["id"]:
            print(f"'{self.path}' is of another folder: its steps run again")
            return {}
        return {record["step"]: record for record in stored["steps"]}

    def save(self, records):
        stored = {"call": self.call, "pack": self.pack.about["id"], "about": self.pack.about, "steps": records}
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(self.hide_folder(json.dumps(stored, indent=1)))
        os.replace(self.path + ".new", self.path)

    def hide_folder(self, text):
        """Replaces the path of the folder, which is private."""
        return text.replace(self.pack.root, ".")

    def log(self, record, output):
        path = os.path.join(self.results, "gpu.log")
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES:
            return
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"== call {self.call}, {record['step']}: {record['state']} {record['reason']}\n$ {record['command']}\n{self.hide_folder(output)}\n")

    def is_done(self, step):
        record = self.before.get(step.name)
        # A step that resumes by itself also runs for its remaining part.
        return record and record["state"] in ("passed", "failed", "timed out") and not record.get("figures", {}).get("left") and not self.again

    def run_step(self, step, work):
        left = self.deadline - time.monotonic()
        reason = stages.find_missing(self.pack, step)
        command = [word.replace("{work}", work) for word in step.command]
        record = {"step": step.name, "command": self.hide_folder(shlex.join(command)).replace(work, "WORK"), "rc": None, "seconds": 0,
                  "expected": step.expected}
        if reason:
            return {**record, "state": "skipped", "reason": reason}, ""
        if left < min(step.timeout, 20):
            return {**record, "state": "left", "reason": "time was up"}, ""
        self.restore(step, work)
        limit, begin = min(step.timeout, left, self.longest), time.monotonic()
        status, output, errors = run_command(command, {**self.env, **self.get_choices(step), **step.env}, limit)
        taken = take_figures(step, output, work)
        state, reason = judge(step, status, limit, taken, errors)
        # Measured figures are kept, and the next call resumes.
        if state == "timed out" and (limit < min(step.timeout, self.longest) or step.name in GOES_ON and "results" in taken):
            state = "left"
        notes = sorted({line for line in errors.splitlines() if line.startswith(("moert: note", "moert: warning"))})
        record.update(rc=status, notes=notes[:5], seconds=round(time.monotonic() - begin, 3), state=state, reason=reason, figures=taken,
                      env=step.env, output=shorten(output, KEPT_OUTPUT), errors=shorten(errors, KEPT_OUTPUT))
        return record, shorten(output, LOGGED_OUTPUT) + shorten(errors, LOGGED_OUTPUT)

    def get_choices(self, step):
        """Table of the fastest methods, after it was measured. All other steps use it."""
        table = os.path.abspath(os.path.join(self.results, "products.json"))
        return {"MOERT_PRODUCTS": table} if step.name != "products" and os.path.exists(table) else {}

    def restore(self, step, work):
        """Restores earlier measurements of cuda_layer.py."""
        taken = self.before.get(step.name, {}).get("figures", {})
        if step.name in GOES_ON and "results" in taken and not self.again:
            with open(os.path.join(work, GOES_ON[step.name]), "w", encoding="utf-8") as file:
                json.dump(taken["results"], file)

    def run_in_folder(self, step):
        with tempfile.TemporaryDirectory(prefix="gpu-step-") as work:
            return self.run_step(step, work)

    def run(self):
        steps = stages.list_steps(self.pack, self.call)
        records = {step.name: self.before[step.name] for step in steps if step.name in self.before}
        # A step without a group is a group of its own.
        for _, group in itertools.groupby(steps, lambda step: step.group or step.name):
            begun = []
            for step in group:
                if self.only and not re.search(self.only, step.name):
                    continue
                if self.is_done(step):
                    print(f"done      {step.name} ({self.before[step.name]['state']} before)")
                else:
                    begun.append(step)
            with concurrent.futures.ThreadPoolExecutor(max(len(begun), 1)) as pool:
                for future in concurrent.futures.as_completed([pool.submit(self.run_in_folder, step) for step in begun]):
                    record, output = future.result()
                    records[record["step"]] = record
                    print(describe(record), flush=True)
                    self.log(record, output)
                    self.save([records[step.name] for step in steps if step.name in records])
                    self.keep_measured(record)
        return [records[step.name] for step in steps if step.name in records]

    def keep_measured(self, record):
        """Keeps files of moe-calibrate that other programs read. They are complete, also if their step was cut off."""
        name = {"calibrate": "profile", "products": "products"}.get(record["step"])
        if name in record.get("figures", {}):
            with open(os.path.join(self.results, name + ".json"), "w", encoding="utf-8") as file:
                json.dump(record["figures"][name], file, indent=2)
                file.write("\n")


def end_all(number, frame):
    for process in list(RUNNING):
        end_group(process)
    os._exit(128 + number)


def main():
    parser = argparse.ArgumentParser(prog="gpu.sh run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("call", type=int, choices=stages.CALL_SECONDS)
    parser.add_argument("results", nargs="?", default=os.environ.get("OUT") or "gpu-results")
    parser.add_argument("--before", metavar="FOLDER", help="results of earlier calls, which are copied to RESULTS first")
    parser.add_argument("--again", action="store_true", help="run steps again that ran before")
    parser.add_argument("--only", metavar="PATTERN", help="run only steps whose name matches this regular expression")
    parser.add_argument("--list", action="store_true", help="print the steps of both calls and do nothing else")
    parser.add_argument("--longest", type=float, default=max(stages.CALL_SECONDS.values()), metavar="SECONDS", help="end each step after this time at the latest")
    parser.add_argument("--pack", metavar="FOLDER", help="the packed folder (default: the folder of this script, or build/gpu-pack)")
    options = parser.parse_args()
    # The end of this script also ends its step.
    signal.signal(signal.SIGTERM, end_all)
    pack = find_pack(options.pack)
    if options.list:
        print(stages.describe(pack))
        return 0
    check_device(pack)
    unpack(pack)
    os.makedirs(options.results, exist_ok=True)
    for name in sorted(os.listdir(options.before)) if options.before else []:
        if re.fullmatch(r"call\d\.json|gpu\.log|(profile|products)\.json", name) and not os.path.exists(os.path.join(options.results, name)):
            shutil.copy(os.path.join(options.before, name), options.results)
    states = [record["state"] for record in Session(pack, options).run()]
    counts = {state: states.count(state) for state in sorted(set(states))}
    print(f"call {options.call}: " + ", ".join(f"{count} {state}" for state, count in counts.items()))
    return 1 if {"failed", "timed out"} & set(states) else 3 if "left" in states else 0


if __name__ == "__main__":
    sys.exit(main())
