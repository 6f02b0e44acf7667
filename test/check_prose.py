#!/usr/bin/env python3
"""Lists prose that is hard to read: in documents, descriptions of ops and passes, help texts, comments and error messages. Also
lists links of documents that lead nowhere.

Usage: check_prose.py ROOT [FILE..]

- A sentence of a document, description or help text has at most 35 words and does not begin with "Of". An abbreviation in capitals
  is in docs/Glossary.md, or defined in the same document as "name (ABC)" or "ABC (name)". Code, generated tables and quoted output
  are left out.
- A comment or an error begins with a noun or a verb, not with a word of FIRST_WORDS. No later sentence of a comment is a fragment
  that begins with a word of FRAGMENTS. A question may begin with any word.
- No text has a term of INVENTED_TERMS.

The exit status is 1 if anything is listed. check_prose_test.py tests this script.
"""
import inspect
import io
import os
import re
import subprocess
import sys
import tokenize

MOST_WORDS = 35
# Written by benchmarks/run_all.py, from texts that are checked where they stand.
GENERATED = re.compile(r"docs/Results\.md|benchmarks/results/")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`]*[A-Z0-9`-])")
ABBREVIATION = re.compile(r"(?<![\w.`/-])([A-Z]{2,}[0-9]*)s?(?![\w`/-])")
# Names, and abbreviations that every reader knows.
NAMES = {"GPU", "CPU", "LLVM", "API", "LSP", "PATH", "AMD", "JAX", "GPT", "SLURM", "GGUF", "TCP", "JSON", "SVG", "HTML", "CSV", "SI", "SXM",
         "SXM2", "PCI", "DGX", "HGX", "RTX", "AVX2", "AVX512", "GFLOP", "TFLOP",
         "NVIDIA", "MIT", "BSD", "II", "III", "IV", "OK", "MODEL", "GPUS", "CLUSTER", "FILE", "DIR", "RANK", "RANKS", "OUT", "BERT", "GLM", "ERNIE",
         "DBRX", "OLM", "SHA", "AM", "PM", "UTC", "RING", "INFOCOM", "IPDPS", "ICML"}
FIRST_WORDS = re.compile(r"(Else|Of|Where|What|Who|So many|Which|Whose|Nothing)\b", re.I)
# "Where", "What", "Which" and "Nothing" also begin whole sentences, so they are refused only as the first word of a comment.
FRAGMENTS = re.compile(r"(Else|Of|Who|So many|Whose)\b(?! course)")
INVENTED_TERMS = re.compile(
    r"\b(hangs? on|hung on|in no use|ranks that die|had not seen|puts? (?:\w+ ){0,4}off|forth and back|(?:gets?|got) to know of|"
    r"(?:it|they|to|that|which|and) pass(?:es)? over|"
    # A final "so" for "in this way". "The file says so" and similar sentences are plain.
    r"(?!(?:say|says|said|do|does|stay|stays|be|is|not|if|or)\b)\w+,? so[.;](?=\s|$))", re.I)
C_LIKE = (".c", ".cpp", ".cu", ".cuh", ".def", ".h", ".inc", ".mlir", ".td")
SCRIPTS = (".cmake", ".sh", ".test", "CMakeLists.txt")
# Strings and characters are matched first, so that a comment's marker inside them does not count. MLIR and td files have apostrophes
# that begin no character.
C_STRING = r'"(?:[^"\\\n]|\\.)*"'
C_TOKEN = re.compile(r'R"(\w*)\(.*?\)\1"|' + C_STRING + r"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'|//[^\n]*|/\*.*?\*/", re.S)
MLIR_TOKEN = re.compile(C_STRING + r"|//[^\n]*|/\*.*?\*/", re.S)
C_ERROR = re.compile(r"\b(?:emit(?:Op)?Error|emitWarning|(?!expect)\w*[eE]rror(?:With|Of)?|invalid)\(" r'[^";]*?(' + C_STRING + ")")
PYTHON_ERROR = re.compile(r"""\b(?:raise \w+|sys\.exit|\w+\.error|fail)\(\s*f?"([^"\n]*)\"""")


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


def join_lines(lines):
    """Comments of (line, column, is alone on the line, text). A line that is alone continues the comment above it in the same column."""
    comments, above = [], None
    for line, column, is_alone, text in lines:
        if text and is_alone and above == (line - 1, column):
            comments[-1][1] += " " + text
        elif text:
            comments.append([line, text])
        above = (line, column) if text else None
    return comments


def read_c_comments(text, token):
    lines = []
    for found in token.finditer(text):
        # A comment such as /*name=*/ names an argument.
        if not found[0].startswith("/") or re.fullmatch(r"/\*\s*\w+\s*=?\s*\*/", found[0]):
            continue
        before = text[text.rfind("\n", 0, found.start()) + 1:found.start()]
        for index, part in enumerate(re.sub(r"\*/$", "", found[0]).split("\n")):
            body = re.sub(r"^\s*(//[/!]?<?|/?\*+!?)\s*", "", part).strip()
            lines.append((get_line(text, found.start()) + index, len(before), index > 0 or not before.strip(), body))
    return join_lines(lines)


def read_script_comments(text):
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        found = re.search(r"(?:^|\s)#(.*)$", line)
        if found and not line.startswith("#!"):
            lines.append((number, found.start(1), not line[:found.start()].strip(), found[1].lstrip("#").strip()))
    return join_lines(lines)


def read_python_comments(text):
    """Comments, and paragraphs of docstrings."""
    lines, docstrings, before = [], [], tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line, column = token.start
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            lines.append((line, column, not token.line[:column].strip(), token.string.lstrip("#: ").strip()))
        elif token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT):
            # An indented paragraph is a table or a sample.
            for paragraph in re.split(r"(\n\s*\n)", inspect.cleandoc(token.string.strip("rbfu").strip("\"'"))):
                if paragraph.strip() and not paragraph.startswith(" "):
                    docstrings.append([line, " ".join(paragraph.split())])
                line += paragraph.count("\n")
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.DEDENT):
            before = token.type
    return join_lines(lines) + docstrings


def read_comments(file, text):
    if file.endswith(C_LIKE):
        return read_c_comments(text, MLIR_TOKEN if file.endswith((".mlir", ".td")) else C_TOKEN)
    if file.endswith(".py"):
        return read_python_comments(text)
    return read_script_comments(text) if file.endswith(SCRIPTS) else []


def read_errors(file, text):
    """Texts with which error messages begin."""
    pattern = PYTHON_ERROR if file.endswith(".py") else C_ERROR
    return [(get_line(text, found.start(1)), found[1].strip('"')) for found in pattern.finditer(text)] if file.endswith(C_LIKE + (".py",)) else []


def shorten(text):
    words = text.split()
    return " ".join(words[:12]) + (" .." if len(words) > 12 else "")


def check_terms(line, text):
    return [(line, f"has '{found[0]}': {shorten(text[found.start():])}") for found in INVENTED_TERMS.finditer(text)]


def check_comments(file, text):
    found = []
    for line, comment in read_comments(file, text):
        for index, (_, sentence) in enumerate(split_sentences(line, comment)):
            begin = (FRAGMENTS if index else FIRST_WORDS).match(sentence)
            if begin and not sentence.endswith("?"):
                found.append((line, f"comment begins with '{begin[0]}': {shorten(sentence)}"))
        found += check_terms(line, comment)
    for line, error in read_errors(file, text):
        begin = FIRST_WORDS.match(error)
        if begin:
            found.append((line, f"error begins with '{begin[0]}': {shorten(error)}"))
        found += check_terms(line, error)
    return found


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
    sentences = [] if GENERATED.match(file) else read_markdown(text) if is_document else read_tablegen(text) if file.endswith(".td") else read_help(text)
    found, defined = check_links(root, file, text) if is_document else [], known | get_defined(text)
    found += check_comments(file, text)
    for line, sentence in sentences:
        found += check_terms(line, sentence)
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


def list_files(root):
    patterns = ["*.md"] + ["*" + ending for ending in C_LIKE + SCRIPTS + (".py",)]
    command = ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"] + patterns
    files = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return [file for file in files if os.path.exists(os.path.join(root, file))]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    known, count = get_glossary(root) | NAMES, 0
    for file in sys.argv[2:] or list_files(root):
        for line, text in check(root, file, known):
            print(f"{file}:{line}: {text}")
            count += 1
    print(f"{count} places to mend", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
