"""A prompt in, pieces of its continuation out: tokenizer and greedy decoding of one language model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from models.manifest import Manifest
from models.tokenization import load_tokenizer
from serving.generation.alignment import decoder_graph
from serving.generation.answer import Piece, Request, checked_limit, pieces
from serving.generation.greedy import greedy
from serving.generation.token_rules import TokenRules
from serving.parameters import Runtime
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners


class Generator:
    """One artefact of the task ``generate``, loaded."""

    def __init__(self, folder: Path, manifest: Manifest, threads: int = 1, runtime: Runtime = "auto") -> None:
        """Load tokenizer and graph.

        Raises:
            ArtefactError: a file is missing or not what the manifest says.
        """
        self._tokenizer = load_tokenizer(folder, manifest.details.get("tokenizer"))
        self._runner = create_runners(folder, manifest, threads, runtime)["decoder"]
        self._rules = TokenRules.of(manifest.details)
        self._longest = int(manifest.details["max_length"])
        self._idle: list[CachedDecoder] = []

    def request(self, text: str, max_tokens: int | None = None, explain: bool = False) -> Request:
        """See :class:`serving.generation.answer.TextModel`; prompt and answer fit the cache together."""
        decoder_graph(explain, None)  # it has no source
        token_ids = tuple(self._tokenizer.encode(text, self._longest - 1))
        room = self._longest - len(token_ids)
        why = f"the cache's {self._longest} positions less the prompt's {len(token_ids)}"
        return Request(token_ids=token_ids, max_tokens=checked_limit(max_tokens, room, why))

    def stream(self, request: Request) -> Iterator[Piece]:
        """See :class:`serving.generation.answer.TextModel`."""
        # A new cache costs its whole capacity in fresh pages. What an earlier answer left in one is never read: a
        # prompt writes from the first position on, and no step sees further than it has written.
        decoder = self._idle.pop() if self._idle else CachedDecoder(self._runner, 1)
        try:
            tokens = greedy(decoder, request.token_ids, self._rules, request.max_tokens + 1)
            yield from pieces(tokens, self._rules.end, request.max_tokens, self._tokenizer)
        finally:
            self._idle.append(decoder)
