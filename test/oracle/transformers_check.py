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
sys.path = [path for path in sys.path if os.path.abspath(path) != FOLDER] + [FOLDER, os.path.join(FOLDER, "..", "python")]

import numpy as np
import safetensors.torch  # its table of types is made here, before double_precision changes them
import torch
import transformers
from safetensors.numpy import load_file, save_file

import checkpoint
import models
from precision import double_precision

BATCH, LENGTH = 2, 8
# Largest allowed difference, relative to the largest logit.
TOLERANCE = {"numpy": 1e-12, "plan": 1e-12, "f32": 1e-4, "f32, files": 1e-4, "bf16": 1e-4, "bf16, files": 1e-4, "saved": 1e-4}


# Parts of models that are not text, with the smallest sizes, and words in their tensors' names.
VISION = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=24, deepstack_visual_indexes=[],
              num_hidden_layers=1, num_attention_heads=2)
NOT_TEXT = (".visual.", "vision_model.", "vit_large_projector.")


def make_kind(config):
    """The configuration as an object of transformers' class."""
    keys = {key: value for key, value in config.items() if key != "architectures"}
    if keys["model_type"] == "kimi_k2":  # its code is DeepSeek-V3's
        keys["model_type"] = "deepseek_v3"
    if "text_config" in keys:
        keys["vision_config"] = VISION
    if isinstance(keys.get("rope_scaling"), dict):
        keys["rope_scaling"] = dict(keys["rope_scaling"])  # copied, because transformers changes it
    kind = transformers.AutoConfig.for_model(**json.loads(json.dumps(keys)))
    kind.architectures = config["architectures"]
    kind._experts_implementation = "eager"  # only this implementation supports double precision
    return kind


def draw_ids(config):
    """{name of the plan's input: ids}, both for a model of an encoder and a decoder."""
    rng = np.random.default_rng(2)
    names = ("tokens", "decoder_tokens") if models.family_of(config) == models.SWITCH else ("tokens",)
    vocabulary = config.get("text_config", config)["vocab_size"]
    return {name: rng.integers(0, vocabulary, (BATCH, LENGTH)) for name in names}


def flat_ids(ids):
    return {name: values.reshape(-1).astype(np.int32) for name, values in ids.items()}


def class_of(config):
    """transformers' class of the model. Sarvam is a configuration of GLM's."""
    named = getattr(transformers, config["architectures"][0], None)
    return named or transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(make_kind(config))]


def make_model(config):
    """A random model of transformers in double precision. Norms, biases (those of the selection are no parameters) and sinks, which it
    initialises to 1 or 0, are random, too."""
    torch.manual_seed(1)
    model = class_of(config)._from_config(make_kind(config), attn_implementation="eager").double().eval()
    for module in model.modules():
        if module.__class__.__name__ == "SwitchTransformersTop1Router":
            module.dtype = torch.float64  # a config cannot set it
    with torch.no_grad():
        for name, value in [*model.named_buffers(), *model.named_parameters()]:
            if name.endswith("e_score_correction_bias"):
                value += 0.1 * torch.randn_like(value)
        for name, value in model.named_parameters():
            if value.dim() == 1:
                value += 0.2 * torch.randn_like(value)
            elif not name.endswith("e_score_correction_bias"):
                torch.nn.init.normal_(value, std=value.shape[-1] ** -0.5)
    return model


def load_folder(folder):
    tensors = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        tensors.update(load_file(path))
    return {name: tensor for name, tensor in tensors.items() if not any(word in name for word in NOT_TEXT)}


def call(binaries, name, *arguments):
    subprocess.run([os.path.join(binaries, name), *arguments], check=True, stdout=subprocess.DEVNULL)


def logits_of(model, ids):
    keys = {"tokens": "input_ids", "decoder_tokens": "decoder_input_ids"}
    with torch.no_grad():
        output = model(**{keys[name]: torch.from_numpy(values) for name, values in ids.items()})
        return output.logits.double().numpy().reshape(BATCH * LENGTH, -1)


def reload(config, folder):
    kind = class_of(config)
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()


def check_loading(binaries, folder, config, model, ids):
    """{name: (logits of moe-run or of its saved files, logits of transformers)} in f32."""
    tool = lambda *arguments: call(binaries, *arguments)
    path = lambda name: os.path.join(folder, name)
    save_file(flat_ids(ids), path("ids"))
    pairs = {}
    for dtype, kind in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        for form, options in ((dtype, {}), (dtype + ", files", {"max_shard_size": "4KB"})):
            source, back = path(form), path(form + " back")
            model.to(kind).save_pretrained(source, **options)
            assert len(glob.glob(os.path.join(source, "*.index.json"))) == bool(options)
            tool("moe-compile", os.path.join(source, "config.json"), "--whole-model", "--mode=forward", "--dtype=f32",
                 f"--batch={BATCH}", f"--seq={LENGTH}", "--parallel=dp=1", "-o", path("f32.so"))
            tool("moe-run", path("f32.so"), f"--load={path('ids')}", f"--load={source}", f"--save={path('out')}",
                 f"--save-checkpoint={back}")
            pairs[form] = load_file(path("out"))["logits"], logits_of(reload(config, source), ids)
            for file in os.listdir(back):
                with open(os.path.join(source, file), "rb") as a, open(os.path.join(back, file), "rb") as b:
                    assert a.read() == b.read(), file
    # A checkpoint that moe-run has made of parameters.
    parameters = checkpoint.parameters(checkpoint.read_metadata(path("f32.so")), load_folder(path("f32")))
    save_file(parameters, path("own"))
    tool("moe-run", path("f32.so"), f"--load={path('own')}", f"--save-checkpoint={path('made')}")
    shutil.copy(os.path.join(path("f32"), "config.json"), path("made"))
    pairs["saved"] = logits_of(reload(config, path("made")), ids), logits_of(reload(config, path("f32")), ids)
    return pairs


def run_plan(binaries, folder, tensors, ids):
    tool = lambda *arguments: call(binaries, *arguments)
    plan, inputs, outputs = (os.path.join(folder, name) for name in ("plan.so", "in.safetensors", "out.safetensors"))
    tool("moe-compile", os.path.join(folder, "config.json"), "--whole-model", "--mode=forward", "--dtype=f64",
         f"--batch={BATCH}", f"--seq={LENGTH}", "--parallel=dp=1", "-o", plan)
    parameters = checkpoint.parameters(checkpoint.read_metadata(plan), tensors)
    save_file({**flat_ids(ids), **parameters}, inputs)
    tool("moe-run", plan, f"--load={inputs}", f"--save={outputs}")
    return load_file(outputs)["logits"]


def compare(path, binaries):
    """{name of the comparison: its largest error relative to the largest logit}."""
    with open(path) as file:
        config = json.load(file)
    ids = draw_ids(config)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        with double_precision():
            model = make_model(config)
            want = logits_of(model, ids)
        model.save_pretrained(folder)
        tensors = load_folder(folder)
        pairs = {"numpy": (models.logits(config, tensors, **ids), want)}
        if binaries:
            pairs["plan"] = run_plan(binaries, folder, tensors, ids), want
            pairs.update(check_loading(binaries, folder, config, model, ids))
    return {name: np.max(np.abs(got - want)) / np.max(np.abs(want)) for name, (got, want) in pairs.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", help="config.json of models small enough for one machine")
    parser.add_argument("--bin", metavar="DIR", help="the folder of moe-compile and moe-run")
    options = parser.parse_args()
    default = os.path.join(FOLDER, "..", "Integration", "models")
    # Families that transformers does not have.
    own = ("bert-moe", "bytes", "gpt2-moe")
    names = sorted(name.removesuffix(".json") for name in os.listdir(default))
    names = [name for name in names if name not in own]
    failed = 0
    for path in options.configs or [os.path.join(default, name + ".json") for name in names]:
        try:
            errors = compare(path, options.bin)
        except (AssertionError, subprocess.CalledProcessError) as error:
            print("FAIL", os.path.basename(path), repr(error), flush=True)
            failed += 1
            continue
        good = all(error < TOLERANCE[name] for name, error in errors.items())
        failed += not good
        print("ok  " if good else "FAIL", os.path.basename(path),
              "; ".join(f"{name} {error:.1e}" for name, error in errors.items()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
