import io
import re

import numpy as np
import pytest
from matplotlib import colormaps
from PIL import Image

from serving.gateway.explain.drawing import INFERNO, PANEL, draw_alignment, draw_overlays, overlay
from serving.gateway.explain.maps import Map
from tests.conftest import ROOT


def opened(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def maps(count):
    return [Map(title=str(number), values=np.eye(4) * (number + 1)) for number in range(count)]


def test_the_colours_are_matplotlibs_inferno():
    for place, colour in zip(np.linspace(0, 1, len(INFERNO)), INFERNO, strict=True):
        expected = np.array(colormaps["inferno"](place)[:3]) * 255
        found = [int(colour[at : at + 2], 16) for at in (0, 2, 4)]
        assert np.abs(expected - found).max() < 10


def test_the_page_has_the_same_colours():
    page = (ROOT / "serving/gateway/playground/heat.js").read_text()
    assert re.findall(r'"([0-9a-f]{6})"', page) == list(INFERNO)


@pytest.mark.parametrize("pixels", [np.zeros((3, 8, 8), np.float32), np.zeros((8, 8, 1), np.uint8)])
def test_a_map_shows_on_images_of_either_kind(pixels):
    picture = np.asarray(overlay(pixels, np.eye(2))).astype(int).sum(-1)
    assert picture.shape == (PANEL, PANEL)
    assert picture[:64, :64].mean() > picture[:64, -64:].mean() + 100


def test_an_even_map_is_drawn_too():
    assert np.asarray(overlay(np.ones((1, 4, 4), np.float32), np.ones((2, 2)))).shape == (PANEL, PANEL, 3)


def test_several_maps_stand_in_rows():
    pixels = np.zeros((1, 8, 8), np.float32)
    one, five = opened(draw_overlays(pixels, maps(1))), opened(draw_overlays(pixels, maps(5), 2))
    assert one.shape == (PANEL, PANEL, 3) and five.shape[0] > 3 * 128
    assert five[:18].min() < 100, "rows, columns and colours are named above"


def test_an_alignment_of_words_is_dark_where_its_weights_are_large():
    drawn = opened(draw_alignment(["the", "cat", "", " "], ["die", "Katze"], np.eye(2, 4)))
    cells = drawn[-54:-6, -102:-6].reshape(2, 24, 4, 24, 3)[:, 6:18, :, 6:18].mean((1, 3, 4))
    np.testing.assert_array_equal(cells < 128, np.eye(2, 4, dtype=bool))
    assert drawn[:18].min() < 100, "axes and scale are named above"


def test_an_answer_without_a_token_is_drawn_too():
    assert opened(draw_alignment(["a"], [], np.zeros((0, 0)))).min() == 255
    assert opened(draw_overlays(np.zeros((1, 8, 8), np.float32), [])).shape == (PANEL, PANEL, 3)


def test_long_texts_get_smaller_squares():
    long = opened(draw_alignment(["a"] * 1000, ["b"] * 2, np.ones((2, 1000))))
    assert long.shape == (8, 4000, 3) and not long.any()
