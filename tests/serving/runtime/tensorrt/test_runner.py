"""The runner's own logic, over a driver and an engine that check what they are asked; numbers are ONNX Runtime's."""

import dataclasses
import gc

import numpy as np
import pytest

from attendant.engine_manifest import Profile
from attendant.errors import ArtefactError, InputError
from attendant.manifest import Manifest
from serving.engine.kv_cache import KVCache
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.runner import TrtRunner
from tests.serving.runtime.tensorrt.fake_driver import FakeDriver
from tests.serving.runtime.tensorrt.fake_engine import FakeEngine, described
from tests.serving.runtime.tensorrt.runners import COMPUTE, INWARD, OUTWARD, Pair

ORDERS = {"late": (), "inputs-first": (INWARD,), "results-first": (OUTWARD,), "at-once": (INWARD, COMPUTE, OUTWARD)}


@pytest.fixture(params=ORDERS.values(), ids=ORDERS)
def prompt(request):
    return request.param


def generate(runner, rows, steps, memories=None):
    """Logits of a prompt and of so many single tokens behind it."""
    decoder = CachedDecoder(runner, rows, memories)
    tokens = np.arange(5, 5 + 3 * rows).reshape(rows, 3)
    logits = [decoder.step(tokens, np.zeros(rows, dtype=np.int64))["logits"]]
    for step in range(steps):
        chosen = logits[-1][:, -1].argmax(axis=1)[:, None]
        logits.append(decoder.step(chosen, np.full(rows, 3 + step))["logits"])
    return logits, {name: buffer.numpy() for name, buffer in decoder.caches.items()}


def require_equal(found, wanted):
    for one, other in zip(found[0], wanted[0], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    for name, cache in wanted[1].items():
        np.testing.assert_allclose(found[1][name], cache, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_decode_is_the_other_runners_decode_in_any_order_of_the_streams(language_model, prompt, rows):
    pair = Pair(language_model, "decoder", prompt)
    require_equal(generate(pair.trt, rows, 4), generate(pair.ort, rows, 4))


def test_phases_that_are_engines_of_their_own_write_one_cache(language_model, prompt):
    pair = Pair(language_model, "decoder", prompt, apart=True)
    require_equal(generate(pair.trt, 2, 4), generate(pair.ort, 2, 4))
    assert [len(engine.contexts) for engine in pair.engines] == [1, 1]
    assert len({engine.contexts[0].between for engine in pair.engines}) == 1  # one of them runs at a time


def test_with_plugins_prompts_of_ever_new_lengths_are_run_at_few(language_model, prompt):
    pair = Pair(language_model, "decoder", prompt, apart=True, plugins=("flash_attention",))
    for length in (2, 3, 7, 13, 16, 17):
        found = []
        for runner in (pair.trt, pair.ort):
            decoder, start, last = CachedDecoder(runner, 1), np.zeros(1, dtype=np.int64), np.array([[length - 1]])
            logits = [decoder.step(np.arange(4, 4 + length)[None], start, last)["logits"]]
            logits.append(decoder.step(np.array([[3]]), start + length)["logits"])
            filled = {name: cache.numpy()[:, :, : length + 1] for name, cache in decoder.caches.items()}
            found.append((logits, filled))
        require_equal(*found)
    prompts = pair.engines[1].contexts
    assert [context.shapes["token_ids"] for context in prompts] == [(1, 16), (1, 32)]
    assert all(context.changes == 0 for engine in pair.engines for context in engine.contexts)


def test_with_plugins_sources_of_ever_new_lengths_are_run_at_few_and_cut(dates_artefact, prompt):
    pair = Pair(dates_artefact, "encoder", prompt, plugins=("flash_attention",))
    for batch, length in ((1, 3), (2, 9), (3, 16), (3, 17), (4, 11)):
        kept = np.arange(length) < np.linspace(1, length, batch).astype(int)[:, None]
        feeds = {"source_ids": np.arange(batch * length).reshape(batch, length) % 20, "source_mask": kept}
        found, wanted = pair.trt.run(feeds), pair.ort.run(feeds)
        for name, buffer in wanted.items():
            theirs, ours = buffer.numpy(), found[name].numpy()
            assert ours.shape == theirs.shape == found[name].shape
            axis = theirs.shape.index(length, 1)
            for row, count in enumerate(kept.sum(1)):  # what stands at padding, nobody reads
                seen = [one[row].take(range(count), axis - 1) for one in (ours, theirs)]
                np.testing.assert_allclose(*seen, atol=1e-5)
    assert [context.shapes["source_ids"] for context in pair.engine.contexts] == [(1, 16), (2, 16), (4, 16), (4, 32)]


def test_without_plugins_runs_have_the_lengths_that_are_asked(language_model):
    pair = Pair(language_model, "decoder")
    for length in (3, 5):
        CachedDecoder(pair.trt, 1).step(np.arange(4, 4 + length)[None], np.zeros(1, dtype=np.int64))
    assert [context.shapes["token_ids"] for context in pair.engine.contexts] == [(1, 5)]


def test_an_encoders_results_go_to_the_decoder_without_the_host(dates_artefact, prompt):
    encoder = Pair(dates_artefact, "encoder", prompt)
    decoder = Pair(dates_artefact, "decoder", device=encoder.device)
    mask = np.ones((2, 6), dtype=bool)
    source = {"source_ids": np.arange(4, 16).reshape(2, 6), "source_mask": mask}
    made = encoder.trt.run(source)
    assert all(buffer.is_on(encoder.device) for buffer in made.values())
    found = generate(decoder.trt, 2, 3, {"source_mask": mask, **made})
    wanted = generate(decoder.ort, 2, 3, {"source_mask": mask, **encoder.ort.run(source)})
    require_equal(found, wanted)
    # One for each step's logits, and one for each cache that is compared.
    assert encoder.driver.counts["copy_out"] == 4 + len(found[1])


def test_a_state_that_the_engine_does_not_update_in_place_is_moved_there(explained_gru, prompt):
    folder = explained_gru
    encoder = Pair(folder, "encoder", prompt)
    decoder = Pair(folder, "decoder", device=encoder.device)
    assert decoder.engine.engine.aliases == {} and decoder.trt.signature.aliases
    mask = np.ones((2, 5), dtype=bool)
    source = {"source_ids": np.arange(4, 14).reshape(2, 5), "source_mask": mask}

    def states(runners):
        memories = {"source_mask": mask, **runners[0].run(source)}
        stepped = CachedDecoder(runners[1], 2, memories)
        logits = [stepped.step(np.full((2, 1), 4 + step), np.zeros(2))["logits"] for step in range(4)]
        return logits, {name: buffer.numpy() for name, buffer in stepped.caches.items()}

    require_equal(states((encoder.trt, decoder.trt)), states((encoder.ort, decoder.ort)))


def test_a_step_is_recorded_at_its_second_time_and_is_one_launch_from_then_on(language_model):
    pair = Pair(language_model, "decoder")
    generate(pair.trt, 2, 6)
    assert pair.driver.replays == 5
    assert len(pair.driver.recordings) == 1
    assert len(pair.engine.contexts) == 2  # one read the prompt, one is the step's


def test_each_batch_size_has_a_recording_of_its_own(language_model):
    pair = Pair(language_model, "decoder")
    for rows in (1, 2, 1, 2):
        decoder = CachedDecoder(pair.trt, rows)
        for step in range(3):
            decoder.step(np.full((rows, 1), 7), np.full(rows, step))
    # Caches of their own: every decoder is another kind of step.
    assert len(pair.driver.recordings) == 4
    slots = KVCache(pair.trt, 4)
    for step in range(4):
        for rows in (1, 4):
            slots.decoder(0, rows).step(np.full((rows, 1), 7), np.full(rows, step))
    assert len(pair.driver.recordings) == 6


def test_results_of_a_recorded_step_outlive_the_next_one(language_model):
    pair = Pair(language_model, "decoder")
    decoder = CachedDecoder(pair.trt, 1)
    feeds = [
        {"token_ids": np.array([[5 + step]]), "start": np.array([step]), "scored": np.array([[0]])}
        | {"self_mask": np.ones((1, 1, 1, step + 1), dtype=bool)}
        for step in range(4)
    ]
    made = [pair.trt.run({**feed, **decoder.caches})["logits"] for feed in feeds]
    other = CachedDecoder(pair.ort, 1)
    for buffer, feed in zip(made, feeds, strict=True):
        wanted = pair.ort.run({**feed, **other.caches})["logits"].numpy()
        np.testing.assert_allclose(buffer.numpy(), wanted, atol=1e-5)


def test_the_cache_never_moves_and_is_never_copied_to_the_host(language_model):
    pair = Pair(language_model, "decoder")
    decoder = CachedDecoder(pair.trt, 2)
    addresses = {name: buffer.address for name, buffer in decoder.caches.items()}
    for step in range(3):
        decoder.step(np.full((2, 1), 7), np.full(2, step))
    assert {name: buffer.address for name, buffer in decoder.caches.items()} == addresses
    assert pair.driver.counts["copy_out"] == 3  # the logits of each step


def test_rows_are_exchanged_and_moved_on_the_device_as_in_the_other_runner(language_model, prompt):
    pair = Pair(language_model, "decoder", prompt)
    found = []
    for runner in (pair.trt, pair.ort):
        slots = KVCache(runner, 4)
        slots.decoder(0, 4).step(np.arange(5, 17).reshape(4, 3), np.zeros(4, dtype=np.int64))
        slots.permute([0, 1, 2], [1, 0, 0], 3)
        slots.copy([0, 1], [3, 2], 2)
        cached = slots.cached(1, 0, 3)
        slots.restore(0, 1, [block[:, :2] for block in cached])
        found.append([block for row in range(4) for block in slots.cached(row, 0, 3)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_rows_in_the_midst_of_a_block_are_run_where_tensorrt_takes_them(dates_artefact, prompt):
    encoder = Pair(dates_artefact, "encoder", prompt)
    decoder = Pair(dates_artefact, "decoder", device=encoder.device)
    source = {"source_ids": np.arange(4, 19).reshape(3, 5), "source_mask": np.ones((3, 5), dtype=bool)}
    memories = {name: buffer.numpy() for name, buffer in encoder.ort.run(source).items()} | source
    found = []
    for runner in (decoder.trt, decoder.ort):
        slots = KVCache(runner, 3)
        for row in range(3):
            slots.place(row, {name: memory[row] for name, memory in memories.items()}, row)
        assert runner is decoder.ort or slots.decoder(1, 2)._fixed["source_mask"].address % 256
        slots.decoder(1, 2).step(np.array([[4, 5]]), np.zeros(1, dtype=np.int64))
        logits = [
            slots.decoder(*rows).step(np.full((rows[1] - rows[0], 1), 6 + step), np.full(rows[1] - rows[0], 2 + step))
            for step in range(3)
            for rows in ((1, 2), (1, 3))
        ]
        found.append([step["logits"] for step in logits] + [slots.cached(row, 0, 5)[0] for row in range(3)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_cache_in_the_midst_of_a_block_is_copied_back(language_model, prompt):
    pair = Pair(language_model, "decoder", prompt)
    found = []
    for runner in (pair.trt, pair.ort):
        blocks = {}
        for source in runner.signature.aliases.values():
            spec = runner.signature.input(source)
            count = int(np.prod(spec.axes[1:]))
            whole = runner.allocate(source, {"batch": 2})
            blocks[source] = whole.part(3, (1, *spec.axes[1:])) if count >= 3 else whole
        decoder = CachedDecoder.over(runner, blocks, {})
        steps = [decoder.step(np.array([[5, 6]]), np.zeros(1, dtype=np.int64))["logits"]]
        steps += [decoder.step(np.array([[7 + at]]), np.full(1, 2 + at))["logits"] for at in range(3)]
        found.append(steps + [block.numpy() for block in blocks.values()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.slow
def test_runs_hold_no_more_memory_the_longer_it_goes_on(language_model):
    pair = Pair(language_model, "decoder")
    slots, held = KVCache(pair.trt, 2), []
    for step in range(12):
        slots.decoder(0, 2).step(np.full((2, 1), 7), np.full(2, step))
        slots.permute([0, 1], [1, 0], step + 1)
        gc.collect()
        with pair.device.turn():
            held.append((len(pair.driver.living()), pair.driver.counts["pin"]))
    assert len(set(held[4:])) == 1
    assert pair.driver.counts["allocate"] > held[-1][0] + 12  # it did allocate, and gave back


def test_an_array_in_the_place_of_a_cache_is_refused(language_model):
    pair = Pair(language_model, "decoder")
    decoder = CachedDecoder(pair.trt, 1)
    caches = {name: buffer.numpy() for name, buffer in decoder.caches.items()}
    feed = {"token_ids": np.array([[5]]), "start": np.array([0]), "scored": np.array([[0]])}
    with pytest.raises(InputError, match="a buffer of this runner for 'self_00_key_in'"):
        pair.trt.run({**feed, "self_mask": np.ones((1, 1, 1, 1), dtype=bool), **caches})


def test_a_missing_input_and_a_wrong_type_are_refused_by_name(tiny_classifier):
    pair = Pair(tiny_classifier, "model")
    with pytest.raises(InputError, match="missing \\['pixels'\\]"):
        pair.trt.run({})
    with pytest.raises(InputError, match="'pixels' of type float32"):
        pair.trt.run({"pixels": np.zeros((1, 3, 8, 8), dtype=np.float64)})


def test_runs_that_are_queued_one_behind_another_keep_their_own_inputs(tiny_classifier, prompt):
    pair = Pair(tiny_classifier, "model", prompt)
    shape = pair.trt.signature.inputs[0].shape({"batch": 2})
    images = [np.random.default_rng(seed).normal(size=shape).astype(np.float32) for seed in range(6)]
    made = []
    for image in images:
        given = image.copy()
        made.append(pair.trt.run({"pixels": given})["logits"])
        given[:] = np.nan  # the caller's own again
    for image, buffer in zip(images, made, strict=True):
        np.testing.assert_allclose(buffer.numpy(), pair.ort.run({"pixels": image})["logits"].numpy(), atol=1e-5)


def test_an_engine_with_other_tensors_is_refused(tiny_classifier, language_model):
    pair = Pair(tiny_classifier, "model")
    with pytest.raises(ArtefactError, match=r"missing .*token_ids"):
        signature = Manifest.read(language_model).graph("decoder")
        TrtRunner([(pair.engine, pair.engine.engine)], signature, pair.device, "USER_MANAGED")


def test_an_engine_that_updates_in_place_what_its_manifest_does_not_say_is_refused(language_model):
    pair = Pair(language_model, "decoder")
    forgetful = dataclasses.replace(pair.engine.engine, aliases={})
    with pytest.raises(ArtefactError, match="to update in place"):
        TrtRunner([(pair.engine, forgetful)], pair.trt.signature, pair.device, "USER_MANAGED")


def test_a_plugin_that_writes_a_cache_gets_one_address_though_the_engine_tells_none(language_model, prompt):
    pair = Pair(language_model, "decoder", prompt, plugins=("decode_append_attention",))
    pair.engine.get_aliased_input_tensor = lambda name: None
    runner = TrtRunner([(pair.engine, pair.engine.engine)], pair.trt.signature, pair.device, "USER_MANAGED")
    tokens, start = np.array([[5]]), np.zeros(1, dtype=np.int64)
    logits = [CachedDecoder(one, 1).step(tokens, start)["logits"] for one in (runner, pair.ort)]
    np.testing.assert_allclose(*logits, atol=1e-5)
    without = dataclasses.replace(pair.engine.engine, plugins={})
    with pytest.raises(ArtefactError, match="to update in place"):
        TrtRunner([(pair.engine, without)], pair.trt.signature, pair.device, "USER_MANAGED")


def test_shapes_outside_every_profile_are_refused(tiny_classifier):
    signature = Manifest.read(tiny_classifier).graph("model")
    driver = FakeDriver()
    small = {"pixels": tuple(signature.inputs[0].shape({"batch": size}) for size in (1, 1, 2))}
    engine = described(signature, [Profile(name="every", shapes=small)])
    fake = FakeEngine(driver, tiny_classifier / "model.onnx", signature, engine)
    runner = TrtRunner([(fake, engine)], signature, Device(driver), "USER_MANAGED")
    with pytest.raises(InputError, match=r"shapes of a profile of model\.plan"):
        runner.run({"pixels": np.zeros(signature.inputs[0].shape({"batch": 3}), dtype=np.float32)})
