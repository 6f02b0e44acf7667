"""The forward and the backward of a plan, which run on torch's tensors."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import logging
import os
import threading
from typing import Callable, ContextManager, Dict, List, Optional, Sequence, Tuple, Union

import torch

from .. import _runtime
from .._errors import Error
from .._plan import Plan, Value, Variant
from ._groups import Processes

_TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32}
_ALIGNMENT = 256
_MOST_MORE = 8
_log = logging.getLogger("moeplan")

# Makes programs of a process run one at a time, or one after another on a stream of a GPU. They share the memory of values that no program
# keeps.
_running = threading.Lock()
_scratch: Dict[Tuple[str, torch.device, int], torch.Tensor] = {}


def _find_device(device: Union[str, torch.device]) -> torch.device:
    """The device that tensors name. `cuda` is the current GPU."""
    found = torch.device(device)
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f"expected device='cpu' or 'cuda' but got '{device}'")
    if found.type == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device() if found.index is None else found.index)


def _made_current(device: torch.device) -> ContextManager[object]:
    """Makes a GPU the current one for a while, as the runtime and communicators of torch expect."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _get_scratch(kind: str, size: int, device: torch.device, stream: int) -> torch.Tensor:
    memory = _scratch.get((kind, device, stream))
    if memory is None or memory.numel() < size:
        place = torch.device("cpu") if kind == "host_pinned" else device
        whole = torch.empty(size + _ALIGNMENT, dtype=torch.uint8, device=place,
                            pin_memory=kind == "host_pinned" and device.type == "cuda")
        begin = -whole.data_ptr() % _ALIGNMENT
        memory = _scratch[kind, device, stream] = whole[begin : begin + size]
    return memory


def _place_of(tensor: torch.Tensor) -> Tuple[int, int]:
    """Address and bytes of a dense tensor."""
    return tensor.data_ptr(), tensor.numel() * tensor.element_size()


def digest_of(path: str) -> str:
    with open(path, "rb") as file:
        return "SHA-256 " + hashlib.sha256(file.read()).hexdigest()


def _take(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy if it is not dense or begins at an address that kernels do not accept."""
    tensor = tensor.detach().contiguous()
    return tensor if tensor.data_ptr() % 16 == 0 else tensor.clone()


class Half:
    """One of the two programs on one rank, with the plan's `arguments` and `results`."""

    def __init__(self, plan: Plan, number: int, processes: Processes, device: torch.device, workers: int, verify: bool) -> None:
        (program,) = plan.variants[number].programs
        self._device = device
        self.has_failed = False
        self.arguments: Tuple[Value, ...] = program.arguments
        self.results: Tuple[Value, ...] = program.results
        self._arenas = program.arenas
        if device.type == "cuda":
            with _made_current(device):
                self._world = _runtime.World.on_cuda(plan.handle, number, processes.rank, processes.size, processes.communicator, verify)
        else:
            self._world = _runtime.World.on_host(plan.handle, number, processes.rank, processes.size, processes.all_to_all,
                                                 processes.all_gather, workers, verify)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            function(*arguments)
        except Error:
            self.has_failed = True
            raise

    def wait(self) -> None:
        """Waits for steps on a GPU. What only the device found is an error here, if no step has returned one."""
        if self._world is not None and self._device.type == "cuda" and not self.has_failed:
            self._call(self._world.wait)

    @property
    def is_open(self) -> bool:
        return self._world is not None

    def close(self) -> None:
        self._world = None

    def leave(self) -> None:
        """Closes the program for Python, but leaves its end to that of the process."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._world))

    def empty_results(self, like: torch.Tensor) -> List[torch.Tensor]:
        return [like.new_empty(value.local_shape, dtype=_TYPES[value.dtype]) for value in self.results]

    def run(self, arguments: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        if self._world is None:
            raise Error("the plan is closed")
        for value, tensor in zip(self.arguments, arguments):
            if tuple(tensor.shape) != value.local_shape or tensor.dtype != _TYPES[value.dtype] or tensor.device != self._device:
                raise TypeError(f"'{value.name}': expected a {value.dtype} tensor of shape {list(value.local_shape)} on {self._device} but "
                                f"got {tensor.dtype}, {list(tensor.shape)}, {tensor.device}")
        results = self.empty_results(arguments[0])
        # torch's allocator gives the memory of copies to later work of this stream only.
        values = [_take(tensor) for tensor in arguments] + results
        with _running, _made_current(self._device):
            stream = torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else 0
            arenas = [_get_scratch(kind, self._arenas[kind], self._device, stream) for kind in ("device", "host_pinned")]
            self._call(self._world.run, [_place_of(tensor) for tensor in values], [_place_of(tensor) for tensor in arenas], stream)
        return results


class Pair:
    """The forward and the backward for one shape of the input."""

    def __init__(self, plan: Plan, number: int, processes: Processes, device: torch.device, workers: int, verify: bool) -> None:
        self.variant: Variant = plan.variants[number]
        self.forward = Half(plan, number, processes, device, workers, verify)
        self.backward = Half(plan, number + 1, processes, device, workers, verify)
        inputs = [value for value in self.forward.arguments if value.role == "input"]
        if len(inputs) != 1:
            raise Error(f"expected a plan of a layer, with one input, but '{plan.path}' has {[value.name for value in inputs]}")
        self.input = inputs[0]
        self.parameters = [value for value in self.forward.arguments if value.role == "parameter"]
        self.outputs = [value for value in self.forward.results if value.role == "output"]
        self.gradients = [value.name for value in self.backward.results]
        places = {value.name: place for place, value in enumerate(self.outputs)}
        self._cotangents = {"cotangent." + name: place for name, place in places.items()}

    def run_forward(self, x: torch.Tensor, parameters: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """Results of the forward: outputs, then values for the backward."""
        given = {self.input.name: x, **{value.name: tensor for value, tensor in zip(self.parameters, parameters)}}
        return self.forward.run([given[value.name] for value in self.forward.arguments])

    def run_backward(self, cotangents: Sequence[torch.Tensor], x: torch.Tensor, parameters: Sequence[torch.Tensor],
                     results: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """Gradients in the order of `gradients`, from those of the outputs and from the inputs and results of run_forward."""
        given = {self.input.name: x, **{value.name: tensor for value, tensor in zip(self.parameters, parameters)},
                 **{value.name: tensor for value, tensor in zip(self.forward.results, results)},
                 **{name: cotangents[place] for name, place in self._cotangents.items()}}
        return self.backward.run([given[value.name] for value in self.backward.arguments])


class Halves:
    """A plan of `moe-compile --halves` on one rank of `process_group`. Layers of one shape share it: a rank runs one of them at a time,
    and keeps no values between calls. `device` has its tensors: "cpu", or a GPU such as "cuda:1" ("cuda": the current one). `workers`
    threads run kernels on CPUs. With `verify` it checks that values are equal if the plan assumes so, and makes shadows if a layer may
    have some, even if none pays. All ranks make it alike."""

    _all: List["Halves"] = []

    def __init__(self, plan: Union[str, "os.PathLike[str]", Plan], process_group: Optional["torch.distributed.ProcessGroup"] = None,
                 device: Union[str, torch.device] = "cpu", workers: int = 1, verify: bool = False) -> None:
        self.plan = plan if isinstance(plan, Plan) else Plan(plan)
        first = self.plan.variants[0]
        if first.half is None:
            raise Error(f"'{self.plan.path}' is a program of a whole step: compile it with moe-compile --halves")
        self.processes = Processes(process_group)
        if first.world != self.processes.size:
            raise Error(f"'{self.plan.path}' is for {first.world} ranks, but there are {self.processes.size} processes")
        self.device = _find_device(device)
        self._workers, self._verify = workers, verify
        #: Pairs by the rows of the input on this rank, the first if there are several for one shape.
        self.pairs: Dict[int, Pair] = {}
        self.add(self.plan)
        #: Compiles and adds a plan for another number of rows. All ranks call it with the same number.
        self.compile_more: Optional[Callable[[int], None]] = None
        self._more = 0
        self.key = len(Halves._all)
        Halves._all.append(self)

    def add(self, plan: Plan) -> None:
        """Adds the shapes of a plan of the same layer and groups."""
        with _made_current(self.device):
            self.processes.check_alike("plan", digest_of(plan.path))
        self.processes.prepare([group for variant in plan.variants for group in variant.groups])
        for number in range(0, len(plan.variants), 2):
            pair = Pair(plan, number, self.processes, self.device, self._workers, self._verify)
            self.pairs.setdefault(pair.input.local_shape[0], pair)

    def list_halves(self) -> List[Half]:
        return [half for pair in self.pairs.values() for half in (pair.forward, pair.backward)]

    def wait(self) -> None:
        """Waits for the steps of the plan on a GPU. Errors that only the GPU found, and that no step has returned, are raised once."""
        for half in self.list_halves():
            half.wait()

    def close(self) -> None:
        """Waits for steps, ends the plan's threads, and releases the process group. Layers cannot run any more. Call it before
        torch.distributed.destroy_process_group, which ends the communicators. May be called again. It must be after an error that only
        the GPU found, because the end of the plan waits until the communicators of a failed exchange are aborted."""
        self.wait()
        for half in self.list_halves():
            half.close()
        self.processes.close()
        if not any(other.is_open for other in Halves._all):
            Processes.forget_groups()

    @property
    def is_open(self) -> bool:
        return any(half.is_open for half in self.list_halves())

    def __deepcopy__(self, memo: Dict[int, object]) -> "Halves":
        # Copies of a layer share the plan.
        return self

    @property
    def any_pair(self) -> Pair:
        return next(iter(self.pairs.values()))

    def pair_for(self, rows: int) -> Pair:
        if rows not in self.pairs and self.compile_more:
            if self._more == _MOST_MORE:
                raise Error(f"expected at most {_MOST_MORE} numbers of tokens on a rank beside those of seq= and batch=, but got another, "
                            f"{rows}; pad the batches, or give all shapes")
            _log.warning("compiling a plan for %d tokens on a rank", rows)
            self._more += 1
            self.compile_more(rows)
        if rows not in self.pairs:
            raise Error(f"'{self.plan.path}' is for {' or '.join(map(str, sorted(self.pairs)))} tokens on a rank but got {rows}; compile it "
                        "with these shapes (--batch, --seq), or pad the batches")
        return self.pairs[rows]

    @staticmethod
    def by_key(key: int) -> "Halves":
        return Halves._all[key]


@atexit.register
def _close_all() -> None:
    """Closes all plans while Python still runs. Threads that need Python later would end the process. After an error on a GPU,
    the end of any plan there may wait for a step that never ends. Then all are left to the end of the process."""
    for halves in Halves._all:
        try:
            halves.wait()
        except Error as error:
            _log.error("'%s': %s", halves.plan.path, error)
    on_gpus = [half for halves in Halves._all if halves.device.type == "cuda" for half in halves.list_halves()]
    if any(half.has_failed for half in on_gpus):
        for half in on_gpus:
            half.leave()
    for halves in Halves._all:
        halves.close()
