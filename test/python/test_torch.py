"""Plans as layers of PyTorch models: on one rank here, on several in torch_equivalence.py."""

import copy
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_TRANSFORMERS = HAS_TORCH and importlib.util.find_spec("transformers") is not None

if HAS_TORCH:
    import torch

    import moeplan.torch
if HAS_TRANSFORMERS:
    import transformers

CONFIG = dict(model_type="mixtral", architectures=["MixtralForCausalLM"], hidden_size=16, intermediate_size=24, num_local_experts=4,
              num_experts_per_tok=2, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, vocab_size=64)


class Config:
    """Keys of a configuration of transformers that compile_block reads."""

    def to_dict(self):
        return CONFIG


@unittest.skipUnless(HAS_TORCH, "this Python has no torch; MOE_PYTHON may name one that has")
class OneRank(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "layer.so")
        moeplan.torch.compile_block(Config(), cls.path, parallel="dp=1", seq=8, batch=[1, 2], dtype="f64")
        cls.halves = moeplan.torch.Halves(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def make(self, **options):
        return moeplan.torch.PlanModule(self.halves, **options)

    @staticmethod
    def draw(rows):
        return torch.randn(rows, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(rows))

    def test_gradients(self):
        functional_call = torch.func.functional_call if hasattr(torch, "func") else torch.nn.utils.stateless.functional_call
        layer = self.make()
        names = [name for name, _ in layer.named_parameters()]
        run = lambda x, *values: functional_call(layer, dict(zip(names, values)), (x,))
        inputs = [self.draw(8), *(value.detach().clone() for value in layer.parameters())]
        self.assertTrue(torch.autograd.gradcheck(run, [one.requires_grad_() for one in inputs]))

    def test_auxiliary_loss(self):
        layer = self.make(aux_loss=True)
        layer(self.draw(16))
        layer.aux_loss.backward()
        self.assertGreater(layer.gate.grad.abs().max(), 0)
        self.assertEqual(layer.w1.grad.abs().max(), 0)

    def test_shapes_and_batches_in_flight(self):
        """Outputs of two shapes are alive before the first backward, and leading dimensions are kept."""
        layer = self.make()
        first, second = self.draw(8).reshape(2, 4, 16).requires_grad_(), self.draw(16).requires_grad_()
        outputs = layer(first), layer(second)
        self.assertEqual(outputs[0].shape, first.shape)
        outputs[0].sum().backward()
        alone = first.grad.clone()
        outputs[1].sum().backward()
        self.assertTrue(torch.equal(first.grad, alone))
        again = first.detach().clone().requires_grad_()
        layer(again).sum().backward()
        self.assertTrue(torch.equal(again.grad, alone))
        with self.assertRaisesRegex(moeplan.Error, "is for 8 or 16 tokens on a rank but got 5"):
            layer(self.draw(5))

    def test_checkpointing(self):
        """torch computes the forward again in the backward."""
        from torch.utils.checkpoint import checkpoint
        layer = self.make()
        layer(self.draw(8)).square().sum().backward()
        expected = layer.w1.grad.clone()
        layer.zero_grad()
        checkpoint(layer, self.draw(8).requires_grad_(), use_reentrant=False).square().sum().backward()
        self.assertTrue(torch.equal(layer.w1.grad, expected))

    def test_copies(self):
        """Copies of layers, and of inputs that are not dense or begin at an odd address."""
        layer = self.make()
        expected = copy.deepcopy(layer)(self.draw(8))
        self.assertTrue(torch.equal(expected, layer(self.draw(8))))
        apart = torch.zeros(8 * 16 + 1, dtype=torch.float64)[1:].reshape(8, 16).copy_(self.draw(8))
        self.assertNotEqual(apart.data_ptr() % 16, 0)
        self.assertTrue(torch.equal(expected, layer(apart)))
        self.assertTrue(torch.equal(expected, layer(self.draw(8).T.contiguous().T)))

    def test_no_second_derivative(self):
        layer, x = self.make(), self.draw(8).requires_grad_()
        first, = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "once_differentiable|does not require grad"):
            first.sum().backward()

    def test_close(self):
        halves = moeplan.torch.Halves(self.path)
        layer = moeplan.torch.PlanModule(halves)
        layer(self.draw(8))
        halves.close()
        halves.close()
        with self.assertRaisesRegex(moeplan.Error, "the plan is closed"):
            layer(self.draw(8))

    def test_groups_live_as_long_as_a_plan(self):
        """Plans share groups of processes, which no single process can make again."""
        first, second = moeplan.torch.Halves(self.path), moeplan.torch.Halves(self.path)
        with mock.patch.dict(moeplan.torch._halves.Processes._known, {(0, 2): "a group"}):
            first.close()
            self.assertIn((0, 2), moeplan.torch._halves.Processes._known)
            self.assertTrue(second.is_open)
            second.close()
            self.assertFalse(second.is_open)

    def test_no_block_is_left_in_silence(self):
        block = torch.nn.Module()
        block.gate, block.experts, block.other = torch.nn.Linear(16, 4, bias=False), torch.nn.Module(), torch.nn.Linear(2, 2)
        block.experts.gate_up_proj, block.experts.down_proj = (torch.nn.Parameter(torch.ones(shape)) for shape in ((4, 48, 16), (4, 16, 24)))
        with self.assertRaisesRegex(ValueError, "MoE blocks that replace_moe knows but got Sequential"):
            moeplan.torch.replace_moe(torch.nn.Sequential(block), self.path)
        known = copy.deepcopy(block)
        del known.other
        with self.assertRaisesRegex(ValueError, "does not know these MoE blocks, which would stay unchanged: 1"):
            moeplan.torch.replace_moe(torch.nn.Sequential(known, block), self.path)

    @unittest.skipUnless(HAS_TRANSFORMERS, "this Python has no transformers")
    def test_plans_of_other_models(self):
        """Blocks of other models have the same shapes, but compute something else."""
        sizes = {key: value for key, value in CONFIG.items() if key not in ("model_type", "architectures")}
        experts = {**sizes, "num_experts": sizes["num_local_experts"]}
        del experts["num_local_experts"]
        config = transformers.MixtralConfig(**sizes)
        path = os.path.join(self.folder.name, "other.so")
        for other, what in ((transformers.MixtralConfig(**{**sizes, "num_experts_per_tok": 1}), "with top_k=2, but '.*other.so' is of a block with top_k=1"),
                            (transformers.OlmoeConfig(**experts, norm_topk_prob=False), "with renormalize, but '.*other.so' is of a block with no more")):
            moeplan.torch.compile_block(other, path, parallel="dp=1", seq=8)
            with self.assertRaisesRegex(ValueError, f"expected a plan of the model's block, {what}"):
                moeplan.torch.replace_moe(transformers.AutoModelForCausalLM.from_config(config), path)
        moeplan.torch.compile_block(config, path, parallel="dp=1", seq=8, capacity_factor=2)
        model = moeplan.torch.replace_moe(transformers.AutoModelForCausalLM.from_config(config), path)
        model(input_ids=torch.zeros(1, 8, dtype=torch.int64))

    @unittest.skipUnless(HAS_TRANSFORMERS, "this Python has no transformers")
    def test_models_with_plans(self):
        """Other shapes are compiled when they first occur. What would lose parts is an error."""
        config = transformers.MixtralConfig(**{key: value for key, value in CONFIG.items() if key not in ("model_type", "architectures")})
        model = moeplan.torch.replace_moe(transformers.AutoModelForCausalLM.from_config(config), parallel="dp=1", seq=8)
        with self.assertLogs("moeplan", "WARNING") as logs:
            for tokens in (1, 3, 1):
                model(input_ids=torch.zeros(1, tokens, dtype=torch.int64))
        self.assertEqual([one.getMessage() for one in logs.records], [f"compiling a plan for {tokens} tokens on a rank" for tokens in (1, 3)])
        with self.assertRaisesRegex(moeplan.Error, "at most 8 numbers of tokens"):
            for tokens in range(9, 20):
                model(input_ids=torch.zeros(1, tokens, dtype=torch.int64))
        with self.assertRaisesRegex(ValueError, "replace_moe was called before"):
            moeplan.torch.replace_moe(model, self.path)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(ValueError, "expected state_dict=moeplan.torch.full_state_dict"):
                model.save_pretrained(folder)
            model.save_pretrained(folder, state_dict=moeplan.torch.full_state_dict(model))
            self.assertIn("model.safetensors", os.listdir(folder))

    def test_types_are_checked(self):
        with self.assertRaisesRegex(TypeError, "'x': expected a f64 tensor"):
            self.make()(self.draw(8).float())

    def test_plans_of_steps_are_refused(self):
        path = os.path.join(self.folder.name, "step.so")
        moeplan.compile("switch-base-8", parallel="dp=1", seq=8, output=path)
        with self.assertRaisesRegex(moeplan.Error, "compile it with moe-compile --halves"):
            moeplan.torch.PlanModule(path)
        path = os.path.join(self.folder.name, "two.so")
        moeplan.torch.compile_block(Config(), path, parallel="dp=2,ep=2", seq=8)
        with self.assertRaisesRegex(moeplan.Error, "is for 2 ranks, but there are 1 processes"):
            moeplan.torch.PlanModule(path)

    @unittest.skipUnless(HAS_TORCH and hasattr(torch.library, "custom_op"), "this torch has no torch.library.custom_op")
    def test_compile(self):
        """torch.compile makes one graph of a layer between other ops, without a break."""
        layer = self.make()
        run = lambda x: torch.nn.functional.gelu(layer(x * 2)).sum()
        x = self.draw(8).requires_grad_()
        run(x).backward()
        expected = x.grad.clone(), layer.w1.grad.clone()
        x.grad, layer.w1.grad = None, None
        torch.compile(run, fullgraph=True, backend="aot_eager")(x).backward()
        self.assertTrue(torch.allclose(x.grad, expected[0]) and torch.allclose(layer.w1.grad, expected[1]))


@unittest.skipUnless(HAS_TRANSFORMERS, "this Python has no torch and transformers; MOE_PYTHON may name one that has")
class Ranks(unittest.TestCase):
    """Comparison with transformers: logits and gradients, 50 steps of AdamW with a checkpoint, and memory over 200 steps."""

    def test_equivalence(self):
        jobs = ["1:families", "2:families", "4:families", "8:families", "2:layers", "2:balance", "4:balance", "2:wrappers", "2:training", "4:training", "2:memory"]
        done = subprocess.run([sys.executable, os.path.join(HERE, "torch_equivalence.py"), *jobs], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=1500)
        print(done.stdout)
        self.assertEqual(done.returncode, 0)
        self.assertEqual([line.split()[1] for line in done.stdout.splitlines() if line.startswith("passed ")], jobs)

    def test_example(self):
        """The tutorial's script: a plan on four ranks has the losses of transformers on the two data-parallel ranks."""
        def train(ranks, *options):
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}",
                                   os.path.join(HERE, "..", "..", "examples", "train_mixtral_tiny.py"), "book.txt", *options], cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            self.assertEqual(done.returncode, 0, done.stdout)
            return [line for line in done.stdout.splitlines() if line.startswith("step ")]

        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "book.txt"), "w") as file:
                file.writelines(f"{number}\n" for number in range(20000))
            losses = train(4, "--parallel=dp=2,mp=2,ep=2,esp=2", "--schedule=s1", "--save=tiny")
            self.assertEqual(losses, train(2))
            self.assertEqual(len(losses), 5)
            self.assertIn("model.safetensors", os.listdir(os.path.join(folder, "tiny")))


if __name__ == "__main__":
    unittest.main()
