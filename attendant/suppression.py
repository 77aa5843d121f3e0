"""Tokens that a model is never to say: whether they leave it anything."""

from collections.abc import Mapping
from typing import Any


def suppression_fault(details: Mapping[str, Any], vocabulary: int) -> str:
    """What is wrong with the tokens that details suppress or force; empty where nothing is.

    Args:
        details: of a checkpoint or a manifest.
        vocabulary: how many tokens the decoder knows.
    """
    suppressed, ends = _listed(details, "suppressed_tokens"), _listed(details, "end_tokens", "end_token")
    named = [*suppressed, *_listed(details, "forced_start_token")]
    for token in (*named, *ends):
        if type(token) is not int:
            return repr(token)[:100]
    unknown = [token for token in named if not 0 <= token < vocabulary]
    if unknown:
        return f"token {unknown[0]}, of a vocabulary of {vocabulary}"
    if len({*suppressed, *ends} & set(range(vocabulary))) == vocabulary:
        return f"{len(suppressed)} of {vocabulary} tokens, which leave nothing to say"
    return ""


def _listed(details: Mapping[str, Any], *names: str) -> list[Any]:
    found = [details[name] for name in names if details.get(name) is not None]
    return [token for one in found for token in (one if isinstance(one, list | tuple) else [one])]
