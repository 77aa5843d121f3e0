"""Log-probabilities as OpenAI's two APIs have them, tokens by their texts and bytes."""

from collections.abc import Sequence
from math import isnan
from typing import Any

from clients.answer import Answer, Delta

LOGPROB_VALUES = 4
"""A chat's log-probability is an object of a text, a number and a list of bytes."""


def completion_logprobs(answer: Delta | Answer, in_ids: bool) -> dict[str, Any]:
    """Those of ``/v1/completions``: lists, and for each token a dictionary of the most probable ones and itself.

    Args:
        answer: or a part of one.
        in_ids: whether tokens are called by their numbers, as ``token_id:5``.
    """
    names = [_name(token, piece, in_ids) for token, piece in _pieces(answer)]
    tops: list[dict[str, float] | None] = []
    for place, (name, value, top) in enumerate(zip(names, answer.logprobs, answer.top_logprobs, strict=False)):
        if isnan(value):
            tops.append(None)
            continue
        found: dict[str, float] = {}
        for (token, logprob), piece in zip(top, _top_bytes(answer, place), strict=True):
            found.setdefault(_name(token, piece, in_ids), logprob)
        tops.append(found | {name: value} if name not in found else found)
    return {
        "tokens": names,
        "token_logprobs": [None if isnan(value) else value for value in answer.logprobs],
        "top_logprobs": tops or None,
        "text_offset": list(answer.text_offsets) or None,  # an older server does not say it
    }


def chat_logprobs(answer: Delta | Answer, in_ids: bool) -> list[dict[str, Any]]:
    """Those of ``/v1/chat/completions``: an object for each token.

    Args:
        answer: or a part of one.
        in_ids: whether tokens are called by their numbers, as ``token_id:5``.
    """
    tops = answer.top_logprobs or ((),) * len(answer.token_ids)
    return [
        {
            **_token(token, piece, value, in_ids),
            "top_logprobs": [
                _token(other, bytes_, logprob, in_ids)
                for (other, logprob), bytes_ in zip(top, _top_bytes(answer, place) if top else (), strict=True)
            ],
        }
        for place, ((token, piece), value, top) in enumerate(zip(_pieces(answer), answer.logprobs, tops, strict=True))
    ]


def count_values(answers: Sequence[Delta | Answer]) -> int:
    """About how many values their log-probabilities are."""
    return sum(len(one.token_ids) + sum(map(len, one.top_logprobs)) for one in answers)


def _token(token: int, piece: bytes | None, value: float, in_ids: bool) -> dict[str, Any]:
    text = f"token_id:{token}" if in_ids or piece is None else piece.decode(errors="replace")
    return {"token": text, "logprob": value, "bytes": None if piece is None else list(piece)}


def _name(token: int, piece: bytes | None, in_ids: bool) -> str:
    if in_ids or piece is None:  # as an older server does not say it
        return f"token_id:{token}"
    try:
        return piece.decode()
    except UnicodeDecodeError:  # a part of a character
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)


def _pieces(answer: Delta | Answer) -> list[tuple[int, bytes | None]]:
    return list(zip(answer.token_ids, answer.token_bytes or (None,) * len(answer.token_ids), strict=True))


def _top_bytes(answer: Delta | Answer, place: int) -> Sequence[bytes | None]:
    return answer.top_bytes[place] if answer.top_bytes else (None,) * len(answer.top_logprobs[place])
