"""The form of one answer as its tokens come: which may come next.

Legend: V vocabulary.
Source: M. Moskal et al., llguidance, https://github.com/guidance-ai/llguidance.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from attendant.errors import BusyError, InputError
from serving.engine.sampling.guide_grammar import on_one_line
from serving.runtime.base import Array

if TYPE_CHECKING:
    from llguidance import LLMatcher

MOST_BETWEEN_STEPS_S = 0.02
"""Of a processor, that a guide may take to be compiled where tokens are decoded for all."""
MOST_REPEATING_S = 0.05
"""Of a processor, for what was allowed before each token of an answer that goes on with a guide compiled anew."""
MOST_TOKENS = 1000
"""Of answers of one lexer, to which each may add: newcomers get another then, of which nothing is built yet."""
MOST_MENDING_S, MENDING_SHARE = 1.0, 0.1
"""Of a processor, that mending guides may take at once, and of the time that passes."""
MOST_TAKING_UP_S = 0.2
"""Of a processor, for one answer to be taken up by a guide compiled anew."""
Step = TypeVar("Step")


class MendingTime:
    """What mending may take of a thread that others wait for: a second at once, and a tenth of the time that passes."""

    def __init__(self) -> None:
        self._left_s, self._seen_s = MOST_MENDING_S, time.monotonic()

    @property
    def is_left(self) -> bool:
        now_s = time.monotonic()
        self._left_s = min(self._left_s + MENDING_SHARE * (now_s - self._seen_s), MOST_MENDING_S)
        self._seen_s = now_s
        return self._left_s > 0.0

    def spend(self, seconds: float) -> None:
        self._left_s -= seconds


class SharedGrammar:
    """What the answers of one guide share.

    llguidance's copies of a matcher have one lexer. A step that was too complex for it spoils it for all of them
    from then on, and may have said less than what is allowed; it is then compiled anew.
    """

    def __init__(self, compile_anew: Callable[[], LLMatcher], mending_time: MendingTime) -> None:
        """Compile it.

        Args:
            compile_anew: compiles it.
            mending_time: of the thread that decodes, over all grammars of a model.
        """
        self._compile, self.mending_time = compile_anew, mending_time
        self._matcher: LLMatcher | None
        began_s = time.thread_time()
        self.renew()
        self._is_cheap = time.thread_time() - began_s <= MOST_BETWEEN_STEPS_S

    @property
    def is_worn(self) -> bool:
        """Whether newcomers had better have another lexer: this one is spoiled, large, or gone and costly."""
        return self.is_spoiled or self.tokens > MOST_TOKENS or (self._matcher is None and not self._is_cheap)

    def renew(self) -> LLMatcher:
        """Compile it anew, and take its first step, for all answers that begin from now on."""
        matcher = self._compile()
        matcher.deep_copy().compute_bitmask()  # the first may cost more than others: it is to be none of an answer's
        self._matcher, self.is_spoiled, self.tokens = matcher, False, 0
        return matcher

    def forget(self) -> None:
        """Keep no lexer but those that answers have."""
        self._matcher, self.is_spoiled, self.tokens = None, False, 0

    def begin(self) -> LLMatcher:
        """What a new answer copies.

        Raises:
            BusyError: it was forgotten, and others would wait while it is compiled anew.
        """
        matcher = self._matcher
        if matcher is None and not self._is_cheap:
            raise BusyError("guides that take less memory", "a costly one that was let go of", "retry later")
        return self.renew() if matcher is None else matcher

    def mend(self, spoiled: LLMatcher) -> None:
        """Compile anew what is spoiled, if others hardly wait for it."""
        if self._is_cheap and (self.is_spoiled or spoiled is self._matcher):
            self.renew()


class TokenGuide:
    """The form of one answer as its tokens come."""

    def __init__(self, grammar: SharedGrammar, vocabulary_size: int, tokens: Iterable[int] = ()) -> None:
        self._grammar, self._vocabulary_size, self._tokens = grammar, vocabulary_size, [*tokens]
        self._has_said = False  # what is allowed next
        self._begin()

    @property
    def is_complete(self) -> bool:
        """Whether the answer has the form and nothing can follow but an end token."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def allowed(self) -> Array:
        """For each token whether it may come next, bool ``[V]``; an end token only after an answer of the form.

        Raises:
            InputError: the vocabulary cannot say what must come, or the grammar is too complex.
        """
        bits = np.frombuffer(self._do(lambda matcher: matcher.compute_bitmask()), dtype=np.uint8)
        self._has_said = True
        allowed_V = np.zeros(self._vocabulary_size, dtype=bool)
        known = np.unpackbits(bits, count=min(8 * bits.size, self._vocabulary_size), bitorder="little")
        allowed_V[: known.size] = known
        return allowed_V

    def take(self, token: int) -> None:
        """The answer has one more token.

        Raises:
            InputError: it is none of the allowed, or the grammar is too complex.
        """
        self._do(lambda matcher: matcher.consume_token(token))
        self._has_said = False
        self._grammar.tokens += 1
        self._tokens.append(token)

    def copy(self) -> TokenGuide:
        """The form of another answer, as far as this one has come."""
        return TokenGuide(self._grammar, self._vocabulary_size, self._tokens)

    def _begin(self) -> None:
        self._origin = self._grammar.begin()
        self._matcher = self._origin.deep_copy()
        began_s = time.thread_time()
        for token in self._tokens:
            taken_s = time.thread_time() - began_s
            if taken_s > MOST_TAKING_UP_S:
                found = f"one of {len(self._tokens)} tokens whose guide is too complex"
                raise InputError("an answer that the guide lets go on", found, "loosen or simplify the guide")
            # As it came: what is allowed behind many tokens at once is more for the lexer to build than a step may.
            if taken_s < MOST_REPEATING_S:
                self._matcher.compute_bitmask()
            self._matcher.consume_token(token)

    def _do(self, step: Callable[[LLMatcher], Step]) -> Step:
        result = step(self._matcher)
        may_be_others = self._has_spoiled_lexer and not self._has_said
        if may_be_others and self._grammar.mending_time.is_left:
            began_s = time.thread_time()
            try:
                self._grammar.mend(self._origin)
                self._begin()
                result = step(self._matcher)
            finally:
                self._grammar.mending_time.spend(time.thread_time() - began_s)
        if self._has_spoiled_lexer:
            self._grammar.is_spoiled = True
        if self._matcher.is_error():
            found, _, _ = self._matcher.get_error().partition("\n<")
            raise InputError("an answer that the guide lets go on", on_one_line(found), "loosen or simplify the guide")
        return result

    @property
    def _has_spoiled_lexer(self) -> bool:
        return self._matcher.is_error() and "lexer error" in self._matcher.get_error()
