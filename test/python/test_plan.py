"""Open plans: groups, programs, arguments, memory, variants and errors. Also, that a plan runs although libmoert is not visible to the
whole process, where its BLAS would take the place of PyTorch's."""

import ctypes
import os
import subprocess
import sys
import tempfile
import unittest

import moeplan

SMALL = {"seq": 16, "layers": 1}

# Uses the C API directly: a world of the plan, and one step. runtime/include/moert/world.h has the structure.
RUN_BY_HAND = """
import ctypes, sys
class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("version", ctypes.c_uint32), ("program", ctypes.c_int32), ("backend", ctypes.c_char_p),
                ("workers", ctypes.c_int64), ("timeout_s", ctypes.c_double), ("rest", ctypes.c_int64 * 16)]
library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL)
library.moert_last_error.restype = ctypes.c_char_p
def check(status):
    if status:
        sys.exit(library.moert_last_error().decode())
plan, world, seconds = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_double()
check(library.moert_plan_open(sys.argv[2].encode(), ctypes.byref(plan)))
config = Config(size=ctypes.sizeof(Config), version=int(sys.argv[3]), workers=1, timeout_s=60)
check(library.moert_world_create(plan, ctypes.byref(config), ctypes.byref(world)))
check(library.moert_world_run(world, ctypes.byref(seconds)))
print("ran", hasattr(ctypes.CDLL(None), "cblas_sgemm"), seconds.value > 0)
"""


def find_library():
    """libmoert, as the extension found it."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if "libmoert.so" in line)


class PlanTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="moeplan-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.path = os.path.join(cls.folder, "plan.so")
        moeplan.compile("switch-base-8", output=cls.path, parallel="dp=4,ep=2", **SMALL)

    def test_what_a_plan_has(self):
        with moeplan.Plan(self.path) as plan:
            self.assertEqual((plan.world, plan.parallel["dp"], plan.parallel["ep"]), (4, 4, 2))
            self.assertEqual({one.name: one.size for one in plan.groups}["ep"], 2)
            (program,) = plan.programs
            self.assertEqual((program.first_rank, program.ranks), (0, 4))
            x = plan.arguments["x"]
            self.assertEqual((x.role, x.dtype, x.shape, x.local_shape, x.layout), ("input", "f32", (64, 768), (16, 768), (("dp",), ())))
            self.assertEqual(x.local_bytes, 16 * 768 * 4)
            self.assertEqual(plan.results["y"].shape, (64, 768))
            self.assertEqual(plan.memory["device"], plan.metadata["programs"][0]["arenas"]["device"])
            self.assertEqual(plan.memory["arguments"], sum(one.local_bytes for one in program.arguments))
            self.assertEqual(plan.only_variant.reference.ranks, 1)
            self.assertRegex(repr(plan), "plan '.*plan.so'\nbaseline, train, f32, world of 4")

    def test_closed_plans(self):
        plan = moeplan.Plan(self.path)
        plan.close()
        plan.close()
        self.assertIn("closed", repr(plan))
        with self.assertRaisesRegex(moeplan.Error, "'.*plan.so' is closed"):
            plan.choose(1, 16)

    def test_several_shapes(self):
        path = os.path.join(self.folder, "shapes.so")
        moeplan.compile("switch-base-8", output=path, batch=[1, 2], **SMALL)
        plan = moeplan.Plan(path)
        self.assertEqual([(one.batch, one.sequence) for one in plan.variants], [(1, 16), (2, 16)])
        self.assertEqual(plan.choose(2, 16).arguments["x"].shape, (32, 768))
        with self.assertRaisesRegex(moeplan.Error, r"of one variant but .* has 2, for .*\(1, 16\), \(2, 16\)"):
            plan.groups
        with self.assertRaisesRegex(moeplan.Error, "but got 3 x 16"):
            plan.choose(3, 16)

    def test_stages(self):
        path = os.path.join(self.folder, "stages.so")
        moeplan.compile("gpt2-moe", output=path, whole_model=True, layers=2, seq=16, parallel="pp=2", micro_batches=2, reference=False)
        plan = moeplan.Plan(path)
        self.assertEqual([(one.first_rank, one.ranks) for one in plan.programs], [(0, 1), (1, 1)])
        names = [set(value.name for value in one.arguments) for one in plan.programs]
        self.assertEqual(set(plan.arguments), names[0] | names[1])
        self.assertIsNone(plan.only_variant.reference)

    def test_a_plan_that_is_compiled_again(self):
        path = os.path.join(self.folder, "again.so")
        plans = []
        for ranks in (2, 4, 1):
            moeplan.compile("switch-base-8", output=path, seq=16, parallel=f"dp={ranks}", reference=False)
            plans.append(moeplan.Plan(path))
        self.assertEqual([plan.world for plan in plans], [2, 4, 1])

    def test_what_is_no_plan(self):
        with self.assertRaisesRegex(moeplan.Error, "cannot load plan: .*none.so': cannot be opened for reading"):
            moeplan.Plan(os.path.join(self.folder, "none.so"))
        with self.assertRaisesRegex(moeplan.Error, "is not a plan: it does not export 'moeplan_metadata'"):
            moeplan.Plan(find_library())
        with self.assertRaises(TypeError):
            moeplan.Plan(3)

    def test_a_plan_runs_where_the_runtime_is_local(self):
        done = subprocess.run([sys.executable, "-c", RUN_BY_HAND, find_library(), self.path, read_config_version()], capture_output=True,
                              text=True)
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("ran False True\n", "", 0))

    def test_the_runtime_and_its_blas_are_not_visible_to_others(self):
        self.assertIn("libmoert", find_library())
        self.assertFalse(hasattr(ctypes.CDLL(None), "moert_last_error"))
        self.assertFalse(hasattr(ctypes.CDLL(None), "cblas_sgemm"))


def read_config_version():
    header = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../runtime/include/moert/world.h")
    with open(header, encoding="utf-8") as file:
        return next(line.split()[-1] for line in file if "#define MOERT_WORLD_CONFIG_VERSION" in line)


if __name__ == "__main__":
    unittest.main()
