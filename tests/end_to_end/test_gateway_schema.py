"""Generated requests, few of them; `python benchmarks/gateway_schema.py` sends many."""

import pytest

from benchmarks.gateway.by_schema import MODELS, ask_by_schema


@pytest.mark.slow
def test_whatever_the_schema_allows_is_answered_as_it_says_and_the_rest_is_refused(gateway):
    answered = ask_by_schema(gateway.url, examples=12)
    taken = [path for path in MODELS if answered[f"POST {path} 200"]]
    assert len(taken) >= 4 and all(answered[f"POST {path} 400"] for path in MODELS), answered
