"""Requests that Schemathesis makes of the gateway's OpenAPI schema, and what their answers are held to.

Valid and invalid ones: no answer has a status 5xx, or a status or body that the schema does not know, and no invalid
request is taken. A valid one may be refused, as no schema says how many tokens a model takes. An invalid form may be
taken, as an empty list is no field of one. Well-formed names, images and dates become ones that exist, or every request
would end there.
"""

from __future__ import annotations

import base64
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

MODELS = {
    "/v1/completions": "language-model",
    "/v1/chat/completions": "language-model",
    "/v1/embeddings": "text-encoder",
    "/v1/classify": "digits-vit",
    "/v1/caption": "digits-captioner",
    "/v1/translate": "dates-transformer",
    "/v1/explain": "digits-vit",
}
"""Whom each path asks."""
IMAGE = Path(__file__).parents[2] / "docs/examples/three.png"
LONGEST_NAME = 256
FORM = "multipart/form-data"
QUIET = list(HealthCheck)


def ask_by_schema(url: str, examples: int, first_seed: int = 1) -> Counter[str]:
    """Send requests to every operation.

    Args:
        url: of a gateway.
        examples: valid ones of each operation, and as many invalid ones.
        first_seed: the same one makes the same requests.

    Returns:
        How many answers had which status, per operation: ``POST /v1/classify 200``.

    Raises:
        Exception: what Schemathesis found, with a request that shows it.
    """
    load_all_checks()
    schema, answered = schemathesis.openapi.from_url(f"{url}/openapi.json"), Counter[str]()
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @seed(first_seed)
            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                suppress_health_check=QUIET,
                phases=[Phase.generate, Phase.shrink],
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: Case) -> None:
                _name_what_exists(case)
                response = case.call()
                answered[f"{case.method} {case.path} {response.status_code}"] += 1
                unheld = [positive_data_acceptance, *([negative_data_rejection] if case.media_type == FORM else [])]
                case.validate_response(response, excluded_checks=unheld)

            with suppress(Unsatisfiable):  # an operation without input has no invalid one
                ask()
    return answered


def _name_what_exists(case: Case) -> None:
    body: Any = case.body
    if not isinstance(body, dict) or case.path not in MODELS:
        return
    if isinstance(body.get("model"), str) and 1 <= len(body["model"]) <= LONGEST_NAME:
        body["model"] = MODELS[case.path]
    image, text = body.get("image"), body.get("input")
    if isinstance(image, bytes):
        body["image"] = IMAGE.read_bytes()
    elif isinstance(image, str) and len(image) % 3:
        body["image"] = base64.b64encode(IMAGE.read_bytes()).decode()
    if case.path == "/v1/translate" and isinstance(text, str) and len(text) % 3:
        body["input"] = "3rd of march 1997"
