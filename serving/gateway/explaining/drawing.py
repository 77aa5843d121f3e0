"""Pictures of what a model attends to, made by Pillow: maps over an image, and alignments as squares of grey.

The more a map has of a place, the more colour lies over it; each map has a scale of its own, from least to most.

Legend: S source positions, T tokens of an answer, h and w rows and columns of a map.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from clients.triton_client import Array
from serving.gateway.explaining.maps import Map

PANEL = 256
_SMALL_PANEL = 128
_TITLE, _GAP = 18, 6
_MOST_COLUMNS = 8
_CELL = 24
# Ten places of matplotlib's colour map "inferno" (CC0), between which colours are interpolated.
INFERNO = ("000004", "1b0c41", "4a0c6b", "781c6d", "a52c60", "cf4446", "ed6925", "fb9b06", "f7d13d", "fcffa4")
_RAMP = np.array([[int(colour[at : at + 2], 16) for at in (0, 2, 4)] for colour in INFERNO], dtype=np.float32)


def overlay(pixels: Array, values: Array, side: int = PANEL) -> Image.Image:
    """A map over an image in grey.

    Args:
        pixels: of the image, as a model takes them, ``[C, height, width]`` or uint8 ``[height, width, C]``.
        values: the map ``[h, w]``.
        side: of the picture, in pixels.
    """
    grey = _scaled(pixels.mean(-1) if pixels.dtype == np.uint8 else pixels.mean(0))
    under = np.repeat(_enlarged(grey, side, Image.Resampling.NEAREST)[..., None] * 255, 3, axis=-1)
    strength = _enlarged(_scaled(values), side, Image.Resampling.BICUBIC)[..., None]
    share = 0.1 + 0.75 * strength
    mixed = under * (1 - share) + _coloured(strength[..., 0]) * share
    return Image.fromarray(mixed.clip(0, 255).astype(np.uint8))


def draw_overlays(pixels: Array, maps: Sequence[Map], columns: int | None = None) -> bytes:
    """One panel a map, as a PNG; several have titles.

    Args:
        pixels: of the image, as in :func:`overlay`.
        maps: one or more.
        columns: how many stand beside each other.
    """
    if len(maps) == 1:
        return _png(overlay(pixels, maps[0].values))
    columns = min(columns or _MOST_COLUMNS, len(maps))
    wide, high = _SMALL_PANEL + _GAP, _SMALL_PANEL + _TITLE + _GAP
    sheet = Image.new("RGB", (columns * wide + _GAP, math.ceil(len(maps) / columns) * high + _GAP), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(12)
    for number, one in enumerate(maps):
        left, top = number % columns * wide + _GAP, number // columns * high + _GAP
        pen.text((left, top), one.title, "black", font)
        sheet.paste(overlay(pixels, one.values, _SMALL_PANEL), (left, top + _TITLE))
    return _png(sheet)


def draw_alignment(source: Sequence[str], tokens: Sequence[str], weights: Array) -> bytes:
    """A matrix of squares as a PNG, the darker the more a token looks at a position of the source.

    Args:
        source: S texts, from left to right.
        tokens: T texts, from top to bottom.
        weights: ``[T, S]``, from 0 to 1.
    """
    font = ImageFont.load_default(13)
    left, top = (int(max(font.getlength(text) for text in [*texts, "·"])) + 12 for texts in (tokens, source))
    top = max(top, _CELL)
    sheet = Image.new("RGB", (left + _CELL * len(source) + _GAP, top + _CELL * len(tokens) + _GAP), "white")
    pen = ImageDraw.Draw(sheet)
    for column, text in enumerate(source):
        sheet.paste(_upright(_visible(text), font, top), (left + column * _CELL, 0))
    for row, text in enumerate(tokens):
        pen.text((left - 8, top + (row + 0.5) * _CELL), _visible(text), "black", font, anchor="rm")
        for column in range(len(source)):
            shade = round(255 * (1 - min(1.0, float(weights[row, column]))))
            corner = (left + column * _CELL, top + row * _CELL)
            pen.rectangle((*corner, corner[0] + _CELL, corner[1] + _CELL), (shade,) * 3, (216, 216, 216))
    return _png(sheet)


def _upright(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, length: int) -> Image.Image:
    if len(text) == 1:
        label = Image.new("RGB", (_CELL, length), "white")
        ImageDraw.Draw(label).text((_CELL / 2, length - 6), text, "black", font, anchor="ms")
        return label
    label = Image.new("RGB", (length, _CELL), "white")
    ImageDraw.Draw(label).text((6, _CELL / 2), text, "black", font, anchor="lm")
    return label.transpose(Image.Transpose.ROTATE_90)


def _visible(text: str) -> str:
    return text.strip() or ("_" if text else "·")


def _coloured(values: Array) -> Array:
    places = np.linspace(0, 1, len(_RAMP))
    return np.stack([np.interp(values, places, channel) for channel in _RAMP.T], axis=-1)


def _scaled(values: Array) -> Array:
    least, most = float(values.min()), float(values.max())
    scaled: Array = (values.astype(np.float32) - least) / max(most - least, 1e-12)
    return scaled


def _enlarged(values: Array, side: int, how: Image.Resampling) -> Array:
    return np.asarray(Image.fromarray(values.astype(np.float32)).resize((side, side), how)).clip(0, 1)


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()
