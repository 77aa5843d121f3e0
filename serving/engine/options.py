"""What a request may ask of decoding beyond its text: limits, sampling, beams, stops, and what to report.

Sources: the names are those of TensorRT-LLM's Triton models where these have one; the meanings are those of
transformers' ``generate`` (temperature to typical_p, beams) and of OpenAI's API (presence, frequency, logit bias).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from attendant.errors import InputError

GuideKind = Literal["json", "json_schema", "regex"]
MOST_CANDIDATES = 32
MOST_TOP_LOGPROBS = 20
LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """What an answer must look like.

    Attributes:
        kind: any JSON, JSON of a schema, or text that a regular expression matches as a whole.
        text: the schema or the expression; empty for any JSON.
    """

    kind: GuideKind
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """How one request is decoded. The defaults are greedy decoding to the model's own end.

    Attributes:
        max_tokens: longest answer, in tokens, without the end token; as long as the model allows if None.
        min_tokens: before so many tokens no end token is chosen, and no stop is looked for.
        temperature: logits are divided by it; 0 is greedy.
        top_k: sample among the k most probable tokens; 0 is all.
        top_p: sample among the most probable tokens that together have this probability.
        min_p: sample among tokens at least this share as probable as the most probable one.
        typical_p: sample among the tokens whose surprise is closest to the expected one, of this probability together.
        repetition_penalty: logits of tokens of the prompt or the answer are divided by it, multiplied if negative.
        presence_penalty: taken from the logit of every token of the answer.
        frequency_penalty: taken from the logit of a token as often as it stands in the answer.
        logit_bias: token → what is added to its logit.
        seed: of the request's own stream of random numbers; drawn when the request is checked if None.
        candidates: how many answers (OpenAI's ``n``): samples, or the best so many of the beams.
        beam_width: beams kept; 1 is no beam search.
        length_penalty: a beam's score is its log-probability divided by its length to this power.
        early_stopping: end as soon as there are ``beam_width`` ended beams; ``never`` only when no better is possible.
        stop: texts that end an answer, and are not part of it.
        stop_ids: tokens that end an answer, beside the checkpoint's own end tokens.
        ignore_end: go on after the checkpoint's own end tokens.
        echo: the prompt's text stands before the answer's.
        logprobs: whether each token comes with its log-probability under the model.
        top_logprobs: and how many of the most probable tokens beside it.
        guide: what the answer must look like.
        draft_tokens: most tokens a step that are guessed by looking the last ones up in the text so far; 0 is none.
        explain: whether each token comes with its alignment.
        priority: 0 is served before 1.
        deadline_ms: longest time from arrival to the last token.

    Raises:
        InputError: a value is out of its range, or two exclude each other.
    """

    max_tokens: int | None = None
    min_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    candidates: int = 1
    beam_width: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    ignore_end: bool = False
    echo: bool = False
    logprobs: bool = False
    top_logprobs: int = 0
    guide: Guide | None = None
    draft_tokens: int = 0
    explain: bool = False
    priority: int = 1
    deadline_ms: int | None = None

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if value is not None and not low <= value <= high:  # a NaN is in no range
                raise InputError(f"{name} from {low:g} to {high:g}", str(value), f"correct {name}")
        for name in _ABOVE_ZERO:
            if getattr(self, name) <= 0:
                raise InputError(f"{name} above 0", str(getattr(self, name)), f"correct {name}")
        if any(not text for text in self.stop):
            raise InputError("stop texts of at least one character", "an empty one", "leave it out")
        self._require_compatible()

    @property
    def is_greedy(self) -> bool:
        """Whether the most probable token is chosen, whatever the seed."""
        return self.temperature == 0 and self.beam_width == 1

    @property
    def rows(self) -> int:
        """How many sequences are decoded at once."""
        return max(self.beam_width, 1 if self.is_greedy else self.candidates)

    def _require_compatible(self) -> None:
        exclusive = [
            (self.candidates > self.beam_width > 1, f"at most {self.beam_width} candidates of so many beams"),
            (self.candidates > 1 and self.is_greedy, "one candidate of greedy decoding, which has no other"),
            (self.beam_width > 1 and self.temperature > 0, "beams without a temperature, or samples without beams"),
            (self.beam_width > 1 and bool(self.stop), "beams without stop texts"),
            (self.beam_width > 1 and self.guide is not None, "beams without a guide"),
            (self.beam_width > 1 and self.draft_tokens > 0, "beams without draft tokens"),
            (self.beam_width > 1 and self.explain, "one beam to be explained"),
            (self.beam_width > 1 and self.logprobs, "beams without log-probabilities of their tokens"),
            (self.draft_tokens > 0 and self.explain, "no draft tokens in an answer that is explained"),
            (self.guide is not None and self.ignore_end, "a guide without ignore_end: it says where an answer ends"),
            (self.top_logprobs > 0 and not self.logprobs, "top_logprobs together with logprobs"),
        ]
        for wrong, expected in exclusive:
            if wrong:
                raise InputError(expected, self._asked(), "leave one of them out")

    def _asked(self) -> str:
        defaults = {name: spec.default for name, spec in self.__dataclass_fields__.items()}
        asked = {name: getattr(self, name) for name in defaults if getattr(self, name) not in (defaults[name], {})}
        return ", ".join(f"{name} = {value!r}" for name, value in asked.items())


_HUGE = 1e9
_RANGES: tuple[tuple[str, float, float], ...] = (
    ("min_tokens", 0, _HUGE),
    ("temperature", 0, 100),
    ("top_k", 0, _HUGE),
    ("min_p", 0, 1),
    ("presence_penalty", -100, 100),
    ("frequency_penalty", -100, 100),
    ("seed", 0, LARGEST_SEED),
    ("candidates", 1, MOST_CANDIDATES),
    ("beam_width", 1, MOST_CANDIDATES),
    ("length_penalty", -30, 30),  # so that even the longest length to this power is a float
    ("top_logprobs", 0, MOST_TOP_LOGPROBS),
    ("draft_tokens", 0, 32),
    ("priority", 0, 1),
    ("deadline_ms", 1, _HUGE),
    ("top_p", 0, 1),
    ("typical_p", 0, 1),
    ("repetition_penalty", 0, 100),
)
_ABOVE_ZERO = ("top_p", "typical_p", "repetition_penalty")
