"""Makes a plan's parameters from the tensors of a published checkpoint, by the `source` of each in the plan's metadata.

docs/Checkpoints.md gives the rules. This file implements all of them.
"""

import json

import numpy as np


def read_metadata(path):
    """Metadata of a plan .so."""
    with open(path, "rb") as file:
        content = file.read()
    begin = content.index(b'{"moeplan":')
    return json.loads(content[begin : content.index(b"\0", begin)])


def parameter(argument, tensors):
    """Value of an argument of role `parameter`, described as in the metadata. Stacks of experts may have rows and columns exchanged."""
    value = assembled(argument, tensors)
    names = argument["source"]["tensors"]
    if list(value.shape) != argument["shape"] and all(name in tensors and tensors[name].ndim == 3 for name in names):
        value = assembled(argument, {name: tensors[name].swapaxes(1, 2) for name in names})
    if list(value.shape) != argument["shape"]:
        raise ValueError(f"'{argument['name']}': expected shape {argument['shape']} but the checkpoint gives {value.shape}")
    return np.ascontiguousarray(value)


def assembled(argument, tensors):
    source = argument["source"]

    def matrix(name, expert):
        """One expert's part of a tensor with all experts."""
        array = tensors[name]
        if source.get("row"):
            array = array[0]
        if "stacked" not in source:
            return array
        return array[expert] if source["stacked"] == 3 else np.split(array, source["experts"])[expert]

    def tensor(name, expert=None):
        array = matrix(name, expert)
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
        parts = [tensor(name.replace("{e}", str(expert)), expert) for name in source["tensors"]]
        if source.get("halves"):
            parts = np.split(parts[0], 2, axis=-1)
        return np.stack(parts, axis=-1).reshape(*parts[0].shape[:-1], -1) if len(parts) > 1 else parts[0]

    return np.stack([of_expert(e) for e in range(source["experts"])]) if "experts" in source else of_expert(None)


def parameters(metadata, tensors):
    """{name: value} of all parameters. Refuses a checkpoint with unused tensors."""
    arguments = [piece for argument in metadata["programs"][0]["arguments"] if argument["role"] == "parameter"
                 for piece in argument.get("pieces", [argument])]
    used = {name.replace("{e}", str(e)) for argument in arguments for name in argument["source"]["tensors"]
            for e in range(argument["source"].get("experts", 1))}
    # A checkpoint has a prefix in all names or in none.
    for prefix in {argument["source"].get("prefix", "") for argument in arguments}:
        if not any(name.startswith(prefix) for name in tensors):
            tensors = {prefix + name if prefix + name in used else name: tensor for name, tensor in tensors.items()}
    if unused := sorted(set(tensors) - used):
        raise ValueError(f"the plan has nothing for the tensors {', '.join(unused)}")
    return {argument["name"]: parameter(argument, tensors) for argument in arguments}
