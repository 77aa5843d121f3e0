"""Ask a model on a Triton server that answers texts with texts, token by token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from clients.served_model import ServedModel
from clients.triton_client import Array, TritonClient
from models.tensor_names import FINISH_REASON, MAX_TOKENS, OUTPUT_IDS, STREAM, TEXT_INPUT, TEXT_OUTPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of an answer.

    Attributes:
        text: what it adds; empty while a character is not complete.
        finish_reason: empty until the last piece: ``stop`` where the model ended, ``length`` at the limit.
        token_ids: the tokens that it is made of; the last piece has none, and holds the text that was left.
    """

    text: str
    finish_reason: str = ""
    token_ids: tuple[int, ...] = ()


class TextModel:
    """A served model that streams text; its subclasses name their task."""

    task: ClassVar[str]

    def __init__(self, client: TritonClient, model: ServedModel) -> None:
        self._client = client
        self._model = model

    @classmethod
    async def find(cls, client: TritonClient, name: str | None = None) -> Self:
        """The model of that name, or the only one that the server has for the task.

        Raises:
            UnknownNameError: there is none, or a name is needed.
        """
        return cls(client, await client.model_for(cls.task, name))

    async def stream(self, text: str, max_tokens: int | None = None) -> AsyncIterator[Piece]:
        """The answer in pieces, as they come; leaving the loop early cancels the rest.

        Args:
            text: the source or the prompt.
            max_tokens: longest answer; as long as the model allows if not given.

        Raises:
            InputError: the server refused the text or the limit.
            ServerError: it failed, or a piece did not come in time.
        """
        async for outputs in self._client.stream(self._model.name, _inputs(text, max_tokens)):
            yield Piece(
                text=_text(outputs[TEXT_OUTPUT]),
                finish_reason=_text(outputs[FINISH_REASON]),
                token_ids=tuple(outputs[OUTPUT_IDS].tolist()),
            )

    async def answer(self, text: str, max_tokens: int | None = None) -> str:
        """The whole answer; see :meth:`stream`."""
        return "".join([piece.text async for piece in self.stream(text, max_tokens)])


def _inputs(text: str, max_tokens: int | None) -> dict[str, Array]:
    inputs: dict[str, Array] = {
        TEXT_INPUT: np.array([text.encode()], dtype=object),
        STREAM: np.array([True]),
    }
    if max_tokens is not None:
        inputs[MAX_TOKENS] = np.array([max_tokens], dtype=np.int32)
    return inputs


def _text(array: Array) -> str:
    value: bytes = array.reshape(-1)[0]
    return value.decode()
