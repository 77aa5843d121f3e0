"""What is said of a model that no server has, or that is for another task: with the way out over HTTP."""

import json
from collections.abc import Iterable
from difflib import get_close_matches

from attendant.errors import UnknownNameError
from clients.served_model import ServedModel

LONGEST = 100
ROUTES = {
    "generate": "/v1/completions",
    "embed": "/v1/embeddings",
    "classify": "/v1/classify",
    "caption": "/v1/caption",
    "translate": "/v1/translate",
}
"""Where a task is asked."""


def unknown_model(name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a model that no server has, with the one that may have been meant."""
    near = get_close_matches(name[:LONGEST], known, n=1)
    hint = f"did you mean {quote(near[0])}? " if near else ""
    remedy = "GET /v1/models lists them"
    message = f"no server has a model {quote(name)}; {hint}{remedy}"
    return UnknownNameError("a model that a server has", quote(name), remedy, message=message)


def require_task(model: ServedModel, task: str) -> ServedModel:
    """The model itself, unless it is known to be for another task.

    Raises:
        UnknownNameError: it is.
    """
    if not model.task or model.is_for(task):
        return model
    remedy = f"send it to {ROUTES[model.task]}" if model.task in ROUTES else "name another: GET /v1/models lists them"
    message = f"model {quote(model.name)} can {model.task}; it cannot {task}; {remedy}"
    raise UnknownNameError(f"a model that can {task}", f"one that can {model.task}", remedy, message=message)


def quote(name: str) -> str:
    """A name as JSON has it, and not too long."""
    return json.dumps(name[:LONGEST], ensure_ascii=False)
