"""PyTorch behind the Runner protocol: a GPU that has no TensorRT, and a CPU as the slow reference.

Caches are written in place, attention reads the attended length and no more, and on a GPU the step of one token is a
recording, as is what has come in these shapes before: a prompt over keys and values, and a graph without memory
(:mod:`serving.runtime.torch.capture`). So that prompts come again, longer ones are filled up with tokens that nobody
asks about; what these leave behind a row's last position is overwritten before it is attended to. Floats that are not
remembered are converted: a module in half precision takes float32 pixels, and returns float32 logits.

Legend: B batch, T new positions, A attended positions.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from attendant.signature import GraphSignature, TensorSpec
from models.layers.attend import Kernel, attend_by, attend_in_groups
from models.layers.few_rows import step_by
from models.layers.joined import join_projections
from models.layers.kv_cache import write_in_place
from models.layers.mlp import scale_by
from models.layers.recurrent import Recurrent
from models.layers.window_attention import attend_in_windows_by
from serving.runtime.base import Admission, Array, Buffer, not_a_buffer, numpy_dtype
from serving.runtime.index_bounds import require_indices
from serving.runtime.torch.buffer import TorchBuffer, tensor_from_numpy, torch_dtype
from serving.runtime.torch.capture import NewTensors, Recorder, Recording, Recordings, bucket, cuda_recorder

_MASK, _START, _TOKENS = "self_mask", "start", "token_ids"
_FEW = 8
"""New positions up to which a recording is made for each number of them: guesses of speculative decoding."""


class TorchRunner:
    """One graph's module.

    Attributes:
        recordings: of single steps, and of graphs without memory.
        prompts: recordings of several new positions.
    """

    def __init__(
        self,
        signature: GraphSignature,
        module: nn.Module,
        device: torch.device,
        dtype: torch.dtype,
        below: Mapping[str, int] | None = None,
        recorder: Recorder | None = None,
        attention: Kernel = attend_in_groups,
    ) -> None:
        """Take a module over: it is moved, converted, and writes its caches in place from now on.

        Args:
            signature: its tensors.
            module: whose flat inputs and outputs follow the signature; modules of several graphs may share parts.
            device: where it runs.
            dtype: of its weights and of what it computes.
            below: for inputs that index a table, its length.
            recorder: of what is done again; CUDA graphs on a GPU, and nothing on a CPU, if not given.
            attention: what every attention layer computes by; if it has a method ``begin``, that is told the inputs of
                each run; if it has ``in_windows``, ``scaled`` or ``few_rows``, layers of that kind compute by it.
        """
        self.recordings, self.prompts = Recordings(), Recordings()
        self._signature, self._device, self._dtype = signature, device, dtype
        self._admission = Admission(signature)
        # Not twice: recurrent layers would lay their weights out anew, away from where recorded steps read them.
        there = all((one.device.type, one.dtype) == (device.type, dtype) for one in module.parameters())
        self._module = (module if there else module.to(device, dtype)).eval()
        join_projections(self._module)
        write_in_place(self._module)
        attend_by(self._module, attention)
        attend_in_windows_by(self._module, getattr(attention, "in_windows", None))
        scale_by(self._module, getattr(attention, "scaled", None))
        step_by(self._module, getattr(attention, "few_rows", None))
        # It packs its rows by lengths that the host must know, in the middle of what would be recorded.
        self._waits = any(isinstance(part, Recurrent) for part in self._module.modules())
        self._begin: Callable[[Mapping[str, Tensor]], None] = getattr(attention, "begin", _begin_nothing)
        self._below = dict(below or {})
        self._inputs = {spec.name: spec for spec in signature.inputs}
        self._remembered = set(signature.aliases.values())
        self._shown = [spec for spec in signature.outputs if spec.name not in signature.aliases]
        # Of a decoder over keys and values: the axis of its new positions, and how many its caches hold.
        positional = _MASK in self._inputs
        self._new = self._inputs[_TOKENS].axes[1] if positional else None
        self._capacity = int(self._inputs[next(iter(signature.aliases.values()))].axes[2]) if positional else 0
        self._recorder = recorder or (cuda_recorder(device) if device.type == "cuda" else None)

    @property
    def signature(self) -> GraphSignature:
        return self._signature

    def allocate(self, name: str, sizes: Mapping[str, int]) -> TorchBuffer:
        """A zeroed buffer for the input of that name."""
        spec = self._signature.input(name)
        shape = spec.shape(sizes)
        self._signature.check(spec, spec.dtype, shape)
        return TorchBuffer(torch.zeros(shape, dtype=torch_dtype(spec.dtype), device=self._device))

    @torch.no_grad()
    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        if self._inputs.keys() != feeds.keys():
            self._admission.require_names(feeds)
        buffers = {name: feed for name, feed in feeds.items() if isinstance(feed, TorchBuffer)}
        arrays = {name: self._admit_feed(name, feed) for name, feed in feeds.items() if name not in buffers}
        require_indices(arrays, self._below)
        if self._recorder is not None and self._comes_again(filled := self._fill_up(arrays), buffers):
            outputs = self._replay(filled, buffers, self._recorder, _steps(arrays))
        else:
            self._admit(buffers)
            uploaded = {
                name: tensor_from_numpy(array, self._inputs[name].dtype).to(self._device)
                for name, array in arrays.items()
            }
            outputs = self._step(uploaded | {name: buffer.tensor for name, buffer in buffers.items()})
        returned = iter(outputs)
        aliases = self._signature.aliases
        return {
            spec.name: buffers[aliases[spec.name]] if spec.name in aliases else TorchBuffer(next(returned))
            for spec in self._signature.outputs
        }

    def _fill_up(self, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Several new positions as a recording has them, where caches have room for that; anything else as it is."""
        steps = _steps(arrays)
        if _MASK not in arrays or steps <= 1:
            return arrays
        newest, rows = int(arrays[_START].max()), len(arrays[_TOKENS])
        longer = steps if steps <= _FEW else bucket(steps, self._capacity - newest)
        attended = bucket(max(arrays[_MASK].shape[3], newest + longer), self._capacity)
        token_ids = np.zeros((rows, longer), np.int64)
        token_ids[:, :steps] = arrays[_TOKENS]
        # Of the mask, the size alone: a recording makes it of the starts (:func:`_causal`).
        return {**arrays, _TOKENS: token_ids, _MASK: np.broadcast_to(np.True_, (rows, 1, longer, attended))}

    def _comes_again(self, arrays: Mapping[str, Array], buffers: Mapping[str, TorchBuffer]) -> bool:
        steps, recordings = _steps(arrays), self.recordings
        if self._remembered:
            if steps <= 1 or _MASK not in arrays:
                return steps == 1
            recordings = self.prompts
        elif self._waits:
            return False
        return recordings.came_before(_key({name: array.shape for name, array in arrays.items()}, buffers))

    def _admit_feed(self, name: str, feed: Array | Buffer) -> Array:
        if name in self._remembered:
            raise not_a_buffer(name, feed)
        spec, array = self._inputs[name], feed if isinstance(feed, np.ndarray) else feed.numpy()
        fits = array.dtype == numpy_dtype(spec.dtype)
        self._admission.require(spec, spec.dtype if fits else array.dtype.name, array.shape)
        return array

    def _admit(self, buffers: Mapping[str, TorchBuffer]) -> None:
        for name, buffer in buffers.items():
            self._admission.require(self._inputs[name], buffer.dtype, buffer.place[1])

    def _step(self, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        named = list(zip(self._signature.outputs, self._compute(inputs), strict=True))
        shown = []
        for spec, output in named:
            source = self._signature.aliases.get(spec.name)
            if source is None:
                shown.append(output.to(torch_dtype(spec.dtype)))
            elif output.data_ptr() != inputs[source].data_ptr():  # a state, which its module returns anew
                inputs[source].copy_(output)
        return shown

    def _compute(self, inputs: Mapping[str, Tensor]) -> Sequence[Tensor]:
        self._begin(inputs)
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # float32 means 24 bits
            outputs = self._module(*(self._convert(spec, inputs[spec.name]) for spec in self._signature.inputs))
        return [outputs] if isinstance(outputs, Tensor) else outputs

    def _convert(self, spec: TensorSpec, tensor: Tensor) -> Tensor:
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def _replay(
        self, arrays: Mapping[str, Array], buffers: Mapping[str, TorchBuffer], recorder: Recorder, steps: int
    ) -> list[Tensor]:
        shapes = {name: array.shape for name, array in arrays.items()}
        if _MASK in shapes:
            *others, attended = shapes[_MASK]
            shapes[_MASK] = (*others, bucket(attended, self._capacity))
        recordings = self.prompts if self._remembered and steps > 1 else self.recordings
        # A key that is known has been admitted: of a deep decoder, that is most of what is left to do here.
        key = _key(shapes, buffers)
        recording = recordings.get(key, lambda: self._record(shapes, arrays, buffers, recorder))
        outputs = recording.replay(arrays)
        return [
            output[tuple(slice(steps if axis == self._new else None) for axis in spec.axes)].clone()
            for spec, output in zip(self._shown, outputs, strict=True)
        ]

    def _record(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        arrays: Mapping[str, Array],
        buffers: Mapping[str, TorchBuffer],
        recorder: Recorder,
    ) -> Recording:
        self._admit(buffers)
        made = {_MASK} & shapes.keys() if _steps(arrays) > 1 else set[str]()
        written = {name: (self._inputs[name].dtype, shape) for name, shape in shapes.items() if name not in made}
        new = NewTensors(written, self._device)
        new.write(arrays)

        def inputs() -> dict[str, Tensor]:
            masks = {name: _causal(new.tensors[_START], shapes[name]) for name in made}
            return new.tensors | {name: buffer.tensor for name, buffer in buffers.items()} | masks

        # Warming up writes keys and values that the step itself writes again, and leaves states as they are.
        return Recording(new, recorder(lambda: list(self._compute(inputs())), lambda: self._step(inputs())))


def _steps(arrays: Mapping[str, Array]) -> int:
    return arrays[_TOKENS].shape[1] if _TOKENS in arrays else 0


def _causal(start_B: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Which of the attended positions each new one sees, as :func:`serving.runtime.cached_decoder.self_mask` has it."""
    new_T, attended_A = (torch.arange(size, device=start_B.device) for size in shape[2:])
    return attended_A <= (start_B[:, None] + new_T)[:, None, :, None]


def _key(shapes: Mapping[str, tuple[int, ...]], buffers: Mapping[str, TorchBuffer]) -> Hashable:
    return tuple(buffers), tuple([buffer.place for buffer in buffers.values()]), tuple(shapes.items())


def _begin_nothing(inputs: Mapping[str, Tensor]) -> None:
    pass
