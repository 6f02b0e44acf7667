#!/usr/bin/python3
"""Opens moe-sim's pages in headless Chromium: they draw, they answer the mouse, and they neither log errors nor need a network.

Needs Chromium (Debian's package chromium) and fails without it.
"""

import argparse
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

TIMEOUT = 120

MODEL = ["switch-base-8", "--cluster=hgx-h100"]
# name: (arguments of moe-sim, whether ranks are grouped in blocks)
PAGES = {
    "8 ranks": ([*MODEL, "--parallel=dp=8,ep=8"], False),
    "8 ranks, three schedules": ([*MODEL, "--dropless", "--parallel=dp=8,ep=8", "--roofline=smart:2,shadow+smart:2"], False),
    "8 ranks, each simulated": ([*MODEL, "--parallel=dp=8,ep=8", "--all-ranks"], False),
    "1024 ranks": ([*MODEL, "--parallel=dp=1024,ep=8"], False),
    "1024 ranks, each simulated": ([*MODEL, "--parallel=dp=1024,ep=8", "--all-ranks"], True),
    "1024 ranks, each simulated, 12 layers": ([*MODEL, "--parallel=dp=1024,ep=8", "--all-ranks", "--layers=12"], True),
}
LARGEST_PAGE = 16 << 20

# Anything through which a page could reach beyond itself.
REFERENCES = ("http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket", "import(")

# Run in the page: hovers over the widest launch of the first lane, zooms with the wheel, moves, goes back to the whole step, and
# opens the first block.
PROBE = """<script>
"use strict";
{
  const said = {grouped: isGrouped};
  const at = (type, x, y, kind = MouseEvent, more = {}) => {
    const box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new kind(type, {bubbles: true, cancelable: true, clientX: box.left + x, clientY: box.top + y, ...more}));
  };
  const lane = lanes.find(l => l.kind === "lane"), places = lane.ops.streams[lane.stream];
  const widest = places.reduce((a, b) => lane.ops.end[b] - lane.ops.begin[b] > lane.ops.end[a] - lane.ops.begin[a] ? b : a);
  // Of a long step even the widest may be narrower than a pixel.
  show(2 * lane.ops.begin[widest] - lane.ops.end[widest], 2 * lane.ops.end[widest] - lane.ops.begin[widest]);
  const x = toX((lane.ops.begin[widest] + lane.ops.end[widest]) / 2), y = head + lane.y + lane.h / 2;
  at("mousemove", x, y);
  show(0, span);
  said.kernel = lane.row.launches[lane.ops.launch[widest]][0];
  said.tip = document.getElementById("tip").textContent;
  at("wheel", x, y, WheelEvent, {deltaY: -200});
  said.zoomed = (to - from) / span;
  const before = from;
  at("mousedown", x, y); at("mousemove", x - 50, y); at("mouseup", x - 50, y);
  said.moved = from !== before;
  at("dblclick", x, y);
  said.whole = (to - from) / span;
  const block = lanes.find(l => l.kind === "block"), count = lanes.length;
  if (block) { at("mousedown", 20, head + block.y + 2); at("mouseup", 20, head + block.y + 2); }
  said.opened = lanes.length - count;
  document.documentElement.dataset.probe = JSON.stringify(said);
}
</script>
"""


def find_chromium():
    for name in ("chromium", "chromium-browser"):
        if path := shutil.which(name):
            return path
    sys.exit("error: expected Chromium (Debian: apt-get install chromium) but found neither chromium nor chromium-browser")


class Browser:
    def __init__(self, folder):
        self.path, self.folder = find_chromium(), folder

    def open(self, page):
        """(DOM after scripts have run, lines of the console)."""
        command = [self.path, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--user-data-dir=" + os.path.join(self.folder, "profile"),
                   "--window-size=1280,800", "--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom",
                   "file://" + page]
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
        console = [line for line in done.stderr.decode(errors="replace").splitlines() if "CONSOLE" in line]
        return done.stdout.decode(errors="replace"), console

    def dataset(self, dom, name):
        found = re.search(rf'<html[^>]*\bdata-{name}="([^"]*)"', dom)
        return html.unescape(found.group(1)) if found else None


def check_harness(browser, folder):
    """A page with an error must be found out, or the other checks say nothing."""
    for script in ("nothing.at.all", 'console.error("x")'):
        page = os.path.join(folder, "broken.html")
        with open(page, "w") as file:
            file.write(f"<!DOCTYPE html><html><script>{script}</script></html>")
        if not browser.open(page)[1]:
            return f"the console error of '{script}' is not seen"
    return None


def check_probe(said, grouped):
    if said["grouped"] != grouped:
        return f"expected grouped = {grouped} but got {said['grouped']}"
    if not said["tip"].startswith(said["kernel"]) or "from" not in said["tip"]:
        return f"hovering over '{said['kernel']}' shows '{said['tip']}'"
    if not 0 < said["zoomed"] < 0.9 or not said["moved"] or said["whole"] != 1:
        return f"wheel, drag or double click do not zoom and move: {said}"
    if grouped and said["opened"] <= 0:
        return "a click on a block does not open it"
    return None


def check_page(browser, page, grouped):
    with open(page) as file:
        text = file.read()
    if len(text) > LARGEST_PAGE:
        return f"expected at most {LARGEST_PAGE} characters but got {len(text)}"
    for reference in REFERENCES:
        if reference in text:
            return f"expected no reference to a network but found '{reference}'"
    probed = page + ".probed.html"
    with open(probed, "w") as file:
        file.write(text.replace("</body>", PROBE + "</body>"))
    for path in (page, probed):
        dom, console = browser.open(path)
        if console:
            return "expected a silent console but got\n  " + "\n  ".join(console[:5])
        drawn = browser.dataset(dom, "drawn")
        if drawn != "timeline memory roofline":
            return f"expected timeline, memory and roofline to be drawn but got {drawn!r}"
    said = browser.dataset(dom, "probe")
    return check_probe(json.loads(said), grouped) if said else "the probe did not end"


def make_page(tools, arguments, page):
    done = subprocess.run([os.path.join(tools, "moe-sim"), *arguments, "--html=" + page], capture_output=True, timeout=TIMEOUT,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        return f"moe-sim {' '.join(arguments)} exited with {done.returncode}\n{done.stderr.decode(errors='replace')[:2000]}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", metavar="DIR", help="the folder of moe-sim")
    parser.add_argument("--page", action="append", default=[], metavar="FILE",
                        help="check this page instead; FILE:grouped where its ranks are in blocks")
    options = parser.parse_args()
    if not options.bin and not options.page:
        parser.error("expected --bin or --page")
    folder = tempfile.mkdtemp(prefix="moeplan-")
    passed = failed = 0

    def record(name, problem):
        nonlocal passed, failed
        passed, failed = passed + (problem is None), failed + (problem is not None)
        print(f"ok   {name}" if problem is None else f"FAIL {name}: {problem}", flush=True)

    try:
        browser = Browser(folder)
        record("errors are seen", check_harness(browser, folder))
        for page in options.page:
            path, _, grouped = page.partition(":")
            record(page, check_page(browser, os.path.abspath(path), grouped == "grouped"))
        for number, (name, (arguments, grouped)) in enumerate(PAGES.items() if options.bin else ()):
            page = os.path.join(folder, f"page{number}.html")
            problem = make_page(os.path.abspath(options.bin), arguments, page)
            record(name, problem or check_page(browser, page, grouped))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
