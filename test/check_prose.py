#!/usr/bin/env python3
"""Lists sentences that are hard to read, in the documents, the descriptions of ops and passes, and the help texts. Also lists links of
documents that lead nowhere.

Usage: check_prose.py ROOT [FILE..]

A sentence has at most 35 words and does not begin with "Of". An abbreviation in capitals is in docs/Glossary.md, or defined in the
same document as "name (ABC)" or "ABC (name)". Code, generated tables and quoted output are left out. Exit status 1 where
anything is listed.
"""
import os
import re
import subprocess
import sys

MOST_WORDS = 35
# docs/Results.md is written by benchmarks/run_all.py, from texts that are checked where they stand.
GENERATED = {"docs/Results.md"}
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`]*[A-Z0-9`-])")
ABBREVIATION = re.compile(r"(?<![\w.`/-])([A-Z]{2,}[0-9]*)s?(?![\w`/-])")
# Names and words that are written in capitals and are no abbreviations of this field.
NAMES = {"NVIDIA", "MIT", "BSD", "II", "III", "IV", "OK", "MODEL", "GPUS", "CLUSTER", "FILE", "DIR", "RANK", "RANKS", "OUT", "BERT", "GLM", "ERNIE",
         "DBRX", "OLM", "SHA", "AM", "PM", "UTC", "RING", "INFOCOM", "IPDPS", "ICML"}


def get_words(text):
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\$[^$]*\$", "formula", text)
    return [word for word in text.split() if re.search(r"\w", word)]


def split_sentences(line, text):
    """(line of the paragraph, sentence) of a paragraph."""
    return [(line, sentence.strip()) for sentence in SENTENCE_END.split(" ".join(text.split())) if sentence.strip()]


def read_markdown(text):
    """Sentences of paragraphs, items, headings and cells, each with its line."""
    text = re.sub(r"<!-- generated: .*?<!-- end: [^>]*-->", lambda found: "\n" * found[0].count("\n"), text, flags=re.S)
    sentences, paragraph, first, in_code = [], [], 0, False

    def close():
        if paragraph:
            sentences.extend(split_sentences(first, " ".join(paragraph)))
            paragraph.clear()

    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"\s*(```|~~~)", line):
            close()
            in_code = not in_code
        elif in_code:
            continue
        elif line.startswith("|"):
            close()
            for cell in re.split(r"(?<!\\)\|", line):
                sentences.extend(split_sentences(number, cell))
        elif not line.strip() or line.startswith("<") or re.match(r"\s{4,}\S", line) and not paragraph:
            close()
        else:
            if re.match(r"\s*([-*]|\d+\.|#+)\s", line):
                close()
            if not paragraph:
                first = number
            paragraph.append(re.sub(r"^\s*([-*]|\d+\.|#+)\s", "", line))
            if line.startswith("#"):
                close()
    close()
    return sentences


def join_literals(text):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace('\\"', '"').replace("\\n", " ")


def get_line(text, position):
    return text.count("\n", 0, position) + 1


def read_tablegen(text):
    sentences = []
    for found in re.finditer(r"description\s*=\s*\[\{(.*?)\}\]", text, re.S):
        start = get_line(text, found.start(1)) - 1
        # A description is indented; its code is in fences.
        body = re.sub(r"^ {1,4}", "", found[1], flags=re.M)
        sentences += [(start + line, sentence) for line, sentence in read_markdown(body)]
    for found in re.finditer(r"summary\s*=\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+);", text):
        sentences += split_sentences(get_line(text, found.start()), join_literals(found[1]))
    return sentences


def read_help(text):
    sentences = []
    for found in re.finditer(r"cl::desc\(\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+)\)", text):
        sentences += split_sentences(get_line(text, found.start()), join_literals(found[1]))
    return sentences


def get_defined(text):
    """Abbreviations that a document defines."""
    return set(re.findall(r"\(([A-Z]{2,}[0-9]*)s?[),;]", text)) | set(re.findall(r"\b([A-Z]{2,}[0-9]*) \(", text))


def get_glossary(root):
    path = os.path.join(root, "docs", "Glossary.md")
    text = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
    return set(re.findall(r"\b[A-Z]{2,}[0-9]*\b", "\n".join(line.split("|")[1] for line in text.split("\n") if line.startswith("|"))))


def get_anchors(path):
    """Those of the headings of a document, as GitHub makes them."""
    with open(path, encoding="utf-8") as opened:
        text = re.sub(r"^```.*?^```", "", opened.read(), flags=re.M | re.S)
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in re.findall(r"^#+ (.*)$", text, re.M)]
    return {re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def check_links(root, file, text):
    found = []
    for link in re.finditer(r"\]\(([^)\s]+)\)", text):
        place, _, anchor = link[1].partition("#")
        path = os.path.normpath(os.path.join(root, os.path.dirname(file), place)) if place else os.path.join(root, file)
        if "://" in link[1]:
            continue
        if not os.path.exists(path) or (anchor and path.endswith(".md") and anchor not in get_anchors(path)):
            found.append((get_line(text, link.start()), f"'{link[1]}' leads nowhere"))
    return found


def check(root, file, known):
    with open(os.path.join(root, file), encoding="utf-8") as opened:
        text = opened.read()
    is_document = file.endswith(".md")
    sentences = [] if file in GENERATED else read_markdown(text) if is_document else read_tablegen(text) if file.endswith(".td") else read_help(text)
    found, defined = check_links(root, file, text) if is_document else [], known | get_defined(text)
    for line, sentence in sentences:
        words = get_words(sentence)
        short = " ".join(sentence.split()[:12])
        if len(words) > MOST_WORDS:
            found.append((line, f"{len(words)} words: {short} .."))
        if sentence.startswith("Of "):
            found.append((line, f"begins with 'Of': {short} .."))
        if is_document:
            for name in ABBREVIATION.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", " ", sentence)):
                if name not in defined:
                    found.append((line, f"'{name}' is neither defined here nor in docs/Glossary.md"))
                    defined.add(name)
    return found


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    files = sys.argv[2:] or subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.td", "tools/*.cpp", "lib/*.cpp", "benchmarks/*.cpp"],
                                           check=True, capture_output=True, text=True).stdout.split()
    known, count = get_glossary(root) | NAMES, 0
    for file in files:
        for line, text in check(root, file, known):
            print(f"{file}:{line}: {text}")
            count += 1
    print(f"{count} places to mend", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
