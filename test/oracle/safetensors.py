"""Reads and writes .safetensors files with numpy alone.

The format is an 8-byte little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, and the bytes. numpy has no type
for BF16: it is read as float32, and written from float32 by rounding to nearest even. A dtype converts only floating-point arrays.
"""

import json
import struct

import numpy as np

DTYPES = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"),
          "I64": np.dtype("<i8"), "I32": np.dtype("<i4")}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def to_bf16_bits(array):
    bits = np.ascontiguousarray(array, dtype="<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def from_bf16_bits(bits):
    return (bits.astype("<u4") << 16).view("<f4")


def round_to(array, dtype):
    """`array` with the values that a file of `dtype` ("f64", "f32", "bf16", "f16") would hold, as float64."""
    if dtype == "bf16":
        array = from_bf16_bits(to_bf16_bits(array)).reshape(np.shape(array))
    return np.asarray(array, dtype={"f32": np.float32, "f16": np.float16}.get(dtype)).astype(np.float64)


def save(path, tensors, dtype=None, metadata=None):
    """Writes {name: array}. `dtype` ("f64", "f32", "bf16", "f16") converts them. `metadata` maps text to text."""
    header, chunks, offset = {"__metadata__": metadata} if metadata else {}, [], 0
    for name, array in tensors.items():
        array = np.asarray(array)
        to = dtype if array.dtype.kind == "f" else None
        if to == "bf16":
            kind, data = "BF16", to_bf16_bits(array)
        else:
            data = np.asarray(array, dtype={"f64": "<f8", "f32": "<f4", "f16": "<f2", None: array.dtype}[to], order="C")
            kind = NAMES[data.dtype.newbyteorder("<")]
        chunk = data.tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + len(chunk)]}
        chunks.append(chunk)
        offset += len(chunk)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def load(path):
    """Reads {name: array}. Refuses a file whose tensors are not exactly its bytes."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    data = memoryview(content)[8 + length :]
    tensors, used = {}, 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        bf16 = entry["dtype"] == "BF16"
        dtype = np.dtype("<u2") if bf16 else DTYPES[entry["dtype"]]
        count = int(np.prod(entry["shape"], dtype=np.int64))
        if not 0 <= begin <= end <= len(data) or end - begin != count * dtype.itemsize:
            raise ValueError(f"{path}: tensor '{name}': offsets {begin}..{end} do not fit shape {entry['shape']}")
        array = np.frombuffer(data[begin:end], dtype=dtype)
        tensors[name] = (from_bf16_bits(array) if bf16 else array).reshape(entry["shape"])
        used += end - begin
    if used != len(data):
        raise ValueError(f"{path}: {len(data)} bytes of data for tensors of {used}")
    return tensors
