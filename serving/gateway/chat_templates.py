"""Messages → the prompt that a chat model was trained on, by the template that travels with its checkpoint."""

from __future__ import annotations

CHAT_TEMPLATE = "chat_template"
