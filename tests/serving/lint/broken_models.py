"""For each rule on models a configuration that breaks it, at one place, and the smallest change that mends it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Case:
    """A sound configuration, what is exchanged in it to break it, and where that shows.

    Attributes:
        text: the sound configuration.
        sound: a part of it.
        broken: what stands there in the broken one.
        at: where the finding is.
        files: relative to the model's folder; what ends in a slash is a folder.
        broken_files: of the broken one, where they differ.
    """

    text: str
    sound: str = ""
    broken: str = ""
    at: str
    files: tuple[str, ...] = ("1/model.onnx",)
    broken_files: tuple[str, ...] | None = field(default=None)

    @property
    def broken_text(self):
        assert self.sound == "" or self.text.count(self.sound) == 1, self.sound
        return self.text.replace(self.sound, self.broken) if self.sound else self.text + self.broken


TENSORS = """
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 2 ] }
"""
WARM_UP = """
model_warmup {
  name: "w" batch_size: 8 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } }
}
"""
PLAIN = f"""
name: "m" backend: "onnxruntime" max_batch_size: 8 dynamic_batching {{ }}
instance_group {{ kind: KIND_CPU count: 1 }} {TENSORS} {WARM_UP}
"""
RANKED = PLAIN.replace("dynamic_batching { }", "dynamic_batching { preserve_ordering: true }")
LABELLED = PLAIN.replace("dims: [ 2 ] }", 'dims: [ 2 ] label_filename: "labels.txt" }')
PYTHON = f'name: "m" backend: "python" {TENSORS}'
STREAM = f"{PYTHON} model_transaction_policy {{ decoupled: true }}"
OWN_STATES = f"""
{PYTHON} max_batch_size: 8
sequence_batching {{
  max_sequence_idle_microseconds: 60000000
  oldest {{ }}
  control_input {{ name: "ID" control {{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }} }}
}}
"""
STATE = """
  state {
    input_name: "kv_00_in" output_name: "kv_00_out" data_type: TYPE_FP16 dims: [ 12, 512 ]
    initial_state { name: "zero" data_type: TYPE_FP16 dims: [ 12, 512 ] zero_data: true }
    use_same_buffer_for_input_output: true
  }
"""
STATES = f"""
name: "m" backend: "onnxruntime" max_batch_size: 8 {TENSORS}
sequence_batching {{
  max_sequence_idle_microseconds: 60000000
  oldest {{ max_candidate_sequences: 32 }}
  {STATE} {STATE.replace("kv_00", "kv_01")}
}}
"""
ONE_STATE = STATES.replace(STATE.replace("kv_00", "kv_01"), "").replace("max_batch_size: 8", "max_batch_size: 1")
GROWING = ONE_STATE.replace("KIND_CPU", "KIND_GPU").replace("_output: true", "_output: true use_growable_memory: true")
STARTED = ONE_STATE.replace(
    "oldest {",
    'control_input { name: "S" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } } oldest {',
)
VARYING = STARTED.replace("TYPE_FP16 dims: [ 12, 512 ]\n", "TYPE_FP16 dims: [ 12, -1 ]\n")
INITIAL = 'initial_state { name: "zero" data_type: TYPE_FP16 dims: [ 12, 512 ] zero_data: true }'
ENSEMBLE = f"""
name: "m" platform: "ensemble" {TENSORS}
ensemble_scheduling {{ step {{
  model_name: "step" model_version: -1
  input_map {{ key: "x" value: "x" }}
  output_map {{ key: "y" value: "y" }}
}} }}
"""
STEP = PLAIN.replace('name: "m"', 'name: "step"')

CASES = {
    "name": Case(text=PLAIN, sound='name: "m"', broken='name: "other"', at="name"),
    "placeholder": Case(
        text=PLAIN + 'parameters { key: "k" value { string_value: "$$TRITON_MODEL_DIRECTORY/e" } }',
        sound="$$TRITON_MODEL_DIRECTORY/e",
        broken="${engine_dir}/e",
        at="parameters['k'].string_value",
    ),
    "backend": Case(
        text=PLAIN,
        sound='backend: "onnxruntime"',
        broken='backend: "onnxruntime" platform: "tensorrt_plan"',
        at="platform",
    ),
    "tensor": Case(text=PLAIN, sound="dims: [ 2 ]", broken="dims: [ 0 ]", at="output 'y'"),
    "reshape": Case(
        text=PLAIN,
        sound="dims: [ 2 ]",
        broken="dims: [ 2 ] reshape { shape: [ 3 ] }",
        at="output 'y'",
    ),
    "version": Case(
        text=PLAIN + "version_policy { specific { versions: [ 1 ] } }",
        sound="versions: [ 1 ]",
        broken="versions: [ 1, 3 ]",
        at="version_policy",
    ),
    "model-file": Case(text=PLAIN, at="1/model.onnx", broken_files=("1/model.plan",)),
    "labels": Case(
        text=LABELLED, at="output 'y'", files=("1/model.onnx", "labels.txt"), broken_files=("1/model.onnx",)
    ),
    "queue-policy": Case(
        text=PLAIN,
        sound="dynamic_batching { }",
        broken="dynamic_batching { default_queue_policy { max_queue_size: 64 } }",
        at="dynamic_batching.default_queue_policy",
    ),
    "priority-levels": Case(
        text=PLAIN,
        sound="dynamic_batching { }",
        broken="dynamic_batching { priority_levels: 2 default_priority_level: 2 }",
        at="dynamic_batching.priority_levels",
    ),
    "priority-range": Case(
        text=PLAIN,
        sound="dynamic_batching { }",
        broken="dynamic_batching { priority_levels: 2 }",
        at="dynamic_batching.default_priority_level",
    ),
    "preserve-ordering": Case(
        text=RANKED,
        sound="preserve_ordering: true",
        broken="preserve_ordering: true priority_levels: 2 default_priority_level: 1",
        at="dynamic_batching.preserve_ordering",
    ),
    "preferred-batch-size": Case(
        text=PLAIN,
        sound="dynamic_batching { }",
        broken="dynamic_batching { preferred_batch_size: [ 4, 16 ] }",
        at="dynamic_batching.preferred_batch_size",
    ),
    "batch-size": Case(
        text=PYTHON + "max_batch_size: 0",
        sound="max_batch_size: 0",
        broken="max_batch_size: -1",
        at="max_batch_size",
        files=("1/model.py",),
    ),
    "never-batched": Case(text=PLAIN, sound="dynamic_batching { }", at="max_batch_size"),
    "sequence-idle": Case(
        text=STATES, sound="max_sequence_idle_microseconds: 60000000", at="max_sequence_idle_microseconds"
    ),
    "sequence-controls": Case(
        text=OWN_STATES,
        sound='control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }',
        at="sequence_batching.oldest",
        files=("1/model.py",),
    ),
    "control-input": Case(
        text=OWN_STATES,
        sound="data_type: TYPE_UINT64",
        broken="data_type: TYPE_FP32",
        at="control_input 'ID'",
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
    "state-initial": Case(
        text=ONE_STATE,
        sound='name: "zero" data_type: TYPE_FP16',
        broken="data_type: TYPE_FP16",
        at="initial_state of 'kv_00_in'",
    ),
    "state-growable": Case(text=GROWING, sound="use_same_buffer_for_input_output: true", at="state 'kv_00_in'"),
    "state-backend": Case(
        text=STATES,
        sound='"onnxruntime"',
        broken='"python"',
        at="sequence_batching.state",
        files=("1/model.onnx", "1/model.py"),
    ),
    "decoupled-batching": Case(
        text=STREAM,
        broken="max_batch_size: 8 dynamic_batching { }",
        at="model_transaction_policy.decoupled",
        files=("1/model.py",),
    ),
    "decoupled-sequence": Case(
        text=OWN_STATES,
        broken="model_transaction_policy { decoupled: true }",
        at="model_transaction_policy.decoupled",
        files=("1/model.py",),
    ),
    "decoupled-backend": Case(
        text=PYTHON.replace('"python"', '"onnxruntime"') + WARM_UP.replace("batch_size: 8", "batch_size: 1"),
        broken="model_transaction_policy { decoupled: true }",
        at="model_transaction_policy.decoupled",
    ),
    "response-cache": Case(
        text=STREAM, broken="response_cache { enable: true }", at="response_cache", files=("1/model.py",)
    ),
    "response-cache-sampled": Case(
        text=PYTHON + "response_cache { enable: true }",
        broken='input { name: "temperature" data_type: TYPE_FP32 dims: [ 1 ] optional: true }',
        at="response_cache",
        files=("1/model.py",),
    ),
    "warm-up": Case(text=PLAIN, sound=WARM_UP, at="model_warmup"),
    "warm-up-skipped": Case(text=PLAIN, sound='name: "w" batch_size: 8', broken='name: "w"', at="model_warmup 'w'"),
    "warm-up-sample": Case(
        text=PLAIN, sound="dims: [ 4 ] zero_data", broken="dims: [ -1 ] zero_data", at="model_warmup 'w'"
    ),
    "warm-up-state": Case(text=STATES, broken=WARM_UP, at="model_warmup"),
    "instance-group": Case(
        text=PLAIN, sound="kind: KIND_CPU", broken="kind: KIND_CPU gpus: [ 0 ]", at="instance_group[0]"
    ),
    "instance-kind": Case(
        text=PLAIN.replace('"onnxruntime"', '"tensorrt"').replace("KIND_CPU", "KIND_GPU"),
        sound="KIND_GPU",
        broken="KIND_CPU",
        at="instance_group[0]",
        files=("1/model.plan",),
    ),
    "ensemble-model": Case(
        text=ENSEMBLE, sound='"step"', broken='"stop"', at="ensemble_scheduling.step[0]", files=("1/",)
    ),
    "ensemble-tensor": Case(
        text=ENSEMBLE,
        sound='input_map { key: "x"',
        broken='input_map { key: "z"',
        at="ensemble_scheduling.step[0].input_map",
        files=("1/",),
    ),
    "ensemble-flow": Case(
        text=ENSEMBLE,
        sound='value: "x"',
        broken='value: "w"',
        at="ensemble_scheduling.step[0].input_map",
        files=("1/",),
    ),
    "ensemble-settings": Case(
        text=ENSEMBLE, broken="instance_group { kind: KIND_CPU }", at="instance_group", files=("1/",)
    ),
}
