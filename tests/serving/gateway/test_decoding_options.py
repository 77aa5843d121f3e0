"""What requests call the options of decoding."""

import pytest
from pydantic import ValidationError

from serving.gateway.schemas.completions import CompletionRequest

ASKED = {"model": "stdlib-lm", "prompt": "a"}


@pytest.mark.parametrize("name", ["ignore_end", "ignore_eos"])
def test_an_answer_goes_on_behind_its_end_by_our_name_and_by_vllms(name):
    assert CompletionRequest.model_validate({**ASKED, name: True}).shared()["ignore_end"]
    assert not CompletionRequest.model_validate(ASKED).shared()["ignore_end"]


def test_another_name_is_refused():
    with pytest.raises(ValidationError, match="ignore_ends"):
        CompletionRequest.model_validate({**ASKED, "ignore_ends": True})
