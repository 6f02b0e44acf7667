"""Fills generated parts of pages. A part stands between markers with its name."""
import json
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(FOLDER)


def load(path, default=None):
    if default is not None and not os.path.exists(path):
        return default
    with open(path) as file:
        return json.load(file)


def save(path, value):
    write(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def make_table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def fill_page(text, parts):
    """`text` with the parts between markers replaced."""
    for name, part in parts.items():
        begin, end = f"<!-- generated: {name} -->\n", f"\n<!-- end: {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            sys.exit(f"error: expected the page to have one '{begin.strip()}' and one '{end.strip()}' after it")
        text = text[:text.index(begin) + len(begin)] + part + text[text.index(end):]
    return text


def fill(page, names, parts):
    """The text of a page with those of `parts` that it has."""
    with open(os.path.join(ROOT, page)) as file:
        return fill_page(file.read(), {name: parts[name] for name in names})


def write_pages(pages, parts):
    for page, names in pages.items():
        write(os.path.join(ROOT, page), fill(page, names, parts))
