import numpy as np
import pytest

from attendant.errors import InputError
from clients.served_model import ServedModel
from serving.gateway.explain.maps import Map, classifier_maps, kinds_of, round_values, select_maps, token_maps


def served(task, *outputs):
    sizes = dict.fromkeys(outputs, (2, 2))
    return ServedModel(
        name="m", decoupled=False, max_batch=1, inputs={}, outputs=sizes, dtypes={}, parameters={"task": task}
    )


@pytest.mark.parametrize(
    ("task", "outputs", "kinds"),
    [
        ("classify", ("logits", "attention", "rollout"), ["rollout", "attention", "occlusion"]),
        ("classify", ("logits", "received_1", "received_2"), ["received", "occlusion"]),
        ("classify", ("logits",), ["occlusion"]),
        ("translate", ("text_output", "alignment"), ["alignment"]),
        ("generate", ("text_output",), []),
    ],
)
def test_what_can_be_shown_follows_from_a_models_outputs(task, outputs, kinds):
    assert kinds_of(served(task, *outputs)) == kinds


def test_windows_come_in_the_order_of_their_layers():
    arrays = {f"received_{layer}": np.full((1, 1), layer) for layer in (10, 2, 1)}
    assert [one.layer for one in classifier_maps("received", arrays)] == [1, 2, 10]


def test_tokens_in_front_of_the_patches_are_left_out():
    alignment_TS = np.arange(2 * 5).reshape(2, 5) / 10
    first, second = token_maps(["a", " b"], alignment_TS)
    np.testing.assert_array_equal(first.values, [[0.1, 0.2], [0.3, 0.4]])
    assert (second.title, second.values[0, 0]) == ("b", 0.6)


def test_an_image_without_a_token_in_front_is_all_patches():
    (one,) = token_maps(["a"], np.arange(9)[None])
    assert one.values.shape == (3, 3)


def test_an_answer_without_a_token_has_no_map():
    assert token_maps([], np.zeros((0, 0))) == []


def test_a_layer_that_there_is_not_is_refused_with_the_range():
    maps = [Map(title=f"{layer}", values=np.zeros((1, 1)), layer=layer) for layer in (1, 2)]
    assert [one.layer for one in select_maps(maps, 2, None)] == [2]
    with pytest.raises(InputError, match="a layer from 1 to 2 and no head"):
        select_maps(maps, 3, None)


def test_numbers_are_rounded_for_the_eye():
    assert round_values(np.float32([[0.123456, 1]])) == [[0.1235, 1.0]]
