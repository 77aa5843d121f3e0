"""One artefact that answers with text, loaded: its tokenizer, its graphs and the engine that steps them."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attendant.errors import ArtefactError, InputError, of_param
from attendant.manifest import Manifest
from attendant.no_tokenizer import NoTokenizer, no_text
from attendant.parameters import Device, Runtime
from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import Tensors, prompt_from_tensors
from attendant.tensor_names import INPUT_IDS, PIXELS, PREFILL, TEXT_INPUT
from attendant.tokenization import has_tokenizer, load_tokenizer
from attendant.tokenizer import RenderedText, SpecialText, TextTokenizer
from serving.engine.classifier import require_finite
from serving.engine.engine import Engine
from serving.engine.loaded_model import LoadedModel
from serving.engine.meter import Meter
from serving.engine.output.alignment import aligning_graph, require_aligning
from serving.engine.output.detokenizer import offsets_of
from serving.engine.request import Request, require_limit
from serving.engine.request_output import RequestOutput
from serving.engine.sampling.guide import Guides
from serving.engine.sampling.token_guide import SharedGrammar
from serving.engine.sampling.token_rules import TokenRules
from serving.engine.settings import EngineSettings
from serving.runtime.base import Array, Runner
from serving.runtime.create_runners import create_runners

SEED_BITS = 63


class TextGenerationModel:
    """What translators, captioners and language models have in common; a subclass checks its own inputs.

    Attributes:
        runners: graph name → what is loaded.
        tokenizer: text ↔ tokens.
        details: of the manifest.
        vocabulary_size: how many tokens the decoder knows.
        loaded: what the engine decodes with.
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
            ArtefactError: a file is missing or not what the manifest says, or the graph that reads prompts is none of
                this decoder's.
        """
        self.details = manifest.details
        self.runners = create_runners(folder, manifest, threads, runtime, device)
        self.tokenizer = self.load_tokenizer(folder, manifest)
        self._aligning = aligning_graph(manifest)
        self.vocabulary_size = int(manifest.graph("decoder").outputs[0].axes[-1])
        self._input_vocabulary = manifest.input_vocabulary
        rules = TokenRules.of(self.details)
        self.loaded = LoadedModel(
            decoder=self.runners["decoder"],
            prefill=_prefill_of(self.runners),
            encoder=self.runners.get("encoder"),
            aligning=None if self._aligning is None else partial(self.runners.__getitem__, self._aligning),
            tokenizer=self.tokenizer,
            rules=rules,
            guides=Guides(self.tokenizer, self.vocabulary_size, rules.end),
        )
        self.engine = Engine(self.loaded, settings or EngineSettings(), meter)

    @staticmethod
    def load_tokenizer(folder: Path, manifest: Manifest) -> TextTokenizer:
        """The artefact's tokenizer.

        Raises:
            ArtefactError: there is none, or it cannot be read.
        """
        return load_tokenizer(folder, manifest.details.get("tokenizer"))

    @staticmethod
    def read_input(tensors: Tensors, max_tokens: int, max_characters: int) -> Any:
        """The text of a request, or its tokens; in whichever process, and without a look at what is too long.

        Args:
            tensors: that the client sent.
            max_tokens: as :attr:`max_input_tokens`.
            max_characters: as :attr:`max_input_characters`.

        Raises:
            InputError: there is neither, or it is too long.
        """
        return prompt_from_tensors(tensors, max_tokens, max_characters)

    def request(self, inputs: Any, options: SamplingParams | None = None, /) -> Request:
        """Check a request.

        Raises:
            InputError: it cannot be answered or explained, or a limit is out of reach.
        """
        raise NotImplementedError

    def stream(self, request: Request) -> Iterator[RequestOutput]:
        """Decode a request in the calling thread; the last output of each answer carries the reason for its end.

        Raises:
            AttendantError: it has no answer.
        """
        return self.engine.stream(request)

    @property
    def max_input_tokens(self) -> int:
        """How many tokens of text a request may bring; none of a model that reads no text."""
        return 0

    @property
    def max_input_characters(self) -> int:
        """How many characters a text of so many tokens may have."""
        return self.tokenizer.most_characters(self.max_input_tokens)

    def tokens(self, inputs: str | Sequence[int], parse_special: bool = False) -> tuple[int, ...]:
        """The tokens of a text, or those that were sent.

        Args:
            inputs: a text or its tokens.
            parse_special: whether special tokens in a text are read as such, if it is none of a chat template's.

        Raises:
            InputError: there are none, too many, or one outside the vocabulary.
        """
        longest = self.max_input_tokens
        if isinstance(inputs, str):
            inputs = _as_meant(inputs, parse_special)
            with of_param(TEXT_INPUT):
                inputs = self.tokenizer.encode(inputs, longest)
        if not 1 <= len(inputs) <= longest:
            raise InputError(f"1 to {longest} tokens", str(len(inputs)), "shorten the input", param=INPUT_IDS)
        require_tokens(inputs, INPUT_IDS, self._input_vocabulary)
        return tuple(int(token) for token in inputs)

    def _check_options(self, options: SamplingParams) -> int:
        """Check what options ask of this model; returns the seed."""
        if options.explain:
            self.runners[require_aligning(self._aligning)]  # loaded here: only this request is to meet an error
        require_tokens(options.stop_token_ids, "stop_token_ids", self.vocabulary_size)
        require_tokens(list(options.logit_bias), "logit_bias", self.vocabulary_size)
        return secrets.randbits(SEED_BITS) if options.seed is None else options.seed

    def _guide(self, options: SamplingParams) -> SharedGrammar | None:
        # Compiled here, and not in the thread that decodes for all.
        return None if options.structure is None else self.loaded.guides.prepare(options.structure)


def _as_meant(text: str, parse_special: bool) -> str:
    return SpecialText(text) if parse_special and not isinstance(text, RenderedText) else text


def require_tokens(tokens: Sequence[int], name: str, below: int | None = None) -> None:
    """Refuse tokens that do not exist.

    Raises:
        InputError: one is negative, or not below the bound.
    """
    unknown = [int(token) for token in tokens if token < 0 or (below is not None and token >= below)]
    if unknown:
        most = "of at least 0" if below is None else f"from 0 to {below - 1}"
        raise InputError(f"tokens {most}", str(unknown[0]), f"correct {name}", param=name)


NO_ECHO = ("an answer without its question: the decoder has read no prompt", "echo", "leave it out")


class TranslationModel(TextGenerationModel):
    """One artefact of the task ``translate``, loaded."""

    @property
    def max_input_tokens(self) -> int:
        """How many tokens a source may have."""
        return int(self.details["max_source_length"])

    def request(self, inputs: str | Sequence[int], options: SamplingParams | None = None, /) -> Request:
        """Check a source, a text or its tokens; the limit is 1 … capacity − 1, and 0 where it alone is echoed.

        Raises:
            InputError: it cannot be translated or explained, or a limit is out of reach.
        """
        options = options or SamplingParams()
        seed = self._check_options(options)
        if options.echo:
            return self._echo(self.tokens(inputs, options.parse_special), inputs, options)
        source_BS = np.array([self.tokens(inputs, options.parse_special)], dtype=np.int64)
        longest = int(self.details["max_target_length"]) - 1
        return Request(
            prompt=(int(self.details["start_token"]),),
            source={"source_ids": source_BS, "source_mask": np.ones_like(source_BS, dtype=bool)},
            max_tokens=require_limit(options.max_tokens, longest, "the cache's capacity less the start token"),
            options=options,
            seed=seed,
            input_tokens=source_BS.size,
            guide=self._guide(options),
        )

    def _echo(self, tokens: tuple[int, ...], inputs: str | Sequence[int], options: SamplingParams) -> Request:
        # A source's tokens or their text, and nothing of an answer: no decoder has read them.
        if options.max_tokens != 0 or options.logprobs:
            raise InputError(*NO_ECHO)
        text = inputs if isinstance(inputs, str) else self.tokenizer.decode(inputs)
        return Request(prompt=tokens, max_tokens=0, options=options, text=text, input_tokens=len(tokens))


class CaptionModel(TextGenerationModel):
    """One artefact of the task ``caption``, loaded."""

    @staticmethod
    def read_input(tensors: Tensors, max_tokens: int, max_characters: int) -> Any:
        """The image of a request, ``[C, height, width]``.

        Raises:
            InputError: it has none.
        """
        if PIXELS not in tensors:
            raise InputError(f"the tensor {PIXELS!r}", "none", "send an image")
        return tensors[PIXELS][0]

    def request(self, inputs: Array, options: SamplingParams | None = None, /) -> Request:
        """Check an image, float32 ``[C, height, width]`` or uint8 ``[height, width, C]``, as the graph takes them.

        Raises:
            InputError: shape, sides or type are not the model's, a pixel is NaN or infinite, the limit is out of reach,
                or nothing shows what the model attends to.
        """
        options = options or SamplingParams()
        seed = self._check_options(options)
        if options.echo:
            raise InputError(*NO_ECHO)
        if options.parse_special:
            raise InputError("an image without a text", "parse_special", "leave it out", param="parse_special")
        signature = self.runners["encoder"].signature
        signature.check(signature.input(PIXELS), inputs.dtype.name, (1, *inputs.shape))
        require_finite(inputs)
        longest = int(self.details["max_target_length"]) - 1
        return Request(
            prompt=(int(self.details["start_token"]),),
            source={PIXELS: inputs[None]},
            max_tokens=require_limit(options.max_tokens, longest, "the cache's capacity less the start token"),
            options=options,
            seed=seed,
            input_tokens=0,
            guide=self._guide(options),
        )


class LanguageModel(TextGenerationModel):
    """One artefact of the task ``generate``, loaded; one without a tokenizer is for token ids alone."""

    @staticmethod
    def load_tokenizer(folder: Path, manifest: Manifest) -> TextTokenizer:
        """The artefact's tokenizer, or what stands in its place.

        Raises:
            ArtefactError: it cannot be read.
        """
        if not has_tokenizer(manifest.files):
            return NoTokenizer()
        return load_tokenizer(folder, manifest.details.get("tokenizer"))

    @property
    def max_input_tokens(self) -> int:
        """How many tokens a prompt may have: the cache's positions but one."""
        return int(self.details["max_length"]) - 1

    def request(self, inputs: str | Sequence[int], options: SamplingParams | None = None, /) -> Request:
        """Check a prompt, a text or its tokens; prompt and answer fit the cache together.

        Raises:
            InputError: it cannot be continued, or a limit is out of reach.
        """
        options = options or SamplingParams()
        seed, longest = self._check_options(options), int(self.details["max_length"])
        if isinstance(self.tokenizer, NoTokenizer) and options.stop:
            raise no_text("stop texts")
        prompt = self.tokens(inputs, options.parse_special)
        most = int(self.details.get("max_prompt_length", longest))
        if len(prompt) > most:
            expected = f"a prompt of at most {most} tokens, as longrope has other angles for all of a longer one's"
            raise InputError(expected, str(len(prompt)), "shorten the prompt; its answer may go on beyond")
        text = (inputs if isinstance(inputs, str) else self.tokenizer.decode(inputs)) if options.echo else ""
        offsets: Iterable[int] = ()
        if options.echo and options.logprobs:  # here, and not in the thread that decodes for all
            known = self.tokenizer.offsets(_as_meant(inputs, options.parse_special)) if isinstance(inputs, str) else ()
            offsets = known or offsets_of(self.tokenizer, prompt)
        why = f"the cache's {longest} positions less the prompt's {len(prompt)}"
        return Request(
            prompt=prompt,
            max_tokens=require_limit(options.max_tokens, longest - len(prompt), why, least=0),
            options=options,
            seed=seed,
            text=text,
            text_offsets=tuple(offsets),
            input_tokens=len(prompt),
            guide=self._guide(options),
        )


def _prefill_of(runners: Mapping[str, Runner]) -> Runner | None:
    prefill, decoder = runners.get(PREFILL), runners["decoder"].signature
    if prefill is None:
        return None
    wanted = [spec for spec in decoder.inputs if spec.name != "scored"], decoder.aliases
    if (list(prefill.signature.inputs), prefill.signature.aliases) != wanted or "encoder" in runners:
        expected, remedy = (
            "a graph prefill of a language model, with its decoder's inputs and caches",
            "export it again",
        )
        raise ArtefactError(expected, "another", remedy)
    return prefill
