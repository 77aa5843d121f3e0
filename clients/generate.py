"""Continue prompts with a language model on a Triton server, token by token."""

from __future__ import annotations

from clients.decoding import Decoding
from clients.text import TextModel


class Generator(TextModel):
    """A served model of the task ``generate``."""

    task = "generate"

    async def generate(self, prompt: str, options: Decoding | None = None) -> str:
        """The whole continuation; see :meth:`clients.text.TextModel.stream`."""
        return await self.answer(prompt, options)
