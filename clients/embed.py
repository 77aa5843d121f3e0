"""Turn texts into vectors on a Triton server.

    mean = Σ_t mask_t hidden_t / Σ_t mask_t        first = hidden_0        pooled: what the model makes of hidden_0

Legend: B texts, T tokens, E width.
Source: Devlin et al. 2019, "BERT", section 3.1 (first, pooled); Reimers and Gurevych 2019, "Sentence-BERT",
section 3 (mean).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from attendant.errors import InputError, ServerError
from attendant.tensor_names import HIDDEN, PARSE_SPECIAL, POOLED, TEXT_INPUT, TOKEN_IDS, TOKEN_MASK
from clients.loads import Load, loaded_anew
from clients.served_model import ServedModel
from clients.statuses import reading
from clients.triton_client import Array, TritonClient

TASK = "embed"
TRIES = 3
"""Of texts in several requests, between which the model was loaded anew: their vectors would be of two."""
Pooling = Literal["pooled", "mean", "first"]


class Embedder:
    """A served model of the task ``embed``."""

    def __init__(self, client: TritonClient, model: ServedModel) -> None:
        self._client = client
        self._model = model

    @classmethod
    async def find(cls, client: TritonClient, name: str | None = None) -> Embedder:
        """The embedder of that name, or the only one that the server has.

        Raises:
            UnknownNameError: there is none, or a name is needed.
        """
        return cls(client, await client.model_for(TASK, name))

    async def embed(self, texts: Sequence[str], pooling: Pooling = "mean", parse_special: bool = False) -> Array:
        """One vector for each text: float32 ``[B, E]``.

        Args:
            texts: any number; as many go into one request as the model takes.
            pooling: how the vectors of a text's tokens become one.
            parse_special: whether special tokens that stand in a text, as ``[MASK]``, are read as such.

        Raises:
            InputError: there is no text, or the server refused one.
            ServerError: it failed, or did not answer in time.
            LoadingError: the model is loaded anew again and again.
        """
        return (await self.embed_counted(texts, pooling, parse_special))[0]

    async def embed_counted(
        self, texts: Sequence[str], pooling: Pooling = "mean", parse_special: bool = False
    ) -> tuple[Array, int]:
        """The vectors, as :meth:`embed` gives them, and how many tokens the texts have together."""
        if not texts:
            raise InputError("a text", "none", "give one or more")
        model = self._model
        for _ in range(TRIES):
            is_one = len(texts) <= (model.max_batch or 1)
            before = Load(model) if is_one else await Load.now(self._client, model)
            step = before.model.max_batch or 1
            batches = [texts[begin : begin + step] for begin in range(0, len(texts), step)]
            parts = [await self._embed_batch(batch, pooling, parse_special) for batch in batches]
            after = before if is_one else await Load.now(self._client, before.model)
            if before.lasts(after, len(batches)):
                return np.concatenate([vectors for vectors, _ in parts]), sum(count for _, count in parts)
            model = after.model
        raise loaded_anew(model)

    async def tokenize(self, text: str, parse_special: bool = False) -> list[int]:
        """The tokens of a text, with the special ones that the model expects around it.

        Args:
            text: that is to be embedded.
            parse_special: whether special tokens that stand in it are read as such.

        Raises:
            InputError: the server refused it.
            ServerError: it failed, did not answer in time, or says no tokens.
        """
        if TOKEN_IDS not in self._model.outputs:
            remedy = "lay its repository out again: attendant repository"
            raise ServerError(f"a model {self._model.name!r} that says tokens", "an older one", remedy)
        inputs = {TEXT_INPUT: np.array([[text.encode()]], dtype=object)}
        parameters = {PARSE_SPECIAL: True} if parse_special else None
        outputs = await self._client.infer(self._model.name, inputs, (TOKEN_IDS,), parameters)
        with reading(self._model.name, self._client.server):
            return [int(token) for token in outputs[TOKEN_IDS].reshape(-1)]

    async def _embed_batch(self, texts: Sequence[str], pooling: Pooling, parse_special: bool) -> tuple[Array, int]:
        inputs = {TEXT_INPUT: np.array([[text.encode()] for text in texts], dtype=object)}
        names = (POOLED if pooling == "pooled" else HIDDEN, TOKEN_MASK)
        parameters = {PARSE_SPECIAL: True} if parse_special else None
        outputs = await self._client.infer(self._model.name, inputs, names, parameters)
        with reading(self._model.name, self._client.server), np.errstate(invalid="ignore", divide="ignore"):
            if pooling == "pooled":
                vectors = outputs[POOLED]
            else:
                vectors = outputs[HIDDEN][:, 0] if pooling == "first" else mean(outputs[HIDDEN], outputs[TOKEN_MASK])
            count = int(outputs[TOKEN_MASK].sum())
            if len(vectors) != len(texts) or count < 0 or not np.isfinite(vectors).all():
                raise ValueError(f"{len(texts)} texts of {count} tokens, and vectors of shape {vectors.shape}")
            return vectors.reshape(len(texts), -1), count


def mean(hidden: Array, token_mask: Array) -> Array:
    """The mean of each text's vectors ``[B, T, E]`` over the tokens that a mask ``[B, T]`` marks: ``[B, E]``."""
    weights_BT1 = token_mask[:, :, None].astype(hidden.dtype)
    pooled: Array = (hidden * weights_BT1).sum(axis=1) / weights_BT1.sum(axis=1)
    return pooled
