#!/usr/bin/python3
"""Opens the pages of moe-sim and moe-compile, and the pictures of documents, in headless Chromium: wide and light, narrow and dark.

They draw and answer the mouse. No text is cut off, and nothing is wider than the screen. They log nothing and need no network.

The test needs Chromium (Debian's package chromium), and fails without it. --shots=DIR also writes a picture of each page.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from chromium import TIMEOUT, Browser

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MODEL = ["switch-base-8", "--cluster=hgx-h100"]
PIPELINE = ["gpt2-moe", "--whole-model", "--layers=4", "--seq=256", "--batch=2", "--optimizer=adam", "--parallel=pp=4,dp=2,ep=2", "--cluster=hgx-h100"]
# name: (arguments of moe-sim, whether ranks are grouped in blocks, whether the page has all launches of ranks with lanes)
PAGES = {
    "8 ranks": ([*MODEL, "--parallel=dp=8,ep=8"], False, True),
    "8 ranks, three schedules": ([*MODEL, "--dropless", "--parallel=dp=8,ep=8", "--roofline=smart:2,shadow+smart:2"], False, True),
    "8 ranks, each simulated": ([*MODEL, "--parallel=dp=8,ep=8", "--all-ranks"], False, True),
    "4 stages": ([*PIPELINE, "--micro-batches=8"], False, True),
    "4 stages, windows": ([*PIPELINE, "--micro-batches=8", "--pipeline=1f1b-overlap"], False, True),
    "4 stages, 160 micro-batches": ([*PIPELINE, "--micro-batches=160"], False, False),
    "1024 ranks": ([*MODEL, "--parallel=dp=1024,ep=8"], False, True),
    "1024 ranks, each simulated, 12 layers": ([*MODEL, "--parallel=dp=1024,ep=8", "--all-ranks", "--layers=12"], True, True),
}
# Arguments of moe-compile.
EXPLANATIONS = {
    "schedules": [*MODEL, "--parallel=dp=8,mp=2,ep=8,esp=2", "--schedule=auto"],
    "groups": ["gpt2-moe", "--whole-model", "--layers=2", "--seq=256", "--global-batch=16", "--optimizer=adam", "--cluster=hgx-h100", "--world=4", "--parallel=auto", "--vary=none",
               "--schedule=auto"],
}
LARGEST_PAGE = 2 << 20
# Width, and whether the page is dark. One does not depend on the other.
LOOKS = ((1400, False), (390, True))

# References by which a page could access other files.
REFERENCES = re.compile(r"https?:|src=|href=|@import|url\((?!#)|fetch\(|XMLHttpRequest|WebSocket|import\(")

# Texts that cannot be read as a whole: outside of the screen or of their chart, cut off by their box, or broken letter by letter.
FIND_UNREADABLE = """(() => {
  const found = [], name = text => "'" + text.trim().slice(0, 40) + "'";
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    if (!own || ["SCRIPT", "STYLE", "TITLE"].includes(node.tagName.toUpperCase()) || !node.getClientRects().length) continue;
    const box = node.getBoundingClientRect(), chart = node.closest("svg.chart");
    if (box.left < -1 || box.right > innerWidth + 1) found.push(name(node.textContent) + " outside of the screen");
    if (chart) {
      const around = chart.getBoundingClientRect();
      if (box.left < around.left - 1 || box.right > around.right + 1 || box.top < around.top - 1 || box.bottom > around.bottom + 1) found.push(name(node.textContent) + " outside of its chart");
    } else {
      if (node.clientWidth && node.scrollWidth > node.clientWidth + 1) found.push(name(node.textContent) + " wider than its box");
      for (const text of [...node.childNodes].filter(child => child.nodeType === 3)) {
        const range = document.createRange();
        range.selectNodeContents(text);
        const lines = new Set([...range.getClientRects()].map(line => Math.round(line.top))).size;
        if (lines > 1 && text.data.trim().length / lines < 3) found.push(name(text.data) + " broken letter by letter");
      }
    }
  }
  return found;
})()"""

# Brightness of the page's background, 0 to 255.
BRIGHTNESS = "Math.max(...getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number))"

# Elements that are visible on a simulated step's page, and the streams whose names are cut off.
DRAWN = """(() => {
  // Where launches are shown no colour is pale.
  show(timeline.from_s, timeline.to_s);
  draw();
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data, all = new Set();
  for (let i = 0; i < pixels.length; i += 4) all.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
  show(0, span);
  const kinds = [1, 2, 3].filter(kind => all.has(parseInt(kindColour(kind).slice(1), 16)));
  const cut = rows.filter(row => row.ops).flatMap(row => streamsOf(row).map(stream => row.streams[stream])).filter(name => textWidth(name, font(10)) > gutter - 12);
  const bars = [...document.querySelectorAll("#pipeline .piece")].filter(piece => piece.getBoundingClientRect().width >= 1), heights = new Set(bars.map(bar => bar.getAttribute("height")));
  const said = bars.map(bar => bar.textContent);
  const picture = {shown: !byId("pipeline").hidden, devices: devices.length, bars: bars.length, heights: heights.size, said: said[said.length >> 1] || "",
    numbers: document.querySelectorAll("#pipeline .number").length, hint: byId("pipeline-hint").textContent};
  return {picture, timeline: kinds.length > 0, memory: !!byId("memory").querySelector("circle"), roofline: !!byId("roofline").querySelector("circle"), cut,
    facts: byId("facts").textContent, whole: timeline.whole, hint: byId("hint").textContent};
})()"""

# Hovers over the widest launch of the first lane, zooms with the wheel, moves, returns to the whole step, and opens the first block.
PROBE = """(() => {
  const said = {grouped: isGrouped};
  const at = (type, x, y, kind = PointerEvent, more = {}) => {
    const box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new kind(type, {bubbles: true, cancelable: true, clientX: box.left + x, clientY: box.top + y, ...more}));
  };
  const lane = lanes.find(l => l.kind === "lane" && l.ops.streams[l.stream]), places = lane.ops.streams[lane.stream];
  const widest = places.reduce((a, b) => lane.ops.end[b] - lane.ops.begin[b] > lane.ops.end[a] - lane.ops.begin[a] ? b : a);
  // Of a long step even the widest may be narrower than a pixel.
  show(2 * lane.ops.begin[widest] - lane.ops.end[widest], 2 * lane.ops.end[widest] - lane.ops.begin[widest]);
  const x = toX((lane.ops.begin[widest] + lane.ops.end[widest]) / 2), y = head + lane.y + lane.h / 2;
  at("pointermove", x, y);
  show(0, span);
  said.kernel = lane.row.launches[lane.ops.launch[widest]].name;
  said.tip = document.getElementById("tip").textContent;
  at("wheel", x, y, WheelEvent, {deltaY: -200});
  said.zoomed = (to - from) / span;
  const before = from;
  at("pointerdown", x, y); at("pointermove", x - 50, y); at("pointerup", x - 50, y);
  said.moved = from !== before;
  at("dblclick", x, y, MouseEvent);
  said.whole = (to - from) / span;
  const block = lanes.find(l => l.kind === "block"), count = lanes.length;
  if (block) { at("pointerdown", 20, head + block.y + 2); at("pointerup", 20, head + block.y + 2); }
  said.opened = lanes.length - count;
  return said;
})()"""


def check_harness(browser, folder):
    """Checks that a page with an error, one that is too wide and one with a truncated text are detected."""
    pages = {"<script>nothing.at.all</script>": lambda page: page.console, '<script>console.error("x")</script>': lambda page: page.console,
             '<div style="width: 2000px">x</div>': lambda page: check_look(page, False),
             '<div style="width: 40px; overflow: hidden; white-space: nowrap">what is cut off</div>': lambda page: check_look(page, False),
             '<table><td style="width: 1px; overflow-wrap: anywhere">letters</table>': lambda page: check_look(page, False)}
    for content, find in pages.items():
        path = os.path.join(folder, "broken.html")
        with open(path, "w") as file:
            file.write(f'<!DOCTYPE html><html><meta name="viewport" content="width=device-width, initial-scale=1"><body>{content}</html>')
        page = browser.open(path, 390)
        found = find(page)
        page.close()
        if not found:
            return f"what is wrong with '{content}' is not seen"
    return None


def check_look(page, dark):
    if page.console:
        return "expected a silent console but got\n  " + "\n  ".join(page.console[:5])
    inner, scroll = page.evaluate("[innerWidth, document.documentElement.scrollWidth]")
    if inner != page.width or scroll > page.width:
        return f"expected at most {page.width} pixels but the page is {scroll} wide"
    if unreadable := page.evaluate(FIND_UNREADABLE):
        return "expected texts that can be read but found\n  " + "\n  ".join(unreadable[:5])
    brightness = page.evaluate(BRIGHTNESS)
    if dark and brightness > 80:
        return f"expected a dark page but its background is {brightness} of 255"
    return None


def check_command(page):
    command = page.evaluate("document.getElementById('command').textContent")
    return None if command.startswith("moe-") else f"expected the command on the page but got '{command}'"


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


def check_picture_of_pipeline(picture, name):
    """Checks that a pipeline has a picture with visible pieces, and says if it is only a part."""
    if picture["shown"] != ("stages" in name):
        return f"expected a picture for a pipeline but got {picture}"
    if not picture["shown"]:
        return None
    if picture["devices"] != 4 or picture["bars"] < 30 or not re.match(r"device \d \(ranks? .*\)\n.*, stage \d\n(forward|backward|gradients).*\n.* from .*, computes", picture["said"]):
        return f"expected pieces of 4 devices with titles but got {picture}"
    if ("too long for the picture" in picture["hint"]) != ("160" in name) or ("160" not in name and not picture["numbers"]):
        return f"expected all micro-batches with numbers, or that a part is shown, but got {picture}"
    # Forward and backward of a window share a row.
    return None if (picture["heights"] > 1) == ("windows" in name) else f"expected half rows in windows but got {picture}"


def check_step(page, grouped, whole, name=""):
    """Checks a simulated step's page."""
    drawn = page.evaluate(DRAWN)
    if name and (problem := check_picture_of_pipeline(drawn["picture"], name)):
        return problem
    if drawn["whole"] != whole or ("too many launches" in drawn["hint"]) == whole:
        return f"expected {'all launches' if whole else 'a part of the launches, and that the page says so'} but got {drawn}"
    if not all(drawn[part] for part in ("timeline", "memory", "roofline")):
        return f"expected timeline, memory and roofline to be drawn but got {drawn}"
    if drawn["cut"]:
        return f"expected whole names of streams but {drawn['cut'][0]} is cut off"
    for fact in ("bubble", "exposed communication"):
        if fact not in drawn["facts"]:
            return f"expected '{fact}' at the top but got '{drawn['facts']}'"
    return check_probe(page.evaluate(PROBE), grouped)


def check_explanation(page):
    charts, tables, opened = page.evaluate("[document.querySelectorAll('svg.chart circle').length, document.querySelectorAll('table').length, document.querySelectorAll('details').length]")
    if not charts or not tables:
        return f"expected charts and tables but got {charts} dots and {tables} tables"
    if (long := page.evaluate("timeUnit([150]).write(150) + timeUnit([150]).name")) != "150.00s":
        return f"expected 150 seconds to be written as 150.00 s but got {long}"
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    return check_look(page, False) if opened else None


def check_text(path):
    with open(path) as file:
        text = file.read()
    if len(text) > LARGEST_PAGE:
        return f"expected at most {LARGEST_PAGE} characters but got {len(text)}"
    if reference := REFERENCES.search(text):
        return f"expected no reference to a network but found '{reference[0]}'"
    return None


def check_page(browser, path, check, shot=None):
    """Checks a page. `check` tests the features of this kind of page."""
    if problem := check_text(path):
        return problem
    for width, dark in LOOKS:
        page = browser.open(path, width, dark)
        if shot:
            page.shoot(f"{shot}-{width}-{'dark' if dark else 'light'}.png")
        problem = check_look(page, dark) or check_command(page) or check(page) or check_look(page, dark)
        page.close()
        if problem:
            return f"at {width} pixels, {'dark' if dark else 'light'}: {problem}"
    return None


def check_picture(browser, path, folder, shot=None):
    """Checks that no text of a picture of the documents is cut off by its edge, or as dark as a dark page."""
    with open(path) as file:
        picture = file.read()
    page_path = os.path.join(folder, "picture.html")
    with open(page_path, "w") as file:
        file.write(f'<!DOCTYPE html><meta charset="utf-8"><style>:root {{ color-scheme: light dark }} svg {{ max-width: 100%; height: auto }}</style><body>{picture}')
    for dark in (False, True):
        page = browser.open(page_path, 860, dark)
        if shot:
            page.shoot(f"{shot}-{'dark' if dark else 'light'}.png")
        problem = page.evaluate("""(dark => {
          const around = document.querySelector("svg").getBoundingClientRect();
          for (const text of document.querySelectorAll("svg text")) {
            const box = text.getBoundingClientRect(), size = parseFloat(getComputedStyle(text).fontSize) * around.width / document.querySelector("svg").viewBox.baseVal.width;
            if (box.left < around.left - 1 || box.right > around.right + 1 || box.bottom > around.bottom + 1 || box.top < around.top - 1) return "'" + text.textContent + "' is cut off";
            if (size < 9) return "'" + text.textContent + "' is " + size.toFixed(1) + " pixels high";
          }
          const fill = Math.max(...getComputedStyle(document.querySelector("svg > rect")).fill.match(/\\d+/g).map(Number));
          return fill > 80 === dark ? "the background is " + fill + " of 255" : null;
        })""" + f"({json.dumps(dark)})")
        console = page.console
        page.close()
        if problem or console:
            return f"{'dark' if dark else 'light'}: {problem or console}"
    return None


def run(tool, arguments):
    done = subprocess.run([tool, *arguments], capture_output=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        return f"{os.path.basename(tool)} {' '.join(arguments)} exited with {done.returncode}\n{done.stderr.decode(errors='replace')[:2000]}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", metavar="DIR", help="the folder of moe-sim and moe-compile")
    parser.add_argument("--only", default="", metavar="TEXT", help="only what has this in its name")
    parser.add_argument("--shots", metavar="DIR", help="write what pages look like as PNG")
    parser.add_argument("--page", action="append", default=[], metavar="FILE",
                        help="check this page of a step instead; FILE:grouped where its ranks are in blocks")
    options = parser.parse_args()
    if not options.bin and not options.page:
        parser.error("expected --bin or --page")
    folder = tempfile.mkdtemp(prefix="moeplan-")
    browser, passed, failed = Browser(folder), 0, 0

    def record(name, find):
        nonlocal passed, failed
        if options.only not in name:
            return
        problem = find()
        passed, failed = passed + (problem is None), failed + (problem is not None)
        print(f"ok   {name}" if problem is None else f"FAIL {name}: {problem}", flush=True)

    def get_shot(name):
        return os.path.join(options.shots, name.replace(" ", "-").replace(",", "")) if options.shots else None

    def make_and_check(tool, arguments, option, name, check):
        path = os.path.join(folder, "page.html")
        return run(os.path.join(os.path.abspath(options.bin), tool), [*arguments, option + path]) or check_page(browser, path, check, get_shot(name))

    try:
        record("what is wrong is seen", lambda: check_harness(browser, folder))
        for page in options.page:
            path, _, grouped = page.partition(":")
            record(page, lambda: check_page(browser, os.path.abspath(path), lambda page: check_step(page, grouped == "grouped", page.evaluate("timeline.whole")), get_shot(os.path.basename(path))))
        if options.bin:
            for name, (arguments, grouped, whole) in PAGES.items():
                record(name, lambda: make_and_check("moe-sim", arguments, "--html=", name, lambda page: check_step(page, grouped, whole, name)))
            for name, arguments in EXPLANATIONS.items():
                record(name, lambda: make_and_check("moe-compile", [*arguments, "--emit=plan", "-o", os.devnull], "--explain=", name, check_explanation))
            for path in sorted(glob.glob(os.path.join(ROOT, "docs", "images", "*.svg")) + glob.glob(os.path.join(ROOT, "benchmarks", "results", "images", "*.svg"))):
                name = os.path.basename(path)
                record(name, lambda: check_picture(browser, path, folder, get_shot(name)))
    finally:
        browser.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
