"""The flags of a load test, laid over a scenario's file, or over nothing: what is given counts, what is not stays."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from attendant.errors import ConfigError
from attendant.sampling_params import SamplingParams
from clients.load.arrivals import Arrivals, ClosedLoop, Constant, Gamma, Poisson, Replay
from clients.load.datasets import has_conversations
from clients.load.scenario import ADDRESSES, Endpoint, Inputs, Scenario, Target, Transport, Workload
from clients.load.scenario_file import read_scenario
from clients.tls import Tls

Kind = Literal["constant", "poisson", "gamma"]
MOST_PROMPTS, MOST_PROMPT_TOKENS = 1024, 4_000_000
"""Of synthetic prompts, each of which is sent once before the first comes again."""
_DURATION_S, _WARMUP_S = 10.0, 1.0
_SHAPE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFlags:
    """What is sent, where to, and for how long; each goes before what the scenario's file says.

    Attributes:
        model: that is asked; needed without a scenario's file.
        server: host and port, of openai an address with scheme; 127.0.0.1:8001 of grpc, 127.0.0.1:8000 of http and
            http://127.0.0.1:8080/v1 of openai if not given.
        transport: how it is asked: grpc if not given.
        metrics: host and port where Prometheus reads Triton's counters; they are not read if not given.
        key_file: file with the key that the server asks for; of openai.
        duration_s: how long, in seconds, after the warm-up; 10 without a file, where neither --requests
            nor a trace ends it.
        warmup_s: seconds at the beginning that are no part of the figures; 1 without a file.
        requests: most that are sent after the warm-up.
        seed: of arrivals and of synthetic prompts.
        in_process: the model repository that the server serves: the same requests are timed without it beforehand.
        endpoint: of openai; chat where there are conversations, else completions.
        prompt: texts to send in turn, in place of the model's own example.
        dataset: .jsonl with a text or messages a line, perhaps max_tokens and the right answer.
        input_tokens: length of synthetic prompts, in the server's own count.
        output_tokens: length of every answer: max_tokens, and ignore_eos.
        prefix_tokens: how many of --input-tokens all prompts have in common.
        turns: user messages of a synthetic conversation; each turn is a request with all messages before it.
    """

    model: str | None = None
    server: str | None = None
    transport: Transport | None = None
    metrics: str | None = None
    key_file: Path | None = None
    duration_s: float | None = None
    warmup_s: float | None = None
    requests: int | None = None
    seed: int | None = None
    in_process: str | None = None
    endpoint: Endpoint | None = None
    prompt: tuple[str, ...] = ()
    dataset: Path | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    prefix_tokens: int | None = None
    turns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalFlags:
    """When requests are sent; a closed loop of one client without a scenario's file.

    Attributes:
        concurrency: requests at once: a closed loop.
        rate: requests a second, whatever the answers take: an open loop.
        arrivals: how requests of a rate are spread: poisson if not given.
        shape: of gamma arrivals; below 1 they come in bursts, 0.5 if not given.
        trace: .csv or .jsonl with a scheduled_s a request, which is replayed.
        speed: of the trace: 2 is twice as fast.
    """

    concurrency: int | None = None
    rate: float | None = None
    arrivals: Kind | None = None
    shape: float | None = None
    trace: Path | None = None
    speed: float | None = None


def lay_over(
    path: Path | None, flags: LoadFlags, arrivals: ArrivalFlags | None = None, tls: Tls | None = None
) -> Scenario:
    """The scenario of a file under the flags, or that of the flags alone.

    Args:
        path: the scenario's file; None where there is none.
        flags: what goes before it.
        arrivals: the same, of when requests are sent.
        tls: the same, of TLS towards the server.

    Raises:
        InputError: the file cannot be read.
        ConfigError: two flags contradict each other, one lacks another, or a value cannot be; its message names it.
    """
    if path is not None:
        scenario = read_scenario(path)
    elif flags.model is not None:
        workload = Workload(name=flags.model, model=flags.model)
        scenario = Scenario(name=flags.model, workloads=(workload,), warmup_s=_WARMUP_S, duration_s=_DURATION_S)
    else:
        raise ConfigError("a scenario's file or --model", "neither", "give one of them")
    when = _arrivals(scenario.arrivals, arrivals or ArrivalFlags())
    ends = flags.requests is not None or isinstance(when, Replay)
    if path is None and ends:  # at its number of requests, or with its trace
        scenario = replace(scenario, arrivals=when, requests=flags.requests, duration_s=None)
    target = _target(scenario.target, flags, tls or Tls())
    return replace(
        scenario,
        target=target,
        workloads=_workloads(scenario, target, flags, path),
        arrivals=when,
        in_process=replace(scenario.in_process, **_given(repository=flags.in_process)),
        **_given(
            duration_s=flags.duration_s, warmup_s=flags.warmup_s, requests=flags.requests, seed=flags.seed
        ),
    )  # fmt: skip


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _target(target: Target, flags: LoadFlags, tls: Tls) -> Target:
    transport = flags.transport or target.transport
    address = flags.server or (target.address if transport == target.transport else ADDRESSES[transport])
    files: dict[str, Any] = {
        name: str(path) for name in ("ca", "cert", "key") if (path := getattr(tls, name)) is not None
    }
    return replace(
        target,
        transport=transport,
        address=address,
        **files,
        **_given(
            metrics=flags.metrics,
            key_file=None if flags.key_file is None else str(flags.key_file),
            tls=tls.tls or None,
            tls_name=tls.tls_name or None,
        ),
    )


def _arrivals(before: Arrivals, flags: ArrivalFlags) -> Arrivals:
    loads = [name for name in ("concurrency", "rate", "trace") if getattr(flags, name) is not None]
    if len(loads) > 1:
        raise ConfigError(
            "one of --concurrency, --rate and --trace", " and ".join(f"--{name}" for name in loads), "choose"
        )
    if flags.trace is not None:
        before = Replay(trace=str(flags.trace))
    elif flags.concurrency is not None:
        before = ClosedLoop(concurrency=flags.concurrency)
    elif flags.rate is not None and not isinstance(before, Constant | Poisson | Gamma):
        before = Poisson(rate=flags.rate)
    if flags.speed is not None:
        if not isinstance(before, Replay):
            raise ConfigError("--speed with a --trace that is replayed", "none", "give --trace, or leave --speed out")
        before = replace(before, speed=flags.speed)
    if flags.rate is None and flags.arrivals is None and flags.shape is None:
        return before
    if not isinstance(before, Constant | Poisson | Gamma):
        flag = "--arrivals" if flags.arrivals is not None else "--shape"
        raise ConfigError(f"{flag} with a --rate", "none", f"give --rate, or leave {flag} out")
    return _spread(before, flags)


def _spread(before: Constant | Poisson | Gamma, flags: ArrivalFlags) -> Arrivals:
    rate = before.rate if flags.rate is None else flags.rate
    kind = flags.arrivals or type(before).__name__.lower()
    if kind != "gamma" and flags.shape is not None:
        raise ConfigError(
            "--shape with --arrivals gamma", f"{kind} arrivals", "give --arrivals gamma, or leave --shape out"
        )
    if kind == "gamma":
        shape = before.shape if isinstance(before, Gamma) else _SHAPE
        return Gamma(rate=rate, shape=shape if flags.shape is None else flags.shape)
    return Constant(rate=rate) if kind == "constant" else Poisson(rate=rate)


def _workloads(scenario: Scenario, target: Target, flags: LoadFlags, path: Path | None) -> tuple[Workload, ...]:
    of_workload = ("model", "endpoint", "prompt", "dataset", *_TOKENS)
    given = [_flag(name) for name in of_workload if getattr(flags, name) not in (None, ())]
    if not given:
        return scenario.workloads
    if len(scenario.workloads) > 1:
        expected = f"one workload in {path}, that {given[0]} is laid over"
        raise ConfigError(expected, f"{len(scenario.workloads)}", f"leave {given[0]} out, or change the file")
    if flags.endpoint is not None and target.transport != "openai":
        raise ConfigError("--endpoint with --transport openai", target.transport, "give --transport openai")
    (workload,) = scenario.workloads
    if flags.output_tokens is not None:
        decoding = replace(workload.decoding or SamplingParams(), max_tokens=flags.output_tokens, ignore_eos=True)
        workload = replace(workload, decoding=decoding)
    inputs = _inputs(flags, scenario.seed if flags.seed is None else flags.seed)
    if inputs is None:
        return (replace(workload, **_given(model=flags.model, endpoint=flags.endpoint)),)
    if workload.expect.kind not in ("nothing", "same"):
        expected = f"inputs as in {path}, whose answers it knows (expect.kind {workload.expect.kind!r})"
        raise ConfigError(expected, given[-1], f"leave {given[-1]} out, or expect out of the file")
    is_chat = inputs.turns > 1 or (flags.dataset is not None and has_conversations(flags.dataset))
    endpoint = flags.endpoint or ("chat" if is_chat else workload.endpoint)
    return (replace(workload, inputs=inputs, endpoint=endpoint, **_given(model=flags.model)),)


_TOKENS = ("input_tokens", "output_tokens", "prefix_tokens", "turns")


def _inputs(flags: LoadFlags, seed: int) -> Inputs | None:
    kinds = [name for name in ("prompt", "dataset", "input_tokens") if getattr(flags, name) not in (None, ())]
    if len(kinds) > 1:
        raise ConfigError("one of --prompt, --dataset and --input-tokens", " and ".join(map(_flag, kinds)), "choose")
    for name in ("prefix_tokens", "turns"):
        if getattr(flags, name) is not None and flags.input_tokens is None:
            raise ConfigError(f"{_flag(name)} with --input-tokens", "none", "give --input-tokens too")
    if flags.prompt:
        return Inputs(kind="texts", texts=flags.prompt)
    if flags.dataset is not None:
        return Inputs(kind="files", files=(str(flags.dataset),))
    if flags.input_tokens is None:
        return None
    turns = 1 if flags.turns is None else flags.turns
    whole = max(1, flags.input_tokens) * max(1, turns) ** 2
    return Inputs(
        kind="synthetic",
        number=max(1, min(MOST_PROMPTS, MOST_PROMPT_TOKENS // whole)),
        input_tokens=flags.input_tokens,
        prefix_tokens=flags.prefix_tokens or 0,
        turns=turns,
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
