"""The tensors that Triton's own OpenAI front end sends to a model of TensorRT-LLM's, and what it reads of the answer.

Source: python/openai/openai_frontend/engine/utils/triton.py of triton-inference-server/server, the functions
_create_trtllm_generate_request, _get_output and _get_usage_from_response.
"""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer

from attendant.errors import InputError
from tests.conftest import LANGUAGE_MODEL
from tests.end_to_end.asking import ask
from tests.text_checkpoints import OTHER_PROMPT, PROMPT

SCHEMA = json.dumps({"enum": ["fish", "chips"]})


def front_end_request(prompt, *, stream, max_tokens=16, stop=None, echo=None, guided_json=None, **numbers):
    """As the function of that name makes it; the in-process API makes BYTES of lists of texts."""
    inputs = {"text_input": strings(prompt), "stream": np.bool_([[stream]])}
    inputs["max_tokens"] = np.int32([[max_tokens]])
    if stop:
        inputs["stop_words"] = strings(*stop)
    for name in ("top_p", "frequency_penalty", "presence_penalty", "temperature"):
        if name in numbers:
            inputs[name] = np.float32([[numbers[name]]])
    if "seed" in numbers:
        inputs["seed"] = np.uint64([[numbers["seed"]]])
    if echo is not None:
        inputs["exclude_input_in_output"] = np.bool_([[not echo]])
    if guided_json is not None:
        inputs["guided_decoding_guide_type"] = strings("json_schema")
        inputs["guided_decoding_guide"] = strings(guided_json)
    inputs["return_num_input_tokens"] = np.bool_([[True]])
    inputs["return_num_output_tokens"] = np.bool_([[True]])
    return inputs


def strings(*values):
    return np.array([[value.encode() for value in values]], dtype=object)


def responses(server, **request):
    async def asked(client):
        return [outputs async for outputs in client.stream(LANGUAGE_MODEL, front_end_request(**request))]

    return ask(server, asked)


def text_of(outputs):
    assert outputs["text_output"].size == 1, "the front end takes no other"
    return outputs["text_output"].item().decode()


# OpenAI's defaults, which the front end sends whether its client said them or not
DEFAULTS = {"temperature": 1.0, "top_p": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0, "seed": 11}


def test_a_request_that_is_not_streamed_gets_one_response_with_its_usage(server, language_model):
    (whole,) = responses(server, prompt=OTHER_PROMPT, stream=False, **DEFAULTS)
    counts = [whole[name] for name in ("num_input_tokens", "num_output_tokens")]
    assert [count.dtype for count in counts] == [np.int32, np.int32]
    tokenizer = Tokenizer.from_file(str(language_model / "tokenizer.json"))
    assert [count.item() for count in counts] == [len(tokenizer.encode(OTHER_PROMPT).ids), whole["output_ids"].size]


def test_the_texts_and_usages_of_a_stream_add_up_to_those_of_the_whole(server):
    (whole,) = responses(server, prompt=OTHER_PROMPT, stream=False, **DEFAULTS)
    streamed = responses(server, prompt=OTHER_PROMPT, stream=True, **DEFAULTS)
    assert "".join(map(text_of, streamed)) == text_of(whole)
    assert sum(one["num_output_tokens"].item() for one in streamed) == whole["num_output_tokens"].item()
    assert {one["num_input_tokens"].item() for one in streamed} == {whole["num_input_tokens"].item()}


def test_stop_words_penalties_and_an_echo_are_what_its_client_asked_for(server):
    greedy = {"temperature": 0.0, "stream": False}
    (plain,) = responses(server, prompt=OTHER_PROMPT, **greedy)
    stop = text_of(plain)[4:7]
    (stopped,) = responses(server, prompt=OTHER_PROMPT, **greedy, stop=["never said", stop])
    assert text_of(stopped) == text_of(plain)[: text_of(plain).index(stop)]
    (echoed,) = responses(server, prompt=OTHER_PROMPT, **greedy, echo=True)
    assert text_of(echoed) == OTHER_PROMPT + text_of(plain)
    (penalised,) = responses(server, prompt=OTHER_PROMPT, **greedy, frequency_penalty=2.0, presence_penalty=2.0)
    assert penalised["num_output_tokens"].item() == 16


def test_a_tool_that_must_be_called_gets_json_of_its_schema(server):
    (whole,) = responses(server, prompt=PROMPT, stream=False, temperature=1.0, seed=2, guided_json=SCHEMA)
    assert json.loads(text_of(whole)) in ("fish", "chips")


def test_a_value_that_openai_forbids_is_refused_by_name(server):
    with pytest.raises(InputError, match="top_p"):
        responses(server, prompt=PROMPT, stream=True, top_p=1.5)
