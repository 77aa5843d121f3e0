"""Answers that are sent as a whole: bounded together before any work, and turned into JSON beside the event loop.

Each of a request's numbers has its own bound; their product would be gigabytes of one answer.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams

MOST_VALUES = 1 << 19
"""Tokens, log-probabilities and weights of alignments of all answers to one request: about 20 MB of JSON."""
FEW_VALUES = 1 << 12
"""So many are turned into JSON at once: a thread would take longer."""
INT32 = 2**31 - 1
_POSITIONS = "max_source_length"
_PATCHES = 1024


def most_tokens(options: SamplingParams, parameters: Mapping[str, Any]) -> int:
    """How many tokens one answer may have.

    Args:
        options: of the request.
        parameters: of the model.
    """
    longest = min(int(parameters.get(name, INT32)) for name in ("max_length", "max_target_length"))
    return longest if options.max_tokens is None else min(options.max_tokens, longest)


def require_bounded(
    prompts: int, options: SamplingParams, parameters: Mapping[str, Any], prompt_tokens: int = 0
) -> None:
    """Refuse a request whose answers are too much to be sent as a whole.

    Args:
        prompts: how many, each of which is answered.
        options: of each answer.
        parameters: of the model.
        prompt_tokens: of the longest prompt, which comes with the answer where its log-probabilities do.

    Raises:
        InputError: they are.
    """
    answers, tokens = prompts * options.n, most_tokens(options, parameters)
    if options.echo and options.logprobs and tokens < INT32:
        tokens += min(prompt_tokens, int(parameters.get("max_length", INT32)))
    per_token = 1 + options.logprobs + options.top_logprobs
    if options.explain:
        per_token += int(parameters.get(_POSITIONS, _PATCHES))
    # A model that says no length generates nothing, which its stream says.
    if tokens < INT32 and answers * tokens * per_token > MOST_VALUES:
        raise InputError(
            f"answers of at most {MOST_VALUES} values together",
            f"{answers} answers of up to {tokens} tokens with {per_token} values each",
            "stream them, or send less of max_tokens, n, prompts or logprobs",
        )


async def json_response(value: Callable[[], Any], count: int) -> Response:
    """A response of JSON, made in a thread where it is large.

    Args:
        value: makes what is sent.
        count: about how many values that has.
    """
    body = _render(value) if count <= FEW_VALUES else await asyncio.to_thread(_render, value)
    return Response(body, media_type="application/json")


def _render(value: Callable[[], Any]) -> bytes:
    return to_json(value(), inf_nan_mode="null")
