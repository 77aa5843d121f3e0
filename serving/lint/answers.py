"""Rules on how answers leave: decoupled responses and the response cache."""

from collections.abc import Iterator

from serving.lint.model import Model
from serving.lint.rule import Finding, rule
from serving.lint.sources import MEASURED

_SAMPLING = frozenset(
    ("temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "random_seed", "runtime_top_k", "runtime_top_p")
)
_SINGLE = frozenset(("tensorrt", "onnxruntime", "openvino", "pytorch"))


def _is_decoupled(model: Model) -> bool:
    return bool(model.config.model_transaction_policy.decoupled)


@rule(
    severity="warning",
    statement="a decoupled model schedules its requests itself, without dynamic_batching",
    consequence="requests that stream reach execute in batches, and the next batch waits until it returns: a long "
    "answer that is made there holds all others up",
    source="python_backend, README: decoupled mode; vllm_backend #46, where a thread of its own gave 18 % more",
    remedy="max_batch_size 0 or 1 and no batcher; execute queues the request, a thread answers it",
)
def decoupled_batching(model: Model) -> Iterator[Finding]:
    if _is_decoupled(model) and model.config.HasField("dynamic_batching"):
        yield Finding(where="model_transaction_policy.decoupled", found="true, with dynamic_batching")


@rule(
    severity="warning",
    statement="a decoupled model is not scheduled by sequence_batching",
    consequence="it must reschedule a request before execute returns, by an interface that is provisional",
    source=f"{MEASURED}: it works there; server, docs/user_guide/batcher.md; core #456",
    remedy="keep each request's state in a thread of the model's own",
)
def decoupled_sequence(model: Model) -> Iterator[Finding]:
    if _is_decoupled(model) and model.config.HasField("sequence_batching"):
        yield Finding(where="model_transaction_policy.decoupled", found="true, with sequence_batching")


@rule(
    severity="warning",
    statement="only a model that sends more or fewer answers than requests is decoupled",
    consequence="a unary ModelInfer is refused with UNIMPLEMENTED, and infer over HTTP too; nothing is gained, for "
    "this backend sends one answer a request",
    source=MEASURED,
    remedy="leave model_transaction_policy out",
)
def decoupled_backend(model: Model) -> Iterator[Finding]:
    if _is_decoupled(model) and model.backend in _SINGLE:
        yield Finding(where="model_transaction_policy.decoupled", found=f"true, of the backend {model.backend!r}")


@rule(
    severity="warning",
    statement="sampled answers are not cached",
    consequence="the same request gets the same sample again; entries have 64 bits of hash, and outlive a load",
    source="server, docs/user_guide/response_cache.md",
    remedy="leave response_cache out, or make the model greedy",
)
def response_cache_sampled(model: Model) -> Iterator[Finding]:
    sampling = sorted(tensor.name for tensor in model.config.input if tensor.name in _SAMPLING)
    if model.config.response_cache.enable and sampling:
        yield Finding(where="response_cache", found=f"inputs {', '.join(sampling)}")
