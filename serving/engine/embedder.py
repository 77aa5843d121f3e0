"""Texts in, vectors out: tokenizer and the one graph of an artefact of the task ``embed``.

Legend: B texts, T tokens of the longest, E width.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attendant.errors import InputError, of_param
from attendant.manifest import Manifest
from attendant.parameters import Device, Runtime
from attendant.tensor_names import HIDDEN, POOLED, TEXT_INPUT
from attendant.tokenization import load_tokenizer
from serving.runtime.base import Array, Runner
from serving.runtime.create_runners import create_runners

Tokens = list[int]
Graph = Callable[[Mapping[str, Array], Collection[str]], Mapping[str, Array]]
"""From the inputs of the graph, and the outputs that are needed, to those outputs."""
VECTORS = (POOLED, HIDDEN)
RUN_COST_TOKENS = 64
"""What a run takes beside its tokens, to read the weights above all, as so many tokens."""
MOST_TOKENS = 16_384
"""Of a run of several texts, padding among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedTexts:
    """The texts of one request as vectors.

    Attributes:
        vectors: those that were requested, float32: ``pooled`` ``[B, E]``, one a text; ``hidden`` ``[B, T, E]``, one a
            token.
        token_mask: bool ``[B, T]``, false where a text has ended.
        token_ids: int64 ``[B, T]``; the padding token there.
    """

    vectors: dict[str, Array]
    token_mask: Array
    token_ids: Array


class TextEmbedder:
    """One artefact of the task ``embed``, loaded."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        threads: int = 1,
        runtime: Runtime = "auto",
        device: Device = "auto",
        graph: Graph | None = None,
    ) -> None:
        """Load the tokenizer, and the graph unless something else runs it.

        Args:
            folder: the artefact.
            manifest: its own.
            threads: that one run of the graph may use.
            runtime: that runs it.
            device: that torch runs it on.
            graph: what runs it instead.

        Raises:
            ArtefactError: a file is missing or not what the manifest says.
        """
        self._tokenizer = load_tokenizer(folder, manifest.details.get("tokenizer"))
        self._graph = graph or _run_by(create_runners(folder, manifest, threads, runtime, device)["model"])
        self._longest = int(manifest.details["max_length"])
        self._most_texts = manifest.graph("model").axes["batch"].max
        self._pad = int(manifest.details["pad_token"])

    @property
    def max_characters(self) -> int:
        """How many characters a text may have."""
        return self._tokenizer.most_characters(self._longest)

    def embed(
        self, requests: Sequence[Sequence[str]], outputs_needed: Collection[str] = VECTORS
    ) -> list[EncodedTexts | InputError]:
        """Embed the texts of several requests, like lengths in one run; a bad request does not touch the others.

        Args:
            requests: one text or more each.
            outputs_needed: which vectors; ``hidden`` is large, and seldom needed. Without any the graph is not run.

        Returns:
            For each request its vectors, cut to its own longest text, or the error that it earned.
        """
        tokenized = [self._tokenize(texts) for texts in requests]
        good = [verdict for verdict in tokenized if not isinstance(verdict, InputError)]
        answers = self._run(good, outputs_needed)
        return [verdict if isinstance(verdict, InputError) else next(answers) for verdict in tokenized]

    def _tokenize(self, texts: Sequence[str]) -> list[Tokens] | InputError:
        try:
            if not 1 <= len(texts) <= self._most_texts:
                raise InputError(f"1 to {self._most_texts} texts", str(len(texts)), "split the request")
            with of_param(TEXT_INPUT):
                return [self._tokenizer.encode(text, self._longest) for text in texts]
        except InputError as error:
            return error

    def _run(self, requests: Sequence[Sequence[Tokens]], outputs_needed: Collection[str]) -> Iterator[EncodedTexts]:
        if not requests:
            return
        token_ids_BT, mask_BT = pad_texts([tokens for texts in requests for tokens in texts], self._pad)
        lengths_B = mask_BT.sum(1)
        needed = [name for name in VECTORS if name in outputs_needed]
        outputs: dict[str, Array] = {}
        for run in runs_of_least_work(lengths_B) if needed else ():
            part = run, slice(lengths_B[run].max())
            feeds = {"token_ids": token_ids_BT[part], "mask": mask_BT[part]}
            for name, array in self._graph({**feeds, "token_types": np.zeros_like(token_ids_BT[part])}, needed).items():
                axes = mask_BT.shape if name == HIDDEN else lengths_B.shape
                whole = outputs.setdefault(name, np.zeros((*axes, array.shape[-1]), array.dtype))
                whole[part if name == HIDDEN else run] = array
        begin = 0
        for texts in requests:
            rows, length = slice(begin, begin + len(texts)), max(map(len, texts))
            begin += len(texts)
            cut = {name: array[rows, :length] if name == HIDDEN else array[rows] for name, array in outputs.items()}
            yield EncodedTexts(vectors=cut, token_mask=mask_BT[rows, :length], token_ids=token_ids_BT[rows, :length])


def _run_by(runner: Runner) -> Graph:
    def run(feeds: Mapping[str, Array], outputs_needed: Collection[str]) -> dict[str, Array]:
        outputs = runner.run(feeds)
        return {name: outputs[name].numpy() for name in outputs_needed}

    return run


def runs_of_least_work(lengths_B: Array) -> list[Array]:
    """The rows of each run, so that padding and runs together cost least.

    A run costs its texts times the longest, and ``RUN_COST_TOKENS``. Texts in order of length are cut where the sum of
    these is least, by dynamic programming.

    Args:
        lengths_B: tokens of each text.

    Returns:
        Indices of rows, ascending within a run; a run of several texts has at most ``MOST_TOKENS`` tokens.
    """
    order_B = np.argsort(lengths_B, kind="stable")
    least, begins = np.zeros(len(order_B) + 1), [0]
    for end, longest in enumerate(lengths_B[order_B], start=1):
        tokens = longest * np.arange(end, 0, -1)  # of runs that begin with the first text, the second, …
        tokens_or_none = np.where((tokens > MOST_TOKENS) & (tokens > longest), np.inf, tokens)
        costs = least[:end] + tokens_or_none + RUN_COST_TOKENS
        begins.append(int(costs.argmin()))
        least[end] = costs[begins[-1]]
    runs, end = [], len(order_B)
    while end:
        runs.append(np.sort(order_B[begins[end] : end]))
        end = begins[end]
    return runs[::-1]


def pad_texts(texts: Sequence[Tokens], pad: int) -> tuple[Array, Array]:
    """Texts of different lengths as one array, filled up at the end.

    Args:
        texts: B lists of tokens.
        pad: the token to fill up with.

    Returns:
        Token ids int64 ``[B, T]``, and bool ``[B, T]``: true where there is a token.
    """
    lengths_B = np.array([len(tokens) for tokens in texts])
    mask_BT: Array = np.arange(lengths_B.max()) < lengths_B[:, None]
    token_ids_BT = np.full(mask_BT.shape, pad, dtype=np.int64)
    token_ids_BT[mask_BT] = np.concatenate([np.array(tokens) for tokens in texts])
    return token_ids_BT, mask_BT
