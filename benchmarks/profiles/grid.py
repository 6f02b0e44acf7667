"""Values on a grid, linear in the logarithms of sizes and values between its points, as the cost model reads them."""
import numpy as np


def locate(axis, sizes):
    """For each size, the point of the axis below it and the logarithmic distance to the next point. The ends hold outside of the axis."""
    logs = np.log(np.asarray(axis, float))
    if len(logs) == 1:
        return np.zeros(len(sizes), int), np.zeros(len(sizes))
    places = np.clip(np.log(sizes), logs[0], logs[-1])
    below = np.clip(np.searchsorted(logs, places, side="right") - 1, 0, len(logs) - 2)
    return below, (places - logs[below]) / (logs[below + 1] - logs[below])


class Basis:
    """Points of a grid and their weights, which together give the value at each of some places [n, axes]."""

    def __init__(self, axes, places):
        self.size = int(np.prod([len(axis) for axis in axes]))
        located = [locate(axis, places[:, number]) for number, axis in enumerate(axes)]
        self.points, self.weights = [], []
        for corner in range(2 ** len(axes)):
            point, weight = np.zeros(len(places), int), np.ones(len(places))
            for number, (axis, (below, part)) in enumerate(zip(axes, located)):
                is_next = corner >> number & 1
                point = point * len(axis) + np.minimum(below + is_next, len(axis) - 1)
                weight = weight * (part if is_next else 1 - part)
            self.points.append(point)
            self.weights.append(weight)
        self.points, self.weights = np.array(self.points), np.array(self.weights)

    def at(self, values):
        return (self.weights * values[self.points]).sum(0)

    def transposed(self, numbers):
        return np.bincount(self.points.ravel(), (self.weights * numbers).ravel(), self.size)


class Roughness:
    """Second differences along each axis. They extend the measured values smoothly to points without measurements."""

    def __init__(self, axes, weight):
        self.shape, self.weight = [len(axis) for axis in axes], weight

    def apply(self, values):
        grid, sums = values.reshape(self.shape), np.zeros(self.shape)
        for axis, size in enumerate(self.shape):
            if size > 2:
                bends = np.moveaxis(np.diff(grid, 2, axis=axis), axis, 0)
                target = np.moveaxis(sums, axis, 0)
                target[:-2] += bends
                target[1:-1] -= 2 * bends
                target[2:] += bends
        return self.weight * sums.ravel()


def solve(apply, right, steps):
    """Solves a symmetric positive system by conjugate gradients."""
    solution, rest = np.zeros(len(right)), right.copy()
    direction, square = rest.copy(), rest @ rest
    for _ in range(steps):
        if square < 1e-12:
            break
        image = apply(direction)
        length = square / (direction @ image)
        solution += length * direction
        rest -= length * image
        direction, square = rest + rest @ rest / square * direction, rest @ rest
    return solution


def fit(axes, places, logs, roughness=0.01):
    """The grid's values, in logarithms, that fit `logs` at `places` by least squares."""
    basis, rough = Basis(axes, places), Roughness(axes, roughness)
    mean = logs.mean()
    return mean + solve(lambda values: basis.transposed(basis.at(values)) + rough.apply(values),
                        basis.transposed(logs - mean), 300)
