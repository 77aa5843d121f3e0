"""Text in, pieces of another text out: tokenizer, encoder and greedy decoding of one translator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from models.manifest import Manifest
from models.tokenization import load_tokenizer
from serving.generation.alignment import aligning_graph, alignment_of, decoder_graph
from serving.generation.answer import Piece, Request, checked_limit, pieces
from serving.generation.greedy import greedy
from serving.generation.token_rules import TokenRules
from serving.parameters import Runtime
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners


class Translator:
    """One artefact of the task ``translate``, loaded.

    Attributes:
        runners: graph name → what is loaded.
    """

    def __init__(self, folder: Path, manifest: Manifest, threads: int = 1, runtime: Runtime = "auto") -> None:
        """Load tokenizer and graphs.

        Raises:
            ArtefactError: a file is missing or not what the manifest says.
        """
        details = manifest.details
        self._tokenizer = load_tokenizer(folder, details.get("tokenizer"))
        self.runners = create_runners(folder, manifest, threads, runtime)
        self._rules = TokenRules.of(details)
        self._aligning = aligning_graph(manifest)
        self._start = int(details["start_token"])
        self._longest_source = int(details["max_source_length"])
        # The start token takes one position, and an answer of n tokens needs n steps to see its end.
        self._longest_answer = int(details["max_target_length"]) - 1

    def request(self, text: str, max_tokens: int | None = None, explain: bool = False) -> Request:
        """See :class:`serving.generation.answer.TextModel`; the limit is 1 … capacity − 1."""
        limit = checked_limit(max_tokens, self._longest_answer, "the cache's capacity less the start token")
        decoder_graph(explain, self._aligning)
        token_ids = tuple(self._tokenizer.encode(text, self._longest_source))
        return Request(token_ids=token_ids, max_tokens=limit, explain=explain)

    def stream(self, request: Request) -> Iterator[Piece]:
        """See :class:`serving.generation.answer.TextModel`.

        The source is encoded, and what the decoder needs of it is computed, once.
        """
        source_BS = np.array([request.token_ids], dtype=np.int64)
        source = {"source_ids": source_BS, "source_mask": np.ones_like(source_BS, dtype=bool)}
        memories = self.runners["encoder"].run(dict(source))
        graph = decoder_graph(request.explain, self._aligning)
        decoder = CachedDecoder(self.runners[graph], 1, {**source, **memories})
        tokens = greedy(decoder, [self._start], self._rules, request.max_tokens + 1)
        alignment = (lambda: alignment_of(decoder.shown)) if request.explain else None
        return pieces(tokens, self._rules.end, request.max_tokens, self._tokenizer, alignment)
