"""Profiles come from the axes that travel in the manifest, for every kind of graph."""

import numpy as np

from attendant.engine_manifest import DECODE, EVERY, PREFILL
from attendant.manifest import Manifest
from attendant.signature import Axis, GraphSignature, TensorSpec
from export.tensorrt.profiles import profiles_of


def signatures(*folders):
    return [signature for folder in folders for signature in Manifest.read(folder).graphs]


def test_a_cached_decoder_has_a_profile_for_single_steps_and_one_for_prompts(language_model):
    decoder = Manifest.read(language_model).graph("decoder")
    decode, prefill = profiles_of(decoder)
    capacity = decoder.axes["attended"].max
    assert (decode.name, prefill.name) == (DECODE, PREFILL)
    assert decode.shapes["token_ids"] == ((1, 1), (8, 1), (32, 1))
    assert decode.shapes["scored"] == ((1, 1), (8, 1), (32, 1))
    assert decode.shapes["self_mask"] == ((1, 1, 1, 1), (8, 1, 1, -(-capacity // 2)), (32, 1, 1, capacity))
    assert prefill.shapes["token_ids"] == ((1, 1), (1, -(-capacity // 2)), (32, capacity))
    cache = decoder.input("self_00_key_in").axes[1:]
    assert decode.shapes["self_00_key_in"] == ((1, *cache), (8, *cache), (32, *cache))
    assert prefill.shapes["self_00_key_in"] == ((1, *cache), (1, *cache), (32, *cache))


def test_any_other_graph_has_one(digits_artefact, text_encoder, explained_gru):
    for signature in signatures(digits_artefact, text_encoder, explained_gru):
        (profile,) = profiles_of(signature)
        assert profile.name == EVERY
        assert profile.shapes.keys() == {
            spec.name for spec in signature.inputs if any(isinstance(axis, str) for axis in spec.axes)
        }


def test_sizes_are_those_that_the_manifest_states(text_encoder):
    (signature,) = signatures(text_encoder)
    (profile,) = profiles_of(signature)
    tokens = signature.axes["tokens"]
    assert profile.shapes["token_ids"] == ((1, tokens.min), (8, tokens.opt), (32, tokens.max))


def test_no_profile_where_nothing_varies():
    fixed = TensorSpec(name="x", dtype="float32", axes=(1, 3))
    assert profiles_of(GraphSignature(name="model", inputs=(fixed,), outputs=(fixed,))) == ()


def test_every_size_lies_between_the_others(dates_artefact, captioner_artefact, language_model, digits_artefact):
    for signature in signatures(dates_artefact, captioner_artefact, language_model, digits_artefact):
        for profile in profiles_of(signature):
            for smallest, usual, largest in profile.shapes.values():
                assert (np.array(smallest) <= usual).all() and (np.array(usual) <= largest).all()


def test_the_smallest_size_of_an_axis_is_kept():
    image = TensorSpec(name="pixels", dtype="float32", axes=("batch", 3, "height"))
    axes = {"batch": Axis(opt=8, max=32), "height": Axis(min=16, opt=64, max=64)}
    (profile,) = profiles_of(GraphSignature(name="model", inputs=(image,), outputs=(image,), axes=axes))
    assert profile.shapes["pixels"] == ((1, 3, 16), (8, 3, 64), (32, 3, 64))
