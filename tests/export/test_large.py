"""What an export holds in memory: no weights, but one that is being transposed."""

import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from export.artefact.onnx_artefact import export_graph
from export.artefact.own_process import run_each
from export.artefact.stage import export_onnx
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint, save_checkpoint
from models.presets import PRESETS

pytestmark = pytest.mark.slow

WEIGHTS = 134 * 10**6
"""Bytes of two blocks of width 1024, beside which those of the rest do not count."""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Two decoders that differ in width alone."""
    return [written(tmp_path_factory.mktemp("decoders"), width) for width in (16, 1024)]


def written(place, width):
    family = checkpoint_named("llama-tiny").family
    config = replace(PRESETS["llama-tiny"].config, layers=2, width=width, head_size=width // 4, mlp_width=4 * width)
    config = replace(config, heads=4, kv_heads=4)
    save_checkpoint(Checkpoint(name=f"of-width-{width}", family=family, model=family.build(config)), place / "it")
    return place / "it"


def held(field):
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def measure(checkpoint, place):
    before, most = held("RssAnon"), 0

    def watch():
        nonlocal most
        while True:
            most = max(most, held("RssAnon"))
            time.sleep(0.005)

    Thread(target=watch, daemon=True).start()
    export_graph(str(checkpoint), "decoder", place)
    (place / "peak").write_text(str(most - before))


def test_the_process_of_a_graph_leaves_its_weights_in_their_file(checkpoints, tmp_path):
    peaks = []
    for number, checkpoint in enumerate(checkpoints):
        (place := tmp_path / str(number)).mkdir()
        list(run_each(measure, {"decoder": (checkpoint, place)}))
        peaks.append(int((place / "peak").read_text()))
    assert peaks[1] - peaks[0] < 0.5 * WEIGHTS, "a transposed weight is copied, one at a time"


def test_the_process_that_waits_for_it_holds_none(checkpoints, tmp_path):
    export_onnx(str(checkpoints[0]), tmp_path / "warm")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak
    before = held("VmRSS")
    export_onnx(str(checkpoints[1]), tmp_path / "artefact")
    assert held("VmHWM") - before < 0.3 * WEIGHTS
    assert (tmp_path / "artefact/decoder.onnx.data").stat().st_size > WEIGHTS
    assert (tmp_path / "artefact/decoder.ort-cpu.onnx").stat().st_size < 0.01 * WEIGHTS, "the data file is shared"
