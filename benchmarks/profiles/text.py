"""Formats profiles: short values on one line, lists of numbers in lines of at most 120 columns."""
import json
import math
import re

WIDTH = 120


class Number(float):
    """A number with its text in the file."""

    def __new__(cls, text):
        number = super().__new__(cls, text)
        number.text = text
        return number


def parse_profile(text):
    return json.loads(text, parse_float=Number)


def format_value(value):
    """Formats a value on one line, with exponents as people write them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {format_value(part)}' for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(format_value, value)) + "]"
    if isinstance(value, Number):
        return value.text
    if isinstance(value, float) and value >= 1e6:
        exponent = int(math.log10(value)) // 3 * 3
        return f"{value / 10**exponent:.6g}e{exponent}"
    text = json.dumps(value, ensure_ascii=False)
    return text if isinstance(value, str) else re.sub(r"e([+-])0?", r"e\1", text).replace("e+", "e")


def format_items(items, begin, end, indent):
    inner = " " * (indent + 2)
    return f"{begin}\n" + ",\n".join(inner + item for item in items) + "\n" + " " * indent + end


def format_numbers(values, indent):
    """Formats numbers, or pairs of them, with as many on a line as fit."""
    lines = [""]
    for number, value in enumerate(values):
        text = format_value(value) + ("," if number + 1 < len(values) else "")
        if lines[-1] and len(lines[-1]) + 1 + len(text) > WIDTH - indent - 2:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + text
    inner = "\n" + " " * (indent + 2)
    return f"[{inner}" + inner.join(lines) + "\n" + " " * indent + "]"


def format_part(value, indent, used):
    """Formats a part. `used`: columns of the line before the value."""
    text = format_value(value)
    if len(text) + used < WIDTH and not (isinstance(value, dict) and "source" in value):
        return text
    if isinstance(value, dict):
        return format_items([f'"{key}": ' + format_part(part, indent + 2, indent + 6 + len(key))
                             for key, part in value.items()], "{", "}", indent)
    if isinstance(value, list) and isinstance(value[0], dict):
        return format_items([format_part(part, indent + 2, indent + 2) for part in value], "[", "]", indent)
    return format_numbers(value, indent) if isinstance(value, list) else text


def format_profile(profile):
    return format_part(profile, 0, WIDTH) + "\n"
