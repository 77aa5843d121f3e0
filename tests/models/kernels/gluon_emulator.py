"""The source of models/kernels/hopper_partitions.py on a CPU: partitions are threads, of which one runs at a time.

What a GPU does later is done as late as may be: a copy by TMA when chance or a deadlock demands it, a product when it
is waited for. Memory that is written too early, a barrier in the wrong phase or a missing fence thus becomes a wrong
number or an error; which thread runs next is drawn.
"""

import ast
import random
import threading
from pathlib import Path
from types import SimpleNamespace

import torch

import models.kernels
from models.kernel_configs.specialisation import LOG2_E

SOURCES = Path(models.kernels.__file__).parent


class EmulationError(Exception):
    """What would hang on a GPU, or read what is not there yet."""


class Machine:
    """One block: its threads, copies under way, and products that were not waited for."""

    def __init__(self, seed):
        self._random, self._changed = random.Random(seed), threading.Condition()  # noqa: S311 - drawn, not secret
        self._waiting, self.current, self._failure = {}, None, None
        self.copies, self.products, self.stores = [], {}, {}

    def run(self, calls):
        threads = [threading.Thread(target=self._work, args=(name, *call)) for name, call in enumerate(calls)]
        self._waiting = dict.fromkeys(range(len(calls)), lambda: True)
        self._choose()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def pause(self, ready=lambda: True):
        """Let others run until it is this thread's turn, and ``ready``."""
        name = self.current
        if name is None:  # before threads begin
            return
        with self._changed:
            self._waiting[name] = ready
            self._choose()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.current == name or self._failure)
            if self._failure is not None:
                raise self._failure

    def _work(self, name, function, arguments):
        try:
            with self._changed:
                self._changed.wait_for(lambda: self.current == name or self._failure)
            if self._failure is None:
                function(*arguments)
        except Exception as error:
            self._failure = self._failure or error
        with self._changed:
            del self._waiting[name]
            if self._waiting and self._failure is None:
                try:
                    self._choose()
                except EmulationError as error:
                    self._failure = error
            self._changed.notify_all()

    def _choose(self):
        while True:
            able = [name for name, ready in self._waiting.items() if ready()]
            if self.copies and (not able or self._random.random() < 0.2):
                self.copies.pop(self._random.randrange(len(self.copies)))()
                continue
            if not able:
                raise EmulationError("every partition waits")
            self.current = self._random.choice(able)
            return


class Barrier:
    def __init__(self):
        self.parity, self.missing_bytes = 0, 0

    def init(self, count):
        self.count = self.missing = count

    def arrive(self, count, expected_bytes=0):
        self.missing -= count
        self.missing_bytes += expected_bytes
        self.complete()

    def complete(self, arrived_bytes=0):
        self.missing_bytes -= arrived_bytes
        if self.missing < 0:
            raise EmulationError("more arrivals than a phase has")
        if self.missing == 0 and self.missing_bytes == 0:
            self.missing, self.parity = self.count, 1 - self.parity


class Memory:
    """Shared memory, or a view of it; nothing but a fence shows the asynchronous units what was stored."""

    def __init__(self, tensor, unfenced):
        self.tensor, self.unfenced = tensor, unfenced

    def _view(self, tensor):
        return Memory(tensor, self.unfenced)

    def index(self, number):
        return self._view(self.tensor[number])

    def reshape(self, shape):
        return self._view(self.tensor.view(shape))

    def permute(self, order):
        return self._view(self.tensor.permute(order))

    def slice(self, start, length, dim):
        return self._view(self.tensor.narrow(dim, start, length))

    def load(self, _):
        return self.tensor.clone()

    def store(self, values):
        self.tensor.copy_(values)
        self.unfenced.add("stored")

    def read(self):
        """As TMA or wgmma does."""
        if self.unfenced:
            raise EmulationError("the asynchronous units may not see what was stored: no fence")
        return self.tensor


class Described:
    """A tensor that TMA reads and writes by boxes: zeros come from outside, and nothing is written there."""

    def __init__(self, tensor, box):
        self.tensor, self.dtype, self.layout, self._box = tensor.flatten(0, 1), tensor.dtype, None, box
        self.block_type = SimpleNamespace(nbytes=box[1] * box[2] * tensor.element_size())

    def load(self, place, memory):
        row, first, _ = map(int, place)
        found = self.tensor[row, first : first + self._box[1]]
        memory.tensor.zero_()
        memory.tensor[0, : len(found)] = found

    def store(self, place, memory):
        row, first, _ = map(int, place)
        target = self.tensor[row, first : first + self._box[1]]
        target.copy_(memory.read()[0, : len(target)])


class Number(int):
    def to(self, _):
        return self


class Pointer:
    def __init__(self, tensor, offset=0):
        self._tensor, self._offset = tensor, offset

    def __add__(self, offset):
        return Pointer(self._tensor, self._offset + offset)

    def load(self):
        return Number(self._tensor[self._offset])


class Product:
    def __init__(self, a, b, start):
        self._a, self._b, self._start, self.done = a, b, start, None

    def finish(self):
        a = self._a.read() if isinstance(self._a, Memory) else self._a
        product = a.float() @ self._b.read().float()
        self.done = product if self._start is None else product + self._start


def elementwise(function):
    """Of tensors, or of whole numbers."""

    def call(a, b):
        if isinstance(a, int) and isinstance(b, int):
            return Number((min if function is torch.minimum else max)(a, b))
        return function(torch.as_tensor(a), torch.as_tensor(b))

    return call


LANGUAGE = {
    "exp2": torch.exp2,
    "max": lambda x, axis: x.amax(axis),
    "maximum": elementwise(torch.maximum),
    "minimum": elementwise(torch.minimum),
    "sum": lambda x, axis: x.sum(axis),
    "where": torch.where,
    "zeros": lambda shape, dtype, layout=None: torch.zeros(shape, dtype=dtype),
    "tensor": None,
    "constexpr": None,
    "float32": torch.float32,
}


def names_of_gluon(machine, place, places):
    """What the kernel's source imports."""
    fences = {}

    def allocate(dtype, shape, layout):
        if dtype == "int64":
            return SimpleNamespace(index=[Barrier() for _ in range(shape[0])].__getitem__)
        unfenced = fences.setdefault(len(fences), set())
        return Memory(torch.full(shape, torch.nan, dtype=dtype), unfenced)

    def fence():
        for unfenced in fences.values():
            unfenced.clear()

    def wait(barrier, parity):
        machine.pause(lambda: barrier.parity != parity)

    def expect(barrier, size):
        machine.pause()
        barrier.arrive(1, size)

    def arrive(barrier, count):
        machine.pause()
        barrier.arrive(count)

    def load_tile(described, where, barrier, memory):
        def copy():
            described.load(where, memory)
            barrier.complete(described.block_type.nbytes)

        machine.pause()
        machine.copies.append(copy)

    def store_tile(described, where, memory):
        machine.pause()
        machine.stores[machine.current] = lambda: described.store(where, memory)

    def multiply(a, b, start, use_acc=True, is_async=False):
        assert is_async
        machine.pause()
        product = Product(a, b, start if use_acc else None)
        machine.products.setdefault(machine.current, []).append(product)
        return product

    def wait_for_products(pending, deps):
        machine.pause()
        issued = machine.products[machine.current]
        while len(issued) > pending:
            issued.pop(0).finish()
        (product,) = deps
        if product.done is None:
            raise EmulationError("a product is read before it is there")
        return product.done

    layouts = "BlockedLayout", "DotOperandLayout", "NVMMADistributedLayout", "SliceLayout"
    gl = SimpleNamespace(
        **LANGUAGE,
        **dict.fromkeys(layouts, lambda *_: None),
        int32="int32",
        int64="int64",
        tuple=None,
        program_id=place.__getitem__,
        num_programs=places.__getitem__,
        load=Pointer.load,
        allocate_shared_memory=allocate,
        static_range=range,
        arange=lambda first, end, _: torch.arange(first, end),
        convert_layout=lambda x, _: x,
        warp_specialize=lambda calls, warps, registers: machine.run(calls),
    )
    return {
        "gluon": SimpleNamespace(jit=lambda function: function),
        "gl": gl,
        "fence_async_shared": fence,
        "mbarrier": SimpleNamespace(
            MBarrierLayout=lambda: None,
            init=lambda barrier, count: barrier.init(count),
            wait=wait,
            expect=expect,
            arrive=arrive,
        ),
        "tma": SimpleNamespace(
            async_load=load_tile, async_store=store_tile, store_wait=lambda _: machine.stores[machine.current]()
        ),
        "warpgroup_mma": multiply,
        "warpgroup_mma_wait": wait_for_products,
    }


def run_source(stem, names, edits):
    """Execute a file of the kernels with other names in the place of its imports, and with a line changed."""
    text = (SOURCES / f"{stem}.py").read_text()
    for before, after in edits.get(stem, ()):
        assert before in text, before
        text = text.replace(before, after)
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0, lineno=1, col_offset=0)
    tree.body.insert(0, future)
    exec(compile(ast.fix_missing_locations(tree), stem, "exec"), names)  # noqa: S102 - our own source
    return SimpleNamespace(**names)


def emulate(q, k, v, lengths, *, causal, block_t=64, stages=2, seed=0, edits=None, **_):
    """Attention of ``[B, H, S, D]`` to ``[B, G, M, D]``, block by block."""
    heads, queries, size = q.shape[1:]
    out = torch.full_like(q, torch.nan)
    tiles = -(-queries // 128)
    described = [Described(x, (1, rows, size)) for x, rows in ((q, 64), (k, block_t), (v, block_t), (out, 64))]
    constants = (heads, k.shape[1], size, causal, size**-0.5 * LOG2_E, block_t, stages)
    marked = SimpleNamespace(jit=lambda function: setattr(function, "fn", function) or function)
    softmax = run_source("online_softmax", {"triton": marked, "tl": SimpleNamespace(**LANGUAGE)}, edits or {})
    for row in range(len(q) * heads):
        for tile in range(tiles):
            names = names_of_gluon(Machine(seed + row), (row, tile), (len(q) * heads, tiles))
            kernel = run_source("hopper_partitions", {**names, "online_softmax": softmax}, edits or {})
            kernel.hopper_flash_attention_kernel(
                *described[:3], Pointer(lengths), Number(queries), Number(k.shape[2]), described[3], *constants
            )
    return out
