#!/usr/bin/env python3
"""Makes a folder with all that a session on a GPU's machine needs: programs, libraries, compiled plans, kept cases and scripts.

Usage: gpu.sh pack [FOLDER]                where the compiler, nvcc and strip are; FOLDER is build/gpu-pack unless given
       gpu.sh pack --emulation [FOLDER]    the same with the emulation of CUDA, from a build that is there, to try the session out

It builds the runtime in build/gpu, and the Python package for the Python of --python. Plans and cases are made by moe-compile and moe-run
of --bin. The folder and the tracked files of the repository, which may travel with it, have at most 64 MiB together.
"""
import argparse
import glob
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import stages

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
MOST_BYTES = 64 << 20
# The kernels are in several programs. xz stores bytes once that are repeated within this distance.
XZ_DISTANCE = 64 << 20
# Version of Python of the machines with a GPU, for which the module of the package is built.
PYTHON = "python3.12"
ARCHITECTURE = "90a-real"
# Libraries of every machine with a GPU: those of glibc and g++, of the driver and of CUDA.
OF_MACHINE = re.compile(r"(linux-vdso|ld-linux|libc|libm|libmvec|libdl|libpthread|librt|libresolv|libstdc\+\+|libgcc_s)[.-]|"
                        r"lib(cu|nccl|nv)")
OWN = re.compile(r"libmoert")
SCRIPTS = ("figures.py", "machine.py", "preflight.py", "replay.py", "report.py", "run.py", "stages.py", "torch_layer.py")
BENCHMARKS = ("attention_shapes.py", "attention_torch.py", "cuda_layer.py", "cuda_layer_torch.py", "layers.py", "ragged_gemm_torch.py",
              "timed_torch.py", "ragged_gemm/cases.json")
CLUSTERS = ("hgx-h100.json", "hgx-h200.json")
# Whole steps, small enough that random parameters are made in seconds: (name, model, flags).
STEPS = [("gpt2-moe", "gpt2-moe", ["--layers=4", "--seq=1024", "--batch=8", "--capacity-factor=1.25"]),
         ("granite", "granite-3.0-3b-a800m", ["--layers=4", "--seq=4096", "--batch=1", "--dropless"])]
# A layer with experts like Mixtral's, but an eighth of their size, so that its values are made in seconds.
TORCH_LAYER = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 2048, "intermediate_size": 3584,
               "num_local_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 1, "num_attention_heads": 16, "num_key_value_heads": 8,
               "vocab_size": 32000, "hidden_act": "silu", "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
               "tie_word_embeddings": False, "router_aux_loss_coef": 0.02, "sliding_window": None}
# Sizes for the emulation, which is slow.
TINY_TORCH_LAYER = {**TORCH_LAYER, "hidden_size": 64, "intermediate_size": 96}


def fail(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(1)


def run(command, **more):
    """Runs a command and returns its standard output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", **more)
    except OSError as error:
        fail(f"{command[0]}: {error}")
    if done.returncode:
        fail(f"{' '.join(command)} exited with {done.returncode}:\n{(done.stdout[-3000:] + done.stderr[-3000:]).strip()}")
    return done.stdout


def find_numpy():
    """A Python in which the scripts that make cases run."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return fail("found no Python with NumPy, which the scripts that make cases need: install python3-numpy")


def read_cache(folder, name):
    """A path that CMake found, or None."""
    with open(os.path.join(folder, "CMakeCache.txt"), encoding="utf-8") as file:
        found = re.search(rf"^{name}:\w+=(.+)$", file.read(), re.M)
    return found[1] if found and not found[1].endswith("NOTFOUND") else None


def fetch_headers(given):
    """Headers of CUTLASS and cudnn-frontend, as scripts/test.sh fetches them, unless they are given. Prints a warning if one cannot be
    fetched."""
    done = subprocess.run(["bash", "-c", "source scripts/setup.sh && moe_gpu_headers"], cwd=SOURCE, stdout=subprocess.PIPE, text=True)
    names = {define.split("=")[0] for define in given}
    return [option[len("-D"):] for option in done.stdout.split("\n") if option and option[len("-D"):].split("=")[0] not in names]


def build_runtime(folder, jobs, defines):
    """Builds the runtime alone, for one kind of GPU."""
    defines = [*defines, *fetch_headers(defines)]
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    launcher = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("CXX", "CUDA")] if shutil.which("ccache") else []
    # An rpath of the old kind also holds for libraries of libraries.
    run(["cmake", *generator, *launcher, "-S", os.path.join(SOURCE, "runtime"), "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
         f"-DCMAKE_CUDA_ARCHITECTURES={ARCHITECTURE}", "-DMOERT_BUILD_TESTS=ON", "-DCMAKE_BUILD_RPATH=$ORIGIN/../lib",
         "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags", *(f"-D{define}" for define in defines)])
    if not read_cache(folder, "MOERT_CUDA_cublas"):
        fail(f"CMake found no nvcc in '{folder}': install CUDA's toolkit, or use --emulation")
    if not read_cache(folder, "MOERT_CUTLASS_INCLUDE"):
        print("warning: CMake found no CUTLASS, so the session measures other products of experts; set its folder by -D MOERT_CUTLASS_ROOT=FOLDER",
              file=sys.stderr)
    # CMake knows which of these a checkout has.
    known = run(["cmake", "--build", folder, "--target", "help"])
    wanted = ["moe-run", "moe-calibrate", "moert-cuda", "runtime-core", "runtime-cuda-kernels-device", "cuda_layer", "ragged_gemm"]
    targets = [name for name in wanted if re.search(rf"\b{name}\b", known)]
    run(["cmake", "--build", folder, "-j", str(jobs), "--target", *targets])


def build_module(folder, build, python):
    """Builds the module of the package moeplan for another Python, by nanobind of an environment of its own. Returns its path, or None."""
    find = "import os, sysconfig; path = sysconfig.get_path('include'); assert os.path.exists(path + '/Python.h'); print(path)"
    try:
        include = subprocess.run([python, "-c", find], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        print(f"warning: '{python}' is missing or has no headers, so the session runs no PyTorch layers; name another one by --python=PATH",
              file=sys.stderr)
        return None
    own = os.path.join(folder, "bin", "python")
    if not os.path.exists(own):
        run([python, "-m", "venv", folder])
        run([own, "-m", "pip", "install", "--quiet", "nanobind"])
    nanobind = run([own, "-c", "import nanobind, os; print(os.path.dirname(nanobind.__file__))"]).strip()
    suffix = run([own, "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"]).strip()
    with open(os.path.join(SOURCE, "runtime", "VERSION"), encoding="utf-8") as file:
        version = file.read().strip()
    sources = os.path.join(SOURCE, "python", "src")
    path = os.path.join(folder, "_runtime" + suffix)
    run(["c++", "-shared", "-fPIC", "-O2", "-DNDEBUG", "-std=c++20", "-fvisibility=hidden", "-fno-strict-aliasing", f'-DMOE_VERSION="{version}"',
         *(f"-isystem{part}" for part in (include, f"{nanobind}/include", f"{nanobind}/ext/robin_map/include")),
         "-I" + os.path.join(SOURCE, "runtime", "include"), "-I" + os.path.join(build, "include"), *(os.path.join(sources, name) for name in sorted(os.listdir(sources)) if name.endswith(".cpp")),
         f"{nanobind}/src/nb_combined.cpp", "-L" + os.path.join(build, "lib"), "-lmoert", "-o", path])
    return path


def is_binary(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def forget_owner(info):
    """Removes the owner, so that the same files make the same archive."""
    info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
    return info


def count_tracked_bytes():
    """Bytes of the repository's files; 0 without git."""
    git = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    paths = [os.path.join(SOURCE, name) for name in git.stdout.split("\0") if name]
    return sum(os.lstat(path).st_size for path in paths if os.path.lexists(path))


class Packer:
    def __init__(self, options):
        self.options, self.folder = options, options.folder
        self.emulated, self.build, self.bin = options.emulation, options.build, options.bin

    def path(self, *names):
        path = os.path.join(self.folder, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def copy(self, source, *names):
        if not os.path.exists(source):
            fail(f"'{source}' does not exist: build it first, or give another --build or --bin")
        to = self.path(*names)
        shutil.copy(source, to)
        if is_binary(to):
            run(["strip", "--strip-unneeded", to])

    def copy_programs(self):
        names = ["moe-run", "moe-calibrate", "runtime-core"]
        names += ["runtime-cuda-kernels", "cuda_layer_emulated"] if self.emulated else ["runtime-cuda-kernels-device", "cuda_layer"]
        optional = "ragged_gemm_emulated" if self.emulated else "ragged_gemm"
        names += [optional] if os.path.exists(os.path.join(self.build, "bin", optional)) else []
        for name in names:
            self.copy(os.path.join(self.build, "bin", name), "bin", name)
        soname = re.search(r"(libmoert\.so\.\S+)", self.list_libraries(os.path.join(self.build, "bin", "moe-run")))[1]
        self.copy(os.path.join(self.build, "lib", soname), "lib", soname)
        # The whole build has the runtime in its own folder.
        tests = [os.path.join(self.build, *names) for names in (("runtime", "test"), ("test",))]
        backends = next((folder for folder in tests if os.path.isdir(os.path.join(folder, "cuda"))), tests[0])
        self.copy(os.path.join(backends, "cuda", "backends", "libmoert-cuda.so") if self.emulated
                  else os.path.join(self.build, "lib", "libmoert-cuda.so"), "lib", "libmoert-cuda.so")

    def list_libraries(self, path):
        return run(["ldd", path], env={**os.environ, "LD_LIBRARY_PATH": os.path.join(self.build, "lib")})

    def find_libraries(self):
        """Libraries that the programs need and a GPU's machine lacks: {name: path}."""
        found = {}
        for part in ("bin", "lib"):
            for name in sorted(os.listdir(os.path.join(self.folder, part))):
                for line in self.list_libraries(os.path.join(self.folder, part, name)).splitlines():
                    library, _, place = line.strip().partition(" => ")
                    if not place or OF_MACHINE.match(library) or OWN.match(library):
                        continue
                    if place.startswith("not found"):
                        fail(f"'{name}' needs {library}, which is not on this machine")
                    found[library] = place.split(" (")[0]
        return found

    def archive_programs(self):
        """Packs programs and libraries into one archive, which `run` unpacks. Returns the names of the libraries from other folders."""
        libraries = self.find_libraries()
        for library, place in libraries.items():
            self.copy(place, "lib", library)
        names = [f"{part}/{name}" for part in ("bin", "lib") for name in sorted(os.listdir(os.path.join(self.folder, part)))]
        # The emulation stays on this machine, where time counts instead of bytes.
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 0 if self.emulated else 6, "dict_size": XZ_DISTANCE}]
        with lzma.open(self.path(stages.ARCHIVE), "wb", filters=filters) as file, tarfile.open(fileobj=file, mode="w") as tar:
            # Those with kernels follow each other.
            for name in sorted(names, key=lambda name: (re.search("cuda|ragged", name) is None, name)):
                tar.add(os.path.join(self.folder, name), name, filter=forget_owner)
        for part in ("bin", "lib"):
            shutil.rmtree(os.path.join(self.folder, part))
        return sorted(libraries)

    def compile(self, source, folder, name, *flags):
        # These plans are timed, so they have no reference.
        run([os.path.join(self.bin, "moe-compile"), source, "--parallel=dp=1", "--dtype=bf16", "--reference=false", "--cluster=hgx-h100",
             *flags, "-o", self.path("plans", folder, name + ".so")])

    def compile_plans(self):
        tiny = ["--shape=tiny", "--tokens=32"] if self.emulated else []
        run([sys.executable, "-B", os.path.join(SOURCE, "benchmarks", "cuda_layer.py"), f"--compile={self.path('plans', 'layer')}",
             f"--bin={self.bin}", *(tiny or ["--tokens=4096,8192"])])
        layers = os.path.join(self.folder, "plans", "layer")
        for name in [name for name in os.listdir(layers) if name.endswith(".mlir")]:
            os.remove(os.path.join(layers, name))
        sys.path.insert(0, os.path.join(SOURCE, "benchmarks"))
        from attention_shapes import SHAPES, get_config
        with tempfile.TemporaryDirectory() as work:
            for name, shape in SHAPES.items():
                if (name == "tiny") == self.emulated:
                    config = os.path.join(work, "config.json")
                    with open(config, "w", encoding="utf-8") as file:
                        json.dump(get_config(shape), file)
                    self.compile(config, "attention", name, "--whole-model", f"--seq={shape.sequence}", f"--batch={shape.batch}")
        bytes_model = os.path.join(SOURCE, "test", "Integration", "models", "bytes.json")
        for name, model, flags in [("bytes", bytes_model, ["--seq=16"])] if self.emulated else STEPS:
            self.compile(model, "step", name, "--whole-model", "--optimizer=adam", *flags)

    def compile_torch(self):
        config = os.path.join(self.folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(TINY_TORCH_LAYER if self.emulated else TORCH_LAYER, file)
        sequence = 64 if self.emulated else 4096
        for ranks in (1, 2):
            run([os.path.join(self.bin, "moe-compile"), config, "--halves", "--residual=false", "--dtype=bf16", "--dropless",
                 f"--parallel=dp={ranks},ep={ranks}", f"--seq={sequence}", f"--batch={ranks}", "--cluster=hgx-h100", "--reference=false",
                 "-o", self.path("plans", "torch", f"world-{ranks}.so")])
        os.remove(config)

    def copy_package(self):
        """The Python package with the module for the other Python. With the emulation it is the module of the build, if there is one."""
        if self.emulated:
            module = next(iter(glob.glob(os.path.join(self.build, "python", "moeplan", "_runtime*.so"))), None)
        else:
            module = build_module(os.path.join(SOURCE, "build", "gpu-python"), self.build, self.options.python)
        if not module:
            return
        self.compile_torch()
        package = os.path.join(SOURCE, "python", "moeplan")
        for top, _, names in os.walk(package):
            for name in sorted(names):
                if name.endswith(".py"):
                    self.copy(os.path.join(top, name), "python", "moeplan", os.path.relpath(os.path.join(top, name), package))
        self.copy(module, "python", "moeplan", os.path.basename(module))

    def keep_cases(self):
        run([find_numpy(), "-B", os.path.join(SOURCE, "test", "Integration", "gpu_cases.py"), "--bin", self.bin, "--keep", self.path("kept")])

    def copy_scripts(self):
        self.copy(os.path.join(SOURCE, "scripts", "gpu.sh"), "gpu.sh")
        for name in SCRIPTS:
            self.copy(os.path.join(HERE, name), "gpu", name)
        for name in BENCHMARKS:
            self.copy(os.path.join(SOURCE, "benchmarks", name), "benchmarks", *name.split("/"))
        for name in CLUSTERS:
            self.copy(os.path.join(SOURCE, "share", "clusters", name), "share", "clusters", name)

    def list_files(self):
        return sorted(os.path.join(folder, name) for folder, _, names in os.walk(self.folder) for name in names if name != ".unfinished")

    def describe(self, libraries):
        """Writes pack.json. The id identifies the contents."""
        digest = hashlib.sha256()
        for path in self.list_files():
            with open(path, "rb") as file:
                digest.update(os.path.relpath(path, self.folder).encode() + b"\0" + hashlib.sha256(file.read()).digest())
        git = subprocess.run(["git", "-C", SOURCE, "describe", "--always", "--dirty"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        about = {"id": digest.hexdigest()[:16], "revision": git.stdout.strip() or None, "emulated": self.emulated,
                 "architecture": None if self.emulated else ARCHITECTURE, "libraries": libraries,
                 "cutlass": not self.emulated and bool(read_cache(self.build, "MOERT_CUTLASS_INCLUDE"))}
        with open(self.path("pack.json"), "w", encoding="utf-8") as file:
            json.dump(about, file, indent=1)

    def check_size(self):
        sizes = sorted(((os.path.getsize(path), os.path.relpath(path, self.folder)) for path in self.list_files()), reverse=True)
        total, tracked = sum(size for size, _ in sizes), count_tracked_bytes()
        if total + tracked > self.options.most_bytes:
            largest = "".join(f"\n  {size / 1e6:6.1f} MB  {name}" for size, name in sizes[:8])
            fail(f"'{self.folder}' has {total / 1e6:.1f} MB and the tracked files of the repository have {tracked / 1e6:.1f} MB, but "
                 f"{self.options.most_bytes / 1e6:.1f} MB are allowed; the largest files:{largest}")
        return total

    def pack(self):
        self.copy_programs()
        self.copy_package()
        libraries = self.archive_programs()
        # Fails before the long part if the programs alone are too large.
        self.check_size()
        self.compile_plans()
        self.keep_cases()
        self.copy_scripts()
        self.describe(libraries)
        total = self.check_size()
        print(f"{self.folder}: {total / 1e6:.1f} MB beside {count_tracked_bytes() / 1e6:.1f} MB of tracked files, {len(self.list_files())} files, "
              f"libraries: {', '.join(libraries)}")
        print("next: ./gpu.sh run 1 on the GPU's machine, mend what fails, ./gpu.sh run 2; then scripts/gpu.sh report RESULTS here")


def clear(folder):
    """Removes only files that this script made."""
    if os.path.isdir(folder) and os.listdir(folder):
        if not os.path.exists(os.path.join(folder, "pack.json")) and not os.path.exists(os.path.join(folder, ".unfinished")):
            fail(f"'{folder}' has other files than those of `gpu.sh pack`; remove them, or give another folder")
        shutil.rmtree(folder)
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, ".unfinished"), "w").close()


def find_bin(given):
    """Folder of moe-compile and moe-run."""
    places = [given] if given else [os.path.join(SOURCE, "build", preset, "bin") for preset in ("release", "dev", "demo")]
    for place in places:
        if os.path.exists(os.path.join(place, "moe-compile")):
            return os.path.abspath(place)
    return fail(f"moe-compile is not in {' or '.join(places)}: build it, or give its folder by --bin=DIR")


def main():
    parser = argparse.ArgumentParser(prog="gpu.sh pack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=os.path.join(SOURCE, "build", "gpu-pack"))
    parser.add_argument("--emulation", action="store_true", help="pack the emulation of CUDA from an existing build")
    parser.add_argument("--build", metavar="DIR", help="the build of the runtime (default: build/gpu, which is built; with --emulation the folder above --bin)")
    parser.add_argument("--bin", metavar="DIR", help="the folder of moe-compile and moe-run (default: bin in build/release, build/dev or build/demo)")
    parser.add_argument("-D", "--define", action="append", default=[], metavar="NAME=VALUE", help="for CMake, such as MOERT_CUTLASS_ROOT=FOLDER (default: fetched to build/cutlass)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at a time")
    parser.add_argument("--most-bytes", type=int, default=MOST_BYTES, help="fail if the folder and the tracked files are larger (default 64 MiB)")
    parser.add_argument("--python", default=PYTHON, metavar="PATH", help="the Python for which the package is built (default %(default)s); it needs headers")
    options = parser.parse_args()
    options.folder = os.path.abspath(options.folder)
    options.bin = find_bin(options.bin)
    if options.emulation:
        options.build = os.path.abspath(options.build or os.path.dirname(options.bin))
    elif not options.build:
        options.build = os.path.join(SOURCE, "build", "gpu")
        build_runtime(options.build, options.jobs, options.define)
    clear(options.folder)
    Packer(options).pack()
    os.remove(os.path.join(options.folder, ".unfinished"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
