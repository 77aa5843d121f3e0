import numpy as np
import pytest
from PIL import Image

from attendant.errors import OutputError
from models.explain.drawing import draw_alignment, draw_maps, draw_over_image

IMAGE = np.linspace(0, 255, 64, dtype=np.uint8).reshape(8, 8)


def drawn(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(float)


def colourfulness(picture):
    return float((picture.max(-1) - picture.min(-1)).mean())


def test_there_is_a_panel_for_the_image_and_one_for_each_map(tmp_path):
    maps = {f"map {number}": np.eye(4) for number in range(9)}
    for count in (1, 5, 9):
        draw_over_image(IMAGE, dict(list(maps.items())[:count]), tmp_path / f"{count}.png")
    shapes = {count: drawn(tmp_path / f"{count}.png").shape for count in (1, 5, 9)}
    assert shapes[1] == (360, 640, 3)
    assert shapes[5] == (360, 1920, 3)
    assert shapes[9] == (720, 1600, 3)  # two rows of five


def test_the_map_is_seen_in_colour_where_it_is_large(tmp_path):
    one = np.zeros((4, 4))
    one[3, 0] = 1.0
    draw_over_image(np.full((8, 8), 128, dtype=np.uint8), {"map": one}, tmp_path / "a.png")
    panel = drawn(tmp_path / "a.png")[40:, 320:]
    below, above = panel[len(panel) // 2 :, : panel.shape[1] // 2], panel[: len(panel) // 2, panel.shape[1] // 2 :]
    assert colourfulness(below) > 4 * colourfulness(above)


def test_a_map_that_is_the_same_everywhere_is_no_error(tmp_path):
    draw_over_image(IMAGE, {"flat": np.ones((4, 4))}, tmp_path / "a.png")
    assert drawn(tmp_path / "a.png").std() > 0


def test_a_colour_image_stays_one(tmp_path):
    image = np.zeros((8, 8, 3), dtype=np.uint8)
    image[..., 0] = 255
    draw_over_image(image, {"map": np.eye(2)}, tmp_path / "a.png")
    middle = drawn(tmp_path / "a.png")[200, 160]
    assert tuple(middle) == (255, 0, 0)


def test_an_alignment_is_dark_where_the_weight_is(tmp_path):
    draw_alignment(list("ab"), list("xyz"), np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), tmp_path / "a.png")
    draw_alignment(list("ab"), list("xyz"), np.zeros((3, 2)), tmp_path / "b.png")
    one, none = drawn(tmp_path / "a.png"), drawn(tmp_path / "b.png")
    assert one.shape == none.shape
    darker = (none - one).mean(-1) > 60
    assert 0.05 < darker.mean() < 0.6


def test_small_maps_share_one_scale(tmp_path):
    draw_maps(
        [np.full((2, 2), 1.0), np.full((2, 2), 0.0), np.full((2, 2), 0.5), np.full((2, 2), 0.5)], 2, tmp_path / "a.png"
    )
    colours = {tuple(colour) for colour in drawn(tmp_path / "a.png")[:, :200].reshape(-1, 3)}
    assert {(253, 231, 36), (68, 1, 84)} <= colours  # the two ends of viridis


@pytest.mark.parametrize("name", ["missing/a.png", "a.nonsense"])
def test_a_file_that_cannot_be_written_is_refused(name, tmp_path):
    with pytest.raises(OutputError, match="a PNG, PDF or SVG file"):
        draw_over_image(IMAGE, {"map": np.eye(2)}, tmp_path / name)
