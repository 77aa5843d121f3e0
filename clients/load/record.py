"""What a load test notes while it runs: one record a request, and the load of the generator itself."""

from dataclasses import dataclass, field
from enum import Enum


class RequestOutcome(Enum):
    """What became of a request."""

    OK = "ok"
    WRONG = "wrong"  # answered, but not with what was expected
    ERROR = "error"
    CANCELLED = "cancelled"  # as the scenario says
    DEADLINE_EXCEEDED = "deadline exceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request; times are seconds since the run began, by the monotonic clock.

    Attributes:
        number: in the order of the scheduled times.
        workload: its name in the scenario.
        scheduled_s: when the arrivals meant it to be sent; in a closed loop, when its predecessor ended.
        sent_s: when it was.
        ended_s: when its last response, or its error, came.
        responses_s: when each response with content came; one for a unary request.
        tokens: how many tokens each of those responses brought; zeros where the answer is not made of tokens.
        input_tokens: of the input; zero where it is not made of tokens.
        images: of the input.
        outcome: what became of it.
        error: in one line; empty if there was none.
    """

    number: int
    workload: str
    scheduled_s: float
    sent_s: float
    ended_s: float
    responses_s: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    input_tokens: int = 0
    images: int = 0
    outcome: RequestOutcome = RequestOutcome.OK
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorUsage:
    """The load of the generator itself: the server is not to blame for what it could not do in time.

    Attributes:
        cpu_share: CPU seconds of the generator's process over the seconds of the run.
        loop_lags_s: by how much each wake-up of the event loop was late, in seconds, sampled all along.
        machine_share: CPU seconds of the whole machine over its cores' seconds.
    """

    cpu_share: float
    loop_lags_s: tuple[float, ...] = ()
    machine_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCounts:
    """What the server counted between the beginning and the end of a run, of the scenario's models.

    Attributes:
        requests: that succeeded.
        failures: that did not.
        queue_s: seconds that requests waited before a model took them, all together.
        compute_s: seconds in models, all together.
        other: more counters of the models, name to increase (tokens, cancellations).
    """

    requests: int
    failures: int
    queue_s: float
    compute_s: float
    other: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRun:
    """All that one run left: enough to compute every figure again.

    Attributes:
        scenario: as it was read, in plain values.
        records: of all requests, those of the warm-up too.
        generator: of the generator.
        server: what it counted; None where its metrics could not be read.
        in_process_s: seconds that the same requests take without a server, one each; empty where that was not measured.
        duration_s: from the first scheduled time to the last answer.
        started_at: ISO 8601, UTC.
        command: that began it.
        environment: machine, versions, server; name to value.
        interrupted: whether it was cut short by its user; what was in flight then is no part of it.
    """

    scenario: dict[str, object]
    records: tuple[RequestRecord, ...]
    generator: GeneratorUsage
    server: ServerCounts | None
    duration_s: float
    started_at: str
    command: str
    environment: dict[str, str]
    in_process_s: tuple[float, ...] = ()
    interrupted: bool = False
