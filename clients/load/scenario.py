"""What a load test does: which server it loads, when, with what, and what the right answer is."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from attendant.errors import ConfigError
from attendant.sampling_params import SamplingParams, is_set
from clients.load.arrivals import Arrivals, ClosedLoop, Replay, kind_of
from clients.tls import Tls

Transport = Literal["grpc", "http", "openai"]
InputKind = Literal["example", "random", "zeros", "files", "texts", "synthetic"]
ExpectKind = Literal["nothing", "example", "same", "text", "label", "arrays"]
Endpoint = Literal["chat", "completions", "embeddings"]
ADDRESSES: dict[Transport, str] = {
    "grpc": "127.0.0.1:8001",
    "http": "127.0.0.1:8000",
    "openai": "http://127.0.0.1:8080/v1",
}
"""Where a server is sought that no address is given of: Triton's own ports, and the gateway's."""
MOST_WEIGHT = 1e9
MOST_SYNTHETIC_TOKENS = 20_000_000
MOST_SECONDS, MOST_REQUESTS, MOST_SEED = 1e9, 1_000_000_000, 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server that is loaded.

    Attributes:
        transport: ``grpc`` and ``http`` are Triton's own, ``openai`` is any server of that protocol.
        address: host and port; of the OpenAI protocol an address with scheme, as ``http://127.0.0.1:8080/v1``.
        metrics: host and port where Prometheus reads Triton's counters; they are not read if empty.
        shared_memory: whether tensors are passed in memory that client and server share; if the server refuses, they
            are sent, and the run's environment says so.
        timeout_s: an answer, or the next part of one, that takes longer is an error; a whole one, twenty times as long.
        connections: over which requests are spread in turn; of grpc alone.
        key_file: a file with the key that the server asks for; of openai alone.
        admin_key_file: the file of `attendant serve --admin-key-file`, without which it takes no shared memory.
        tls, ca, cert, key, tls_name: TLS towards it; see :class:`clients.tls.Tls`.

    Raises:
        ConfigError: a number is not above 0 or beyond reason, the transport has no shared memory, or a certificate
            lacks its key.
    """

    transport: Transport = "grpc"
    address: str = ADDRESSES["grpc"]
    metrics: str = ""
    shared_memory: bool = False
    timeout_s: float = 30.0
    connections: int = 1
    key_file: str = ""
    admin_key_file: str = ""
    tls: bool = False
    ca: str = ""
    cert: str = ""
    key: str = ""
    tls_name: str = ""

    def __post_init__(self) -> None:
        _require_above_0(self, timeout_s=MOST_SECONDS, connections=1024)
        if self.shared_memory and self.transport == "openai":
            raise ConfigError("shared_memory of grpc or http", "openai", "leave shared_memory out")
        if self.transport == "openai" and not self.address.startswith(("http://", "https://")):
            expected = "an address with scheme for openai, as http://127.0.0.1:8080/v1"
            raise ConfigError(expected, repr(self.address), "write http:// before it and /v1 behind it")
        if self.transport != "openai" and "://" in self.address:
            raise ConfigError(f"host and port for {self.transport}", repr(self.address), "leave the scheme out")
        _ = self.security

    @property
    def security(self) -> Tls:
        """TLS towards the server."""
        ca, cert, key = (Path(name) if name else None for name in (self.ca, self.cert, self.key))
        return Tls(tls=self.tls, ca=ca, cert=cert, key=key, tls_name=self.tls_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Where the inputs of a workload come from; requests take them in turn.

    Attributes:
        kind: ``example`` is the one that travels with the model; ``random`` and ``zeros`` are made to the served
            signature; ``files`` are read, ``texts`` are given here; ``synthetic`` ones are prompts of a length in
            tokens, which the server counts.
        number: how many different ones are made, of ``random`` and ``synthetic``.
        rows: in one request, of models that take batches.
        size: of each dimension that the model leaves open, of ``random`` and ``zeros``.
        files: ``.npy`` (one input a row), ``.jsonl`` (an object a line: input name → values, and ``answer``), or
            images.
        texts: prompts, sources or texts.
        input_tokens: of each ``synthetic`` prompt.
        prefix_tokens: that all of them have in common, at their beginning.
        turns: of the user in each conversation of ``synthetic`` prompts; one request a turn.

    Raises:
        ConfigError: a number is below 1 or beyond reason, or the kind needs files, texts or a length and has none.
    """

    kind: InputKind = "example"
    number: int = 16
    rows: int = 1
    size: int = 16
    files: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    input_tokens: int | None = None
    prefix_tokens: int = 0
    turns: int = 1

    def __post_init__(self) -> None:
        most = MOST_SYNTHETIC_TOKENS
        _require_above_0(self, number=100_000, rows=65_536, size=1_000_000, input_tokens=most, turns=most)
        if (self.input_tokens is None) == (self.kind == "synthetic"):
            raise ConfigError("input_tokens of synthetic inputs, and only there", repr(self.kind), "choose")
        if (whole := self.number * self.turns * (self.input_tokens or 0)) > MOST_SYNTHETIC_TOKENS:
            expected = f"number times turns times input_tokens of at most {MOST_SYNTHETIC_TOKENS}"
            raise ConfigError(expected, str(whole), "lower one of them")
        if not 0 <= self.prefix_tokens <= (self.input_tokens or 0):
            raise ConfigError("prefix_tokens from 0 to input_tokens", str(self.prefix_tokens), "correct prefix_tokens")
        for kind in ("files", "texts"):
            if bool(getattr(self, kind)) != (self.kind == kind):
                raise ConfigError(
                    f"{kind} where the inputs' kind is {kind!r}, and only there", repr(self.kind), "choose"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """What the right answer is; any other is counted as wrong.

    Attributes:
        kind: ``example``: what the model's example, or the ``answer`` in a file, says; ``same``: what was answered to
            the same input first; ``text``, ``label``: what is given here; ``arrays``: an ``.npz`` of outputs, a row
            an input.
        answers: texts or labels, one an input, or one for all.
        file: of ``arrays``.
        tolerance: largest difference of a number.
        tokens: how many an answer has; any number if not given.

    Raises:
        ConfigError: the kind needs answers or a file and has none.
    """

    kind: ExpectKind = "nothing"
    answers: tuple[str, ...] = ()
    file: str = ""
    tolerance: float = 1e-3
    tokens: int | None = None

    def __post_init__(self) -> None:
        if bool(self.answers) != (self.kind in ("text", "label")):
            raise ConfigError("answers where a text or label is expected", repr(self.kind), "correct expect")
        if bool(self.file) != (self.kind == "arrays"):
            raise ConfigError("a file where arrays are expected", repr(self.kind), "correct expect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Which requests are cancelled, and when; of models that stream.

    Attributes:
        share: of the requests.
        after_tokens: as soon as so many came.
        after_ms: as soon as so long has passed since it was sent.

    Raises:
        ConfigError: the share is no probability, or there is not one time.
    """

    share: float
    after_tokens: int | None = None
    after_ms: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ConfigError("a share from 0 to 1", str(self.share), "correct share")
        if (self.after_tokens is None) == (self.after_ms is None):
            raise ConfigError("after_tokens or after_ms", "both or neither", "give one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One kind of request.

    Attributes:
        name: in reports.
        model: its name on the server.
        weight: how often, beside the weights of the others.
        inputs: of the requests.
        outputs: to be returned; those that the task's client requests if none is named.
        parameters: of the request, as Triton's protocol has them.
        decoding: how a text is decoded; as the server does by itself if not given.
        stream: whether an answer of tokens comes token by token, or whole.
        expect: the right answer.
        deadline_ms: from the scheduled time to the last response; a stream is cancelled then.
        cancel: which requests are cancelled.
        endpoint: of the OpenAI protocol.

    Raises:
        ConfigError: a number is not above 0, or beyond reason.
    """

    name: str
    model: str
    weight: float = 1.0
    inputs: Inputs = field(default_factory=Inputs)
    outputs: tuple[str, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    decoding: SamplingParams | None = None
    stream: bool = True
    expect: Expect = field(default_factory=Expect)
    deadline_ms: float | None = None
    cancel: Cancel | None = None
    endpoint: Endpoint = "completions"

    def __post_init__(self) -> None:
        _require_above_0(self, weight=MOST_WEIGHT, deadline_ms=1e3 * MOST_SECONDS)
        if self.inputs.turns > 1 and self.endpoint != "chat":
            raise ConfigError("turns of the endpoint chat", repr(self.endpoint), "choose chat, or one turn")


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcess:
    """How the same requests are timed without a server, for comparison.

    Attributes:
        repository: the model repository that the server serves; nothing is timed if empty.
        requests: how many, of each workload.

    Raises:
        ConfigError: they are too few or too many.
    """

    repository: str = ""
    requests: int = 50

    def __post_init__(self) -> None:
        _require_above_0(self, requests=100_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One load test; vary it with ``dataclasses.replace``.

    Attributes:
        name: in reports.
        target: the server.
        arrivals: when.
        workloads: what, mixed by their weights.
        warmup_s: seconds at the beginning that are no part of the figures.
        duration_s: seconds after the warm-up in which requests are sent.
        requests: most that are sent after the warm-up.
        max_concurrency: most requests in flight, of an open loop; further ones wait, and their waiting counts.
        seed: of arrivals, mix and random inputs.
        in_process: the same requests without a server.

    Raises:
        ConfigError: there is no workload, two share a name, or the run has no end.
    """

    workloads: tuple[Workload, ...]
    name: str = "load"
    target: Target = field(default_factory=Target)
    arrivals: Arrivals = field(default_factory=ClosedLoop)
    warmup_s: float = 0.0
    duration_s: float | None = None
    requests: int | None = None
    max_concurrency: int = 1024
    seed: int = 0
    in_process: InProcess = field(default_factory=InProcess)

    def __post_init__(self) -> None:
        _require_above_0(self, duration_s=MOST_SECONDS, requests=MOST_REQUESTS, max_concurrency=MOST_REQUESTS)
        for name, most in (("warmup_s", MOST_SECONDS), ("seed", MOST_SEED)):
            if not 0 <= (value := getattr(self, name)) <= most:
                raise ConfigError(f"{name} of 0 to {most:g}", str(value)[:40], f"correct {name}")
        names = [workload.name for workload in self.workloads]
        if not names or len(set(names)) < len(names):
            raise ConfigError("workloads of different names", str(names or "none"), "correct workloads")
        if self.duration_s is None and self.requests is None and not isinstance(self.arrivals, Replay):
            raise ConfigError("an end of the run", "neither duration_s nor requests", "give one of them")

    @property
    def files(self) -> list[Path]:
        """Those that it reads."""
        target, arrivals = self.target, self.arrivals
        names = [target.key_file, target.admin_key_file, target.ca, target.cert, target.key]
        names += [name for one in self.workloads for name in (*one.inputs.files, one.expect.file)]
        names += [arrivals.trace] if isinstance(arrivals, Replay) else []
        return [Path(name) for name in names if name]

    def plain(self) -> dict[str, object]:
        """Itself as JSON has it, without what was not given."""
        plain = _without_none(asdict(self))
        for table, workload in zip(plain["workloads"], self.workloads, strict=True):
            if workload.decoding is not None:
                values = {name: value for name, value in table["decoding"].items() if is_set(workload.decoding, name)}
                table["decoding"] = values
        plain["arrivals"] = {"kind": kind_of(self.arrivals)} | plain["arrivals"]
        return dict(plain)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_none(one) for key, one in value.items() if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, tuple) else value


def _require_above_0(config: Any, **most: float) -> None:
    for name, greatest in most.items():
        value = getattr(config, name)
        if value is not None and not 0 < value <= greatest:
            raise ConfigError(f"{name} above 0, at most {greatest:g}", str(value)[:40], f"correct {name}")
