"""A plan's parameters from the tensors of a published checkpoint, by the `source` of each in the plan's metadata.

docs/Runtime.md gives the rules; this is all of them.
"""

import json

import numpy as np


def read_metadata(path):
    """The metadata of a plan .so."""
    with open(path, "rb") as file:
        content = file.read()
    begin = content.index(b'{"moeplan":')
    return json.loads(content[begin : content.index(b"\0", begin)])


def parameter(argument, tensors):
    """The value of an argument, as the metadata has it, of role `parameter`."""
    source = argument["source"]

    def tensor(name):
        array = tensors[name]
        if source.get("transpose"):
            array = array.T
        if "of" in source:
            blocks = source.get("blocks", 1)
            assert array.shape[-1] == blocks * source["of"], (name, array.shape)
            array = array.reshape(*array.shape[:-1], blocks, source["of"])
            taken = argument["shape"][-1] // len(source["tensors"]) // blocks
            array = array[..., source["begin"] : source["begin"] + taken]
            array = array.reshape(*array.shape[:-2], -1)
        return array

    def of_expert(expert):
        parts = [tensor(name.replace("{e}", str(expert))) for name in source["tensors"]]
        return np.stack(parts, axis=-1).reshape(*parts[0].shape[:-1], -1) if len(parts) > 1 else parts[0]

    value = np.stack([of_expert(e) for e in range(source["experts"])]) if "experts" in source else of_expert(None)
    if list(value.shape) != argument["shape"]:
        raise ValueError(f"'{argument['name']}': expected shape {argument['shape']} but the checkpoint gives {value.shape}")
    return np.ascontiguousarray(value)


def parameters(metadata, tensors):
    """{name: value} of all parameters. Refuses a checkpoint of which something is not used."""
    arguments = [argument for argument in metadata["programs"][0]["arguments"] if argument["role"] == "parameter"]
    used = {name.replace("{e}", str(e)) for argument in arguments for name in argument["source"]["tensors"]
            for e in range(argument["source"].get("experts", 1))}
    if unused := sorted(set(tensors) - used):
        raise ValueError(f"the plan has nothing for the tensors {', '.join(unused)}")
    return {argument["name"]: parameter(argument, tensors) for argument in arguments}
