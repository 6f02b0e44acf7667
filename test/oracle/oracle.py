#!/usr/bin/python3
"""The MoE layer in plain numpy float64, forward and backward: the definition of `moe.layer`.

Computed token by token and choice by choice, from the papers' and models' definitions, and slow on purpose. Gradients are derived by hand.
As a program, the file checks them against central differences of the forward, over every option.
"""

import fractions
import math
import sys
from dataclasses import dataclass, replace
from typing import Optional

import numpy as np

GATED = ("swiglu", "swiglu_clamped")
CLAMP = 7.0
GPT_OSS_ALPHA = 1.702
GELU_TANH = math.sqrt(2.0 / math.pi)


@dataclass(frozen=True)
class Layer:
    """A layer. Its fields are the attributes, and the presence of the optional operands, of `moe.layer`."""

    hidden: int
    inner: int
    experts: int
    top_k: int
    activation: str = "swiglu"
    score: str = "softmax"
    renormalize: bool = False
    weigh_inputs: bool = False
    routing_scale: float = 1.0
    expert_groups: int = 1
    top_groups: int = 1
    group_score: str = "max"
    gate_bias: bool = False
    selection_bias: bool = False
    expert_biases: bool = False
    shared_inner: int = 0
    shared_gate: bool = False
    capacity_factor: Optional[float] = None
    expert_capacity: Optional[int] = None
    groups: int = 1

    def shapes(self):
        """The parameters in the order of the model's arguments."""
        m, h, e = self.hidden, self.inner, self.experts
        a = 2 if self.activation in GATED else 1
        all_shapes = {
            "gate": (True, (m, e)),
            "gate_bias": (self.gate_bias, (e,)),
            "selection_bias": (self.selection_bias, (e,)),
            "w1": (True, (e, m, a * h)),
            "w2": (True, (e, h, m)),
            "b1": (self.expert_biases, (e, a * h)),
            "b2": (self.expert_biases, (e, m)),
            "shared_w1": (self.shared_inner > 0, (m, a * self.shared_inner)),
            "shared_w2": (self.shared_inner > 0, (self.shared_inner, m)),
            "shared_gate": (self.shared_gate, (m, 1)),
        }
        return {name: shape for name, (present, shape) in all_shapes.items() if present}

    @property
    def is_dropless(self):
        return self.capacity_factor is None and self.expert_capacity is None

    def capacity(self, tokens):
        """T, the number of choices that an expert takes of a group of `tokens` tokens."""
        if self.expert_capacity is not None:
            return min(tokens, self.expert_capacity)
        # The factor as it is written, in decimal: 1.1 * 10 is 11.
        wanted = fractions.Fraction(str(self.capacity_factor)) * self.top_k * tokens / self.experts
        return min(tokens, math.ceil(wanted))


# Activations: value and derivative on the columns of x w1, and the distance to the closest kink.

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(a):
    small = np.exp(-np.abs(a))
    return np.where(a >= 0, 1.0, small) / (1.0 + small)


def activate(kind, a):
    if kind == "relu":
        return np.maximum(a, 0.0)
    if kind == "gelu":
        return 0.5 * a * (1.0 + erf(a / math.sqrt(2.0)))
    if kind == "gelu_tanh":
        return 0.5 * a * (1.0 + np.tanh(GELU_TANH * (a + 0.044715 * a**3)))
    if kind == "silu":
        return a * sigmoid(a)
    gate, up = a[..., 0::2], a[..., 1::2]
    if kind == "swiglu":
        return gate * sigmoid(gate) * up
    assert kind == "swiglu_clamped", kind
    gate, up = np.minimum(gate, CLAMP), np.clip(up, -CLAMP, CLAMP)
    return gate * sigmoid(GPT_OSS_ALPHA * gate) * (up + 1.0)


def activate_backward(kind, a, dh):
    if kind == "relu":
        return dh * (a > 0.0)
    if kind == "gelu":
        cdf = 0.5 * (1.0 + erf(a / math.sqrt(2.0)))
        return dh * (cdf + a * np.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi))
    if kind == "gelu_tanh":
        t = np.tanh(GELU_TANH * (a + 0.044715 * a**3))
        return dh * 0.5 * (1.0 + t + a * (1.0 - t * t) * GELU_TANH * (1.0 + 3 * 0.044715 * a * a))
    if kind == "silu":
        s = sigmoid(a)
        return dh * (s + a * s * (1.0 - s))
    gate, up = a[..., 0::2], a[..., 1::2]
    da = np.empty_like(a)
    if kind == "swiglu":
        s = sigmoid(gate)
        da[..., 0::2] = dh * up * (s + gate * s * (1.0 - s))
        da[..., 1::2] = dh * gate * s
        return da
    assert kind == "swiglu_clamped", kind
    g, u = np.minimum(gate, CLAMP), np.clip(up, -CLAMP, CLAMP)
    s = sigmoid(GPT_OSS_ALPHA * g)
    da[..., 0::2] = dh * (u + 1.0) * (s + GPT_OSS_ALPHA * g * s * (1.0 - s)) * (gate < CLAMP)
    da[..., 1::2] = dh * g * s * (np.abs(up) < CLAMP)
    return da


def kink_distance(kind, a):
    if kind == "relu":
        return np.min(np.abs(a), initial=np.inf)
    if kind == "swiglu_clamped":
        return min(np.min(np.abs(a[..., 0::2] - CLAMP), initial=np.inf),
                   np.min(np.abs(np.abs(a[..., 1::2]) - CLAMP), initial=np.inf))
    return np.inf


def best(values, count):
    """Indices of the `count` largest values, in descending order, ties to the lower index, and the least gap in that order."""
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))
    gaps = [values[order[i]] - values[order[i + 1]] for i in range(min(count, len(order) - 1))]
    return order[:count], min(gaps, default=np.inf)


@dataclass
class Routing:
    """Experts of each token. `margin` is the least change of a selection value that could change them."""

    scores: np.ndarray  # [N, E]
    chosen: np.ndarray  # [N, k]
    kept: np.ndarray  # [N, k], False where an expert was full
    weights: np.ndarray  # [N, k]
    shares: np.ndarray  # [G, E]: f_e of each group of tokens
    margin: float

    def same_as(self, other):
        return np.array_equal(self.chosen, other.chosen) and np.array_equal(self.kept, other.kept)


def route(layer, p, x):
    n, e, k = len(x), layer.experts, layer.top_k
    logits = x @ p["gate"] + (p["gate_bias"] if layer.gate_bias else 0.0)
    if layer.score == "softmax":
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
    else:
        scores = sigmoid(logits)
    selection = scores + (p["selection_bias"] if layer.selection_bias else 0.0)

    chosen, margin = np.zeros((n, k), dtype=np.int64), np.inf
    for s in range(n):
        allowed = list(range(e))
        if layer.expert_groups > 1:
            members = np.split(np.arange(e), layer.expert_groups)
            group_values = [sum(sorted(selection[s, g])[-2:]) if layer.group_score == "top2" else max(selection[s, g])
                            for g in members]
            groups, _ = best(group_values, layer.top_groups)
            # The order of the chosen groups does not matter.
            left_out = [group_values[g] for g in range(layer.expert_groups) if g not in groups]
            if left_out:
                margin = min(margin, min(group_values[g] for g in groups) - max(left_out))
            allowed = [i for g in sorted(groups) for i in members[g]]
        order, gap = best([selection[s, i] for i in allowed], k)
        chosen[s] = [allowed[i] for i in order]
        margin = min(margin, gap)

    weights = np.take_along_axis(scores, chosen, axis=1)
    if layer.renormalize:
        weights = weights / (weights.sum(axis=1, keepdims=True) + 1e-20)
    weights = weights * layer.routing_scale

    kept = np.ones((n, k), dtype=bool)
    block = n // layer.groups
    shares = np.zeros((layer.groups, e))
    for g in range(layer.groups):
        tokens = range(g * block, (g + 1) * block)
        taken = np.zeros(e, dtype=np.int64)
        for j in range(k):
            for s in tokens:
                shares[g, chosen[s, j]] += 1.0 / (k * block)
                if not layer.is_dropless:
                    kept[s, j] = taken[chosen[s, j]] < layer.capacity(block)
                    taken[chosen[s, j]] += kept[s, j]
    return Routing(scores, chosen, kept, weights, shares, margin)


def probabilities(layer, scores):
    """Values that the auxiliary loss averages into P_e."""
    return scores if layer.score == "softmax" else scores / scores.sum(axis=1, keepdims=True)


def layer_forward(layer, p, x):
    """y [N, M], aux, and the values that layer_backward needs."""
    n, block = len(x), len(x) // layer.groups
    routing = route(layer, p, x)
    y = np.zeros_like(x)
    saved, kinks = {}, np.inf
    for s in range(n):
        for j in range(layer.top_k):
            if not routing.kept[s, j]:
                continue
            e = routing.chosen[s, j]
            before, after = (routing.weights[s, j], 1.0) if layer.weigh_inputs else (1.0, routing.weights[s, j])
            a = before * x[s] @ p["w1"][e] + (p["b1"][e] if layer.expert_biases else 0.0)
            h = activate(layer.activation, a)
            out = h @ p["w2"][e] + (p["b2"][e] if layer.expert_biases else 0.0)
            y[s] += after * out
            saved[s, j] = a, h, out
            kinks = min(kinks, kink_distance(layer.activation, a))
    shared = None
    if layer.shared_inner:
        a = x @ p["shared_w1"]
        h = activate(layer.activation, a)
        out = h @ p["shared_w2"]
        factor = sigmoid(x @ p["shared_gate"]) if layer.shared_gate else np.ones((n, 1))
        y += out * factor
        shared = a, h, out, factor
        kinks = min(kinks, kink_distance(layer.activation, a))
    q = probabilities(layer, routing.scores)
    aux = np.mean([layer.experts * routing.shares[g] @ q[g * block : (g + 1) * block].mean(axis=0)
                   for g in range(layer.groups)])
    return y, aux, (routing, saved, shared, kinks)


def layer_backward(layer, p, x, cache, dy, daux):
    """dx and {parameter: gradient} of sum(y * dy) + aux * daux. The choice itself has no gradient."""
    routing, saved, shared, _ = cache
    n, block = len(x), len(x) // layer.groups
    grads = {name: np.zeros(shape) for name, shape in layer.shapes().items() if name != "selection_bias"}
    dx = np.zeros_like(x)

    dweights = np.zeros_like(routing.weights)
    for (s, j), (a, h, out) in saved.items():
        e = routing.chosen[s, j]
        before, after = (routing.weights[s, j], 1.0) if layer.weigh_inputs else (1.0, routing.weights[s, j])
        dout = after * dy[s]
        da = activate_backward(layer.activation, a, p["w2"][e] @ dout)
        grads["w2"][e] += np.outer(h, dout)
        grads["w1"][e] += np.outer(before * x[s], da)
        if layer.expert_biases:
            grads["b2"][e] += dout
            grads["b1"][e] += da
        dinput = p["w1"][e] @ da
        dx[s] += before * dinput
        dweights[s, j] = dinput @ x[s] if layer.weigh_inputs else dy[s] @ out

    dscores = np.zeros_like(routing.scores)
    for s in range(n):
        du = layer.routing_scale * dweights[s]
        chosen_scores = routing.scores[s, routing.chosen[s]]
        if layer.renormalize:
            total = chosen_scores.sum() + 1e-20
            du = du / total - (du @ chosen_scores) / total**2
        dscores[s, routing.chosen[s]] += du

    for g in range(layer.groups):
        tokens = slice(g * block, (g + 1) * block)
        scores = routing.scores[tokens]
        dq = np.broadcast_to(daux * layer.experts * routing.shares[g] / (layer.groups * block), scores.shape)
        if layer.score == "softmax":
            dscores[tokens] += dq
        else:
            total = scores.sum(axis=1, keepdims=True)
            dscores[tokens] += dq / total - (dq * scores).sum(axis=1, keepdims=True) / total**2

    scores = routing.scores
    if layer.score == "softmax":
        dlogits = scores * (dscores - (scores * dscores).sum(axis=1, keepdims=True))
    else:
        dlogits = dscores * scores * (1.0 - scores)
    grads["gate"] += x.T @ dlogits
    if layer.gate_bias:
        grads["gate_bias"] += dlogits.sum(axis=0)
    dx += dlogits @ p["gate"].T

    if shared:
        a, h, out, factor = shared
        dout = dy * factor
        if layer.shared_gate:
            dgate = (dy * out).sum(axis=1, keepdims=True) * factor * (1.0 - factor)
            grads["shared_gate"] += x.T @ dgate
            dx += dgate @ p["shared_gate"].T
        da = activate_backward(layer.activation, a, dout @ p["shared_w2"].T)
        grads["shared_w2"] += h.T @ dout
        grads["shared_w1"] += x.T @ da
        dx += da @ p["shared_w1"].T
    return dx, grads


@dataclass(frozen=True)
class Model:
    """Layers one after the other on `tokens` tokens. With `residual` each adds to its input. aux is the sum of theirs.

    `x_scale` is the standard deviation of random inputs. With `ties`, all experts of a token have one score.
    """

    layers: tuple
    tokens: int
    residual: bool = True
    x_scale: float = 1.0
    ties: bool = False

    def shapes(self):
        shapes = {"x": (self.tokens, self.layers[0].hidden)}
        for i, layer in enumerate(self.layers):
            shapes.update({f"layer{i}.{name}": shape for name, shape in layer.shapes().items()})
        return shapes

    def gradient_names(self):
        return [f"grad.{name}" for name in self.shapes() if not name.endswith(".selection_bias")]

    def parameters(self, tensors, i):
        return {name: tensors[f"layer{i}.{name}"] for name in self.layers[i].shapes()}


@dataclass
class Result:
    outputs: dict  # y, aux, and grad.<name> if cotangents were given
    routings: list
    kinks: float

    def margin(self):
        """Distance of the inputs from a jump of the function or its derivative."""
        return min([self.kinks] + [routing.margin for routing in self.routings])

    def dropped(self):
        return sum(int((~routing.kept).sum()) for routing in self.routings)


def run(model, tensors):
    """Outputs of `model`, and gradients if `tensors` holds cotangent.y and cotangent.aux."""
    x, aux = tensors["x"], 0.0
    inputs, caches = [], []
    for i, layer in enumerate(model.layers):
        y, layer_aux, cache = layer_forward(layer, model.parameters(tensors, i), x)
        inputs.append(x)
        caches.append(cache)
        x = x + y if model.residual else y
        aux += layer_aux
    outputs = {"y": x, "aux": np.asarray(aux)}
    if "cotangent.y" in tensors:
        dy, daux = tensors["cotangent.y"], float(tensors["cotangent.aux"])
        for i in reversed(range(len(model.layers))):
            dx, grads = layer_backward(model.layers[i], model.parameters(tensors, i), inputs[i], caches[i], dy, daux)
            dy = dy + dx if model.residual else dx
            outputs.update({f"grad.layer{i}.{name}": grad for name, grad in grads.items()})
        outputs["grad.x"] = dy
    return Result(outputs, [cache[0] for cache in caches], min(cache[3] for cache in caches))


def draw(model, rng):
    """Random tensors by name, including cotangents, each about as large as in training."""
    tensors = {}
    for name, shape in model.shapes().items():
        scale = model.x_scale if name == "x" else 1.0 / math.sqrt(shape[-2]) if len(shape) > 1 else 0.1
        if model.ties and name.endswith((".gate", ".gate_bias", ".selection_bias")):
            scale = 0.0
        tensors[name] = scale * rng.standard_normal(shape)
    tensors["cotangent.y"] = rng.standard_normal(model.shapes()["x"])
    tensors["cotangent.aux"] = rng.standard_normal(())
    return tensors


def draw_safe(model, seed, margin, convert=lambda array: array, tries=100):
    """Tensors at least `margin` from any jump, to compare gradients under different rounding."""
    for attempt in range(tries):
        tensors = {name: convert(array) for name, array in draw(model, np.random.default_rng([seed, attempt])).items()}
        result = run(model, tensors)
        if model.ties or result.margin() >= margin:
            return tensors, result
    raise RuntimeError(f"no inputs of margin {margin} in {tries} draws: make the model smaller")


def directional_errors(model, tensors, rng, step, directions=2):
    """Worst error of <gradient, d> of each gradient against central differences along random unit d, relative to the larger of itself
    and the mean over random d."""
    result = run(model, tensors)

    def loss(changed):
        moved = run(model, changed)
        assert all(a.same_as(b) for a, b in zip(moved.routings, result.routings)), "routing changed: smaller step"
        return (moved.outputs["y"] * tensors["cotangent.y"]).sum() + moved.outputs["aux"] * tensors["cotangent.aux"]

    errors = {}
    for gradient_name in model.gradient_names():
        name = gradient_name.removeprefix("grad.")
        gradient = result.outputs[gradient_name]
        for _ in range(directions):
            d = rng.standard_normal(gradient.shape)
            d /= np.linalg.norm(d)
            plus, minus = ({**tensors, name: tensors[name] + sign * step * d} for sign in (1, -1))
            measured = (loss(plus) - loss(minus)) / (2 * step)
            derived = (gradient * d).sum()
            scale = max(abs(derived), np.linalg.norm(gradient) / math.sqrt(gradient.size), 1e-8)
            errors[gradient_name] = max(errors.get(gradient_name, 0.0), abs(measured - derived) / scale)
    return errors


def option_cases():
    """(name, model) pairs that together use every option of the layer."""
    base = Layer(hidden=6, inner=5, experts=4, top_k=2)
    one = lambda layer, **rest: Model((layer,), 12, residual=False, **rest)
    yield "plain", one(base)
    for activation in ("relu", "gelu", "gelu_tanh", "silu", "swiglu", "swiglu_clamped"):
        yield f"activation {activation}", one(replace(base, activation=activation, expert_biases=True))
    yield "clamps reached", one(replace(base, activation="swiglu_clamped", expert_biases=True), x_scale=5.0)
    yield "top1", one(replace(base, top_k=1, capacity_factor=0.75, activation="relu"))
    for score in ("softmax", "sigmoid"):
        for renormalize in (False, True):
            yield f"{score}, renormalize {renormalize}", one(
                replace(base, score=score, renormalize=renormalize, top_k=3, routing_scale=1.5, gate_bias=True))
    yield "gate bias", one(replace(base, gate_bias=True))
    yield "selection bias, softmax", one(replace(base, selection_bias=True))
    yield "capacity that drops", one(replace(base, capacity_factor=0.5))
    yield "capacity that drops, 3 groups", one(replace(base, capacity_factor=0.6, groups=3, renormalize=True))
    yield "capacity with room, 2 groups", one(replace(base, capacity_factor=2.0, groups=2))
    yield "expert capacity that drops, 2 groups", one(replace(base, expert_capacity=1, groups=2))
    yield "expert capacity with room, 4 groups", one(replace(base, expert_capacity=50, groups=4))
    yield "dropless, 2 groups", one(replace(base, groups=2, score="sigmoid"))
    yield "shared expert", one(replace(base, shared_inner=7))
    yield "shared expert and gate", one(replace(base, shared_inner=3, shared_gate=True, activation="gelu"))
    yield "shared clamped, everything biased", one(
        replace(base, shared_inner=3, shared_gate=True, activation="swiglu_clamped", expert_biases=True, gate_bias=True,
                selection_bias=True))
    yield "expert groups by max", one(
        replace(base, experts=8, top_k=3, expert_groups=4, top_groups=2, routing_scale=16.0))
    yield "expert groups by top2", one(
        replace(base, experts=12, top_k=4, expert_groups=4, top_groups=2, group_score="top2", score="sigmoid",
                selection_bias=True, renormalize=True, routing_scale=2.5, shared_inner=4))
    yield "weighed inputs", one(replace(base, weigh_inputs=True, score="sigmoid", shared_inner=3, expert_biases=True))
    yield "weighed inputs that drop", one(
        replace(base, weigh_inputs=True, renormalize=True, activation="gelu", capacity_factor=0.75))
    yield "10 of 12 experts", Model((replace(base, experts=12, top_k=10, renormalize=True),), 2, residual=False, x_scale=2)
    yield "all experts", one(replace(base, top_k=4, renormalize=True))
    yield "one expert", one(replace(base, experts=1, top_k=1, capacity_factor=0.5))
    yield "ties", one(replace(base, gate_bias=True, capacity_factor=1.0, activation="gelu"), ties=True)
    yield "ties in expert groups", one(
        replace(base, experts=8, top_k=3, expert_groups=4, top_groups=2, group_score="top2", selection_bias=True,
                score="sigmoid"), ties=True)
    yield "two layers", Model((replace(base, capacity_factor=1.0), replace(base, activation="gelu")), 8)


def main():
    failures = 0
    # With equal scores the choice jumps, so there is no derivative.
    cases = [(name, model) for name, model in option_cases() if not model.ties]
    for name, model in cases:
        tensors, result = draw_safe(model, seed=7, margin=1e-4)
        errors = directional_errors(model, tensors, np.random.default_rng(8), step=1e-5)
        worst = max(errors, key=errors.get)
        passed = errors[worst] <= 1e-6
        failures += not passed
        print(f"{'ok  ' if passed else 'FAIL'} {name}: {len(errors)} gradients, worst {errors[worst]:.1e} ({worst}), "
              f"{result.dropped()} dropped")
    print(f"{len(cases) - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
