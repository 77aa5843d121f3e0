"""Ask a model on a Triton server that answers with text, token by token."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, ClassVar, Self

from attendant.errors import DeadlineError
from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import prompt_tensors, tensors_of
from attendant.tensor_names import EXPLAIN
from clients.answer import Answer, Delta, whole_answers
from clients.served_model import ServedModel
from clients.statuses import reading
from clients.triton_client import RETRIED, Array, TritonClient

GRACE_S = 2.0
"""How much later than its deadline a request may end: the server sees to it, and says so itself."""


class StreamingModel:
    """A served model that streams text; its subclasses name their task, and what inputs they take.

    Attributes:
        model: what the server says of it.
    """

    task: ClassVar[str]

    def __init__(self, client: TritonClient, model: ServedModel, first_timeout_s: float | None = None) -> None:
        """Use what was found.

        Args:
            client: of the server.
            model: what the server says of it.
            first_timeout_s: longest wait for the first delta; as for every other if not given.
        """
        self._client = client
        self._first_timeout_s = first_timeout_s
        self.model = model

    @classmethod
    async def find(cls, client: TritonClient, name: str | None = None, first_timeout_s: float | None = None) -> Self:
        """The model of that name, or the only one that the server has for the task.

        Raises:
            UnknownNameError: there is none, or a name is needed.
        """
        return cls(client, await client.model_for(cls.task, name), first_timeout_s)

    async def stream_deltas(
        self,
        inputs: Mapping[str, Array],
        options: SamplingParams | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Delta, None]:
        """The answers in deltas, as they come; leaving the loop early cancels the request.

        Before the first delta the client's retry policy applies, within the request's own deadline; after it, never.

        Args:
            inputs: input name → tensor, with a batch of one in front.
            options: how it is to be decoded; as the server does by itself if not given.
            parameters: of the request, beside what the options ask for.

        Raises:
            InputError: the server refused the input or an option, or the model cannot be explained.
            BusyError: too many requests wait already.
            DeadlineError: the request's own time was over.
            ServerError: it failed, or a delta did not come in time.
        """
        options = options or SamplingParams()
        parameters = {**(parameters or {}), **({EXPLAIN: True} if options.explain else {})}
        began_s, has_begun, parts = time.monotonic(), False, None
        ends_s = None if options.deadline_ms is None else began_s + options.deadline_ms / 1e3
        asked = list[str]()
        while True:
            asked.append(self._client.server)
            try:
                if ends_s is not None:
                    options = replace(options, deadline_ms=max(1, round(1e3 * (ends_s - time.monotonic()))))
                tensors = {**inputs, **tensors_of(options)}
                stream = self._client.stream(
                    self.model.name, tensors, parameters, self._first_timeout_s, self.model.says_health
                )
                async with aclosing(stream) as responses:
                    async for outputs in responses:
                        has_begun = True
                        if ends_s is not None and time.monotonic() > ends_s + GRACE_S:
                            found = f"one that was not whole {GRACE_S:g} s later"
                            raise DeadlineError("an answer in the request's time", found, "allow more")
                        with reading(self.model.name, self._client.server):
                            delta = Delta.of(outputs)
                            if delta.token_ids:
                                if parts not in (None, delta.parts()):
                                    raise ValueError("tokens that all have the same parts; found others")
                                parts = delta.parts()
                        yield delta
                return
            except RETRIED as error:
                if has_begun:
                    raise
                await self._client.wait_before_retry(error, asked, ends_s)


class TextModel(StreamingModel):
    """A served model that answers texts with texts; a text may be given by its tokens."""

    def stream(self, text: str | Sequence[int], options: SamplingParams | None = None) -> AsyncIterator[Delta]:
        """The answers to a source or a prompt; see :meth:`StreamingModel.stream_deltas`."""
        return self.stream_deltas(prompt_tensors(text), options)

    async def answer(self, text: str | Sequence[int], options: SamplingParams | None = None) -> str:
        """The whole text of the first answer; see :meth:`StreamingModel.stream_deltas`."""
        return (await self.answers(text, options))[0].text

    async def answers(self, text: str | Sequence[int], options: SamplingParams | None = None) -> list[Answer]:
        """Every whole answer, the best beam first; see :meth:`StreamingModel.stream_deltas`."""
        return whole_answers([delta async for delta in self.stream(text, options)])
