"""What only a machine with TensorRT and a GPU can prove: engines are built, fused and run, with the right numbers.

Run by `make test-trt`. Written where there is no such machine: nothing of it has run yet.
"""

import numpy as np
import pytest

from attendant.engine_manifest import EngineManifest
from attendant.errors import MachineError
from attendant.manifest import Manifest
from tests.conftest import DATES, DIGITS

pytestmark = pytest.mark.needs_tensorrt
TOLERANCE = 2e-2  # two kernels in float16, of tensors around 1


@pytest.fixture(scope="module", autouse=True)
def machine():
    from serving.runtime.tensorrt.cuda_driver import CudaDriver
    from serving.runtime.tensorrt.library import tensorrt_module
    from serving.runtime.tensorrt.this_machine import this_platform

    try:
        platform = this_platform()
        tensorrt_module()
        CudaDriver()
    except MachineError as error:
        pytest.skip(f"needs TensorRT, its Python package, cuda-bindings and a GPU: {error}")
    return platform


@pytest.fixture(scope="module", params=[DIGITS, DATES])
def built(request, tmp_path_factory):
    return _built(request.param, tmp_path_factory.mktemp("built"))


def _built(name, folder, **said):
    from export.artefact.stage import export_onnx
    from export.tensorrt.build import build_engines
    from export.tensorrt.config import EngineConfig

    export_onnx(name, folder / name, precision="fp16")
    build_engines(folder / name, folder / name, (), EngineConfig(**said))
    return folder / name


def test_an_engine_gives_the_other_runners_numbers_over_every_profile(built):
    from export.graph.sample_inputs import sample_inputs
    from serving.runtime.create_runners import create_runners

    manifest = Manifest.read(built)
    ours, theirs = create_runners(built, manifest), create_runners(built, manifest, runtime="onnxruntime")
    for signature in manifest.graphs:
        if signature.aliases:
            continue
        for which in ("min", "opt"):
            sizes = {symbol: getattr(axis, which) for symbol, axis in signature.axes.items()}
            feeds = {name: tensor.numpy() for name, tensor in sample_inputs(signature, sizes).items()}
            wanted = theirs[signature.name].run(feeds)
            for name, buffer in ours[signature.name].run(feeds).items():
                np.testing.assert_allclose(buffer.numpy(), wanted[name].numpy(), atol=TOLERANCE, rtol=TOLERANCE)


def test_translations_are_those_of_the_other_runner_and_steps_are_recorded(tmp_path):
    from serving.engine.text_generation_model import TranslationModel

    folder, answers = _built(DATES, tmp_path), []
    for runtime in ("auto", "onnxruntime"):
        model = TranslationModel(folder, Manifest.read(folder), runtime=runtime)
        answers.append([piece.text for piece in model.stream(model.request("3 May 1999"))])
    assert answers[0] == answers[1]


def test_a_built_engine_is_up_to_date_and_described(built, machine):
    from export.tensorrt.build import build_engines
    from export.tensorrt.config import EngineConfig

    described, done = build_engines(built, built, (), EngineConfig())
    assert not done and described == EngineManifest.read(built)
    assert described.platform == machine
    caches = {name for engine in described.engines for name in engine.aliases.values()}
    assert caches == {name for graph in Manifest.read(built).graphs for name in graph.aliases.values()}


@pytest.mark.parametrize("weights", ["refittable", "stripped"])
def test_engines_with_weights_of_their_graph_answer_as_those_with_fixed_ones(tmp_path, weights):
    from serving.runtime.create_runners import create_runners

    folder = _built(DIGITS, tmp_path, weights=weights)
    manifest = Manifest.read(folder)
    pixels = np.random.default_rng(0).normal(size=manifest.graph("model").inputs[0].shape({"batch": 2}))
    feeds = {"pixels": pixels.astype(np.float32)}
    runners = [create_runners(folder, manifest, runtime=runtime) for runtime in ("auto", "onnxruntime")]
    ours, theirs = (runner["model"].run(feeds)["logits"].numpy() for runner in runners)
    np.testing.assert_allclose(ours, theirs, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("name", [DIGITS, "digits-swin"])
def test_engines_with_plugins_answer_as_the_other_runner(tmp_path, name):
    from serving.runtime.create_runners import create_runners

    folder = _built(name, tmp_path, attention="plugin")
    manifest = Manifest.read(folder)
    assert all(engine.plugins for engine in EngineManifest.read(folder).engines)
    pixels = np.random.default_rng(0).normal(size=manifest.graph("model").inputs[0].shape({"batch": 2}))
    feeds = {"pixels": pixels.astype(np.float32)}
    runners = [create_runners(folder, manifest, runtime=runtime) for runtime in ("auto", "onnxruntime")]
    ours, theirs = (runner["model"].run(feeds)["logits"].numpy() for runner in runners)
    np.testing.assert_allclose(ours, theirs, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("append", [False, True], ids=["TensorScatter", "append in the plugin"])
def test_translations_with_plugins_are_those_of_the_other_runner(tmp_path, append):
    from serving.engine.text_generation_model import TranslationModel

    folder, answers = _built(DATES, tmp_path, attention="plugin", append_in_plugin=append), []
    for runtime in ("auto", "onnxruntime"):
        model = TranslationModel(folder, Manifest.read(folder), runtime=runtime)
        answers.append([piece.text for piece in model.stream(model.request("3 May 1999"))])
    assert answers[0] == answers[1]


def test_prompts_of_ever_new_lengths_do_not_eat_the_devices_memory(tmp_path):
    """NVIDIA/TensorRT #4849: with plugins, each change of a shape leaks a module."""
    from cuda.bindings import driver

    from serving.runtime.cached_decoder import CachedDecoder
    from serving.runtime.create_runners import create_runners

    folder = _built("gpt2-tiny", tmp_path, attention="plugin")
    runner = create_runners(folder, Manifest.read(folder))["decoder"]
    capacity, free = CachedDecoder(runner, 1).capacity, []
    for _ in range(3):
        for length in range(2, capacity):
            decoder = CachedDecoder(runner, 1)
            last = np.array([[length - 1]])
            decoder.step(np.ones((1, length), dtype=np.int64), np.zeros(1, dtype=np.int64), last)
        free.append(driver.cuMemGetInfo()[1])
    assert free[1] - free[2] < 2**20, "the first round makes what the later ones use"
