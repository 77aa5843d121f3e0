"""Tokens of one answer → its text as they come: whole characters only, and nothing of a stop text.

Only the tokens since the chunk before last are decoded again: how a token reads can depend on its neighbours (a space
before it, the other bytes of its character), and on nothing further away.

Source: D. E. Knuth, J. H. Morris, V. R. Pratt, "Fast pattern matching in strings", SIAM J. Comput. 6 (1977).
"""

import math
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from attendant.no_tokenizer import NoTokenizer
from attendant.sampling_params import SamplingParams
from attendant.tokenizer import TextTokenizer
from serving.engine.request_output import FinishReason, RequestOutput
from serving.engine.sampling.sampler import SampledToken
from serving.runtime.base import Array

_HALF_A_CHARACTER = "\ufffd"
LONGEST_WAIT = 64
"""Tokens that are held back until they are a character: bytes that never become one would be decoded ever again."""
LONGEST_RUN = 32
"""Single bytes that are held back until another token ends their run: one that is no UTF-8 spoils all before it."""


class IncrementalDetokenizer:
    """The text of one answer as its tokens come."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        self._emitted = 0  # how many tokens of the window have been emitted
        self._length = self._offset = 0  # of the text that was emitted, in characters; what offset last said

    def add(self, token: int) -> str:
        """What one more token adds; empty while the text ends within a character."""
        self._window.append(token)
        new = self.rest()
        held = len(self._window) - self._emitted
        if held < LONGEST_WAIT and (not new or new.endswith(_HALF_A_CHARACTER)):
            return ""
        if held < LONGEST_RUN and token in self._tokenizer.byte_tokens:
            return ""
        self._window, self._emitted = self._window[self._emitted :], len(self._window) - self._emitted
        self._length += len(new)
        return new

    def offset(self) -> int:
        """How many characters have come, emitted or not, but for one that has only begun: the next token may end it."""
        held = self._window[self._emitted :]
        text = self.rest() if held else ""
        count = len(text)
        if text.endswith(_HALF_A_CHARACTER):
            single = [token for token in held if token in self._tokenizer.byte_tokens]
            utf8 = getincrementaldecoder("utf-8")("replace")
            whole = utf8.decode(b"".join(map(self._tokenizer.token_bytes, single or held)))
            begun = len(utf8.getstate()[0])  # bytes
            # Single bytes that are no character, or not yet, make all of their run one sign each.
            is_whole = bool(single) and _HALF_A_CHARACTER not in whole
            count = len(whole) if is_whole else count - (begun if single else min(begun, 1))
        self._offset = max(self._offset, self._length + count)  # a byte can spoil characters before it
        return self._offset

    def rest(self) -> str:
        """What was held back, as far as it can be read."""
        emitted = self._tokenizer.decode(self._window[: self._emitted]) if self._emitted else ""
        return self._tokenizer.decode(self._window)[len(emitted) :] if self._window else ""


class StopText:
    """The text of one answer up to the first stop text.

    The first is the one that ends first; of those that end together, the longest.

    Attributes:
        found: the stop text that has come; None before.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._matches = [_Match(text) for text in stop]
        self._held = ""
        self.found: str | None = None

    def add(self, text: str) -> str:
        """What can be emitted now that one more chunk has come; of what follows a stop text, nothing."""
        if self.found is not None:
            return ""
        known = self._held + text
        for end, character in enumerate(text, len(self._held) + 1):
            self.found = max((match.text for match in self._matches if match.add(character)), key=len, default=None)
            if self.found is not None:
                return known[: end - len(self.found)]
        emitted = len(known) - max((match.length for match in self._matches), default=0)
        self._held = known[emitted:]
        return known[:emitted]

    def rest(self) -> str:
        """What was held back, now that the answer has ended; nothing after a stop text."""
        held, self._held = self._held if self.found is None else "", ""
        return held


class _Match:
    # length: of the longest beginning of the text that ends here

    def __init__(self, text: str) -> None:
        self.text, self.length = text, 0
        self._shorter = [0, 0]  # for each length: the longest shorter beginning that ends here too
        for character in text[1:]:
            self._shorter.append(self._longer(self._shorter[-1], character))

    def add(self, character: str) -> bool:
        self.length = self._longer(self.length, character)
        return self.length == len(self.text)

    def _longer(self, length: int, character: str) -> int:
        while length and self.text[length] != character:
            length = self._shorter[length]
        return length + (self.text[length] == character)


def offsets_of(tokenizer: TextTokenizer, tokens: Iterable[int]) -> Iterator[int]:
    """How many characters of what tokens say stand before each of them."""
    text = IncrementalDetokenizer(tokenizer)
    for token in tokens:
        yield text.offset()
        text.add(token)


class OutputBuilder:
    """The text of one answer as its tokens come."""

    def __init__(self, tokenizer: TextTokenizer, options: SamplingParams, candidate: int) -> None:
        self._text = IncrementalDetokenizer(tokenizer)
        self._stop = StopText(options.stop) if options.stop else None
        self._tokenizer, self._options, self._candidate = tokenizer, options, candidate
        self._count, self._begin = 0, 0  # tokens of the answer; characters of the prompt before it
        self._spells = options.logprobs and not isinstance(tokenizer, NoTokenizer)

    @property
    def is_stopped(self) -> bool:
        return self._stop is not None and self._stop.found is not None

    def add(self, choice: SampledToken, alignment: Array | None) -> RequestOutput:
        """The output of one more token."""
        self._count += 1
        said = self.end(choice)
        text = self._text.add(choice.token)
        if self._stop is not None and self._count > self._options.min_tokens:
            text = self._stop.add(text)
        return replace(
            said,
            text=text,
            alignment=None if alignment is None else alignment[None],
            token_texts=() if alignment is None else (text,),
        )

    def end(self, choice: SampledToken) -> RequestOutput:
        """The output of an end token, which says nothing."""
        return RequestOutput(
            text="",
            token_ids=(choice.token,),
            candidate=self._candidate,
            logprobs=(choice.logprob,) if self._options.logprobs else (),
            top_logprobs=(choice.top,) if self._options.top_logprobs else (),
            token_bytes=self._bytes_of([choice.token]),
            text_offsets=(self._begin + self._text.offset(),) if self._spells else (),
            top_bytes=self._bytes_of_tops([choice.top]),
        )

    def prompt(self, text: str, scored: Sequence[SampledToken], offsets: Sequence[int]) -> RequestOutput:
        """The output of a prompt whose tokens were scored; of the first, nothing is known.

        Args:
            text: of the prompt.
            scored: its tokens.
            offsets: how many characters stand before each.
        """
        self._begin = len(text)
        token_ids = tuple(one.token for one in scored)
        token_bytes = self._bytes_of(token_ids)
        unknown = ((-1, math.nan),) * self._options.top_logprobs
        tops = tuple(one.top if place else unknown for place, one in enumerate(scored))
        return RequestOutput(
            text=text,
            token_ids=token_ids,
            candidate=self._candidate,
            logprobs=tuple(one.logprob for one in scored),
            top_logprobs=tops if self._options.top_logprobs else (),
            token_bytes=token_bytes,
            text_offsets=tuple(offsets) if self._spells else (),
            top_bytes=self._bytes_of_tops(tops),
            prompt_tokens=len(scored),
        )

    def _bytes_of(self, tokens: Iterable[int]) -> tuple[bytes, ...]:
        if not self._spells:
            return ()
        return tuple(self._tokenizer.token_bytes(token) if token >= 0 else b"" for token in tokens)

    def _bytes_of_tops(self, tops: Iterable[tuple[tuple[int, float], ...]]) -> tuple[tuple[bytes, ...], ...]:
        if not self._spells or not self._options.top_logprobs:
            return ()
        return tuple(self._bytes_of(token for token, _ in top) for top in tops)

    def rest(self, reason: FinishReason, alignment: Array | None) -> RequestOutput:
        """The last output: what was held back."""
        text = "" if self.is_stopped else self._text.rest()
        if self._stop is not None and not self.is_stopped:
            text = self._stop.add(text) + self._stop.rest()
        nothing = None if alignment is None else alignment[None][:0]
        return RequestOutput(text=text, candidate=self._candidate, finish_reason=reason, alignment=nothing)
