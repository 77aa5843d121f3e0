"""Faults as data: one TOML file a scenario, which says what is done, to what, and what is expected of it.

A scenario with several targets is several rounds. In a round all traffics run at once while the fault is injected; each
traffic of it is one cell of the matrix, judged by its own requests.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

FOLDER = Path(__file__).parent / "scenarios"
TRAFFICS = Path(__file__).parent / "traffics.toml"
MODELS = ("digits-vit", "dates-transformer", "stdlib-lm")
MODEL_OF = {
    "classify": "digits-vit",
    "translate": "dates-transformer",
    "beams": "dates-transformer",
    "generate": "stdlib-lm",
}
"""Kind of request → the model that answers it."""


class Traffic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Clients that each send one request after the other.

    Attributes:
        kinds: of requests, as in :data:`MODEL_OF`; each is drawn.
        via: ``client`` is Attendant's own client, ``grpc`` the bare one of Triton.
        clients: how many at once.
        pause_s: between an answer and the next request.
        stream: whether tokens come as they are decoded.
    """

    kinds: tuple[str, ...]
    via: Literal["client", "grpc", "gateway"] = "grpc"
    clients: int = 1
    pause_s: float = 0.05
    stream: bool = True

    @property
    def models(self) -> list[str]:
        return sorted({MODEL_OF[kind] for kind in self.kinds})


class Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that is done; benchmarks/chaos/faults.py says what each kind needs.

    Attributes:
        do: signal, pause, slow, limit, fill, clock, clients, or repository.
        process: worker (what a model computes in: its engine, or its stub where it has none), stub, server, guard or
            serve.
        model: whose worker; the round's target if not given.
        after_s: when, since the round's fault began.
        times: how often, each time when the process is back.
        count: of clients.
    """

    do: Literal["signal", "pause", "slow", "limit", "fill", "clock", "clients", "repository"]
    process: Literal["worker", "stub", "server", "guard", "serve"] = "worker"
    model: str = ""
    signal: str = "KILL"
    after_s: float = 0.0
    seconds: float = 0.0
    times: int = 1
    every_s: float = 0.5
    kind: str = ""
    count: int = 1
    amount: float = 0.0


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is special about the server; a scenario that says so has one of its own.

    Attributes:
        change: what is done to the repository before the start, to the target's folder in it.
        disk_mb: size of its temporary folder's file system; as the machine has it if 0.
        shm_mb: likewise of shared memory.
        clock: whether its clock can be set, by a library that is loaded before all others.
    """

    change: Literal["", "truncate", "manifest", "add"] = ""
    disk_mb: int = 0
    shm_mb: int = 0
    clock: bool = False


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a fault may do at most; a bound that is not given holds nothing.

    Attributes:
        ended_s: requests to the target that are in flight when it begins, and fail, have ended by then.
        back_s: the target answers a request that was sent after it began.
        others_failed: requests to other models that fail.
        target_failed: requests to the target that fail.
        silence_s: between two signs of life of an answer.
        may_cut: whether an answer may break off without an error, as where the gateway itself is killed.
        complete: whether what is in flight when it begins is answered as a whole.
        exit_status: of the server, which must end; it must not where this is missing.
        exit_s: how long that may take.
        same_processes: whether no process of the server may end.
        missing: whether the target is not served at all, and the others are.
        codes: of errors that alone may come.
        bare_may_be_silent: whether a stream of Triton's bare client may hear nothing: Triton never ends those of a dead
            worker; our client and the gateway do.
    """

    ended_s: float | None = None
    back_s: float | None = None
    others_failed: int | None = 0
    target_failed: int | None = None
    silence_s: float = 5.0
    may_cut: bool = False
    complete: bool = False
    exit_status: int | None = None
    exit_s: float | None = None
    same_processes: bool = False
    missing: bool = False
    codes: tuple[str, ...] = ()
    bare_may_be_silent: bool = False


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file.

    Attributes:
        summary: what happens, in a sentence.
        faults: what is done, all at once but for their ``after_s``.
        expect: what may come of it.
        targets: models, each a round; the whole server if none is named.
        traffics: of those in traffics.toml; all if none is named.
        lasts_s: the traffic goes on for as long, at the least, after the fault began.
        limit_s: and for no longer, whatever is not back.
        newcomers: whether clients go on to send while the server ends.
        in_tests: targets whose rounds `make test` runs; "" stands for the whole server.
    """

    summary: str
    expect: Expectation
    faults: tuple[Action, ...] = ()
    start: Start = Start()
    targets: tuple[str, ...] = ("",)
    traffics: tuple[str, ...] = ()
    lasts_s: float = 1.0
    limit_s: float = 25.0
    newcomers: bool = True
    in_tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One fault on one target, with the traffics around it."""

    name: str
    scenario: Scenario
    target: str
    traffics: tuple[str, ...]

    @property
    def ends_server(self) -> bool:
        return self.scenario.expect.exit_status is not None

    @property
    def own_server(self) -> bool:
        return self.scenario.start != Start()

    @property
    def label(self) -> str:
        return f"{self.name}@{self.target}" if self.target else self.name

    @property
    def cells(self) -> list[str]:
        return [f"{self.label}/{traffic}" for traffic in self.traffics]


def read_traffics(path: Path = TRAFFICS) -> dict[str, Traffic]:
    """Name → traffic."""
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), dict[str, Traffic])


def read_scenarios(folder: Path = FOLDER) -> dict[str, Scenario]:
    """Name → scenario, of every file of a folder.

    Raises:
        ValueError: a file is no scenario; the message names it.
    """
    scenarios = {}
    for path in sorted(folder.glob("*.toml")):
        try:
            scenarios[path.stem] = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Scenario)
        except (ValueError, msgspec.ValidationError) as error:
            raise ValueError(f"{path}: {error}") from error
    return scenarios


def expand(scenarios: dict[str, Scenario], traffics: Sequence[str], in_tests: bool = False) -> list[Round]:
    """The rounds of scenarios: those that leave the server standing first, those with a server of their own last."""
    rounds = [
        Round(name=name, scenario=one, target=target, traffics=tuple(one.traffics or traffics))
        for name, one in scenarios.items()
        for target in one.targets
        if not in_tests or target in one.in_tests
    ]
    return sorted(rounds, key=lambda one: (one.own_server, one.ends_server))
