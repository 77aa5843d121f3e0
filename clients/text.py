"""Ask a model on a Triton server that answers with text, token by token."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from clients.served_model import ServedModel
from clients.triton_client import Array, TritonClient
from models.tensor_names import (
    ALIGNMENT,
    EXPLAIN,
    FINISH_REASON,
    MAX_TOKENS,
    OUTPUT_IDS,
    STREAM,
    TEXT_INPUT,
    TEXT_OUTPUT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of an answer.

    Attributes:
        text: what it adds; empty while a character is not complete.
        finish_reason: empty until the last piece: ``stop`` where the model ended, ``length`` at the limit.
        token_ids: the tokens that it is made of; the last piece has none, and holds the text that was left.
        alignment: for each token the weights of the source's positions, float32 ``[T, S]``; only if asked for.
    """

    text: str
    finish_reason: str = ""
    token_ids: tuple[int, ...] = ()
    alignment: Array | None = None


class StreamingModel:
    """A served model that streams text; its subclasses name their task, and say what they are asked.

    Attributes:
        model: what the server says of it.
    """

    task: ClassVar[str]

    def __init__(self, client: TritonClient, model: ServedModel) -> None:
        self._client = client
        self.model = model

    @classmethod
    async def find(cls, client: TritonClient, name: str | None = None) -> Self:
        """The model of that name, or the only one that the server has for the task.

        Raises:
            UnknownNameError: there is none, or a name is needed.
        """
        return cls(client, await client.model_for(cls.task, name))

    async def pieces(
        self, subject: Mapping[str, Array], max_tokens: int | None = None, explain: bool = False
    ) -> AsyncGenerator[Piece, None]:
        """The answer in pieces, as they come; leaving the loop early takes the request back.

        Args:
            subject: input name → what is asked.
            max_tokens: longest answer; as long as the model allows if not given.
            explain: whether each piece comes with its alignment.

        Raises:
            InputError: the server refused the question or the limit, or the model cannot be explained.
            ServerError: it failed, or a piece did not come in time.
        """
        inputs: dict[str, Array] = {**subject, STREAM: np.array([True])}  # each gets a batch of one in front
        if max_tokens is not None:
            inputs[MAX_TOKENS] = np.array([max_tokens], dtype=np.int32)
        parameters = {EXPLAIN: True} if explain else None
        batched = {name: array[None] for name, array in inputs.items()}
        async with aclosing(self._client.stream(self.model.name, batched, parameters)) as responses:
            async for outputs in responses:
                yield _piece(outputs)


class TextModel(StreamingModel):
    """A served model that answers texts with texts."""

    def stream(self, text: str, max_tokens: int | None = None, explain: bool = False) -> AsyncIterator[Piece]:
        """The answer to a source or a prompt; see :meth:`StreamingModel.pieces`."""
        return self.pieces({TEXT_INPUT: np.array([text.encode()], dtype=object)}, max_tokens, explain)

    async def answer(self, text: str, max_tokens: int | None = None) -> str:
        """The whole answer; see :meth:`StreamingModel.pieces`."""
        return "".join([piece.text async for piece in self.stream(text, max_tokens)])


def _piece(outputs: Mapping[str, Array]) -> Piece:
    return Piece(
        text=_text(outputs[TEXT_OUTPUT]),
        finish_reason=_text(outputs[FINISH_REASON]),
        token_ids=tuple(outputs[OUTPUT_IDS][0].tolist()),
        alignment=outputs[ALIGNMENT][0] if ALIGNMENT in outputs else None,
    )


def _text(array: Array) -> str:
    value: bytes = array.reshape(-1)[0]
    return value.decode()
