"""Rules on sequences: requests of one conversation that Triton sends to one instance of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritonclient.grpc import model_config_pb2 as pb

from serving.lint.model import Model
from serving.lint.rule import Finding, Rule
from serving.lint.sources import REFUSED, SEQUENCES, VALIDATION

_DEFAULT_IDLE_US = 1_000_000
_CONTROL = pb.ModelSequenceBatching.Control
_VALUES = ("int32_false_true", "fp32_false_true", "bool_false_true")
_IDS = (pb.TYPE_UINT64, pb.TYPE_INT64, pb.TYPE_UINT32, pb.TYPE_INT32, pb.TYPE_STRING)
_READY = _CONTROL.CONTROL_SEQUENCE_READY
_CORRELATION_ID = _CONTROL.CONTROL_SEQUENCE_CORRID
_BATCHER_GUIDE = "server, docs/user_guide/batcher.md"


def _idle(model: Model) -> Iterator[Finding]:
    idle_us = model.config.sequence_batching.max_sequence_idle_microseconds
    if model.config.HasField("sequence_batching") and idle_us <= _DEFAULT_IDLE_US:
        found = f"{idle_us} µs" if idle_us else "not set"
        yield Finding(where="max_sequence_idle_microseconds", found=found)


def _controls(model: Model) -> Iterator[Finding]:
    batcher = model.config.sequence_batching
    if not model.config.HasField("sequence_batching") or model.states or model.config.max_batch_size <= 1:
        return  # Triton's own states follow their sequences, and one sequence at a time needs no telling apart
    kinds = {control.kind for one in batcher.control_input for control in one.control}
    if batcher.HasField("oldest") and _CORRELATION_ID not in kinds:
        yield Finding(where="sequence_batching.oldest", found="no CONTROL_SEQUENCE_CORRID")
    if not batcher.HasField("oldest") and _READY not in kinds:
        yield Finding(where="sequence_batching.direct", found="no CONTROL_SEQUENCE_READY")


def _iterative(model: Model) -> Iterator[Finding]:
    if model.config.sequence_batching.iterative_sequence:
        yield Finding(where="sequence_batching.iterative_sequence", found="true")


def _control_inputs(model: Model) -> Iterator[Finding]:
    inputs = model.config.sequence_batching.control_input
    names = [one.name for one in inputs]
    kinds = [control.kind for one in inputs for control in one.control]
    for one in inputs:
        where = f"control_input {one.name!r}"
        if not one.name or names.count(one.name) > 1:
            yield Finding(where=where, found=f"{names.count(one.name)} of this name" if one.name else "no name")
        for control in one.control:
            for fault in _faults(control, kinds):
                yield Finding(where=where, found=f"{_CONTROL.Kind.Name(control.kind)}: {fault}")


def _faults(control: Any, kinds: list[int]) -> Iterator[str]:
    if kinds.count(control.kind) > 1:
        yield f"{kinds.count(control.kind)} of this kind"
    values = [list(getattr(control, field)) for field in _VALUES if getattr(control, field)]
    if control.kind == _CONTROL.CONTROL_SEQUENCE_CORRID:
        if values or control.data_type not in _IDS:
            yield f"data_type {pb.DataType.Name(control.data_type)}, {len(values)} lists of values"
    elif len(values) != 1 or len(values[0]) != 2:
        yield f"values {values}"


SEQUENCE_RULES: tuple[Rule[Model], ...] = (
    Rule(
        name="sequence-idle",
        severity="warning",
        statement="max_sequence_idle_microseconds is more than 1 s",
        consequence="after 1 s without a request (the default) the slot is given to others and the state is gone: "
        "the next request of a slow client continues nothing, or fails",
        source=f"{VALIDATION}: SEQUENCE_IDLE_DEFAULT_MICROSECONDS; {SEQUENCES}: the reaper thread",
        remedy="set minutes, for instance 300000000; a client that is done ends its sequence",
        find=_idle,
    ),
    Rule(
        name="sequence-controls",
        severity="warning",
        statement="a model that keeps states itself is told whose they are: CORRID for oldest, READY for direct",
        consequence="it cannot tell which row belongs to which sequence, or which slots hold a request at all",
        source=_BATCHER_GUIDE,
        remedy="add the control input, or let Triton keep the state by sequence_batching.state",
        find=_controls,
    ),
    Rule(
        name="control-input",
        severity="error",
        statement="each control has one input of its own: START, END and READY with a value for false and one for "
        "true, CORRID with a data_type for ids",
        consequence=REFUSED,
        source=f"{VALIDATION}: GetBooleanSequenceControlProperties, GetTypedSequenceControlProperties",
        remedy="state for instance fp32_false_true: [ 0, 1 ], or data_type: TYPE_UINT64",
        find=_control_inputs,
    ),
    Rule(
        name="sequence-iterative",
        severity="warning",
        statement="iterative_sequence, which is provisional, is not relied on",
        consequence="the interface may change, and servers before 2025-10 call the release callbacks wrongly",
        source=f"{_BATCHER_GUIDE}; triton-inference-server/core #456",
        remedy="schedule steps in a thread of the model's own, as serving/triton/backends/stream.py does",
        find=_iterative,
    ),
)
