import numpy as np
import pytest

from attendant.manifest import Manifest
from attendant.signature import Axis, GraphSignature, TensorSpec
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.ort.runner import OrtRunner
from serving.runtime.tensorrt.buckets import bucket, lengthen, of_runs, of_steps


@pytest.mark.parametrize(("size", "expected"), [(1, 64), (64, 64), (65, 128), (129, 256), (900, 1000), (1000, 1000)])
def test_a_length_is_rounded_up_to_a_power_of_two_and_never_beyond_the_capacity(size, expected):
    assert bucket(size, 1000, 64) == expected


def signature(outputs=()):
    mask = TensorSpec(name="self_mask", dtype="bool", axes=("batch", 1, "steps", "attended"))
    ids = TensorSpec(name="token_ids", dtype="int64", axes=("batch", "steps"))
    axes = {"attended": Axis(opt=50, max=100)}
    return GraphSignature(name="decoder", inputs=(ids, mask), outputs=outputs, axes=axes)


def test_a_mask_is_lengthened_with_positions_that_nobody_sees():
    arrays = {"token_ids": np.ones((2, 1)), "self_mask": np.ones((2, 1, 1, 3), dtype=bool)}
    longer = lengthen(signature(), arrays, of_steps(signature()))
    assert longer["token_ids"] is arrays["token_ids"]
    assert longer["self_mask"].shape == (2, 1, 1, 64)
    assert longer["self_mask"].sum() == 6 and longer["self_mask"][..., :3].all()


def test_a_graph_whose_results_have_that_axis_is_left_alone():
    shown = TensorSpec(name="weights", dtype="float32", axes=("batch", "attended"))
    arrays = {"token_ids": np.ones((2, 1)), "self_mask": np.ones((2, 1, 1, 3), dtype=bool)}
    assert of_steps(signature((shown,))) == ()
    assert lengthen(signature((shown,)), arrays, ())["self_mask"].shape == (2, 1, 1, 3)


def test_a_longer_mask_gives_the_same_answer(language_model):
    graph = Manifest.read(language_model).graph("decoder")
    runner = OrtRunner(language_model / "decoder.onnx", graph)
    logits = []
    for longer in (False, True):
        decoder = CachedDecoder(runner, 2)
        decoder.step(np.array([[5, 6, 7], [8, 9, 10]]), np.zeros(2, dtype=np.int64))
        feeds = {"token_ids": np.array([[5], [6]]), "start": np.array([3, 3]), "scored": np.array([[0], [0]])}
        feeds["self_mask"] = np.ones((2, 1, 1, 4), dtype=bool)
        feeds = lengthen(graph, feeds, of_steps(graph)) if longer else feeds
        logits.append(runner.run({**feeds, **decoder.caches})["logits"].numpy())
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-6)


def decoder_feeds(steps, start):
    behind = np.array(start)[:, None] + np.arange(steps)
    attended = max(start) + steps
    return {
        "token_ids": np.arange(len(start) * steps).reshape(len(start), steps) % 20,
        "start": np.array(start),
        "self_mask": (np.arange(attended) <= behind[:, :, None])[:, None],
        "scored": np.full((len(start), 1), steps - 1),
    }


def test_a_prompt_is_lengthened_by_positions_that_see_something_and_are_seen_by_none(language_model):
    graph = Manifest.read(language_model).graph("decoder")
    assert set(of_runs(graph)) == {"attended", "steps", "scored"}
    longer = lengthen(graph, decoder_feeds(5, [2, 0]), of_runs(graph))
    assert longer["token_ids"].shape == (2, 16) and longer["scored"].tolist() == [[4], [4]]
    mask = longer["self_mask"]
    assert mask.shape[2:] == (16, 40) and not mask[..., 7:].any() and mask.any(-1).all()


@pytest.mark.parametrize("start", [[2, 0], [24, 7]])
def test_a_longer_prompt_gives_the_same_answer_and_the_same_cache_where_it_is_filled(language_model, start):
    graph = Manifest.read(language_model).graph("decoder")
    runner, feeds = OrtRunner(language_model / "decoder.onnx", graph), decoder_feeds(5, start)
    decoders = [CachedDecoder(runner, 2) for _ in range(2)]
    for decoder in decoders:
        decoder.step(np.arange(2 * max(start)).reshape(2, -1) % 20, np.zeros(2, dtype=np.int64))
    asked = [feeds, lengthen(graph, feeds, of_runs(graph))]
    logits = [runner.run({**one, **it.caches})["logits"].numpy() for one, it in zip(asked, decoders, strict=True)]
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-6)
    for name, cache in decoders[0].caches.items():
        for row, begin in enumerate(start):
            ours, theirs = (one.numpy()[row, :, : begin + 5] for one in (decoders[1].caches[name], cache))
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_what_has_no_room_behind_it_in_the_cache_keeps_its_length(language_model):
    graph = Manifest.read(language_model).graph("decoder")
    capacity = int(graph.inputs[-1].axes[2])
    longer = lengthen(graph, decoder_feeds(5, [capacity - 6, 0]), of_runs(graph))
    assert longer["token_ids"].shape == (2, 5)


def test_sources_and_texts_get_padding_that_a_mask_tells_of_and_rows_of_their_last_row(dates_artefact, text_encoder):
    for folder, graph, ids, mask in (
        (dates_artefact, "encoder", "source_ids", "source_mask"),
        (text_encoder, "model", "token_ids", "mask"),
    ):
        signature = Manifest.read(folder).graph(graph)
        feeds = {spec.name: np.ones((3, 5), dtype=spec.dtype) for spec in signature.inputs}
        longer = lengthen(signature, feeds, of_runs(signature))
        assert longer[ids].shape == longer[mask].shape == (4, 16)
        assert longer[mask].sum() == 4 * 5 and longer[mask][:, :5].all()


def test_the_rows_of_a_state_and_the_sides_of_an_image_are_left_alone(explained_gru, tiny_classifier):
    assert of_runs(Manifest.read(explained_gru).graph("decoder")) == ()
    assert of_runs(Manifest.read(tiny_classifier).graph("model")) == ("batch",)


def test_what_lies_on_the_device_keeps_its_length(dates_artefact):
    signature = Manifest.read(dates_artefact).graph("encoder")
    longer = lengthen(signature, {"source_mask": np.ones((3, 5), dtype=bool)}, of_runs(signature))
    assert longer["source_mask"].shape == (3, 5)
