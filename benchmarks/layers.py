"""Code that benchmarks share: graphs of one layer, the tools, profiles, and drawing.

This is no program of its own. The default layer is that of MPipeMoE (IPDPS 2023): top-1, two products with ReLU, no bias, room for the mean
load (capacity factor 1), f32, one expert a rank.
"""
import json
import os
import statistics
import subprocess
import sys

CLUSTERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "share", "clusters")

# Table III: embedding M and hidden size H.
MODELS = {"GPT3-S": (768, 3072), "BERT-L": (1024, 4096), "GPT3-XL": (2048, 8192)}
K = 1024


def graph(model, tokens, experts, top_k=1, factor=1.0):
    """A graph with one layer on `tokens` tokens of all ranks. It is dropless without a factor."""
    m, h = model
    types = {"x": f"tensor<{tokens}x{m}xf32>", "gate": f"tensor<{m}x{experts}xf32>",
             "w1": f"tensor<{experts}x{m}x{h}xf32>", "w2": f"tensor<{experts}x{h}x{m}xf32>"}
    arguments = ", ".join(f'%{name}: {kind} {{moe.name = "{name}", moe.role = "{"input" if name == "x" else "parameter"}"}}'
                          for name, kind in types.items())
    output = lambda kind, name: f'{kind} {{moe.name = "{name}", moe.role = "output"}}'
    capacity = "" if factor is None else f", capacity_factor = {factor:e} : f64"
    return f"""
func.func @model({arguments}) -> ({output(types["x"], "y")}, {output("tensor<f32>", "aux")}) {{
  %y, %aux = moe.layer "layer" %x gate(%gate) experts(%w1, %w2) {{top_k = {top_k} : i64,
    activation = #moe<activation relu>{capacity}}} : ({", ".join(types.values())}) -> ({types["x"]}, tensor<f32>)
  return %y, %aux : {types["x"]}, tensor<f32>
}}
"""


def run(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"error: {' '.join(command)}: {result.stderr.strip() or result.returncode}")
    return result.stdout


class Tools:
    """The tools in a folder, and a folder for temporary files."""

    def __init__(self, bin_folder, folder, order=""):
        self.bin, self.folder = bin_folder, folder
        self.order = [f"--order={order}"] if order else []

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_graph(self, model, tokens, ranks):
        path = self.path(f"layer-{model[0]}-{model[1]}-{tokens}-{ranks}.mlir")
        if not os.path.exists(path):
            with open(path, "w") as file:
                file.write(graph(model, ranks * tokens, ranks))
        return path

    def compile(self, model, tokens, ranks, schedule, *flags, cluster="mpipemoe-a100"):
        return run([os.path.join(self.bin, "moe-compile"), self.write_graph(model, tokens, ranks),
                    f"--parallel=dp={ranks},ep={ranks}", f"--schedule={schedule}", f"--cluster={cluster}", *self.order, *flags])

    def plan(self, model, tokens, ranks, schedule, cluster="mpipemoe-a100"):
        """Text of one rank's program."""
        text = self.compile(model, tokens, ranks, schedule, "--emit=plan", "-o", "-", cluster=cluster)
        return text[text.index("func.func @rank("):text.index("func.func @reference(")]

    def simulate(self, model, tokens, ranks, schedule, cluster):
        return json.loads(run([os.path.join(self.bin, "moe-sim"), self.write_graph(model, tokens, ranks),
                               f"--parallel=dp={ranks},ep={ranks}", f"--schedule={schedule}", f"--cluster={cluster}",
                               *self.order, "--json"]))


class LinkedPlans:
    """Plans of a case, by name. Their transfers take as long as on an invented cluster named emulated-links: moe-run moves a transfer's
    data, then waits without using a core. A derived class has compile(name, path, *flags), and calls prepare() after its cluster is
    written. `options` has bin, steps, and cluster, the profile of this machine."""

    def __init__(self, options, folder, number):
        self.options, self.folder, self.number = options, folder, number

    def path(self, ending):
        return os.path.join(self.folder, f"{self.number}-{ending}")

    def prepare(self, names):
        """Prepares the plans. Gains are relative to the first of `names`."""
        self.first = names[0]
        self.predicted = {name: self.predict(name) for name in names}
        self.plans = {name: self.path(f"{name}.so") for name in names}
        for name, plan in self.plans.items():
            self.compile(name, plan)
        self.measured = {name: [] for name in names}

    def predict(self, name):
        """moe-sim's report of a plan."""
        plan = self.path(f"{name}.mlir")
        self.compile(name, plan, "--emit=plan")
        return json.loads(run([os.path.join(self.options.bin, "moe-sim"), plan, f"--cluster={self.options.cluster}", "--emulate-links",
                               "--json"]))

    def measure(self):
        """Measures one round. A run's first step touches the memory for the first time and does not count."""
        for name, plan in self.plans.items():
            result = json.loads(run([os.path.join(self.options.bin, "moe-run"), plan, f"--iters={self.options.steps + 1}", "--workers=2",
                                     "--emulate-links=emulated-links", "--json"]))
            self.measured[name].append(statistics.median(result["step_ms"]["all"][1:]) / 1e3)

    def get_seconds(self, name):
        return statistics.median(self.measured[name])

    def get_gain(self, name):
        return statistics.median(one / other for one, other in zip(self.measured[self.first], self.measured[name]))

    def get_predicted_gain(self, name):
        return self.predicted[self.first]["step_s"] / self.predicted[name]["step_s"]


def load_profile(name):
    path = name if name.endswith(".json") else os.path.join(CLUSTERS, name + ".json")
    with open(path) as file:
        return json.load(file)


def remove_start_ups(profile):
    """Makes exchanges over links start at once: no link has a latency, and no host thread posts messages."""
    for link in profile["links"]:
        link["latency_s"] = 0
        link.pop("post_s", None)


def write_profile(profile, path):
    with open(path, "w") as file:
        json.dump(profile, file, indent=1)
    return path


def write_tf32_profile(path):
    """Writes mpipemoe-a100 with products of f32 on tensor cores, as PyTorch 1.9 computes them on this device. The entry for tf32
    replaces that for f32."""
    profile = load_profile("mpipemoe-a100")
    rates = {rate["dtype"]: rate for rate in profile["device"]["rates"]}
    rates["f32"] = {**rates["tf32"], "dtype": "f32"}
    profile["device"]["rates"] = list(rates.values())
    profile["name"] = "mpipemoe-a100-tf32"
    return write_profile(profile, path)


def report(ok, text):
    """Prints a claim and whether it holds."""
    print(f"{'ok  ' if ok else 'FAIL'}  {text}")
    return ok


COLORS = ["#2471a3", "#ca6f1e", "#229954", "#7d3c98", "#c0392b", "#7f8c8d"]
# Colours of drawings, and their replacements for readers with a dark system.
DARK = {"white": "#0d1117", "black": "#e6edf3", "#000": "#e6edf3", "#222": "#e6edf3", "#444": "#c3ccd5", "#555": "#aab4bf", "#888": "#8b949e",
        "#999": "#8b949e", "#ddd": "#2b323b", "#bdc3c7": "#4b5661", "#d6dbdf": "#39424d", "#2471a3": "#5dade2", "#ca6f1e": "#f0a35e",
        "#229954": "#52c787", "#7d3c98": "#bb8fe0", "#c0392b": "#f1776b", "#7f8c8d": "#a3b1b5"}
# A style's rules have priority over the attributes of shapes.
DARK_STYLE = ("<style>@media (prefers-color-scheme: dark) { text:not([fill]) { fill: #e6edf3 } "
              + " ".join(f'[fill="{light}"] {{ fill: {dark} }} [stroke="{light}"] {{ stroke: {dark} }}' for light, dark in DARK.items()) + " }</style>")
PAGE_WIDTH = 860  # width of the documents that show the drawings, in pixels


class Svg:
    """A drawing that is written shape by shape."""

    def __init__(self, width, height):
        # A drawing that is wider than the page is shrunk with its text.
        size = round(12 * max(1, width / PAGE_WIDTH), 1)
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
                      f'font-family="sans-serif" font-size="{size:g}">', DARK_STYLE, f'<rect width="{width}" height="{height}" fill="white"/>']

    def text(self, x, y, text, anchor="middle", **attributes):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{self.list(attributes)}>{text}</text>')

    def upright(self, x, y, text):
        self.parts.append(f'<text transform="translate({x:.1f} {y:.1f}) rotate(-90)" text-anchor="middle">{text}</text>')

    def line(self, points, stroke, **attributes):
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(f'<path d="{path}" fill="none" stroke="{stroke}"{self.list(attributes)}/>')

    def rect(self, x, y, width, height, fill, title=""):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}">'
                          f"<title>{title}</title></rect>")

    def marker(self, shape, x, y, fill, title=""):
        """Draws a marker. Shapes: 0 a circle, 1 a square, 2 a triangle, 3 a diamond."""
        forms = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"', f'<path d="M{x - 3:.1f} {y - 3:.1f}h6v6h-6z"',
                 f'<path d="M{x:.1f} {y - 4:.1f}l4 7h-8z"', f'<path d="M{x:.1f} {y - 4.5:.1f}l4.5 4.5l-4.5 4.5l-4.5 -4.5z"']
        tag = forms[shape].split(" ")[0][1:]
        self.parts.append(f'{forms[shape]} fill="{fill}" fill-opacity="0.85"><title>{title}</title></{tag}>')

    @staticmethod
    def list(attributes):
        return "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())

    def write(self, path):
        with open(path, "w") as file:
            file.write("\n".join([*self.parts, "</svg>", ""]))


class Axes:
    """A frame with horizontal lines at `ticks`. `y` returns the place of a value."""

    def __init__(self, svg, left, top, width, height, ticks, form="{:g}"):
        self.svg, self.left, self.top, self.width, self.height, self.ticks = svg, left, top, width, height, ticks
        for tick in ticks:
            svg.line([(left, self.y(tick)), (left + width, self.y(tick))], "#ddd")
            svg.text(left - 6, self.y(tick) + 4, form.format(tick), "end")

    def y(self, value):
        low, high = self.ticks[0], self.ticks[-1]
        return self.top + self.height * (1 - (value - low) / (high - low))

    def curve(self, points, color, **attributes):
        """Draws a line through points (x, value) inside the axes. An arrow marks where it leaves them at the top."""
        places, highest, last = [], self.ticks[-1], None
        for x, value in points:
            if last and (value > highest) != (last[1] > highest):
                crossing = last[0] + (x - last[0]) * (highest - last[1]) / (value - last[1])
                places.append((crossing, self.top))
                self.svg.parts.append(f'<path d="M{crossing:.1f} {self.top - 11:.1f}l5 9h-10z" fill="{color}"><title>goes on above</title></path>')
            if value <= highest:
                places.append((x, self.y(value)))
            last = (x, value)
        self.svg.line(places, color, **attributes)
