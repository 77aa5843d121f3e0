"""Files that a reader might write."""

from pathlib import Path

WHOLE = """
import torch
from torch import nn
from models.checkpoints.custom_model import CustomModel
from attendant.signature import TensorSpec
from models.tasks.predict import Contract
from neighbour import HEADS


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(8, HEADS, batch_first=True)

    def forward(self, readings, valid):
        mixed, weights = self.attention(readings, readings, readings, key_padding_mask=~valid)
        return mixed.mean(1), weights


def model():
    return CustomModel(
        name="pooled",
        module=Pooled(),
        contract=Contract(
            inputs=(
                TensorSpec(name="readings", dtype="float32", axes=("batch", "time", 8)),
                TensorSpec(name="valid", dtype="bool", axes=("batch", "time")),
            ),
            outputs=(
                TensorSpec(name="mixed", dtype="float32", axes=("batch", 8)),
                TensorSpec(name="weights", dtype="float32", axes=("batch", "time", "time")),
            ),
            largest={"time": 12},
        ),
        details={"unit": "volt"},
        example={"inputs": {"readings": [[0.5] * 8, [1.0] * 8], "valid": [True, True]}},
    )
"""


def own_file(folder: Path, text: str = WHOLE) -> Path:
    """``mine.py`` with its neighbour."""
    (folder / "neighbour.py").write_text("HEADS = 2\n")
    path = folder / "mine.py"
    path.write_text(text)
    return path
