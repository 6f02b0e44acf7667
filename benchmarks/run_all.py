#!/usr/bin/env python3
"""Runs all benchmarks, and writes their results to benchmarks/results and a summary to docs/Results.md. entries.py has the list and texts.

Usage: run_all.py --bin DIR --page docs/Results.md      runs entries without a result of this commit, then writes the pages
       run_all.py --page docs/Results.md                writes the pages from the existing results; other parts stay
       run_all.py --list                                names, seconds, needs

  --bin=DIR          folder of the tools, built from this checkout (preset release: build/release/bin)
  --out=DIR          keeps the results, in a folder for each commit (build/results). A result is one file, NAME.json, beside a folder of
                     that name with its pictures. Results from another machine can be copied there
  --parts=DIR        folder of the pages of single sections and their pictures (benchmarks/results)
  --only=NAME,..     these entries alone
  --again=NAME,..    these entries alone, even if they have results
  --busy=SHARE       skip an entry that measures times if other programs use more of the processors (0.1); 1 runs it anyway

After Ctrl-C, finished results are kept, and the next call goes on. If an entry fails, its result is kept as failed, with the end of its
output, and the other entries run. It does not run again on the same commit unless --again names it. Skipped entries are tried each
time: those that need a GPU if there is none, and those that end with status 77. The exit status is 1 if an entry has failed. The
commit is that of the checkout. If tracked files outside docs/ and benchmarks/results/ have changes, a hash of these is added.
"""
import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

from entries import ENTRIES, SECTIONS

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SKIPPED = 77
LAST_LINES = 30
CLAIM = re.compile("(ok|FAIL)  ")


# ------------------------------------------------------------------------------------------------------------ where it runs


def get_output(*command):
    """Standard output, or "" if there is no such program or it fails."""
    try:
        return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def get_commit():
    commit = get_output("git", "rev-parse", "--short", "HEAD") or "unknown"
    changes = get_output("git", "diff", "HEAD", "--", ".", ":!docs", ":!benchmarks/results")
    return commit + ("+" + hashlib.sha1(changes.encode()).hexdigest()[:6] if changes else "")


def describe_machine():
    """Class of the machine, without its name."""
    try:
        with open("/proc/cpuinfo") as file:
            model = re.search(r"model name\s*: (.*)", file.read())
        cores = len(os.sched_getaffinity(0))
    except (OSError, AttributeError):
        model, cores = None, os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpus = get_output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    return {"cpu": model.group(1).strip() if model else platform.machine(), "cores": cores, "memory_gib": round(memory), "gpus": gpus}


def describe_build(tools):
    """Build type of the tools, from their CMake cache, or ""."""
    try:
        with open(os.path.join(tools, "..", "CMakeCache.txt")) as file:
            cache = file.read()
    except OSError:
        return ""
    found = re.search(r"^CMAKE_BUILD_TYPE:\w+=(\w+)", cache, re.M)
    options = [text for name, text in (("ASSERTIONS", " with assertions"), ("SANITIZE", " with sanitizers"))
               if re.search(rf"^MOE_{name}:\w+=(?!OFF$|0$|$)", cache, re.M)]
    return (found.group(1) if found else "") + "".join(options)


class Others:
    """Use of the processors by other programs, from now on."""

    def __init__(self):
        self.begin = self.read()

    @staticmethod
    def read():
        """Seconds now, of all busy processors, and of our processes including ended ones."""
        try:
            with open("/proc/stat") as file:
                user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
        except (OSError, ValueError):
            return None
        return time.monotonic(), (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])

    def get_share(self):
        """Share of all processors, 0 to 1, or None if the system does not tell."""
        end = self.read()
        if not self.begin or not end:
            return None
        seconds, busy, ours = (now - before for now, before in zip(end, self.begin))
        return min(1, max(0, (busy - ours) / (max(seconds, 1e-3) * os.cpu_count())))


# ------------------------------------------------------------------------------------------------------------------ results


class Results:
    """Results in a folder."""

    def __init__(self, folder, commit):
        self.folder, self.commit = os.path.abspath(folder), commit

    def get_path(self, name, commit=None):
        """Path of an entry's folder. Its result has .json appended."""
        return os.path.join(self.folder, commit or self.commit, name)

    def load(self, name, commit=None):
        try:
            with open(self.get_path(name, commit) + ".json") as file:
                return json.load(file)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def save(self, record):
        path = self.get_path(record["name"]) + ".json"
        with open(path + ".new", "w") as file:
            json.dump(record, file, indent=1)
        os.replace(path + ".new", path)

    def find(self, name):
        """Newest result of any commit. A skipped one counts only if there is no other."""
        commits = sorted(os.listdir(self.folder)) if os.path.isdir(self.folder) else []
        records = filter(None, (self.load(name, commit) for commit in commits))
        return max(records, key=lambda record: (record["state"] != "skipped", record["time"]), default=None)

    def is_done(self, name):
        record = self.load(name)
        return bool(record) and record["state"] != "skipped"


# ---------------------------------------------------------------------------------------------------------------------- run


class Interrupted(Exception):
    """Ctrl-C, or a request to end."""


def show_time(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def fill(command, tools, out):
    return [word.format(bin=tools, build=os.path.dirname(tools), out=out) for word in shlex.split(command)]


def show_command(command, name):
    """The command as the page shows it, independent of the given folders."""
    return shlex.join(fill(command, "build/release/bin", f"build/results/{name}"))


def clean(text, tools, results, name):
    """The text without folders and the name of the machine."""
    names = {results.get_path(name): f"build/results/{name}", tools: "build/release/bin", os.path.dirname(tools): "build/release",
             ROOT + "/": "", os.path.expanduser("~"): "~"}
    for path, instead in names.items():
        if len(path) > 1:
            text = text.replace(path, instead)
    text = re.sub(re.escape(tempfile.gettempdir()) + r"/\w+", "/tmp/..", text)
    host = platform.node()
    return re.sub(rf"\b{re.escape(host)}\b", "this-machine", text) if host not in ("", "localhost") else text


def get_last_lines(text):
    return "\n".join(text.splitlines()[-LAST_LINES:])


def find_missing(entry, busy):
    """Missing needs of the entry on this machine, or ""."""
    for need in entry.needs:
        if need == "gpu":
            if not describe_machine()["gpus"]:
                return "there is no GPU here"
        elif need == "quiet":
            others = Others()
            time.sleep(1 if busy < 1 else 0)
            share = others.get_share()
            if share is not None and share > busy:
                return f"others use {share:.0%} of the processors"
        elif not shutil.which(need):
            return f"there is no {need} here"
    return ""


def end_group(process):
    """Ends a command and all processes that it has started."""
    for number, seconds in ((signal.SIGTERM, 5), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def run_command(command, output, errors, tick):
    """Exit status of the command. `tick` is called every second."""
    if command[0].endswith(".py"):
        command = [sys.executable, "-B", *command]
    Interrupts.held = True
    try:
        # The command has a group of its own, so that Ctrl-C reaches only this script, which can end all processes of the command.
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True)
    except OSError as error:
        Interrupts.release()
        errors.write(f"error: {command[0]}: {error.strerror}\n")
        return 127
    try:
        Interrupts.release()
        while True:
            try:
                return process.wait(1)
            except subprocess.TimeoutExpired:
                tick()
    except BaseException:
        end_group(process)
        raise


def run_entry(entry, tools, results, tick):
    """Runs the entry's commands and returns its record."""
    folder = results.get_path(entry.name)
    others, begin, status = Others(), time.monotonic(), 0
    with tempfile.TemporaryFile("w+", errors="replace") as output, tempfile.TemporaryFile("w+", errors="replace") as errors:
        for command in entry.commands:
            status = status or run_command(fill(command, tools, folder), output, errors, tick)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(clean(file.read().rstrip(), tools, results, entry.name))
    record = {"state": {0: "done", SKIPPED: "skipped"}.get(status, "failed"), "status": status,
              "seconds": round(time.monotonic() - begin, 1), "others": others.get_share(), "output": texts[0],
              "pictures": [name for name in entry.pictures if os.path.exists(os.path.join(folder, name))]}
    if status:
        record["errors"] = get_last_lines(texts[1])
    if status == SKIPPED:
        record["reason"] = (texts[1] or texts[0] or "it has ended with status 77").splitlines()[-1]
    return record


class Progress:
    """A line for each entry. On a terminal it is rewritten."""

    def __init__(self, entries, results):
        self.results, self.left, self.count = results, [entry for entry in entries if not results.is_done(entry.name)], len(entries)
        self.number, self.begin = 0, 0

    def guess(self, entry):
        """Estimated seconds: as long as last time, or as the list says."""
        record = self.results.find(entry.name)
        return record["seconds"] if record and record["state"] == "done" else entry.seconds

    def start(self, entry):
        self.number, self.begin = self.number + 1, time.monotonic()
        self.title = f"[{self.number}/{self.count}] {entry.name}"
        self.seconds = self.guess(entry)
        self.left = [it for it in self.left if it.name != entry.name]
        self.after = sum(map(self.guess, self.left))

    def tick(self):
        if sys.stdout.isatty():
            passed = time.monotonic() - self.begin
            print(f"\r\033[K{self.title}: {show_time(passed)} of about {show_time(self.seconds)}; all in about "
                  f"{show_time(max(0, self.seconds - passed) + self.after)}", end="", flush=True)

    def finish(self, text):
        start = "\r\033[K" if sys.stdout.isatty() else ""
        print(f"{start}{self.title}: {text}; the others take about {show_time(self.after)}", flush=True)


def describe_state(record):
    if record["state"] == "skipped":
        return f"skipped: {record['reason']}"
    return f"{record['state']} in {show_time(record['seconds'])}" + (f", status {record['status']}" if record["status"] else "")


def run_entries(entries, tools, results, again=(), busy=0.1):
    """Runs entries without a result of this commit, and those of `again`. Returns whether none has failed."""
    tools, ok = os.path.abspath(tools), True
    for name in again:
        if os.path.exists(results.get_path(name) + ".json"):
            os.remove(results.get_path(name) + ".json")
        shutil.rmtree(results.get_path(name), ignore_errors=True)
    common = {"commit": results.commit, "build": describe_build(tools), "machine": describe_machine()}
    progress = Progress(entries, results)
    for entry in entries:
        progress.start(entry)
        if results.is_done(entry.name):
            record = results.load(entry.name)
            progress.finish(f"has {record['state']} before on this commit")
        else:
            os.makedirs(results.get_path(entry.name), exist_ok=True)
            reason = find_missing(entry, busy)
            progress.tick()
            record = {"state": "skipped", "reason": reason} if reason else run_entry(entry, tools, results, progress.tick)
            now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
            results.save({"name": entry.name, **common, "time": now, **record,
                          "commands": [show_command(command, entry.name) for command in entry.commands]})
            progress.finish(describe_state(record))
        ok &= record["state"] != "failed"
    return ok


# --------------------------------------------------------------------------------------------------------------------- page


def describe_origin(entry, record):
    """Origin of a figure: commit, machine class, date."""
    machine = record["machine"]
    commit, _, changes = record["commit"].partition("+")
    where = ", ".join([f"{machine['cores']} cores of {machine['cpu']}", f"{machine['memory_gib']} GiB", *machine["gpus"]])
    parts = [f"Commit {commit}" + (" with changes" if changes else ""), record["build"], where, record["time"][:10],
             f"{record['seconds']:g} s"]
    if "quiet" in entry.needs and record["others"] is not None:
        parts.append(f"others used {record['others']:.0%} of the processors")
    return "; ".join(filter(None, parts))


def fence(text):
    return f"```text\n{text}\n```\n"


def select(output, pattern):
    """Paragraphs in which a line matches, and all claims of the others."""
    parts = [part.strip("\n") for part in re.split(r"\n[ \t]*\n", output)]
    claims = lambda part: "\n".join(filter(CLAIM.match, part.splitlines()))
    return "\n\n".join(filter(None, (part if re.search(pattern, part, re.M) else claims(part) for part in parts)))


def show_output(entry, record):
    """Shows the paragraphs that matter, or the end of a failure."""
    output = record["output"].strip("\n")
    if record["state"] == "failed":
        output = get_last_lines("\n".join(filter(None, [output, record["errors"]])))
        return f"**Failed** with status {record['status']}. The end of its output:\n\n" + fence(output)
    if entry.last:
        found = [[line for line in output.splitlines() if re.search(pattern, line)][-1:] for pattern in entry.last]
        return fence("\n".join([line for lines in found for line in lines] + list(filter(CLAIM.match, output.splitlines()))))
    return fence(entry.show and select(output, entry.show) or output)


def show_entry(entry, record):
    """Makes a part of a page."""
    parts = [f"## {entry.title}\n", entry.text + "\n"]
    parts += [f"![{entry.title}](images/{name})" for name in record["pictures"]]
    parts += [""] * bool(record["pictures"]) + [show_output(entry, record)]
    if entry.after:
        parts.append(entry.after + "\n")
    commands = ", then ".join(f"`{command}`" for command in record["commands"])
    return "\n".join([*parts, f"{describe_origin(entry, record)}: {commands}\n"])


def get_anchor(title):
    """Anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def get_file(section):
    """Names the page of a section."""
    return get_anchor(section) + ".md"


def read_parts(path):
    """Reads the parts of a section's page, by title. A part stays if this machine has no result for it."""
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return {title: f"## {title}\n{text}".rstrip("\n") + "\n"
                for title, text in re.findall(r"^## (.*)\n(?s:(.*?))(?=^## |\Z)", file.read(), re.M)}


def summarise(part):
    """Cells of the summary's table: the claims that hold, an example with a figure, commit and day."""
    claims = list(dict.fromkeys(re.findall(r"^(?:ok|FAIL)  .*$", part, re.M)))
    holding = [claim[2:].strip() for claim in claims if claim.startswith("ok")]
    example = next((claim for claim in holding if re.search(r"\d", claim.rpartition(": ")[2]) and ": " in claim), next(iter(holding), ""))
    origin = re.search(r"^Commit (\w+).*?; (\d{4}-\d\d-\d\d);", part, re.M)
    count = "**failed**" if "**Failed**" in part else f"{len(holding)} of {len(claims)}" if claims else ""
    return [count, example.replace("|", "\\|"), *(origin.groups() if origin else ("", ""))]


def write_pages(path, folder, entries, sections, results, home=None):
    """Writes a page for each section to `folder`, with its pictures, and the summary to `path`. `home` is the root, seen from there."""
    folder, link = os.path.abspath(folder), os.path.relpath(folder, os.path.dirname(os.path.abspath(path)))
    home = home or os.path.relpath(ROOT, folder)
    os.makedirs(os.path.join(folder, "images"), exist_ok=True)
    rows, missing = [], []
    for section, text in sections.items():
        file, shown = os.path.join(folder, get_file(section)), []
        old = read_parts(file)
        for entry in (it for it in entries if it.section == section):
            record = results.find(entry.name)
            if record and record["state"] != "skipped":
                part = show_entry(entry, record)
                for name in record["pictures"]:
                    shutil.copyfile(os.path.join(results.get_path(entry.name, record["commit"]), name), os.path.join(folder, "images", name))
            elif entry.title in old:
                part = old[entry.title]
            else:
                missing.append(f"{entry.title} (`{entry.name}`)")
                continue
            shown.append(part)
            rows.append([section, f"[{entry.title}]({link}/{get_file(section)}#{get_anchor(entry.title)})", *summarise(part)])
        if shown:
            head = [f"# {section}\n", text + "\n", f"[Results]({home}/docs/Results.md) says how to read this page.\n"]
            with open(file, "w") as page:
                page.write("\n".join([*head, *shown]))
    table = "\n".join("| " + " | ".join(row) + " |" for row in [["section", "part", "claims that hold", "for example", "commit", "day"], ["---"] * 6, *rows])
    absent = f"These benchmarks have no result yet: {'; '.join(missing)}." if missing else "All benchmarks have a result."
    with open(path, "w") as page:
        page.write(SUMMARY.format(table=table, missing=textwrap.fill(absent, 140), readme=f"{os.path.dirname(link)}/README.md"))


SUMMARY = """# Results

This page lists the [benchmarks]({readme}) and their claims. `benchmarks/run_all.py --bin build/release/bin --page docs/Results.md`
runs them, and writes this page and the pages behind its links. Those pages have the figures, the explanations, and for each part the
commit, the build, the machine, the day, the duration and the command. The [Glossary](Glossary.md) defines the terms.

*Simulated* means that this compiler compiles the plans, and `moe-sim` times them on a [profile](Clusters.md) of a paper's cluster. Nobody
has run them there. A line that begins with ok or FAIL states a claim, and says whether the run confirmed it. The papers' figures are not
claims: they stand next to MoePlan's, and the text explains the differences. [Validation](Validation.md) compares whole steps with published
runs.

{table}

{missing}
"""


# --------------------------------------------------------------------------------------------------------------------- main


def parse(arguments, names):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    list_of_names = lambda text: [name for name in text.split(",") if name]
    parser.add_argument("--bin")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "results"))
    parser.add_argument("--only", type=list_of_names, default=[])
    parser.add_argument("--again", type=list_of_names, default=[])
    parser.add_argument("--busy", type=float, default=0.1)
    parser.add_argument("--page")
    parser.add_argument("--parts", default=os.path.join(ROOT, "benchmarks", "results"))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    for name in options.only + options.again:
        if name not in names:
            parser.error(f"expected some of {', '.join(names)}, but got '{name}'")
    if not (options.bin or options.page or options.list):
        parser.error("expected --bin, --page or --list")
    if options.bin and not os.path.isdir(options.bin):
        parser.error(f"--bin: there is no folder '{options.bin}'")
    return options


class Interrupts:
    """Handler for SIGINT and SIGTERM that raises Interrupted. While a process is being created it waits, because the process could not
    be ended otherwise."""

    held = pending = False

    @classmethod
    def handle(cls, number, frame):
        cls.pending = True
        if not cls.held:
            raise Interrupted

    @classmethod
    def release(cls):
        cls.held = False
        if cls.pending:
            raise Interrupted


def main(arguments=None, entries=None, sections=None):
    entries, sections = entries or ENTRIES, sections or SECTIONS
    options = parse(arguments, [entry.name for entry in entries])
    wanted = [entry for entry in entries if not options.only + options.again or entry.name in options.only + options.again]
    if options.list:
        print("\n".join(f"{entry.name:<22}{entry.seconds:>6} s  {', '.join(entry.needs)}".rstrip() for entry in wanted))
        return 0
    results, status = Results(options.out, get_commit()), 0
    if options.bin:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, Interrupts.handle)
        try:
            status = 0 if run_entries(wanted, options.bin, results, options.again, options.busy) else 1
        except Interrupted:
            print("\ninterrupted: what is done is kept, and the next call goes on", file=sys.stderr)
            status = 130
    if options.page:
        write_pages(options.page, options.parts, entries, sections, results)
    return status


if __name__ == "__main__":
    sys.exit(main())
