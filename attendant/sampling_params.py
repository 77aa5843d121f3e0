"""How an answer is decoded: one row for each parameter, from which everything that knows of it follows.

That is: the tensors of a request (:mod:`attendant.sampling_tensors`) and of ``config.pbtxt``, the ranges that clients,
gateway and engine refuse beyond, the gateway's fields, the flags of ``attendant generate``, and the tables of
docs/reference/sampling-parameters.md. A new parameter is a new row, and its meaning in ``serving/engine``.

Names are those of vLLM's ``SamplingParams`` and of OpenAI's API where these have one; tensors are named as
TensorRT-LLM's Triton models name them, so that Triton's own OpenAI front end and other clients fit. Meanings are those
of transformers' ``generate`` (temperature to typical_p, beams) and of OpenAI's API (presence, frequency, logit bias).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_type_hints

from attendant.errors import InputError
from attendant.param import LARGE, Param, param_field

StructureKind = Literal["json", "json_schema", "regex", "grammar"]
EARLY_STOPPING = ("no", "yes", "never")
STRUCTURES = ("json_object", "json_schema", "regex", "grammar")
MOST_ANSWERS = 32
MOST_TOP_LOGPROBS = 20
MOST_GUIDE_CHARACTERS = 65_536
LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """What an answer must look like.

    Attributes:
        kind: any object of JSON, JSON of a schema, or text that a regular expression or a grammar matches as a whole.
        text: the schema, the expression or the grammar; empty for any object.
    """

    kind: StructureKind
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How one request is decoded. The defaults are greedy decoding to the model's own end.

    Attributes:
        explain: whether each token comes with its alignment; a parameter of the request, and no tensor.

    Raises:
        InputError: a value is out of its range, or two exclude each other.
    """

    max_tokens: int | None = param_field(
        None,
        "Length",
        "max_tokens int32",
        "longest answer, in tokens; an end token is not counted. 0, for `echo`, is of language models alone",
        ge=0,
        le=LARGE,
        most="what the cache holds",
        unset="as many",
        openai="max_tokens",
    )
    min_tokens: int = param_field(
        0,
        "Length",
        "min_tokens int32",
        "before so many tokens no end token is chosen, and no stop text is looked for",
        ge=0,
        le=LARGE,
    )
    temperature: float = param_field(
        0.0,
        "Sampling",
        "temperature float32",
        "logits are divided by it: 0 takes the most probable token, 1 draws by the model's own probabilities",
        ge=0,
        le=100,
        openai="temperature",
    )
    top_k: int = param_field(
        0, "Sampling", "top_k int32", "draw among so many most probable tokens; 0 is all of them", ge=0, le=LARGE
    )
    top_p: float = param_field(
        1.0,
        "Sampling",
        "top_p float32",
        "draw among the most probable tokens that together have this probability",
        gt=0,
        le=1,
        openai="top_p",
    )
    min_p: float = param_field(
        0.0,
        "Sampling",
        "min_p float32",
        "draw among tokens at least this share as probable as the most probable one",
        ge=0,
        le=1,
    )
    typical_p: float = param_field(
        1.0,
        "Sampling",
        "typical_p float32",
        "draw among the tokens whose surprise is nearest to the expected one, of this probability together",
        gt=0,
        le=1,
    )
    seed: int | None = param_field(
        None,
        "Sampling",
        "seed uint64",
        "the same request with the same seed gets the same answer, whatever else is served",
        ge=0,
        le=LARGEST_SEED,
        unset="drawn",
        openai="seed",
    )
    n: int = param_field(
        1,
        "Sampling",
        "num_return_sequences int32",
        "so many answers: samples, or the best of the beams; responses name theirs in `sequence_index`",
        ge=1,
        le=MOST_ANSWERS,
        openai="n",
    )
    repetition_penalty: float = param_field(
        1.0,
        "Penalties",
        "repetition_penalty float32",
        "logits of the tokens of prompt and answer are divided by it, multiplied if negative",
        gt=0,
        le=100,
    )
    presence_penalty: float = param_field(
        0.0,
        "Penalties",
        "presence_penalty float32",
        "taken from the logit of every token that stands in the answer",
        ge=-100,
        le=100,
        openai="presence_penalty",
    )
    frequency_penalty: float = param_field(
        0.0,
        "Penalties",
        "frequency_penalty float32",
        "taken from a token's logit as often as it stands in the answer",
        ge=-100,
        le=100,
        openai="frequency_penalty",
    )
    logit_bias: Mapping[int, float] = param_field(
        {},
        "Penalties",
        "logit_bias_ids int32 logit_bias float32",
        "token id and what is added to its logit; −100 all but forbids a token",
        several=True,
        max_items=1024,
        openai="logit_bias",
    )
    beam_width: int = param_field(
        1,
        "Beams",
        "beam_width int32",
        "beams that are followed; 1 is no beam search. Not with a temperature, stop texts, structured output, "
        "speculative tokens, log-probabilities or explanations",
        ge=1,
        le=MOST_ANSWERS,
        most="32, and to the slots",
    )
    length_penalty: float = param_field(
        1.0,
        "Beams",
        "length_penalty float32",
        "a beam's score, `cum_log_probs`, is its log-probability divided by its length to this power",
        ge=-30,
        le=30,  # so that even the longest length to this power is a float
    )
    early_stopping: Literal["no", "yes", "never"] = param_field(
        "no",
        "Beams",
        "early_stopping int32",
        "yes: end as soon as enough beams have ended; never: only when no better one is possible; no: when a better "
        "one is unlikely",
    )
    stop: tuple[str, ...] = param_field(
        (),
        "Stops",
        "stop_words string",
        "a text that ends the answer; no part of it is sent, wherever tokens cut it",
        several=True,
        max_items=16,
        max_length=1024,
        openai="stop",
    )
    stop_token_ids: tuple[int, ...] = param_field(
        (),
        "Stops",
        "stop_token_ids int32",
        "a token that ends the answer, beside the model's own end tokens",
        several=True,
        max_items=256,
    )
    ignore_eos: bool = param_field(False, "Stops", "ignore_eos bool", "go on after the model's own end tokens")
    json_object: bool = param_field(
        False,
        "Structured output",
        "guided_decoding_guide_type string",
        "the answer is an object of JSON, without blanks",
        openai="response_format",
    )
    json_schema: str | None = param_field(
        None,
        "Structured output",
        "guided_decoding_guide_type string guided_decoding_guide string",
        "the answer is JSON of this schema, without blanks unless its `x-guidance` says otherwise",
        max_length=MOST_GUIDE_CHARACTERS,
        openai="response_format",
    )
    regex: str | None = param_field(
        None,
        "Structured output",
        "guided_decoding_guide_type string guided_decoding_guide string",
        "the answer is text that this regular expression matches as a whole",
        max_length=MOST_GUIDE_CHARACTERS,
    )
    grammar: str | None = param_field(
        None,
        "Structured output",
        "guided_decoding_guide_type string guided_decoding_guide string",
        "the answer is text of this grammar: Lark's, as llguidance reads it, or llama.cpp's GBNF",
        max_length=MOST_GUIDE_CHARACTERS,
    )
    parse_special: bool = param_field(
        False,
        "Prompt",
        "parse_special bool",
        "special tokens that stand in the text, as `<extra_id_0>`, are read as such; without, a text is text",
    )
    echo: bool = param_field(
        False,
        "Report",
        "exclude_input_in_output bool",
        "the prompt's text stands before the answer's; not of translators and captioners",
        openai="echo",
    )
    logprobs: bool = param_field(
        False,
        "Report",
        "return_log_probs bool",
        "each token comes with its log-probability under the model, before penalties and temperature; with `echo`, "
        "the prompt's tokens too, and an end token, which is then counted",
        openai="logprobs",
    )
    top_logprobs: int = param_field(
        0,
        "Report",
        "top_logprobs int32",
        "and with so many of the most probable tokens; needs `logprobs`",
        ge=0,
        le=MOST_TOP_LOGPROBS,
        openai="top_logprobs",
    )
    token_counts: bool = param_field(
        False,
        "Report",
        "return_num_input_tokens bool return_num_output_tokens bool",
        "how many tokens the prompt has, and how many each response adds",
        openai="usage",
    )
    num_speculative_tokens: int = param_field(
        0,
        "Schedule",
        "num_speculative_tokens int32",
        "most tokens a step that prompt lookup proposes (n-gram speculative decoding); the answer is the same, and "
        "sooner where it repeats what stands in the text",
        ge=0,
        le=32,
    )
    priority: int = param_field(1, "Schedule", "priority int32", "0 is served before 1", ge=0, le=1)
    deadline_ms: int | None = param_field(
        None,
        "Schedule",
        "deadline_ms int32",
        "longest time from the request's arrival to its last token; then it ends with DEADLINE_EXCEEDED",
        ge=1,
        le=LARGE,
    )
    explain: bool = False

    def __post_init__(self) -> None:
        for name, param in PARAMS.items():
            value = getattr(self, name)
            if value is not None:
                param.require(name, value)
        if any(not text for text in self.stop):
            raise InputError("stop texts of at least one character", "an empty one", "leave it out", param="stop")
        structures = [name for name in STRUCTURES if getattr(self, name) not in (None, False)]
        beams, structured = self.beam_width > 1, bool(structures)
        exclusive = [
            (len(structures) > 1, "one structure of an answer", ""),
            (beams and self.n > self.beam_width, f"n of at most {self.beam_width}, of so many beams", "n"),
            (self.n > 1 and self.is_greedy, "n of 1 in greedy decoding, which has no other answer", "n"),
            (beams and self.temperature > 0, "beams without a temperature, or samples without beams", "temperature"),
            (beams and self.max_tokens == 0, "beams with max_tokens of at least 1", "max_tokens"),
            (beams and bool(self.stop), "beams without stop texts", "stop"),
            (beams and structured, "beams without structured output", "beam_width"),
            (beams and self.num_speculative_tokens > 0, "beams without speculative tokens", "num_speculative_tokens"),
            (beams and self.explain, "one beam to be explained", "explain"),
            (beams and self.logprobs, "beams without log-probabilities of their tokens", "logprobs"),
            (self.echo and self.explain, "no echo of a prompt before an answer that is explained", "echo"),
            (
                self.num_speculative_tokens > 0 and self.explain,
                "no speculative tokens in an answer that is explained",
                "num_speculative_tokens",
            ),
            (
                structured and self.ignore_eos,
                "structured output without ignore_eos: it says where an answer ends",
                "ignore_eos",
            ),
            (self.top_logprobs > 0 and not self.logprobs, "top_logprobs together with logprobs", "top_logprobs"),
        ]
        for wrong, expected, param_name in exclusive:
            if wrong:
                names = [name for name in (*PARAMS, "explain") if name not in _OF_SERVERS and is_set(self, name)]
                raise InputError(
                    expected,
                    ", ".join(f"{name} = {_plain(getattr(self, name))}"[:200] for name in names),
                    "leave one of them out",
                    param=param_name,
                )

    @property
    def is_greedy(self) -> bool:
        """Whether the most probable token is chosen, whatever the seed."""
        return self.temperature == 0 and self.beam_width == 1

    @property
    def sequences(self) -> int:
        """How many sequences are decoded at once."""
        return max(self.beam_width, 1 if self.is_greedy else self.n)

    @property
    def structure(self) -> Structure | None:
        """What the answer must look like, if that was said."""
        if self.json_object:
            return Structure(kind="json")
        if self.json_schema is not None:
            return Structure(kind="json_schema", text=self.json_schema)
        if self.regex is not None:
            return Structure(kind="regex", text=self.regex)
        return Structure(kind="grammar", text=self.grammar) if self.grammar is not None else None


PARAMS: dict[str, Param] = {
    one.name: one.metadata["param"] for one in fields(SamplingParams) if "param" in one.metadata
}
"""Every parameter that tensors carry, in the order of the guide."""
_DEFAULTS: dict[str, Any] = {
    one.name: {} if one.default_factory is dict else one.default for one in fields(SamplingParams)
}
TYPES: dict[str, Any] = get_type_hints(SamplingParams)


_OF_SERVERS = ("token_counts", "deadline_ms")  # which a gateway adds by itself, and which exclude nothing


def _plain(value: Any) -> str:
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, ensure_ascii=False)


def default_of(name: str) -> Any:
    """What a parameter is where nothing is said of it."""
    return _DEFAULTS[name]


def is_set(params: SamplingParams, name: str) -> bool:
    """Whether a parameter differs from its default."""
    return bool(getattr(params, name) != _DEFAULTS[name])
