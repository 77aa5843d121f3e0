"""TensorRT's runner over the fakes, beside ONNX Runtime's over the same graph."""

from attendant.manifest import Manifest
from serving.runtime.ort.runner import OrtRunner
from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.runner import TrtRunner
from tests.serving.runtime.tensorrt.fake_driver import FakeDriver
from tests.serving.runtime.tensorrt.fake_engine import FakeEngine, described, whole_profile

INWARD, COMPUTE, OUTWARD = 1, 2, 3


class Pair:
    """Both runners of one graph, and what stands below TensorRT's: one engine, or one for each profile."""

    def __init__(self, folder, graph, prompt=(), device=None, apart=False, plugins=()):
        signature = Manifest.read(folder).graph(graph)
        self.driver = device.driver if device else FakeDriver(prompt=prompt)
        self.device = device or Device(self.driver)
        path = folder / f"{graph}.onnx"
        groups = [[profile] for profile in _profiles(signature)] if apart else [_profiles(signature)]
        said = [described(signature, profiles, _scattered(signature), plugins) for profiles in groups]
        self.engines = [FakeEngine(self.driver, path, signature, engine) for engine in said]
        self.engine = self.engines[0]
        self.trt = TrtRunner(list(zip(self.engines, said, strict=True)), signature, self.device, "USER_MANAGED")
        self.ort = OrtRunner(path, signature)


def _profiles(signature):
    if "steps" not in signature.axes:
        return [whole_profile(signature, "every")]
    return [whole_profile(signature, "decode", steps=1, scored=1), whole_profile(signature, "prefill")]


def _scattered(signature):
    return {output: source for output, source in signature.aliases.items() if source.startswith("self_")}
