#!/usr/bin/env python3
"""Tests benchmarks/run_all.py on a list of commands that take moments: kept results, repeated runs, and the text of the page.

It also tests that the real list of entries is complete.
"""
import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BENCHMARKS = os.path.join(ROOT, "benchmarks")
sys.path.insert(0, BENCHMARKS)
import run_all  # noqa: E402
from entries import ENTRIES, SECTIONS, Entry  # noqa: E402

NO_PROGRAMS = {"schedule_figures.py", "entries.py", "estimates_cases.py", "layers.py", "run_all.py", "cuda_layer_torch.py",
               # Benchmarks of a session on a GPU, scripts/gpu.sh.
               "attention_shapes.py", "attention_torch.py", "ragged_gemm_torch.py", "timed_torch.py",
               # Their figures are in README.md, docs/Schedules.md and docs/Validation.md.
               "anchors.py", "answers.py", "pages.py", "steps.py"}
FAKE_SECTIONS = {"First": "The first section.", "Second": "The second one.", "Third": "Nothing is in it."}


def shell(script):
    """A command. Its words are filled like the list's, so braces are doubled."""
    return f"/bin/sh -c '{script}'"


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read()


def make_entry(name, *commands, **rest):
    return Entry(name, rest.pop("section", "First"), f"Title of {name}", commands, 1, f"Text of {name}.", **rest)


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.bin = self.path("build", "bin")
        os.makedirs(self.bin)
        self.results = run_all.Results(self.path("results"), "abc1234")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_entries(self, *entries, **rest):
        """Runs entries. Returns whether all succeeded, and the lines of progress."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            ok = run_all.run_entries(list(entries), self.bin, self.results, **rest)
        return ok, out.getvalue().splitlines()

    def write_pages(self, *entries):
        """Returns the summary and the page of the first section."""
        run_all.write_pages(self.path("docs.md"), self.path("parts"), list(entries), FAKE_SECTIONS, self.results)
        return read(self.path("docs.md")), read(self.path("parts", "first.md"))

    def test_what_is_kept_of_a_run(self):
        ok, lines = self.run_entries(make_entry("says", shell("echo figures of $0 {bin} {out}"), shell("echo and more")))
        self.assertTrue(ok)
        self.assertRegex(lines[-1], r"^\[1/1\] says: done in 0:0\d; the others take about 0:00$")
        record = self.results.load("says")
        self.assertEqual((record["state"], record["status"], record["commit"]), ("done", 0, "abc1234"))
        self.assertEqual(record["output"], "figures of /bin/sh build/release/bin build/results/says\nand more")
        self.assertEqual(record["commands"][1], "/bin/sh -c 'echo and more'")
        self.assertGreater(record["machine"]["cores"], 0)
        self.assertRegex(record["time"], r"^\d{4}-\d\d-\d\dT")
        # The record has only the class of the machine.
        self.assertNotIn(self.folder, json.dumps(record))

    def test_what_has_a_result_is_not_run_again(self):
        entry = make_entry("counts", shell(f"echo run >> {self.path('runs')}"))

        def count():
            with open(self.path("runs")) as file:
                return len(file.readlines())

        self.run_entries(entry)
        _, lines = self.run_entries(entry)
        self.assertEqual(count(), 1)
        self.assertIn("has done before on this commit", lines[0])
        self.run_entries(entry, again=["counts"])
        self.assertEqual(count(), 2)
        self.results.commit = "def5678"
        self.run_entries(entry)
        self.assertEqual(count(), 3)

    def test_a_failure_is_kept_and_the_others_go_on(self):
        entries = [make_entry("fails", shell("seq 100; echo reason >&2; exit 3"), shell("echo never")), make_entry("good", "echo good"),
                   make_entry("absent", "{bin}/absent")]
        for _ in range(2):
            self.assertFalse(self.run_entries(*entries)[0])
        record = self.results.load("fails")
        self.assertEqual((record["state"], record["status"], record["errors"]), ("failed", 3, "reason"))
        self.assertNotIn("never", record["output"])
        self.assertEqual(self.results.load("good")["state"], "done")
        self.assertIn("No such file", self.results.load("absent")["errors"])
        summary, page = self.write_pages(*entries)
        self.assertIn("| **failed** |", summary)
        self.assertIn("**Failed** with status 3", page)
        self.assertIn("\n100\nreason\n", page)
        self.assertNotIn("\n2\n", page)

    def test_what_is_skipped_is_tried_again(self):
        entry = make_entry("gpu", shell(f"test -e {self.path('gpu')} || {{{{ echo no device >&2; exit 77; }}}}"))
        ok, lines = self.run_entries(entry)
        self.assertTrue(ok)
        self.assertIn("skipped: no device", lines[-1])
        self.assertIn("These benchmarks have no result yet: Title of gpu (`gpu`).", self.write_pages(entry)[0])
        with open(self.path("gpu"), "w"):
            pass
        self.run_entries(entry)
        self.assertEqual(self.results.load("gpu")["state"], "done")
        # A later commit's skip does not hide it.
        os.remove(self.path("gpu"))
        self.results.commit = "def5678"
        self.run_entries(entry)
        self.assertEqual(self.results.find("gpu")["commit"], "abc1234")

    def test_what_an_entry_needs(self):
        _, lines = self.run_entries(make_entry("needs", "echo", needs=("no-such-program",)))
        self.assertIn("skipped: there is no no-such-program here", lines[-1])
        # The share of other programs always exceeds a negative limit.
        _, lines = self.run_entries(make_entry("times", "echo", needs=("quiet",)), busy=-1)
        self.assertRegex(lines[-1], r"skipped: others use \d+% of the processors")
        self.run_entries(make_entry("times", "echo", needs=("quiet",)), busy=1)
        self.assertEqual(self.results.load("times")["state"], "done")

    def test_the_page(self):
        draws = make_entry("draws", "printf 'intro\\n\\nrest\\nok    claim\\nok    at most: 5\\nFAIL  other\\n\\ntable\\n1 2\\n'",
                           shell("echo svg > {out}/a.svg"), show="^table", pictures=("a.svg", "b.svg"), after="Explained.")
        later = make_entry("later", "echo {bin}/tool", section="Second")
        self.run_entries(draws)
        summary, page = self.write_pages(draws, later)
        self.assertEqual(re.findall(r"^#+ .*", page, re.M), ["# First", "## Title of draws"])
        self.assertRegex(page, r"(?s)Text of draws.\n\n!\[Title of draws\]\(images/a.svg\)\n\n"
                         r"```text\nok    claim\nok    at most: 5\nFAIL  other\n\ntable\n1 2\n```\n.*Explained\.\n\n"
                         r"Commit abc1234; .*\d cores of .*; \d{4}-\d\d-\d\d; [\d.]+ s: `printf .*`, then `/bin/sh -c .*`")
        self.assertNotIn("b.svg)", page)
        self.assertRegex(summary, r"\| First \| \[Title of draws\]\(parts/first.md#title-of-draws\) \| 2 of 3 \| at most: 5 \| abc1234 \| \d{4}-")
        self.assertIn("These benchmarks have no result yet: Title of later (`later`).", summary)
        self.assertEqual(read(self.path("parts", "second.md")), "")
        # The page written on another machine keeps the part.
        self.results = run_all.Results(self.path("none"), "def5678")
        self.assertEqual(self.write_pages(draws, later), (summary, page))
        self.assertTrue(os.path.exists(self.path("parts", "images", "a.svg")))

    def test_the_last_lines_of_progress(self):
        entry = make_entry("progress", "printf '1 case\\nbound 5\\nok    claim\\n2 cases\\nbound 6\\nend\\n'", last=("^[0-9]+ case", "^bound"))
        self.run_entries(entry)
        self.assertIn("```text\n2 cases\nbound 6\nok    claim\n```", self.write_pages(entry)[1])

    def test_ctrl_c_keeps_what_is_done(self):
        """The test runs in its own process. The processes of the interrupted command end, too."""
        script = textwrap.dedent(f"""
            import sys
            sys.path[:0] = [{BENCHMARKS!r}, {os.path.dirname(os.path.abspath(__file__))!r}]
            import results, run_all
            entries = [results.make_entry("first", "echo first"),
                       results.make_entry("long", results.shell("sleep 60 & echo $! > {self.path('pid')}; wait")),
                       results.make_entry("last", "echo last")]
            sys.exit(run_all.main(sys.argv[1:], entries, results.FAKE_SECTIONS))
            """)
        command = [sys.executable, "-B", "-c", script, f"--bin={self.bin}", f"--out={self.path('out')}", f"--page={self.path('page.md')}",
                   f"--parts={self.path('parts')}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        limit = time.monotonic() + 30
        while not (os.path.exists(self.path("pid")) and os.path.getsize(self.path("pid"))) and time.monotonic() < limit:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("[1/3] first: done", out)
        self.assertIn("what is done is kept", err)
        with open(self.path("pid")) as file:
            self.assertTrue(has_ended(int(file.read())))
        (commit,) = os.listdir(self.path("out"))
        self.assertEqual([name for name in os.listdir(self.path("out", commit)) if name.endswith(".json")], ["first.json"])
        self.assertIn("These benchmarks have no result yet: Title of long (`long`); Title of last (`last`).", read(self.path("page.md")))
        # The next call goes on, here only with the last entry.
        again = subprocess.run([*command, "--only=first,last"], stdout=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(again.returncode, 0)
        self.assertRegex(again.stdout, r"(?s)first: has done before.*last: done")


def has_ended(pid):
    """Waits for a process for a while. A zombie that no process waits for has ended."""
    for _ in range(400):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


class ListTest(unittest.TestCase):
    def test_names_titles_and_sections(self):
        for get in (lambda entry: entry.name, lambda entry: run_all.get_anchor(entry.title)):
            values = list(map(get, ENTRIES))
            self.assertEqual(len(values), len(set(values)))
        pictures = [name for entry in ENTRIES for name in entry.pictures]
        self.assertEqual(len(pictures), len(set(pictures)))
        for entry in ENTRIES:
            self.assertIn(entry.section, SECTIONS)
            self.assertEqual(bool(entry.pictures), any("--svg=" in command for command in entry.commands), entry.name)

    def test_all_programs_are_in_it(self):
        text = "\n".join(command for entry in ENTRIES for command in entry.commands)
        scripts = {name for name in os.listdir(BENCHMARKS) if name.endswith(".py")} - NO_PROGRAMS
        self.assertEqual(scripts, set(re.findall(r"benchmarks/(\w+\.py)", text)))
        with open(os.path.join(BENCHMARKS, "CMakeLists.txt")) as file:
            for program in re.findall(r"add_executable\((\w+)", file.read()):
                self.assertIn("{bin}/" + program, text)

    def test_the_pages_have_the_texts_and_links_of_the_list(self):
        """The kept pages are those that the script writes from them, so they have no hand-made changes."""
        kept = os.path.join(BENCHMARKS, "results")
        with tempfile.TemporaryDirectory() as folder:
            parts, summary = os.path.join(folder, "benchmarks", "results"), os.path.join(folder, "docs", "Results.md")
            os.makedirs(os.path.dirname(summary))
            shutil.copytree(kept, parts)
            run_all.write_pages(summary, parts, ENTRIES, SECTIONS, run_all.Results(folder, "none"), os.path.relpath(ROOT, kept))
            self.assertEqual(read(summary), read(os.path.join(ROOT, "docs", "Results.md")))
            for file in os.listdir(kept):
                if file.endswith(".md"):
                    self.assertEqual(read(os.path.join(parts, file)), read(os.path.join(kept, file)))
        for entry in ENTRIES:
            part = run_all.read_parts(os.path.join(kept, run_all.get_file(entry.section))).get(entry.title)
            if part:
                self.assertIn(entry.text, part)
                self.assertIn(entry.after, part)


if __name__ == "__main__":
    unittest.main()
