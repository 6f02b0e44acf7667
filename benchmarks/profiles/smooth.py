"""Predicts times of collectives at sizes that were not measured.

The logarithm of a time is that of a line, alpha + beta * bytes, plus a smooth deviation over the size in octaves. Alpha belongs to a family
of collectives and a number of GPUs. Beta belongs to a family, for each byte that a link carries. The deviation is a sum of four Gaussian
processes: of all_to_all or the others, of a family and a number of GPUs, of a device and a number of GPUs, and of one collective. Sizes at
which a collective was not measured thereby follow the others. The standard deviations and lengths are rough, and the predictions hardly
depend on them.
"""
import math

import numpy as np

# Families of collectives. all_gather and reduce_scatter send the same bytes over the same rings.
FAMILIES = {"all_gather": "rings", "reduce_scatter": "rings", "all_reduce": "sums", "alltoall": "pairs"}
# Functions of device, op and gpus whose values share a deviation, with its standard deviation and its length in octaves.
LEVELS = [(lambda device, op, gpus: op == "alltoall", 0.15, 2),
          (lambda device, op, gpus: (FAMILIES[op], gpus), 0.15, 2),
          (lambda device, op, gpus: (device, gpus), 0.05, 3),
          (lambda device, op, gpus: (device, op, gpus), 0.06, 3)]
NOISE = 0.025


def get_link_part(op, gpus):
    return (2 if op == "all_reduce" else 1) * (gpus - 1) / gpus


def drop_outliers(rows):
    """Replaces outliers. More bytes never take less time, so a time that exceeds that of a larger size was disturbed, and gets the
    larger size's time."""
    kept, least = [], {}
    for op, gpus, size, seconds in sorted(rows, key=lambda row: -row[2]):
        least[op, gpus] = min(seconds, least.get((op, gpus), seconds))
        kept.append((op, gpus, size, least[op, gpus]))
    return kept


def fit_lines(rows):
    """{(family, gpus): (alpha, beta)} by least squares of the relative errors. Beta is per byte of payload."""
    lines = {}
    for family in sorted({FAMILIES[row[0]] for row in rows}):
        mine = [row for row in rows if FAMILIES[row[0]] == family]
        counts = sorted({row[1] for row in mine})
        table = [[float(gpus == count) / seconds for count in counts] + [get_link_part(op, gpus) * size / seconds]
                 for op, gpus, size, seconds in mine]
        solution = np.linalg.lstsq(np.array(table), np.ones(len(table)), rcond=None)[0]
        for count, alpha in zip(counts, solution):
            lines[family, count] = (max(alpha, 1e-6), solution[-1] * get_link_part(mine[0][0], count))
    return lines


class Smoother:
    def __init__(self, rows):
        """`rows` are {device: [(op, gpus, bytes, seconds)]}, of devices with equal links."""
        kept = {device: drop_outliers(mine) for device, mine in rows.items()}
        self.lines = fit_lines([row for mine in kept.values() for row in mine])
        self.known = [(device, *row[:3]) for device, mine in kept.items() for row in mine]
        deviation = np.array([math.log(row[3]) - self.get_line(*row[:3]) for mine in kept.values() for row in mine])
        self.inverse = np.linalg.inv(self.get_kernel(self.known, self.known) + NOISE**2 * np.eye(len(self.known)))
        self.weights = self.inverse @ deviation

    def get_line(self, op, gpus, size):
        alpha, beta = self.lines[FAMILIES[op], gpus]
        return math.log(alpha + beta * size)

    def get_kernel(self, a, b):
        distance = np.abs(np.log2([row[3] for row in a])[:, None] - np.log2([row[3] for row in b])[None, :])
        total = np.zeros(distance.shape)
        for share, deviation, length in LEVELS:
            same = np.array([[share(*x[:3]) == share(*y[:3]) for y in b] for x in a])
            scaled = math.sqrt(3) * distance / length
            total += same * deviation**2 * (1 + scaled) * np.exp(-scaled)
        return total

    def get(self, device, op, gpus, size):
        """Seconds."""
        row = self.get_kernel([(device, op, gpus, size)], self.known)[0]
        return math.exp(self.get_line(op, gpus, size) + float(row @ self.weights))

    def get_error(self, device, op, gpus):
        """Mean relative error of each row when it is predicted from all other rows."""
        errors = [abs(math.expm1(self.weights[i] / self.inverse[i, i])) for i, known in enumerate(self.known)
                  if known[:3] == (device, op, gpus)]
        return sum(errors) / len(errors)
