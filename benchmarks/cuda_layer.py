#!/usr/bin/env python3
"""Measures one MoE layer's forward and backward in bf16 on a GPU, next to cuBLAS, to copies and to PyTorch.

Usage: cuda_layer.py --compile=DIR --bin=DIR            where moe-compile is: writes plans and routings, a few MB, to copy elsewhere
       cuda_layer.py --plans=DIR --bin=DIR [--json=FILE] [--svg=FILE]     where the GPU is; --bin has cuda_layer, which runtime/ builds

  --shape=LIST, --tokens=LIST   some shapes of mixtral, qwen3, deepseek-v3 and tiny (a try-out, without goals), some numbers of tokens
  --json=FILE                   all figures, written after each case. A case in the file is not measured again if it has the same device,
                                PyTorch, forms of PyTorch and --steps, and the same --seed if one is given
  --limit=SECONDS               begin no case after this time; with --json the next call goes on
  --torch=PYTHON                the interpreter that has PyTorch (python3); "none" leaves PyTorch out
  --worker=NAME                 cuda_layer_emulated runs on the emulation of CUDA, in the folder MOERT_BACKENDS; its times mean nothing

Each shape is checked first, on random values (--seed), at a quarter of its width: 64 tokens are compared with the same layer in f64 on the
host, and forms of PyTorch with f64. Then each number of tokens is measured, balanced and skewed (expert e drawn with weight 1 / (e + 1)).
Events of the device time the plan and PyTorch:

  step ms   a step as a CUDA graph
  eager     a step whose calls are launched one by one
  of peak   FLOPs of the expert products over the step's seconds, divided by the rate of cuBLAS in a product of 8192 x 8192 matrices
  products  time of plain cublasGemmEx calls of the same shapes, over that of the expert products inside the plan; at least 90 % wanted
  rest      time of everything else in the plan, over the time of the bytes that it must move, at a copy's bandwidth; at most 1.5 wanted
  loop, grouped    PyTorch's step over the plan's, with one product after the other and with grouped_mm; more than 1 wanted

All measurements of a case take turns on one device. The exit status is 1 if the plan misses a goal or fails a check, and 77 if there is no
GPU. A form of PyTorch with wrong results is not timed. A form that fails is reported: it may not run on this GPU, or find no memory. The
rest then goes on. If the plan meets all goals that are left, the exit status is 3.
"""
import argparse
import json
import math
import os
import random
import select
import shutil
import subprocess
import sys
import time
from typing import NamedTuple

from layers import COLORS, Axes, Svg, report, run

HERE = os.path.dirname(os.path.abspath(__file__))
NO_DEVICE, PEER_FAILED = 77, 3
VERIFY_TOKENS, TOLERANCE = 64, 2e-2  # as moe-run's for bf16
ROUTINGS = ("balanced", "skewed")
FORMS = ("loop", "grouped")  # forms of PyTorch, if it has them


class Shape(NamedTuple):
    title: str
    model: int
    hidden: int
    experts: int
    top_k: int
    score: str = "softmax"
    scale: float = 1.0
    tokens: tuple = (1024, 2048, 4096, 8192, 16384, 32768)
    gemm: int = 8192
    copy: int = 1 << 30
    has_goals: bool = True


SHAPES = {
    "mixtral": Shape("Mixtral-8x7B", 4096, 14336, 8, 2),
    "qwen3": Shape("Qwen3-30B-A3B", 2048, 768, 128, 8),
    # One of 8 ranks that each have the given number of tokens. It receives as many rows as it sends, 8 for a token, for its 32 experts.
    "deepseek-v3": Shape("DeepSeek-V3, a rank of ep 8", 7168, 2048, 32, 8, "sigmoid", 2.5),
    "tiny": Shape("a try-out", 64, 64, 16, 4, tokens=(32, 64), gemm=64, copy=1 << 16, has_goals=False),
}


def narrow(shape):
    """The shape that is verified: a quarter of the width, because the host would need half a minute for all of it."""
    return shape._replace(model=max(shape.model // 4, shape.experts), hidden=shape.hidden // 4)


# ---------------------------------------------------------------------------------------------------------------- plans


def get_graph(shape, tokens, dtype):
    types = {"x": f"tensor<{tokens}x{shape.model}x{dtype}>", "gate": f"tensor<{shape.model}x{shape.experts}x{dtype}>",
             "w1": f"tensor<{shape.experts}x{shape.model}x{2 * shape.hidden}x{dtype}>",
             "w2": f"tensor<{shape.experts}x{shape.hidden}x{shape.model}x{dtype}>"}
    arguments = ", ".join(f'%{name}: {kind} {{moe.name = "{name}", moe.role = "{"input" if name == "x" else "parameter"}"}}'
                          for name, kind in types.items())
    aux = "tensor<f64>" if dtype == "f64" else "tensor<f32>"
    return f"""
func.func @model({arguments}) -> ({types["x"]} {{moe.name = "y", moe.role = "output"}}, {aux} {{moe.name = "aux", moe.role = "output"}}) {{
  %y, %aux = moe.layer "layer" %x gate(%gate) experts(%w1, %w2) {{top_k = {shape.top_k} : i64, activation = #moe<activation swiglu>,
    renormalize, score = #moe<score {shape.score}>, routing_scale = {shape.scale:e} : f64}} : ({", ".join(types.values())}) -> ({types["x"]}, {aux})
  return %y, %aux : {types["x"]}, {aux}
}}
"""


def draw_balanced(shape, tokens, generator):
    """Draws each expert equally often: decks of all experts, shuffled, k cards for each token. k divides the number of experts."""
    choices = []
    while len(choices) < tokens * shape.top_k:
        deck = list(range(shape.experts))
        generator.shuffle(deck)
        choices += deck
    return bytes(choices[:tokens * shape.top_k])


def draw_skewed(shape, tokens, generator):
    """Draws expert e with weight 1 / (e + 1), until there are k different ones."""
    experts, weights = range(shape.experts), [1 / (e + 1) for e in range(shape.experts)]
    ends = [sum(weights[:e + 1]) for e in experts]
    choices = bytearray()
    for _ in range(tokens):
        chosen = {}
        while len(chosen) < shape.top_k:
            chosen.update(dict.fromkeys(generator.choices(experts, cum_weights=ends, k=shape.top_k)))
        choices += bytes(list(chosen)[:shape.top_k])
    return bytes(choices)


def compile_plans(options):
    """Writes NAME-TOKENS.so in bf16, NAME-TOKENS-ROUTING.bin with an expert in a byte, and NAME-verify*."""
    os.makedirs(options.compile, exist_ok=True)
    for name in options.shape:
        shape = SHAPES[name]
        plans = [(f"{name}-{tokens}", shape, tokens, "bf16") for tokens in get_tokens(options, shape)]
        plans += [(f"{name}-verify", narrow(shape), VERIFY_TOKENS, "bf16"), (f"{name}-verify-f64", narrow(shape), VERIFY_TOKENS, "f64")]
        for title, width, tokens, dtype in plans:
            path = os.path.join(options.compile, title)
            with open(path + ".mlir", "w") as file:
                file.write(get_graph(width, tokens, dtype))
            # moe-run cannot verify a plan without a reference. This plan is compared with the one in f64.
            run([os.path.join(options.bin, "moe-compile"), path + ".mlir", "--parallel=dp=1", "--reference=0", "-o", path + ".so"])
            for routing, draw in (("balanced", draw_balanced), ("skewed", draw_skewed)):
                with open(f"{path}-{routing}.bin", "wb") as file:
                    file.write(draw(shape, tokens, random.Random(f"{name} {tokens}")))
        print(f"{name}: {len(plans)} plans")


# -------------------------------------------------------------------------------------------------------------- workers


class WorkerError(SystemExit):
    """Ends the program unless it is caught."""


class Worker:
    """A process that answers each line of JSON with another one."""

    def __init__(self, command, title):
        self.title = title
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, timeout=400, **job):
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the process has ended, see below
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            self.process.kill()
            raise WorkerError(f"error: {self.title}: no answer for {timeout} s to {job}")
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            raise WorkerError(status if status == NO_DEVICE else f"error: {self.title} ended with {status} at {job}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"error: {self.title}: {answer['error']}\n  {job}")
        return answer

    def end(self):
        self.process.kill()
        self.process.communicate()


class Torch:
    """The process of PyTorch. A failure ends only this process: the next job gets a new one, whose GPU is usable."""

    def __init__(self, python):
        self.command, self.worker = [python, os.path.join(HERE, "cuda_layer_torch.py")], None

    def ask(self, **job):
        """The answer, or the error as its "error"."""
        self.worker = self.worker or Worker(self.command, "PyTorch")
        try:
            return self.worker.ask(**job)
        except WorkerError as error:
            self.worker.end()
            self.worker = None
            return {"error": str(error).splitlines()[0].removeprefix("error: ")}


def start_torch(options):
    """PyTorch's process, its description, and its name for readers. If there is no PyTorch: None, and the reason."""
    if options.torch == "none":
        return None, None, "left out"
    python = shutil.which(options.torch)
    found = python and subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    if not found or found.returncode:
        return None, None, f"{options.torch} cannot import it; --torch=PYTHON says which interpreter can"
    torch = Torch(python)
    machine = torch.ask(do="machine")
    if "error" in machine:
        return None, None, machine["error"]
    if machine["device"] == "cpu" and options.worker == "cuda_layer":
        return None, None, f"{machine['version']} finds no GPU"
    return torch, machine, f"{machine['version']} on {machine['device']}, {' and '.join(machine['forms'])}"


# ---------------------------------------------------------------------------------------------------------- measurement


def get_flops(shape, rows):
    """FLOPs of the expert products, forward and backward."""
    return 3 * 2 * rows * 3 * shape.model * shape.hidden


def get_bytes(shape, tokens):
    """Bytes that all ops besides the expert products must move in bf16 in any plan, if nothing is fused with a product. Values with one
    number for each choice or score are left out."""
    rows = tokens * shape.top_k
    x, sorted_x, h = tokens * shape.model, rows * shape.model, rows * shape.hidden
    forward = [x,                 # the router reads x
               x + sorted_x,      # dispatch
               2 * h + h,         # swiglu
               sorted_x + x]      # combine
    backward = [x + sorted_x,     # dispatch of the gradient
                sorted_x,         # gradients of the weights of choices, which need the experts' outputs again
                2 * h + h + 2 * h,  # swiglu: its input, the gradient of its output, the gradient of its input
                sorted_x + x,     # combine
                x]                # gradient of the router's matrix
    return 2 * sum(forward + backward)


class Bench:
    def __init__(self, options):
        self.options, self.start, self.ok = options, time.monotonic(), True
        self.results = {"verify": {}, "cases": {}}
        if options.json and os.path.exists(options.json):
            with open(options.json) as file:
                self.results = json.load(file)
        self.layer = Worker([os.path.join(options.bin, options.worker)], options.worker)
        self.machine = self.layer.ask(do="machine", **{key: getattr(SHAPES[options.shape[0]], key) for key in ("gemm", "copy")})
        self.torch, torch, text = start_torch(options)
        # All facts on which a figure depends, besides the case. A figure with other facts is not of this run.
        self.setup = {"device": self.machine["device"], "torch": torch, **{key: getattr(SHAPES[options.shape[0]], key) for key in ("gemm", "copy")}}
        self.forms, self.peer_failed = {}, False
        self.results.pop("torch", None)
        print(f"{self.machine['device']}: cuBLAS {self.machine['flops'] / 1e12:.1f} TFLOP/s, copies {self.machine['copy_bandwidth'] / 1e9:.0f} GB/s")
        print(f"PyTorch: {text}; seed {options.seed}")

    def path(self, name):
        path = os.path.join(self.options.plans, name)
        if not os.path.exists(path):
            sys.exit(f"error: '{path}' does not exist; --compile={self.options.plans} writes it")
        return path

    def save(self):
        if self.options.json:
            with open(self.options.json, "w") as file:
                json.dump(self.results, file, indent=1)

    def is_of_this_run(self, stored, **wanted):
        """Seeds are compared only if one is given."""
        wanted |= {"setup": self.setup, **({"seed": self.options.seed} if self.options.is_seeded else {})}
        return all(stored.get(key) == value for key, value in wanted.items())

    def verify(self, name):
        """Verifies the layer and PyTorch's forms at a quarter of the width against f64."""
        shape, seed = SHAPES[name], self.options.seed
        routing = self.path(f"{name}-verify-skewed.bin")
        got = self.layer.ask(do="verify", plan=self.path(f"{name}-verify.so"), reference=self.path(f"{name}-verify-f64.so"),
                             routing=routing, seed=seed)
        plan = {"error": "tokens did not choose the given experts"} if not got["routed"] else judge(got["errors"])
        forms = {}
        for form in self.setup["torch"]["forms"] if self.torch else []:
            answer = self.torch.ask(do="verify", form=form, routing=routing, seed=seed, **get_job(narrow(shape)))
            forms[form] = answer if "error" in answer else judge(answer["errors"])
        return {"setup": self.setup, "seed": seed, "plan": plan, "forms": forms}

    def check(self, name):
        """Ends the run if the layer has errors. If a form of PyTorch has errors, only that form is left out."""
        stored = self.results["verify"].get(name, {})
        if not self.is_of_this_run(stored) or "error" in stored["plan"]:
            self.results["verify"][name] = stored = self.verify(name)
            self.save()
        self.ok &= report_check(f"{name}: plan", stored["plan"])
        self.forms[name] = [form for form, result in stored["forms"].items() if report_check(f"{name}: PyTorch's {form}", result)]
        self.peer_failed |= len(self.forms[name]) < len(stored["forms"])

    def is_measured(self, name, key):
        return self.is_of_this_run(self.results["cases"].get(key, {}), steps=self.options.steps, forms=self.forms[name])

    def measure(self, name, tokens, routing):
        """Ratios of one case, or None if the time is up."""
        key = f"{name}-{tokens}-{routing}"
        if self.is_measured(name, key):
            return self.results["cases"][key]
        if time.monotonic() - self.start > self.options.limit:
            return None
        shape, job = SHAPES[name], {"do": "time", "routing": self.path(f"{key}.bin"), "seed": self.options.seed, "steps": self.options.steps}
        got = self.layer.ask(plan=self.path(f"{name}-{tokens}.so"), **job)
        if not got["routed"]:
            sys.exit(f"error: {key}: tokens did not choose the given experts")
        rows, peak = tokens * shape.top_k, self.machine["flops"]
        case = {"load": max(got["counts"]) * shape.experts / rows, "step": got["step"], "eager": got["eager"], "of_peak": get_flops(shape, rows) / got["step"] / peak,
                "products": got["plain_products"] / got["products"],
                "rest": got["rest"] / (get_bytes(shape, tokens) / self.machine["copy_bandwidth"]),
                "wrong_launches": find_wrong_launches(got)}
        torch = {form: self.torch.ask(form=form, **job, **get_job(shape)) for form in self.forms[name]}
        for form, answer in torch.items():
            if "error" in answer:
                case[f"{form}_error"] = answer["error"]
            elif answer["counts"] != got["counts"]:
                case[f"{form}_error"] = "tokens did not choose the given experts"
            else:
                case[form] = answer["seconds"] / got["step"]
                case[f"{form}_of_peak"] = get_flops(shape, rows) / answer["seconds"] / peak
        self.results["cases"][key] = {**case, "setup": self.setup, "steps": self.options.steps, "seed": self.options.seed,
                                      "forms": self.forms[name], "machine": self.machine, "measured": got, "torch": torch}
        self.save()
        return case


def find_wrong_launches(measured):
    """Says which timed steps were launched otherwise than their names say, or ""."""
    count = len(measured["steps"])
    if measured["graphs"] != count:
        return f"{measured['graphs']} of {count} steps were CUDA graphs"
    return f"{measured['eager_graphs']} eager steps were CUDA graphs" if measured["eager_graphs"] else ""


def judge(errors):
    """Relative errors, and a description of those that are too large."""
    # A NaN, which may be null in JSON, counts as infinite.
    worst = max(error if error is not None and math.isfinite(error) else math.inf for error in errors.values())
    return {"errors": errors, "worst": worst, **({} if worst <= TOLERANCE else {"error": f"{worst:.1e} from f64 ({TOLERANCE:g} allowed)"})}


def report_check(title, result):
    return report("error" not in result, f"{title}: {result.get('error') or '{worst:.1e} from f64'.format(**result)}")


def get_job(shape):
    return {key: getattr(shape, key) for key in ("model", "hidden", "experts", "top_k", "score", "scale")}


def get_tokens(options, shape):
    return options.tokens or shape.tokens


def print_table(bench, name):
    """Prints a line for each case. Returns whether all goals are met."""
    shape, failures, left, again, errors, launches = SHAPES[name], 0, 0, 0, [], []
    print(f"\n{shape.title}: M {shape.model}, H {shape.hidden}, {shape.experts} experts, top-{shape.top_k}, {shape.score}\n")
    print(f"{'tokens':>7} {'routing':<9}{'max/mean':>9}{'step ms':>9}{'eager':>9}{'of peak':>9}{'products':>13}{'rest':>11}{'loop':>11}{'grouped':>11}")
    goals = {"products": lambda value: value >= 0.9, "rest": lambda value: value <= 1.5, "loop": lambda value: value > 1,
             "grouped": lambda value: value > 1}
    for tokens in get_tokens(bench.options, shape):
        for routing in ROUTINGS:
            key = f"{name}-{tokens}-{routing}"
            again += key in bench.results["cases"] and not bench.is_measured(name, key)
            case = bench.measure(name, tokens, routing)
            if not case:
                left += 1
                continue
            marks = {key: shape.has_goals and key in case and not met(case[key]) for key, met in goals.items()}
            failures += sum(marks.values())
            text = {key: f"{case[key]:.2f}x" if key in case else "error" if f"{key}_error" in case else "-" for key in ("rest", *FORMS)}
            errors += [f"{key}: {form}: {case[f'{form}_error']}" for form in FORMS if f"{form}_error" in case]
            launches += [f"{key}: {case['wrong_launches']}"] if case["wrong_launches"] else []
            text["products"] = f"{case['products']:.1%}"
            fields = "".join(f"{text[key] + (' FAIL' if marks[key] else ' ok' if shape.has_goals and key in case else ''):>{width}}"
                             for key, width in (("products", 13), ("rest", 11), ("loop", 11), ("grouped", 11)))
            print(f"{tokens:>7} {routing:<9}{case['load']:>9.2f}{case['step'] * 1e3:>9.3f}{case['eager'] * 1e3:>9.3f}{case['of_peak']:>9.1%}{fields}", flush=True)
    if again:
        print(f"{again} kept cases have another device, PyTorch, forms, --steps or --seed, and are not used")
    if left:
        print(f"{left} cases are left: time is up")
    for error in (*errors, *launches):
        print(f"FAIL  {error}")
    bench.peer_failed |= bool(errors)
    return failures == 0 and not launches


# -------------------------------------------------------------------------------------------------------------- drawing


def draw(results, path):
    """Draws the fraction of the peak over tokens, with a panel for each shape."""
    cases = {}
    for key, case in results.items():
        name, tokens, routing = key.rsplit("-", 2)
        cases.setdefault(name, {}).setdefault(routing, {})[int(tokens)] = case
    forms = {"of_peak": "plan", "grouped_of_peak": "PyTorch, grouped_mm", "loop_of_peak": "PyTorch, one by one"}
    svg = Svg(50 + 310 * len(cases), 310)
    for i, (name, routings) in enumerate(cases.items()):
        axes = Axes(svg, 60 + 310 * i, 40, 260, 200, [0, 0.2, 0.4, 0.6, 0.8, 1], "{:.0%}")
        svg.text(axes.left + 130, 28, SHAPES[name].title)
        counts = sorted({tokens for points in routings.values() for tokens in points})
        low, high = math.log2(counts[0]), max(math.log2(counts[-1]), math.log2(counts[0]) + 1)
        place = lambda tokens: axes.left + 12 + 236 * (math.log2(tokens) - low) / (high - low)
        for tokens in counts:
            svg.text(place(tokens), 256, f"{tokens // 1024}k" if tokens >= 1024 else tokens)
        for color, form in zip(COLORS, forms):
            for routing, points in routings.items():
                found = [(place(tokens), axes.y(case[form]), case[form]) for tokens, case in sorted(points.items()) if form in case]
                if not found:
                    continue
                svg.line([point[:2] for point in found], color, **({"stroke_dasharray": "4 3"} if routing == "skewed" else {}))
                for x, y, value in found:
                    svg.marker(list(forms).index(form), x, y, color, f"{forms[form]}, {routing}: {value:.1%}")
    svg.upright(14, 140, "of the measured cuBLAS peak")
    svg.text(40 + 155 * len(cases), 276, "tokens; dashed: skewed")
    for i, (color, title) in enumerate(zip(COLORS, forms.values())):
        svg.marker(i, 64 + 180 * i, 296, color)
        svg.text(74 + 180 * i, 300, title, "start")
    svg.write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--compile", metavar="DIR")
    what.add_argument("--plans", metavar="DIR")
    parser.add_argument("--shape", type=lambda text: text.split(","), default=[name for name in SHAPES if name != "tiny"])
    parser.add_argument("--tokens", type=lambda text: [int(tokens) for tokens in text.split(",")])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--json")
    parser.add_argument("--svg")
    parser.add_argument("--limit", type=float, default=math.inf)
    parser.add_argument("--torch", default="python3")
    parser.add_argument("--worker", default="cuda_layer")
    options = parser.parse_args()
    for name in options.shape:
        if name not in SHAPES:
            parser.error(f"--shape: expected some of {', '.join(SHAPES)}, but got '{name}'")
    if options.compile:
        return compile_plans(options)
    options.is_seeded = options.seed is not None
    options.seed = options.seed if options.is_seeded else random.SystemRandom().randrange(2**32)
    bench = Bench(options)
    for name in options.shape:
        bench.check(name)
    for name in options.shape if bench.ok else []:
        bench.ok &= print_table(bench, name)
    cases = {key: case for key, case in bench.results["cases"].items() if bench.is_of_this_run(case, steps=options.steps)}
    if options.svg and cases:
        draw(cases, options.svg)
    sys.exit(1 if not bench.ok else PEER_FAILED if bench.peer_failed else 0)


if __name__ == "__main__":
    main()
