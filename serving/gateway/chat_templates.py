"""Messages → the prompt that a chat model was trained on, by the template that travels with its checkpoint."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from attendant.errors import BusyError, InputError, TemplateError
from clients.served_model import ServedModel
from serving.gateway.bounded_workers import BoundedWorkers, LateError, TooMuchError
from serving.gateway.template_process import BOUNDS, serve_templates

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
    def __init__(self) -> None:
        self._workers = BoundedWorkers(serve_templates, RENDERERS, BOUNDS)
        self.waiting = 0

    async def render(self, request: dict[str, Any]) -> dict[str, str]:
        self.waiting += 1
        try:
            said = await asyncio.wait_for(self._workers.ask(json.dumps(request).encode()), PATIENCE_S)
        except (TimeoutError, LateError):
            raise _late() from None
        except TooMuchError:
            most = f"{BOUNDS.processor_s:g} s of a processor, or {BOUNDS.more_bytes >> 20} MiB"
            return {"error": f"more than {most}, to render them"}
        finally:
            self.waiting -= 1
        answer: dict[str, str] = json.loads(said)
        return answer

    def close(self) -> None:
        self._workers.close()


def _late() -> BusyError:
    return BusyError("a chat template rendered in time", f"none after {PATIENCE_S:g} s", RETRY)
