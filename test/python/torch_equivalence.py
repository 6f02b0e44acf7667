"""Models with replace_moe against the same models without it, on some numbers of ranks.

Usage: torch_equivalence.py RANKS:families|layers|balance|wrappers|training|memory ..
"""

import os
import shutil
import sys
import tempfile

import torch
import torch.distributed as dist
import transformers

import moeplan.torch
from moeplan.torch._sharding import gather_parts, take_part

import torch_models as models

# parallel, schedule, whether shadows are forced, and families, by the number of processes.
ALL = tuple(models.FAMILIES)
CASES = {
    1: [("dp=1", "baseline", False, ALL)],
    2: [("dp=2,ep=2", "baseline", False, ALL), ("mp=2,dp=1,ep=2", "s1", False, ALL), ("mp=2,dp=1,ep=2", "ppmoe", False, ALL),
        ("dp=2,ep=2", "chunks:2", False, ALL), ("dp=2,ep=2", "baseline+shadow:2", True, ALL), ("mp=2,dp=1,ep=2", "s2", False, ALL)],
    4: [("dp=2,mp=2,ep=2,esp=2", "baseline", False, ALL[:2]), ("dp=2,mp=2,ep=2,esp=2", "s1", False, ALL), ("dp=2,mp=2,ep=2,esp=2", "s2", False, ALL),
        ("dp=2,mp=2,ep=2", "ppmoe", False, ALL[3:]), ("dp=4,ep=4", "chunks:2", False, ALL[:1]), ("dp=4,ep=2", "baseline", False, ALL[2:4]),
        ("dp=4,ep=4", "baseline+shadow:3", True, ALL[4:])],
    8: [("dp=4,mp=2,ep=4,esp=2", "baseline", False, ALL[:1]), ("dp=4,mp=2,ep=4,esp=2", "s1", False, ALL[1:2]),
        ("dp=4,mp=2,ep=4,esp=2", "s2", False, ALL[2:3]), ("dp=2,mp=4,ep=4", "ppmoe", False, ALL[3:4]), ("dp=8,ep=8", "chunks:2", False, ALL[4:]),
        ("dp=8,ep=8", "baseline+shadow:2", True, ALL[:1])],
}
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
# Set by run_rank in each process.
RANK, SIZE = 0, 1


def shards_of(parallel):
    """(data-parallel ranks, number of this rank among them)."""
    sizes = {key: int(size) for key, size in (one.split("=") for one in parallel.split(","))}
    return sizes["dp"], RANK // sizes.get("mp", 1)


def full_gradients(model):
    """{name: gradient} by the names of the model before replace_moe."""
    gradients = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    for prefix, module in model.named_modules():
        if not isinstance(module, moeplan.torch.PlanModule):
            continue
        for name, value in module.values.items():
            if (part := gradients.pop(f"{prefix}.{name}", None)) is not None:
                whole = gather_parts(part, value, module.halves.any_pair.variant.groups, module.halves.processes)
                for one, tensor in zip(module.weights[name].names, module.weights[name].from_plan(whole)):
                    gradients[f"{prefix}.{one}"] = tensor
    return gradients


def difference(one, other):
    """Largest difference, relative to the largest value."""
    one = one.full_tensor() if hasattr(one, "full_tensor") else one
    return ((one - other).abs().max() / other.abs().max().clamp(min=1e-3)).item()


def replace(model, parallel, schedule, dtype, verify, **options):
    return moeplan.torch.replace_moe(model, parallel=parallel, schedule=schedule, seq=models.LENGTH, verify=verify, **options)


def wrap_in_ddp(model):
    return torch.nn.parallel.DistributedDataParallel(model) if SIZE > 1 else model


def compare(family, parallel, schedule, verify, dtype, wrap=wrap_in_ddp):
    shards, mine = shards_of(parallel)
    tokens = models.draw_tokens(shards)
    with models.precision_of(dtype):
        reference = models.make_model(family, dtype)
        _, logits = models.step_reference(reference, tokens)
        model = replace(models.make_model(family, dtype), parallel, schedule, dtype, verify)
        wrapped = wrap(model)
        loss, own = models.run(wrapped, tokens[mine])
        loss.backward()
    worst = {"logits": difference(own.detach(), logits[mine])}
    gradients, expected = full_gradients(model), {name: value.grad for name, value in reference.named_parameters()}
    assert set(gradients) == {name for name, value in expected.items() if value is not None}, set(gradients) ^ set(expected)
    for name, gradient in gradients.items():
        worst[name] = difference(gradient, expected[name])
    name = max(worst, key=worst.get)
    assert worst[name] <= TOLERANCE[dtype], f"{family}, {parallel}, {schedule}, {dtype}: {name} differs by {worst[name]:.2e}"
    return worst[name]


def check_families():
    for parallel, schedule, verify, families in CASES[SIZE]:
        for family in families:
            # With several ranks, float32 meets each schedule once.
            for dtype in (torch.float64, torch.float32) if SIZE == 1 or family == families[0] else (torch.float64,):
                worst = compare(family, parallel, schedule, verify, dtype)
                if RANK == 0:
                    print(f"{SIZE} ranks, {parallel}, {schedule}, {family}, {dtype}: {worst:.1e}", flush=True)


class Wrapper(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.inner = model

    def forward(self, **inputs):
        return self.inner(**inputs)


def parts_of(model):
    return {value for module in model.modules() if isinstance(module, moeplan.torch.PlanModule) for value in module.parameters()}


def check_wrappers():
    """Wrapped models are the model without plans. FSDP has to leave out the parts. FullyShardedDataParallel needs a GPU."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh, parallel = init_device_mesh("cpu", (SIZE,)), f"dp={SIZE},ep={SIZE}"
    wraps = {"a wrapper": lambda model: wrap_in_ddp(Wrapper(model)),
             "torch.compile": lambda model: wrap_in_ddp(torch.compile(model, backend="eager")),
             "fully_shard": lambda model: fully_shard(model, mesh=mesh, ignored_params=parts_of(model))}
    for name, wrap in wraps.items():
        worst = compare("mixtral", parallel, "baseline", False, torch.float64, wrap)
        if RANK == 0:
            print(f"{SIZE} ranks, {parallel}, {name}: {worst:.1e}", flush=True)
    model = fully_shard(replace(models.make_model("mixtral", torch.float32), parallel, "baseline", torch.float32, False), mesh=mesh)
    try:
        models.run(model, models.draw_tokens(SIZE)[RANK])
    except RuntimeError as error:
        assert "expected FSDP to leave out the parameters of PlanModules" in str(error), error
    else:
        raise AssertionError("expected an error of the first forward")
    for seed, options, what in ((RANK, {}, "weights"), (1, {"max_load": 1 + RANK}, "options of replace_moe")):
        try:
            replace(models.make_model("mixtral", torch.float32, seed), parallel, "baseline", torch.float32, False, **options)
        except RuntimeError as error:
            assert f"expected the same {what} on all ranks, but rank 0 has" in str(error), error
        else:
            raise AssertionError(f"expected an error of different {what}")


def check_layers():
    """A layer and its auxiliary loss have the gradients of the same layer on one rank."""
    alone_group = [dist.new_group([rank]) for rank in range(SIZE)][RANK]
    config = models.FAMILIES["mixtral"]()
    for parallel, batch, seq in ((f"dp={SIZE},ep={SIZE}", 1, 8), (f"dp=1,cp={SIZE},ep={SIZE}", 1, 8 * SIZE)):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("layer.so", "alone.so")]
            moeplan.torch.compile_block(config, paths[0], parallel=parallel, batch=batch, seq=seq, dtype="f64")
            moeplan.torch.compile_block(config, paths[1], parallel="dp=1", batch=1, seq=8, dtype="f64")
            layer = moeplan.torch.PlanModule(paths[0], aux_loss=True)
            alone = moeplan.torch.PlanModule(paths[1], alone_group, aux_loss=True)
        x = torch.randn(8 * SIZE, config.hidden_size, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        groups = layer.halves.any_pair.variant.groups
        parts = [take_part(x, layer.halves.any_pair.input, groups, rank).requires_grad_() for rank in range(SIZE)]
        own, auxiliary = parts[RANK].detach().clone().requires_grad_(), 0
        (layer(own).square().mean() + 0.7 * layer.aux_loss).backward()
        # The mean of the ranks' losses is meant, and the auxiliary loss is the mean of those of the ranks' tokens.
        for part in parts:
            ((alone(part).square().mean() + 0.7 * alone.aux_loss) / SIZE).backward()
            auxiliary += alone.aux_loss.detach() / SIZE
        worst = {"aux": difference(layer.aux_loss.detach(), auxiliary), "x": difference(own.grad / SIZE, parts[RANK].grad)}
        for name, value in layer.values.items():
            worst[name] = difference(gather_parts(getattr(layer, name).grad, value, groups, layer.halves.processes), getattr(alone, name).grad)
        assert max(worst.values()) < 1e-10, worst
        if RANK == 0:
            print(f"{SIZE} ranks, {parallel}: a layer and its auxiliary loss: {max(worst.values()):.1e}", flush=True)


def check_balance():
    """load_balancing_loss has the value and the gradients of transformers' loss of all tokens."""
    parallel = {2: "dp=2,ep=2", 4: "dp=2,mp=2,ep=2"}[SIZE]
    shards, mine = shards_of(parallel)
    tokens = models.draw_tokens(shards)
    for family in ("mixtral", "qwen3_moe", "olmoe", "gpt_oss"):
        with models.precision_of(torch.float64):
            reference = models.make_model(family, torch.float64)
            expected = reference(input_ids=tokens.reshape(shards, -1), output_router_logits=True).aux_loss
            expected.backward()
            model = replace(models.make_model(family, torch.float64), parallel, "baseline", torch.float64, False, aux_loss=True)
            wrapped = wrap_in_ddp(model)
            _, logits = models.run(wrapped, tokens[mine])
            loss = moeplan.torch.load_balancing_loss(model)
            (loss + 0 * logits.sum()).backward()
        worst = {"loss": difference(loss.detach(), expected.detach())}
        for name, gradient in full_gradients(model).items():
            if (wanted := dict(reference.named_parameters())[name].grad) is not None:
                worst[name] = difference(gradient, wanted)
        name = max(worst, key=worst.get)
        assert worst[name] < 1e-9, f"{family}, {name}: {worst[name]:.1e}"
        if RANK == 0:
            print(f"{SIZE} ranks, {parallel}, {family}: load-balancing loss of {len(worst)} values: {worst[name]:.1e}", flush=True)
    try:
        moeplan.torch.load_balancing_loss(models.make_model("deepseek_v3", torch.float64))
    except ValueError as error:
        assert "a model whose family has a load-balancing loss" in str(error)
    else:
        raise AssertionError("expected an error")


def train(model, parallel, steps, first, optimizer):
    """Mean losses of `steps` steps."""
    shards, mine = shards_of(parallel)
    losses = []
    with models.precision_of(torch.float64):
        for step in range(first, first + steps):
            optimizer.zero_grad()
            loss, _ = models.run(model, models.draw_tokens(shards, seed=step)[mine])
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    losses = torch.stack(losses)
    dist.all_reduce(losses)
    return losses / SIZE


def train_reference(parallel, steps):
    losses = []
    with models.precision_of(torch.float64):
        model = models.make_model("mixtral", torch.float64)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for step in range(steps):
            losses.append(models.step_reference(model, models.draw_tokens(shards_of(parallel)[0], seed=step))[0])
            optimizer.step()
    return torch.stack(losses)


def make_training(parallel, schedule, seed):
    with models.precision_of(torch.float64):
        model = replace(models.make_model("mixtral", torch.float64, seed), parallel, schedule, torch.float64, False)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    return model, wrapped, torch.optim.AdamW(wrapped.parameters(), lr=1e-3)


def check_training():
    """50 steps of AdamW as the model without plans. After 25 they are saved, and resumed with another schedule."""
    parallel, schedule = {2: ("dp=2,ep=2", "chunks:2"), 4: ("dp=2,mp=2,ep=2,esp=2", "s1")}[SIZE]
    expected = train_reference(parallel, 50)
    model, wrapped, optimizer = make_training(parallel, schedule, seed=1)
    first = train(wrapped, parallel, 25, 0, optimizer)
    # The file has whole parameters by Hugging Face's names, which the model without plans reads, and this rank's state of the optimizer.
    folder = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(folder)
    state = moeplan.torch.full_state_dict(model)
    if RANK == 0:
        models.make_model("mixtral", torch.float64, seed=5).load_state_dict(state)
        model.save_pretrained(folder[0], state_dict=state)
    torch.save(optimizer.state_dict(), f"{folder[0]}/optimizer{RANK}.pt")
    dist.barrier()
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder[0], attn_implementation="eager", dtype=torch.float64)
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, state[name]), name
    model, wrapped, optimizer = make_training(parallel, "baseline", seed=7)
    moeplan.torch.load_full_state_dict(model, loaded.state_dict())
    optimizer.load_state_dict(torch.load(f"{folder[0]}/optimizer{RANK}.pt"))
    second = train(wrapped, parallel, 25, 25, optimizer)
    worst = (torch.cat([first, second]) - expected).abs().max().item()
    assert worst < 1e-9, worst
    if RANK == 0:
        shutil.rmtree(folder[0])
        print(f"{SIZE} ranks, {parallel}, {schedule}: losses of 50 steps of AdamW differ by {worst:.1e}", flush=True)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check_memory():
    """200 steps, and two micro-batches in flight, take no more memory than 50."""
    parallel = f"dp={SIZE},ep={SIZE}"
    model = replace(models.make_model("mixtral", torch.float32), parallel, "baseline", torch.float32, False)
    tokens = models.draw_tokens(SIZE)[RANK]
    for step in range(200):
        losses = [models.run(model, tokens)[0] for _ in range(2)]
        for loss in losses:
            loss.backward()
        model.zero_grad()
        if step == 49:
            before = resident_bytes()
    grown = resident_bytes() - before
    assert grown < 4 << 20, f"{grown} bytes more after 200 steps than after 50"
    if RANK == 0:
        print(f"{SIZE} ranks: 200 steps, {grown} bytes more than after 50", flush=True)


def run_rank(rank, size, what, store):
    global RANK, SIZE
    RANK, SIZE = rank, size
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    {"families": check_families, "layers": check_layers, "balance": check_balance, "wrappers": check_wrappers, "training": check_training,
     "memory": check_memory}[what]()
    # Gloo's threads release their last tensors during this wait. PyTorch aborts if they do so after Python has ended.
    dist.barrier()
    dist.destroy_process_group()


def main():
    torch.set_num_threads(1)
    # The imports take longer than most checks, so the ranks are forks of this process. It loads each family's module first.
    for family in ALL:
        models.make_model(family, torch.float32)
    for job in sys.argv[1:]:
        size, what = job.split(":")
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.start_processes(run_rank, (int(size), what, f"file://{folder}/store"), int(size), start_method="fork")
        print(f"passed {job}", flush=True)


if __name__ == "__main__":
    main()
