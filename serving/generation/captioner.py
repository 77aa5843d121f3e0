"""An image in, pieces of its caption out: encoder and greedy decoding of one captioner.

Legend: C channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from models.manifest import Manifest
from models.tensor_names import PIXELS
from models.tokenization import load_tokenizer
from serving.generation.alignment import aligning_graph, alignment_of, decoder_graph
from serving.generation.answer import Piece, checked_limit, pieces
from serving.generation.classifier import require_finite
from serving.generation.greedy import greedy
from serving.generation.token_rules import TokenRules
from serving.parameters import Runtime
from serving.runtime.base import Array
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionRequest:
    """An image that has been checked and can be described.

    Attributes:
        pixels: float32 ``[C, height, width]``, or uint8 ``[height, width, C]``, as the graph takes them.
        max_tokens: longest caption, in tokens, without the end token.
        explain: whether each token comes with its alignment.
    """

    pixels: Array
    max_tokens: int
    explain: bool = False


class Captioner:
    """One artefact of the task ``caption``, loaded.

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
        self._longest = int(details["max_target_length"]) - 1
        self._encoder = manifest.graph("encoder")

    def request(self, pixels: Array, max_tokens: int | None = None, explain: bool = False) -> CaptionRequest:
        """Check an image and a limit.

        Raises:
            InputError: shape, sides or type are not the model's, a pixel is NaN or infinite, the limit is out of reach,
                or nothing shows what the model attends to.
        """
        (spec,) = self._encoder.inputs
        self._encoder.check(spec, pixels.dtype.name, (1, *pixels.shape))
        require_finite(pixels)
        limit = checked_limit(max_tokens, self._longest, "the cache's capacity less the start token")
        decoder_graph(explain, self._aligning)
        return CaptionRequest(pixels=pixels, max_tokens=limit, explain=explain)

    def stream(self, request: CaptionRequest) -> Iterator[Piece]:
        """Decode a caption token by token; the image is encoded once."""
        memories = self.runners["encoder"].run({PIXELS: request.pixels[None]})
        graph = decoder_graph(request.explain, self._aligning)
        decoder = CachedDecoder(self.runners[graph], 1, memories)
        tokens = greedy(decoder, [self._start], self._rules, request.max_tokens + 1)
        alignment = (lambda: alignment_of(decoder.shown)) if request.explain else None
        return pieces(tokens, self._rules.end, request.max_tokens, self._tokenizer, alignment)
