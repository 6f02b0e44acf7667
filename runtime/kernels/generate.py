#!/usr/bin/env python3
"""Makes moert/kernels.h, the calls in C, and moert/kernels.inc, the same for C++, from kernels.def, which describes itself."""

import os
import re
import sys
import textwrap
from dataclasses import dataclass, field

WIDTH = 120
OPERAND_TYPES = {"real": "Real", "acc": "Acc", "wide": "Wide", "gradient": "Gradient", "float": "Float", "i32": "I32", "any": "Any"}
MOST_DIMENSION_NAMES = 12  # kMostDimensionNames of KernelTable.h
CALLS = {"": "Compute", "collective": "Collective", "point_to_point": "PointToPoint"}


class Wrong(Exception):
    pass


@dataclass
class Operand:
    name: str
    type: str  # one of OPERAND_TYPES, or the name of another operand
    optional: bool
    aliases: list
    output: bool
    shapes: list  # none, one or two of (word or "", dimensions)


@dataclass
class Attribute:
    name: str
    type: str  # int, flag, real, positive, or an enum of moert.h

    @property
    def is_real(self):
        return self.type in ("real", "positive")


@dataclass
class Place:
    """A number of the calling rank that a kernel gets: @rank, @member or @members."""

    which: str
    name: str


@dataclass
class Struct:
    """Operands or attributes that a kernel gets as one argument."""

    type: str
    name: str
    parts: list
    by_value: bool


@dataclass
class Kernel:
    name: str
    doc: list
    inputs: list
    outputs: list
    attributes: list
    call: str = ""
    group: bool = False
    ragged: str = ""
    by_hand: bool = False
    host_only: bool = False
    checked: bool = False
    adds: bool = False
    may_round: bool = False
    extra: str = ""
    operands: list = field(default_factory=list)
    values: list = field(default_factory=list)

    def __post_init__(self):
        self.operands = [o for o in flatten(self.inputs + self.outputs)]
        listed = [a for a in flatten(self.attributes) if isinstance(a, Attribute)]
        # In a call real numbers come last.
        self.values = sorted(listed, key=lambda a: a.is_real)


def flatten(items):
    for item in items:
        if isinstance(item, Struct):
            yield from flatten(item.parts)
        else:
            yield item


# Reading


def split(text):
    """Splits a list at commas outside of parentheses and brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def read_items(text, read_item, structs):
    items = []
    for part in split(text):
        struct = re.fullmatch(r"(\w+) (\w+)\((.*)\)", part)
        if struct and struct[1] not in structs:
            raise Wrong(f"expected a struct that a line 'struct {struct[1]};' declares but got '{struct[1]}'")
        items.append(Struct(struct[1], struct[2], read_items(struct[3], read_item, structs), structs[struct[1]])
                     if struct else read_item(part))
    return items


def read_shapes(text):
    shapes = []
    for form in text.split("|"):
        match = re.fullmatch(r"\s*(?:(\w+): )?((?:\.\.|\w+)?(?:, \w+)*)\s*", form)
        dims = split(match[2]) if match else []
        if not match or len(dims) > 4 or any(dim[0].isdigit() and dim != "1" for dim in dims):
            raise Wrong(f"expected a shape of up to four names or 1, perhaps behind '..', but got '[{text}]'")
        shapes.append((match[1] or "", dims))
    if len(shapes) > 2 or shapes[0][0]:
        raise Wrong(f"expected 'A', 'A | B' or 'A | word: B' but got '[{text}]'")
    return shapes


def read_operand(output):
    def read(text):
        match = re.fullmatch(r"(\w+)(\?)?(?:\[(.*)\])?(?: = ([\w |]+?))?(?:: (\w+))?", text)
        if not match:
            raise Wrong(f"expected an operand, 'name[?][shape] [= input | ..][: type]', but got '{text}'")
        return Operand(match[1], match[5] or "real", bool(match[2]), re.findall(r"\w+", match[4] or ""), output,
                       [] if match[3] is None else read_shapes(match[3]))
    return read


def read_attribute(text):
    if match := re.fullmatch(r"@(rank|members?)(?: (\w+))?", text):
        return Place(match[1], match[2] or match[1])
    match = re.fullmatch(r"(\w+)(?:: (int|flag|real|positive|moert_\w+))?", text)
    if not match:
        raise Wrong(f"expected an attribute, 'name[: int, flag, real, positive or an enum]', but got '{text}'")
    return Attribute(match[1], match[2] or "int")


def read_kernel(text, doc, structs):
    match = re.fullmatch(r"(\w+)\((.*?)\)(?: -> \((.*?)\))?(?: \[(.*)\])?((?: [\w ]+)?);", text)
    if not match:
        raise Wrong(f"expected 'name(inputs) [-> (outputs)] [[attributes]] [words];' but got '{text}'")
    kernel = Kernel(match[1], doc, read_items(match[2], read_operand(False), structs),
                    read_items(match[3] or "", read_operand(True), structs), read_items(match[4] or "", read_attribute, structs))
    words = match[5].split()
    while words:
        word = words.pop(0)
        if word in ("collective", "point_to_point"):
            kernel.call, kernel.group = word, True
        elif word == "group":
            kernel.group = True
        elif word in ("by_hand", "checked", "host_only", "adds", "may_round"):
            setattr(kernel, word, True)
        elif word == "ragged" and words:
            kernel.ragged = words.pop(0)
        elif word == "and" and len(words) >= 2:
            kernel.extra = " ".join((words.pop(0), words.pop(0)))
        else:
            raise Wrong(f"unknown word '{word}' behind '{kernel.name}'")
    check(kernel)
    return kernel


def dimension_names(kernel):
    dims = (dim for operand in kernel.operands for _, shape in operand.shapes for dim in shape)
    return [dim for dim in dict.fromkeys(dims) if dim not in ("1", "..")]


def check(kernel):
    names = [operand.name for operand in kernel.operands]
    inputs = {operand.name for operand in kernel.operands if not operand.output}
    used = [(operand.name, alias) for operand in kernel.operands for alias in operand.aliases]
    for what, name in [*used, *[("ragged", kernel.ragged)] * bool(kernel.ragged)]:
        if name not in inputs:
            raise Wrong(f"'{kernel.name}': '{what}' names '{name}', which is none of its inputs")
    if len(set(names)) != len(names):
        raise Wrong(f"'{kernel.name}' has two operands of one name")
    if len(dimension_names(kernel)) > MOST_DIMENSION_NAMES:
        raise Wrong(f"'{kernel.name}' has more than {MOST_DIMENSION_NAMES} names of dimensions")
    flags = {value.name for value in kernel.values if value.type == "flag"}
    for operand in kernel.operands:
        if operand.type not in OPERAND_TYPES and operand.type not in set(names) - {operand.name}:
            raise Wrong(f"'{kernel.name}': expected '{operand.name}' to be {', '.join(OPERAND_TYPES)} or of the type of "
                        f"another operand but got '{operand.type}'")
        for word, _ in operand.shapes:
            if word and word not in inputs | flags:
                raise Wrong(f"'{kernel.name}': expected an input or a flag before ':' in a shape but got '{word}'")


def read_table(path):
    """Reads [("section", title) | ("text", line) | ("", "") | ("kernel", Kernel)] in the order of the file."""
    items, doc, statement, structs, begin = [], [], "", {}, 0
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            try:
                begin = begin if statement else number
                if statement or re.match(r"[a-z]\w*\(", line):
                    statement = f"{statement} {line.strip()}".strip()
                    if statement.endswith(";"):
                        items.append(("kernel", read_kernel(statement, doc, structs)))
                        doc, statement = [], ""
                elif match := re.fullmatch(r"struct (\w+)( by_value)?;", line):
                    structs[match[1]] = bool(match[2])
                elif line.startswith("///"):
                    doc.append(line)
                elif line.startswith("section "):
                    items.append(("section", line.removeprefix("section ")))
                elif line.startswith("| "):
                    items.append(("text", line.removeprefix("| ")))
                elif not line:
                    items.append(("", ""))
                elif not line.startswith("#"):
                    raise Wrong(f"expected a section, text, a comment or a kernel but got '{line}'")
            except Wrong as error:
                sys.exit(f"{path}:{begin}: error: {error}")
    if statement or doc:
        sys.exit(f"{path}:{begin}: error: expected a kernel, ended by ';', before the end of the file")
    return items


# Writing


def camel(name):
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def kind(named):
    return camel("_" + named.name)


def wrapped(begin, parts, end, indent):
    """Wraps `begin` and comma separated parts to lines of WIDTH columns."""
    return textwrap.fill(begin + ", ".join(parts) + end, WIDTH, subsequent_indent=" " * indent, break_long_words=False,
                         break_on_hyphens=False)


def c_parameters(kernel):
    return ["moert_rank_t rank", "int64_t op", *(f"const moert_buffer *{o.name}" for o in kernel.operands),
            *(f"{'double' if a.is_real else 'int64_t'} {a.name}" for a in kernel.values),
            *["const moert_group *group"] * kernel.group, "moert_stream_t stream"]


def c_header(items):
    lines = ["/* Made from kernels.def by generate.py; moert.h includes it. */"]
    for what, item in items:
        if what == "section":
            lines.append(f"// --- {item} " + "-" * (WIDTH - 41 - len(item)))
        elif what == "text":
            lines.append("// " + item)
        elif what == "kernel":
            begin = f"int32_t moert_{item.name}("
            lines += [*item.doc, wrapped(begin, c_parameters(item), ");", len(begin))]
        else:
            lines.append("")
    return "\n".join(lines) + "\n"


def cxx_parameter(item):
    if isinstance(item, Struct):
        return f"{item.type} {item.name}" if item.by_value else f"const {item.type} &{item.name}"
    if isinstance(item, Operand):
        return "View " + camel(item.name)
    if isinstance(item, Place):
        return "int64_t " + camel(item.name)
    return {"flag": "bool ", "real": "double ", "positive": "double "}.get(item.type, "int64_t ") + camel(item.name)


def parameters(kernel):
    """Returns the C++ parameters of a kernel, and arguments of the same names."""
    items = kernel.inputs + kernel.outputs + kernel.attributes
    declared = [cxx_parameter(item) for item in items] + [kernel.extra] * bool(kernel.extra)
    return ", ".join(declared), ", ".join(re.split(r"[ &]", parameter)[-1] for parameter in declared)


def method(kernel, macro="MOERT_METHOD"):
    declared, arguments = parameters(kernel)
    return f"{macro}({kind(kernel)}, {camel(kernel.name)}, ({declared}), ({arguments}))"


def rest_of_check(kernel):
    return f"void checkRestOf{kind(kernel)}(Checker &check, {parameters(kernel)[0]});"


def call_of_checked(kernel):
    return f"void {camel(kernel.name)}(Checker &check, {parameters(kernel)[0]});"


def checked_call(kernel):
    """Writes a call for host/Kernels.cpp, which checks the operands."""
    (declared, arguments), name = parameters(kernel), camel(kernel.name)
    return (f"Status {name}({declared}) {{ Checker check = checkOperands(Kind::{kind(kernel)}, check{kind(kernel)}, {arguments}); "
            f"if (check.ok()) host::{name}(check, {arguments}); return check.take(); }}")


def shape_flags(kernel):
    """Returns the flags on which shapes depend."""
    words = {word for operand in kernel.operands for word, _ in operand.shapes}
    return [value.name for value in kernel.values if value.name in words]


def places_in(items):
    """Returns the expression by which a kernel reads each operand or attribute, by name: STRUCT.MEMBER in a struct."""
    return {part.name: camel(part.name) if item is part else f"{item.name}.{camel(part.name)}"
            for item in items for part in flatten([item])}


def check_of(kernel):
    declared, arguments = parameters(kernel)
    views = ", ".join(places_in(kernel.inputs + kernel.outputs).values())
    flags = ", ".join(map(camel, shape_flags(kernel)))
    rest = f"checkRestOf{kind(kernel)}" if kernel.checked else "checkNoMore"
    found = places_in(kernel.attributes)
    rests = [f'checkPositive(check, "{a.name}", {found[a.name]})' for a in kernel.values if a.type == "positive"]
    rests.append(f"{rest}(check, {arguments})")
    return f"MOERT_CHECK({kind(kernel)}, ({declared}), ({{{views}}}, {{{flags}}}), ({', '.join(rests)}))"


def attributes(kernel):
    """Writes the attributes of a call by their names, in its order."""
    ints, reals = ([camel(a.name) for a in kernel.values if a.is_real == real] for real in (False, True))
    return "\n".join([f"struct {kind(kernel)} {{", *[f"  int64_t {name} = 0;" for name in ints],
                      *[f"  double {name} = 0;" for name in reals], "  void set(Call &call) const {",
                      f"    call.ints = {{{', '.join(ints)}}};", f"    call.reals = {{{', '.join(reals)}}};", "  }",
                      f"  static {kind(kernel)} of(const Call &call) {{", f"    assert(call.kind == Kind::{kind(kernel)});",
                      f"    return {{{', '.join([*places('ints', ints), *places('reals', reals)])}}};", "  }", "};"])


def places(member, names):
    return (f"call.{member}[{i}]" for i in range(len(names)))


def positions(kernel):
    """Writes the index of each operand in a call, by its name."""
    return f"struct {kind(kernel)} {{ enum : size_t {{ {', '.join(camel(o.name) for o in kernel.operands)} }}; }};"


def launch_arguments(kernel):
    """Returns the kernel's arguments, read from a Call named `call`."""
    operands, ints, reals = iter(range(len(kernel.operands))), iter(range(99)), iter(range(99))
    def value(item):
        if isinstance(item, Struct):
            names = ["" if item.by_value else f".{camel(part.name)} = " for part in item.parts]
            return f"{item.type}{{{', '.join(name + value(part) for name, part in zip(names, item.parts))}}}"
        if isinstance(item, Operand):
            return f"call.views[{next(operands)}]"
        if isinstance(item, Place):
            return f"call.{item.which}"
        if item.is_real:
            return f"call.reals[{next(reals)}]"
        return f"call.ints[{next(ints)}]" + (" != 0" if item.type == "flag" else "")
    return ", ".join(map(value, kernel.inputs + kernel.outputs + kernel.attributes))


def launch(kernel):
    return f"MOERT_LAUNCH({kind(kernel)}, {camel(kernel.name)}, ({launch_arguments(kernel)}))"


def launch_by_hand(kernel):
    """Writes a call for core/KernelLaunch.cpp, which gives the argument that is neither an operand nor an attribute."""
    return (f"static Status call{kind(kernel)}(Kernels &kernels, const Call &call, {kernel.extra}) {{ "
            f"return kernels.{camel(kernel.name)}({launch_arguments(kernel)}, {kernel.extra.split()[-1]}); }}")


def operand_row(kernel, operand):
    names = [other.name for other in kernel.operands]
    dims = dimension_names(kernel)
    def shape_row(shape):
        named = [dim for dim in shape if dim != ".."]
        numbers = ", ".join("-1" if dim == "1" else str(dims.index(dim)) for dim in named)
        return f"{{{len(named)}, {int('..' in shape)}, {{{numbers}}}}}"
    shapes = [shape_row(shape) for _, shape in operand.shapes] + ["{}"] * (2 - len(operand.shapes))
    word, flags = operand.shapes[-1][0] if operand.shapes else "", shape_flags(kernel)
    type_ = operand
    while type_.type in names:
        type_ = kernel.operands[names.index(type_.type)]
    return (f'{{"{operand.name}", OperandType::{OPERAND_TYPES[type_.type]}, {names.index(type_.name) if type_ is not operand else -1}, '
            f"{int(operand.optional)}, {int(operand.output)}, {sum(1 << names.index(alias) for alias in operand.aliases)}, "
            f"{len(operand.shapes)}, {{{', '.join(shapes)}}}, {names.index(word) if word in names else -1}, "
            f"{flags.index(word) if word in flags else -1}}}")


def table_row(kernel):
    names = [operand.name for operand in kernel.operands]
    operands = ", ".join(operand_row(kernel, operand) for operand in kernel.operands)
    dimensions = ", ".join(f'"{name}"' for name in dimension_names(kernel))
    ints = sum(not attribute.is_real for attribute in kernel.values)
    ragged = names.index(kernel.ragged) if kernel.ragged else -1
    return (f'{{"{kernel.name}", CallType::{CALLS[kernel.call]}, {int(kernel.group)}, {int(kernel.adds)}, {int(kernel.may_round)}, {ragged}, {ints}, {len(kernel.values) - ints}, '
            f"{len(names)}, {{{operands}}}, {{{dimensions}}}}},")


def entry_point(kernel):
    begin = f"int32_t moert_{kernel.name}("
    ints, reals = ([a.name for a in kernel.values if a.is_real == real] for real in (False, True))
    return "\n".join([
        wrapped(begin, c_parameters(kernel), ") {", len(begin)),
        f"  return issueCall(rank, op, stream, Kind::{kind(kernel)}, {{{', '.join(o.name for o in kernel.operands)}}}, "
        f"{{{', '.join(ints)}}}, {{{', '.join(reals)}}}{', group' if kernel.group else ''});",
        "}"])


def cxx_table(kernels):
    computing = [kernel for kernel in kernels if not kernel.call]
    # Compute comes first, then collectives of a group, then messages of two members.
    ordered = [kernel for call in CALLS for kernel in kernels if kernel.call == call]
    sections = {
        "MOERT_KIND": [f"MOERT_KIND({kind(kernel)})" for kernel in ordered],
        "MOERT_TABLE": [table_row(kernel) for kernel in ordered],
        "MOERT_METHOD": [method(kernel) for kernel in computing],
        "MOERT_CUDA_METHOD": [method(kernel, "MOERT_CUDA_METHOD") for kernel in computing if not kernel.host_only],
        "MOERT_LAUNCH": [launch(kernel) for kernel in computing if not kernel.by_hand],
        "MOERT_LAUNCH_BY_HAND": [launch_by_hand(kernel) for kernel in computing if kernel.by_hand and kernel.extra],
        "MOERT_COLLECTIVE": [f"MOERT_COLLECTIVE({kind(kernel)})" for kernel in kernels if kernel.call],
        "MOERT_RESTS_OF_CHECKS": [rest_of_check(kernel) for kernel in computing if kernel.checked],
        "MOERT_CALLS_OF_CHECKED": [call_of_checked(kernel) for kernel in computing],
        "MOERT_CHECKED_CALLS": [checked_call(kernel) for kernel in computing],
        "MOERT_CHECK": [check_of(kernel) for kernel in computing],
        "MOERT_ATTRIBUTES": [attributes(kernel) for kernel in ordered if kernel.values],
        "MOERT_POSITIONS": [positions(kernel) for kernel in ordered],
        "MOERT_ENTRY_POINTS": [entry_point(kernel) for kernel in ordered],
    }
    lines = ["// Made from kernels.def by generate.py. Each part is there where its macro is defined, which ends with it."]
    for macro, content in sections.items():
        lines += [f"#ifdef {macro}", *content, f"#undef {macro}", "#endif"]
    return "\n".join(lines) + "\n"


def write(path, text):
    """Writes only files that changed, so that the build repeats no more than needed."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: generate.py kernels.def FOLDER")
    items = read_table(sys.argv[1])
    write(os.path.join(sys.argv[2], "moert", "kernels.h"), c_header(items))
    write(os.path.join(sys.argv[2], "moert", "kernels.inc"), cxx_table([item for what, item in items if what == "kernel"]))


if __name__ == "__main__":
    main()
