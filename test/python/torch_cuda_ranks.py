"""One of two ranks with device="cuda", on the emulation of CUDA and NCCL. test_torch_cuda.py starts both.

Usage: torch_cuda_ranks.py FOLDER RANK
"""

import os
import sys
import unittest
from unittest import mock

import torch
import torch.distributed as dist

import emulated_torch
import moeplan.torch
from emulated_torch import Cuda, NcclBackend, to_device, to_host
from moeplan.torch import _halves
from moeplan.torch._sharding import take_part
from test_torch_cuda import RANKS, TOLERANCE, difference, draw, step


class OfRank(unittest.TestCase):
    """Checks on one of two ranks. Both run them in the same order."""

    folder, rank, left_behind = "", 0, None

    def path(self, dtype, ranks=RANKS):
        return os.path.join(self.folder, f"{dtype}-{ranks}.so")

    def make(self, dtype="f32"):
        """A layer on the GPU of this rank's number, which is not the current one on rank 1."""
        return moeplan.torch.PlanModule(self.path(dtype), device=f"cuda:{self.rank}", gradients="sum")

    def run_alone(self, dtype, seed):
        """Values of one rank with the tokens of all. Output and gradient of x are this rank's part."""
        alone = dist.new_group([self.rank], use_local_synchronization=True)
        host = moeplan.torch.PlanModule(self.path(dtype, 1), alone)
        wholes = [torch.cat(parts) for parts in zip(*(draw(dtype, RANKS * seed + rank) for rank in range(RANKS)))]
        y, grad, *grads = step(host, *wholes)
        return [*(one.chunk(RANKS)[self.rank] for one in (y, grad)), *grads]

    def test_1_values(self):
        for dtype in TOLERANCE:
            layer = self.make(dtype)
            values, variant = list(layer.values.values()), layer.halves.any_pair.variant
            for seed in range(2):
                with Cuda.device(layer.halves.device):
                    got = [to_host(one) for one in step(layer, *draw(dtype, RANKS * seed + self.rank), to_device)]
                y, grad, *grads = self.run_alone(dtype, seed)
                parts = [take_part(one, value, variant.groups, self.rank) for one, value in zip(grads, values)]
                for one, other in zip(got, [y, grad, *parts]):
                    self.assertLessEqual(difference(one, other), TOLERANCE[dtype])

    def test_2_groups_without_communicators(self):
        with mock.patch.object(dist.ProcessGroup, "_get_backend", self.own_backend):
            with self.assertRaisesRegex(moeplan.Error, "a communicator of the caller for group '.*' but got none: .*expected a process group of NCCL"):
                self.make()
        with mock.patch.object(NcclBackend, "_comm_ptr", lambda backend: 0):
            with self.assertRaisesRegex(moeplan.Error, f"has no communicator for GPU {self.rank} after a collective"):
                self.make()

    def test_3_order_of_communicators(self):
        with mock.patch.dict(os.environ):
            del os.environ["NCCL_LAUNCH_ORDER_IMPLICIT"]
            with self.assertRaisesRegex(moeplan.Error, "expected NCCL_LAUNCH_ORDER_IMPLICIT=1 before the process uses NCCL"):
                self.make()


    def test_4_errors_that_only_nccl_finds(self):
        """Rank 0 enqueues a step alone, which fails later. Nothing but the end of the plan can report it."""
        layer = self.make("capacity")
        with Cuda.device(layer.halves.device):
            to_host(layer(to_device(draw("f32")[0])))
            dist.barrier()
            backend = dist.group.WORLD._get_backend(layer.halves.device)
            if self.rank == 0:
                layer(to_device(draw("f32")[0]))
                backend.fail()
                with self.assertRaisesRegex(moeplan.Error, "a transfer failed"):
                    layer.halves.close()
            backend.abort()
            layer.halves.close()

    def test_5_a_step_that_never_ends(self):
        """Rank 0 leaves a step behind, for which its end must not wait."""
        for halves in _halves.Halves._all:
            halves.close()
        layer = self.make("capacity")
        halves = layer.halves
        with Cuda.device(halves.device):
            to_host(layer(to_device(draw("f32")[0])))
            dist.barrier()
            if self.rank == 0:
                layer(to_device(draw("f32")[0]))
                backend = dist.group.WORLD._get_backend(halves.device)
                backend.fail()
                backend.addresses.clear()
                OfRank.left_behind = halves


def run_rank(folder, rank):
    OfRank.folder, OfRank.rank = folder, rank
    own = dist.ProcessGroup._get_backend
    OfRank.own_backend = staticmethod(lambda group, device: own(group, device))
    emulated_torch.install()
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    with emulated_torch.nccl():
        result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(OfRank))
        dist.barrier()
        for halves in _halves.Halves._all:
            if halves is not OfRank.left_behind:
                halves.close()
    dist.destroy_process_group()
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(run_rank(sys.argv[1], int(sys.argv[2])))
