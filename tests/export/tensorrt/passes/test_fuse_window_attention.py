"""Windows of modules that are not ours: attended to by the plugin where it computes what they do, and else refused.

Legend: as models/layers/window_attention.py.
"""

import re
from functools import partial

import onnx_ir as ir
import pytest
import torch
from torch import nn

from export.tensorrt.passes.fuse_window_attention import FuseWindowAttention
from models.layers.cosine_attention import ScaledCosine
from models.layers.relative_position_2d import OffsetBias
from models.layers.window_attention import WindowAttention
from models.layers.windows import Windows
from tests.export.passes.modules import traced
from tests.export.tensorrt.plugins.evaluator import evaluated

SIDE, PLACES, WIDTH, HEADS = 4, 4, 16, 4


class PlaceBias(nn.Module):
    """A matrix for all places, and a bias for each."""

    def __init__(self):
        super().__init__()
        self.matrix, self.bias_SE = nn.Linear(WIDTH, WIDTH, bias=False), nn.Parameter(torch.randn(PLACES, WIDTH))

    def forward(self, x):
        return self.matrix(x) + self.bias_SE


class WindowMatrix(nn.Module):
    """A matrix for each window."""

    def __init__(self):
        super().__init__()
        self.matrix_WEE = nn.Parameter(torch.randn(4, WIDTH, WIDTH))

    def forward(self, x):
        return x @ self.matrix_WEE


class PlaceMatrix(nn.Module):
    """A matrix that mixes the places of a window."""

    def __init__(self):
        super().__init__()
        self.matrix_SS = nn.Parameter(torch.randn(PLACES, PLACES))

    def forward(self, x):
        return self.matrix_SS @ x


class Cosine(nn.Module):
    """Queries and keys changed by two functions."""

    def __init__(self, queries, keys):
        super().__init__()
        self.queries, self.keys = queries, keys

    def forward(self, q, k):
        return self.queries(q), self.keys(k)


def unit(x, axis=-1):
    return x / torch.linalg.vector_norm(x, dim=axis, keepdim=True).clamp(min=1e-4)


def scaled(x, axis=-1, sizes=(HEADS, 1, 1)):
    return unit(x, axis) * torch.arange(1.0, 5.0).reshape(sizes)


def kept(x):
    return x


class Attended(WindowAttention):
    """In windows 2 × 2 of a map 4 × 4, with a step replaced by what is given under its name."""

    def __init__(self, shift, cosine=None, bias=None, end=None, **projections):
        torch.manual_seed(0)
        super().__init__(WIDTH, HEADS, Windows(SIDE, 2, shift), OffsetBias(2, HEADS), cosine and cosine())
        nn.init.normal_(next(self.position_bias.parameters()))
        self.bias, self.end = bias or self._bias, end
        for name, made in projections.items():
            setattr(self, name, made())

    def forward(self, grid):
        rows = self.windows.cut(grid)
        projected = [one(rows) for one in (self.query, self.key, self.value)]
        heads = [self._split(one) for one in projected]
        if self.cosine is not None:
            heads[:2] = self.cosine(*heads[:2])
        attended = self.attend(*(one.flatten(1, 2) for one in heads), bias=self.bias())
        joined = attended.unflatten(1, (-1, HEADS)).transpose(2, 3).flatten(3)
        if self.end is not None:
            return self.end(self, joined, rows, projected, heads)
        return self.windows.join(self.output(joined))


def with_residual(layer, joined, rows, projected, heads):
    return layer.windows.join(layer.output(joined) + rows)


def with_product(layer, joined, rows, projected, heads):
    product = joined @ layer.output.weight
    return layer.windows.join(product + layer.output.bias), product


def with_queries(layer, joined, rows, projected, heads):
    return layer.windows.join(layer.output(joined)), rows @ layer.query.weight.T


def with_means(layer, joined, rows, projected, heads):
    return layer.windows.join(layer.output(joined)), projected[0].mean((1, 2)), projected[1].relu()


def with_heads(layer, joined, rows, projected, heads):
    return layer.windows.join(layer.output(joined)), heads[0], heads[1].flatten(1, 2)


def matrix():
    return nn.Linear(WIDTH, WIDTH, bias=False)


def fused(path, layer):
    exported = traced(layer, SIDE, SIDE, WIDTH)
    outcome = FuseWindowAttention()(exported.model)
    ir.save(exported.model, path)
    return outcome


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize(
    "step",
    [
        {},
        {"key": matrix, "output": matrix},
        {"cosine": lambda: ScaledCosine(HEADS)},
        {"end": with_queries},
        {"end": with_means},
        {"end": with_heads},
    ],
)
def test_windows_are_the_plugins_and_what_else_reads_their_projections_reads_the_same(tmp_path, step, shift):
    layer = Attended(shift, **step)
    assert fused(tmp_path / "model.onnx", layer).fired == 1
    x = torch.randn(3, SIDE, SIDE, WIDTH)
    found = evaluated(tmp_path / "model.onnx", {"x": x.numpy()})
    with torch.no_grad():
        wanted = layer.double()(x.double())
    for one, exact in zip(found.values(), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(torch.from_numpy(one).double(), exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"query": PlaceBias}, "one bias, for all places"),
        ({"key": PlaceBias}, "one bias, for all places"),
        ({"value": PlaceBias}, "one bias, for all places"),
        ({"query": WindowMatrix}, "one matrix"),
        ({"output": PlaceBias}, r"goes to \['Add'\], not to one Reshape"),
        ({"output": WindowMatrix}, "one matrix for all places"),
        ({"output": PlaceMatrix}, "one matrix for all places"),
        ({"output": matrix, "end": with_residual}, r"goes to \['Add'\], not to one Reshape"),
        ({"end": with_product}, r"goes to \['Add', 'an output'\], not to one Add"),
        ({"bias": lambda: torch.zeros(1, 1, PLACES, PLACES)}, "not one of each head of each window"),
        ({"cosine": lambda: Cosine(scaled, kept)}, "not both"),
        ({"cosine": lambda: Cosine(kept, unit)}, "not both"),
        ({"cosine": lambda: Cosine(partial(scaled, axis=3), unit)}, "in another way"),
        ({"cosine": lambda: Cosine(scaled, partial(unit, axis=3))}, "in another way"),
        ({"cosine": lambda: Cosine(partial(scaled, sizes=(HEADS, 1)), unit)}, r"scales \[4, 1\]"),
    ],
)
def test_windows_that_the_plugin_would_compute_otherwise_are_refused(tmp_path, step, reason, shift):
    outcome = fused(tmp_path / "model.onnx", Attended(shift, **step))
    (refusal,) = outcome.refused
    assert outcome.fired == 0 and re.search(reason, refusal), refusal
