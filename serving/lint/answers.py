"""Rules on how answers leave: decoupled responses and the response cache."""

from __future__ import annotations

from collections.abc import Iterator

from serving.lint.model import Model
from serving.lint.rule import Finding, Rule
from serving.lint.sources import MEASURED, REFUSED, VALIDATION

_SAMPLING = frozenset(
    ("temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "random_seed", "runtime_top_k", "runtime_top_p")
)
_SINGLE = frozenset(("tensorrt", "onnxruntime", "openvino", "pytorch"))


def _decoupled(model: Model) -> bool:
    return bool(model.config.model_transaction_policy.decoupled)


def _batched_streams(model: Model) -> Iterator[Finding]:
    if _decoupled(model) and model.config.HasField("dynamic_batching"):
        yield Finding(where="model_transaction_policy.decoupled", found="true, with dynamic_batching")


def _sequences_of_streams(model: Model) -> Iterator[Finding]:
    if _decoupled(model) and model.config.HasField("sequence_batching"):
        yield Finding(where="model_transaction_policy.decoupled", found="true, with sequence_batching")


def _single(model: Model) -> Iterator[Finding]:
    if _decoupled(model) and model.backend in _SINGLE:
        yield Finding(where="model_transaction_policy.decoupled", found=f"true, of the backend {model.backend!r}")


def _uncacheable(model: Model) -> Iterator[Finding]:
    if not model.config.response_cache.enable:
        return
    if _decoupled(model):
        yield Finding(where="response_cache", found="of a decoupled model")
    if model.config.HasField("sequence_batching"):
        yield Finding(where="response_cache", found="with sequence_batching")


def _cached_samples(model: Model) -> Iterator[Finding]:
    sampling = sorted(tensor.name for tensor in model.config.input if tensor.name in _SAMPLING)
    if model.config.response_cache.enable and sampling:
        yield Finding(where="response_cache", found=f"inputs {', '.join(sampling)}")


ANSWER_RULES: tuple[Rule[Model], ...] = (
    Rule(
        name="decoupled-batching",
        severity="warning",
        statement="a decoupled model schedules its requests itself, without dynamic_batching",
        consequence="requests that stream reach execute in batches, and the next batch waits until it returns: a long "
        "answer that is made there holds all others up",
        source="python_backend, README: decoupled mode; vllm_backend #46, where a thread of its own gave 18 % more",
        remedy="max_batch_size 0 or 1 and no batcher; execute queues the request, a thread answers it",
        find=_batched_streams,
    ),
    Rule(
        name="decoupled-sequence",
        severity="warning",
        statement="a decoupled model is not scheduled by sequence_batching",
        consequence="it must reschedule a request before execute returns, by an interface that is provisional",
        source=f"{MEASURED}: it works there; server, docs/user_guide/batcher.md; core #456",
        remedy="keep each request's state in a thread of the model's own",
        find=_sequences_of_streams,
    ),
    Rule(
        name="decoupled-backend",
        severity="warning",
        statement="only a model that sends more or fewer answers than requests is decoupled",
        consequence="a unary ModelInfer is refused with UNIMPLEMENTED, and infer over HTTP too; nothing is gained, for "
        "this backend sends one answer a request",
        source=MEASURED,
        remedy="leave model_transaction_policy out",
        find=_single,
    ),
    Rule(
        name="response-cache",
        severity="error",
        statement="answers of decoupled models and of sequences are not cached",
        consequence=REFUSED,
        source=VALIDATION,
        remedy="leave response_cache out",
        find=_uncacheable,
    ),
    Rule(
        name="response-cache-sampled",
        severity="warning",
        statement="sampled answers are not cached",
        consequence="whoever asks the same again gets the same sample; entries are told apart by 64 bits of hash",
        source="server, docs/user_guide/response_cache.md",
        remedy="leave response_cache out, or make the model greedy",
        find=_cached_samples,
    ),
)
