#!/usr/bin/env python3
"""Writes the curves of shipped profiles for products, grouped products and attention, from measurements.

Usage: launches.py --measured=DIR [--out=share/clusters] [--only=hgx-h100,..]

measured.py says which files DIR has. The rest of each profile stays as it is.
"""
import pathlib
import re
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measured  # noqa: E402
from grid import Basis, Roughness, fit, solve  # noqa: E402
from shipped import rewrite  # noqa: E402

# Device whose measurements a profile has.
PROFILES = {"hgx-h100": "h100", "hgx-h200": "h200", "hgx-b200": "b200", "gb200-nvl72": "gb200", "hgx-b300": "b300", "gb300-nvl72": "gb300",
            "h800": "h100"}
SOURCE = "NVIDIA aiconfigurator (Apache-2.0), TensorRT-LLM on {device}, device time"
ERROR = "relative_error: the mean over a held-out random third of the rows"

PRODUCTS = {"rows": [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768],
            "columns": [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536],
            "depth": [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536]}
GROUPED = {"rows": [1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 16384],
           "columns": [32, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768],
           "depth": [32, 128, 512, 1024, 2048, 4096, 8192, 16384],
           "groups": [1, 2, 4, 8, 32, 128]}
ATTENTION = {"length": [1, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
             "heads": [1, 16, 64, 128, 256, 1024, 4096, 16384]}
# TFLOP/s of cuDNN's backward relative to its forward, 128 columns, on H100.
BACKWARD = {512: 305 / 497, 1024: 408 / 574, 2048: 465 / 617, 4096: 499 / 609, 8192: 518 / 600, 16384: 516 / 595}
BACKWARD_SOURCE = ("The forward's, times the ratio of cuDNN's backward and forward on H100 with heads of 128 columns at "
                   "512 to 16384 tokens (FlashAttention-3, arXiv 2407.08608, figures 5 and 6: 0.61 to 0.87; "
                   "FlashAttention 4 on B200 has 0.85 at 8192, Dao-AILab/flash-attention pull request 2280). Not "
                   "measured on this device")
# Distance at which a row's weight falls in a fit of grouped products: rows far from all others count less.
FAR = 0.15


def make_curve(axes, logs, error, source):
    return {**axes, "values": [float(f"{min(np.exp(value), 1):.3g}") for value in logs],
            "relative_error": round(error, 3), "source": source}


def get_error(rows, train, predict):
    """Mean error of the held-out third of the rows."""
    left_out = np.random.default_rng(0).random(len(rows)) < 1 / 3
    predicted = predict(train(rows[~left_out]), rows[left_out])
    return float(np.abs(predicted / rows[left_out, -1] - 1).mean())


# Products ############################################################################################################

def make_products(rows, peak, device):
    def train(rows):
        return fit(list(PRODUCTS.values()), rows[:, :3], np.log(2 * rows[:, :3].prod(1) / peak / rows[:, 3]))

    def predict(logs, rows):
        return 2 * rows[:, :3].prod(1) / peak / np.exp(Basis(list(PRODUCTS.values()), rows[:, :3]).at(logs))

    source = f"{SOURCE.format(device=device)}: 1 to 32768 x 32 to 65536 x 32 to 65536. {ERROR}"
    return make_curve(PRODUCTS, train(rows), get_error(rows, train, predict), source)


# Grouped products ####################################################################################################

class Layers:
    """MoE layers as sums of launches of the cost model: rows to experts and back, the activation, two products."""

    def __init__(self, rows, peak, bytes_per_second, kernel_seconds):
        tokens, hidden, inner, _, used, each, mine, self.seconds = rows.T
        axes = list(GROUPED.values())
        moved = (4 * mine * hidden, 6 * mine * inner, 2 * (mine + tokens) * hidden)
        self.moved = sum(np.maximum(each / bytes_per_second, kernel_seconds) for each in moved)
        self.products = [(Basis(axes, np.stack([each, columns, depth, used], 1)), 2 * used * each * columns * depth / peak)
                         for columns, depth in ((2 * inner, hidden), (hidden, inner))]

    def predict(self, logs, rest):
        """Predicts the layers. `rest`: seconds of the layer's other launches."""
        parts = [ideal / np.exp(basis.at(logs)) for basis, ideal in self.products]
        return sum(parts) + self.moved + rest, parts


def expect_grouped(products, peak, bytes_per_second):
    """Logarithms of the curve if a launch took as long as one product of all rows, or as the bytes of all products."""
    each, columns, depth, groups = (axis.ravel() for axis in np.meshgrid(*GROUPED.values(), indexing="ij"))
    single = Basis(list(PRODUCTS.values()), np.stack([each * groups, columns, depth], 1)).at(products)
    moved = 2 * (each * depth + depth * columns + each * columns)
    return np.minimum(single, np.log(2 * each * columns * depth / peak * bytes_per_second / moved))


def fit_layers(layers, expected, steps=12, roughness=0.02, ridge=0.02):
    """Logarithms of the curve, and the seconds of all other launches, by Gauss and Newton.

    A layer's time does not say how it is divided between its two products. The curve therefore stays close to the expected one, and
    deviates smoothly.
    """
    rough = Roughness(list(GROUPED.values()), roughness)
    logs, rest = expected.copy(), 25e-6
    for _ in range(steps):
        predicted, parts = layers.predict(logs, rest)
        wrong = np.log(layers.seconds / predicted)
        weight = 1 / (1 + np.abs(wrong) / FAR)
        slopes = [part / predicted for part in parts]

        def lower(change):
            """Change of the logarithms of the times."""
            moved = sum(-slope * basis.at(change[:-1]) for slope, (basis, _) in zip(slopes, layers.products))
            return moved + rest / predicted * change[-1]

        def raise_(numbers):
            grid = sum(basis.transposed(-slope * numbers) for slope, (basis, _) in zip(slopes, layers.products))
            return np.append(grid, (rest / predicted * numbers).sum())

        def smooth(change):
            return np.append(rough.apply(change[:-1]) + ridge * change[:-1], 0)

        right = raise_(weight * wrong) - smooth(np.append(logs - expected, 0))
        change = np.clip(solve(lambda x: raise_(weight * lower(x)) + smooth(x), right, 60), -1, 1)
        logs, rest = logs + change[:-1], rest * np.exp(change[-1])
    return logs, rest


def make_grouped(rows, peak, part, products, device):
    """The curve, and the seconds of the launches around the products. `part` is the profile's device, `products` the logarithms of the
    curve of single products."""
    expected = expect_grouped(products, peak, part["memory_bytes_per_s"])

    def make_layers(rows):
        return Layers(rows, peak, part["memory_bytes_per_s"], part["kernel_s"])

    def train(rows):
        return fit_layers(make_layers(rows), expected)

    def predict(fitted, rows):
        return make_layers(rows).predict(*fitted)[0]

    logs, rest = train(rows)
    source = (f"{SOURCE.format(device=device)} of gated MoE layers with even routing. The bytes of rows to experts and "
              f"back and of the activation, and {rest * 1e6:.0f} us for a layer's other launches, are subtracted. "
              f"Rows far from all others count less. Where a layer does not say how its time is divided between its "
              f"products, the curve is as the one of single products of all rows. {ERROR}; it is that of whole layers")
    return make_curve(GROUPED, logs, get_error(rows, train, predict), source), rest


# Attention ###########################################################################################################

def make_attention(rows, peak, device):
    curves = []
    for columns in sorted(set(rows[:, 4])):
        mine = rows[rows[:, 4] == columns]

        def ideal(rows, columns=columns):
            return 4 * rows[:, 0] * rows[:, 2] * rows[:, 1] * ((rows[:, 1] + 1) // 2) * columns / peak

        def places(rows):
            return np.stack([rows[:, 1], rows[:, 0] * rows[:, 2]], 1)

        def train(rows):
            return fit(list(ATTENTION.values()), places(rows), np.log(ideal(rows) / rows[:, 5]))

        def predict(logs, rows):
            return ideal(rows) / np.exp(Basis(list(ATTENTION.values()), places(rows)).at(logs))

        error = get_error(mine, train, predict)
        logs = train(mine)
        ratio = np.interp(np.log(ATTENTION["length"]), np.log(list(BACKWARD)), np.log(list(BACKWARD.values())))
        backward = (logs.reshape(len(ratio), -1) + ratio[:, None]).ravel()
        kind = {"dtype": "bf16", "head_columns": int(columns)}
        curves.append({**kind, "products": 2, **make_curve(
            ATTENTION, logs, error, f"{SOURCE.format(device=device)}, causal prefill of 1 to 16384 tokens. {ERROR}")})
        curve = make_curve(ATTENTION, backward, 0, BACKWARD_SOURCE)
        del curve["relative_error"]
        curves.append({**kind, "products": 5, **curve})
    return sorted(curves, key=lambda curve: (curve["products"], curve["head_columns"]))


# Profiles ############################################################################################################

def alike(rate):
    return {"dtype": rate["dtype"], "flop_per_s": rate["flop_per_s"], "like": "bf16",
            "source": "The peak of bf16, which tensor cores have for f16 too; not measured apart"}


def update(profile, device, products, layers, attention):
    """Puts the curves of these rows into a profile, and keeps the order of its keys. Returns the seconds of a layer's launches around
    its products."""
    part = profile["device"]
    part["kernel_s"] = float(f"{products[:, 3].min():.2g}")
    rate = next(rate for rate in part["rates"] if rate["dtype"] == "bf16")
    rate["efficiency"] = make_products(products, rate["flop_per_s"], device)
    rate["grouped"], rest = make_grouped(layers, rate["flop_per_s"], part,
                                         np.log(rate["efficiency"]["values"]), device)
    curves = make_attention(attention, rate["flop_per_s"], device)
    rates = [alike(rate) if rate["dtype"] == "f16" else rate for rate in part.pop("rates")]
    later = {key: part.pop(key) for key in ("kernels", "host_link") if key in part}
    part.pop("attention", None)
    part.update(rates=rates, attention=curves, **later)
    return rest


def read_rest(profile):
    """The seconds of a layer's launches around its products, which the source of a profile's curve states."""
    rate = next(rate for rate in profile["device"]["rates"] if rate["dtype"] == "bf16")
    return float(re.search(r"(\d+) us for a layer's other launches", rate["grouped"]["source"])[1]) * 1e-6


def main():
    def update_one(name, profile, folder):
        device = PROFILES[name]
        update(profile, device.upper(), measured.read_products(folder, device), measured.read_layers(folder, device),
               measured.read_attention(folder, device))
        return profile

    rewrite(__doc__, PROFILES, update_one)


if __name__ == "__main__":
    main()
