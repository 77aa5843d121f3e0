"""Repositories of artefacts with engines: who serves which, and which machine is refused."""

import shutil
from dataclasses import replace

import pytest
from tritonclient.grpc import model_config_pb2 as pb

from attendant.engine_manifest import EngineManifest
from attendant.errors import ArtefactError, MachineError
from attendant.manifest import Manifest
from serving.lint.check import check_repository
from serving.triton.repository import engine_check
from serving.triton.repository.engine_check import check_engines, find_unfit
from serving.triton.repository.layout import write_repository
from serving.triton.repository.pbtxt import config_from_pbtxt
from serving.triton.server.model_folders import find_models
from serving.triton.server.settings import ServerSettings
from tests.conftest import DATES, DIGITS, TEXT_ENCODER
from tests.nvidia.engines import H100, with_engines


@pytest.fixture(scope="module")
def both(explained_digits, dates_artefact, tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines")
    with_engines(explained_digits, folder / DIGITS)
    with_engines(dates_artefact, folder / DATES)
    return folder / DIGITS, folder / DATES


@pytest.fixture
def repository(both, tmp_path):
    write_repository(both, tmp_path / "repository")
    return tmp_path / "repository"


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """That of the GPU that tests pretend to have."""
    monkeypatch.setattr(engine_check, "gpu_memory_bytes", lambda: 1 << 30)


def config_of(repository, name):
    return config_from_pbtxt((repository / name / "config.pbtxt").read_text())


def test_a_model_of_images_is_triton_s_own_and_needs_no_python(repository):
    config = config_of(repository, DIGITS)
    assert (config.backend, config.platform) == ("tensorrt", "tensorrt_plan")
    assert config.default_model_filename == "model.plan"
    names = {path.name for path in (repository / DIGITS / "1").iterdir()}
    assert names == {"manifest.json", "engine.json", "model.plan"}
    assert [(group.kind, list(group.profile)) for group in config.instance_group] == [(1, ["0"])]  # KIND_GPU


def test_its_tensors_and_what_clients_are_told_are_those_of_the_python_body(repository, both, tmp_path):
    write_repository(both, tmp_path / "onnx", runtime="onnxruntime")
    ours, theirs = config_of(repository, DIGITS), config_of(tmp_path / "onnx", DIGITS)
    assert list(ours.input) == list(theirs.input)
    assert [output.name for output in ours.output] == ["logits"]  # no maps: they are another graph's
    assert ours.output[0] == theirs.output[0]
    assert ours.max_batch_size == theirs.max_batch_size
    for key in ("task", "example", "labels", "preprocessing"):
        assert ours.parameters[key] == theirs.parameters[key]


def test_every_batch_size_runs_before_it_is_ready_and_is_a_cuda_graph(repository):
    config = config_of(repository, DIGITS)
    assert [warmup.batch_size for warmup in config.model_warmup] == [1, 2, 4, 8, 16, 32]
    cuda = config.optimization.cuda
    assert cuda.graphs and cuda.output_copy_stream
    bounds = [(graph.graph_lower_bound.batch_size or graph.batch_size, graph.batch_size) for graph in cuda.graph_spec]
    assert bounds == [(1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32)]
    pixels = list(config.input[0].dims)
    assert all(list(graph.input["pixels"].dim) == pixels for graph in cuda.graph_spec)
    assert all(list(warmup.inputs["pixels"].dims) == pixels for warmup in config.model_warmup)
    assert not config.dynamic_batching.HasField("default_queue_policy")


def in_bfloat16(artefact, out):
    """A copy of an artefact with an engine whose tensors are all bfloat16."""
    with_engines(artefact, out)
    manifest = Manifest.read(out)
    (signature,) = (one for one in manifest.graphs if one.name == "model")
    specs = [
        tuple(replace(spec, dtype="bfloat16") for spec in specs) for specs in (signature.inputs, signature.outputs)
    ]
    narrow = replace(signature, inputs=specs[0], outputs=specs[1])
    replace(manifest, task="predict", graphs=(narrow,), details={}, example={}).write(out)
    return out


def test_tensors_of_bfloat16_are_bf16_in_tensors_and_warm_ups_of_triton_s_own_backend(digits_artefact, tmp_path):
    write_repository([in_bfloat16(digits_artefact, tmp_path / DIGITS)], tmp_path / "repository")
    config = config_of(tmp_path / "repository", DIGITS)
    assert config.backend == "tensorrt"
    assert {one.data_type for one in (*config.input, *config.output)} == {pb.TYPE_BF16}
    assert {warmup.inputs["pixels"].data_type for warmup in config.model_warmup} == {pb.TYPE_BF16}


def test_a_body_in_python_is_given_no_bfloat16(digits_artefact, tmp_path):
    folder = in_bfloat16(digits_artefact, tmp_path / DIGITS)
    with pytest.raises(ArtefactError, match=r"bfloat16 in \['pixels', 'logits'\]; build its engine"):
        write_repository([folder], tmp_path / "repository", runtime="onnxruntime")
    assert not (tmp_path / "repository").exists()


def test_the_linter_finds_nothing_in_either(repository):
    problems = check_repository(repository)
    assert [(one.subject, one.rule.name, one.finding) for one in problems if one.severity == "error"] == []
    assert [one for one in problems if one.subject.endswith(DIGITS)] == []


def test_a_model_that_updates_a_cache_keeps_its_python_body_with_the_engines_beside_it(repository):
    config = config_of(repository, DATES)
    assert config.backend == "python"
    names = {path.name for path in (repository / DATES / "1").iterdir()}
    assert {"model.py", "engine.json", "encoder.plan", "decoder.plan", "decoder.onnx"} <= names


def test_a_text_encoders_graph_is_triton_s_own_and_its_body_tokenizes_and_asks_it(text_encoder, tmp_path, monkeypatch):
    with_engines(text_encoder, tmp_path / TEXT_ENCODER)
    repository = tmp_path / "repository"
    write_repository([tmp_path / TEXT_ENCODER], repository)
    body, graph = config_of(repository, TEXT_ENCODER), config_of(repository, f"{TEXT_ENCODER}-tokens")
    assert (body.backend, graph.backend) == ("python", "tensorrt")
    assert body.parameters["graph_model"].string_value == f"{TEXT_ENCODER}-tokens"
    assert graph.parameters["task"].string_value == "predict"
    assert [one.name for one in graph.input] == ["token_ids", "mask", "token_types"]
    assert {one.name for one in graph.output} == {"hidden", "pooled"} and len(graph.model_warmup) == 3
    names = {path.name for path in (repository / f"{TEXT_ENCODER}-tokens" / "1").iterdir()}
    assert names == {"manifest.json", "engine.json", "model.plan"}
    assert not list((repository / TEXT_ENCODER).rglob("*.plan"))
    assert [one for one in check_repository(repository) if one.severity == "error"] == []
    monkeypatch.setattr(engine_check, "this_platform", lambda: H100)
    assert [one.name for one in check_engines(repository)] == [TEXT_ENCODER]


def test_a_text_encoder_with_plugins_stays_with_the_runner_that_bounds_its_lengths(text_encoder, tmp_path):
    with_engines(text_encoder, tmp_path / TEXT_ENCODER, plugins={"flash_attention": "ab"})
    write_repository([tmp_path / TEXT_ENCODER], tmp_path / "repository")
    assert [path.name for path in (tmp_path / "repository").iterdir()] == [TEXT_ENCODER]
    assert (tmp_path / "repository" / TEXT_ENCODER / "1/model.plan").is_file()


def test_without_engines_that_model_is_gone_again(text_encoder, tmp_path):
    with_engines(text_encoder, tmp_path / TEXT_ENCODER)
    write_repository([tmp_path / TEXT_ENCODER], tmp_path / "repository")
    write_repository([tmp_path / TEXT_ENCODER], tmp_path / "repository", runtime="onnxruntime")
    assert [path.name for path in (tmp_path / "repository").iterdir()] == [TEXT_ENCODER]
    assert "graph_model" not in config_of(tmp_path / "repository", TEXT_ENCODER).parameters


def test_an_artefact_of_the_name_of_that_model_is_refused_beside_it(text_encoder, digits_artefact, tmp_path):
    shutil.copytree(digits_artefact, tmp_path / "other")
    replace(Manifest.read(digits_artefact), name=f"{TEXT_ENCODER}-tokens").write(tmp_path / "other")
    with pytest.raises(ArtefactError, match="artefacts of different names"):
        write_repository([text_encoder, tmp_path / "other"], tmp_path / "repository")


def test_an_engine_without_weights_is_not_left_to_triton(digits_artefact, tmp_path):
    with_engines(digits_artefact, tmp_path / DIGITS, weights="stripped")
    write_repository([tmp_path / DIGITS], tmp_path / "repository")
    assert config_of(tmp_path / "repository", DIGITS).backend == "python"
    assert (tmp_path / "repository" / DIGITS / "1/model.onnx").is_file()


def test_engines_are_left_out_where_another_runtime_is_asked_for(both, tmp_path):
    write_repository(both, tmp_path / "repository", runtime="onnxruntime")
    assert list((tmp_path / "repository").rglob("*.plan")) == []
    assert check_engines(tmp_path / "repository") == []


def test_a_damaged_engine_is_not_laid_out(both, digits_artefact, tmp_path):
    with_engines(digits_artefact, tmp_path / DIGITS)
    (tmp_path / DIGITS / "model.plan").write_bytes(b"")
    with pytest.raises(ArtefactError, match=r"model.plan with SHA-256"):
        write_repository([tmp_path / DIGITS], tmp_path / "repository")


def test_the_machine_that_built_them_serves_them(repository, monkeypatch):
    monkeypatch.setattr(engine_check, "this_platform", lambda: H100)
    assert {one.name for one in check_engines(repository)} == {DIGITS, DATES}


def test_another_machine_is_refused_before_a_server_starts(repository, monkeypatch):
    monkeypatch.setattr(engine_check, "this_platform", lambda: replace(H100, tensorrt="11.2.0"))
    with pytest.raises(
        MachineError, match=rf"TensorRT 11.4.0.*{DATES}/\w+.plan was built.*TensorRT 11.2.0.*export tensorrt"
    ):
        check_engines(repository)


def test_a_machine_without_a_gpu_is_refused_and_asked_nothing_without_engines(repository, both, tmp_path):
    with pytest.raises(MachineError, match=r"NVIDIA's driver|TensorRT"):
        check_engines(repository)
    assert check_engines(tmp_path) == []
    assert check_engines(repository, ["another"]) == []


def test_what_lies_in_the_repository_is_verified_too(repository, monkeypatch):
    monkeypatch.setattr(engine_check, "this_platform", lambda: H100)
    (repository / DIGITS / "1/model.plan").write_bytes(b"another")
    with pytest.raises(ArtefactError, match=r"digits-vit/1/model.plan"):
        check_engines(repository)
    assert EngineManifest.read(repository / DIGITS / "1").engines[0].graph == "model"
    assert Manifest.read(repository / DIGITS / "1").name == DIGITS


def test_a_damaged_engine_takes_its_own_model_away_and_no_other(repository, monkeypatch, capsys):
    monkeypatch.setattr(engine_check, "this_platform", lambda: H100)
    whole = (repository / DIGITS / "1/engine.json").read_bytes()
    assert find_unfit(repository) == {}
    (repository / DIGITS / "1/engine.json").write_bytes(b'{"format": 1')
    unfit = find_unfit(repository)
    assert unfit.keys() == {DIGITS} and "engine.json" in unfit[DIGITS]
    assert find_models(ServerSettings(repository=repository)) == (DATES,)
    assert f"not served: {DIGITS}: " in capsys.readouterr().err
    (repository / DIGITS / "1/engine.json").write_bytes(whole)
    assert set(find_models(ServerSettings(repository=repository))) == {DATES, DIGITS}, "mended"
    (repository / DIGITS / "1/engine.json").write_bytes(b"")
    (repository / DATES / "1/engine.json").write_bytes(b"")
    with pytest.raises(ArtefactError, match=r"engine\.json"):
        find_unfit(repository)


def test_an_engine_that_no_gpu_holds_is_refused_before_it_is_hashed(repository, monkeypatch):
    monkeypatch.setattr(engine_check, "this_platform", lambda: H100)
    with (repository / DIGITS / "1/model.plan").open("r+b") as plan:
        plan.truncate(8 << 40)
    assert "found 8.8 TB in" in find_unfit(repository)[DIGITS]


@pytest.mark.parametrize(("folder", "policy"), [("docs", ""), ("2", "version_policy { specific { versions: 1 } }")])
def test_an_engine_json_where_triton_does_not_look_says_nothing_of_the_model(repository, monkeypatch, folder, policy):
    monkeypatch.setattr(engine_check, "this_platform", lambda: H100)
    (repository / DIGITS / folder).mkdir()
    (repository / DIGITS / folder / "engine.json").write_text('{"not": "ours"}')
    with (repository / DIGITS / "config.pbtxt").open("a") as config:
        config.write(policy)
    assert find_unfit(repository) == {}


def test_a_machine_without_a_gpu_serves_the_models_without_engines(repository, digits_artefact):
    write_repository([digits_artefact], repository, runtime="onnxruntime")
    unfit = find_unfit(repository)
    assert unfit.keys() == {DATES} and "NVIDIA" in unfit[DATES]
