"""Checkpoints in the formats of PyTorch and Megatron: a dense model and one with experts go there and back, bit for bit."""

import importlib.util
import json
import math
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import moeplan
import moeplan.checkpoint

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "Integration", "models")
HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_TRANSFORMERS = HAS_TORCH and importlib.util.find_spec("transformers") is not None
HAS_MEGATRON = HAS_TORCH and all(importlib.util.find_spec(one) is not None for one in ("megatron", "psutil"))

if HAS_TORCH:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import load_file, save_file
    from torch.distributed.tensor import Shard, init_device_mesh, zeros

    import checkpoint_megatron
    from moeplan.checkpoint import _layout, _megatron
    from moeplan.checkpoint._folder import FolderReader, _split_range
    from moeplan.checkpoint._pieces import Largest
if HAS_TRANSFORMERS:
    import transformers

PIECE, HEADS = 500, 4
STEP = ("--whole-model", "--seq=16", "--micro-batches=2", "--optimizer=adam", "--clip-norm=1", "--reference=false")


def call(tool, *arguments):
    done = subprocess.run([os.path.join(os.path.dirname(moeplan.__file__), "bin", tool), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{tool} {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def on_ranks(ranks, function, *arguments):
    """Calls function(*arguments) in processes with a process group of gloo."""
    with tempfile.TemporaryDirectory() as folder:
        processes = [multiprocessing.get_context("fork").Process(target=run_rank, args=(rank, ranks, folder, function, arguments))
                     for rank in range(ranks)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            raise AssertionError(f"{function.__name__}: a rank failed")


def run_rank(rank, ranks, folder, function, arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    function(*arguments)
    dist.destroy_process_group()


def load_and_save(source, target):
    """Loads all tensors of a folder, half of them divided over the ranks, and saves them as PyTorch does."""
    mesh, state = init_device_mesh("cpu", (2,)), {}
    for number, (name, one) in enumerate(dcp.FileSystemReader(source).read_metadata().state_dict_metadata.items()):
        is_divided = number % 2 and len(one.size)
        state[name] = (zeros(one.size, dtype=one.properties.dtype, device_mesh=mesh, placements=[Shard(0)]) if is_divided
                       else torch.zeros(one.size, dtype=one.properties.dtype))
    dcp.load(state, checkpoint_id=source)
    dcp.save(state, checkpoint_id=target)


def read_all(folder):
    """All tensors of a checkpoint of MoePlan."""
    with open(os.path.join(folder, "latest"), encoding="utf-8") as file:
        reader = FolderReader(os.path.join(folder, file.read().strip()), Largest())
    return {name: reader.read(name, (0,) * len(one.shape), one.shape) for name, one in reader.tensors.items()}


@unittest.skipUnless(HAS_TORCH, "this Python has no torch; MOE_PYTHON may name one that has")
class Runs(unittest.TestCase):
    """Training of tiny models on 4 ranks, which one rank resumes."""

    losses = {}

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        with open(cls.path("text"), "wb") as file:
            file.write(bytes(random.Random(1).randrange(40) for _ in range(4000)))
        for model, dtype, layout in (("llama", "f32", "dp=2,mp=2"), ("mixtral", "bf16", "dp=2,mp=2,ep=2")):
            config = cls.write_config(model)
            rest = (*STEP, f"--dtype={dtype}", *(["--dropless"] if model == "mixtral" else []))
            call("moe-compile", config, *rest, f"--parallel={layout}", "--batch=2", "--zero=1", "-o", cls.path(model + "-4.so"))
            call("moe-compile", config, *rest, "--parallel=dp=1", "--batch=4", "-o", cls.path(model + ".so"))
            cls.train(model + "-4.so", model, 3)
            subprocess.run(["cp", "-r", cls.path(model), cls.path(model + "-resumed")], check=True)
            cls.losses[model] = cls.train(model + ".so", model + "-resumed", 5)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.temporary.name, name)

    @classmethod
    def write_config(cls, model):
        """The tiny configuration without what Megatron computes differently or has no option for."""
        with open(os.path.join(MODELS, model + ".json"), encoding="utf-8") as file:
            config = json.load(file)
        for key in ("rope_scaling", "sliding_window", "router_jitter_noise"):
            config.pop(key, None)
        with open(cls.path(model + ".json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        return cls.path(model + ".json")

    @classmethod
    def train(cls, plan, state, steps):
        """Losses by step."""
        report = call("moe-run", cls.path(plan), "--train", f"--data={cls.path('text')}", "--data-type=bytes", "--rate=0.01", "--json",
                      f"--steps={steps}", f"--checkpoint={cls.path(state)}/", "--keep=9")
        return {one["step"]: one["loss"] for one in json.loads(report)["steps"]}

    def convert(self, source, target, to, model, **options):
        return moeplan.checkpoint.convert(self.path(source), self.path(target), to=to, plan=self.path(model + ".so"), piece_bytes=PIECE, **options)

    def check_back(self, model, back):
        """The checkpoint `back` has the bits of the first one, and training goes on with the same losses."""
        want, got = read_all(self.path(model)), read_all(self.path(back))
        self.assertEqual(set(got), set(want))
        for name, one in want.items():
            self.assertTrue(torch.equal(one, got[name]), name)
        self.assertEqual(sorted(self.losses[model]), [3, 4])
        self.assertEqual(self.train(model + ".so", back, 5), self.losses[model])

    def test_dcp(self):
        for model in ("llama", "mixtral"):
            done = self.convert(model, f"{model}-dcp", "dcp", model)
            self.assertEqual(done.step, 3)
            self.assertLessEqual(done.largest_bytes, 4 * PIECE)
            on_ranks(2, load_and_save, self.path(f"{model}-dcp"), self.path(f"{model}-saved"))
            self.convert(f"{model}-saved", f"{model}-back", "moeplan", model)
            self.check_back(model, f"{model}-back")

    def test_torch_dist(self):
        for model in ("llama", "mixtral"):
            done = self.convert(model, f"{model}-dist", "torch_dist", model, heads=HEADS)
            self.assertEqual(os.path.basename(done.folder), "iter_0000003")
            self.convert(f"{model}-dist", f"{model}-again", "moeplan", model, heads=HEADS)
            self.check_back(model, f"{model}-again")

    @unittest.skipUnless(HAS_MEGATRON, "this Python has no megatron-core (pip install megatron-core==0.16.1 psutil)")
    def test_megatron(self):
        for model in ("llama",):
            done = self.convert(model, f"{model}-megatron", "torch_dist", model, heads=HEADS, expert_parallel=model == "mixtral")
            saved = self.path(f"{model}-megatron-saved")
            on_ranks(2, checkpoint_megatron.load_and_save, self.path(model + ".json"), done.folder, saved)
            self.convert(f"{model}-megatron-saved", f"{model}-megatron-back", "moeplan", model, heads=HEADS)
            self.check_back(model, f"{model}-megatron-back")

    def make_logits(self, model):
        """Logits of moe-run in f32 for a checkpoint, which this function makes in `MODEL-f32`."""
        config = self.path(model + ".json")
        call("moe-compile", config, *STEP, "--parallel=dp=1", "--batch=4", "-o", self.path(model + "-f32.so"))
        self.train(model + "-f32.so", model + "-f32", 1)
        call("moe-compile", config, "--whole-model", "--mode=forward", "--batch=1", "--seq=16", "-o", self.path("forward.so"))
        values = {name: one for name, one in read_all(self.path(model + "-f32")).items() if not name.endswith((".first", ".second"))}
        values["tokens"] = torch.arange(16, dtype=torch.int32)
        del values["step"]
        save_file(values, self.path("inputs.safetensors"))
        call("moe-run", self.path("forward.so"), f"--load={self.path('inputs.safetensors')}", f"--save={self.path('logits.safetensors')}")
        return load_file(self.path("logits.safetensors"))["logits"]

    @unittest.skipUnless(HAS_TRANSFORMERS, "this Python has no transformers")
    def test_logits(self):
        """Transformers computes the logits of moe-run from the names and layouts of DCP, and Megatron that of Llama from torch_dist."""
        for model in ("llama", "mixtral"):
            want = self.make_logits(model)
            self.convert(f"{model}-f32", f"{model}-f32-dcp", "dcp", f"{model}-f32")
            state = {}
            for name, one in dcp.FileSystemReader(self.path(f"{model}-f32-dcp")).read_metadata().state_dict_metadata.items():
                if name.startswith("model."):
                    state[name] = torch.zeros(one.size)
            dcp.load(state, checkpoint_id=self.path(f"{model}-f32-dcp"), no_dist=True)
            folder = self.path(f"{model}-transformers")
            os.makedirs(folder)
            save_file({name[len("model.") :]: one for name, one in state.items()}, os.path.join(folder, "model.safetensors"), {"format": "pt"})
            subprocess.run(["cp", self.path(f"{model}.json"), os.path.join(folder, "config.json")], check=True)
            with torch.no_grad():
                network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
                got = network(torch.arange(16)[None]).logits[0]
            self.assertLess((got - want).abs().max(), 1e-4 * want.abs().max())
            if HAS_MEGATRON and model == "llama":
                done = self.convert(f"{model}-f32", f"{model}-f32-dist", "torch_dist", f"{model}-f32", heads=HEADS)
                on_ranks(1, checkpoint_megatron.write_logits, self.path(f"{model}.json"), done.folder, self.path("megatron.pt"))
                got = torch.load(self.path("megatron.pt"))
                self.assertLess((got - want).abs().max(), 1e-4 * want.abs().max())

    def test_errors(self):
        self.convert("llama", "errors-dcp", "dcp", "llama")
        state = {}
        for name, one in dcp.FileSystemReader(self.path("errors-dcp")).read_metadata().state_dict_metadata.items():
            state[name] = torch.zeros(one.size, dtype=one.properties.dtype)
        dcp.load(state, checkpoint_id=self.path("errors-dcp"), no_dist=True)

        def save(name, **change):
            dcp.save({key: one for key, one in {**state, **change}.items() if one is not None}, checkpoint_id=self.path(name), no_dist=True)

        save("lacks", **{"model.lm_head.weight": None})
        save("unknown", **{"model.extra": torch.zeros(2)})
        save("shape", **{"model.lm_head.weight": torch.zeros(40, 23)})
        save("type", **{"model.lm_head.weight": torch.zeros(40, 24).half()})
        save("steps", **{"optimizer.state.lm_head.weight.step": torch.tensor(4.0)})
        save("more", train_state=torch.zeros(3), lr_scheduler={"last_epoch": 3})
        for name, text in (("lacks", "'model.lm_head.weight', of which 'head' is made"), ("unknown", "'model.extra'"),
                           ("shape", r"'model.lm_head.weight': expected torch.float32 of shape \[40, 24\]"), ("type", "got torch.float16"),
                           ("steps", "expected one number of steps"), ("nothing", "expected a checkpoint, with 'index.json'")):
            with self.assertRaisesRegex(moeplan.Error, text):
                self.convert(name, name + "-back", "moeplan", "llama")
        self.assertEqual(self.convert("more", "more-back", "moeplan", "llama").left, ("'train_state', 'lr_scheduler.last_epoch'",))
        for options, text in ((dict(to="dcp", model="mixtral"), "expected .* by the plan"), (dict(to="torch_dist", model="llama"), "--heads"),
                              (dict(to="moeplan", model="llama"), "from or to moeplan")):
            with self.assertRaisesRegex(moeplan.Error, text):
                self.convert("llama", "wrong", **options)
        with self.assertRaisesRegex(moeplan.Error, "new or empty folder"):
            self.convert("llama", "errors-dcp", "dcp", "llama")


@unittest.skipUnless(HAS_TORCH, "this Python has no torch; MOE_PYTHON may name one that has")
class Layouts(unittest.TestCase):
    """Names, shapes and elements in Megatron, by the rules of sharded_state_dict of GPTModel in megatron-core 0.16.1, for 2 layers, hidden
    size 6, 2 query groups of 2 heads of 4, hidden size 5 of feed-forward blocks, 3 experts and a vocabulary of 7."""

    ATTENTION = {"self_attention.linear_qkv.layer_norm_weight": (6,), "self_attention.linear_qkv.weight": (32, 6),
                 "self_attention.linear_proj.weight": (6, 16)}
    DENSE = {"mlp.linear_fc1.layer_norm_weight": (6,), "mlp.linear_fc1.weight": (10, 6), "mlp.linear_fc2.weight": (6, 5)}
    EXPERTS = {"pre_mlp_layernorm.weight": (6,), "mlp.router.weight": (3, 6), "mlp.experts.experts.linear_fc1.weight": (3, 10, 6),
               "mlp.experts.experts.linear_fc2.weight": (3, 6, 5)}
    OUTSIDE = {"embedding.word_embeddings.weight": (7, 6), "decoder.final_layernorm.weight": (6,), "output_layer.weight": (7, 6)}

    def make(self, *kinds):
        """Parameters of a plan whose layers have experts or not."""
        shapes = {"embedding": (7, 6), "norm.gamma": (6,), "head": (6, 7)}
        for layer, has_experts in enumerate(kinds):
            block = {"gate": (6, 3), "w1": (3, 6, 10), "w2": (3, 5, 6)} if has_experts else {"ffn.w1": (6, 10), "ffn.w2": (5, 6)}
            own = {"norm1.gamma": (6,), "norm2.gamma": (6,), "attention.q": (6, 16), "attention.k": (6, 8), "attention.v": (6, 8),
                   "attention.o": (16, 6), **block}
            shapes.update({f"layer{layer}.{name}": shape for name, shape in own.items()})
        generator = torch.Generator().manual_seed(0)
        return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}

    def link(self, parameters):
        return _megatron.link_megatron({name: {"name": name, "shape": list(one.shape)} for name, one in parameters.items()}, 4)

    def test_names_and_shapes(self):
        for kinds, table in (((0, 0), {**self.ATTENTION, **self.DENSE}), ((1, 1), {**self.ATTENTION, **self.EXPERTS})):
            want = {**self.OUTSIDE, **{f"decoder.layers.{name}": (2, *shape) for name, shape in table.items()}}
            self.assertEqual({link.other.tensor: link.other.shape for link in self.link(self.make(*kinds))}, want)
        want = {**self.OUTSIDE, **{f"decoder.layers.{layer}.{name}": shape for layer, kind in enumerate((self.DENSE, self.EXPERTS))
                                   for name, shape in {**self.ATTENTION, **kind}.items()}}
        self.assertEqual({link.other.tensor: link.other.shape for link in self.link(self.make(0, 1))}, want)

    def test_elements(self):
        parameters = self.make(1, 1)
        links = self.link(parameters)
        layer = {name[len("layer1.") :]: one for name, one in parameters.items() if name.startswith("layer1.")}
        groups = [torch.cat([layer["attention.q"][:, 8 * n : 8 * n + 8], layer["attention.k"][:, 4 * n : 4 * n + 4],
                             layer["attention.v"][:, 4 * n : 4 * n + 4]], 1).T for n in range(2)]
        want = {"self_attention.linear_qkv.weight": torch.cat(groups),
                "mlp.experts.experts.linear_fc1.weight": torch.cat([layer["w1"][..., 0::2], layer["w1"][..., 1::2]], 2).transpose(1, 2),
                "mlp.experts.experts.linear_fc2.weight": layer["w2"].transpose(1, 2), "mlp.router.weight": layer["gate"].T}
        for most in (1, 3, 40, 1000):
            made = self.copy(links, "plan", "other", parameters, most)
            for name, one in want.items():
                self.assertTrue(torch.equal(made["decoder.layers." + name][1], one), name)
            for name, one in self.copy(links, "other", "plan", made, most).items():
                self.assertTrue(torch.equal(parameters[name], one), name)

    def copy(self, links, source, target, tensors, most):
        """Makes all tensors on one side of the links in pieces of at most `most` elements, if steps allow it."""
        made = {getattr(link, target).tensor: torch.full(getattr(link, target).shape, math.nan) for link in links}
        for link in links:
            side, whole = getattr(link, target), made[getattr(link, target).tensor]
            for offset, lengths in _layout.split(side.shape, side.steps, most):
                box = tuple(slice(first, first + length) for first, length in zip(offset, lengths))
                into = whole[box].contiguous()
                _layout.copy(side, getattr(link, source), link.common, offset, into, lambda name, first, size: tensors[name][
                    tuple(slice(a, a + b) for a, b in zip(first, size))].clone())
                whole[box] = into
        return made

    def test_ranges(self):
        numbers = torch.arange(60).view(3, 4, 5)
        for begin in range(60):
            for end in range(begin, 61):
                found = []
                for first, offset, lengths in _split_range((3, 4, 5), begin, end):
                    box = numbers[tuple(slice(a, a + b) for a, b in zip(offset, lengths))].flatten()
                    self.assertEqual(box.tolist(), list(range(first, first + len(box))))
                    found += box.tolist()
                self.assertEqual(sorted(found), list(range(begin, end)))


class WithoutTorch(unittest.TestCase):
    def test_the_error_names_the_package(self):
        with mock.patch("importlib.util.find_spec", return_value=None), self.assertRaisesRegex(moeplan.Error, "'torch': pip install torch"):
            moeplan.checkpoint.convert("a", "b", to="dcp", plan="c")

    def test_help(self):
        done = subprocess.run([sys.executable, "-m", "moeplan.checkpoint", "--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("torch_dist", done.stdout)


if __name__ == "__main__":
    unittest.main()
