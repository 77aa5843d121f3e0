"""Pictures of what a model attends to, made by Pillow: maps over an image, and alignments as squares of grey.

The more a map has of a place, the more colour lies over it; each map has a scale of its own, from least to most.

Legend: S source positions, T tokens of an answer, h and w rows and columns of a map.
"""

import io
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from clients.triton_client import Array
from serving.gateway.explain.maps import Map

PANEL = 256
_SMALL_PANEL = 128
_TITLE, _GAP = 18, 6
_GRID = 216
_MOST_COLUMNS = 8
_CELL, _LABELLED_CELL = 24, 14
_MOST_PIXELS = 4096  # of an alignment's longer side: long texts get smaller squares, and no labels
_COMPRESSION = 3  # Pillow's "optimize" makes it a fifth smaller and takes twenty times as long
# Ten places of matplotlib's colour map "inferno" (CC0), between which colours are interpolated.
INFERNO = ("000004", "1b0c41", "4a0c6b", "781c6d", "a52c60", "cf4446", "ed6925", "fb9b06", "f7d13d", "fcffa4")
_RAMP = np.array([[int(colour[at : at + 2], 16) for at in (0, 2, 4)] for colour in INFERNO], dtype=np.float32)
_SHADES = np.stack(
    [np.interp(np.linspace(0, 1, 256), np.linspace(0, 1, len(_RAMP)), channel) for channel in _RAMP.T], axis=-1
)


def overlay(pixels: Array, values: Array, side: int = PANEL) -> Image.Image:
    """A map over an image in grey.

    Args:
        pixels: of the image, as a model takes them, ``[C, height, width]`` or uint8 ``[height, width, C]``.
        values: the map ``[h, w]``.
        side: of the picture, in pixels.
    """
    grey = _scale(pixels.mean(-1) if pixels.dtype == np.uint8 else pixels.mean(0))
    under = np.repeat(_enlarge(grey, side, Image.Resampling.NEAREST)[..., None] * 255, 3, axis=-1)
    strength = _enlarge(_scale(values), side, Image.Resampling.BICUBIC)[..., None]
    share = 0.1 + 0.75 * strength
    mixed = under * (1 - share) + _SHADES[(strength[..., 0] * 255).astype(np.uint8)] * share
    return Image.fromarray(mixed.clip(0, 255).astype(np.uint8))


def draw_overlays(pixels: Array, maps: Sequence[Map], columns: int | None = None) -> bytes:
    """One panel a map, as a PNG; several have titles.

    Args:
        pixels: of the image, as in :func:`overlay`.
        maps: any number; the image alone if there is none.
        columns: how many stand beside each other.
    """
    if len(maps) <= 1:
        return _png(overlay(pixels, maps[0].values if maps else np.zeros((1, 1))))
    columns = min(columns or _MOST_COLUMNS, len(maps))
    wide, high = _SMALL_PANEL + _GAP, _SMALL_PANEL + _TITLE + _GAP
    sheet = Image.new("RGB", (columns * wide + _GAP, math.ceil(len(maps) / columns) * high + _GAP), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(12)
    for number, one in enumerate(maps):
        left, top = number % columns * wide + _GAP, number // columns * high + _GAP
        pen.text((left, top), one.title, "black", font)
        sheet.paste(overlay(pixels, one.values, _SMALL_PANEL), (left, top + _TITLE))
    rows, columns = maps[0].values.shape
    header = f"{rows} rows and {columns} columns of patches; black is each map's least, yellow its most"
    return _png(_add_header(sheet, header))


def draw_alignment(source: Sequence[str], tokens: Sequence[str], weights: Array, read: str = "source tokens") -> bytes:
    """A matrix of squares as a PNG, the darker the more a token looks at a position of the source; axes are named.

    Args:
        source: S texts, from left to right.
        tokens: T texts, from top to bottom.
        weights: ``[T, S]``, from 0 to 1.
        read: what stands from left to right.
    """
    if not tokens:  # a model may end at once
        return _png(Image.new("L", (_CELL, _CELL), "white"))
    cell = min(_CELL, max(_MOST_PIXELS // max(len(source), len(tokens)), 1))
    squares = Image.fromarray((255 * (1 - np.asarray(weights).clip(0, 1))).astype(np.uint8))
    squares = squares.resize((cell * len(source), cell * len(tokens)), Image.Resampling.NEAREST)
    if cell < _LABELLED_CELL:
        return _png(squares)
    header = f"down: answer tokens; across: {read}; white 0, black 1"
    return _png(_add_header(_draw_label(squares, source, tokens, cell), header))


def _add_header(picture: Image.Image, text: str) -> Image.Image:
    font = ImageFont.load_default(12)
    width = max(picture.width, int(font.getlength(text)) + 2 * _GAP)
    sheet = Image.new(picture.mode, (width, _TITLE + _GAP + picture.height), "white")
    ImageDraw.Draw(sheet).text((_GAP, _GAP), text, "black", font)
    sheet.paste(picture, (width - picture.width, _TITLE + _GAP))
    return sheet


def _draw_label(squares: Image.Image, source: Sequence[str], tokens: Sequence[str], cell: int) -> Image.Image:
    font = ImageFont.load_default(13)
    left, top = (int(max(font.getlength(text) for text in texts)) + 12 for texts in (tokens, source))
    top = max(top, cell)
    sheet = Image.new("L", (left + squares.width + _GAP, top + squares.height + _GAP), "white")
    sheet.paste(squares, (left, top))
    pen = ImageDraw.Draw(sheet)
    for column, text in enumerate(source):
        sheet.paste(_draw_upright(_visible(text), font, (cell, top)), (left + column * cell, 0))
        pen.line((left + column * cell, top, left + column * cell, top + squares.height), _GRID)
    for row, text in enumerate(tokens):
        pen.text((left - 8, top + (row + 0.5) * cell), _visible(text), "black", font, anchor="rm")
        pen.line((left, top + row * cell, left + squares.width, top + row * cell), _GRID)
    return sheet


def _draw_upright(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, size: tuple[int, int]) -> Image.Image:
    cell, length = size
    if len(text) == 1:
        label = Image.new("L", (cell, length), "white")
        ImageDraw.Draw(label).text((cell / 2, length - 6), text, "black", font, anchor="ms")
        return label
    label = Image.new("L", (length, cell), "white")
    ImageDraw.Draw(label).text((6, cell / 2), text, "black", font, anchor="lm")
    return label.transpose(Image.Transpose.ROTATE_90)


def _visible(text: str) -> str:
    return text.strip() or ("_" if text else "·")


def _scale(values: Array) -> Array:
    least, most = float(values.min()), float(values.max())
    scaled: Array = (values.astype(np.float32) - least) / max(most - least, 1e-12)
    return scaled


def _enlarge(values: Array, side: int, how: Image.Resampling) -> Array:
    return np.asarray(Image.fromarray(values.astype(np.float32)).resize((side, side), how)).clip(0, 1)


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=_COMPRESSION)
    return file.getvalue()
