#!/usr/bin/env python3
"""Measures PyTorch for cuda_layer.py: an MoE layer's forward and backward, with the experts one by one and by grouped_mm.

It reads a job as a line of JSON and writes its measurement as another, until there are no more jobs:

  {"do": "machine"}                                                which PyTorch this is, and its forms: loop, grouped
  {"do": "verify", "form": F, SHAPE, "routing": FILE, "seed": N}   a form in bf16 against every expert on every token in f64
  {"do": "time", "form": F, SHAPE, "routing": FILE, "seed": N, "steps": N}    seconds of a step, by CUDA's events

A job that fails answers {"error": TEXT}. For example, grouped_mm may be there but not run on this GPU.

SHAPE is "model", "hidden", "experts", "top_k", "score" and "scale". Both forms sort rows by expert and gather them back without atomics, in
both directions; index_select's own backward uses atomics. The rest is eager PyTorch. The forms have no auxiliary loss, while the plan
computes it. The grouped form never waits for the device. The loop has to wait for the counts.
"""
import json
import sys

import torch
import torch.nn.functional as F

from timed_torch import DEVICE, time_median

# public since 2.10
GROUPED_MM = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
WARM_UP = 3


class Dispatch(torch.autograd.Function):
    """Gathers rows: row i of the result is token order[i] // k."""

    @staticmethod
    def forward(ctx, x, order, inverse, k):
        ctx.save_for_backward(inverse)
        ctx.k = k
        return x.index_select(0, order // k)

    @staticmethod
    def backward(ctx, grad):
        rows = grad.index_select(0, ctx.saved_tensors[0])
        return rows.view(-1, ctx.k, rows.shape[1]).sum(1), None, None, None


class Unsort(torch.autograd.Function):
    """Returns rows to the order of the choices."""

    @staticmethod
    def forward(ctx, rows, order, inverse):
        ctx.save_for_backward(order)
        return rows.index_select(0, inverse)

    @staticmethod
    def backward(ctx, grad):
        return grad.index_select(0, ctx.saved_tensors[0]), None, None


def get_scores(logits, shape):
    return logits.sigmoid() if shape["score"] == "sigmoid" else logits.softmax(-1)


def swiglu(h):
    gate, up = h.chunk(2, -1)
    return F.silu(gate) * up


def get_counts(ends):
    return ends.diff(prepend=ends.new_zeros(1))


def run_loop(rows, ends, w1, w2):
    parts = rows.split(get_counts(ends).tolist())
    return torch.cat([swiglu(part @ w1[e].T) @ w2[e].T for e, part in enumerate(parts)])


def run_grouped(rows, ends, w1, w2):
    h = swiglu(GROUPED_MM(rows, w1.transpose(-2, -1), offs=ends))
    return GROUPED_MM(h, w2.transpose(-2, -1), offs=ends)


def run_layer(run_experts, shape, x, gate, w1, w2):
    """The output, and the ends of each expert's rows."""
    k, experts = shape["top_k"], shape["experts"]
    scores = get_scores((x @ gate).float(), shape)
    best, chosen = scores.topk(k, dim=-1)
    weights = best / best.sum(-1, keepdim=True) * shape["scale"]
    of_rows, order = chosen.flatten().sort(stable=True)
    inverse = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=DEVICE))
    # bincount would wait for the device or use atomics.
    ends = torch.searchsorted(of_rows, torch.arange(experts, device=DEVICE), right=True, out_int32=True)
    out = run_experts(Dispatch.apply(x, order, inverse, k), ends, w1, w2)
    rows = Unsort.apply(out, order, inverse).view(-1, k, out.shape[1])
    return torch.bmm(weights.to(x.dtype).unsqueeze(1), rows).squeeze(1), ends


def run_reference(shape, x, gate, w1, w2):
    """Applies every expert to every token. Experts that were not chosen have weight 0."""
    scores = get_scores(x @ gate, shape)
    is_chosen = torch.zeros_like(scores).scatter_(1, scores.topk(shape["top_k"], dim=-1).indices, 1)
    weights = scores * is_chosen / (scores * is_chosen).sum(-1, keepdim=True) * shape["scale"]
    return sum(weights[:, e:e + 1] * (swiglu(x @ w1[e].T) @ w2[e].T) for e in range(shape["experts"]))


def make_values(shape, routing, seed):
    """x, gate, w1 [E, 2 H, M], w2 [E, M, H] and the gradient of the output, made as the plan's: the first columns of x are the logits,
    and those of a token's choices are at least 1 above the others."""
    model, hidden, experts, k = (shape[name] for name in ("model", "hidden", "experts", "top_k"))
    with open(routing, "rb") as file:
        chosen = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).view(-1, k).long().to(DEVICE)
    tokens = len(chosen)
    torch.manual_seed(seed)
    normal = lambda *size, deviation=1.0: torch.randn(*size, device=DEVICE, dtype=torch.bfloat16).mul_(deviation)
    x, gate = normal(tokens, model), normal(model, experts, deviation=0.1 / model**0.5)
    x[:, :experts] = torch.rand(tokens, experts, device=DEVICE) * 2 - 1
    x[:, :experts].scatter_(1, chosen, (2 + torch.rand(tokens, k, device=DEVICE)).to(x.dtype))
    gate[:experts] = torch.eye(experts, device=DEVICE)
    w1, w2 = normal(experts, 2 * hidden, model, deviation=model**-0.5), normal(experts, model, hidden, deviation=hidden**-0.5)
    return [x, gate, w1, w2], normal(tokens, model)


def get_forms():
    return {"loop": run_loop, **({"grouped": run_grouped} if GROUPED_MM else {})}


def get_error(got, want):
    return ((got.double() - want).norm() / want.norm()).item()


def verify(job):
    values, cotangent = make_values(job, job["routing"], job["seed"])
    wide = [value.double().requires_grad_() for value in values]
    want = run_reference(job, *wide)
    want_grads = torch.autograd.grad(want, wide, cotangent.double())
    leaves = [value.detach().requires_grad_() for value in values]
    y, ends = run_layer(get_forms()[job["form"]], job, *leaves)
    grads = torch.autograd.grad(y, leaves, cotangent)
    errors = {"y": get_error(y, want), **{f"grad.{which}": get_error(got, grad) for which, got, grad in
                                          zip(("x", "gate", "w1", "w2"), grads, want_grads)}}
    # On some GPUs, grouped_mm leaves old memory as the gradients of experts without rows. The norm may hide this error.
    is_empty = get_counts(ends) == 0
    errors["grad.empty"] = float(any(grad[is_empty].count_nonzero() for grad in grads[2:]))
    return {"errors": errors}


def measure(job):
    values, cotangent = make_values(job, job["routing"], job["seed"])
    leaves = [value.requires_grad_() for value in values]

    def step():
        y, ends = run_layer(get_forms()[job["form"]], job, *leaves)
        torch.autograd.grad(y, leaves, cotangent)
        return ends

    counts = get_counts(step()).tolist()
    return {"counts": counts, "seconds": time_median(step, job["steps"], WARM_UP)}


def describe(job):
    device = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "cpu"
    return {"version": torch.__version__, "device": device, "forms": list(get_forms())}


def answer(job):
    try:
        return {"machine": describe, "verify": verify, "time": measure}[job["do"]](job)
    except Exception as error:  # any error of PyTorch: no memory, no kernel for this GPU, arguments of another version
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    for line in sys.stdin:
        result = answer(json.loads(line))
        # The device may be unusable after an error, so the caller starts a new process.
        if DEVICE.type == "cuda" and "error" not in result:
            torch.cuda.empty_cache()
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
