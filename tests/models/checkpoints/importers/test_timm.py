import math

import numpy as np
import pytest
from PIL import Image

from attendant.errors import ConfigError
from attendant.images import bytes_from_image
from models.checkpoints.importers.timm import flatten_config, image_details, is_timm
from tests.oracles.timm_models import timm

SHAPE = (3, 24, 24)
PREPARED = {
    "input_size": [3, 24, 24],
    "interpolation": "bicubic",
    "crop_pct": 0.9,
    "crop_mode": "center",
    "mean": [0.5, 0.4, 0.3],
    "std": [0.2, 0.3, 0.4],
}


def preprocessing(**changes):
    return image_details({"pretrained_cfg": {**PREPARED, **changes}}, SHAPE)["preprocessing"]


def test_a_folder_of_timm_names_an_architecture_and_no_model_type():
    assert is_timm({"architecture": "vit_tiny_patch16_224"})
    assert not is_timm({"model_type": "vit"})
    assert not is_timm({"model_type": "vit", "architecture": "x"})


def test_arguments_become_fields_and_a_square_image_one_number():
    values = {
        "architecture": "x",
        "num_features": 3,
        "pretrained_cfg": {},
        "model_args": {"img_size": [24, 24], "depth": 2},
    }
    assert flatten_config(values) == {"architecture": "x", "img_size": 24, "depth": 2}
    assert flatten_config({"model_args": {"img_size": [24, 32]}}) == {"img_size": [24, 32]}


def test_the_shorter_side_is_the_crop_s_over_its_share_rounded_down():
    assert preprocessing()["size"] == 26  # 24 / 0.9 = 26.7
    assert preprocessing(crop_pct=1.0)["size"] == 24
    assert preprocessing()["crop"] == [24, 24]
    assert preprocessing()["mean"] == [0.5, 0.4, 0.3]


def test_half_a_pixel_is_rounded_to_even_where_the_middle_is_cut_out():
    ramp = np.broadcast_to(np.arange(47, dtype=np.uint8)[None, :, None], (26, 47, 3))
    image = Image.fromarray(np.ascontiguousarray(ramp))  # 47 − 24 = 23: the middle begins at 11.5
    even, down = (bytes_from_image(image, {**preprocessing(), "crop_offset": one}) for one in ("half to even", "down"))
    assert preprocessing()["crop_offset"] == "half to even"
    assert (even[0, 0, 0], down[0, 0, 0]) == (12, 11)


@pytest.mark.parametrize("place", ["pretrained_cfg", "beside it"])
def test_labels_travel(place):
    labels = ["ant", "bee"]
    values = {"pretrained_cfg": {**PREPARED, "label_names": labels}}
    if place == "beside it":
        values = {"pretrained_cfg": PREPARED, "label_names": labels}
    assert image_details(values, SHAPE)["labels"] == labels


def test_labels_by_their_numbers_travel_in_their_order():
    assert image_details({"label_names": {"1": "bee", "0": "ant"}}, SHAPE) == {"labels": ["ant", "bee"]}


def test_labels_whose_numbers_leave_one_out_are_refused():
    with pytest.raises(ConfigError, match="label_names of 0 to 1"):
        image_details({"label_names": {"0": "ant", "2": "bee"}}, SHAPE)


def test_a_folder_that_says_nothing_of_images_has_no_details():
    assert image_details({}, SHAPE) == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"crop_mode": "squash"}, "crop_mode 'center'"),
        ({"interpolation": "random"}, "interpolation, one of"),
        ({"input_size": [3, 32, 32]}, "input_size"),
        ({"input_size": 24}, "input_size"),
        ({"mean": [0.5]}, "mean of 3 numbers"),
        ({"mean": [0.5] * 5}, "mean of 3 numbers"),
        ({"mean": [math.nan] * 3}, "mean of 3 numbers"),
        ({"mean": "abc"}, "mean of 3 numbers"),
        ({"std": [0.2, 0.2, 0.0]}, "std of 3 numbers"),
        ({"crop_pct": -1}, "crop_pct that makes sides"),
        ({"crop_pct": 1e-9}, "crop_pct that makes sides"),
        ({"crop_pct": 1e300}, "crop_pct that makes sides"),
        ({"crop_pct": "0.9"}, "crop_pct that makes sides"),
    ],
    ids=str,
)
def test_what_is_not_done_here_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        preprocessing(**changes)


@pytest.mark.parametrize("name", PREPARED)
def test_what_is_silent_null_or_empty_is_timms_own_default(name):
    left_out = {field: value for field, value in PREPARED.items() if field != name}
    forms = [left_out, {**PREPARED, name: None}] + ([] if name == "input_size" else [{**PREPARED, name: []}])
    for form in forms:
        theirs = timm.data.resolve_data_config({"input_size": SHAPE}, pretrained_cfg=form)
        ours = image_details({"pretrained_cfg": form}, SHAPE)["preprocessing"]
        assert ours["size"] == math.floor(24 / theirs["crop_pct"])
        assert ours["resample"] == theirs["interpolation"] and theirs["crop_mode"] == "center"
        assert (ours["mean"], ours["deviation"]) == (list(theirs["mean"]), list(theirs["std"]))


def test_images_of_one_channel_have_no_default_and_of_four_none_at_all():
    grey = {"pretrained_cfg": {"mean": [0.1], "std": [0.3]}}
    assert image_details(grey, (1, 24, 24))["preprocessing"]["mode"] == "L"
    with pytest.raises(ConfigError, match="mean of 1 numbers"):
        image_details({"pretrained_cfg": {"crop_pct": 1.0}}, (1, 24, 24))
    with pytest.raises(ConfigError, match=r"images of .* channels"):
        image_details(grey, (4, 24, 24))


@pytest.mark.parametrize("given", [[1], "x", 7, [["a", 1]]])
def test_arguments_that_are_no_object_are_refused(given):
    with pytest.raises(ConfigError, match="model_args to be an object"):
        flatten_config({"architecture": "x", "model_args": given})
