"""Classify images on a Triton server.

Legend: B batch, C channels, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attendant.tensor_names import EXPLAIN, LOGITS, PIXELS
from clients.images import file_pixels, require_pixels
from clients.loads import Load
from clients.served_model import ServedModel
from clients.statuses import reading
from clients.triton_client import Array, TritonClient

TASK = "classify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """One label for an image, with its probability."""

    label: str
    probability: float


class Classifier:
    """A served model of the task ``classify``.

    Attributes:
        model: what the server says of it.
    """

    def __init__(self, client: TritonClient, model: ServedModel) -> None:
        self._client = client
        self.model = model

    @classmethod
    async def find(cls, client: TritonClient, name: str | None = None) -> Classifier:
        """The classifier of that name, or the only one that the server has.

        Raises:
            UnknownNameError: there is none, or a name is needed.
        """
        return cls(client, await client.model_for(TASK, name))

    async def classify_file(self, path: Path, top: int = 1) -> list[Guess]:
        """The most probable labels of an image file, best first.

        Raises:
            InputError: the file is no image, or the model has no preprocessing for files.
        """
        logits_BK = await self.logits(file_pixels(self.model, path)[None])
        return self.guesses(logits_BK[0], top)

    async def logits(self, pixels: Array) -> Array:
        """The logits ``[B, K]`` of prepared images, float32 ``[B, C, side, side]``.

        Raises:
            InputError: type or shape is not the model's, or a pixel is NaN or infinite.
        """
        require_pixels(self.model, pixels, batched=True)
        outputs = await self._client.infer(self.model.name, {PIXELS: pixels}, [LOGITS])
        with reading(self.model.name, self._client.server):
            logits_BK = outputs[LOGITS].astype(np.float32, casting="same_kind")
            if logits_BK.ndim != 2 or len(logits_BK) != len(pixels) or not logits_BK.size:
                raise ValueError(f"{len(pixels)} images, and logits of shape {logits_BK.shape}")
            return logits_BK

    async def load(self) -> Load:
        """What tells the load that answers from others of the same model."""
        return await Load.now(self._client, self.model)

    async def explain(self, pixels: Array) -> dict[str, Array]:
        """The logits of prepared images and what the model attends to, in one answer.

        Returns:
            Output name → array of B rows: ``logits``, and of a model over patches ``attention`` ``[B, L, H, S, S]`` and
            ``rollout`` ``[B, rows, columns]``, of one over windows ``received_1`` and so on ``[B, h, w]``.

        Raises:
            InputError: as :meth:`logits`, or the model was not exported with ``--explain``.
        """
        require_pixels(self.model, pixels, batched=True)
        return await self._client.infer(self.model.name, {PIXELS: pixels}, parameters={EXPLAIN: True})

    async def explain_file(self, path: Path) -> dict[str, Array]:
        """The same for an image file, a batch of one.

        Raises:
            InputError: the file is no image, or the model has no preprocessing for files.
        """
        return await self.explain(file_pixels(self.model, path)[None])

    def guesses(self, logits: Array, top: int = 1) -> list[Guess]:
        """The most probable labels for the logits ``[K]`` of one image, best first.

        Raises:
            ServerError: they are no logits.
        """
        with reading(self.model.name, self._client.server), np.errstate(invalid="ignore"):
            exponentials = np.exp(logits - logits.max())
            probabilities = exponentials / exponentials.sum()
            if probabilities.ndim != 1 or not np.isfinite(probabilities).all():
                raise ValueError(f"logits of shape {logits.shape} without probabilities")
        labels = self.labels(len(logits))
        best = np.argsort(-probabilities, kind="stable")[:top]
        return [Guess(label=labels[index], probability=float(probabilities[index])) for index in best]

    def labels(self, count: int) -> list[str]:
        """What its K classes are called: their numbers, if the model does not say."""
        labels = self.model.parameters.get("labels", ())
        return [str(label) for label in labels] if len(labels) == count else [str(index) for index in range(count)]
