"""moeplan.torch with device="cuda", on the emulation of CUDA: on one rank here, on two in torch_cuda_ranks.py."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch

    import moeplan.torch
    HAS_DISPATCH = hasattr(torch._C, "_DisableTorchDispatch") and hasattr(torch.library, "custom_op")
    if os.environ.get("MOERT_BACKENDS") and HAS_DISPATCH:
        import emulated_torch
        from emulated_torch import Cuda, Stream, to_device, to_host

RANKS, ROWS, WIDTH = 2, 32, 64
CONFIG = dict(model_type="mixtral", architectures=["MixtralForCausalLM"], hidden_size=WIDTH, intermediate_size=96, num_local_experts=8,
              num_experts_per_tok=2, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, vocab_size=64)
# Relative to the largest value.
TOLERANCE = {"f32": 1e-5, "bf16": 2e-2}
TYPES = {"f32": "float32", "bf16": "bfloat16"}


class Config:
    """Keys of a configuration of transformers that compile_block reads."""

    def to_dict(self):
        return CONFIG


def compile_layer(path, ranks=1, dtype="f32", **options):
    moeplan.torch.compile_block(Config(), path, parallel=f"dp={ranks},ep={ranks}", seq=ROWS, dtype=dtype, **options)
    return path


def draw(dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(ROWS, WIDTH, generator=generator).to(getattr(torch, TYPES[dtype])) for _ in range(2)]


def step(layer, x, cotangent, move=lambda tensor: tensor):
    """The output, and the gradients of x and of the parameters, without a wait."""
    x = move(x).requires_grad_()
    y = layer(x)
    return [y, *torch.autograd.grad(y, [x, *layer.parameters()], move(cotangent))]


def difference(got, expected):
    return ((got.float() - expected.float()).abs().max() / expected.float().abs().max()).item()


def skip_reason():
    if not HAS_TORCH:
        return "this Python has no torch; MOE_PYTHON may name one that has"
    if not HAS_DISPATCH:
        return "this torch has no torch.library.custom_op"
    return "" if os.environ.get("MOERT_BACKENDS") else "MOERT_BACKENDS does not name the emulation of CUDA"


@unittest.skipIf(skip_reason(), skip_reason())
class OneRank(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        emulated_torch.install()
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def compile(self, dtype="f32", **options):
        name = "-".join([dtype, *(f"{key}={value}" for key, value in options.items())])
        path = os.path.join(self.folder.name, name + ".so")
        return path if os.path.exists(path) else compile_layer(path, dtype=dtype, **options)

    def expect_equal(self, got, expected, dtype):
        for one, other in zip(got, expected):
            self.assertLessEqual(difference(to_host(one), other), TOLERANCE[dtype])

    def test_values(self):
        for dtype in TOLERANCE:
            for options in ({"dropless": True}, {"capacity_factor": 1.25}):
                with self.subTest(dtype=dtype, **options):
                    path = self.compile(dtype, **options)
                    host, layer = moeplan.torch.PlanModule(path), moeplan.torch.PlanModule(path, device="cuda")
                    self.assertEqual({one.device.type for one in layer.parameters()}, {"cuda"})
                    self.expect_equal(step(layer, *draw(dtype), to_device), step(host, *draw(dtype)), dtype)

    def test_streams(self):
        """Steps follow each other on one stream and on another one, and the host waits for none of them after the first."""
        path = self.compile()
        host, layer = moeplan.torch.PlanModule(path), moeplan.torch.PlanModule(path, device="cuda")
        streams = [Stream(emulated_torch.EMULATION.emulation_make_stream()) for _ in range(2)]
        got = []
        for seed, stream in enumerate([Cuda.default, streams[0], streams[0], streams[1], Cuda.default, streams[1]]):
            with Cuda.stream(stream):
                got.append(step(layer, *draw("f32", seed), to_device))
                if seed > 0:
                    self.assertTrue(stream.is_busy())
        for seed, values in enumerate(got):
            Cuda.streams[0] = [Cuda.default, streams[0], streams[0], streams[1], Cuda.default, streams[1]][seed]
            self.expect_equal(values, step(host, *draw("f32", seed)), "f32")
        Cuda.streams.clear()

    def test_inputs_that_are_copied(self):
        """Copies of inputs that are not dense or begin at an odd address live until the step has run."""
        path = self.compile()
        host, layer = moeplan.torch.PlanModule(path), moeplan.torch.PlanModule(path, device="cuda")
        x, _ = draw("f32")
        for change in (lambda tensor: tensor.T.contiguous().T, lambda tensor: torch.cat([tensor.new_zeros(1), tensor.flatten()])[1:].reshape(ROWS, WIDTH)):
            self.assertLessEqual(difference(to_host(layer(change(to_device(x)))), host(x)), 1e-5)

    def test_wrong_devices(self):
        layer = moeplan.torch.PlanModule(self.compile(), device="cuda")
        with self.assertRaisesRegex(TypeError, "'x': expected a f32 tensor of shape .* on cuda.* but got torch.float32, .*, cpu"):
            layer(draw("f32")[0])

    def test_close(self):
        layer = moeplan.torch.PlanModule(self.compile(), device="cuda")
        layer(to_device(draw("f32")[0]))
        layer.halves.close()
        with self.assertRaisesRegex(moeplan.Error, "the plan is closed"):
            layer(to_device(draw("f32")[0]))


    def test_memory_is_checked(self):
        half = moeplan.torch.PlanModule(self.compile(), device="cuda").halves.any_pair.forward
        sizes = [to_device(torch.zeros(value.local_shape)).numel() * 4 for value in (*half.arguments, *half.results)]
        memory = to_device(torch.zeros(max(*sizes, half._arenas["device"]) + 512))
        place = memory.data_ptr() + -memory.data_ptr() % 256
        values, arena = [(place, size) for size in sizes], (place, half._arenas["device"])
        for first, space, text in (((place, sizes[0] - 4), arena, f"expected {sizes[0]} bytes for 'x' of one rank but got {sizes[0] - 4}"),
                                   ((place + 4, sizes[0]), arena, "expected 'x' at an address that is a multiple of 16"),
                                   (values[0], (place, arena[1] - 1), f"expected an arena of at least {arena[1]} bytes but got {arena[1] - 1}"),
                                   (values[0], (place + 16, arena[1]), "expected the arena at an address that is a multiple of 256")):
            with self.assertRaisesRegex(moeplan.Error, text):
                half._world.run([first, *values[1:]], [space])

    def test_errors_of_the_stream(self):
        """A failure of torch is an error of the step, which is not enqueued on another stream. The plan can go on."""
        layer = moeplan.torch.PlanModule(self.compile(), device="cuda")
        x = to_device(draw("f32")[0])
        expected = to_host(layer(x))
        with mock.patch.object(Cuda, "current_stream", side_effect=RuntimeError("no stream today")):
            with self.assertRaisesRegex(RuntimeError, "no stream today"):
                layer(x)
        self.assertTrue(torch.equal(to_host(layer(x)), expected))

    def test_order_of_communicators(self):
        """NCCL reads its variable when it starts, so the import sets it only before."""
        script = (f"import os, torch.distributed as dist; dist.init_process_group('gloo', init_method='file://{self.folder.name}/store', rank=0, "
                  "world_size=1); import moeplan.torch; print(os.environ.get('NCCL_LAUNCH_ORDER_IMPLICIT'))")
        environment = {name: value for name, value in os.environ.items() if name != "NCCL_LAUNCH_ORDER_IMPLICIT"}
        self.assertEqual(os.environ["NCCL_LAUNCH_ORDER_IMPLICIT"], "1")
        done = subprocess.run([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "None")

    def test_other_devices(self):
        """The device may be another one than the current one, which stays as it was."""
        path = self.compile()
        layer, host = moeplan.torch.PlanModule(path, device="cuda:1"), moeplan.torch.PlanModule(path)
        self.assertEqual({one.device.index for one in layer.parameters()}, {1})
        x = draw("f32")[0]
        with Cuda.device("cuda:1"):
            there = to_device(x)
        y = layer(there)
        self.assertEqual((y.device.index, Cuda.current_device()), (1, 0))
        with Cuda.device("cuda:1"):
            self.assertLessEqual(difference(to_host(y), host(x)), 1e-5)
        with self.assertRaisesRegex(TypeError, "on cuda:1 but got torch.float32, .*, cuda:0"):
            layer(to_device(x))
        with self.assertRaisesRegex(ValueError, "expected device='cpu' or 'cuda' but got 'meta'"):
            moeplan.torch.PlanModule(path, device="meta")


class TwoRanks(unittest.TestCase):
    @unittest.skipIf(skip_reason(), skip_reason())
    def test_two_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            for dtype in TOLERANCE:
                for ranks in (1, RANKS):
                    compile_layer(os.path.join(folder, f"{dtype}-{ranks}.so"), ranks, dtype, dropless=True, batch=RANKS // ranks)
            compile_layer(os.path.join(folder, f"capacity-{RANKS}.so"), RANKS, capacity_factor=1.25)
            environment = dict(os.environ, NCCL_EMULATION_FOLDER=folder, OMP_NUM_THREADS="1")
            processes = [subprocess.Popen([sys.executable, "-B", os.path.join(HERE, "torch_cuda_ranks.py"), folder, str(rank)], env=environment, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True) for rank in range(RANKS)]
            try:
                outputs = [process.communicate(timeout=120)[0] for process in processes]
            finally:
                for process in processes:
                    process.kill()
        for rank, process in enumerate(processes):
            self.assertEqual(process.returncode, 0, f"rank {rank}:\n{outputs[rank]}")
        self.assertIn("a transfer failed", outputs[0])
