"""A random mix of requests to models that write: subjects, options, and what becomes of each.

More than a third is meant to be given up: most by taking the request back after some responses or after a while, the
others by a deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attendant.sampling_params import EARLY_STOPPING, SamplingParams
from commands.quickstart.prompts import PROMPTS
from models.train.caption_data import held_out_pairs
from models.train.date_data import held_out

TAKEN_BACK, LATE = 0.36, 0.06  # of all requests; some of them are answered before
SUBJECTS, LONGEST_PROMPT = 200, 12  # sentences of a prompt, at most
LIMITS = {"stdlib-lm": 64, "dates-transformer": 15, "dates-gru": 15, "digits-captioner": 7}
STOPS = {
    "stdlib-lm": (" the", "\n", ".", " is", "return", " of a", "e", "ing ", '"', "\n\n"),
    "dates-transformer": ("-", "-0", "19", "1-1", "7"),
    "dates-gru": ("-", "-0", "19", "1-1", "7"),
    "digits-captioner": (" of", "left", "n", "a "),
}
REGEXES = (r"[a-z ]{4,40}\.", r"(yes|no|maybe), [0-9]{1,4}")
Random = np.random.Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request.

    Attributes:
        model: its name.
        subject: the number of its subject.
        options: how it is decoded.
        kind: of its options, for tables.
        stream: whether it is answered as tokens come.
        gap_s: to the request before it.
        leaves_after: responses after which it is taken back, if so.
        leaves_at_s: seconds after which it is taken back, if so.
    """

    model: str
    subject: int
    options: SamplingParams
    kind: str
    stream: bool
    gap_s: float
    leaves_after: int | None = None
    leaves_at_s: float | None = None


def subjects_of(model: str) -> Sequence[Any]:
    """What a shipped model is asked: prompts of one to many sentences, dates, or images."""
    if model.startswith("dates"):
        return [text for text, _ in held_out(SUBJECTS)]
    if model == "digits-captioner":
        return list(held_out_pairs(SUBJECTS)[0])
    rng = np.random.default_rng(7)
    return [" ".join(rng.choice(PROMPTS, int(rng.integers(1, LONGEST_PROMPT)))) for _ in range(SUBJECTS)]


def mix(models: Sequence[str], count: int, rate: float, seed: int) -> list[Asked]:
    """So many requests with Poisson arrivals.

    Args:
        models: their names; the first gets two shares, each other one.
        count: of requests.
        rate: of arrivals, a second.
        seed: of everything.
    """
    rng = np.random.default_rng(seed)
    shares = [models[0], *models]
    return [_one(rng, shares[int(rng.integers(len(shares)))], rate) for _ in range(count)]


def _one(rng: Random, model: str, rate: float) -> Asked:
    kind = str(rng.choice([name for name in KINDS if name != "guided" or model == "stdlib-lm"]))
    options = _common(rng, model, KINDS[kind](rng))
    asked = Asked(
        model=model,
        subject=int(rng.integers(SUBJECTS)),
        options=options,
        kind=kind,
        stream=bool(rng.random() < 0.8),
        gap_s=float(rng.exponential(1 / rate)),
    )
    fate = rng.random()
    if fate > LATE + TAKEN_BACK:
        return asked
    # Long answers, as none that is complete can be given up.
    asked = replace(asked, options=replace(options, max_tokens=LIMITS[model], stop=()), stream=True)
    if fate < LATE:
        return replace(asked, options=replace(asked.options, deadline_ms=int(rng.integers(1, 100))))
    if fate < LATE + TAKEN_BACK / 2:
        after = 0 if kind == "beams" else int(rng.integers(LIMITS[model] // 2))  # beams come in one response
        return replace(asked, leaves_after=after)
    return replace(asked, leaves_at_s=float(rng.exponential(0.03)))


def _common(rng: Random, model: str, chosen: Mapping[str, Any]) -> SamplingParams:
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


def _single(value: float) -> float:
    return float(np.float32(value))  # as it travels


def _sampled(rng: Random) -> dict[str, Any]:
    filters = {"top_k": int(rng.integers(2, 50)), "top_p": _single(rng.uniform(0.3, 0.99))}
    filters |= {"min_p": _single(rng.uniform(0.01, 0.2)), "typical_p": _single(rng.uniform(0.3, 0.95))}
    kept = {name: value for name, value in filters.items() if rng.random() < 0.3}
    return {"temperature": _single(rng.uniform(0.3, 1.5)), "seed": int(rng.integers(2**63)), **kept}


def _several(rng: Random) -> dict[str, Any]:
    return {**_sampled(rng), "n": int(rng.integers(2, 5))}


def _beams(rng: Random) -> dict[str, Any]:
    width = int(rng.integers(2, 5))
    early = EARLY_STOPPING[int(rng.integers(3))]
    penalty = _single(rng.uniform(0, 2))
    candidates = int(rng.integers(1, width + 1))
    return {"beam_width": width, "n": candidates, "length_penalty": penalty, "early_stopping": early}


def _penalised(rng: Random) -> dict[str, Any]:
    bias = {int(token): _single(rng.uniform(-3, 3)) for token in rng.integers(3, 17, 3)}
    return {
        **(_sampled(rng) if rng.random() < 0.5 else {}),
        "repetition_penalty": _single(rng.uniform(0.8, 1.5)),
        "presence_penalty": _single(rng.uniform(-1, 1)),
        "frequency_penalty": _single(rng.uniform(0, 1)),
        "logit_bias": bias,
    }


def _drafted(rng: Random) -> dict[str, Any]:
    return {**(_sampled(rng) if rng.random() < 0.5 else {}), "num_speculative_tokens": int(rng.integers(1, 8))}


def _guided(rng: Random) -> dict[str, Any]:
    regex = str(rng.choice(REGEXES))
    return {**(_sampled(rng) if rng.random() < 0.5 else {}), "regex": regex}


KINDS: dict[str, Callable[[Random], dict[str, Any]]] = {
    "greedy": lambda rng: {},
    "sampled": _sampled,
    "several": _several,
    "beams": _beams,
    "penalised": _penalised,
    "drafted": _drafted,
    "guided": _guided,
}
"""Kind of options → how it is drawn."""
