"""For each rule on models a configuration that breaks it, at one place, and the smallest change that mends it."""

from tests.serving.lint import broken_sequences
from tests.serving.lint.sound_models import (
    OWN_STATES,
    PLAIN,
    PYTHON,
    STATES,
    STREAM,
    WARM_UP,
    Case,
)

CASES = broken_sequences.CASES | {
    "placeholder": Case(
        text=PLAIN + 'parameters { key: "k" value { string_value: "$$TRITON_MODEL_DIRECTORY/e" } }',
        sound="$$TRITON_MODEL_DIRECTORY/e",
        broken="${engine_dir}/e",
        at="parameters['k'].string_value",
    ),
    "named-code": Case(
        text=PLAIN + 'parameters { key: "k" value { string_value: "env.tar.gz" } }',
        sound='key: "k"',
        broken='key: "EXECUTION_ENV_PATH"',
        at="parameters['EXECUTION_ENV_PATH'].string_value",
    ),
    "version": Case(
        text=PLAIN + "version_policy { specific { versions: [ 1 ] } }",
        sound="versions: [ 1 ]",
        broken="versions: [ 1, 3 ]",
        at="version_policy",
    ),
    "model-file": Case(text=PLAIN, at="1/model.onnx", broken_files=("1/model.plan",)),
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
    "never-batched": Case(text=PLAIN, sound="dynamic_batching { }", at="max_batch_size"),
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
    "response-cache-sampled": Case(
        text=PYTHON + "response_cache { enable: true }",
        broken='input { name: "temperature" data_type: TYPE_FP32 dims: [ 1 ] optional: true }',
        at="response_cache",
        files=("1/model.py",),
    ),
    "warm-up": Case(text=PLAIN, sound=WARM_UP, at="model_warmup"),
    "warm-up-skipped": Case(text=PLAIN, sound='name: "w" batch_size: 8', broken='name: "w"', at="model_warmup 'w'"),
    "warm-up-state": Case(text=STATES, broken=WARM_UP, at="model_warmup"),
}
