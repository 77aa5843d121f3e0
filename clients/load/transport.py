"""How requests reach a server, and answers come back: what every transport does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from clients.load.in_flight import InFlightRequest
from clients.load.questions import Question
from clients.load.scenario import Target, Workload
from clients.served_model import ServedModel


class Transport(Protocol):
    """A connection to a server; requests are prepared before the run, so that sending one costs little.

    Attributes:
        notes: what the report should say of it, name to value.
    """

    notes: dict[str, str]

    async def model(self, name: str) -> ServedModel | None:
        """What the server says of a model; None where it says nothing.

        Raises:
            UnreachableError: nothing answers.
            UnknownNameError: it serves no model of that name.
        """
        ...

    async def prepare(self, workload: Workload, model: ServedModel | None, questions: Sequence[Question]) -> list[Any]:
        """One request for each question, as :meth:`ask` takes it.

        Raises:
            InputError: a question cannot be asked in this way.
        """
        ...

    async def input_tokens(
        self, workload: Workload, model: ServedModel | None, questions: Sequence[Question]
    ) -> list[int]:
        """How many tokens each question has; zeros where the server does not say."""
        ...

    async def ask(self, prepared: Any, flight: InFlightRequest) -> None:
        """Send a request, and tell its flight of each response; return when the server has said its last word.

        Raises:
            AttendantError: the request failed.
        """
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


@dataclass(slots=True)
class Prepared:
    """The requests of one workload, ready to be sent.

    Attributes:
        workload: that they belong to.
        model: what the server says of its model.
        questions: in order.
        requests: of each, as the transport takes them.
    """

    workload: Workload
    model: ServedModel | None
    questions: list[Question]
    requests: list[Any]


def transport_to(target: Target) -> Transport:
    """A transport of the target's kind; nothing is sent yet."""
    match target.transport:
        case "grpc":
            from clients.load.grpc_transport import GrpcTransport

            return GrpcTransport(target)
        case "http":
            from clients.load.http_transport import HttpTransport

            return HttpTransport(target)
        case "openai":
            from clients.load.openai_transport import OpenAITransport

            return OpenAITransport(target)
