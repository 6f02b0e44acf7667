#!/usr/bin/env python3
"""Compares plans of whole models with Hugging Face's transformers on tiny random models.

It needs torch, transformers and numpy, and so is no part of the tests:

    pip install torch transformers safetensors numpy
    test/oracle/transformers_check.py --bin build/release/bin [config.json ...]

Each config becomes a random model that transformers saves; moe-compile reads the saved config. In double precision the
plan's metadata says how the saved tensors become its parameters, and moe-run computes the logits. In f32, moe-run --load
takes what transformers has saved in f32 and in bf16, in one file and in several, and transformers loads what
--save-checkpoint has written. Without configs: those of test/Integration/models that transformers knows. Without --bin
only the numpy models are compared.
"""

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

# This folder has a safetensors.py of its own, and Python puts it first.
FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path = [path for path in sys.path if os.path.abspath(path) != FOLDER] + [FOLDER]

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file

import checkpoint
import models

BATCH, LENGTH = 2, 8
# What the largest difference may be, of the largest logit.
TOLERANCE = {"numpy": 1e-5, "plan": 1e-5, "f32": 1e-4, "f32, files": 1e-4, "bf16": 1e-4, "bf16, files": 1e-4, "saved": 1e-4}


def make_model(config):
    """A random model of transformers, with the norms, biases (DeepSeek-V3's of the selection are no parameters) and sinks that
    it starts at 1 or 0 random too."""
    torch.manual_seed(1)
    kind = transformers.AutoConfig.for_model(**{k: v for k, v in config.items() if k != "architectures"})
    kind.architectures = config["architectures"]
    kind._experts_implementation = "eager"  # the others have no double precision
    model = transformers.AutoModelForCausalLM.from_config(kind, attn_implementation="eager").double().eval()
    with torch.no_grad():
        for name, value in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                value += 0.1 * torch.randn_like(value)
        for name, value in model.named_parameters():
            if value.dim() == 1:
                value += 0.2 * torch.randn_like(value)
            else:
                torch.nn.init.normal_(value, std=value.shape[-1] ** -0.5)
    return model


def load_folder(folder):
    tensors = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        tensors.update(load_file(path))
    return tensors


def call(binaries, name, *arguments):
    subprocess.run([os.path.join(binaries, name), *arguments], check=True, stdout=subprocess.DEVNULL)


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.from_numpy(tokens)).logits.double().numpy().reshape(BATCH * LENGTH, -1)


def reload(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def check_loading(binaries, folder, model, tokens):
    """{what: (logits of moe-run or of what it saved, logits of transformers)} in f32."""
    tool = lambda *arguments: call(binaries, *arguments)
    path = lambda name: os.path.join(folder, name)
    save_file({"tokens": tokens.reshape(-1).astype(np.int32)}, path("tokens"))
    pairs = {}
    for dtype, kind in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        for form, options in ((dtype, {}), (dtype + ", files", {"max_shard_size": "20KB"})):
            source, back = path(form), path(form + " back")
            model.to(kind).save_pretrained(source, **options)
            assert len(glob.glob(os.path.join(source, "*.index.json"))) == bool(options)
            tool("moe-compile", os.path.join(source, "config.json"), "--whole-model", "--mode=forward", "--dtype=f32",
                 f"--batch={BATCH}", f"--seq={LENGTH}", "--parallel=dp=1", "-o", path("f32.so"))
            tool("moe-run", path("f32.so"), f"--load={path('tokens')}", f"--load={source}", f"--save={path('out')}",
                 f"--save-checkpoint={back}")
            pairs[form] = load_file(path("out"))["logits"], logits_of(reload(source), tokens)
            for file in os.listdir(back):
                with open(os.path.join(source, file), "rb") as a, open(os.path.join(back, file), "rb") as b:
                    assert a.read() == b.read(), file
    # A checkpoint that moe-run has made of parameters.
    parameters = checkpoint.parameters(checkpoint.read_metadata(path("f32.so")), load_folder(path("f32")))
    save_file(parameters, path("own"))
    tool("moe-run", path("f32.so"), f"--load={path('own')}", f"--save-checkpoint={path('made')}")
    shutil.copy(os.path.join(path("f32"), "config.json"), path("made"))
    pairs["saved"] = logits_of(reload(path("made")), tokens), logits_of(reload(path("f32")), tokens)
    return pairs


def run_plan(binaries, folder, tensors, tokens):
    tool = lambda *arguments: call(binaries, *arguments)
    plan, inputs, outputs = (os.path.join(folder, name) for name in ("plan.so", "in.safetensors", "out.safetensors"))
    tool("moe-compile", os.path.join(folder, "config.json"), "--whole-model", "--mode=forward", "--dtype=f64",
         f"--batch={BATCH}", f"--seq={LENGTH}", "--parallel=dp=1", "-o", plan)
    parameters = checkpoint.parameters(checkpoint.read_metadata(plan), tensors)
    save_file({"tokens": tokens.reshape(-1).astype(np.int32), **parameters}, inputs)
    tool("moe-run", plan, f"--load={inputs}", f"--save={outputs}")
    return load_file(outputs)["logits"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", help="config.json of models small enough for one machine")
    parser.add_argument("--bin", metavar="DIR", help="the folder of moe-compile and moe-run")
    options = parser.parse_args()
    default = os.path.join(FOLDER, "..", "Integration", "models")
    names = ("mixtral", "qwen2-moe", "qwen3-moe", "olmoe", "gpt-oss", "deepseek-v2", "deepseek-v3")
    failed = 0
    for path in options.configs or [os.path.join(default, name + ".json") for name in names]:
        with open(path) as file:
            config = json.load(file)
        tokens = np.random.default_rng(2).integers(0, config["vocab_size"], (BATCH, LENGTH))
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            model = make_model(config)
            want = logits_of(model, tokens)
            model.save_pretrained(folder)
            tensors = load_folder(folder)
            pairs = {"numpy": (models.logits(config, tensors, tokens), want)}
            if options.bin:
                pairs["plan"] = run_plan(options.bin, folder, tensors, tokens), want
                pairs.update(check_loading(options.bin, folder, model, tokens))
        errors = {name: np.max(np.abs(got - want)) / np.max(np.abs(want)) for name, (got, want) in pairs.items()}
        good = all(error < TOLERANCE[name] for name, error in errors.items())
        failed += not good
        print("ok  " if good else "FAIL", os.path.basename(path),
              "; ".join(f"{name} {error:.1e}" for name, error in errors.items()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
