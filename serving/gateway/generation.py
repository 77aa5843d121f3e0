"""What ``/v1/translate`` and ``/v1/caption`` have in common: deltas as events, or whole answers."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import Request
from starlette.responses import Response

from clients.answer import Answer, Delta, whole_answers
from clients.statuses import reading
from serving.gateway.answers import TokenUsage, count_tokens, read_all
from serving.gateway.events import event, event_stream
from serving.gateway.explain.maps import round_values
from serving.gateway.gateway import while_connected
from serving.gateway.large_answers import json_response


async def create_response(
    request: Request, usage: TokenUsage, deltas: AsyncGenerator[Delta, None], stream: bool, prompt: str = ""
) -> Response:
    """The response that deltas make.

    Args:
        request: whose client may disconnect.
        usage: of the request, with the model's name.
        deltas: of one or more answers.
        stream: whether they are sent as they come.
        prompt: that is answered; empty where it is an image.
    """
    if stream:
        return await event_stream(request, _events(count_tokens(deltas, usage, prompt), usage))
    read = await while_connected(request, read_all(count_tokens(deltas, usage, prompt)))
    return await json_response(
        lambda: {"model": usage.model, "answers": _answers(read, usage.model), "usage": usage.to_json()},
        sum(_size(delta) for delta in read),
    )


def answer_to_json(index: int, answer: Delta | Answer) -> dict[str, Any]:
    """A delta or an answer as JSON, see :class:`serving.gateway.schemas.native.NativeAnswer`."""
    value: dict[str, Any] = {
        "index": index,
        "text": answer.text,
        "finish_reason": answer.finish_reason or None,
        "token_ids": list(answer.token_ids),
    }
    if answer.logprobs:
        value["logprobs"] = list(answer.logprobs)
    if answer.top_logprobs:
        value["top_logprobs"] = [
            [{"token_id": token, "logprob": logprob} for token, logprob in top] for top in answer.top_logprobs
        ]
    if answer.score is not None:
        value["score"] = answer.score
    return value | alignment_to_json(answer)


def alignment_to_json(answer: Delta | Answer) -> dict[str, Any]:
    """What was read for each token, as far as that was asked for."""
    value: dict[str, Any] = {}
    if answer.alignment is not None:
        value |= {"alignment": round_values(answer.alignment), "tokens": list(answer.token_texts)}
    if answer.source_texts:
        value["source"] = list(answer.source_texts)
    return value


async def _events(deltas: AsyncGenerator[Delta, None], usage: TokenUsage) -> AsyncGenerator[bytes, None]:
    async with aclosing(deltas):
        async for delta in deltas:
            yield event(answer_to_json(delta.candidate, delta))
        yield event({"model": usage.model, "text": "", "usage": usage.to_json()})


def _answers(deltas: list[Delta], model: str) -> list[dict[str, Any]]:
    with reading(model):
        return [answer_to_json(index, answer) for index, answer in enumerate(whole_answers(deltas))]


def _size(delta: Delta) -> int:
    alignment = 0 if delta.alignment is None else delta.alignment.size
    return len(delta.token_ids) + sum(map(len, delta.top_logprobs)) + alignment
