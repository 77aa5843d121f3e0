"""Requests that Schemathesis makes of the gateway's OpenAPI schema, and what their answers are held to.

Valid and invalid ones: no answer has a status 5xx, or a status or body that the schema does not know, and no invalid
request is taken. A valid one may be refused, as no schema says how many tokens a model takes. An invalid form may be
taken, as an empty list is no field of one. Well-formed names, images and dates become ones that exist, or every request
would end there.
"""

import base64
from collections import Counter
from contextlib import suppress

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from benchmarks.harness.machine import ROOT
from tests.conftest import DATES, LANGUAGE_MODEL, TEXT_ENCODER

MODELS = {
    "/v1/completions": LANGUAGE_MODEL,
    "/v1/chat/completions": LANGUAGE_MODEL,
    "/v1/embeddings": TEXT_ENCODER,
    "/v1/classify": "digits-vit",
    "/v1/caption": "digits-captioner",
    "/v1/translate": DATES,
    "/v1/explain": "digits-vit",
}
"""Path → the model that answers there."""
IMAGE = ROOT / "docs/examples/three.png"
LONGEST_NAME = 256
FORM = "multipart/form-data"


def send_by_schema(url, examples, first_seed=1):
    """Send so many valid requests to each operation of a gateway, and as many invalid ones.

    Returns:
        How many answers had which status, per operation: ``POST /v1/classify 200``.
    """
    load_all_checks()
    schema, answers = schemathesis.openapi.from_url(f"{url}/openapi.json"), Counter[str]()
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @seed(first_seed)
            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate, Phase.shrink],
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def send(case):
                name_what_exists(case)
                response = case.call()
                answers[f"{case.method} {case.path} {response.status_code}"] += 1
                excluded = [positive_data_acceptance, *([negative_data_rejection] if case.media_type == FORM else [])]
                case.validate_response(response, excluded_checks=excluded)

            with suppress(Unsatisfiable):  # an operation without input has no invalid one
                send()
    return answers


def name_what_exists(case):
    body = case.body
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
