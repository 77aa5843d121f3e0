"""What requests call the options of decoding."""

import pytest
from pydantic import ValidationError

from attendant.sampling_params import PARAMS, SamplingParams
from serving.gateway.schemas.completions import CompletionRequest
from serving.gateway.schemas.native import TranslationRequest

ASKED = {"model": "stdlib-lm", "prompt": "a"}


def test_parameters_have_the_names_of_openai_and_of_vllm():
    sent = {"n": 2, "stop": "x", "ignore_eos": True, "stop_token_ids": [3], "min_p": 0.5, "logit_bias": {"4": 1.5}}
    wanted = SamplingParams(
        temperature=1.0, n=2, stop=("x",), ignore_eos=True, stop_token_ids=(3,), min_p=0.5, logit_bias={4: 1.5}
    )
    assert CompletionRequest.model_validate(ASKED | sent).sampling_params(counts=False) == wanted


def test_what_a_request_leaves_out_is_the_tables_default_but_for_openais_temperature():
    assert CompletionRequest.model_validate(ASKED).sampling_params(counts=True) == SamplingParams(
        temperature=1.0, token_counts=True
    )
    beams = CompletionRequest.model_validate({**ASKED, "beam_width": 2}).sampling_params(counts=False)
    assert beams == SamplingParams(beam_width=2)


@pytest.mark.parametrize("name", [name for name, param in PARAMS.items() if param.le is not None])
def test_a_field_has_the_bounds_of_its_row(name):
    body = {"model": "dates-transformer", "input": "a", name: PARAMS[name].le * 2}
    with pytest.raises(ValidationError, match=name):
        TranslationRequest.model_validate(body)


def test_a_native_request_takes_every_parameter_of_the_table():
    taken = TranslationRequest.model_fields.keys()
    assert PARAMS.keys() - taken == {"echo", "token_counts"}


def test_another_name_is_refused():
    with pytest.raises(ValidationError, match="ignore_ends"):
        CompletionRequest.model_validate({**ASKED, "ignore_ends": True})
