#!/usr/bin/env python3
"""Computes the answers of moe-plan that README.md and docs/Schedules.md show.

Usage: answers.py --bin DIR [--pages] [--only=NAME,..] [--again] [--limit=SECONDS]
       answers.py --pages     writes the pages from the kept figures

answers.json has the questions. Computed figures are kept in answers_figures.json (--figures=FILE), and computed again only with --again. If an
answer takes longer than --limit (3600), the file says so.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

from pages import FOLDER, load, make_table, save, write_pages
from run_all import get_commit

# The generated parts of each page.
PAGES = {"README.md": ["answer"], "docs/Schedules.md": ["choices"]}
CLUSTER = "hgx-h100"
LIMIT_S = 3600
# The rest follows from these, or is a default.
SHOWN_OPTIONS = ("--parallel", "--interleave", "--pipeline", "--recompute", "--side-by-side", "--schedule")


def load_questions():
    return load(os.path.join(FOLDER, "answers.json"))["questions"]


def get_commands(question):
    """The commands whose answers are compared, by the names of their figures."""
    command = ["moe-plan", question["model"], str(question["gpus"]), CLUSTER]
    return {"choice": command, "1f1b": [*command, "--pipeline=1f1b"]}


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


def keep(out):
    names = ("seconds", "tokens_per_second_per_gpu", "bubble_seconds", "exposed_communication_seconds", "hidden_communication_seconds",
             "recompute", "pipeline", "parallel", "options")
    return {name: out[name] for name in names if name in out}


def keep_text(bin_folder, question):
    """The lines of an answer up to the memory, as a reader sees them, without the options."""
    command = get_commands(question)["choice"]
    result = subprocess.run([os.path.join(bin_folder, command[0]), *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    text = re.sub(r"^ +--(.*\\\n)*.*$", "...", result.stdout, flags=re.MULTILINE)
    return text[:text.index("\n", text.index("\nmemory ") + 1)].splitlines()


def answer(options, figures, question, kind, command):
    """Runs a command unless its figures are kept."""
    kept, text = figures.setdefault(question["name"], {}), " ".join(command)
    if kind in kept and kept[kind]["commands"] == [text] and not options.again:
        return
    begin, out = time.monotonic(), run(options.bin, command, options.limit)
    kept[kind] = {**(out if "error" in out else keep(out)), "commands": [text], "commit": get_commit()}
    if kind == "choice" and "error" not in out and question["name"] == "plan-mixtral-8x7b":
        kept[kind]["text"] = keep_text(options.bin, question)
    print(f"{question['name']}, {kind}: {out.get('error') or '%.3f s' % out['seconds']} ({time.monotonic() - begin:.0f} s)", flush=True)
    save(options.figures, figures)


def make_choice_table(questions, figures):
    lines, commits = [], set()
    for question in questions:
        kept = figures.get(question["name"], {})
        choice, before = kept.get("choice", {}), kept.get("1f1b", {})
        if "seconds" not in choice or "seconds" not in before:
            continue
        communication = choice["hidden_communication_seconds"] + choice["exposed_communication_seconds"]
        shares = [choice[name] / choice["seconds"] for name in ("bubble_seconds", "exposed_communication_seconds")]
        shown = " ".join(option for option in choice["options"].split() if option.startswith(SHOWN_OPTIONS))
        lines.append([question["title"], f"{before['tokens_per_second_per_gpu']:,.0f}", f"{choice['tokens_per_second_per_gpu']:,.0f}",
                      f"{before['seconds'] / choice['seconds']:.2f}", f"`{shown}`", f"{choice['hidden_communication_seconds'] / communication:.0%}",
                      ", ".join(f"{share:.1%}" for share in shares)])
        commits |= {choice["commit"], before["commit"]}
    table = make_table(["model, devices, sequences of a step", "1F1B alone", "choice", "gain", "options of the choice", "hidden", "bubble, exposed"], lines)
    return f"{table}\n\nThese figures are of commit {', '.join(sorted(commits))}."


def make_parts(questions, figures):
    """Generated parts of the pages, by the names of their markers."""
    text = figures.get("plan-mixtral-8x7b", {}).get("choice", {}).get("text", [])
    return {"choices": make_choice_table(questions, figures), "answer": "```text\n" + "\n".join(text) + "\n```"}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bin", "only"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--figures", default=os.path.join(FOLDER, "answers_figures.json"))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--limit", type=float, default=LIMIT_S)
    options = parser.parse_args(arguments)
    questions, figures = load_questions(), load(options.figures, {})
    known = [question["name"] for question in questions]
    names = options.only.split(",") if options.only else known
    if unknown := set(names) - set(known):
        sys.exit(f"error: --only: expected names of questions in answers.json but got {', '.join(sorted(unknown))}")
    for question in questions if options.bin else ():
        if question["name"] in names:
            for kind, command in get_commands(question).items():
                answer(options, figures, question, kind, command)
    parts = make_parts(questions, figures)
    print(parts["choices"])
    if options.pages:
        write_pages(PAGES, parts)


if __name__ == "__main__":
    main()
