#!/usr/bin/env python3
"""Writes the manual page and the shell completions of a program from what its --help prints.

Usage: help_pages.py PROGRAM FOLDER VERSION

The help is printed from the table by which the program parses its options, so what is written here has the same options. The
files go to where they lie below share/ of an installation:

  FOLDER/man/man1/NAME.1
  FOLDER/bash-completion/completions/NAME
  FOLDER/zsh/site-functions/_NAME
  FOLDER/fish/vendor_completions.d/NAME.fish
"""

import dataclasses
import os
import re
import subprocess
import sys

# "  --emit=<value>   - What to write" of LLVM, "  --iters=N   steps" of the runtime.
OPTION = re.compile(r"( +)(--?[A-Za-z][\w.+-]*)(\[=[^\]]*\]|=<[^>]*>|=\S+| <[^>]*>| [A-Z]+(?=  ))?(?: +- ?| {2,}|$)(.*)")
VALUE = re.compile(r" +=(\S+)(?: +- +(.*))?")
# Deeper ones are options of the pass above them, which --help of moe-opt lists too.
DEEPEST = 6
# Text that goes on from the line above begins at least here.
CONTINUED = 16
# Kinds of values that are no files.
NUMBERS = {"BYTES", "N", "R", "SECONDS", "SHA256", "int", "int,..", "long", "number", "uint", "ulong", "value"}


@dataclasses.dataclass
class Option:
    name: str
    usage: str  # text after the name: "=<value>", "[=f64]", " <file>" or ""
    help: str
    section: str
    depth: int
    values: list = dataclasses.field(default_factory=list)  # pairs of [name, help]

    @property
    def takes(self):
        """The kind of the value, without signs around it."""
        return self.usage.strip(" =<>[]")

    @property
    def is_optional(self):
        return self.usage.startswith("[")

    @property
    def choices(self):
        if self.values:
            return [name for name, _ in self.values]
        return self.takes.split("|") if "|" in self.takes or (self.is_optional and "<" not in self.usage) else []


@dataclasses.dataclass
class Help:
    name: str
    arguments: str = ""
    overview: str = ""
    end: str = ""
    options: list = dataclasses.field(default_factory=list)


def parse(name, text):
    result = Help(name)
    section, last = "Options", None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if match := OPTION.fullmatch(line):
            spaces, option, usage, help_ = match.groups()
            last = Option(option, usage or "", help_.strip(), section, len(spaces))
            result.options.append(last)
        elif last and (match := VALUE.fullmatch(line)):
            last.values.append([match.group(1), match.group(2) or ""])
        elif last and line.strip() and indent >= CONTINUED:
            if last.values:
                last.values[-1][1] = f"{last.values[-1][1]} {line.strip()}".strip()
            else:
                last.help = f"{last.help} {line.strip()}".strip()
        elif match := re.match(r"(?i:usage): \S+ (.*)", line):
            result.arguments = match.group(1)
        elif line.startswith("Exit status: "):
            result.end = line.removeprefix("Exit status: ")
        elif line == "OPTIONS:":
            continue
        elif line.endswith(":") and indent < CONTINUED:
            section, last = line.strip(" :"), None
        elif not result.options and line.strip():
            result.overview += " " + line.removeprefix("OVERVIEW: ").strip()
    result.overview = result.overview.strip()
    return result


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def manual(page, version):
    summary, _, rest = page.overview.partition(". ")
    lines = [f'.TH "{page.name.upper()}" 1 "" "MoePlan {version}" "MoePlan"', ".SH NAME",
             f"{roff(page.name)} \\- {roff(summary.rstrip('.'))}", ".SH SYNOPSIS", f".B {roff(page.name)}",
             roff(page.arguments), ".SH DESCRIPTION", roff(page.overview), ".SH OPTIONS"]
    section = None
    for option in page.options:
        if option.section != section:
            section = option.section
            lines += [f'.SS "{roff(section)}"']
        is_nested = option.depth > DEEPEST
        lines += [".RS"] * is_nested
        lines += [".TP", f"\\fB{roff(option.name)}\\fR{roff(option.usage)}", roff(option.help) or "\\&"]
        for name, help_ in option.values:
            lines += [".RS", ".TP", f"\\fB={roff(name)}\\fR", roff(help_) or "\\&", ".RE"]
        lines += [".RE"] * is_nested
    if page.end:
        lines += [".SH EXIT STATUS", roff(page.end)]
    return "\n".join(lines) + "\n"


def function_name(page):
    return "_" + page.name.replace("-", "_")


def bash(page):
    cases = "".join(f"  {option.name}) COMPREPLY=($(compgen -W '{' '.join(option.choices)}' -- \"$word\")) ;;\n"
                    for option in page.options if option.choices)
    names = " ".join(option.name + "=" * option.usage.startswith("=") for option in page.options)
    return f"""# Completion of {page.name} for bash.
{function_name(page)}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} option=
  # To the shell --option=value is three words.
  if [[ $word == = ]]; then
    option=${{COMP_WORDS[COMP_CWORD - 1]}} word=
  elif ((COMP_CWORD > 1)) && [[ ${{COMP_WORDS[COMP_CWORD - 1]}} == = ]]; then
    option=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  COMPREPLY=()
  case $option in
{cases}  "")
    if [[ $word == -* ]]; then
      COMPREPLY=($(compgen -W '{names}' -- "$word"))
      [[ ${{COMPREPLY[0]-}} != *= ]] || compopt -o nospace 2>/dev/null || true
    fi
    ;;
  esac
}}
# Where there is nothing to choose from, files are completed.
complete -o default -F {function_name(page)} {page.name}
"""


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(page):
    specs = []
    for option in page.options:
        help_ = re.sub(r"([\[\]\\:])", r"\\\1", option.help)
        separator = "=-" if option.usage.startswith(("=", "[=")) else ""
        action = f"({' '.join(option.choices)})" if option.choices else "" if option.takes in NUMBERS else "_files"
        kind = re.sub(r"[:\\]", "", option.takes)
        value = f":{':' * option.is_optional}{kind}:{action}" if option.usage else ""
        specs.append(quoted(f"*{option.name}{separator}[{help_}]{value}"))
    lines = " \\\n".join(f"  {spec}" for spec in [*specs, quoted("*:file:_files")])
    return f"#compdef {page.name}\n_arguments \\\n{lines}\n"


def fish(page):
    lines = []
    for option in page.options:
        is_long = option.name.startswith("--")
        flag = f"-l {option.name[2:]}" if is_long else f"{'-s' if len(option.name) == 2 else '-o'} {option.name[1:]}"
        if option.choices:
            value = f" {'-f' if option.is_optional else '-x'} -a {quoted(' '.join(option.choices))}"
        elif option.is_optional or not option.usage:
            value = ""
        else:
            value = " -x" if option.takes in NUMBERS else " -r"
        help_ = option.help.replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"complete -c {page.name} {flag}{value} -d '{help_}'")
    return "\n".join(lines) + "\n"


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    program, folder, version = sys.argv[1:]
    name = os.path.basename(program)
    text = subprocess.run([program, "--help"], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    page = parse(name, text)
    if not page.options or not page.arguments:
        print(f"error: {program} --help: expected a usage line and options but found neither or one", file=sys.stderr)
        return 1
    write(os.path.join(folder, "man/man1", name + ".1"), manual(page, version))
    page.options = [option for option in page.options if option.depth <= DEEPEST]
    write(os.path.join(folder, "bash-completion/completions", name), bash(page))
    write(os.path.join(folder, "zsh/site-functions", "_" + name), zsh(page))
    write(os.path.join(folder, "fish/vendor_completions.d", name + ".fish"), fish(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
