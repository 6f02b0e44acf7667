#!/usr/bin/env python3
"""Compares the memory that MPipeMoE's buffer reuse saves in compiled plans with the paper's bound phi (Eq. 6).

Usage: mpipemoe_memory.py --bin DIR [--order=NAME] [--svg=FILE] [--only=TEXT]. Nothing is run. The layers are those of Table III: E = 64
experts on 64 ranks, 4k, 16k and 32k tokens a rank, n = 2, 4 and 8 chunks. These are 27 cases, each with the strategies S1 to S4.

A plan's memory is its device arena, as compiled, and the model states as the paper counts them (Eq. 1): parameters, gradients and Adam's
two moments. The paper's T_I and T_O are here the rows in dispatch order that are sent and that come back. They lie in the arena. The
layer's input and output by token, and their gradients, belong to the neighbouring layers. They are arguments of the plan, and neither
side counts them.

Savings are relative to the pipeline without reuse. Its memory is taken in two ways:

  (a) the paper's formula, M_ms + M_act + M_buf of Eq. 1 and 4
  (b) our own plan of chunks:n in which no two values share memory: the sum of its buffers

(b) is more than (a). In (b) the values before and after the activation are two values, and the router's values, sums by token and copies
between token and expert order count. A third figure is our plan of chunks:n as it is. It keeps everything that the backward needs, but
reuses the memory of dead values. Claim: at least 97% of phi is saved in every case.
"""
import argparse
import math
import re
import sys
import tempfile

from layers import COLORS, K, MODELS, Axes, Svg, Tools, report

RANKS = 64
TOKENS = [4 * K, 16 * K, 32 * K]
CHUNKS = [2, 4, 8]
STRATEGIES = ["S1", "S2", "S3", "S4"]
WANTED = 0.97
BYTES = {"f32": 4, "i32": 4}

# phi from the restored formulas (three digits), by model and tokens, for n = 2, 4, 8.
CHECKED = {("GPT3-S", 4 * K): (.181, .363, .453), ("GPT3-S", 16 * K): (.228, .457, .571), ("GPT3-S", 32 * K): (.239, .477, .597),
           ("BERT-L", 4 * K): (.166, .332, .416), ("BERT-L", 16 * K): (.222, .444, .555), ("BERT-L", 32 * K): (.235, .470, .588),
           ("GPT3-XL", 4 * K): (.125, .250, .312), ("GPT3-XL", 16 * K): (.200, .400, .500), ("GPT3-XL", 32 * K): (.222, .444, .555)}


def get_model_states(model):
    """Eq. 1, in bytes."""
    m, h = model
    return 4 * 4 * (RANKS * m + 2 * h * m)


def get_activations(model, tokens):
    """Eq. 4, in bytes: values kept for the backward, and as many again for the backward itself."""
    m, h = model
    return 2 * 4 * (4 * tokens * m + tokens * h)


def get_phi(model, tokens, chunks):
    """Eq. 5 and 6."""
    m, h = model
    saved = 2 * 4 * tokens * (2 * m * (chunks - 2) / chunks + h * (chunks - 1) / chunks)
    return saved / (get_model_states(model) + get_activations(model, tokens))


def get_bytes(type_text):
    """Bytes of a memref type such as 64x16xf32."""
    *dims, element = type_text.split("x")
    size = BYTES[element]
    for dim in dims:
        size *= int(dim)
    return size


def get_arena(plan, space):
    found = re.search(rf"plan\.arenas = {{[^}}]*\b{space} = (\d+)", plan)
    return int(found.group(1)) if found else 0


def get_unshared(plan):
    """Bytes of the device if no two values share memory."""
    return sum(map(get_bytes, re.findall(r"= plan\.buffer .*: memref<([^,>]*), #plan<space device>>", plan)))


def get_parameters(plan):
    """Bytes of one rank's parameters."""
    arguments = plan[:plan.index("plan.arenas")]
    return sum(get_bytes(kind) for kind, role in re.findall(r'%arg\d+: memref<([^,>]*)> {[^}]*?moe\.role = "(\w+)"}', arguments)
               if role == "parameter")


def measure(tools, name, tokens, chunks):
    """Measures one case: bytes, and savings by strategy."""
    model = MODELS[name]
    pipeline = tools.plan(model, tokens, RANKS, f"chunks:{chunks}")
    states = 4 * get_parameters(pipeline)
    if states != get_model_states(model):
        sys.exit(f"error: {name}: a rank's model states are {states} bytes, not Eq. 1's {get_model_states(model)}")
    case = {"name": name, "tokens": tokens, "chunks": chunks, "phi": get_phi(model, tokens, chunks),
            "formula": states + get_activations(model, tokens), "unshared": states + get_unshared(pipeline),
            "planned": states + get_arena(pipeline, "device"), "bytes": {}, "pinned": {}}
    for strategy in STRATEGIES:
        plan = tools.plan(model, tokens, RANKS, f"chunks:{chunks}+mpipe-{strategy.lower()}")
        case["bytes"][strategy] = states + get_arena(plan, "device")
        case["pinned"][strategy] = get_arena(plan, "host_pinned")
    return case


def get_savings(case, against):
    return {strategy: 1 - used / case[against] for strategy, used in case["bytes"].items()}


def print_cases(cases):
    megabytes = lambda size: f"{size / 1e6:8.0f}"
    print("Bytes of a rank, MB: without reuse (a) by the formula, (b) unshared; chunks:n as planned; the plans; pinned on the host\n")
    print(f"{'model':<8} {'B':>4} {'n':>2} {'(a)':>8} {'(b)':>8} {'planned':>8}  " + " ".join(f"{s:>8}" for s in STRATEGIES)
          + "   host: " + " ".join(f"{s:>7}" for s in STRATEGIES[:3]))
    for case in cases:
        print(f"{case['name']:<8} {case['tokens'] // K:>3}k {case['chunks']:>2} "
              + " ".join(megabytes(case[key]) for key in ("formula", "unshared", "planned")) + "  "
              + " ".join(megabytes(case["bytes"][s]) for s in STRATEGIES) + "        "
              + " ".join(f"{case['pinned'][s] / 1e6:7.0f}" for s in STRATEGIES[:3]))
    print("\nSaved: the bound, then by strategy against (a), (b), and chunks:n as planned\n")
    titles = " ".join(f"{s:>5}" for s in STRATEGIES)
    print(f"{'model':<8} {'B':>4} {'n':>2} {'phi':>6}  " + "  ".join(f"({key}) {titles}" for key in "abp"))
    for case in cases:
        print(f"{case['name']:<8} {case['tokens'] // K:>3}k {case['chunks']:>2} {case['phi']:6.3f}  "
              + "  ".join("    " + " ".join(f"{get_savings(case, key)[s]:5.3f}" for s in STRATEGIES)
                          for key in ("formula", "unshared", "planned")))


def check_phi(cases):
    """Checks phi against the digits of the restored formulas."""
    worst = max(abs(case["phi"] - CHECKED[case["name"], case["tokens"]][CHUNKS.index(case["chunks"])]) for case in cases)
    return report(worst <= 0.0011, f"phi is that of the restored formulas, cut to three digits: furthest {worst:.4f}")


def check_savings(cases, against, text):
    ratios = {(case["name"], case["tokens"], case["chunks"], strategy): saved / case["phi"]
              for case in cases for strategy, saved in get_savings(case, against).items()}
    least = min(ratios, key=ratios.get)
    name, tokens, chunks, strategy = least
    return report(ratios[least] >= WANTED, f"saved of phi, against {text}: mean {sum(ratios.values()) / len(ratios):.3f}, least "
                  f"{ratios[least]:.3f} ({name}, {tokens // K}k, n={chunks}, {strategy}), wanted {WANTED}\n      (the paper reports about 0.95)")


def print_planned(cases):
    """Prints savings against a plan that already reuses dead memory. This is not a claim."""
    for chunks in CHUNKS:
        saved = [max(get_savings(case, "planned").values()) for case in cases if case["chunks"] == chunks]
        alone = [1 - case["planned"] / case["formula"] for case in cases if case["chunks"] == chunks]
        if saved:
            print(f"      n={chunks}: beside chunks:{chunks} as planned the best strategy saves {min(saved):.3f} .. {max(saved):.3f}; "
                  f"planning alone saves {min(alone):.3f} .. {max(alone):.3f} of (a)")


def draw(cases, path):
    """Draws as Fig. 10: the bound as bars, savings against (a) as marks."""
    left, top, panel, height, gap = 60, 92, 300, 250, 24
    svg = Svg(left + 3 * panel + 2 * gap + 20, top + height + 66)
    svg.text(left, 24, "Memory saved against the pipeline without reuse (Eq. 4), by compiled plans; bars: the paper's bound phi",
             "start", font_size="1.15em")
    for i, strategy in enumerate(STRATEGIES):
        svg.marker(i, left + 6 + 70 * i, 44, COLORS[i])
        svg.text(left + 16 + 70 * i, 48, strategy, "start")
    top_tick = max(0.8, math.ceil(5 * max(saved for case in cases for saved in get_savings(case, "formula").values())) / 5)
    for p, name in enumerate(MODELS):
        x0 = left + p * (panel + gap)
        axes = Axes(svg, x0, top, panel, height, [0.2 * i for i in range(round(5 * top_tick) + 1)], "{:.0%}" if p == 0 else "")
        chosen = [case for case in cases if case["name"] == name]
        step = panel / max(1, len(chosen))
        for i, case in enumerate(chosen):
            x = x0 + (i + 0.5) * step
            bound = axes.y(case["phi"])
            svg.rect(x - 0.4 * step, bound, 0.8 * step, axes.y(0) - bound, "#d6dbdf", f"phi {case['phi']:.3f}")
            for s, (strategy, saved) in enumerate(get_savings(case, "formula").items()):
                svg.marker(s, x + (s - 1.5) * 0.2 * step, axes.y(saved), COLORS[s],
                           f"{name} B={case['tokens']} n={case['chunks']} {strategy}: {saved:.3f}, bound {case['phi']:.3f}")
            svg.text(x, top + height + 16, f"{case['chunks']}")
        for tokens in TOKENS:
            places = [x0 + (i + 0.5) * step for i, case in enumerate(chosen) if case["tokens"] == tokens]
            if places:
                svg.text(sum(places) / len(places), top + height + 34, f"B = {tokens // K}k")
        svg.text(x0 + panel / 2, top - 12, f"{name}, M = {MODELS[name][0]}, H = {MODELS[name][1]}")
    svg.text(left + (3 * panel + 2 * gap) / 2, top + height + 56, "chunks n, tokens of a rank B")
    svg.write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--order", default="", help="order of the launches, as in moe-compile")
    parser.add_argument("--svg", help="write a plot")
    parser.add_argument("--only", default="", help="only models whose name contains this text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(options.bin, folder, options.order)
        cases = [measure(tools, name, tokens, chunks)
                 for name in MODELS if options.only in name for tokens in TOKENS for chunks in CHUNKS]
    print_cases(cases)
    print()
    ok = [check_phi(cases), check_savings(cases, "formula", "(a) the formula"), check_savings(cases, "unshared", "(b) our plan unshared")]
    print_planned(cases)
    if options.svg:
        draw(cases, options.svg)
    return 0 if all(ok) else 1


if __name__ == "__main__":
    sys.exit(main())
