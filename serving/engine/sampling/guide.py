"""Answers of a given form: which tokens may come next, by a JSON schema, a regular expression or a grammar.

The grammars are llguidance's. A tokenizer is compiled once a model, a grammar once a text; an answer then costs a copy,
and a token microseconds.

Source: M. Moskal et al., llguidance, https://github.com/guidance-ai/llguidance.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from attendant.errors import BusyError, InputError, MachineError
from attendant.no_tokenizer import NoTokenizer, no_text
from attendant.sampling_params import Structure
from attendant.tokenizer import TextTokenizer, Tokenizer
from serving.engine.sampling.allocated import allocated_bytes, give_back
from serving.engine.sampling.guide_grammar import byte_vocabulary, compile_guide, on_one_line
from serving.engine.sampling.guide_trial import GuideTrial
from serving.engine.sampling.guide_vocabulary import GuideVocabulary, says_exactly
from serving.engine.sampling.token_guide import MendingTime, SharedGrammar, TokenGuide

if TYPE_CHECKING:
    from llguidance import LLTokenizer

MOST_GRAMMARS = 16  # that are kept compiled
MOST_BYTES = 512 << 20  # that their lexers may grow by together: of a costly guide each token adds some 50 kB
MOST_GUIDES = 64  # that requests may hold at once
MOST_REFUSED = 64  # that are remembered
_NUMBERED_TOKEN = re.compile(r"<\[\d+\]>")


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
        self._compiled: WeakValueDictionary[Structure, SharedGrammar] = WeakValueDictionary()
        self._least_bytes = math.inf  # allocated, since lexers were forgotten
        self._refused: dict[Structure, InputError] = {}
        self._trial = GuideTrial()
        self._mending_between_steps, self._mending_before = MendingTime(), MendingTime()

    def prepare(self, guide: Structure) -> SharedGrammar:
        """What answers share, and its first step, which may take longest; from any thread.

        It stays compiled for as long as somebody has it.

        Raises:
            InputError: the guide is none that llguidance understands, or the model cannot be guided.
            MachineError: llguidance is not installed.
            BusyError: requests hold too many others, or it is compiled again and again.
        """
        self._bound_memory()
        found = self._get(guide)
        if found.is_worn and self._mending_before.is_left:
            began_s = time.thread_time()
            found.renew()
            self._mending_before.spend(time.thread_time() - began_s)
        if found.is_spoiled:
            raise BusyError(
                "a guide whose steps are simpler", "one compiled again and again", "retry later, or simplify it"
            )
        return found

    def create(self, guide: Structure) -> TokenGuide:
        """The guide of a new answer.

        Raises:
            As :meth:`prepare`.
        """
        return TokenGuide(self._get(guide), self._vocabulary_size)

    def forget(self) -> None:
        """Keep nothing compiled but what requests have: a guide's lexer grows with every answer."""
        if self._compiled:
            self._recent.cache_clear()
            give_back()

    def _bound_memory(self) -> None:
        """Let go of every lexer that no answer has, where all have grown by too much together."""
        self._least_bytes = min(self._least_bytes, allocated_bytes())
        if allocated_bytes() - self._least_bytes > MOST_BYTES:
            self._recent.cache_clear()
            for held in self._compiled.valuerefs():
                if (grammar := held()) is not None:
                    grammar.forget()
            self._least_bytes = allocated_bytes()

    def _get(self, guide: Structure) -> SharedGrammar:
        if (error := self._refused.get(guide)) is not None:
            raise error.with_traceback(None)
        return self._recent(guide)

    def known(self, guide: Structure) -> SharedGrammar | InputError | None:
        """What is at hand of a guide, or why it is refused; None of one that must be tried out, or compiled anew."""
        found = self._compiled.get(guide)
        return None if found is not None and found.is_worn else found or self._refused.get(guide)

    def _find(self, guide: Structure) -> SharedGrammar:
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

    def _compile(self, guide: Structure) -> SharedGrammar:
        vocabulary = self._vocabulary
        if len(self._compiled) >= MOST_GUIDES:
            raise BusyError(f"requests of at most {MOST_GUIDES} guides at once", "one more", "retry later")
        tried = guide
        if guide.kind == "grammar":  # the trial knows no tokens: any of its own stands for one that is named by number
            tried = replace(guide, text=_NUMBERED_TOKEN.sub("<[0]>", guide.text))
        self._trial.require_cheap(tried)
        if guide.kind == "grammar":  # one that names tokens by their texts was not tried out, and is refused here
            compile_guide(byte_vocabulary(), tried)
        compiled = SharedGrammar(partial(compile_guide, vocabulary, guide), self._mending_between_steps)
        TokenGuide(compiled, self._vocabulary_size).allowed()
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
