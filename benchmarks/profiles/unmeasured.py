#!/usr/bin/env python3
"""Writes the shipped profiles of devices whose curves are those of other devices: gb300-nvl72 and mi300x.

Usage: unmeasured.py [--out=share/clusters] [--only=gb300-nvl72,mi300x]

gb300-nvl72 is gb200-nvl72 with other memory and other NICs. mi300x has published figures of its own for its memory, its
links and its largest products. Everything else is taken over from hgx-h100 and hgx-h200, on coarse grids.
"""
import argparse
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


# GB300 ###############################################################################################################

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


# Published rates of dense products, in PFLOP/s.
STATED = {"tf32": 1.25, "bf16": 2.5}


def make_gb300():
    profile = read_profile("gb200-nvl72")
    device = profile["device"]
    for part in ([rate.get(key) for rate in device["rates"] for key in ("efficiency", "grouped")],
                 device["attention"], [device["host_link"]], profile["collectives"]):
        take_over(part, "gb200-nvl72")
    profile["name"], profile["network"] = "gb300-nvl72", "ib-800"
    profile["description"] = profile["description"].replace("GB200", "GB300").replace("400 Gb/s", "800 Gb/s")
    device["name"] = "GB300"
    device["memory_bytes"] = 279000000000
    there = device["source"][device["source"].index("memory_bytes_per_s: "):]
    device["source"] = ("memory_bytes: 279 GB of HBM3e a GPU, 20 TB in 72 GPUs (NVIDIA, GB300 NVL72; "
                        "verda.com/blog/gb300-nvl72-architecture), which also has 8 TB/s. All other figures are those of "
                        f"gb200-nvl72, not measured on this device. There: {there}")
    for rate in device["rates"]:
        rate["source"] = f"As gb200-nvl72. There: {rate['source']}"
        if rate["dtype"] in STATED:
            rate["source"] += (f". {STATED[rate['dtype']]} PFLOP/s are stated for GB300 (verda.com/blog/"
                               "gb300-nvl72-architecture). But the fastest product in bf16 has 1769 TFLOP/s on B300 and "
                               "1745 on B200 (stas00/ml-engineering, compute/accelerator), so the peak stays the one of "
                               "which the curves are fractions")
    find(device["rates"], dtype="f16")["source"] = "As bf16; not measured apart"
    for curve in device["attention"]:
        curve["source"] += ". GB300 has twice the exponentials per second of GB200, which this leaves out"
    pcie, nic = find(profile["links"], to="nic*"), find(profile["links"], to="network")
    pcie["bytes_per_s"], nic["bytes_per_s"] = 105.6e9, 97e9
    pcie["source"] = (f"{NOT_MEASURED}PCIe 6.0 x16 (glennklockwood.com/garden/processors/B300), twice the 52.8 GB/s that "
                      "nvbandwidth measures of PCIe 5.0 x16 on H100 (NVIDIA/nvbandwidth issue 24); one NIC a device; "
                      + pcie["source"][pcie["source"].index("latency: "):])
    nic["source"] = (f"{NOT_MEASURED}one ConnectX-8 of 800 Gb/s a device (NVIDIA, GB300 NVL72: 4 of them in a tray of 4 "
                     "GPUs), twice the 48.5 GB/s of a NIC of 400 Gb/s (NVIDIA/nccl-tests issue 267); "
                     + nic["source"][nic["source"].index("latency: "):])
    return profile


# MI300X ##############################################################################################################

MEMORY = 3.885e12
PEAK = {"f32": Number("163.4e12"), "bf16": Number("1307.4e12"), "f16": Number("1307.4e12")}
LARGEST = {"f32": 94.1e12, "bf16": 708e12, "f16": 654e12}
MAF = "AMD, 'Measuring Max-Achievable FLOPs, part 2' (ROCm blogs, February 2025), hipBLASLt with warm devices: {} TFLOP/s"
LARGEST_SOURCE = {
    "f32": "the least that AMD expects of rocBLAS in f32, 94.1 TFLOP/s (ROCm/cvs, documentation of mi300_health_config.json)",
    "bf16": MAF.format("708") + " for 4096 x 4864 x 32896; PyTorch 2.5.1 reaches 668 (stas00/ml-engineering, "
            "compute/accelerator)",
    "f16": MAF.format("654"),
}
H200_PEAK, H200_LARGEST = 989.4e12, 0.797


def shorten(value):
    return float(f"{value:.3g}")


def make_products(dtype, h200):
    """The coarse curve of H200, adjusted so that large products reach the published rate, and products of few rows the memory's rate."""
    shape = find(h200["device"]["rates"], dtype="f32")["efficiency"]["values"][3::4]
    largest = LARGEST[dtype] / PEAK[dtype]
    size = 4 if dtype == "f32" else 2
    stretch = LARGEST[dtype] / MEMORY * size / (H200_PEAK * H200_LARGEST / float(h200["device"]["memory_bytes_per_s"]) * 2)
    if dtype == "f32":
        small = find(h200["device"]["rates"], dtype="f32")["efficiency"]["values"][20:24]
        lost, whose = small[0] / small[3], "of hgx-h200 in f32"
    else:
        measured = find(h200["device"]["rates"], dtype="bf16")["efficiency"]
        values, columns, depth = measured["values"], measured["columns"], measured["depth"]
        of = [values[(measured["rows"].index(1024) * len(columns) + columns.index(size)) * len(depth) + depth.index(size)]
              for size in (1024, 4096)]
        lost, whose = of[0] / of[1], "of hgx-h200 in bf16"
    values = [shorten(largest * value / shape[-1] * part) for value in shape for part in (lost, lost**0.5, lost**0.5, 1)]
    return {"rows": [round(rows * stretch) for rows in (16, 64, 128, 256, 512, 1024, 4096)],
            "columns": [1024, 4096], "depth": [1024, 4096], "values": values,
            "source": f"The last point: {LARGEST_SOURCE[dtype]}. {NOT_MEASURED}fewer rows. There the fall of the H200 "
                      "bf16 curve (6, 25, 46, 61, 67, 68, 79.7% at 16, 64, 128, 256, 512, 1024, 4096 rows) is taken "
                      f"over, at {stretch:.2f} times the rows, which is this device's reached FLOP per byte of memory "
                      f"over H200's. With 1024 columns and depth {1 - lost:.0%} is lost, as {whose} at 1024 rows, split "
                      "evenly between both"}


def make_rates(h200):
    return [{"dtype": dtype, "flop_per_s": PEAK[dtype], "source": "AMD MI300X data sheet, matrix, dense",
             "efficiency": make_products(dtype, h200)} for dtype in PEAK]


def make_attention(h100):
    """Some sizes of hgx-h100, slowed down as much as products in bf16."""
    slower = LARGEST["bf16"] / PEAK["bf16"] / H200_LARGEST
    curves = []
    for curve in h100["device"]["attention"]:
        lengths, heads = [64, 512, 2048, 8192], [16, 128, 1024]
        values = [shorten(curve["values"][curve["length"].index(length) * len(curve["heads"]) +
                                          curve["heads"].index(head)] * slower) for length in lengths for head in heads]
        curves.append({"dtype": "bf16", "head_columns": curve["head_columns"], "products": curve["products"],
                       "length": lengths, "heads": heads, "values": values,
                       "source": f"{NOT_MEASURED}the curve of hgx-h100 times {slower:.2f}, which is the part of the peak "
                                 "that the largest product reaches here over the part that it reaches there (54.2 and "
                                 "79.7%)"})
    return curves


def make_links(h100):
    links = []
    for first in range(7):
        links.append({
            "from": f"device{first}", "to": f"device[{first + 1}-7]" if first < 6 else "device7", "bytes_per_s": 48e9,
            "latency_s": 3.4e-6,
            "source": "One Infinity Fabric link of 64 GB/s between each two devices, of which 48 GB/s are left (RCCL, "
                      "src/graph/topo.h, and ROCm/rccl issue 1210; AMD expects as much of TransferBench, ROCm/cvs, "
                      "mi300_health_config.json); latency: not RCCL's, 3.4 us a step over NVLink in NCCL's tuning table "
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
BUS, TO_ALL = 304e9, 320e9
BUS_SOURCE = ("AMD expects a bus bandwidth of 304 GB/s of RCCL's all_reduce of 8 GiB on 8 devices (ROCm/cvs, "
              "mi300x_rccl_single_node_config.json)")
TO_ALL_SOURCE = ("Not RCCL's: AMD expects 320 GB/s from each device to all others of TransferBench (ROCm/cvs, "
                 "mi300_health_config.json)")
# Start-ups over nodes: seconds, and seconds for each node.
STARTS = {"all_gather": (5.4e-6, 8e-6), "reduce_scatter": (5.4e-6, 8e-6), "all_reduce": (56e-6, 0)}


def make_curve(h100, collective, members, rate, part, source):
    """Curve of members in one node. `part` is the share of the payload that a device sends."""
    start = float(find(h100["collectives"], collective=collective, members=members)["points"][0][1])
    return {"collective": collective, "members": members, "per_node": members,
            "points": [[size, float(f"{start + part * size / rate:.4g}")] for size in SIZES],
            "source": f"{source}; start: the time of 512 bytes in hgx-h100's curve, taken over"}


def make_line(collective, members):
    """Line of `members` devices in each of several nodes."""
    start, node = STARTS[collective]
    rate, inside = BUS * (members - 1) / 7, "the bus bandwidth inside a node"
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


def make_collectives(h100):
    """Makes entries for collectives. Rings use all links of a device at once, but the model's ring uses only one."""
    entries = []
    for collective, times in {"all_to_all": 1, **RINGS}.items():
        for members in (2, 4, 8):
            source, rate = BUS_SOURCE, BUS
            if collective == "all_to_all":
                source, rate = TO_ALL_SOURCE, TO_ALL
            elif collective != "all_reduce":
                source += "; assumed for this one too"
            if members < 8:
                part = f"{members - 1} / 7"
                source += f"; {part} of it is assumed, as a device has {part} of its links to the others"
            entries.append(make_curve(h100, collective, members, rate * (members - 1) / 7,
                                      times * (members - 1) / members, source))
    return entries + [make_line(collective, members) for collective in RINGS for members in (2, 4, 8)]


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
            "memory_bytes_per_s": MEMORY, "launch_s": device["launch_s"], "kernel_s": device["kernel_s"],
            "source": "memory_bytes: 191.98 GiB, which PyTorch reports, of 192 GB of HBM3. memory_bytes_per_s: the least "
                      "that AMD accepts of BabelStream's triad, 3885301 MB/s of 5.3 TB/s (thresholds of AMD's validation "
                      "guide for MI300X). reserved_bytes, launch_s and kernel_s: not measured on this device, as "
                      "hgx-h100. sustained: none, as the rates of products are those of warm devices",
            "rates": make_rates(h200), "attention": make_attention(h100),
            "host_link": device["host_link"]},
        "links": make_links(h100),
        "protocols": h100["protocols"], "interference": h100["interference"], "collectives": make_collectives(h100)}


# Profiles ############################################################################################################

PROFILES = {"gb300-nvl72": make_gb300, "mi300x": make_mi300x}


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
