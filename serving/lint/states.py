"""Rules on implicit states: tensors that Triton keeps between the requests of a sequence."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tritonclient.grpc import model_config_pb2 as pb

from serving.lint.backends import BACKENDS
from serving.lint.model import Model
from serving.lint.rule import Finding, rule
from serving.lint.sources import MEASURED, STATE_GUIDE, STATES

_KEEPERS = ", ".join(sorted(backend.name for backend in BACKENDS.values() if backend.keeps_states))
_START = pb.ModelSequenceBatching.Control.CONTROL_SEQUENCE_START


def mispaired_states(config: Any) -> list[str]:
    """The input names of states whose place among the sorted inputs is not their output's among the sorted outputs."""
    states = config.sequence_batching.state
    by_input = sorted(states, key=lambda state: state.input_name)
    by_output = sorted(states, key=lambda state: state.output_name)
    pairs = zip(by_input, by_output, strict=True)
    return [one.input_name for one, other in pairs if one.output_name != other.output_name]


@rule(
    severity="error",
    statement="input and output names of the states sort alike",
    consequence="outputs are paired to inputs by their place among the sorted names, so that a step gets another "
    "state's tensor and answers wrongly without an error; states that share one buffer are spared, by reading",
    source=f"triton-inference-server/server #8586, open; {STATES}: std::distance over two maps",
    remedy="one prefix, a zero-padded number, and _in or _out at the very end of every name",
)
def state_order(model: Model) -> Iterator[Finding]:
    wrong = mispaired_states(model.config)
    outputs = {state.input_name: state.output_name for state in model.states}
    standing = dict(zip(sorted(outputs), sorted(outputs.values()), strict=True))
    for name in wrong:
        found = f"its output is {outputs[name]!r}, and {standing[name]!r} stands in its place"
        yield Finding(where=f"state {name!r}", found=found)


@rule(
    severity="error",
    statement="no two states have a name in common",
    consequence="all but one of them are ignored, with a line in the log",
    source=f"{STATES}: SequenceStates::Initialize",
    remedy="give each state an input and an output of its own",
)
def state_twice(model: Model) -> Iterator[Finding]:
    for field in ("input_name", "output_name"):
        counts = Counter(getattr(state, field) for state in model.states)
        for name in sorted(name for name, count in counts.items() if count > 1):
            yield Finding(where=f"state {name!r}", found=f"{field} of {counts[name]} states")


@rule(
    severity="error",
    statement="states of a batching model have a fixed shape",
    consequence="sequences of different lengths are put into one batch under the first one's shape: the batcher "
    "compares shapes of inputs alone",
    source="core, src/backend_model.cc: SetConfiguredScheduler; onnxruntime_backend: SetInputTensors",
    remedy="keep the whole capacity and send a position, or set max_batch_size to 1",
)
def state_shape(model: Model) -> Iterator[Finding]:
    for state in model.states:
        if -1 in state.dims and model.config.max_batch_size > 1:
            found = f"dims {list(state.dims)} with max_batch_size {model.config.max_batch_size}"
            yield Finding(where=f"state {state.input_name!r}", found=found)


@rule(
    severity="warning",
    statement="a state of varying shape has an initial_state",
    consequence="the first request of a sequence gets a state with 1 in the place of every −1",
    source=STATE_GUIDE,
    remedy="add initial_state with the dims of the first step",
)
def state_first_shape(model: Model) -> Iterator[Finding]:
    for state in model.states:
        if -1 in state.dims and not state.initial_state:
            yield Finding(where=f"state {state.input_name!r}", found=f"dims {list(state.dims)} and no initial_state")


@rule(
    severity="error",
    statement="a state has an initial_state, or a START control marks where a sequence begins",
    consequence="the first step reads what the memory held before, another sequence's state for instance",
    source=STATE_GUIDE,
    remedy="add initial_state { zero_data: true } with name, data_type and dims",
)
def state_uninitialised(model: Model) -> Iterator[Finding]:
    controls = model.config.sequence_batching.control_input
    if any(control.kind == _START for one in controls for control in one.control):
        return
    for state in model.states:
        if not state.initial_state:
            yield Finding(where=f"state {state.input_name!r}", found="neither initial_state nor a START control")


@rule(
    severity="error",
    statement="growable states share one buffer, on a GPU",
    consequence="the states of a sequence are not made: an error in the log, and requests without them",
    source=f"{STATES}: SequenceStates::Initialize",
    remedy="set use_same_buffer_for_input_output and KIND_GPU, or leave use_growable_memory out",
)
def state_growable(model: Model) -> Iterator[Finding]:
    kinds = {group.kind for group in model.config.instance_group}
    for state in model.states:
        if state.use_growable_memory and not state.use_same_buffer_for_input_output:
            found = "use_growable_memory without use_same_buffer_for_input_output"
            yield Finding(where=f"state {state.input_name!r}", found=found)
        if state.use_growable_memory and kinds & {pb.ModelInstanceGroup.KIND_CPU, pb.ModelInstanceGroup.KIND_MODEL}:
            found = "use_growable_memory, and an instance group that is not KIND_GPU"
            yield Finding(where=f"state {state.input_name!r}", found=found)


@rule(
    severity="error",
    statement=f"implicit states are the business of these backends: {_KEEPERS}",
    consequence="no other backend takes a state from among a model's outputs: every step sees the first one; the "
    "server loads such a model all the same",
    source=f"{STATE_GUIDE}; {MEASURED}, as far as loading goes",
    remedy="keep the state in the Python model itself, as serving/triton/backends does",
)
def state_backend(model: Model) -> Iterator[Finding]:
    known = model.known_backend
    if model.states and known is not None and not known.keeps_states:
        yield Finding(where="sequence_batching.state", found=f"the backend is {known.name!r}")
