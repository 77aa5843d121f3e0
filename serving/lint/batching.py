"""Rules on the dynamic batcher: its queue, its priorities, its size."""

from collections.abc import Iterator

from serving.lint.backends import ENSEMBLE
from serving.lint.model import Model
from serving.lint.rule import Finding, rule
from serving.lint.sources import MEASURED

_LIMITS = ("max_queue_size", "default_timeout_microseconds", "allow_timeout_override")
_ADMIT = "admit, time out and rank requests before Triton (serving/engine) or in a gateway"


@rule(
    severity="error",
    statement="no queue policy limits a queue's size or time",
    consequence="the batcher looks no further ahead, misses wake-ups and sleeps 500 ms at a time: 16 clients saw "
    "p99 go from 8.5 to 505 ms with max_queue_size and to 507 ms with a timeout, 97 and 166 stalls in 6000",
    source=f"{MEASURED}; triton-inference-server/server #8870, in part mended by core #509 (2026-07)",
    remedy=_ADMIT,
)
def queue_policy(model: Model) -> Iterator[Finding]:
    batcher = model.config.dynamic_batching
    policies = {f"priority_queue_policy[{level}]": one for level, one in sorted(batcher.priority_queue_policy.items())}
    for where, policy in {"default_queue_policy": batcher.default_queue_policy, **policies}.items():
        limits = [name for name in _LIMITS if getattr(policy, name)]
        if limits:
            yield Finding(where=f"dynamic_batching.{where}", found=", ".join(limits))


@rule(
    severity="error",
    statement="requests are not ranked in Triton's queue",
    consequence="the batcher stalls as with a queue policy: of 3000 requests by 16 clients 17 and 96 waited 500 ms "
    "with two levels, 0 and 7 with one, none with neither",
    source=f"{MEASURED}; core, src/scheduler_utils.cc: PriorityQueue sets support_prefetching_ to false",
    remedy=_ADMIT,
)
def priority_levels(model: Model) -> Iterator[Finding]:
    levels = model.config.dynamic_batching.priority_levels
    if levels:
        yield Finding(where="dynamic_batching.priority_levels", found=str(levels))


@rule(
    severity="warning",
    statement="a batcher and a max_batch_size above 1 come together",
    consequence="requests run one at a time: one of the two does nothing without the other",
    source="core, src/backend_model.cc: SetConfiguredScheduler",
    remedy="add dynamic_batching { }, or set the max_batch_size that the model takes",
)
def never_batched(model: Model) -> Iterator[Finding]:
    config = model.config
    if config.HasField("dynamic_batching") and config.max_batch_size <= 1:
        yield Finding(where="dynamic_batching", found=f"max_batch_size is {config.max_batch_size}")
    if config.max_batch_size > 1 and config.WhichOneof("scheduling_choice") is None and model.backend != ENSEMBLE:
        yield Finding(where="max_batch_size", found=f"{config.max_batch_size}, and no batcher")
