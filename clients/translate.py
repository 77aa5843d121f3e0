"""Translate texts on a Triton server, token by token."""

from attendant.sampling_params import SamplingParams
from clients.text import TextModel


class Translator(TextModel):
    """A served model of the task ``translate``."""

    task = "translate"

    async def translate(self, text: str, options: SamplingParams | None = None) -> str:
        """The whole translation; see :meth:`clients.text.TextModel.stream`."""
        return await self.answer(text, options)
