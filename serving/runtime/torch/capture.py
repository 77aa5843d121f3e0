"""Work recorded once and replayed: a GPU starts a whole step at once instead of kernel by kernel.

A recording of a decoder's step holds for one batch size, one attended length and one place of every buffer. So that
there are few, the attended length is rounded up (:func:`bucket`), and the mask hides what that adds. What remembers
nothing is recorded when inputs of the same shapes come again. What is new is written to memory of the recording's own,
in one copy, but for large inputs, which have one each.

Legend: B batch, A attended positions, M capacity.
Source: CUDA C++ programming guide, "CUDA Graphs"; ``torch.cuda.graph``.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from math import prod

import numpy as np
import torch
from torch import Tensor

from serving.runtime.base import Array, numpy_dtype
from serving.runtime.torch.buffer import tensor_from_numpy, torch_dtype

Work = Callable[[], list[Tensor]]
"""Computes a step from tensors whose addresses stay."""
Recorder = Callable[[Work, Work], Work]
"""From work that may be done any number of times, and work that is to be recorded and not done, to what does the latter
again; the tensors that it returns are overwritten by the next time."""

SHORTEST = 64
"""The least attended length that is recorded."""
MOST_RECORDINGS = 256
"""Of one graph; beyond them, the one that was not used for longest is dropped."""
MOST_PACKED_BYTES = 2**20
"""Of an input that is copied along with others; a larger one would be moved once more on the host."""
_WARM_UPS = 2
_ALIGNMENT = 16


def bucket(attended: int, capacity: int) -> int:
    """The attended length that is recorded for one that is asked: at most a quarter longer, or :data:`SHORTEST`.

    Args:
        attended: A.
        capacity: M, which is not exceeded.
    """
    step = max(SHORTEST, 1 << max(0, (attended - 1).bit_length() - 3))
    return min(-(-attended // step) * step, capacity)


class NewTensors:
    """Tensors of one recording that change from step to step, in one piece of memory but for the large ones.

    Attributes:
        tensors: input name → its view of that memory, or its own.
    """

    def __init__(self, shapes: Mapping[str, tuple[str, tuple[int, ...]]], device: torch.device) -> None:
        self._places: dict[str, tuple[slice, str, tuple[int, ...]]] = {}
        self._large: dict[str, str] = {}
        self.tensors: dict[str, Tensor] = {}
        end = 0
        for name, (dtype, shape) in shapes.items():
            nbytes = numpy_dtype(dtype).itemsize * prod(shape)
            if nbytes > MOST_PACKED_BYTES:
                self._large[name] = dtype
                self.tensors[name] = torch.zeros(shape, dtype=torch_dtype(dtype), device=device)
                continue
            self._places[name] = slice(end, end + nbytes), dtype, shape
            end += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        self._bytes = torch.zeros(end, dtype=torch.uint8, device=device)
        for name, (place, dtype, shape) in self._places.items():
            self.tensors[name] = self._bytes[place].view(torch_dtype(dtype)).view(shape)

    def write(self, arrays: Mapping[str, Array]) -> None:
        """Replace all of them; one that is shorter than its place is filled up with zeros."""
        for name, dtype in self._large.items():
            large, array = self.tensors[name], arrays[name]
            if array.shape != large.shape:
                large.zero_()
            large[tuple(map(slice, array.shape))].copy_(tensor_from_numpy(array, dtype))
        if not self._places:
            return
        packed = np.zeros(len(self._bytes), dtype=np.uint8)
        for name, (place, dtype, shape) in self._places.items():
            whole = packed[place].view(numpy_dtype(dtype)).reshape(shape)
            whole[tuple(map(slice, arrays[name].shape))] = arrays[name]
        host = torch.from_numpy(packed)
        # Pinned, so that nothing waits; torch does not give that memory away before the copy is done.
        self._bytes.copy_(host.pin_memory() if self._bytes.is_cuda else host, non_blocking=True)


class Recording:
    """One step that can be done again."""

    def __init__(self, new: NewTensors, work: Work) -> None:
        self._new, self._work = new, work

    def replay(self, arrays: Mapping[str, Array]) -> list[Tensor]:
        """Do it with other new tensors."""
        self._new.write(arrays)
        return self._work()


class Recordings:
    """Those of one graph, the one that was not used for longest dropped first."""

    def __init__(self, most: int = MOST_RECORDINGS) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, Recording] = OrderedDict()
        self._asked: OrderedDict[Hashable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def came_before(self, key: Hashable) -> bool:
        """Whether this was asked of that key before, and of few others since."""
        before = key in self._asked
        self._asked[key] = None
        self._asked.move_to_end(key)
        if len(self._asked) > self._most:
            self._asked.popitem(last=False)
        return before

    def get(self, key: Hashable, record: Callable[[], Recording]) -> Recording:
        """The recording of that key, made if there is none."""
        if key not in self._known:
            self._known[key] = record()
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]


def cuda_recorder(device: torch.device) -> Recorder:
    """Records CUDA graphs, all of which share one pool of memory: one of them runs at a time."""
    pool = torch.cuda.graph_pool_handle()

    def record(warm_up: Work, work: Work) -> Work:
        with torch.cuda.device(device):
            stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # what libraries allocate and choose at their first call is not recorded
                for _ in range(_WARM_UPS):
                    warm_up()
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
                outputs = work()

        def replay() -> list[Tensor]:
            graph.replay()
            return outputs

        return replay

    return record
