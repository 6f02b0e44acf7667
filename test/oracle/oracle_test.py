#!/usr/bin/python3
"""Compares the one-rank reference of compiled plans with the numpy oracle: every output and every gradient.

The models are every family under share/models at reduced sizes, through moe-import's reading of its config, and every
option of moe.layer as MLIR text. In f32 they are only one layer of each family.
"""

import json
import os
import sys
from dataclasses import dataclass, replace
from functools import partial

import families
import harness
import oracle
import safetensors

# Inputs this far from a jump have one choice and one derivative under any rounding of sums.
MARGIN = {"f64": 1e-9, "f32": 2e-5}


@dataclass
class Case:
    dtype: str
    model: oracle.Model
    config: dict = None
    flags: tuple = ()


def family_cases(dtype):
    for name in families.shared_names():
        config = families.reduced_config(name)
        for layers, batch, seq in ((1, 2, 16), (2, 1, 20))[: 1 if dtype == "f32" else 2]:
            model = families.model_of(config, batch, seq, layers)
            flags = (f"--batch={batch}", f"--seq={seq}", f"--layers={layers}")
            yield f"{name}, {layers} layers, {dtype}", Case(dtype, model, config, flags)
        if dtype == "f32":
            continue
        if not model.layers[0].is_dropless:
            yield f"{name}, dropless, {dtype}", Case(
                dtype, with_capacity(model, None), config, flags + ("--dropless",))
        else:
            yield f"{name}, capacity that drops, {dtype}", Case(
                dtype, with_capacity(model, 0.75), config, flags + ("--capacity-factor=0.75",))


def with_capacity(model, factor):
    return replace(model, layers=tuple(replace(layer, capacity_factor=factor, expert_capacity=None) for layer in model.layers))


def text_cases(dtype):
    for name, model in oracle.option_cases():
        yield f"{name}, {dtype}", Case(dtype, model)


def compare(got, want, tolerance):
    """Worst relative error over the outputs and gradients of `want`, which must be all of `got`."""
    names = lambda tensors: {n for n in tensors if n in ("y", "aux") or n.startswith("grad.")}
    if names(got) != names(want):
        raise harness.CaseFailed(f"missing tensors {sorted(names(want) - names(got))}, "
                                 f"tensors too many {sorted(names(got) - names(want))}")
    errors = {}
    for name, tensor in want.items():
        if got[name].shape != tensor.shape:
            raise harness.CaseFailed(f"'{name}': expected shape {tensor.shape} but got {got[name].shape}")
        errors[name] = harness.relative_error(got[name], tensor)
    bad = {name: error for name, error in errors.items() if not error <= tolerance}
    if bad:
        raise harness.CaseFailed("\n".join(f"'{name}': relative error {error:.2e}, expected at most {tolerance:.0e}"
                                           for name, error in bad.items()))
    worst = max(errors, key=errors.get)
    return f"{len(errors)} tensors, worst {errors[worst]:.1e} ({worst})"


def check(tools, case, folder, log):
    path = partial(os.path.join, folder)
    if case.config:
        source = path("config.json")
        with open(source, "w") as file:
            json.dump(case.config, file, indent=2)
    else:
        source = path("model.mlir")
        with open(source, "w") as file:
            file.write(harness.mlir_text(case.model, case.dtype))
    flags = case.flags + (f"--dtype={case.dtype}",) if case.config else ()
    tools.call(log, "moe-compile", source, *flags, harness.SINGLE_RANK, "-o", path("plan.so"))

    convert = partial(safetensors.round_to, dtype=case.dtype)
    tensors, result = oracle.draw_safe(case.model, seed=1, margin=MARGIN[case.dtype], convert=convert)
    safetensors.save(path("in.safetensors"), tensors, case.dtype)
    tools.call(log, "moe-run", path("plan.so"), "--reference", f"--load={path('in.safetensors')}",
               f"--save={path('out.safetensors')}")
    note = compare(safetensors.load(path("out.safetensors")), result.outputs, harness.TOLERANCE[case.dtype])
    return note + (f", {result.dropped()} dropped" if result.dropped() else "")


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--dtype", choices=["f64", "f32"], help="only this type; both unless given")
    options = parser.parse_args()
    cases = [case for dtype in ([options.dtype] if options.dtype else ["f64", "f32"])
             for case in [*family_cases(dtype), *(text_cases(dtype) if dtype == "f64" else [])]]
    return harness.run_cases(cases, partial(check, harness.Tools(options.bin)), options)


if __name__ == "__main__":
    sys.exit(main())
