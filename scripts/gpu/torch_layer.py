#!/usr/bin/env python3
"""Runs an MoE layer of a plan in PyTorch, on its streams and communicators, and compares it with the same layer in f32.

Usage: torch_layer.py PLAN PROCESSES

PLAN is of `moe-compile --halves --residual=false`, for as many ranks as PROCESSES, which share the first GPU. Prints a JSON object with the
relative errors and the milliseconds of a forward and backward, and `error` if they are too large. Without a GPU it runs on the host.
"""
import json
import os
import subprocess
import sys
import tempfile

import replay

TOLERANCE = 3e-2  # relative, in the L2 norm
STEPS = 20


def make_values(layer, rows, device, rank):
    """Sets parameters of which the first rows of the gate are the identity, so that the first columns of x are the scores of experts, and a
    token's choices are clear. Returns the parameters, equal on all ranks, and x."""
    import torch
    torch.manual_seed(0)
    values = layer.values
    wholes = {name: torch.randn(value.shape) / value.shape[-2]**0.5 for name, value in values.items()}
    experts = wholes["gate"].shape[1]
    wholes["gate"] *= 0.01
    wholes["gate"][:experts] = torch.eye(experts)
    for name, whole in wholes.items():
        layer.load_whole(name, whole)
    torch.manual_seed(1 + rank)
    x = torch.randn(rows, wholes["gate"].shape[0])
    # Scores of a token are at least 1/4 apart.
    x[:, :experts] = torch.rand(rows, experts).argsort(1) / 4 + 1
    return {name: whole.bfloat16().float().to(device) for name, whole in wholes.items()}, x.bfloat16().to(device)


def run_reference(x, top_k, gate, w1, w2):
    """Applies every expert to every token, as Mixtral does with those that a token chose."""
    import torch.nn.functional as F
    best, chosen = (x @ gate).softmax(-1).topk(top_k, dim=-1)
    weights = best / best.sum(-1, keepdim=True)
    result = 0
    for expert in range(gate.shape[1]):
        # Columns of the gate projection and of the other one alternate.
        both = x @ w1[expert]
        first, second = both[:, 0::2], both[:, 1::2]
        share = (weights * (chosen == expert)).sum(-1, keepdim=True)
        result = result + share * ((F.silu(first) * second) @ w2[expert])
    return result


def get_error(got, want):
    return ((got.float() - want).norm() / want.norm()).item()


def time_steps(step, device):
    """Median milliseconds of a step, by events of the device."""
    import torch
    if device == "cpu":
        return None
    times = []
    for _ in range(STEPS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        step()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def run_rank(plan, rank, ranks, top_k=2):
    import torch
    import torch.distributed as dist
    import moeplan.torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if ranks > 1:
        dist.init_process_group("nccl" if device == "cuda" else "gloo", rank=rank, world_size=ranks)
    layer = moeplan.torch.PlanModule(plan, device=device)
    rows = next(iter(layer.halves.pairs))
    wholes, x = make_values(layer, rows, device, rank)
    x.requires_grad_()
    cotangent = torch.randn(x.shape, device=device).bfloat16()

    def step():
        return torch.autograd.grad(layer(x), [x, *layer.parameters()], cotangent)

    y, grads = layer(x), step()
    wide = x.detach().float().requires_grad_()
    leaves = {name: value.requires_grad_() for name, value in wholes.items()}
    want = run_reference(wide, top_k, leaves["gate"], leaves["w1"], leaves["w2"])
    wants = torch.autograd.grad(want, [wide, *(leaves[name] for name, _ in layer.named_parameters())], cotangent.float())
    errors = {"y": get_error(y, want), "grad.x": get_error(grads[0], wants[0])}
    if ranks == 1:
        errors.update({f"grad.{name}": get_error(got, one) for (name, _), got, one in zip(layer.named_parameters(), grads[1:], wants[1:])})
    worst = max(errors.values())
    result = {"torch": torch.__version__, "device": torch.cuda.get_device_name() if device == "cuda" else device, "ranks": ranks, "errors": errors,
              "ms": time_steps(step, device)}
    time = f", a forward and backward {result['ms']:.3f} ms" if result["ms"] else ""
    result["summary"] = f"largest error {worst:.1e}{time}"
    if not worst <= TOLERANCE:
        result["error"] = f"{worst:.1e} from f32 ({TOLERANCE:g} allowed)"
    if ranks > 1:
        dist.barrier()
        layer.halves.close()
        dist.destroy_process_group()
    return result


def main():
    if len(sys.argv) not in (3, 4):
        print("usage: torch_layer.py PLAN PROCESSES", file=sys.stderr)
        return 2
    plan, ranks = sys.argv[1], int(sys.argv[2])
    if len(sys.argv) == 4 or ranks == 1:
        result = run_rank(plan, int(sys.argv[3]) if len(sys.argv) == 4 else 0, ranks)
        print(json.dumps(result))
        return 1 if "error" in result else 0
    port = replay.find_port()
    with tempfile.TemporaryDirectory() as folder:
        processes = [subprocess.Popen([sys.executable, "-B", __file__, plan, str(ranks), str(rank)], stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                                      env=replay.get_shared_environment(rank, ranks, port, folder), text=True) for rank in range(ranks)]
        output = processes[0].communicate()[0]
        statuses = [process.wait() for process in processes]
    print(output, end="")
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
