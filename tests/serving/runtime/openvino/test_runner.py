import subprocess
import sys
import threading

import numpy as np
import pytest

from attendant.errors import ArtefactError, InputError
from attendant.manifest import Manifest
from attendant.signature import GraphSignature
from attendant.tensor_names import LOGITS, PIXELS
from serving.runtime.openvino.runner import OpenVinoRunner
from serving.runtime.ort.runner import OrtRunner
from tests.conftest import ROOT

pytest.importorskip("openvino")


def images(batch, seed=0):
    return np.random.default_rng(seed).random((batch, 1, 8, 8), dtype=np.float32)


def loaded(runner, folder, name="model", **options):
    return runner(folder / f"{name}.onnx", Manifest.read(folder).graph(name), **options)


@pytest.mark.parametrize("batch", [1, 5])
def test_it_answers_as_onnx_runtime_does(digits_artefact, batch):
    feeds = {PIXELS: images(batch)}
    answers = [loaded(kind, digits_artefact).run(feeds)[LOGITS].numpy() for kind in (OpenVinoRunner, OrtRunner)]
    np.testing.assert_allclose(*answers, atol=1e-5)


def test_bf16_is_less_exact_and_only_on_request(digits_artefact):
    exact, plain, rough = (
        loaded(kind, digits_artefact, **options).run({PIXELS: images(5)})[LOGITS].numpy()
        for kind, options in ((OrtRunner, {}), (OpenVinoRunner, {}), (OpenVinoRunner, {"precision": "bf16"}))
    )
    assert np.abs(plain - exact).max() < 1e-5
    assert np.abs(rough - exact).max() < 0.5


def test_masked_sources_of_two_lengths_are_encoded_as_by_onnx_runtime(dates_artefact):
    ids = np.random.default_rng(0).integers(4, 30, (2, 7))
    feeds = {"source_ids": ids, "source_mask": np.arange(7) < np.array([[7], [3]])}
    found, wanted = (loaded(kind, dates_artefact, "encoder").run(feeds) for kind in (OpenVinoRunner, OrtRunner))
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(found[name].numpy(), wanted[name].numpy(), atol=2e-5)


def test_an_answer_stays_what_it_was_when_the_next_is_computed(digits_artefact):
    runner = loaded(OpenVinoRunner, digits_artefact)
    first = runner.run({PIXELS: images(2)})[LOGITS].numpy()
    before = first.copy()
    runner.run({PIXELS: images(2, seed=1)})
    np.testing.assert_array_equal(first, before)


def test_threads_may_share_a_runner(digits_artefact):
    runner = loaded(OpenVinoRunner, digits_artefact)
    wanted = [runner.run({PIXELS: images(3, seed)})[LOGITS].numpy() for seed in range(8)]
    found = {}
    threads = [
        threading.Thread(target=lambda seed=seed: found.update({seed: runner.run({PIXELS: images(3, seed)})[LOGITS]}))
        for seed in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, logits in enumerate(wanted):
        np.testing.assert_array_equal(found[seed].numpy(), logits)  # the same computation twice, in one process


def test_a_buffer_is_written_in_place_and_fed(digits_artefact):
    runner = loaded(OpenVinoRunner, digits_artefact)
    buffer = runner.allocate(PIXELS, {"batch": 2})
    address = buffer.address
    assert not buffer.numpy().any()
    buffer.write(images(2))
    assert buffer.address == address
    assert buffer.nbytes == 2 * 8 * 8 * 4
    np.testing.assert_array_equal(
        runner.run({PIXELS: buffer})[LOGITS].numpy(), runner.run({PIXELS: images(2)})[LOGITS].numpy()
    )


@pytest.mark.parametrize(
    ("feeds", "found"),
    [
        ({}, "missing"),
        ({PIXELS: images(1), "more": images(1)}, "unknown \\['more'\\]"),
        ({PIXELS: images(1).astype(np.float64)}, "float64"),
        ({PIXELS: images(1)[..., :7]}, "\\[1, 1, 8, 7\\]"),
    ],
)
def test_feeds_that_are_not_the_signatures_are_refused(digits_artefact, feeds, found):
    with pytest.raises(InputError, match=found):
        loaded(OpenVinoRunner, digits_artefact).run(feeds)


def test_a_graph_with_a_cache_is_refused(dates_artefact):
    with pytest.raises(ArtefactError, match="updates in place; run it on ONNX Runtime"):
        loaded(OpenVinoRunner, dates_artefact, "decoder")


def test_a_recurrent_encoder_is_refused(gru_artefact):
    with pytest.raises(ArtefactError, match="GRUSequence"):
        loaded(OpenVinoRunner, gru_artefact, "encoder")


def test_a_signature_that_is_not_the_graphs_is_refused(digits_artefact):
    signature = Manifest.read(digits_artefact).graph("model")
    other = GraphSignature(name="model", inputs=signature.outputs, outputs=signature.inputs)
    with pytest.raises(ArtefactError, match="as its manifest says"):
        OpenVinoRunner(digits_artefact / "model.onnx", other)


def test_a_file_that_is_no_graph_is_refused_by_name(digits_artefact, tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(ArtefactError, match=str(tmp_path)):
        OpenVinoRunner(tmp_path / "model.onnx", Manifest.read(digits_artefact).graph("model"))


RUNNERS_COME_AND_GO = """
import signal, sys
from pathlib import Path
from attendant.manifest import Manifest
from serving.runtime.openvino.runner import OpenVinoRunner

folder = Path(sys.argv[1])
first, second = (OpenVinoRunner(folder / "model.onnx", Manifest.read(folder).graph("model")) for _ in range(2))
del first
del second
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_signal_is_handled_after_runners_have_gone_in_another_order_than_they_came(digits_artefact):
    command = [sys.executable, "-c", RUNNERS_COME_AND_GO, digits_artefact]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
