#!/usr/bin/env python3
"""Prints one module for each way to divide some worlds of ranks, with a layer in the capacity and one in the dropless form.

Usage: spmd_grid.py | moe-opt --moe-partition --moe-verify-spmd .. -split-input-file
"""
import itertools

LAYER = """  func.func @{name}(%x: tensor<96x4xf64>, %g: tensor<4x24xf64>, %w1: tensor<24x4x48xf64>, %w2: tensor<24x24x4xf64>,
      %b1: tensor<24x48xf64>, %b2: tensor<24x4xf64>, %s1: tensor<4x48xf64>, %s2: tensor<24x4xf64>, %sg: tensor<4x1xf64>)
      -> (tensor<96x4xf64>, tensor<f64>) {{
    %y, %aux = moe.layer "{name}" %x gate(%g) experts(%w1, %w2, %b1, %b2) shared(%s1, %s2, %sg)
      {{top_k = 2 : i64, activation = #moe<activation swiglu>{attributes}}}
      : (tensor<96x4xf64>, tensor<4x24xf64>, tensor<24x4x48xf64>, tensor<24x24x4xf64>, tensor<24x48xf64>, tensor<24x4xf64>,
         tensor<4x48xf64>, tensor<24x4xf64>, tensor<4x1xf64>) -> (tensor<96x4xf64>, tensor<f64>)
    %z = moe.add %x, %y : tensor<96x4xf64>
    return %z, %aux : tensor<96x4xf64>, tensor<f64>
  }}
"""


def is_chain(boundaries):
    ordered = sorted(set(boundaries))
    return all(upper % lower == 0 for lower, upper in zip(ordered, ordered[1:]))


def main():
    modules = []
    for world in 1, 2, 3, 4, 6, 8, 12, 16, 24:
        divisors = [d for d in range(1, world + 1) if world % d == 0]
        for mp, ep, esp in itertools.product(divisors, repeat=3):
            if world % (ep * esp) or not is_chain([1, mp, esp, ep * esp, world]):
                continue
            if 96 % (world // mp) or 24 % ep or 24 % esp or 24 % mp:
                continue
            functions = (LAYER.format(name="capacity", attributes=", capacity_factor = 1.25 : f64")
                         + LAYER.format(name="dropless", attributes=""))
            modules.append(f"module attributes {{moe.parallel = #moe.parallel<world = {world}, pp = 1, dp = {world // mp}, "
                           f"mp = {mp}, ep = {ep}, esp = {esp}>}} {{\n{functions}}}\n")
    print("// -----\n".join(modules))


if __name__ == "__main__":
    main()
