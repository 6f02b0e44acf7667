#!/usr/bin/env python3
"""Times moeplan.torch.PlanModule with Parm's S1 beside the same layer written by hand in PyTorch, on CPUs over gloo.

The layer by hand exchanges as DeepSpeed does with tensor parallelism: gather over the ranks that share experts, all-to-all, experts, sum,
all-to-all, and the rank's own part. Both take turns in one run, forward and backward, and the plan in the baseline's order shows what the
schedule alone gains. It needs torch, in the Python that runs it, and the package moeplan.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

TOKENS, MODEL, HIDDEN, EXPERTS, TOP_K, CAPACITY_FACTOR = 1024, 512, 1024, 8, 2, 1.25


class Gather(torch.autograd.Function):
    """Gathers [E, C, M] of each rank to [E, ranks * C, M]. All ranks of the group have equal tokens."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts, dim=1)

    @staticmethod
    def backward(ctx, grad):
        return grad.chunk(dist.get_world_size(ctx.group), dim=1)[dist.get_rank(ctx.group)], None


class Drop(torch.autograd.Function):
    """Takes the rank's own part of a gathered value."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.chunk(dist.get_world_size(group), dim=1)[dist.get_rank(group)]

    @staticmethod
    def backward(ctx, grad):
        return Gather.forward(ctx, grad, ctx.group), None


class SumBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class SumForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        x = x.contiguous()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous(), group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return AllToAll.forward(ctx, grad, ctx.group), None


class LayerByHand(torch.nn.Module):
    """Top-2 gate with a capacity, and experts of SwiGLU. Each rank has a part of their columns."""

    def __init__(self, expert_group, shard_group):
        super().__init__()
        self.expert_group, self.shard_group = expert_group, shard_group
        self.ranks, shards = dist.get_world_size(expert_group), dist.get_world_size(shard_group)
        own, hidden = EXPERTS // self.ranks, HIDDEN // shards
        self.gate = torch.nn.Parameter(torch.empty(MODEL, EXPERTS))
        self.gate_up = torch.nn.Parameter(torch.empty(own, MODEL, 2 * hidden))
        self.down = torch.nn.Parameter(torch.empty(own, hidden, MODEL))
        self.capacity = -(-int(CAPACITY_FACTOR * TOKENS * TOP_K) // EXPERTS)

    def route(self, x):
        probabilities = (x @ self.gate).softmax(dim=-1)
        weights, experts = probabilities.topk(TOP_K, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        # First choices come first.
        chosen = torch.nn.functional.one_hot(experts.T.reshape(-1), EXPERTS)
        place = ((chosen.cumsum(dim=0) - 1) * chosen).sum(dim=-1)
        keeps = place < self.capacity
        return weights.T.reshape(-1), experts.T.reshape(-1) * self.capacity + place, keeps

    def forward(self, x):
        weights, slots, keeps = self.route(x)
        token = torch.arange(TOKENS).repeat(TOP_K)[keeps]
        rows = x.new_zeros(EXPERTS * self.capacity, MODEL).index_copy(0, slots[keeps], x[token])
        rows = Gather.apply(rows.reshape(EXPERTS, self.capacity, MODEL), self.shard_group)
        rows = AllToAll.apply(rows, self.expert_group)
        own = EXPERTS // self.ranks
        rows = rows.reshape(self.ranks, own, -1, MODEL).transpose(0, 1).reshape(own, -1, MODEL)
        gate, up = torch.bmm(SumBackward.apply(rows, self.shard_group), self.gate_up).chunk(2, dim=-1)
        rows = SumForward.apply(torch.bmm(torch.nn.functional.silu(gate) * up, self.down), self.shard_group)
        rows = rows.reshape(own, self.ranks, -1, MODEL).transpose(0, 1).reshape(EXPERTS, -1, MODEL)
        rows = Drop.apply(AllToAll.apply(rows, self.expert_group), self.shard_group).reshape(-1, MODEL)
        return x.new_zeros(TOKENS, MODEL).index_add(0, token, rows[slots[keeps]] * weights[keeps, None])


class Clock:
    """Seconds spent in calls of functions."""

    def __init__(self):
        self.seconds = 0.0

    def wrap(self, function):
        def timed(*arguments, **options):
            begin = time.perf_counter()
            result = function(*arguments, **options)
            self.seconds += time.perf_counter() - begin
            return result

        return timed


def make_groups(mp):
    """Groups of this rank: those that divide experts, and those that divide each expert's columns."""
    size, rank = dist.get_world_size(), dist.get_rank()
    shards = [dist.new_group(list(range(first, first + mp))) for first in range(0, size, mp)]
    experts = [dist.new_group(list(range(first, size, mp))) for first in range(mp)]
    return experts[rank % mp], shards[rank // mp]


def compile_plans(mp, dp, folder):
    """Plans as {schedule: path}."""
    import moeplan
    config = dict(model_type="mixtral", architectures=["MixtralForCausalLM"], hidden_size=MODEL, intermediate_size=HIDDEN,
                  num_local_experts=EXPERTS, num_experts_per_tok=TOP_K, num_hidden_layers=1, num_attention_heads=8, vocab_size=256)
    paths = {schedule: f"{folder}/{schedule}{mp}.so" for schedule in ("baseline", "s1")}
    if dist.get_rank() == 0:
        with open(f"{folder}/config.json", "w") as file:
            json.dump(config, file)
        for schedule, path in paths.items():
            moeplan.compile(f"{folder}/config.json", parallel=f"dp={dp},mp={mp},ep={dp},esp={mp}", schedule=schedule, seq=TOKENS, residual=False,
                            halves=True, capacity_factor=CAPACITY_FACTOR, output=path)
    dist.barrier()
    return paths


def fill(hand, layers):
    """Sets the same weights everywhere, each rank its own parts."""
    generator = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, generator=generator) / shape[-2] ** 0.5
    gate, gates, ups, down = draw(MODEL, EXPERTS), draw(EXPERTS, MODEL, HIDDEN), draw(EXPERTS, MODEL, HIDDEN), draw(EXPERTS, HIDDEN, MODEL)
    for layer in layers.values():
        layer.load_whole("gate", gate)
        layer.load_whole("w1", torch.stack([gates, ups], dim=-1).flatten(-2))
        layer.load_whole("w2", down)
    own, first = EXPERTS // hand.ranks, dist.get_rank(hand.expert_group) * (EXPERTS // hand.ranks)
    width, begin = hand.down.shape[1], dist.get_rank(hand.shard_group) * hand.down.shape[1]
    take = lambda whole: whole[first : first + own, ..., begin : begin + width]
    with torch.no_grad():
        hand.gate.copy_(gate)
        hand.gate_up.copy_(torch.cat([take(gates), take(ups)], dim=-1))
        hand.down.copy_(down[first : first + own, begin : begin + width])


def median(values):
    return sorted(values)[len(values) // 2]


def measure(mp, steps, folder):
    """Measures on one rank. Rank 0 prints a JSON object."""
    import moeplan.torch
    from moeplan.torch import _halves
    dp = dist.get_world_size() // mp
    layers = {schedule: moeplan.torch.PlanModule(path) for schedule, path in compile_plans(mp, dp, folder).items()}
    hand = LayerByHand(*make_groups(mp))
    fill(hand, layers)
    # Ranks of one tensor-parallel group have equal tokens.
    torch.manual_seed(dist.get_rank() // mp)
    x, cotangent = torch.randn(TOKENS, MODEL), torch.randn(TOKENS, MODEL)
    error = ((layers["baseline"](x) - hand(x)).norm() / hand(x).norm()).item()
    inside = Clock()
    for pair in layers["s1"].halves.pairs.values():
        for half in (pair.forward, pair.backward):
            half._world = _Timed(half._world, inside)

    def step(layer):
        given = x.clone().requires_grad_()
        layer.zero_grad()
        dist.barrier()
        begin = time.perf_counter()
        layer(given).backward(cotangent)
        return time.perf_counter() - begin

    seconds = {"hand": [], **{schedule: [] for schedule in layers}}
    own = []
    for turn in range(steps + 2):
        for name, layer in [("hand", hand), *layers.items()]:
            inside.seconds = 0.0
            its = step(layer)
            if turn >= 2:
                seconds[name].append(its)
                if name == "s1":
                    own.append(1 - inside.seconds / its)
    if dist.get_rank() == 0:
        print(json.dumps({"mp": mp, "ranks": dist.get_world_size(), "error": error, "outside": median(own),
                          **{name: median(its) for name, its in seconds.items()}}), flush=True)


class _Timed:
    """A world whose runs are timed inside the runtime."""

    def __init__(self, world, clock):
        self.world, self.clock = world, clock

    def run(self, values, arenas):
        self.clock.seconds += self.world.run(values, arenas)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--build", help="a build folder that has python/moeplan; without it the installed package is taken")
    parser.add_argument("--rank-of", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        measure(options.rank_of, options.steps, options.folder)
        dist.destroy_process_group()
        return 0
    if options.build:
        os.environ["PYTHONPATH"] = os.path.abspath(os.path.join(options.build, "python"))
    return report([launch(mp, options.steps) for mp in (2, 4)])


def launch(mp, steps):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={2 * mp}", os.path.abspath(__file__),
                   f"--steps={steps}", f"--rank-of={mp}", f"--folder={folder}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(done.stdout.strip().splitlines()[-1])


def report(rows):
    print(f"{TOKENS} tokens of {MODEL} on a data-parallel rank, {EXPERTS} experts of {HIDDEN}, top-{TOP_K}, f32, dp = 2; medians\n")
    print("N_MP  ranks  by hand ms  plan, baseline ms  plan, S1 ms  baseline/S1  by hand/S1  outside the runtime")
    failed = False
    for row in rows:
        gain = row["hand"] / row["s1"]
        print(f"{row['mp']:4}  {row['ranks']:5}  {row['hand'] * 1e3:10.1f}  {row['baseline'] * 1e3:17.1f}  {row['s1'] * 1e3:11.1f}  "
              f"{row['baseline'] / row['s1']:11.2f}  {gain:10.2f}  {row['outside'] * 100:18.1f}%")
        for holds, claim in ((row["error"] < 1e-5, f"N_MP = {row['mp']}: the plan in the baseline's order computes what the layer by hand does"),
                             (gain >= {2: 1.8, 4: 3.3}[row["mp"]], f"N_MP = {row['mp']}: S1 is {'1.8' if row['mp'] == 2 else '3.3'} times as fast as the layer by hand"),
                             (row["outside"] < 0.02, f"N_MP = {row['mp']}: less than 2% of a step is outside the runtime")):
            print(("ok    " if holds else "FAIL  ") + claim)
            failed |= not holds
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
