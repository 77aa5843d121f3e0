"""Configurations in which nothing is wrong, and what a case of a broken one is."""

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
