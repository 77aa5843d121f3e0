"""Answers of a given form: which tokens may come next, by a JSON schema, a regular expression or a grammar.

The grammars are llguidance's. A tokenizer is compiled once a model, a grammar once a text; an answer then costs a copy,
and a token microseconds.

Legend: V vocabulary.
Source: M. Moskal et al., llguidance, https://github.com/guidance-ai/llguidance.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from attendant.errors import BusyError, InputError, MachineError
from attendant.no_tokenizer import NoTokenizer, no_text
from attendant.sampling_params import Structure
from attendant.tokenizer import TextTokenizer, Tokenizer
from serving.engine.sampling.guide_grammar import byte_vocabulary, compile_guide, on_one_line
from serving.engine.sampling.guide_trial import GuideTrial
from serving.engine.sampling.guide_vocabulary import GuideVocabulary, says_exactly
from serving.runtime.base import Array

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

MOST_GRAMMARS = 16  # that are kept compiled
MOST_GUIDES = 64  # that requests may hold at once, each of up to 64 MiB
MOST_REFUSED = 64  # that are remembered
MOST_BETWEEN_STEPS_S = 0.02
"""Of a processor, that a guide may take to be compiled where tokens are decoded for all."""
_NUMBERED_TOKEN = re.compile(r"<\[\d+\]>")

Step = TypeVar("Step")


class _Grammar:
    """What the answers of one guide share.

    llguidance's copies of a matcher have one lexer. A step that was too complex for it spoils it for all of them from then
    on, and may have said less than what is allowed; it is then compiled anew.
    """

    def __init__(self, compile_anew: Callable[[], LLMatcher]) -> None:
        self._compile = compile_anew
        began_s = time.thread_time()
        self.renew()
        self._is_cheap = time.thread_time() - began_s <= MOST_BETWEEN_STEPS_S

    def renew(self) -> None:
        matcher = self._compile()
        matcher.deep_copy().compute_bitmask()  # the first may cost more than others: it is to be none of an answer's
        self.matcher, self.is_spoiled = matcher, False

    def mend(self, spoiled: LLMatcher) -> None:
        """Compile anew what is spoiled, if others hardly wait for it."""
        if self._is_cheap and (self.is_spoiled or spoiled is self.matcher):
            self.renew()


class TokenGuide:
    """The form of one answer as its tokens come."""

    def __init__(self, grammar: _Grammar, vocabulary_size: int, tokens: Iterable[int] = ()) -> None:
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
        self._tokens.append(token)

    def copy(self) -> TokenGuide:
        """The form of another answer, as far as this one has come."""
        return TokenGuide(self._grammar, self._vocabulary_size, self._tokens)

    def renew(self) -> None:
        """Compile anew what a step of another answer has spoiled; others are not to wait for it."""
        if self._grammar.is_spoiled:
            self._grammar.renew()

    def _begin(self) -> None:
        self._origin = self._grammar.matcher
        self._matcher = self._origin.deep_copy()
        for token in self._tokens:
            self._matcher.consume_token(token)

    def _do(self, step: Callable[[LLMatcher], Step]) -> Step:
        result = step(self._matcher)
        if self._has_spoiled_lexer and not self._has_said:  # it may have been another answer's step
            self._grammar.mend(self._origin)
            self._begin()
            result = step(self._matcher)
        if self._has_spoiled_lexer:
            self._grammar.is_spoiled = True
        if self._matcher.is_error():
            found, _, _ = self._matcher.get_error().partition("\n<")
            raise InputError("an answer that the guide lets go on", on_one_line(found), "loosen or simplify the guide")
        return result

    @property
    def _has_spoiled_lexer(self) -> bool:
        return self._matcher.is_error() and "lexer error" in self._matcher.get_error()


class Guides:
    """The guides of one model: its tokenizer, and the grammars that requests have or were requested last."""

    def __init__(self, tokenizer: TextTokenizer, vocabulary_size: int, end_tokens: Collection[int]) -> None:
        """Take the model's properties; nothing is compiled before a guide is requested.

        Args:
            tokenizer: of the answers.
            vocabulary_size: width of the logits.
            end_tokens: of the checkpoint.
        """
        self._tokenizer, self._vocabulary_size, self._end = tokenizer, vocabulary_size, sorted(end_tokens)
        self._recent = lru_cache(MOST_GRAMMARS)(self._find)
        self._compiled: WeakValueDictionary[Structure, TokenGuide] = WeakValueDictionary()
        self._refused: dict[Structure, InputError] = {}
        self._trial = GuideTrial()

    def prepare(self, guide: Structure) -> TokenGuide:
        """What :meth:`create` copies, and its first step, which may take longest; from any thread.

        It stays compiled for as long as somebody has it.

        Raises:
            InputError: the guide is none that llguidance understands, or the model cannot be guided.
            MachineError: llguidance is not installed.
            BusyError: requests hold too many others.
        """
        found = self._get(guide)
        found.renew()
        return found

    def create(self, guide: Structure) -> TokenGuide:
        """The guide of a new answer.

        Raises:
            As :meth:`prepare`.
        """
        return self._get(guide).copy()

    def _get(self, guide: Structure) -> TokenGuide:
        if (error := self._refused.get(guide)) is not None:
            raise error.with_traceback(None)
        return self._recent(guide)

    def known(self, guide: Structure) -> TokenGuide | InputError | None:
        """What is at hand of a guide, or why it is refused; None of one that must be tried out."""
        return self._compiled.get(guide) or self._refused.get(guide)

    def _find(self, guide: Structure) -> TokenGuide:
        if (found := self._compiled.get(guide)) is None:
            try:
                found = self._compile(guide)
            except InputError as error:
                if len(self._refused) >= MOST_REFUSED:
                    self._refused.pop(next(iter(self._refused)), None)
                self._refused[guide] = error
                raise
            self._compiled[guide] = found
        return found

    def _compile(self, guide: Structure) -> TokenGuide:
        vocabulary = self._vocabulary
        if len(self._compiled) >= MOST_GUIDES:
            raise BusyError(f"requests of at most {MOST_GUIDES} guides at once", "one more", "retry later")
        tried = guide
        if guide.kind == "grammar":  # the trial knows no tokens: any of its own stands for one that is named by number
            tried = replace(guide, text=_NUMBERED_TOKEN.sub("<[0]>", guide.text))
        self._trial.require_cheap(tried)
        if guide.kind == "grammar":  # one that names tokens by their texts was not tried out, and is refused here
            compile_guide(byte_vocabulary(), tried)
        compiled = TokenGuide(_Grammar(partial(compile_guide, vocabulary, guide)), self._vocabulary_size)
        compiled.copy().allowed()
        return compiled

    @cached_property
    def _vocabulary(self) -> LLTokenizer:
        try:
            from llguidance import LLTokenizer, TokenizerWrapper
        except ImportError as error:
            raise MachineError("the package llguidance", str(error), "run `pip install llguidance`") from error
        if isinstance(self._tokenizer, NoTokenizer):
            raise no_text("a guide")
        if not isinstance(self._tokenizer, Tokenizer):
            raise _no_guide(f"a {type(self._tokenizer).__name__}")
        if not self._end:
            raise _no_guide("none that ends an answer")
        if not says_exactly(self._tokenizer):
            raise _no_guide(f"the decoder {self._tokenizer.library.decoder}")
        size = max(self._vocabulary_size, self._tokenizer.library.get_vocab_size())
        return LLTokenizer(TokenizerWrapper(GuideVocabulary(self._tokenizer, size, self._end)), eos_token=self._end)


def _no_guide(found: str) -> InputError:
    expected = "a model with end tokens and a tokenizer.json of bytes or characters, as a guide needs one"
    return InputError(expected, on_one_line(found), "leave the guide out")
