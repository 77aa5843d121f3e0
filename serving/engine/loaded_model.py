"""What an engine decodes with: the graphs of one artefact, its tokenizer and the rules of its tokens."""

from collections.abc import Callable
from dataclasses import dataclass

from attendant.tokenizer import TextTokenizer
from serving.engine.sampling.guide import Guides
from serving.engine.sampling.token_rules import TokenRules
from serving.runtime.base import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """The parts of an artefact that answers with text.

    Attributes:
        decoder: new tokens and caches → logits.
        prefill: the new tokens of prompts and the same caches → these alone; none where the decoder reads prompts.
        encoder: source → what the decoder needs of it, if there is a source.
        aligning: loads the decoder that shows how it reads the source, if there is one.
        tokenizer: text ↔ tokens.
        rules: of the tokens.
        guides: what answers can be held to.
    """

    decoder: Runner
    prefill: Runner | None = None
    encoder: Runner | None = None
    aligning: Callable[[], Runner] | None = None
    tokenizer: TextTokenizer
    rules: TokenRules
    guides: Guides
