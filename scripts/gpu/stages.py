"""Steps of a GPU session, by stage. Each is a command with a time-out, and a list of what it needs."""
import os
import shutil
import subprocess
from typing import NamedTuple

import figures

# A stage ends within 9 minutes. The next call runs the remaining steps.
STAGE_SECONDS = 525
STAGES = (1, 2, 3, 4, 5)
GPU_METRICS = ",".join(figures.NCU)
SANITIZER = ["compute-sanitizer", "--error-exitcode=9", "--print-limit=20"]
GUARD = 256  # bytes between buffers
# Kept cases of one rank run on a backend that makes graphs, the others on one whose ranks share a device.
CASES = {"cuda": "world 1,", "cuda-loopback": "world [2-9]"}
# Parts of the tests of kernels and of collectives, of which the emulation runs one.
PARTS_ON_EMULATION = 40


class Step(NamedTuple):
    name: str
    command: list  # words. {work} stands for a folder of the step
    timeout: float  # seconds
    take: object  # function of figures.py
    env: dict = {}
    tools: tuple = ()  # programs of the machine
    files: tuple = ()  # files of the folder
    passed: tuple = (0,)  # exit statuses
    left_out: str = ""  # reason for which the step never runs


class Pack:
    """The folder that `gpu.sh pack` made."""

    def __init__(self, root, about):
        self.root, self.about, self.is_emulated = root, about, about["emulated"]

    def path(self, *names):
        return os.path.join(self.root, *names)

    def bin(self, name):
        return self.path("bin", name)

    def choose(self, real, emulated):
        return emulated if self.is_emulated else real

    @property
    def kernels(self):
        return self.choose("runtime-cuda-kernels-device", "runtime-cuda-kernels")

    def list_plans(self, folder):
        path = self.path("plans", folder)
        return sorted(name[:-3] for name in os.listdir(path) if name.endswith(".so")) if os.path.isdir(path) else []


def has_torch():
    python = shutil.which("python3")
    return bool(python) and subprocess.run([python, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def find_missing(pack, step):
    """Reason for which a step cannot run here, or ""."""
    if step.left_out:
        return step.left_out
    for name in step.files:
        if not os.path.exists(pack.path(name)):
            return f"'{name}' is not in the folder"
    for name in step.tools:
        if name == "torch" and not has_torch():
            return "python3 cannot import torch"
        if name != "torch" and not shutil.which(name):
            return f"{name} is not on this machine"
    return ""


def test_kernels(pack, shard=None, wrap=(), **more):
    """Compares each kernel with the host's. On the emulation this is a part of the tests. The build's own tests run all of them there."""
    index, count = shard or pack.choose((1, 1), (2, PARTS_ON_EMULATION))
    env = {"GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(index - 1)}
    command = [*wrap, pack.bin(pack.kernels), "--gtest_brief=1", "--gtest_output=json:{work}/tests.json"]
    return {"command": command, "env": env, "files": (f"bin/{pack.kernels}",), **more}


def replay(pack, backend, *flags, timeout=90):
    return ["python3", "-B", pack.path("gpu", "replay.py"), pack.path("kept"), "--bin", pack.path("bin"), f"--backend={backend}",
            f"--timeout={timeout}", f"--jobs={pack.choose(4, 2)}", "--json={work}/cases.json", *flags]


def choose_cases(pack, backend, emulated, real=""):
    """Pattern of the names of a backend's cases. The emulation runs those that `emulated` also matches."""
    return "^" + pack.choose(real, emulated) + ".*" + CASES[backend]


def list_correctness(pack):
    yield Step("machine", ["python3", "-B", pack.path("gpu", "machine.py")], 90, figures.take_json)
    yield Step("kernels", timeout=150, take=figures.take_tests, **test_kernels(pack))
    yield Step("collectives", [pack.bin("runtime-core"), "--gtest_brief=1", "--gtest_filter=*ollectives*", "--gtest_output=json:{work}/tests.json"],
               60, figures.take_tests, env={"MOERT_TEST_BACKEND": "cuda-loopback", "GTEST_TOTAL_SHARDS": pack.choose("1", str(PARTS_ON_EMULATION)), "GTEST_SHARD_INDEX": "0"})
    for backend in CASES:
        # The emulation is too slow for wide layers. Its tests of products have several tiles, too.
        only = choose_cases(pack, backend, "(?!layer wide)")
        yield Step(f"cases-{backend}", replay(pack, backend, "--only=" + only), 120, figures.take_cases)
    cases, model = pack.path("benchmarks", "ragged_gemm", "cases.json"), pack.choose([], ["--model=tiny"])
    name = pack.choose("ragged_gemm", "ragged_gemm_emulated")
    yield Step("ragged-gemm", [pack.bin(name), f"--cases={cases}", *model, "--limit=120"], 150, figures.take_json_lines, files=(f"bin/{name}",))
    yield Step("ragged-gemm-torch", ["python3", "-B", pack.path("benchmarks", "ragged_gemm_torch.py"), f"--cases={cases}", *model, "--limit=100"], 130,
               figures.take_json_lines, tools=("torch",))


def list_layers(pack):
    flags = pack.choose(["--torch=python3"], ["--worker=cuda_layer_emulated", "--torch=python3", "--shape=tiny", "--tokens=32", "--steps=1"])
    yield Step("layer", ["python3", "-B", pack.path("benchmarks", "cuda_layer.py"), f"--plans={pack.path('plans', 'layer')}",
                         f"--bin={pack.path('bin')}", "--json={work}/layer.json", "--limit=400", *flags],
               510, figures.take_layer, passed=(0, 1, 3))


def list_checks(pack):
    """Guards need no tool. Then each of the sanitizer's tools follows. Parts are small, so that a time-out loses little."""
    # On the emulation a few cases are enough to try the steps.
    few = "layer (gpt-oss|deepseek-v3)"
    for backend in CASES:
        yield Step(f"guard-{backend}", replay(pack, backend, "--only=" + choose_cases(pack, backend, few)), 90, figures.take_cases,
                   env={"MOERT_GUARD": str(GUARD)})
    parts = pack.choose(4, PARTS_ON_EMULATION)
    for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
        wrap = [*SANITIZER, f"--tool={tool}"]
        # On the emulation one part is enough to try the step.
        for part in range(1, pack.choose(parts, 1) + 1):
            yield Step(f"{tool}-kernels-{part}", timeout=120, take=figures.take_tests_and_findings, tools=("compute-sanitizer",),
                       **test_kernels(pack, (part, parts), wrap))
        for backend in CASES:
            # Each case takes long under these tools.
            only = choose_cases(pack, backend, few, "trained" if tool != "memcheck" else "")
            yield Step(f"{tool}-cases-{backend}", replay(pack, backend, "--wrap=" + " ".join(wrap), "--only=" + only, timeout=120), 180,
                       figures.take_cases_and_findings, tools=("compute-sanitizer",), env={"MOERT_GUARD": "0"})


def run_traced(pack, folder, plan, *flags):
    return [pack.bin("moe-run"), pack.path("plans", folder, plan + ".so"), "--backend=cuda", "--json", "--iters=6", "--no-cuda-graph",
            "--trace={work}/trace.json", *flags]


def list_measurements(pack):
    calibrate = [pack.bin("moe-calibrate"), "-o", "{work}/profile.json"]
    yield Step("products", [pack.bin("moe-calibrate"), "--products={work}/products.json", "--backend=cuda"], 200, figures.take_products,
               left_out="the emulation has too little memory" if pack.is_emulated else "")
    if pack.is_emulated:
        yield Step("calibrate", [*calibrate, "--backend=host", "--quick"], 240, figures.take_profile)
    else:
        yield Step("calibrate", [*calibrate, "--backend=cuda"], 330, figures.take_profile)
    yield Step("calibrate-loopback", [*calibrate, "--backend=cuda-loopback", "--quick"], 120, figures.take_profile,
               left_out="moe-calibrate takes too long on the emulation" if pack.is_emulated else "")
    for plan in pack.choose(["mixtral-4096", "qwen3-4096", "deepseek-v3-4096"], ["tiny-32"]):
        command = [pack.bin("moe-run"), pack.path("plans", "layer", plan + ".so"), "--backend=cuda", "--no-cuda-graph"]
        yield Step(f"ops-{plan}", run_traced(pack, "layer", plan), 60, figures.take_ops, files=(f"plans/layer/{plan}.so",))
        yield Step(f"ncu-{plan}", ["ncu", "--csv", "--page=raw", f"--metrics={GPU_METRICS}", "--launch-count=150", *command], 150,
                   figures.take_kernels, tools=("ncu",), files=(f"plans/layer/{plan}.so",))


def list_rest(pack):
    for plan in pack.list_plans("attention"):
        yield Step(f"attention-{plan}", run_traced(pack, "attention", plan), 60, figures.take_ops)
    shapes = ["--shape=" + ",".join(pack.list_plans("attention"))]
    yield Step("attention-torch", ["python3", "-B", pack.path("benchmarks", "attention_torch.py"), *shapes], 90, figures.take_json_lines, tools=("torch",))
    for plan in pack.list_plans("step"):
        command = [pack.bin("moe-run"), pack.path("plans", "step", plan + ".so"), "--backend=cuda", "--json", "--iters=12"]
        yield Step(f"step-{plan}", command, 60, figures.take_step)
        yield Step(f"step-{plan}-without-graph", [*command, "--no-cuda-graph"], 60, figures.take_step)
        yield Step(f"ops-{plan}", run_traced(pack, "step", plan), 60, figures.take_ops)


LISTS = {1: list_correctness, 2: list_layers, 3: list_checks, 4: list_measurements, 5: list_rest}


def list_steps(pack, stage):
    return list(LISTS[stage](pack))
