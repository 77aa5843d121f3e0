"""How an answer is to be decoded, in a user's words: what is not said is left to the server.

The server checks ranges and combinations (docs/guides/decoding.md); here is only what can be said at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from attendant.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Length:
    """How long an answer may be.

    Attributes:
        max_tokens: longest answer in tokens, without the end token; as long as the model allows if not given.
        min_tokens: before so many tokens no end token is chosen, and no stop text is looked for.
    """

    max_tokens: int | None = None
    min_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Draw tokens by their probability instead of taking the most probable one; a temperature turns it on.

    Attributes:
        temperature: 0 takes the most probable token, 1 draws by the model's own probabilities; less is surer.
        top_k: draw among so many most probable tokens; 0 is all of them.
        top_p: draw among the most probable tokens that together have this probability.
        min_p: draw among tokens at least this share as probable as the most probable one.
        typical_p: draw among the tokens whose surprise is nearest to the expected one, of this probability together.
        seed: the same seed and question give the same answer, whoever else is served; drawn anew if not given.
        candidates: how many answers: samples, or the best so many of the beams.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: int | None = None
    candidates: int | None = None


@dataclass(frozen=True, kw_only=True)
class Penalties:
    """Make tokens less likely, or more.

    Attributes:
        repetition_penalty: above 1 makes the tokens of question and answer less likely.
        presence_penalty: taken from the logit of every token that stands in the answer.
        frequency_penalty: taken from a token's logit as often as it stands in the answer.
        logit_bias: token id and what is added to its logit; −100 all but forbids a token.
    """

    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Beams:
    """Follow several answers at once, and keep the most probable ones.

    Attributes:
        beam_width: how many; 1 is no beam search.
        length_penalty: a beam's score is its log-probability divided by its length to this power.
        early_stopping: whether to end as soon as enough beams have ended; never: only when no better one is possible.
    """

    beam_width: int | None = None
    length_penalty: float | None = None
    early_stopping: Literal["no", "yes", "never"] | None = None


@dataclass(frozen=True, kw_only=True)
class Stops:
    """Where an answer ends.

    Attributes:
        stop: a text that ends the answer and is no part of it.
        stop_ids: a token that ends the answer, beside the model's own end tokens.
        ignore_end: go on after the model's own end tokens.
    """

    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    ignore_end: bool = False


@dataclass(frozen=True, kw_only=True)
class Form:
    """What an answer must look like; at most one of them.

    Attributes:
        any_json: any JSON.
        json_schema: JSON of this schema; its text.
        regex: text that this regular expression matches as a whole.
    """

    any_json: bool = False
    json_schema: str | None = None
    regex: str | None = None

    def __post_init__(self) -> None:
        asked = [name for name in ("any_json", "json_schema", "regex") if getattr(self, name)]
        if len(asked) > 1:
            raise InputError("one form of an answer", " and ".join(asked), "leave all but one out")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What comes beside the answer.

    Attributes:
        echo: the prompt's text stands before the answer's.
        logprobs: each token comes with its log-probability under the model.
        top_logprobs: and with so many of the most probable tokens; needs logprobs.
        token_counts: how many tokens question and answer have.
    """

    echo: bool = False
    logprobs: bool = False
    top_logprobs: int | None = None
    token_counts: bool = False


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """When an answer comes.

    Attributes:
        draft_tokens: most tokens a step that are guessed by looking the last ones up in the text; the answer is the
            same, and sooner where it repeats what was said.
        priority: 0 is served before 1, which is the default.
        deadline_ms: longest time from the request's arrival to its last token.
    """

    draft_tokens: int | None = None
    priority: int | None = None
    deadline_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Decoding(Length, Sampling, Penalties, Beams, Stops, Form, Report, Schedule):
    """Everything that can be asked of decoding; see the groups that it is made of.

    Attributes:
        explain: whether each token comes with its alignment.

    Raises:
        InputError: more than one form is asked for.
    """

    explain: bool = False
