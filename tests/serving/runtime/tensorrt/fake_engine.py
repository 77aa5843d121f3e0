"""An engine whose runs are ONNX Runtime's, in the fake driver's memory, held to what TensorRT asks of its callers."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import onnxruntime as ort

from attendant.engine_manifest import Engine, Profile
from serving.runtime.base import numpy_dtype

_NAMES = {"float32": "FLOAT", "float16": "HALF", "int64": "INT64", "bool": "BOOL", "uint8": "UINT8"}


def described(signature, profiles, aliases=None, plugins=()):
    """What an engine manifest would say of the graph's engine."""
    return Engine(
        graph=signature.name,
        sha256="",
        source=f"{signature.name}.onnx",
        built_from={},
        profiles=tuple(profiles),
        aliases=dict(aliases or {}),
        plugins=dict.fromkeys(plugins, ""),
    )


def whole_profile(signature, name, **fixed):
    """A profile over every size of the signature, except for the axes that are fixed."""

    def sizes(which):
        return {symbol: fixed.get(symbol, getattr(axis, which)) for symbol, axis in signature.axes.items()}

    shapes = {
        spec.name: tuple(spec.shape(sizes(which)) for which in ("min", "opt", "max"))
        for spec in signature.inputs
        if any(isinstance(axis, str) for axis in spec.axes)
    }
    return Profile(name=name, shapes=shapes)


@dataclass
class FakeEngine:
    driver: object
    path: object
    signature: object
    engine: Engine
    contexts: list = field(default_factory=list)

    def __post_init__(self):
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        self.session = ort.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        self.specs = [*self.signature.inputs, *self.signature.outputs]
        self.num_io_tensors = len(self.specs)
        self.num_optimization_profiles = len(self.engine.profiles)
        self.device_memory_size_v2 = 1024

    def get_tensor_name(self, index):
        return self.specs[index].name

    def get_tensor_mode(self, name):
        return SimpleNamespace(name="INPUT" if any(spec.name == name for spec in self.signature.inputs) else "OUTPUT")

    def get_tensor_dtype(self, name):
        return SimpleNamespace(name=_NAMES[self.spec(name).dtype])

    def get_tensor_shape(self, name):
        return [-1 if isinstance(axis, str) else axis for axis in self.spec(name).axes]

    def get_tensor_location(self, name):
        return SimpleNamespace(name="DEVICE")

    def get_tensor_profile_shape(self, name, profile_index):
        return list(self.engine.profiles[profile_index].shapes[name])

    def get_aliased_input_tensor(self, name):
        return self.engine.aliases.get(name)

    def create_execution_context(self, strategy):
        assert strategy == "USER_MANAGED"
        self.contexts.append(FakeContext(self))
        return self.contexts[-1]

    def spec(self, name):
        return next(spec for spec in self.specs if spec.name == name)


@dataclass
class FakeContext:
    engine: FakeEngine
    profile: object = None
    between: tuple = ()
    shapes: dict = field(default_factory=dict)
    addresses: dict = field(default_factory=dict)
    changes: int = 0

    def set_optimization_profile_async(self, profile_index, stream_handle):
        self.profile = self.engine.engine.profiles[profile_index]
        return True

    def set_device_memory(self, memory, size):
        assert size >= self.engine.device_memory_size_v2
        self.between = memory, size

    def set_input_shape(self, name, shape):
        bounds = self.profile.shapes.get(name)
        if bounds is not None and not all(a <= b <= c for a, b, c in zip(bounds[0], shape, bounds[2], strict=True)):
            return False
        self.changes += self.shapes.get(name, shape) != shape  # NVIDIA/TensorRT 4849: plugins leak at each
        self.shapes[name] = shape
        return True

    def get_tensor_shape(self, name):
        sizes = {}
        for spec in self.engine.signature.inputs:
            for axis, size in zip(spec.axes, self.shapes[spec.name], strict=True):
                assert not isinstance(axis, str) or sizes.setdefault(axis, size) == size, f"{axis} is not the same"
        return list(self.engine.spec(name).shape(sizes))

    def set_tensor_address(self, name, memory):
        assert memory % 256 == 0, f"{name} at {memory:#x}: NvInferRuntime.h wants addresses of 256 bytes"
        self.addresses[name] = memory
        return True

    def execute_async_v3(self, stream_handle):
        assert self.profile is not None and self.between, "a context needs a profile and memory"
        assert self.addresses.keys() == {spec.name for spec in self.engine.specs}, "every tensor has an address"
        places = {spec.name: self._place(spec) for spec in self.engine.specs}
        self._require_aliases(places)
        self.engine.driver.run(stream_handle, lambda: self._compute(places))
        return True

    def _place(self, spec):
        inputs = {one.name for one in self.engine.signature.inputs}
        shape = self.shapes[spec.name] if spec.name in inputs else tuple(self.get_tensor_shape(spec.name))
        dtype = numpy_dtype(spec.dtype)
        return self.addresses[spec.name], shape, dtype, int(np.prod(shape)) * dtype.itemsize

    def _require_aliases(self, places):
        aliases = self.engine.engine.aliases
        for output in self.engine.signature.outputs:
            begin, _, _, nbytes = places[output.name]
            for source in self.engine.signature.inputs:
                other, _, _, size = places[source.name]
                if aliases.get(output.name) == source.name:
                    assert begin == other, f"{output.name} and {source.name} must be at one address"
                else:
                    assert begin + nbytes <= other or other + size <= begin, f"{output.name} lies over {source.name}"

    def _compute(self, places):
        driver, signature = self.engine.driver, self.engine.signature
        driver.write(self.between[0], b"\x5a" * self.between[1])
        feeds = {}
        for spec in signature.inputs:
            address, shape, dtype, nbytes = places[spec.name]
            feeds[spec.name] = np.frombuffer(driver.read(address, nbytes), dtype=dtype).reshape(shape)
        results = self.engine.session.run([spec.name for spec in signature.outputs], feeds)
        for spec, result in zip(signature.outputs, results, strict=True):
            address, shape, dtype, _ = places[spec.name]
            assert result.shape == shape and result.dtype == dtype
            driver.write(address, np.ascontiguousarray(result).tobytes())
