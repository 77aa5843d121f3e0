"""Which models a server has loaded: calls that a server of ours allows to who has its admin key alone."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attendant.errors import AttendantError, ServerError

if TYPE_CHECKING:
    from tritonclient.grpc import aio

WAITING = "waiting-for-its-turn"
"""A backend that no server has; its name stands in what the index and the log say of a model that is announced."""


class ModelControl:
    """The part of :class:`clients.triton_client.TritonClient` that changes the server."""

    timeout_s: float
    _client: aio.InferenceServerClient
    _admin: dict[str, str] | None

    async def failed_models(self) -> dict[str, str]:
        """Of the models that the server knows and has not loaded, why; none where it cannot name them all.

        Raises:
            UnreachableError: nothing answers, or this client may not ask for it.
        """
        try:
            index = await self._call_with_retries(lambda: self._client.get_model_repository_index(headers=self._admin))
        except ServerError as error:
            if type(error) is not ServerError:
                raise
            return {}  # there is a link to nowhere beside the models
        if index is None:  # gRPC cannot parse it: a folder beside the models has a name that is not UTF-8
            return {}
        # A line a version, those that it had before included, which are "unloaded".
        ready = {version.name for version in index.models if version.state == "READY"}
        failed = sorted(index.models, key=lambda version: version.reason != "unloaded")
        return {version.name: version.reason or version.state for version in failed if version.name not in ready}

    async def reload(self, model: str) -> None:
        """Unload a model, and load it anew from the server's repository.

        Raises:
            ServerError: it cannot be loaded, or this client may not ask for it.
            LateError: it takes too long.
        """
        await self.unload(model)
        await self._call(self._client.load_model(model, headers=self._admin), model, self.timeout_s)

    async def unload(self, model: str) -> None:
        """Let the server serve a model no more.

        Raises:
            ServerError: this client may not ask for it.
        """
        await self._call(self._client.unload_model(model, headers=self._admin), model, self.timeout_s)

    async def announce(self, model: str) -> None:
        """Let the server, which has not loaded a model yet, know it: who asks hears that it is away, and not unknown.

        To a server that loads no model by itself none is known before it is loaded; a load that fails at once does. An
        unload does nothing.
        """
        call = self._client.load_model(model, config=json.dumps({"backend": WAITING}), headers=self._admin)
        with suppress(AttendantError):
            await self._call(call, model, self.timeout_s)

    @abstractmethod
    async def _call(self, call: Any, model: str, left_s: float) -> Any: ...

    @abstractmethod
    async def _call_with_retries(self, start: Callable[[], Any], model: str = "") -> Any: ...
