"""Rules on the dynamic batcher: its queue, its priorities, its sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritonclient.grpc import model_config_pb2 as pb

from serving.lint.backends import ENSEMBLE
from serving.lint.model import Model
from serving.lint.rule import Finding, Rule
from serving.lint.sources import MEASURED, REFUSED, VALIDATION

_LIMITS = ("max_queue_size", "default_timeout_microseconds", "allow_timeout_override")
_ADMIT = "admit, time out and rank requests before Triton (serving/engine) or in a gateway"


def _queue_policies(model: Model) -> Iterator[Finding]:
    for where, policy in _policies(model):
        limits = [name for name in _LIMITS if getattr(policy, name)]
        if limits:
            yield Finding(where=where, found=", ".join(limits))


def _policies(model: Model) -> Iterator[tuple[str, Any]]:
    batcher = model.config.dynamic_batching
    if batcher.HasField("default_queue_policy"):
        yield "dynamic_batching.default_queue_policy", batcher.default_queue_policy
    for level, policy in sorted(batcher.priority_queue_policy.items()):
        yield f"dynamic_batching.priority_queue_policy[{level}]", policy


def _prioritised(model: Model) -> Iterator[Finding]:
    levels = model.config.dynamic_batching.priority_levels
    if levels:
        yield Finding(where="dynamic_batching.priority_levels", found=str(levels))


def _levels(model: Model) -> Iterator[Finding]:
    batcher, within = (
        model.config.dynamic_batching,
        f"priority_levels is {model.config.dynamic_batching.priority_levels}",
    )
    if not batcher.priority_levels:
        return
    if not 1 <= batcher.default_priority_level <= batcher.priority_levels:
        found = f"{batcher.default_priority_level}; {within}"
        yield Finding(where="dynamic_batching.default_priority_level", found=found)
    for level in sorted(batcher.priority_queue_policy):
        if not 1 <= level <= batcher.priority_levels:
            yield Finding(where="dynamic_batching.priority_queue_policy", found=f"level {level}; {within}")


def _ordering(model: Model) -> Iterator[Finding]:
    batcher = model.config.dynamic_batching
    if not batcher.preserve_ordering:
        return
    if batcher.priority_levels > 1:
        yield Finding(where="dynamic_batching.preserve_ordering", found=f"{batcher.priority_levels} priority levels")
    for where, policy in _policies(model):
        if policy.default_timeout_microseconds and policy.timeout_action == pb.ModelQueuePolicy.DELAY:
            yield Finding(where=where, found="timeout_action DELAY")


def _preferred(model: Model) -> Iterator[Finding]:
    config = model.config
    batchers = {
        "dynamic_batching": config.dynamic_batching.preferred_batch_size,
        "sequence_batching.oldest": config.sequence_batching.oldest.preferred_batch_size,
    }
    for where, sizes in batchers.items():
        wrong = [size for size in sizes if not 1 <= size <= config.max_batch_size]
        if wrong:
            found = f"{wrong}; max_batch_size is {config.max_batch_size}"
            yield Finding(where=f"{where}.preferred_batch_size", found=found)


def _negative(model: Model) -> Iterator[Finding]:
    if model.config.max_batch_size < 0:
        yield Finding(where="max_batch_size", found=str(model.config.max_batch_size))


def _never_batched(model: Model) -> Iterator[Finding]:
    config = model.config
    if config.HasField("dynamic_batching") and config.max_batch_size <= 1:
        yield Finding(where="dynamic_batching", found=f"max_batch_size is {config.max_batch_size}")
    if config.max_batch_size > 1 and config.WhichOneof("scheduling_choice") is None and model.backend != ENSEMBLE:
        yield Finding(where="max_batch_size", found=f"{config.max_batch_size}, and no batcher")


BATCHING_RULES: tuple[Rule[Model], ...] = (
    Rule(
        name="queue-policy",
        severity="error",
        statement="no queue policy limits a queue's size or time",
        consequence="the batcher looks no further ahead, misses wake-ups and sleeps 500 ms at a time: 16 clients saw "
        "p99 go from 8.5 to 505 ms with max_queue_size and to 507 ms with a timeout, 97 and 166 stalls in 6000",
        source=f"{MEASURED}; triton-inference-server/server #8870, in part mended by core #509 (2026-07)",
        remedy=_ADMIT,
        find=_queue_policies,
    ),
    Rule(
        name="priority-levels",
        severity="error",
        statement="requests are not ranked in Triton's queue",
        consequence="the batcher stalls as with a queue policy: of 3000 requests by 16 clients 17 and 96 waited 500 ms "
        "with two levels, 0 and 7 with one, none with neither",
        source=f"{MEASURED}; core, src/scheduler_utils.cc: PriorityQueue sets support_prefetching_ to false",
        remedy=_ADMIT,
        find=_prioritised,
    ),
    Rule(
        name="priority-range",
        severity="error",
        statement="every priority is one of 1 to priority_levels, the default too",
        consequence=REFUSED,
        source=VALIDATION,
        remedy="state a default_priority_level, and policies of levels that exist",
        find=_levels,
    ),
    Rule(
        name="preserve-ordering",
        severity="error",
        statement="preserve_ordering is not combined with several priorities or with timeout_action DELAY",
        consequence=REFUSED,
        source=VALIDATION,
        remedy="leave one of them out",
        find=_ordering,
    ),
    Rule(
        name="preferred-batch-size",
        severity="error",
        statement="preferred batch sizes are from 1 to max_batch_size",
        consequence=REFUSED,
        source=VALIDATION,
        remedy="correct them, or leave them out: a batch is then whatever came meanwhile",
        find=_preferred,
    ),
    Rule(
        name="batch-size",
        severity="error",
        statement="max_batch_size is not negative",
        consequence=REFUSED,
        source=VALIDATION,
        remedy="0 says that the model's tensors have no batch axis",
        find=_negative,
    ),
    Rule(
        name="never-batched",
        severity="warning",
        statement="a batcher and a max_batch_size above 1 come together",
        consequence="requests run one at a time: one of the two does nothing without the other",
        source="core, src/backend_model.cc: SetConfiguredScheduler",
        remedy="add dynamic_batching { }, or set the max_batch_size that the model takes",
        find=_never_batched,
    ),
)
