"""One artefact that answers with text, loaded: its tokenizer, its graphs and the engine that steps them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.parameters import Device, Runtime
from attendant.sampling_params import SamplingParams
from attendant.tokenization import load_tokenizer
from serving.engine.engine import Engine
from serving.engine.loaded_model import LoadedModel
from serving.engine.meter import Meter
from serving.engine.output.alignment import aligning_graph, decoder_graph
from serving.engine.request import Request
from serving.engine.request_output import RequestOutput
from serving.engine.sampling.guide import Guides
from serving.engine.sampling.token_rules import TokenRules
from serving.engine.settings import EngineSettings
from serving.runtime.create_runners import create_runners

SEED_BITS = 63


class TextGenerationModel:
    """What translators, captioners and language models have in common; a subclass says what they are asked.

    Attributes:
        runners: graph name → what is loaded.
        tokenizer: text ↔ tokens.
        details: of the manifest.
        vocabulary_size: how many tokens the decoder knows.
        engine: that decodes.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        threads: int = 1,
        runtime: Runtime = "auto",
        device: Device = "auto",
        settings: EngineSettings | None = None,
        meter: Meter | None = None,
    ) -> None:
        """Load tokenizer and graphs, and allocate the slots.

        Raises:
            ArtefactError: a file is missing or not what the manifest says.
        """
        self.details = manifest.details
        self.runners = create_runners(folder, manifest, threads, runtime, device)
        self.tokenizer = load_tokenizer(folder, self.details.get("tokenizer"))
        self._aligning = aligning_graph(manifest)
        self.vocabulary_size = int(manifest.graph("decoder").outputs[0].axes[-1])
        self.engine = Engine(self._written(), settings or EngineSettings(), meter)

    def request(self, subject: Any, options: SamplingParams | None = None, /) -> Request:
        """Check a question.

        Raises:
            InputError: it cannot be answered or explained, or a limit is out of reach.
        """
        raise NotImplementedError

    def stream(self, request: Request) -> Iterator[RequestOutput]:
        """Decode a request in the calling thread; the last piece of each answer carries the reason for its end.

        Raises:
            AttendantError: it has no answer.
        """
        return self.engine.stream(request)

    def tokens(self, subject: str | Sequence[int], longest: int, below: int | None = None) -> tuple[int, ...]:
        """The tokens of a text, or those that were brought.

        Raises:
            InputError: there are none, too many, or one outside the vocabulary.
        """
        if isinstance(subject, str):
            return tuple(self.tokenizer.encode(subject, longest))
        require_tokens(subject, "input_ids", below)
        if not 1 <= len(subject) <= longest:
            raise InputError(f"1 to {longest} tokens", str(len(subject)), "shorten the input")
        return tuple(int(token) for token in subject)

    def _checked(self, options: SamplingParams) -> int:
        """What options ask of this model; returns the seed."""
        self.runners[decoder_graph(options.explain, self._aligning)]  # loaded here: only who asks is to meet an error
        require_tokens(options.stop_token_ids, "stop_token_ids", self.vocabulary_size)
        require_tokens(list(options.logit_bias), "logit_bias", self.vocabulary_size)
        return secrets.randbits(SEED_BITS) if options.seed is None else options.seed

    def _written(self) -> LoadedModel:
        rules = TokenRules.of(self.details)
        aligning = None if self._aligning is None else partial(self.runners.__getitem__, self._aligning)
        return LoadedModel(
            decoder=self.runners["decoder"],
            encoder=self.runners.get("encoder"),
            aligning=aligning,
            tokenizer=self.tokenizer,
            rules=rules,
            guides=Guides(self.tokenizer, self.vocabulary_size, rules.end),
        )


def require_tokens(tokens: Sequence[int], name: str, below: int | None = None) -> None:
    """Refuse tokens that do not exist.

    Raises:
        InputError: one is negative, or not below the bound.
    """
    strangers = [int(token) for token in tokens if token < 0 or (below is not None and token >= below)]
    if strangers:
        most = "of at least 0" if below is None else f"from 0 to {below - 1}"
        raise InputError(f"tokens {most}", str(strangers[0]), f"correct {name}", param=name)
