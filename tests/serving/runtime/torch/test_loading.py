import shutil
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attendant.errors import ConfigError, MachineError
from attendant.manifest import Manifest, sha256_of
from export.artefact.stage import export_torch
from models.layers.attend import attend_in_groups
from serving.runtime.create_runners import create_runners
from serving.runtime.torch import loading as torch_loading
from serving.runtime.torch.runner import TorchRunner
from serving.triton.repository.layout import write_repository
from serving.triton.repository.model_config import model_config_from_manifest
from tests.conftest import DIGITS


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The shipped checkpoint ``digits-vit`` for torch."""
    out = tmp_path_factory.mktemp("torch") / DIGITS
    export_torch(DIGITS, out)
    return out


def test_an_artefact_for_torch_is_run_by_it_and_gives_onnx_runtimes_numbers(digits, digits_artefact):
    pixels = np.random.default_rng(0).random((3, 1, 8, 8), dtype=np.float32)
    answers = []
    for folder in (digits, digits_artefact):
        runner = create_runners(folder, Manifest.read(folder))["model"]
        assert isinstance(runner, TorchRunner) == (folder is digits)
        answers.append(runner.run({"pixels": pixels})["logits"].numpy())
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-5)


def test_no_other_artefact_imports_torch(digits_artefact):
    script = (
        "import sys; from pathlib import Path; from attendant.manifest import Manifest\n"
        "from serving.runtime.create_runners import create_runners\n"
        "create_runners(Path(sys.argv[1]), Manifest.read(Path(sys.argv[1])))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, digits_artefact], check=True, timeout=240)


def test_where_torch_is_missing_it_is_named(digits, monkeypatch):
    monkeypatch.setitem(sys.modules, "serving.runtime.torch.loading", None)
    with pytest.raises(MachineError, match=r"the package torch, for 'digits-vit'; .*pip install torch"):
        create_runners(digits, Manifest.read(digits))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda-no-gluon"])
def test_a_gpu_that_is_asked_for_and_missing_is_named(digits, device):
    with pytest.raises(MachineError, match=r"a GPU that torch sees; .*--device cpu"):
        create_runners(digits, Manifest.read(digits), device=device)


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        ("torch", {"runtime": "onnxruntime"}, "runtime auto for 'digits-vit', which torch runs; found onnxruntime"),
        ("onnx", {"device": "cuda"}, "an artefact of `export torch` for device cuda;"),
        ("onnx", {"device": "cuda-no-gluon"}, "an artefact of `export torch` for device cuda-no-gluon"),
        ("torch", {"device": "tpu"}, r"a device, one of \['auto', 'cpu', 'cuda', 'cuda-no-gluon'\]; found 'tpu'"),
    ],
)
def test_what_an_artefacts_form_has_not_is_refused_before_anything_is_written(
    form, options, message, digits, digits_artefact, tmp_path
):
    manifest = replace(Manifest.read(digits), form=form)
    with pytest.raises(ConfigError, match=message):
        create_runners(digits, manifest, **options)
    (tmp_path / "artefact").mkdir()
    shutil.copy(digits_artefact / "model.onnx", tmp_path / "artefact")
    files = {"model.onnx": sha256_of(tmp_path / "artefact/model.onnx")}
    replace(manifest, files=files).write(tmp_path / "artefact")
    with pytest.raises(ConfigError, match=message):
        write_repository([tmp_path / "artefact"], tmp_path / "repository", **options)
    assert not (tmp_path / "repository").exists()


def test_the_device_travels_in_the_configuration_unless_the_server_is_to_choose(digits):
    manifest = Manifest.read(digits)
    assert model_config_from_manifest(manifest, device="cuda").parameters["device"].string_value == "cuda"
    assert "device" not in model_config_from_manifest(manifest).parameters


@pytest.mark.parametrize(
    ("capability", "kind"),
    [((9, 0), "FusedAttention"), ((8, 0), "FusedAttention"), ((7, 5), "function"), ((13, 0), "function")],
)
def test_a_gpu_attends_by_our_kernels_where_they_are_made_for_it_and_by_torchs_elsewhere(monkeypatch, capability, kind):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=4))
    attention = torch_loading.attention_on(torch.device("cuda"))
    assert type(attention).__name__ == kind
    assert torch_loading.attention_on(torch.device("cpu")) is attend_in_groups


@pytest.mark.parametrize(("gluon", "found"), [(True, "hopper_flash_attention"), (False, None)])
@pytest.mark.parametrize(("capability", "has_one"), [((9, 0), True), ((8, 0), False), ((10, 0), False)])
def test_hopper_alone_prefills_by_gluon_unless_that_is_turned_off(monkeypatch, capability, has_one, gluon, found):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=4))
    attention = torch_loading.attention_on(torch.device("cuda"), gluon)
    assert getattr(attention._hopper, "__name__", None) == (found if has_one else None)


@pytest.mark.parametrize(("device", "gluon"), [("auto", True), ("cuda", True), ("cuda-no-gluon", False)])
def test_the_device_says_whether_gluon_may_be_chosen(digits, monkeypatch, device, gluon):
    chosen = []
    monkeypatch.setattr(torch_loading, "_device", lambda device: torch.device("cpu"))
    monkeypatch.setattr(torch_loading, "attention_on", lambda device, gluon: chosen.append(gluon) or attend_in_groups)
    torch_loading.TorchGraphs(digits, Manifest.read(digits), device=device)
    assert chosen == [gluon]


@pytest.mark.parametrize("missing", ["triton.experimental.gluon", "triton.experimental.gluon.language.nvidia.hopper"])
def test_where_triton_has_no_gluon_hopper_prefills_like_other_gpus(monkeypatch, missing):
    from serving.runtime.torch.attention import find_hopper_prefill

    for module in ("hopper_partitions", "hopper_flash_attention"):
        monkeypatch.delitem(sys.modules, f"models.kernels.{module}", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    assert find_hopper_prefill() is None
