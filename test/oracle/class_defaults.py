#!/usr/bin/env python3
"""Writes the defaults of transformers' configuration classes for keys that a config.json lacks.

It needs transformers, and so is no part of the tests:

    pip install torch transformers
    test/oracle/class_defaults.py

It writes lib/Import/ClassDefaults.inc, which moe-import reads absent keys from, and test/Integration/configs/TYPE.json, the
default configuration of each class with 4 blocks, from which test/Unit/ConfigProbeTest.cpp starts. A new family is a new name
in TYPES.
"""

import dataclasses
import json
import os
import sys

# This folder has a safetensors.py of its own, and Python puts it first.
FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path = [path for path in sys.path if os.path.abspath(path) != FOLDER]

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

ROOT = os.path.join(FOLDER, "..", "..")
TYPES = """switch_transformers mixtral qwen2_moe qwen3_moe olmoe deepseek_v2 deepseek_v3 gpt_oss llama4_text qwen3_next
qwen3_vl_moe_text qwen3_5_moe_text glm4_moe minimax_m2 dots1 ernie4_5_moe hunyuan_v1_moe granitemoe phimoe dbrx solar_open llama
mistral qwen2 qwen3 gpt2 sarvam_moe hy_v3 glm4_moe_lite sarvam_mla mimo_v2_flash laguna afmoe exaone_moe flex_olmo step3p5
glm4v_moe_text granitemoeshared""".split()
# Keys of MoePlan's own families, in addition to those of a class (docs/Models.md).
PLAIN = {"num_experts_per_tok": 1, "moe_every": 2, "norm_topk_prob": False, "router_aux_loss_coef": 0.01}
# Keys that a class lacks although its models need them.
NEEDED = {"deepseek_v2": {"num_experts_per_tok": 6}, "dots1": {"n_routed_experts": 8, "num_experts_per_tok": 2}}
# Keys for which the class takes null.
UNSET = {"sarvam_mla": {"q_lora_rank": None}}
OWN = {"gpt2_moe": ("gpt2", PLAIN), "bert_moe": ("bert", PLAIN)}
BLOCKS = {"num_layers": 4, "num_decoder_layers": 4, "num_hidden_layers": 4, "n_layer": 4, "n_layers": 4}
# Fields of the classes on which no graph depends.
LEFT_OUT = {"initializer_range", "initializer_factor", "use_cache", "bos_token_id", "eos_token_id"}


def class_fields(kind):
    """Defaults of the class's own fields."""
    base = {field.name for field in dataclasses.fields(transformers.PreTrainedConfig)}
    values = {}
    for field in dataclasses.fields(kind):
        value = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if field.name not in base and field.name not in LEFT_OUT and value is not None:
            values[field.name] = value
    return values


def defaults_of(kind):
    """Values of keys that a file lacks. A null stays unset."""
    values = class_fields(kind)
    if not hasattr(kind(), "rope_parameters"):
        return values
    rope = dict(kind().rope_parameters)
    if "full_attention" in rope:  # one object for each type of block, which the family's reader knows
        return values
    values["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        values["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    if rope != {"rope_type": "default"}:
        values["rope_parameters"] = rope
    for name in ("attn_config", "ffn_config"):  # DBRX
        if hasattr(kind(), name):
            values[name] = class_fields(type(getattr(kind(), name)))
    return values


def wrap(text, width=118):
    """Lines of JSON, broken between keys."""
    lines = [""]
    for part in text.split(", "):
        piece = part + ", "
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)[:-1]


def small_config(name, kind, more):
    """The class's default configuration with few blocks, and the family's own keys."""
    blocks = {key: value for key, value in BLOCKS.items() if key in {field.name for field in dataclasses.fields(kind)}}
    config = json.loads(kind(**blocks).to_json_string(use_diff=False))
    drop = {"transformers_version", "_name_or_path", "architectures"}
    config = {key: value for key, value in config.items() if key not in drop} | more
    if name in OWN:
        config |= {"num_experts": 8}
    config |= NEEDED.get(name, {})
    return config | {"model_type": name}


def main():
    entries = []
    for name in TYPES + list(OWN):
        source, more = OWN.get(name, (name, {}))
        kind = CONFIG_MAPPING[source]
        aliases = json.dumps(kind.attribute_map, sort_keys=True)
        values = wrap(json.dumps(defaults_of(kind) | more | UNSET.get(name, {}), sort_keys=True))
        entries.append(f'{{"{name}", R"({wrap(aliases)})",\nR"({values})"}},\n')
        with open(os.path.join(ROOT, "test", "Integration", "configs", name + ".json"), "w") as file:
            file.write("{" + wrap(json.dumps(small_config(name, kind, more), sort_keys=True)[1:-1]) + "}\n")
    with open(os.path.join(ROOT, "lib", "Import", "ClassDefaults.inc"), "w") as file:
        file.write(f"// Written by test/oracle/class_defaults.py from transformers {transformers.__version__}.\n")
        file.writelines(entries)


if __name__ == "__main__":
    main()
