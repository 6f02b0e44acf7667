"""Copies a routing trace from stdin to stdout. Each token chooses the next expert after the one that it chose."""

import json
import sys

for text in sys.stdin:
    line = json.loads(text)
    experts = len(line["counts"][0])
    line["counts"] = [row[-1:] + row[:-1] for row in line["counts"]]
    line["choices"] = [[(expert + 1) % experts for expert in row] for row in line["choices"]]
    print(json.dumps(line))
