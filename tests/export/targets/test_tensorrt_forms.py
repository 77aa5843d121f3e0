"""Every family in every precision has a form that TensorRT's parser reads, by all constraints, or a reason for none."""

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.manifest import Manifest
from export.graph.sample_inputs import sample_inputs
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.passes.quantise import quantise_float8
from export.precision.precisions import PRECISIONS, require_task
from export.targets.check import validate_for_target
from models.checkpoints.resolve import checkpoint_named
from tests.export.rewritten import rewritten
from tests.export.test_families import NODES, WITH_EXPLAINED

SLOW = pytest.mark.patient
ORDINARY = {"vit-tiny", "gpt2-tiny"}
FAMILIES = sorted({**NODES, **WITH_EXPLAINED})
PLAIN = [name for name, one in PRECISIONS.items() if not one.calibrated and name != "fp32"]
CALIBRATED = [
    ("digits-vit", "int8-static"),
    ("digits-vit", "fp8"),
    ("dates-transformer", "int4-kv8"),
    ("stdlib-lm", "int4-kv8"),
    ("stdlib-lm", "fp8"),
]
NARROW = {
    "cnn-gru-captioner-tiny",
    "gru-seq2seq-tiny",
    "lstm-seq2seq-tiny",
    "rnn-seq2seq-tiny",
    "show-attend-tell-tiny",
    "t5-v1.1-tiny",
}
"""Presets without a matrix whose sides 16 divides: in FP8 they cannot be, and larger ones of their families can."""
NO_WRITER = "is for models that caption, generate, translate"


@pytest.mark.parametrize("preset", [pytest.param(name, marks=() if name in ORDINARY else SLOW) for name in FAMILIES])
def test_tensorrts_form_of_every_precision_violates_nothing(preset, exported, tmp_path):
    artefact, task = exported(preset), checkpoint_named(preset).family.task.name
    folders = {"fp32": artefact}
    for name in PLAIN:
        try:
            require_task(PRECISIONS[name], task)
        except InputError as error:
            assert name.startswith("int4") and NO_WRITER in str(error)
            continue
        folders[name] = rewritten(artefact, name, tmp_path / name)
    assert {name: found for name, folder in folders.items() if (found := violations(folder))} == {}


@pytest.mark.parametrize(
    ("name", "precision"), [*CALIBRATED[:2], *(pytest.param(*one, marks=SLOW) for one in CALIBRATED[2:])]
)
def test_so_do_those_of_precisions_that_are_calibrated(name, precision, exported):
    assert violations(exported(name, precision=precision)) == []


def random_samples(artefact, path):
    """Inputs for a model that was trained on nothing: what its first graph is fed, sixteen times."""
    signature, draw = Manifest.read(artefact).graphs[0], np.random.default_rng(0)
    sizes = {symbol: min(axis.max, 6) for symbol, axis in signature.axes.items()} | {"batch": 16}
    names = {"token_ids"} if "start" in {spec.name for spec in signature.inputs} else None
    feeds = {name: tensor.numpy() for name, tensor in sample_inputs(signature, sizes).items()}
    feeds |= {name: draw.integers(3, 20, ids.shape) for name, ids in feeds.items() if name.endswith("_ids")}
    np.savez(path, **{name: array for name, array in feeds.items() if names is None or name in names})
    return path


@pytest.mark.parametrize("preset", [pytest.param(name, marks=() if name in ORDINARY else SLOW) for name in FAMILIES])
def test_so_does_that_of_fp8_of_every_family(preset, exported, tmp_path, monkeypatch):
    samples = random_samples(exported(preset), tmp_path / "samples.npz")
    if preset in NARROW:
        with pytest.raises(InputError, match=r"something to rewrite in fp8; found nothing in .*not of multiples of 16"):
            rewritten(exported(preset), "fp8", tmp_path / "none", samples)
        monkeypatch.setattr(quantise_float8, "MULTIPLE", 1)
    folder = rewritten(exported(preset), "fp8", tmp_path / "fp8", samples)
    assert violations(folder) == []
    done = [
        one for passes in Manifest.read(folder).passes.values() for one in passes if one["name"] == "quantise_float8"
    ]
    assert sum(one["fired"] for one in done) > 0 and len(done) == len(Manifest.read(folder).graphs)
    levels = levels_of(check_parity(folder), PRECISIONS["fp8"])
    assert [(one.graph, one.name, one.worst, one.tolerance) for one in levels if not one.passed] == []


def violations(folder):
    checks = [check for target in ("tensorrt", "tensorrt-10.16") for check in validate_for_target(folder, target)[1]]
    return [(check.graph, check.constraint.name, check.violations[0]) for check in checks if check.violations]
