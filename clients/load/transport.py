"""How requests reach a server, and answers come back: what every transport does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from clients.load.in_flight import InFlightRequest
from clients.load.request_inputs import RequestInput
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

    async def prepare(self, workload: Workload, model: ServedModel | None, inputs: Sequence[RequestInput]) -> list[Any]:
        """One request for each input, as :meth:`send` takes it.

        Raises:
            InputError: an input cannot be sent in this way.
        """
        ...

    async def count_tokens(
        self, workload: Workload, model: ServedModel | None, inputs: Sequence[RequestInput]
    ) -> list[int]:
        """How many tokens each input has; zeros where the server does not say."""
        ...

    async def probe_tokens(self, workload: Workload, model: ServedModel | None, request_input: RequestInput) -> int:
        """How many tokens the server counts in an input, found by requesting one token; 0 where it does not say.

        Raises:
            AttendantError: the request failed.
        """
        ...

    async def send(self, prepared: Any, request: InFlightRequest) -> None:
        """Send a request, and note each response; return when the last one has come.

        Raises:
            AttendantError: the request failed.
        """
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


@dataclass(slots=True)
class PreparedWorkload:
    """The requests of one workload, ready to be sent.

    Attributes:
        workload: that they belong to.
        model: what the server says of its model.
        inputs: in order.
        requests: of each, as the transport takes them.
    """

    workload: Workload
    model: ServedModel | None
    inputs: list[RequestInput]
    requests: list[Any]


def create_transport(target: Target) -> Transport:
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
