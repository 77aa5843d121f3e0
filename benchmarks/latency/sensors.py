"""A custom model, as docs/tutorials/your-own-model.md has one, with random weights: readings of sensors over time.

Two Transformer blocks of width 64 over six sensors: its scores mean nothing; they cost what such scores cost.
"""

import torch
from torch import Tensor, nn

from attendant.custom_model import Contract, CustomModel, TensorSpec

SENSORS, CLASSES, TIMES = 6, 3, 64


class SensorTransformer(nn.Module):
    """Whether sensors rise, fall or shake."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(SENSORS, 64)
        block = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, readings: Tensor) -> Tensor:
        """Readings ``[B, T, 6]`` → scores ``[B, 3]``."""
        scores: Tensor = self.head(self.encoder(self.embed(readings)).mean(1))
        return scores


def model() -> CustomModel:
    """The model, and what goes in and comes out."""
    torch.manual_seed(0)
    return CustomModel(
        name="sensors",
        module=SensorTransformer(),
        contract=Contract(
            inputs=(TensorSpec(name="readings", dtype="float32", axes=("batch", "time", SENSORS)),),
            outputs=(TensorSpec(name="scores", dtype="float32", axes=("batch", CLASSES)),),
            largest={"time": TIMES},
        ),
        example={"inputs": {"readings": [[0.1 * time] * SENSORS for time in range(TIMES)]}},
    )
