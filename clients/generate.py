"""Continue prompts with a language model on a Triton server, token by token."""

from __future__ import annotations

from clients.text import TextModel


class Generator(TextModel):
    """A served model of the task ``generate``."""

    task = "generate"

    async def generate(self, prompt: str, max_tokens: int | None = None) -> str:
        """The whole continuation; see :meth:`clients.text.TextModel.stream`."""
        return await self.answer(prompt, max_tokens)
