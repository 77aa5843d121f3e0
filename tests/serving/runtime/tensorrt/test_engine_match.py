from dataclasses import replace

import pytest

from attendant.engine_manifest import Engine, EngineManifest
from attendant.errors import MachineError
from serving.runtime.tensorrt.engine_match import require_match
from tests.nvidia.engines import H100

H200 = replace(H100, gpu="NVIDIA H200")
A100 = replace(H100, gpu="NVIDIA A100", capability="8.0")
T4 = replace(H100, gpu="Tesla T4", capability="7.5")


def engines(**said):
    engine = Engine(graph="model", sha256="", source="model.onnx", built_from={}, profiles=(), **said)
    return EngineManifest(name="vit", platform=H100, engines=(engine,), command="attendant export tensorrt vit")


@pytest.mark.parametrize(
    ("said", "machine"),
    [
        ({}, H100),
        ({}, replace(H100, driver="600.2", cuda="13.4")),
        ({}, replace(H100, cuda="13.0")),
        ({"version_compatible": True}, replace(H100, tensorrt="11.5.2")),
        ({"hardware": "same-capability"}, H200),
        ({"hardware": "ampere-plus"}, A100),
        ({"hardware": "ampere-plus"}, replace(H100, gpu="NVIDIA B200", capability="10.0")),
    ],
    ids=str,
)
def test_a_machine_that_runs_an_engine_passes(said, machine):
    require_match(engines(**said), machine)


@pytest.mark.parametrize(
    ("said", "machine", "expected", "found"),
    [
        ({}, replace(H100, tensorrt="11.4.1"), "TensorRT 11.4.0", "TensorRT 11.4.1"),
        ({"version_compatible": True}, replace(H100, tensorrt="11.3.0"), "TensorRT 11.4.0 or later", "TensorRT 11.3.0"),
        ({"version_compatible": True}, replace(H100, tensorrt="12.0.0"), "same major version", "TensorRT 12.0.0"),
        ({}, H200, "the GPU NVIDIA H100", "NVIDIA H200"),
        ({}, A100, "compute capability 9.0", "NVIDIA A100 of compute capability 8.0"),
        ({"hardware": "same-capability"}, A100, "compute capability 9.0", "8.0"),
        ({"hardware": "ampere-plus"}, T4, "8.0 or higher", "Tesla T4"),
        ({}, replace(H100, cuda="12.8"), "a driver that knows CUDA 13.3", "which knows CUDA 12.8"),
        ({"plugins": {"a": "b"}}, replace(H100, cuda="13.2"), "a driver that knows CUDA 13.3", "13.2"),
    ],
    ids=str,
)
def test_another_machine_is_refused_by_name_with_the_command_that_rebuilds(said, machine, expected, found):
    with pytest.raises(MachineError) as refusal:
        require_match(engines(**said), machine)
    assert expected in refusal.value.expected and "vit/model.plan" in refusal.value.expected
    assert found in refusal.value.found
    assert "`attendant export tensorrt vit`" in refusal.value.remedy
