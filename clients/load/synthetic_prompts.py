"""Prompts of a wished length in tokens, made by a client that has no tokenizer: the server counts.

    tokens ≈ a + b · words        a: what a template adds; b: tokens a word

Two probes of different lengths give a and b, and further ones correct the number of words until the server counts
what was wished. Words are drawn at random from short common ones, most of which are one token each; so no two prompts
are alike that have some words of their own, and a server's prefix cache holds no more than the prefix that they are
given in common. Probes are never sent again for the same reason.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from attendant.errors import InputError
from attendant.tensor_names import TEXT_INPUT
from clients.load.request_inputs import RequestInput, text_tensor
from clients.load.scenario import Workload

Count = Callable[[RequestInput], Awaitable[int]]
"""How many tokens the server counts in an input; 0 where it does not say."""
WORDS = (
    *("the", "of", "and", "to", "in", "is", "was", "for", "on", "that", "by", "with", "as", "at", "from", "his", "it"),
    *("an", "are", "which", "this", "be", "had", "or", "has", "first", "their", "but", "not", "have", "one", "new"),
    *("who", "all", "her", "were", "they", "two", "time", "year", "city", "war", "world", "house", "day", "long"),
    *("work", "over", "now", "small", "water", "line", "hand", "part", "near", "most", "other", "after", "great"),
)
NOTE = "synthetic prompts"
"""How the notes of a run begin that say what was found."""
_FIRST, _SECOND = 8, 32  # words of the first two probes
_MOST_PROBES = 8
_MOST_WORDS = 16  # for each token that is wished: common words are of one token or more
_ANSWER_TOKENS = 32  # of the assistant's messages in a conversation, where no length of the answers was given


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLength:
    """How many words make the wished number of tokens.

    Attributes:
        words: of a prompt.
        tokens_per_word: of these words.
        tokens: that the server counted in a prompt of so many words.
        probes: that were sent.
    """

    words: int
    tokens_per_word: float
    tokens: int
    probes: int


async def find_length(tokens: int, make: Callable[[int], RequestInput], count: Count) -> PromptLength:
    """Find how many words a prompt of so many tokens has, by asking the server.

    Args:
        tokens: that are wished.
        make: a new prompt of so many words.
        count: what the server counts in it.

    Raises:
        InputError: the server does not say what it counts, or counts no more in more words, or one word is longer
            already.
    """
    counted: dict[int, int] = {}

    async def probe(words: int) -> int:
        if words > _SECOND + _MOST_WORDS * tokens:
            raise _uncounted(f"{counted}, by words")
        if not (found := await count(make(words))):
            raise _uncounted("none")
        counted[words] = found
        return found

    first, second = await probe(_FIRST), await probe(_SECOND)
    if second <= first:
        raise _uncounted(f"{counted}, by words")
    slope = (second - first) / (_SECOND - _FIRST)
    if (shortest := round(first - slope * (_FIRST - 1))) > tokens:
        raise InputError(f"--input-tokens of at least {shortest}, of one word", str(tokens), "ask for more")
    words = max(1, round((tokens - first) / slope + _FIRST))
    while words not in counted and len(counted) < _MOST_PROBES:
        found = await probe(words)
        words = max(1, words + round((tokens - found) / slope))
    best = min(counted, key=lambda one: (abs(counted[one] - tokens), one))
    return PromptLength(words=best, tokens_per_word=slope, tokens=counted[best], probes=len(counted))


def _uncounted(found: str) -> InputError:
    remedy = "use --prompt or --dataset, or a server that counts"
    return InputError("a server that counts the tokens of prompts (usage.prompt_tokens)", found, remedy)


async def create_synthetic(
    workload: Workload, rng: np.random.Generator, count: Count
) -> tuple[list[RequestInput], str]:
    """The prompts of a workload, and what the report should say of them.

    Args:
        workload: that says how many and how long.
        rng: words are drawn from.
        count: what the server counts in a prompt.

    Raises:
        InputError: the server does not say what it counts, or one word is longer already.
    """
    inputs = workload.inputs
    assert inputs.input_tokens is not None, "the scenario's own check"
    is_chat = workload.endpoint == "chat"
    found = await find_length(inputs.input_tokens, lambda words: _create_input([_draw(rng, words)], is_chat), count)
    shared = min(found.words, round(inputs.prefix_tokens / found.tokens_per_word))
    prefix = _draw(rng, shared)
    limit = workload.decoding.max_tokens if workload.decoding is not None else None
    answer_words = max(1, round((limit or _ANSWER_TOKENS) / found.tokens_per_word))
    created = []
    for _ in range(inputs.number):
        texts = [" ".join(filter(None, (prefix, _draw(rng, found.words - shared))))]
        for _ in range(inputs.turns - 1):
            texts += [_draw(rng, answer_words), _draw(rng, found.words)]
        created += [_create_input(texts[: 2 * turn + 1], is_chat) for turn in range(inputs.turns)]
    note = (
        f"{found.tokens} tokens a prompt of {found.words} words, by {found.probes} probes; wished {inputs.input_tokens}"
    )
    return created, f"{note}, of which {inputs.prefix_tokens} in common" if shared else note


def _draw(rng: np.random.Generator, words: int) -> str:
    return " ".join(rng.choice(WORDS, words).tolist())


def _create_input(texts: list[str], is_chat: bool) -> RequestInput:
    """Of the user and the assistant in turns, the last of the user."""
    if not is_chat:
        return RequestInput(tensors={TEXT_INPUT: text_tensor(texts)})
    roles = ("user", "assistant")
    messages = tuple({"role": roles[number % 2], "content": text} for number, text in enumerate(texts))
    return RequestInput(tensors={}, messages=messages)
