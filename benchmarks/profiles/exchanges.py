#!/usr/bin/env python3
"""Writes the parts of shipped profiles that are about exchanges: links, algorithms, protocols and collectives.

Usage: exchanges.py --measured=DIR [--out=share/clusters] [--only=hgx-h100,..]

DIR has `DEVICE-nccl.csv` of NVIDIA aiconfigurator: columns op, gpus, bytes, us, for one collective inside a node. The
rest of each profile stays as it is. Times of sizes that are not in DIR come from smoothing (smooth.py).
"""
import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from shipped import rewrite  # noqa: E402
from smooth import Smoother  # noqa: E402

NAMES = {"all_gather": "all_gather", "reduce_scatter": "reduce_scatter", "all_reduce": "all_reduce",
         "alltoall": "all_to_all"}
SIZES = [2**i for i in range(9, 30)]
# Devices with the same NVLink and NIC. Each is smoothed with the rows of both.
ALIKE = {"h100": ("h100", "h200"), "h200": ("h100", "h200"), "b200": ("b200", "gb200"), "gb200": ("b200", "gb200"),
         "b300": ("b300", "gb300"), "gb300": ("b300", "gb300")}
# Device whose rows a profile has, and its kind of links.
PROFILES = {"hgx-h100": ("h100", "hopper"), "hgx-h200": ("h200", "hopper"), "hgx-b200": ("b200", "blackwell"),
            "gb200-nvl72": ("gb200", "blackwell"), "hgx-b300": ("b300", "blackwell ultra"),
            "gb300-nvl72": ("gb300", "blackwell ultra"), "h800": (None, "h800")}

TUNING = "NCCL's tuning table (src/graph/tuning.cc at b647562)"
NVLINK = {
    "hopper": (370.8e9, "NCCL, src/graph/topo.h: 18 NVLinks of 20.6 GB/s; 376 GB/s measured between two H100 "
                        "(NVIDIA/nccl issue 1264)"),
    "blackwell": (721.8e9, "NCCL, src/graph/topo.h: 18 NVLinks of 40.1 GB/s on compute capability 10.0"),
    "blackwell ultra": (721.8e9, "NCCL, src/graph/topo.h: 18 NVLinks of 40.1 GB/s on compute capability 10.0; taken over"),
    "h800": (164.8e9, "NCCL, src/graph/topo.h: 20.6 GB/s for each of the 8 NVLinks that H800 has; DeepSeek-V3's report "
                      "(arXiv 2412.19437, section 3.2.2) counts on 160 GB/s"),
}
# Rates of a device's PCIe and NIC.
NICS = {
    400: (52.8e9, "PCIe 5.0 x16 as measured with nvbandwidth on H100 (NVIDIA/nvbandwidth issue 24)",
          48.5e9, "One NIC of 400 Gb/s a device: 48 to 49 GB/s (NVIDIA/nccl-tests issue 267, NCCL's developers)"),
    800: (105.6e9, "Not measured: PCIe 6.0 x16 (glennklockwood.com/garden/processors/B300), twice the 52.8 GB/s that nvbandwidth "
                   "measures of PCIe 5.0 x16 on H100 (NVIDIA/nvbandwidth issue 24)",
          97e9, "Not measured: one ConnectX-8 of 800 Gb/s a device (NVIDIA, DGX B300 and GB300 NVL72), twice the 48.5 GB/s of a NIC of "
                "400 Gb/s (NVIDIA/nccl-tests issue 267)"),
}


def make_links(kind):
    """The parts that all profiles share: a switch that adds up (NVLink SHARP), and a NIC for each device."""
    rate, source = NVLINK[kind]
    pcie, pcie_source, nic, nic_source = NICS[800 if kind == "blackwell ultra" else 400]
    return [
        {"from": "device*", "to": "nvswitch", "bytes_per_s": rate, "latency_s": 1.7e-6, "reduces": True,
         "source": f"{source}; latency: {TUNING}, 3.4 us a step over NVLink (ring, simple), half for each end; "
                   "reduces: third generation NVSwitch and later, NVLink SHARP"},
        {"from": "device*", "to": "nic*", "bytes_per_s": pcie, "latency_s": 2.85e-6,
         "source": f"{pcie_source}; one NIC a device on a common PCIe switch; latency: {TUNING}, 5.7 us a step over PCIe, "
                   "half of it for each end"},
        {"from": "nic*", "to": "network", "bytes_per_s": nic, "latency_s": 4.15e-6, "post_s": 1.5e-6,
         "source": f"{nic_source}; latency: {TUNING}, 14 us a step over the network (ring, simple), less 5.7 us for PCIe at both "
                   "ends, half of the rest for each end; post_s: the same file, network post overhead, 1 us with CPUs "
                   "of Intel, three times that for the simple protocol, half for each end"},
    ]


def make_protocols():
    rows = [("ll", 6.6e-6, 0.18, 0.36, 0.333, 0.1,
             "0.6 of 3.4 us over NVLink, 2.7 of 14 over the network, 5 in trees; bandwidth: at most 39 GB/s between two "
             "nodes of 388"),
            ("ll128", 14e-6, 0.5, 0.61, 0.333, 0.92,
             "1.9 of 3.4 us over NVLink, 4 of 14 over the network, 8.5 in trees; bandwidth: 0.92 there, as 120 of 128 "
             "bytes are data"),
            ("simple", 8.4e-6, 1, 2, 1, 1, "the links have its latencies; 28 us over the network in trees")]
    algorithms = {"ll": ["ring", "tree", "pairwise"], "ll128": ["ring", "tree"]}
    return [{"name": name, **({"algorithms": algorithms[name]} if name in algorithms else {}), "base_s": base, "latency": latency, "tree_latency": tree, "post": post,
             "bandwidth": bandwidth, "source": f"{TUNING}, rings: {text}. Point-to-point has no ll128, and NVLS only simple"}
            for name, base, latency, tree, post, bandwidth, text in rows]


def read_rows(folder, device):
    """Rows [(op, gpus, bytes, seconds)] of one device."""
    with open(pathlib.Path(folder) / f"{device}-nccl.csv") as file:
        return [(row["op"], int(row["gpus"]), int(row["bytes"]), float(row["us"]) * 1e-6)
                for row in csv.DictReader(file)]


def make_collectives(rows, device):
    """Entries of `collectives`. `rows` holds the usable rows of each similar device."""
    smoother = Smoother(rows)
    entries = []
    for op, gpus in sorted({(op, gpus) for op, gpus, _, _ in rows[device]}):
        points = [[size, float(f"{smoother.get(device, op, gpus, size):.4g}")] for size in SIZES]
        others = [name for name in rows if name != device]
        entries.append({
            "collective": NAMES[op], "members": gpus, "per_node": gpus,
            "relative_error": round(smoother.get_error(device, op, gpus), 3), "points": points,
            "source": "NVIDIA aiconfigurator (Apache-2.0), NCCL 2.29.2 in half precision, device time, bytes read as "
                      "those of nccl-tests; smoothed with the other collectives and with those of "
                      f"{', '.join(others)}. relative_error: of each row, predicted from all others"})
    return entries


# Profiles ############################################################################################################

def update(profile, kind, collectives):
    """The profile with these parts. `collectives` stay if there are no new ones."""
    parts = {"links": make_links(kind), "protocols": make_protocols()}
    if collectives:
        parts["collectives"] = collectives
    keys = [key for key in profile if key not in parts or key in ("links", "collectives")]
    keys.insert(keys.index("interference"), "protocols")
    if "collectives" in parts and "collectives" not in keys:
        keys.append("collectives")
    return {key: parts.get(key, profile.get(key)) for key in keys}


def main():
    def update_one(name, profile, folder):
        device, kind = PROFILES[name]
        rows = {other: read_rows(folder, other) for other in ALIKE.get(device, ())}
        return update(profile, kind, make_collectives(rows, device) if rows else [])

    rewrite(__doc__, PROFILES, update_one)


if __name__ == "__main__":
    main()
