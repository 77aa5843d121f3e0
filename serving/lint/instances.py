"""Rules on instances: on which devices a model runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritonclient.grpc import model_config_pb2 as pb

from serving.lint.model import Model
from serving.lint.rule import Finding, Rule
from serving.lint.sources import REFUSED, VALIDATION

_GROUP = pb.ModelInstanceGroup


def _groups(model: Model) -> Iterator[Finding]:
    for index, group in enumerate(model.config.instance_group):
        for fault in _faults(model, group):
            yield Finding(where=f"instance_group[{index}]", found=fault)


def _faults(model: Model, group: Any) -> Iterator[str]:
    if group.gpus and group.kind in (_GROUP.KIND_CPU, _GROUP.KIND_MODEL):
        yield f"{_GROUP.Kind.Name(group.kind)} with gpus {list(group.gpus)}"
    if any(number < 0 for number in group.gpus):
        yield f"gpus {list(group.gpus)}"
    if group.count < 0:
        yield f"count {group.count}"
    if group.profile and model.backend != "tensorrt":
        yield f"profile {list(group.profile)}, which TensorRT alone has"
    yield from (f"profile {profile!r}" for profile in group.profile if not profile.isdecimal())


def _cpu_engine(model: Model) -> Iterator[Finding]:
    for index, group in enumerate(model.config.instance_group):
        if model.backend == "tensorrt" and group.kind == _GROUP.KIND_CPU:
            yield Finding(where=f"instance_group[{index}]", found="KIND_CPU")


INSTANCE_RULES: tuple[Rule[Model], ...] = (
    Rule(
        name="instance-group",
        severity="error",
        statement="an instance group names GPUs only with KIND_GPU, and profiles, by number, only of TensorRT",
        consequence=REFUSED,
        source=f"{VALIDATION}: ValidateInstanceGroup",
        remedy="leave out what its kind does not have",
        find=_groups,
    ),
    Rule(
        name="instance-kind",
        severity="error",
        statement="TensorRT's engines run on GPUs",
        consequence=REFUSED,
        source="tensorrt_backend, src/tensorrt_model_instance.cc",
        remedy="set KIND_GPU, or serve the ONNX graph",
        find=_cpu_engine,
    ),
)
