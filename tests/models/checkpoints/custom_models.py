"""Files that a reader might write."""

from pathlib import Path

WHOLE = """
import torch
from torch import nn
from attendant.custom_model import Contract, CustomModel, TensorSpec
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


PROJECT = {
    "models/net.py": """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(4, 3)
    def forward(self, x):
        return self.head(x)
""",
    "serving/labels.py": "LABELS = ['a', 'b', 'c']\n",
    "export/__init__.py": "WIDTH = 4\n",
    "clients/unit.py": "",
    "serve_me.py": """
import clients.unit
from attendant.custom_model import Contract, CustomModel, TensorSpec
from export import WIDTH
from models.net import Net
from serving.labels import LABELS


def model():
    return CustomModel(
        name="mine",
        module=Net(),
        contract=Contract(
            inputs=(TensorSpec(name="x", dtype="float32", axes=("batch", 4)),),
            outputs=(TensorSpec(name="scores", dtype="float32", axes=("batch", 3)),),
        ),
        details={"labels": LABELS},
        example={"inputs": {"x": [0.5] * WIDTH}},
    )
""",
}
"""A project whose packages are called as ours."""


def write_project(folder: Path, initialised: bool = True) -> Path:
    """Write :data:`PROJECT`, and give its ``serve_me.py``; packages may have no ``__init__.py``."""
    for name, text in PROJECT.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        if initialised and "/" in name:
            (folder / name).with_name("__init__.py").touch()
    return folder / "serve_me.py"
