"""For each rule on sequences and their states a configuration that breaks it; see broken_models.py."""

from tests.serving.lint.sound_models import GROWING, INITIAL, ONE_STATE, OWN_STATES, STATES, VARYING, Case

CASES = {
    "sequence-idle": Case(
        text=STATES, sound="max_sequence_idle_microseconds: 60000000", at="max_sequence_idle_microseconds"
    ),
    "sequence-controls": Case(
        text=OWN_STATES,
        sound='control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }',
        at="sequence_batching.oldest",
        files=("1/model.py",),
    ),
    "sequence-iterative": Case(
        text=OWN_STATES,
        sound="oldest { }",
        broken="oldest { } iterative_sequence: true",
        at="sequence_batching.iterative_sequence",
        files=("1/model.py",),
    ),
    "state-order": Case(text=STATES, sound='"kv_01_out"', broken='"a_kv_01_out"', at="state 'kv_00_in'"),
    "state-twice": Case(text=STATES, sound='"kv_01_out"', broken='"kv_00_out"', at="state 'kv_00_out'"),
    "state-shape": Case(
        text=STATES.replace("TYPE_FP16 dims: [ 12, 512 ]\n", "TYPE_FP16 dims: [ 12, -1 ]\n").replace(
            "max_batch_size: 8", "max_batch_size: 1"
        ),
        sound="max_batch_size: 1",
        broken="max_batch_size: 8",
        at="state 'kv_00_in'",
    ),
    "state-first-shape": Case(text=VARYING, sound=INITIAL, at="state 'kv_00_in'"),
    "state-uninitialised": Case(text=ONE_STATE, sound=INITIAL, at="state 'kv_00_in'"),
    "state-growable": Case(text=GROWING, sound="use_same_buffer_for_input_output: true", at="state 'kv_00_in'"),
    "state-backend": Case(
        text=STATES,
        sound='"onnxruntime"',
        broken='"python"',
        at="sequence_batching.state",
        files=("1/model.onnx", "1/model.py"),
    ),
}
