"""Rules on sequences: requests of one conversation that Triton sends to one instance of a model."""

from collections.abc import Iterator

from tritonclient.grpc import model_config_pb2 as pb

from serving.lint.model import Model
from serving.lint.rule import Finding, rule
from serving.lint.sources import SEQUENCES, VALIDATION

_DEFAULT_IDLE_US = 1_000_000
_CONTROL = pb.ModelSequenceBatching.Control
_READY = _CONTROL.CONTROL_SEQUENCE_READY
_CORRELATION_ID = _CONTROL.CONTROL_SEQUENCE_CORRID
_BATCHER_GUIDE = "server, docs/user_guide/batcher.md"


@rule(
    severity="warning",
    statement="max_sequence_idle_microseconds is more than 1 s",
    consequence="after 1 s without a request (the default) the slot is given to others and the state is gone: "
    "the next request of a slow client continues nothing, or fails",
    source=f"{VALIDATION}: SEQUENCE_IDLE_DEFAULT_MICROSECONDS; {SEQUENCES}: the reaper thread",
    remedy="set minutes, for instance 300000000; a client that is done ends its sequence",
)
def sequence_idle(model: Model) -> Iterator[Finding]:
    idle_us = model.config.sequence_batching.max_sequence_idle_microseconds
    if model.config.HasField("sequence_batching") and idle_us <= _DEFAULT_IDLE_US:
        found = f"{idle_us} µs" if idle_us else "not set"
        yield Finding(where="max_sequence_idle_microseconds", found=found)


@rule(
    severity="warning",
    statement="a model that keeps states itself gets their ids: CORRID for oldest, READY for direct",
    consequence="it cannot tell which row belongs to which sequence, or which slots hold a request at all",
    source=_BATCHER_GUIDE,
    remedy="add the control input, or let Triton keep the state by sequence_batching.state",
)
def sequence_controls(model: Model) -> Iterator[Finding]:
    batcher = model.config.sequence_batching
    if not model.config.HasField("sequence_batching") or model.states or model.config.max_batch_size <= 1:
        return  # Triton's own states follow their sequences, and one sequence at a time needs no telling apart
    kinds = {control.kind for one in batcher.control_input for control in one.control}
    if batcher.HasField("oldest") and _CORRELATION_ID not in kinds:
        yield Finding(where="sequence_batching.oldest", found="no CONTROL_SEQUENCE_CORRID")
    if not batcher.HasField("oldest") and _READY not in kinds:
        yield Finding(where="sequence_batching.direct", found="no CONTROL_SEQUENCE_READY")


@rule(
    severity="warning",
    statement="iterative_sequence, which is provisional, is not relied on",
    consequence="the interface may change, and servers before 2025-10 call the release callbacks wrongly",
    source=f"{_BATCHER_GUIDE}; triton-inference-server/core #456",
    remedy="schedule steps in a thread of the model's own, as serving/triton/backends/stream.py does",
)
def sequence_iterative(model: Model) -> Iterator[Finding]:
    if model.config.sequence_batching.iterative_sequence:
        yield Finding(where="sequence_batching.iterative_sequence", found="true")
