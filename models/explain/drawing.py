"""Figures of what a model attends to, as one would print them.

Legend: H heads, S source positions, T target positions.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from attendant.errors import OutputError
from attendant.output_files import replaced_file

Map = NDArray[np.floating[Any]]
DOTS_PER_INCH = 200
_PANEL_INCHES, _SMALL_PANEL_INCHES, _TITLE_INCHES = 1.6, 0.8, 0.2
_MOST_COLUMNS = 8
_SMOOTH = 8  # times as many pixels as the image has
_COLOURS = "inferno"


def draw_over_image(image: NDArray[np.uint8], maps: Mapping[str, Map], path: Path) -> None:
    """The image, and one panel a map: the image in grey, and the more in colour the larger the map is there.

    Each map has a scale of its own, from its least to its most.

    Args:
        image: ``[height, width]`` or ``[height, width, 3]``.
        maps: title → ``[rows, columns]``.
        path: the PNG, PDF or SVG file to write.

    Raises:
        OutputError: the file cannot be written.
    """
    count = 1 + len(maps)
    columns = math.ceil(count / math.ceil(count / _MOST_COLUMNS))
    figure, axes = _panels(count, columns, _PANEL_INCHES, _TITLE_INCHES)
    axes[0].imshow(image, cmap="gray")
    axes[0].set_title("image", fontsize=7)
    height, width = image.shape[:2]
    grey = image.mean(-1) if image.ndim == 3 else image
    for axis, (title, one) in zip(axes[1:], maps.items(), strict=True):
        axis.imshow(grey, cmap="gray", extent=(0, width, height, 0))
        smooth = _enlarge(one, (height, width))
        axis.imshow(smooth, cmap=_COLOURS, alpha=0.1 + 0.75 * smooth, extent=(0, width, height, 0))
        axis.set_title(title, fontsize=7)
    _write(figure, path)


def draw_maps(maps: Sequence[Map], columns: int, path: Path) -> None:
    """Many small maps in rows of ``columns``, on one scale of colours.

    Args:
        maps: ``[rows, columns]`` each.
        columns: how many stand beside each other.
        path: the file to write.

    Raises:
        OutputError: the file cannot be written.
    """
    figure, axes = _panels(len(maps), columns, _SMALL_PANEL_INCHES)
    least, most = min(one.min() for one in maps), max(one.max() for one in maps)
    for axis, one in zip(axes, maps, strict=True):
        drawn = axis.imshow(one, cmap="viridis", vmin=least, vmax=most)
    figure.colorbar(drawn, ax=axes, shrink=0.6)
    _write(figure, path)


def draw_alignment(
    source: Sequence[str], target: Sequence[str], weights: Map, path: Path, read: str = "source tokens"
) -> None:
    """A matrix of grey squares, the darker the more a target token looks at a source token; axes and scale are named.

    Args:
        source: S tokens, from left to right.
        target: T tokens, from top to bottom.
        weights: ``[T, S]``.
        path: the file to write.
        read: what stands from left to right.

    Raises:
        OutputError: the file cannot be written.
    """
    figure = Figure(figsize=(1.2 + 0.22 * len(source), 1.2 + 0.22 * len(target)), layout="constrained")
    axis = figure.subplots()
    drawn = axis.imshow(weights, cmap="gray_r", vmin=0, vmax=1)
    axis.set_xticks(range(len(source)), source, fontsize=8)
    axis.set_yticks(range(len(target)), target, fontsize=8)
    axis.xaxis.tick_top()
    axis.set_xlabel(read, fontsize=8)
    axis.xaxis.set_label_position("top")
    axis.set_ylabel("answer tokens", fontsize=8)
    figure.colorbar(drawn, ax=axis, shrink=0.8, label="attention").ax.tick_params(labelsize=7)
    axis.tick_params(length=0)
    axis.set_xticks(np.arange(-0.5, len(source)), minor=True)
    axis.set_yticks(np.arange(-0.5, len(target)), minor=True)
    axis.grid(which="minor", color="0.85", linewidth=0.4)
    axis.tick_params(which="minor", length=0)
    _write(figure, path)


def _enlarge(one: Map, size: tuple[int, int]) -> Map:
    scaled = (one - one.min()) / max(float(one.max() - one.min()), 1e-12)
    height, width = size
    picture = Image.fromarray(scaled.astype(np.float32)).resize(
        (width * _SMOOTH, height * _SMOOTH), Image.Resampling.BICUBIC
    )
    return np.asarray(picture).clip(0, 1)


def _panels(count: int, columns: int, inches: float, title: float = 0.0) -> tuple[Figure, Sequence[Any]]:
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(columns * inches, rows * (inches + title)), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes:
        axis.set_axis_off()
    return figure, axes[:count]


def _write(figure: Figure, path: Path) -> None:
    try:
        with replaced_file(path) as staged:
            figure.savefig(staged, dpi=DOTS_PER_INCH)
    except (OSError, ValueError) as error:
        raise OutputError(f"a PNG, PDF or SVG file to write at {path}", str(error), "choose another --out") from error
