#!/usr/bin/env python3
"""Writes the shipped profiles of devices of which only some figures are published: mi300x and mi355x.

Usage: unmeasured.py [--out=share/clusters] [--only=mi300x,mi355x]

Both have published figures of their own for their links and their largest products, mi300x for its memory, and mi355x for its
attention. Everything else is taken over from hgx-h100 and hgx-h200, on coarse grids.
"""
import argparse
import dataclasses
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from shipped import CLUSTERS, read_profile  # noqa: E402
from text import Number, format_profile  # noqa: E402

SIZES = [2**i for i in range(9, 30)]
NOT_MEASURED = "Not measured on this device: "


def find(entries, **keys):
    return next(entry for entry in entries if all(entry[key] == value for key, value in keys.items()))


def take_over(part, name):
    """Notes at each source in `part` that it is about another device, and drops errors that are only known for that device."""
    if isinstance(part, list):
        for each in part:
            take_over(each, name)
    if not isinstance(part, dict):
        return
    for each in part.values():
        take_over(each, name)
    if "source" in part and not part["source"].startswith(NOT_MEASURED):
        part.pop("relative_error", None)
        source = re.sub(r"\. relative_error: .*$", "", part["source"])
        part["source"] = f"{NOT_MEASURED}as {name}. There: {source}"


# Devices of AMD ######################################################################################################

@dataclasses.dataclass
class Device:
    """Published figures of a device. Rates of links and collectives are in bytes/s."""
    name: str
    sheet: str  # source of the peaks
    memory: float  # bytes/s that kernels reach
    peak: dict  # FLOP/s by type
    largest: dict  # FLOP/s that the largest product reaches, and its source, by type
    sizes: dict  # part of that rate which products of so many columns and so much depth reach, beyond what is lost at 1024
    link: float
    link_source: str
    rings: dict  # bus bandwidth of 8 devices and its source, by collective
    to_all: float
    to_all_source: str
    sizes_source: str = ""


MAF = "AMD, 'Measuring Max-Achievable FLOPs, part 2' (ROCm blogs, February 2025), hipBLASLt with warm devices: {} TFLOP/s"
BUS_SOURCE = ("AMD expects a bus bandwidth of 304 GB/s of RCCL's all_reduce of 8 GiB on 8 devices (ROCm/cvs, "
              "mi300x_rccl_single_node_config.json)")
MI300X = Device(
    name="MI300X", sheet="AMD MI300X data sheet, matrix, dense", memory=3.885e12,
    peak={"f32": Number("163.4e12"), "bf16": Number("1307.4e12"), "f16": Number("1307.4e12")},
    largest={
        "f32": (94.1e12, "the least that AMD expects of rocBLAS in f32, 94.1 TFLOP/s (ROCm/cvs, documentation of "
                         "mi300_health_config.json)"),
        "bf16": (708e12, MAF.format("708") + " for 4096 x 4864 x 32896; PyTorch 2.5.1 reaches 668 (stas00/ml-engineering, "
                         "compute/accelerator)"),
        "f16": (654e12, MAF.format("654"))},
    sizes={4096: 1}, link=48e9,
    link_source="One Infinity Fabric link of 64 GB/s between each two devices, of which 48 GB/s are left (RCCL, src/graph/topo.h, and "
                "ROCm/rccl issue 1210; AMD expects as much of TransferBench, ROCm/cvs, mi300_health_config.json)",
    rings={"all_gather": (304e9, BUS_SOURCE + "; assumed for this one too"),
           "reduce_scatter": (304e9, BUS_SOURCE + "; assumed for this one too"), "all_reduce": (304e9, BUS_SOURCE)},
    to_all=320e9, to_all_source="Not RCCL's: AMD expects 320 GB/s from each device to all others of TransferBench (ROCm/cvs, "
                                "mi300_health_config.json)")

EXPECTED = ("AMD expects a bus bandwidth of {} GB/s of RCCL's {} of 8 GiB on 8 MI355X (ROCm/cvs, "
            "cvs/input/config_file/rccl/single_node_mi355_rccl.json)")
KITTENS = "HazyResearch/HipKittens at f09e968, analysis"
PYTORCH_4096, PYTORCH_8192 = 1138.5e12, 1521.3e12  # square products
MI355X = Device(
    name="MI355X", sheet="AMD MI355X specifications, matrix, dense (2.5 PFLOP/s in 16 bits, 157.3 TFLOP/s in f32)",
    memory=8e12 * MI300X.memory / 5.3e12, peak={"f32": Number("157.3e12"), "bf16": Number("2516.6e12")},
    largest={
        "f32": (157.3e12 * 94.1 / 163.4, f"{NOT_MEASURED}the part of the peak that mi300x reaches"),
        "bf16": (PYTORCH_8192, f"PyTorch on MI355X, square products of 8192: 1521 TFLOP/s ({KITTENS}/bf16_gemm/mi350x/"
                               "mi355x_bf16_gemm.json); the largest of all sizes is 1565 (stas00/ml-engineering, compute/accelerator)")},
    sizes={4096: PYTORCH_4096 / PYTORCH_8192, 8192: 1},
    sizes_source="With 4096 columns and depth 25% is lost, as in square products of 4096 (1139 TFLOP/s, the same file)",
    link=400e9 / 7, link_source="One Infinity Fabric link of 76.8 GB/s between each two devices (AMD MI355X specifications), of which 57 are left: "
                                + EXPECTED.format(400, "reduce_scatter") + ", over 7 links",
    rings={"all_gather": (380e9, EXPECTED.format(380, "all_gather")), "reduce_scatter": (400e9, EXPECTED.format(400, "reduce_scatter")),
           "all_reduce": (390e9, EXPECTED.format(390, "all_reduce"))},
    to_all=340e9, to_all_source=EXPECTED.format(340, "all_to_all"))
H200_PEAK, H200_LARGEST = 989.4e12, 0.797


def shorten(value):
    return float(f"{value:.3g}")


def get_lost(dtype, h200):
    """The part of the rate that is left with 1024 columns and depth, and whose it is."""
    if dtype == "f32":
        small = find(h200["device"]["rates"], dtype="f32")["efficiency"]["values"][20:24]
        return small[0] / small[3], "of hgx-h200 in f32"
    measured = find(h200["device"]["rates"], dtype="bf16")["efficiency"]
    values, columns, depth = measured["values"], measured["columns"], measured["depth"]
    of = [values[(measured["rows"].index(1024) * len(columns) + columns.index(size)) * len(depth) + depth.index(size)]
          for size in (1024, 4096)]
    return of[0] / of[1], "of hgx-h200 in bf16"


def make_products(device, dtype, h200):
    """The coarse curve of H200, adjusted so that large products reach the published rate, and products of few rows the memory's rate."""
    shape = find(h200["device"]["rates"], dtype="f32")["efficiency"]["values"][3::4]
    reached, source = device.largest[dtype]
    largest = reached / device.peak[dtype]
    bytes_each = 4 if dtype == "f32" else 2
    stretch = reached / device.memory * bytes_each / (H200_PEAK * H200_LARGEST / float(h200["device"]["memory_bytes_per_s"]) * 2)
    lost, whose = get_lost(dtype, h200)
    sizes = {4096: 1} if dtype == "f32" else device.sizes
    parts = {1024: lost * sizes[4096], **sizes}
    values = [shorten(largest * value / shape[-1] * (one * other)**0.5) for value in shape for one in parts.values()
              for other in parts.values()]
    return {"rows": [round(rows * stretch) for rows in (16, 64, 128, 256, 512, 1024, 4096)],
            "columns": list(parts), "depth": list(parts), "values": values,
            "source": f"The last point: {source}. {'' if dtype == 'f32' or not device.sizes_source else device.sizes_source + '. '}"
                      f"{NOT_MEASURED}fewer rows. There the fall of the H200 "
                      "bf16 curve (6, 25, 46, 61, 67, 68, 79.7% at 16, 64, 128, 256, 512, 1024, 4096 rows) is taken "
                      f"over, at {stretch:.2f} times the rows, which is this device's reached FLOP per byte of memory "
                      f"over H200's. With 1024 columns and depth {1 - lost:.0%} is lost, as {whose} at 1024 rows, split "
                      "evenly between both"}


def make_rates(device, h200):
    return [{"dtype": dtype, "flop_per_s": device.peak[dtype], "source": device.sheet, "efficiency": make_products(device, dtype, h200)}
            for dtype in device.peak]


def get_value(curve, length, heads):
    return curve["values"][curve["length"].index(length) * len(curve["heads"]) + curve["heads"].index(heads)]


def make_attention(h100):
    """Some sizes of hgx-h100, slowed down as much as products in bf16."""
    slower = MI300X.largest["bf16"][0] / MI300X.peak["bf16"] / H200_LARGEST
    curves = []
    for curve in h100["device"]["attention"]:
        lengths, heads = [64, 512, 2048, 8192], [16, 128, 1024]
        values = [shorten(get_value(curve, length, head) * slower) for length in lengths for head in heads]
        curves.append({"dtype": "bf16", "head_columns": curve["head_columns"], "products": curve["products"],
                       "length": lengths, "heads": heads, "values": values,
                       "source": f"{NOT_MEASURED}the curve of hgx-h100 times {slower:.2f}, which is the part of the peak "
                                 "that the largest product reaches here over the part that it reaches there (54.2 and "
                                 "79.7%)"})
    return curves


# TFLOP/s of AITER's causal attention on MI355X in 256 heads, by the columns of a head, products and length.
AITER = {(128, 2): {1024: 555, 2048: 876, 4096: 1069, 8192: 1173, 16384: 1247},
         (128, 5): {1024: 389, 2048: 673, 4096: 877, 8192: 1034, 16384: 1109},
         (64, 2): {1024: 229, 2048: 311, 4096: 344, 8192: 493, 16384: 596}}


def make_measured_attention(h100):
    """The curves of hgx-h100, scaled at each length so that 256 heads have AITER's rate."""
    curves = []
    for curve in h100["device"]["attention"]:
        columns, products = curve["head_columns"], curve["products"]
        like = next(key for key in ((columns, products), (128, products)) if key in AITER)
        base = next(other for other in h100["device"]["attention"] if (other["head_columns"], other["products"]) == like)
        lengths, heads = [64, 512, *AITER[like]], [16, 128, 256, 1024]
        scale = {length: AITER[like][max(length, 1024)] * 1e12 / MI355X.peak["bf16"] / get_value(base, max(length, 1024), 256)
                 for length in lengths}
        values = [shorten(min(get_value(curve, length, head) * scale[length], 1)) for length in lengths for head in heads]
        whose = "" if like == (columns, products) else f" Not measured for {columns} columns: scaled as heads of {like[0]} columns are."
        curves.append({"dtype": "bf16", "head_columns": columns, "products": products, "length": lengths, "heads": heads, "values": values,
                       "source": f"AITER's causal attention in 16 sequences of 16 heads, 1024 to 16384 tokens ({KITTENS}/attn). Other numbers "
                                 f"of heads and shorter sequences: the curve of hgx-h100, scaled to agree with these.{whose}"})
    return curves


def make_links(device, h100):
    links = []
    for first in range(7):
        links.append({
            "from": f"device{first}", "to": f"device[{first + 1}-7]" if first < 6 else "device7", "bytes_per_s": shorten(device.link),
            "latency_s": 3.4e-6,
            "source": f"{device.link_source}; latency: not RCCL's, 3.4 us a step over NVLink in NCCL's tuning table "
                      "(src/graph/tuning.cc at b647562), taken over"})
    pcie, nic = find(h100["links"], to="nic*"), find(h100["links"], to="network")
    pcie["source"] = f"{NOT_MEASURED}as hgx-h100. There: {pcie['source']}"
    nic["bytes_per_s"] = 48.4e9
    nic["source"] = ("One NIC of 400 Gb/s a device: 48.4 GB/s by RDMA from an MI300X (ROCm/mori, README, MORI-IO); "
                     "latency and post_s not measured on this device, as hgx-h100: "
                     + nic["source"][nic["source"].index("latency: "):])
    return links + [pcie, nic]


# Payloads that each device sends, in units of (n - 1) / n.
RINGS = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2}
# Start-ups over nodes: seconds, and seconds for each node.
STARTS = {"all_gather": (5.4e-6, 8e-6), "reduce_scatter": (5.4e-6, 8e-6), "all_reduce": (56e-6, 0)}


def make_curve(h100, collective, members, rate, part, source):
    """Curve of members in one node. `part` is the share of the payload that a device sends."""
    start = float(find(h100["collectives"], collective=collective, members=members)["points"][0][1])
    return {"collective": collective, "members": members, "per_node": members,
            "points": [[size, float(f"{start + part * size / rate:.4g}")] for size in SIZES],
            "source": f"{source}; start: the time of 512 bytes in hgx-h100's curve, taken over"}


def make_line(device, collective, members):
    """Line of `members` devices in each of several nodes."""
    start, node = STARTS[collective]
    rate, inside = device.rings[collective][0] * (members - 1) / 7, "the bus bandwidth inside a node"
    if members == 2:
        rate, inside = 2 * rate, "twice the bus bandwidth inside a node, by rings in both directions"
    line = {"collective": collective, "members": {"min": 2 * members, "max": 512 * members}, "per_node": members,
            "alpha_s": start}
    if node:
        line["per_member_s"] = node / members
    return {**line, "beta_s_per_byte": shorten(RINGS[collective] / rate),
            "source": f"{NOT_MEASURED}{inside}, {rate / 1e9:.0f} GB/s, as {members} NICs carry "
                      f"{members * 48.4:.0f} GB/s; start: about what hgx-h100 predicts for 1 KB"
                      + (", which grows by 8 us with each node" if node else " on 16 nodes")}


def make_collectives(device, h100):
    """Makes entries for collectives. Rings use all links of a device at once, but the model's ring uses only one."""
    entries = []
    for collective, times in {"all_to_all": 1, **RINGS}.items():
        for members in (2, 4, 8):
            rate, source = device.rings.get(collective, (device.to_all, device.to_all_source))
            if members < 8:
                part = f"{members - 1} / 7"
                source += f"; {part} of it is assumed, as a device has {part} of its links to the others"
            entries.append(make_curve(h100, collective, members, rate * (members - 1) / 7,
                                      times * (members - 1) / members, source))
    return entries + [make_line(device, collective, members) for collective in RINGS for members in (2, 4, 8)]


def make_mi300x():
    h100, h200 = read_profile("hgx-h100"), read_profile("hgx-h200")
    device = h100["device"]
    for part in ([device["host_link"]], h100["protocols"]):
        take_over(part, "hgx-h100")
    return {
        "moeplan_cluster": 1, "name": "mi300x",
        "description": "Servers with 8 MI300X each, an Infinity Fabric link between each two of them, one 400 Gb/s NIC a "
                       "device, non-blocking network",
        "nodes": {"min": 1, "max": 512}, "devices_per_node": 8,
        "device": {
            "name": "MI300X", "memory_bytes": 206100000000, "reserved_bytes": device["reserved_bytes"],
            "memory_bytes_per_s": MI300X.memory, "launch_s": device["launch_s"], "kernel_s": device["kernel_s"],
            "source": "memory_bytes: 191.98 GiB, which PyTorch reports, of 192 GB of HBM3. memory_bytes_per_s: the least "
                      "that AMD accepts of BabelStream's triad, 3885301 MB/s of 5.3 TB/s (thresholds of AMD's validation "
                      "guide for MI300X). reserved_bytes, launch_s and kernel_s: not measured on this device, as "
                      "hgx-h100. sustained: none, as the rates of products are those of warm devices",
            "rates": make_rates(MI300X, h200), "attention": make_attention(h100),
            "host_link": device["host_link"]},
        "links": make_links(MI300X, h100),
        "protocols": h100["protocols"], "interference": h100["interference"], "collectives": make_collectives(MI300X, h100)}


def make_mi355x():
    h100, h200 = read_profile("hgx-h100"), read_profile("hgx-h200")
    for part in ([h100["device"]["host_link"]], h100["protocols"]):
        take_over(part, "hgx-h100")
    rates = make_rates(MI355X, h200)
    rates.append({"dtype": "f16", "flop_per_s": MI355X.peak["bf16"], "like": "bf16", "source": f"{MI355X.sheet}; products: as bf16, not measured apart"})
    return {
        "moeplan_cluster": 1, "name": "mi355x", "like": "mi300x",
        "description": "Servers with 8 MI355X each, an Infinity Fabric link between each two of them, one 400 Gb/s NIC a device, "
                       "non-blocking network",
        "device": {
            "name": "MI355X", "memory_bytes": 309200000000, "memory_bytes_per_s": shorten(MI355X.memory),
            "source": "memory_bytes: 288 GB of HBM3E (AMD MI355X specifications), counted in GiB as the 192 GB of MI300X are. "
                      "memory_bytes_per_s: 8 TB/s (the same), of which the part is left that mi300x has. All other figures that are not "
                      "here are those of mi300x, not measured on this device",
            "rates": rates, "attention": make_measured_attention(h100)},
        "links": make_links(MI355X, h100), "collectives": make_collectives(MI355X, h100)}


# Profiles ############################################################################################################

PROFILES = {"mi300x": make_mi300x, "mi355x": make_mi355x}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default=CLUSTERS, type=pathlib.Path)
    parser.add_argument("--only", default=",".join(PROFILES))
    options = parser.parse_args()
    for name in options.only.split(","):
        if name not in PROFILES:
            parser.error(f"--only: expected names of {', '.join(PROFILES)} but got '{name}'")
        (options.out / f"{name}.json").write_text(format_profile(PROFILES[name]()))


if __name__ == "__main__":
    main()
