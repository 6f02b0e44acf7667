"""PyTorch on the emulation of CUDA: what moeplan.torch needs of torch.cuda and of NCCL's process groups, without a GPU.

A CudaTensor is a tensor of the host that says it is on a GPU. An op of torch on it first waits for the current stream, as an op on a GPU begins
after the work on its stream. Programs of moeplan.torch do not wait: they enqueue on the emulation, whose streams run as late as they may.
"""

import contextlib
import ctypes
import os
import types
import weakref
from unittest import mock

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves, tree_map_only

from moeplan.torch import _groups, _halves, _module

LIBRARY = os.path.join(os.environ.get("MOERT_BACKENDS", ""), "libmoert-cuda.so")
ID_BYTES = 128  # size of an ncclUniqueId


def load():
    library = ctypes.CDLL(LIBRARY)
    for name, result, *parameters in (("make_stream", ctypes.c_void_p), ("set_device", ctypes.c_int, ctypes.c_int), ("get_device", ctypes.c_int),
                                      ("synchronize", ctypes.c_int, ctypes.c_void_p), ("is_busy", ctypes.c_int, ctypes.c_void_p),
                                      ("make_id", ctypes.c_int, ctypes.c_char_p),
                                      ("make_communicator", ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int),
                                      ("allocate", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p),
                                      ("free", ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
                                      ("fail_communicator", None, ctypes.c_void_p), ("abort_communicator", ctypes.c_int, ctypes.c_void_p),
                                      ("destroy_communicator", ctypes.c_int, ctypes.c_void_p)):
        function = getattr(library, "emulation_" + name)
        function.restype, function.argtypes = result, parameters
    return library


EMULATION = load()


def check(status):
    if status:
        raise RuntimeError(f"the emulation of CUDA returned {status}")


class Stream:
    def __init__(self, address):
        self.cuda_stream = address

    def is_busy(self):
        return bool(EMULATION.emulation_is_busy(self.cuda_stream))

    def synchronize(self):
        check(EMULATION.emulation_synchronize(self.cuda_stream))


class Cuda:
    """Stands for torch.cuda. Each device has a current stream."""

    default = Stream(0)
    streams = {}  # by device

    @staticmethod
    def current_device():
        return EMULATION.emulation_get_device()

    @classmethod
    def current_stream(cls, device=None):
        index = torch.device(device).index if device is not None else None
        return cls.streams.get(cls.current_device() if index is None else index, cls.default)

    @classmethod
    @contextlib.contextmanager
    def stream(cls, stream):
        before = cls.current_stream()
        cls.streams[cls.current_device()] = stream
        try:
            yield
        finally:
            cls.streams[cls.current_device()] = before

    @classmethod
    @contextlib.contextmanager
    def device(cls, device):
        before = cls.current_device()
        check(EMULATION.emulation_set_device(before if torch.device(device).index is None else torch.device(device).index))
        try:
            yield
        finally:
            check(EMULATION.emulation_set_device(before))


def allocate(bytes, stream):
    """Memory of the emulated device, as bytes. As with torch's allocator, only later work of the stream gets it again."""
    address = EMULATION.emulation_allocate(max(bytes, 1), stream.cuda_stream)
    memory = (ctypes.c_char * max(bytes, 1)).from_address(address)
    weakref.finalize(memory, EMULATION.emulation_free, address, stream.cuda_stream).atexit = False
    return torch.frombuffer(memory, dtype=torch.uint8)


class CudaTensor(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl
    index = 0

    @property
    def device(self):
        return torch.device("cuda", self.index)

    @classmethod
    def __torch_dispatch__(cls, op, _, arguments=(), options=None):
        options = dict(options or {})
        if op is torch.ops.moeplan.forward.default:
            return _module._forward._init_fn(*arguments)
        if op is torch.ops.moeplan.backward.default:
            # Autograd makes zeros for outputs without a gradient, where it believes the others to be.
            return _module._backward._init_fn([one if isinstance(one, cls) else to_device(one) for one in arguments[0]], *arguments[1:])
        if not op.is_view and op not in EMPTY:
            Cuda.current_stream().synchronize()
        if "device" in options:
            options["device"] = "cpu"
        with torch._C._DisableTorchDispatch():
            result = op(*arguments, **options)
        index = next(one.index for one in tree_leaves(arguments) if isinstance(one, cls))
        return tree_map_only(torch.Tensor, lambda one: wrap(one, index) if op.is_view else to_device(one, index), result)


EMPTY = (torch.ops.aten.detach.default, torch.ops.aten.new_empty.default)


def wrap(tensor, index):
    made = torch.Tensor._make_subclass(CudaTensor, tensor)
    made.index = index
    return made


def to_device(tensor, index=None):
    """A copy of the host's tensor on a device, by default the current one."""
    if isinstance(tensor, CudaTensor):
        return tensor
    tensor, size = tensor.detach(), tensor.numel() * tensor.element_size()
    index = Cuda.current_device() if index is None else index
    with Cuda.device(torch.device("cuda", index)):
        memory = allocate(size, Cuda.current_stream())
    return wrap(memory[:size].view(tensor.dtype).as_strided(tensor.shape, tensor.stride()).copy_(tensor), index)


def to_host(tensor):
    """A copy of the tensor on the host."""
    Cuda.current_stream().synchronize()
    with torch._C._DisableTorchDispatch():
        return tensor.detach().clone()


class Torch(types.ModuleType):
    """Stands for the module torch in moeplan.torch."""

    cuda = Cuda

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def _make(function, *sizes, device="cpu", pin_memory=False, **options):
        made = function(*sizes, **options)
        return to_device(made, torch.device(device).index) if torch.device(device).type == "cuda" else made

    def empty(self, *sizes, **options):
        return self._make(torch.empty, *sizes, **options)

    def zeros(self, *sizes, **options):
        return self._make(torch.zeros, *sizes, **options)


class NcclBackend:
    """Stands for ProcessGroupNCCL, which has a communicator for each device that has met the others in a collective."""

    def __init__(self, group):
        self.group, self.addresses = group, {}

    def meet(self, device):
        if device.index in self.addresses:
            return
        text = ctypes.create_string_buffer(ID_BYTES)
        if dist.get_rank(self.group) == 0:
            check(EMULATION.emulation_make_id(text))
        shared = [text.raw]
        dist.broadcast_object_list(shared, dist.get_global_rank(self.group, 0), group=self.group)
        self.addresses[device.index] = EMULATION.emulation_make_communicator(dist.get_world_size(self.group), shared[0], dist.get_rank(self.group))

    def _comm_ptr(self):
        """The communicator of the current device, or 0."""
        return self.addresses.get(Cuda.current_device(), 0)

    def fail(self):
        EMULATION.emulation_fail_communicator(self._comm_ptr())

    def abort(self):
        check(EMULATION.emulation_abort_communicator(self.addresses.pop(Cuda.current_device())))

    def close(self):
        for address in self.addresses.values():
            check(EMULATION.emulation_destroy_communicator(address))


@contextlib.contextmanager
def nccl():
    """Gives the process groups of gloo a backend of NCCL."""
    backends = {}

    def get_backend(group, device):
        assert device.type == "cuda"
        return backends.setdefault(group, NcclBackend(group))

    def all_reduce(tensor, group):
        get_backend(group, tensor.device).meet(tensor.device)

    with mock.patch.object(dist.ProcessGroup, "_get_backend", get_backend), mock.patch.object(dist, "all_reduce", all_reduce):
        yield
    for backend in backends.values():
        backend.close()


def install():
    """Puts the emulation in the place of torch in moeplan.torch."""
    for module in (_groups, _halves, _module):
        module.torch = Torch("torch")
