"""Steps of a GPU session, by call. Each is a command with a time-out, and a list of what it needs."""
import os
import shutil
import subprocess
from typing import NamedTuple

import figures

# Programs and libraries, which `pack` writes and `run` unpacks.
ARCHIVE = "programs.tar.xz"
# Seconds after which a call leaves the remaining steps. A machine may be lent for 15 minutes, its start included.
CALL_SECONDS = {1: 120, 2: 480}
GPU_METRICS = ",".join(figures.NCU)
SANITIZER = ["compute-sanitizer", "--error-exitcode=9", "--print-limit=20"]
# Kept cases of one rank run on a backend that makes graphs, the others on one whose ranks share a device.
CASES = {"cuda": "world 1,", "cuda-loopback": "world [2-9]"}
# Parts of the tests of kernels and of collectives, of which the emulation runs one.
PARTS_ON_EMULATION = 40
# Processes that share the tests of kernels.
SHARDS = 4
# Milliseconds that are expected on an H100 SXM: (floor by the data sheet's rates, 989 TFLOP/s and 3.35 TB/s; an estimate by rates that
# comparable kernels reach; the same for PyTorch). Layers are a forward and a backward, with balanced experts.
ESTIMATES = {
    "mixtral-4096": (9.5, 14.5, 16.4),
    "qwen3-8192": (2.6, 4.5, 7.0),
    "qwen3-4096": (1.3, 2.4, 3.6),
    "deepseek-v3-4096": (9.9, 15.6, 18.1),
    "llama-8b-4k forward": (0.28, 0.5, 0.5),
    "llama-8b-4k backward": (0.7, 1.4, 1.4),
}


class Step(NamedTuple):
    name: str
    command: list  # words. {work} stands for a folder of the step
    timeout: float  # seconds
    take: object  # function of figures.py
    expected: float = 0  # seconds on an H100
    env: dict = {}
    tools: tuple = ()  # programs of the machine
    files: tuple = ()  # files of the folder
    passed: tuple = (0,)  # exit statuses
    left_out: str = ""  # reason for which the step never runs
    group: str = ""  # steps of one group run at the same time


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
    # Importing it takes 10 s.
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return bool(python) and subprocess.run([python, "-c", find], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


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


def run_script(pack, *words):
    return ["python3", "-B", pack.path(*words[0].split("/")), *words[1:]]


def test_kernels(pack, shard, wrap=(), **more):
    """Compares each kernel with the host's. On the emulation this is a part of the tests. The build's own tests run all of them there."""
    index, count = shard
    # The host computes the same. All processes share its cores.
    env = {"GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(index), "OMP_NUM_THREADS": str(SHARDS), "OPENBLAS_NUM_THREADS": str(SHARDS)}
    command = [*wrap, pack.bin(pack.kernels), "--gtest_brief=1", "--gtest_output=json:{work}/tests.json"]
    return {"command": command, "env": env, "files": (f"bin/{pack.kernels}",), **more}


def replay(pack, backend, *flags, timeout=60):
    return run_script(pack, "gpu/replay.py", pack.path("kept"), "--bin", pack.path("bin"), f"--backend={backend}", f"--timeout={timeout}",
                      f"--jobs={pack.choose(6, 2)}", "--json={work}/cases.json", *flags)


# ------------------------------------------------------------------------------------------------------- the first call


def list_first(pack):
    """Libraries, and each kernel once. After this call, faults are mended without the machine."""
    yield Step("preflight", run_script(pack, "gpu/preflight.py", pack.root), 40, figures.take_json, 20)
    yield Step("machine", run_script(pack, "gpu/machine.py"), 60, figures.take_json, 15, group="tests")
    # The emulation is slow.
    count = pack.choose(SHARDS, PARTS_ON_EMULATION)
    for shard in range(pack.choose(SHARDS, 1)):
        yield Step(f"kernels-{shard + 1}", timeout=85, take=figures.take_tests, expected=45, group="tests", **test_kernels(pack, (shard, count)))
    yield Step("collectives", [pack.bin("runtime-core"), "--gtest_brief=1", "--gtest_filter=*ollectives*", "--gtest_output=json:{work}/tests.json"],
               60, figures.take_tests, 30, group="tests",
               env={"MOERT_TEST_BACKEND": "cuda-loopback", "GTEST_TOTAL_SHARDS": pack.choose("1", str(PARTS_ON_EMULATION)), "GTEST_SHARD_INDEX": "0"})


# ------------------------------------------------------------------------------------------------------ the second call


def list_cases(pack):
    """Whole programs against the host, and NCCL between processes that share the GPU."""
    for backend, world in CASES.items():
        # The emulation is too slow for wide layers. Its tests of products have several tiles, too.
        only = "^" + pack.choose("", "(?!layer wide)") + ".*" + world
        yield Step(f"cases-{backend}", replay(pack, backend, "--only=" + only), 90, figures.take_cases, 50, group="cases")
    for world in (2, 4):
        only = pack.choose(f"^(layer mixtral bf16|trained).*world {world},", f"^layer mixtral bf16.*world {world},")
        yield Step(f"nccl-{world}", replay(pack, "cuda", "--processes", "--jobs=1", "--only=" + only, timeout=15), 45, figures.take_cases, 30, group="nccl")


def list_layers(pack):
    yield Step("products", [pack.bin("moe-calibrate"), "--products={work}/products.json", "--backend=cuda", "--limit=60"], 75, figures.take_products, 45,
               left_out="the emulation has too little memory" if pack.is_emulated else "")
    for name, shapes, timeout, expected in (("layer", ["--tokens=4096"], 110, 80), ("layer-8192", ["--shape=qwen3", "--tokens=8192"], 40, 20)):
        flags = pack.choose(shapes, ["--worker=cuda_layer_emulated", "--shape=tiny", "--tokens=32", "--steps=1"])
        if not pack.is_emulated or name == "layer":
            yield Step(name, run_script(pack, "benchmarks/cuda_layer.py", f"--plans={pack.path('plans', 'layer')}", f"--bin={pack.path('bin')}",
                                        "--json={work}/layer.json", f"--limit={timeout - 30}", "--torch=python3", *flags),
                       timeout, figures.take_layer, expected, passed=(0, 1, 3))


def list_products(pack):
    """Rules of tiles: each method on the shapes of models, beside PyTorch."""
    cases, model = pack.path("benchmarks", "ragged_gemm", "cases.json"), pack.choose([], ["--model=tiny"])
    name = pack.choose("ragged_gemm", "ragged_gemm_emulated")
    yield Step("ragged-gemm", [pack.bin(name), f"--cases={cases}", *model, "--limit=28"], 40, figures.take_json_lines, 30, files=(f"bin/{name}",))
    yield Step("ragged-gemm-torch", run_script(pack, "benchmarks/ragged_gemm_torch.py", f"--cases={cases}", *model, "--limit=10"), 25,
               figures.take_json_lines, 12, tools=("torch",))


def run_traced(pack, folder, plan, *flags):
    return [pack.bin("moe-run"), pack.path("plans", folder, plan + ".so"), "--backend=cuda", "--json", "--iters=6", "--no-cuda-graph",
            "--trace={work}/trace.json", *flags]


def list_attention(pack):
    for plan in pack.list_plans("attention"):
        for name, demand in (("attention", "always"), ("attention-own", "never")):
            yield Step(f"{name}-{plan}", run_traced(pack, "attention", plan), 20, figures.take_ops, 3, env={"MOERT_CUDNN": demand})
    shapes = "--shape=" + ",".join(pack.list_plans("attention"))
    yield Step("attention-torch", run_script(pack, "benchmarks/attention_torch.py", shapes), 40, figures.take_json_lines, 12, tools=("torch",))


def list_torch(pack):
    """Layers in PyTorch, on its streams and communicators."""
    for count in (1, 2):
        yield Step(f"torch-{count}", run_script(pack, "gpu/torch_layer.py", pack.path("plans", "torch", f"world-{count}.so"), str(count)), 60,
                   figures.take_json, 14, env={"PYTHONPATH": pack.path("python")}, tools=("torch",),
                   files=("python/moeplan/__init__.py", f"plans/torch/world-{count}.so"))


def list_kernels(pack):
    for plan in pack.choose(["mixtral-4096", "qwen3-4096", "deepseek-v3-4096"], ["tiny-32"]):
        command = [pack.bin("moe-run"), pack.path("plans", "layer", plan + ".so"), "--backend=cuda", "--no-cuda-graph"]
        yield Step(f"ops-{plan}", run_traced(pack, "layer", plan), 30, figures.take_ops, 5, files=(f"plans/layer/{plan}.so",))
        # NVIDIA's tool would set the clocks, which may belong to others.
        yield Step(f"ncu-{plan}", ["ncu", "--clock-control=none", "--csv", "--page=raw", f"--metrics={GPU_METRICS}", "--launch-count=60", *command],
                   40, figures.take_kernels, 10, tools=("ncu",), files=(f"plans/layer/{plan}.so",))


def list_whole_steps(pack):
    for plan in pack.list_plans("step"):
        command = [pack.bin("moe-run"), pack.path("plans", "step", plan + ".so"), "--backend=cuda", "--json", "--iters=12"]
        yield Step(f"step-{plan}", command, 40, figures.take_step, 6)
        yield Step(f"step-{plan}-without-graph", [*command, "--no-cuda-graph"], 40, figures.take_step, 6)


def list_checks(pack):
    """A sample of the kernels and of the cases under the sanitizer."""
    for tool in ("memcheck", "racecheck"):
        wrap = [*SANITIZER, f"--tool={tool}"]
        yield Step(f"{tool}-kernels", timeout=40, take=figures.take_tests_and_findings, expected=30, tools=("compute-sanitizer",), group="checks",
                   **test_kernels(pack, (3, pack.choose(12, PARTS_ON_EMULATION)), wrap))
        only = "^layer (gpt-oss|deepseek-v3) bf16.*world 1,"
        yield Step(f"{tool}-cases", replay(pack, "cuda", "--wrap=" + " ".join(wrap), "--only=" + only, timeout=40), 45, figures.take_cases_and_findings,
                   30, tools=("compute-sanitizer",), env={"MOERT_GUARD": "0"}, group="checks")


def list_calibration(pack):
    backend = pack.choose("cuda", "host")
    yield Step("calibrate", [pack.bin("moe-calibrate"), "-o", "{work}/profile.json", f"--backend={backend}", "--quick"], 100, figures.take_profile, 45)


def list_second(pack):
    """Figures by worth: what is cut off at the end is worth least."""
    for part in (list_cases, list_layers, list_products, list_attention, list_torch, list_kernels, list_whole_steps, list_checks, list_calibration):
        yield from part(pack)


def list_steps(pack, call):
    return list({1: list_first, 2: list_second}[call](pack))


def describe(pack):
    """A table of all steps, as text."""
    rows = [(str(call), step.name, f"{step.timeout:.0f}", f"{step.expected:.0f}", step.group) for call in CALL_SECONDS for step in list_steps(pack, call)]
    return "\n".join(f"{call:<5}{name:<34}{timeout:>9}{expected:>10}  {group}".rstrip()
                     for call, name, timeout, expected, group in [("call", "step", "time-out", "expected", "beside"), *rows])
