"""A random mix of requests to generative models: prompts, options, and what becomes of each.

More than a third is meant to end early: most are cancelled after some responses or after a while, the others have a
deadline.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attendant.sampling_params import EARLY_STOPPING, SamplingParams
from commands.quickstart.prompts import PROMPTS
from models.train.caption_data import held_out_pairs
from models.train.date_data import held_out

CANCELLED, WITH_DEADLINE = 0.36, 0.06  # of all requests; some of them are answered before
PROMPT_COUNT, LONGEST_PROMPT = 200, 12  # sentences of a prompt, at most
LIMITS = {"stdlib-lm": 64, "dates-transformer": 15, "dates-gru": 15, "digits-captioner": 7}
STOPS = {
    "stdlib-lm": (" the", "\n", ".", " is", "return", " of a", "e", "ing ", '"', "\n\n"),
    **dict.fromkeys(("dates-transformer", "dates-gru"), ("-", "-0", "19", "1-1", "7")),
    "digits-captioner": (" of", "left", "n", "a "),
}
REGEXES = (r"[a-z ]{4,40}\.", r"(yes|no|maybe), [0-9]{1,4}")
Random = np.random.Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedRequest:
    """One request.

    Attributes:
        prompt: the number of its prompt.
        kind: of its options, for tables.
        gap_s: to the request before it.
        cancel_after: responses after which it is cancelled, if so.
        cancel_at_s: seconds after which it is cancelled, if so.
    """

    model: str
    prompt: int
    options: SamplingParams
    kind: str
    stream: bool
    gap_s: float
    cancel_after: int | None = None
    cancel_at_s: float | None = None


def prompts_of(model: str) -> Sequence[Any]:
    """What a shipped model's requests choose from: prompts of one to many sentences, dates, or images."""
    if model.startswith("dates"):
        return [text for text, _ in held_out(PROMPT_COUNT)]
    if model == "digits-captioner":
        return list(held_out_pairs(PROMPT_COUNT)[0])
    rng = np.random.default_rng(7)
    return [" ".join(rng.choice(PROMPTS, int(rng.integers(1, LONGEST_PROMPT)))) for _ in range(PROMPT_COUNT)]


def draw_requests(models: Sequence[str], count: int, rate: float, seed: int) -> list[MixedRequest]:
    """So many requests with Poisson arrivals; the first model gets two shares, each other one."""
    rng = np.random.default_rng(seed)
    shares = [models[0], *models]
    return [draw_request(rng, shares[int(rng.integers(len(shares)))], rate) for _ in range(count)]


def draw_request(rng: Random, model: str, rate: float) -> MixedRequest:
    kind = str(rng.choice([name for name in KINDS if name != "guided" or model == "stdlib-lm"]))
    options = draw_options(rng, model, KINDS[kind](rng))
    request = MixedRequest(
        model=model,
        prompt=int(rng.integers(PROMPT_COUNT)),
        options=options,
        kind=kind,
        stream=bool(rng.random() < 0.8),
        gap_s=float(rng.exponential(1 / rate)),
    )
    fate = rng.random()
    if fate > WITH_DEADLINE + CANCELLED:
        return request
    # Long answers, as none that is complete can be cancelled.
    request = replace(request, options=replace(options, max_tokens=LIMITS[model], stop=()), stream=True)
    if fate < WITH_DEADLINE:
        return replace(request, options=replace(request.options, deadline_ms=int(rng.integers(1, 100))))
    if fate < WITH_DEADLINE + CANCELLED / 2:
        after = 0 if kind == "beams" else int(rng.integers(LIMITS[model] // 2))  # beams come in one response
        return replace(request, cancel_after=after)
    return replace(request, cancel_at_s=float(rng.exponential(0.03)))


def draw_options(rng: Random, model: str, chosen: Mapping[str, Any]) -> SamplingParams:
    limit = LIMITS[model]
    more: dict[str, Any] = {"max_tokens": int(rng.integers(1, limit + 1)), "priority": int(rng.integers(2))}
    if rng.random() < 0.4 and "beam_width" not in chosen:
        more["stop"] = tuple(map(str, rng.choice(STOPS[model], int(rng.integers(1, 4)), replace=False)))
    if rng.random() < 0.15:
        more["min_tokens"] = int(rng.integers(1, limit // 2))
    if rng.random() < 0.1 and "regex" not in chosen:
        more["ignore_eos"] = True
    if rng.random() < 0.1 and model == "stdlib-lm":
        more["echo"] = True
    if rng.random() < 0.2 and "beam_width" not in chosen:
        more |= {"logprobs": True, "top_logprobs": int(rng.integers(4))}
    return SamplingParams(**{**more, **chosen})


def round_to_single(value: float) -> float:
    return float(np.float32(value))  # as it travels


def draw_sampling(rng: Random) -> dict[str, Any]:
    filters = {"top_k": int(rng.integers(2, 50)), "top_p": round_to_single(rng.uniform(0.3, 0.99))}
    filters |= {"min_p": round_to_single(rng.uniform(0.01, 0.2)), "typical_p": round_to_single(rng.uniform(0.3, 0.95))}
    kept = {name: value for name, value in filters.items() if rng.random() < 0.3}
    return {"temperature": round_to_single(rng.uniform(0.3, 1.5)), "seed": int(rng.integers(2**63)), **kept}


def draw_beams(rng: Random) -> dict[str, Any]:
    width = int(rng.integers(2, 5))
    early = EARLY_STOPPING[int(rng.integers(3))]
    penalty = round_to_single(rng.uniform(0, 2))
    candidates = int(rng.integers(1, width + 1))
    return {"beam_width": width, "n": candidates, "length_penalty": penalty, "early_stopping": early}


def draw_penalties(rng: Random) -> dict[str, Any]:
    bias = {int(token): round_to_single(rng.uniform(-3, 3)) for token in rng.integers(3, 17, 3)}
    return {
        **(draw_sampling(rng) if rng.random() < 0.5 else {}),
        "repetition_penalty": round_to_single(rng.uniform(0.8, 1.5)),
        "presence_penalty": round_to_single(rng.uniform(-1, 1)),
        "frequency_penalty": round_to_single(rng.uniform(0, 1)),
        "logit_bias": bias,
    }


def draw_speculation(rng: Random) -> dict[str, Any]:
    return {**(draw_sampling(rng) if rng.random() < 0.5 else {}), "num_speculative_tokens": int(rng.integers(1, 8))}


def draw_regex(rng: Random) -> dict[str, Any]:
    regex = str(rng.choice(REGEXES))
    return {**(draw_sampling(rng) if rng.random() < 0.5 else {}), "regex": regex}


KINDS: dict[str, Callable[[Random], dict[str, Any]]] = {
    "greedy": lambda rng: {},
    "sampled": draw_sampling,
    "several": lambda rng: {**draw_sampling(rng), "n": int(rng.integers(2, 5))},
    "beams": draw_beams,
    "penalised": draw_penalties,
    "drafted": draw_speculation,
    "guided": draw_regex,
}
"""Kind of options → how it is drawn."""
