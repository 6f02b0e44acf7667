#!/usr/bin/env python3
"""Trains a tiny Mixtral of transformers on the bytes of a file. A plan computes its MoE blocks.

    torchrun --nproc-per-node=4 examples/train_mixtral_tiny.py book.txt --parallel=dp=2,mp=2,ep=2,esp=2 --schedule=s1

Each data-parallel rank has its own sequences; ranks of one mp group have the same ones. Without --parallel the model trains as
transformers has it, on the same sequences, so that the losses can be compared.
"""
import argparse
import os

import torch
import torch.distributed as dist
import transformers

import moeplan.torch


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a file; each byte is a token")
    parser.add_argument("--parallel", default="", help="groups of ranks, as moe-compile takes them: dp=2,mp=2,ep=2,esp=2")
    parser.add_argument("--schedule", default="baseline", help="how the plan computes a block, as moe-compile takes it")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seq", type=int, default=32)
    parser.add_argument("--save", help="folder for a checkpoint in Hugging Face's format")
    return parser.parse_args()


def make_model():
    torch.manual_seed(0)
    config = transformers.MixtralConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_local_experts=8, num_experts_per_tok=2,
                                        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, bos_token_id=None, eos_token_id=None)
    return transformers.AutoModelForCausalLM.from_config(config)


def get_shard(parallel):
    """(number of data-parallel ranks, which of them this process is)."""
    sizes = dict(one.split("=") for one in parallel.split(",")) if parallel else {}
    copies = int(sizes.get("mp", 1))
    return dist.get_world_size() // copies, dist.get_rank() // copies


def main():
    options = parse()
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    model = make_model()
    if options.parallel:
        moeplan.torch.replace_moe(model, parallel=options.parallel, schedule=options.schedule, seq=options.seq)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-3)
    with open(options.data, "rb") as file:
        data = torch.tensor(list(file.read()))
    shards, mine = get_shard(options.parallel)
    for step in range(options.steps):
        # The same draws on all ranks, of which each takes its own.
        draw = torch.Generator().manual_seed(step)
        begin = torch.randint(0, len(data) - options.seq, (shards,), generator=draw)[mine]
        tokens = data[begin : begin + options.seq][None]
        loss = wrapped(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        moeplan.torch.clip_grad_norm_(model, 1.0)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if dist.get_rank() == 0 and (step % 5 == 4 or step == 0):
            print(f"step {step + 1}: loss {mean.item() / dist.get_world_size():.4f}", flush=True)
    if options.save:
        state = moeplan.torch.full_state_dict(model)
        if dist.get_rank() == 0:
            model.save_pretrained(options.save, state_dict=state)
            print(f"saved {sum(value.numel() for value in state.values())} parameters to {os.path.basename(options.save)}")
    # Meanwhile Gloo's threads can let go of their last tensors. PyTorch aborts if they do so after Python has ended.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
