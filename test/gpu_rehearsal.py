#!/usr/bin/env python3
"""Rehearses a GPU session on the emulation of CUDA: packs what is built, carries the folder elsewhere, runs both calls and reads the page.

Usage: gpu_rehearsal.py --bin BIN [--build BUILD] [--python PYTHON]
       gpu_rehearsal.py --packed FOLDER --packages DIR

The calls see an empty environment, whose PATH has only bash, python3 and some coreutils. A second session has stand-ins for the tools of
NVIDIA that the emulation cannot run. Sessions with broken folders have to fail. If PYTHON has PyTorch, another one runs the packed layers in
it, on the host.

With --packed, FOLDER is of `gpu.sh pack` for a GPU, and DIR has the packages of Python that a GPU's machine has (nvidia-cublas,
nvidia-nccl-cu13, nvidia-cudnn-cu13). The first call then finds every library, and fails only since there is no GPU.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(HERE)
SCRIPT = os.path.join(SOURCE, "scripts", "gpu.sh")
OPTIONS = None

PROGRAMS = ("bash", "env", "cat", "dirname", "ls", "mkdir", "rm", "uname")
# Runs the program after its own options, and reports the findings in FAKE_FINDINGS.
SANITIZER = """#!/usr/bin/env bash
while [[ $1 == -* ]]; do shift; done
"$@" || exit
found=${FAKE_FINDINGS:-0}
[ "$found" = 0 ] || echo "========= Invalid __global__ write of size 4 bytes"
echo "========= ERROR SUMMARY: $found errors"
[ "$found" = 0 ] || exit 9
"""
NCU = """#!/usr/bin/env bash
while [[ $1 == -* ]]; do [[ $1 == --launch-count ]] && shift; shift; done
echo "==PROF== Connected"
"$@" >/dev/null || exit
echo '"ID","Process Name","Kernel Name","gpu__time_duration.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed"'
echo '"","","","usecond","%"'
echo '"0","moe-run","void moert::cuda::copyRows<float>(float *, int)","1,250.5","81.5"'
echo '"1","moe-run","void moert::cuda::copyRows<float>(float *, int)","749.5","78.5"'
"""


def call(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, **more)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Rehearsal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="gpu-rehearsal-")
        cls.tools = cls.make_path("tools")
        cls.packed, cls.folder = os.path.join(cls.work, "packed"), os.path.join(cls.work, "there")
        done = call([SCRIPT, "pack", "--emulation", cls.packed, f"--bin={OPTIONS.bin}", f"--build={OPTIONS.build}"])
        assert done.returncode == 0, done.stdout
        # The folder is moved, so that no path leads back to the build.
        shutil.move(cls.packed, cls.folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    @classmethod
    def make_path(cls, name, **scripts):
        """A folder for PATH."""
        folder = os.path.join(cls.work, name)
        os.makedirs(folder)
        for program in PROGRAMS:
            os.symlink(shutil.which(program), os.path.join(folder, program))
        if "python3" not in scripts:
            os.symlink("/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable, os.path.join(folder, "python3"))
        for program, text in scripts.items():
            path = os.path.join(folder, program.replace("_", "-"))
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        return folder

    def path(self, *names):
        return os.path.join(self.work, *names)

    def run_call(self, number, results, *flags, tools=None, folder=None, **env):
        return call([os.path.join(folder or self.folder, "gpu.sh"), "run", str(number), self.path(results), *flags],
                    env={"PATH": tools or self.tools, **env}, cwd=self.work)

    def get_steps(self, results, number):
        return {step["step"]: step for step in read_json(self.path(results, f"call{number}.json"))["steps"]}

    def report(self, results, *flags):
        page = self.path("page.md")
        done = call([SCRIPT, "report", self.path(results), "-o", page, *flags])
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(page, encoding="utf-8") as file:
            return file.read()

    def copy_folder(self, name):
        return shutil.copytree(self.folder, self.path(name), symlinks=True)

    # Tests run in the order of their names. The first one has the session that the others read.

    def test_1_both_calls_pass(self):
        skipped = {}
        for number, limit in ((1, 120), (2, 480)):
            begin = time.monotonic()
            done = self.run_call(number, "results")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertLess(time.monotonic() - begin, limit + 15)
            # The machine that runs the session returns only the end of the output.
            self.assertLess(len(done.stdout), 12000)
            for name, step in self.get_steps("results", number).items():
                self.assertIn(step["state"], ("passed", "skipped"), step)
                if step["state"] == "skipped":
                    skipped[name] = step["reason"]
        for name, reason in skipped.items():
            self.assertRegex(reason, "not on this machine|cannot import torch|is not in the folder|too little memory", name)
        for name in ("preflight", "kernels-1", "cases-cuda", "cases-cuda-loopback", "nccl-2", "nccl-4", "ragged-gemm", "layer", "calibrate", "step-bytes"):
            self.assertNotIn(name, skipped)
        steps = self.get_steps("results", 2)
        cases = [case for name in ("cases-cuda", "cases-cuda-loopback") for case in steps[name]["figures"]["cases"]]
        self.assertGreaterEqual(len(cases), 30)
        self.assertGreaterEqual(sum("worst_of_training" in case for case in cases), 4)

    def test_2_results_are_few_and_complete(self):
        names = sorted(os.listdir(self.path("results")))
        self.assertEqual(names, ["call1.json", "call2.json", "gpu.log", "profile.json"])
        for name in names:
            with open(self.path("results", name), encoding="utf-8") as file:
                self.assertFalse(self.folder in file.read(), name)

    def test_3_steps_that_ran_are_not_run_again(self):
        before = read_json(self.path("results", "call2.json"))
        done = self.run_call(2, "later", f"--before={self.path('results')}")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("done      step-bytes", done.stdout)
        passed = lambda stored: {step["step"]: step for step in stored["steps"] if step["state"] == "passed"}
        self.assertEqual(passed(read_json(self.path("later", "call2.json"))), passed(before))
        done = self.run_call(2, "later", "--again", "--only=step-bytes$")
        self.assertIn("passed    step-bytes", done.stdout)

    def test_4_the_page_has_all_figures(self):
        page = self.report("results", f"--profile={self.path('clusters', 'tried.json')}")
        for title in ("Steps", "Tests and plans", "Ragged products", "Layers against PyTorch", "Ops", "Attention against PyTorch", "Whole steps"):
            self.assertIn(f"\n## {title}\n", page)
        self.assertNotIn("## Failures", page)
        for text in ("the emulation of CUDA", "| tiny | 32 | skewed |", "| bytes-without-graph |", "| tiny | backward |"):
            self.assertIn(text, page)
        self.assertEqual(read_json(self.path("clusters", "tried.json"))["name"], "tried")
        done = call([sys.executable, os.path.join(HERE, "check_prose.py"), SOURCE, self.path("page.md")])
        self.assertNotRegex(done.stdout, "words|abbreviation")

    def test_5_tools_are_called_and_read(self):
        tools = self.make_path("more-tools", compute_sanitizer=SANITIZER, ncu=NCU)
        done = self.run_call(2, "with-tools", f"--before={self.path('results')}", tools=tools)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("| tiny-32 | void moert::cuda::copyRows | 2 | 2000.0 | 80% |", self.report("with-tools"))
        listed, steps = self.run_call(2, "with-tools", "--list").stdout, self.get_steps("with-tools", 2)
        for name in ("memcheck-kernels", "memcheck-cases", "racecheck-kernels", "racecheck-cases"):
            self.assertRegex(listed, rf"(?m)^2 +{name} +\d+ +\d+  checks$")
            figures = steps[name]["figures"]
            self.assertTrue(figures["cases"] if name.endswith("cases") else figures["programs"])
        done = self.run_call(2, "findings", "--only=memcheck-kernels|racecheck-cases", tools=tools, FAKE_FINDINGS="2")
        self.assertEqual(done.returncode, 1, done.stdout)
        steps = self.get_steps("findings", 2)
        self.assertEqual({steps[name]["state"] for name in ("memcheck-kernels", "racecheck-cases")}, {"failed"})
        self.assertEqual(steps["memcheck-kernels"]["figures"]["errors"], 2)
        page = self.report("findings")
        self.assertIn("## Failures", page)
        self.assertIn("Invalid __global__ write", page)

    def test_5_layers_run_in_pytorch(self):
        if not OPTIONS.python or call([OPTIONS.python, "-c", "import torch"]).returncode:
            self.skipTest("--python names no Python with PyTorch")
        tools = self.make_path("torch-tools", python3=f'#!/usr/bin/env bash\nexec "{OPTIONS.python}" "$@"\n')
        done = self.run_call(2, "in-pytorch", "--only=^torch-", tools=tools)
        self.assertEqual(done.returncode, 0, done.stdout)
        for count, name in ((1, "torch-1"), (2, "torch-2")):
            step = self.get_steps("in-pytorch", 2)[name]
            self.assertEqual((step["state"], step["figures"]["ranks"], step["figures"]["device"]), ("passed", count, "cpu"))
        self.report("in-pytorch")

    def test_6_a_wrong_expected_value_fails(self):
        folder = self.copy_folder("broken-case")
        path = next(os.path.join(top, "expected") for top, _, names in sorted(os.walk(os.path.join(folder, "kept"))) if "expected" in names)
        # One case is enough.
        for top, _, names in list(os.walk(os.path.join(folder, "kept"))):
            if "runs" in names and top != os.path.dirname(path):
                shutil.rmtree(top)
        expected = read_json(path)
        expected["steps"][3]["loss"] *= 1.2
        with open(path, "w", encoding="utf-8") as file:
            json.dump(expected, file)
        done = self.run_call(2, "broken", "--only=cases-cuda$", folder=folder)
        self.assertEqual(done.returncode, 1, done.stdout)
        step = self.get_steps("broken", 2)["cases-cuda"]
        self.assertEqual((step["state"], step["rc"]), ("failed", 1))
        self.assertIn("step 3: expected loss", self.report("broken"))

    def test_7_one_step_never_stops_the_next(self):
        folder = self.copy_folder("broken-programs")
        with open(os.path.join(folder, "bin", "moe-calibrate"), "w", encoding="utf-8") as file:
            file.write("#!/usr/bin/env bash\nexit 7\n")
        plan = os.path.join(folder, "plans", "layer", "tiny-32.so")
        with open(plan, "wb") as file:
            file.write(b"no plan")
        done = self.run_call(2, "programs", "--only=calibrate|ops", folder=folder)
        self.assertEqual(done.returncode, 1, done.stdout)
        steps = self.get_steps("programs", 2)
        self.assertEqual((steps["calibrate"]["state"], steps["calibrate"]["rc"]), ("failed", 7))
        self.assertEqual(steps["ops-tiny-32"]["state"], "failed")
        self.assertFalse(os.path.exists(self.path("programs", "profile.json")))

    def test_8_a_step_that_hangs_is_ended(self):
        folder = self.copy_folder("hanging")
        with open(os.path.join(folder, "bin", "moe-run"), "w", encoding="utf-8") as file:
            file.write("#!/usr/bin/env bash\nread -r -t 100 <> <(:)\n")
        done = self.run_call(2, "hanging-results", "--only=step|ops", "--longest=1", folder=folder)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual({step["state"] for step in self.get_steps("hanging-results", 2).values()}, {"timed out"})

    def test_8_a_table_that_is_cut_off_is_kept(self):
        folder, table = self.copy_folder("cut-off"), '{"moert_products": 1, "choices": []}'
        about = read_json(os.path.join(folder, "pack.json"))
        with open(os.path.join(folder, "pack.json"), "w", encoding="utf-8") as file:
            json.dump({**about, "emulated": False}, file)
        with open(os.path.join(folder, "bin", "moe-calibrate"), "w", encoding="utf-8") as file:
            file.write("#!/usr/bin/env bash\n"
                       f"for word; do [[ $word != --products=* ]] || echo '{table}' > \"${{word#*=}}\"; done\nread -r -t 100 <> <(:)\n")
        tools = self.make_path("with-gpu", nvidia_smi="#!/usr/bin/env bash\necho GPU 0\n")
        done = self.run_call(2, "cut-off-results", "--only=^products", "--longest=1", folder=folder, tools=tools)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(self.get_steps("cut-off-results", 2)["products"]["state"], "timed out")
        self.assertEqual(read_json(self.path("cut-off-results", "products.json")), json.loads(table))

    def test_8_no_device_is_no_success(self):
        done = self.run_call(1, "no-device", "--only=kernels|preflight|collectives", CUDA_EMULATION_DEVICES="0")
        self.assertEqual(done.returncode, 1, done.stdout)
        steps = self.get_steps("no-device", 1)
        self.assertEqual({step["state"] for step in steps.values()}, {"failed"}, steps)
        for name, said in (("kernels-1", "no NVIDIA driver"), ("collectives", "cannot read the device's properties")):
            self.assertRegex(steps[name]["reason"], f"no test ran: .*{said}")
        self.assertIn("a case on backend cuda", steps["preflight"]["reason"])

    def test_9_what_cannot_be_is_refused(self):
        self.assertIn("other files than those", call([SCRIPT, "pack", "--emulation", HERE, f"--bin={OPTIONS.bin}"]).stdout)
        done = call([SCRIPT, "pack", "--emulation", self.path("small"), f"--bin={OPTIONS.bin}", f"--build={OPTIONS.build}", "--most-bytes=1000000"])
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"has \d+\.\d MB and the tracked files of the repository have \d+\.\d MB, but 1\.0 MB are allowed; the largest files:"
                         r"\n +\d+\.\d MB  programs\.tar\.xz")
        self.assertIn("has no results", call([SCRIPT, "report", self.work]).stdout)
        self.assertIn("by -o FILE", call([SCRIPT, "report", self.path("results")]).stdout)
        self.assertIn("expected pack, run or report", call([SCRIPT, "walk"]).stdout)

    def test_cases_of_products_are_those_of_their_script(self):
        folder = os.path.join(SOURCE, "benchmarks", "ragged_gemm")
        with open(os.path.join(folder, "cases.json"), encoding="utf-8") as file:
            self.assertEqual(file.read(), call([sys.executable, os.path.join(folder, "make_cases.py")]).stdout)


class WithoutDevice(unittest.TestCase):
    def test_every_library_is_found(self):
        with tempfile.TemporaryDirectory(prefix="gpu-rehearsal-") as work:
            folder = shutil.copytree(OPTIONS.packed, os.path.join(work, "there"))
            tools = os.path.join(work, "tools")
            os.makedirs(tools)
            for program in (*PROGRAMS, "ldd", "grep", "sed"):
                os.symlink(shutil.which(program), os.path.join(tools, program))
            os.symlink(sys.executable, os.path.join(tools, "python3"))
            with open(os.path.join(tools, "nvidia-smi"), "w", encoding="utf-8") as file:
                file.write("#!/usr/bin/env bash\necho 'GPU 0: there is none'\n")
            os.chmod(os.path.join(tools, "nvidia-smi"), 0o755)
            done = call([os.path.join(folder, "gpu.sh"), "run", "1", os.path.join(work, "results")], cwd=work,
                        env={"PATH": tools, "PYTHONPATH": os.path.abspath(OPTIONS.packages)})
            print(done.stdout)
            steps = {step["step"]: step for step in read_json(os.path.join(work, "results", "call1.json"))["steps"]}
            for name, found in steps["preflight"]["figures"]["libraries"].items():
                # The driver is part of a machine with a GPU.
                self.assertEqual("version" in found, name != "libcuda.so.1", found)
                if "version" in found:
                    self.assertTrue(found["path"].startswith(os.path.realpath(OPTIONS.packages)), found)
            self.assertNotIn("which is not found", steps["preflight"]["reason"])
            for step in steps.values():
                self.assertEqual(step["state"], "passed" if step["step"] == "machine" else "failed", step)
                if step["state"] == "failed":
                    self.assertRegex(step["output"] + step["errors"], "no NVIDIA driver|CUDA driver version is insufficient", step["step"])


def load_tests(loader, tests, pattern):
    return loader.loadTestsFromTestCase(WithoutDevice if OPTIONS.packed else Rehearsal)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--bin", metavar="DIR", help="the folder of moe-compile")
    what.add_argument("--packed", metavar="FOLDER", help="a folder that was packed for a GPU, which is rehearsed without one")
    parser.add_argument("--packages", metavar="DIR", help="with --packed: the folder of NVIDIA's packages of Python")
    parser.add_argument("--python", metavar="PATH", help="the Python for which the build has the package")
    parser.add_argument("--build", metavar="DIR", help="the build whose emulation is packed (default: the folder above --bin)")
    OPTIONS, rest = parser.parse_known_args()
    if bool(OPTIONS.packed) != bool(OPTIONS.packages):
        parser.error("--packed and --packages are given together")
    OPTIONS.build = OPTIONS.build or (OPTIONS.bin and os.path.dirname(os.path.abspath(OPTIONS.bin)))
    unittest.main(argv=[sys.argv[0], *rest])
