"""Messages → the prompt that a chat model was trained on, by the template that travels with its checkpoint."""

import asyncio
import json
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from attendant.errors import BusyError, InputError, LostError, TemplateError
from clients.served_model import ServedModel
from serving.gateway.template_process import LONGEST_S, MOST_BYTES, MOST_S, serve_templates
from serving.processes import start_python

CHAT_TEMPLATE = "chat_template"
CONTROL_TOKENS = "control_tokens"
SPECIAL_TOKENS = "special_tokens"
TOOL_CALLS_ID = "tool_calls_token_id"
"""Of ``[TOOL_CALLS]``, where it is a special token."""
RENDERERS = 2
"""Of a model: one chat on which its template loops leaves a way for the others."""
MOST_MODELS = 8
"""Whose processes are kept, of those that were asked last."""
PATIENCE_S = 4.5
"""How long a chat may wait for its prompt, others before it included."""
ATTEMPTS = 2
"""At a process that somebody ends."""
MARGIN_S = 0.25
FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
"""Signals that end a process, and that no template causes."""
RETRY = "ask again"
PLAIN_ROUTE = "/v1/completions"


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
        self._renderers: dict[str, _Renderers] = {}

    async def render(
        self, model: ServedModel, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> str:
        """The prompt.

        Args:
            model: with its template among its parameters.
            messages: each with ``role`` and ``content``, a text.
            tools: that the answer may call.

        Raises:
            TemplateError: it is wrong, whatever the messages are.
            InputError: the model has no template, the template refuses the messages or takes too much to render them,
                or a message holds a control token.
            BusyError: it takes too long: others are rendered first, or the machine is busy.
            LostError: somebody ends the process that renders it, again and again.
        """
        template = model.parameters.get(CHAT_TEMPLATE)
        if template is None:
            remedy = "or put chat_template.jinja beside the checkpoint and export it again"
            raise InputError(
                f"a model with a chat template, which {model.name!r} has not",
                "messages",
                f"send a prompt to {PLAIN_ROUTE}, {remedy}",
            )
        variables = {
            **(model.parameters.get(SPECIAL_TOKENS) or {}),
            "messages": list(messages),
            "tools": list(tools) or None,  # transformers gives every template both
            "documents": None,
            "add_generation_prompt": True,
        }
        renderer = self._renderers[model.name] = self._renderers.pop(model.name, _Renderers())
        self._end_oldest()
        answer = await renderer.render(
            {
                "template": str(template),
                "variables": variables,
                "most_bytes": self._most_bytes,
                "control_tokens": [
                    token for token in model.parameters.get(CONTROL_TOKENS) or [] if token and isinstance(token, str)
                ],
            }
        )
        if "control_token" in answer:
            expected = f"messages without the model's control tokens in {answer['place']}"
            raise InputError(expected, repr(answer["control_token"]), "write it otherwise")
        if "error" in answer:
            raise InputError(f"messages that the template of {model.name!r} takes", answer["error"], "change them")
        if "fault" in answer:
            remedy = f"correct its chat_template.jinja and export it again, or send a prompt to {PLAIN_ROUTE}"
            raise TemplateError(f"a chat template of {model.name!r} that works", answer["fault"], remedy)
        return answer["prompt"]

    def _end_oldest(self) -> None:
        for name in list(self._renderers)[:-MOST_MODELS]:
            if not self._renderers[name].waiting:
                self._renderers.pop(name).close()

    def close(self) -> None:
        """End all processes; a chat that is being rendered is refused."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()


class _Renderers:
    # Each thread starts a process of its own, which ends with it, and talks with that one alone.

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=RENDERERS, thread_name_prefix="template")
        self._own = threading.local()
        self._processes = set[subprocess.Popen[bytes]]()
        self._is_closed = False
        self.waiting = 0

    async def render(self, request: dict[str, Any]) -> dict[str, str]:
        answer = asyncio.wrap_future(self._threads.submit(self._exchange, request))
        self.waiting += 1
        try:
            return await asyncio.wait_for(answer, PATIENCE_S)
        except TimeoutError:
            raise _late() from None
        finally:
            self.waiting -= 1

    def close(self) -> None:
        self._is_closed = True
        for process in list(self._processes):
            process.kill()
            process.wait()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _exchange(self, request: dict[str, Any]) -> dict[str, str]:
        for _ in range(ATTEMPTS):
            if self._is_closed:
                break
            try:
                connection = self._connect()
                connection.send_bytes(json.dumps(request).encode())
                if not connection.poll(LONGEST_S + MARGIN_S):
                    self._end()
                    raise _late()
                answer: dict[str, str] = json.loads(connection.recv_bytes())
                return answer
            except (EOFError, OSError, ValueError):  # it is gone, or was ended in the midst of its answer
                status = self._end()
            if status == -signal.SIGALRM:
                raise _late()
            if -status not in FROM_OUTSIDE:
                return {"error": f"more than {MOST_S:g} s of a processor, or {MOST_BYTES >> 20} MiB, to render them"}
        raise LostError("a process that renders chat templates", f"{ATTEMPTS} that were ended", RETRY)

    def _connect(self) -> Connection:
        if not hasattr(self._own, "connection"):
            self._own.process, self._own.connection = start_python(serve_templates.__module__, serve_templates.__name__)
            self._processes.add(self._own.process)
            with socket.socket(fileno=os.dup(self._own.connection.fileno())) as pair:  # a stopped process reads nothing
                pair.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(LONGEST_S), 0))
        connection: Connection = self._own.connection
        return connection

    def _end(self) -> int:
        process: subprocess.Popen[bytes] = self._own.process
        self._own.connection.close()
        del self._own.connection
        with suppress(subprocess.TimeoutExpired):  # one that goes by itself says why
            process.wait(MARGIN_S)
        process.kill()
        self._processes.discard(process)
        return process.wait()


def _late() -> BusyError:
    return BusyError("a chat template rendered in time", f"none after {PATIENCE_S:g} s", RETRY)
