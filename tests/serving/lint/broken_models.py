"""For each rule on models a configuration that breaks it, at one place, and the smallest change that mends it."""

from tests.serving.lint import broken_sequences
from tests.serving.lint.sound_models import (
    ENSEMBLE,
    LABELLED,
    OWN_STATES,
    PLAIN,
    PYTHON,
    RANKED,
    STATES,
    STREAM,
    WARM_UP,
    Case,
)

CASES = broken_sequences.CASES | {
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
