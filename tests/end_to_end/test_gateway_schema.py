"""Generated requests, few of them; `benchmarks/results/2026-11-21-gateway-schema.md` is of 170 of each kind."""

import pytest

from tests.end_to_end.schema_requests import MODELS, send_by_schema


@pytest.mark.slow
def test_whatever_the_schema_allows_is_answered_as_it_says_and_the_rest_is_refused(gateway):
    answered = send_by_schema(gateway.url, examples=12)
    taken = [path for path in MODELS if answered[f"POST {path} 200"]]
    assert len(taken) >= 4 and all(answered[f"POST {path} 400"] for path in MODELS), answered
