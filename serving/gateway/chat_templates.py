"""Messages → the prompt that a chat model was trained on, by the template that travels with its checkpoint."""

import asyncio
import json
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from attendant.errors import InputError
from clients.served_model import ServedModel
from serving.gateway.template_process import LONGEST_S, MOST_BYTES, MOST_S, serve_templates
from serving.processes import start_python

CHAT_TEMPLATE = "chat_template"
CONTROL_TOKENS = "control_tokens"
SPECIAL_TOKENS = "special_tokens"
_START_S = 10.0


class ChatTemplates:
    """Renders chats of every model, those of each in a process of its own: a template holds up no other model.

    Use it in one event loop, and close it there.
    """

    def __init__(self, most_bytes: int) -> None:
        """Start nothing yet.

        Args:
            most_bytes: of a prompt.
        """
        self._most_bytes = most_bytes
        self._renderers: dict[str, _Renderer] = {}

    async def render(self, model: ServedModel, messages: Sequence[Mapping[str, Any]]) -> str:
        """The prompt.

        Args:
            model: with its template among its parameters.
            messages: each with ``role`` and ``content``, a text.

        Raises:
            InputError: the model has no template, the template refuses the messages or takes too much to render them,
                or a message holds a control token.
        """
        template = model.parameters.get(CHAT_TEMPLATE)
        if template is None:
            remedy = "or put chat_template.jinja beside the checkpoint and export it again"
            raise InputError(
                f"a model with a chat template, which {model.name!r} has not",
                "messages",
                f"send a prompt to /v1/completions, {remedy}",
            )
        _refuse_control_tokens(messages, model.parameters.get(CONTROL_TOKENS) or [])
        variables = {
            **(model.parameters.get(SPECIAL_TOKENS) or {}),
            "messages": list(messages),
            "add_generation_prompt": True,
        }
        renderer = self._renderers.setdefault(model.name, _Renderer())
        answer = await renderer.render(
            {"template": str(template), "variables": variables, "most_bytes": self._most_bytes}
        )
        if "error" in answer:
            raise InputError(f"messages that the template of {model.name!r} takes", answer["error"], "change them")
        return answer["prompt"]

    def close(self) -> None:
        """End all processes; a chat that is being rendered is refused."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()


class _Renderer:
    # One thread alone starts the process and talks with it: the process ends with the thread that started it.

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="template")
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    async def render(self, request: dict[str, Any]) -> dict[str, str]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._exchange, request)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._thread.submit(self._end)
        self._thread.shutdown(wait=False)

    def _exchange(self, request: dict[str, Any]) -> dict[str, str]:
        try:
            if self._connection is None:
                self._process, self._connection = start_python(serve_templates.__module__, serve_templates.__name__)
            self._connection.send_bytes(json.dumps(request).encode())
            if self._connection.poll(_START_S + LONGEST_S):
                answer: dict[str, str] = json.loads(self._connection.recv_bytes())
                return answer
        except (EOFError, OSError, ValueError):  # it is gone, or was ended in the midst of its answer
            pass
        self._end()
        return {"error": f"more than {MOST_S:g} s of a processor, or {MOST_BYTES >> 20} MiB, to render them"}

    def _end(self) -> None:
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.kill()
            self._process.wait()
        self._process = self._connection = None


def _refuse_control_tokens(messages: Sequence[Mapping[str, Any]], tokens: Sequence[str]) -> None:
    # In a rendered prompt a special token is one wherever it stands: whoever wrote one could speak for another role.
    for number, message in enumerate(messages):
        found = [token for token in tokens if token in message["content"]]
        if found:
            expected = f"messages without the model's control tokens in message {number}"
            raise InputError(expected, repr(found[0]), "write it otherwise")
