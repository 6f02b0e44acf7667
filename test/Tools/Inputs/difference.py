"""Prints the difference of two scalars of a .safetensors file.

Usage: difference.py FILE NAME NAME"""

import json
import struct
import sys

with open(sys.argv[1], "rb") as file:
    size, = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(size))
    data = file.read()


def read(name):
    assert header[name]["dtype"] == "F64" and header[name]["shape"] == []
    return struct.unpack_from("<d", data, header[name]["data_offsets"][0])[0]


print(f"{read(sys.argv[2]) - read(sys.argv[3]):.12f}")
