import json
from dataclasses import replace

import pytest

from attendant.engine_manifest import ENGINE_MANIFEST_NAME, EngineManifest
from attendant.errors import ArtefactError
from attendant.manifest import Manifest
from tests.nvidia.engines import with_engines


def test_what_was_written_is_read_again(dates_artefact, tmp_path):
    written = with_engines(dates_artefact, tmp_path / "a", plugins={"flash": "ab"}, weights="refittable")
    assert EngineManifest.read(tmp_path / "a") == written
    assert written.engine("decoder").file == "decoder.plan"
    assert written.engine("nothing") is None


def test_phases_of_a_graph_have_engines_of_their_own(dates_artefact, tmp_path):
    written = with_engines(dates_artefact, tmp_path / "a", apart=True)
    assert EngineManifest.read(tmp_path / "a") == written
    assert [one.file for one in written.of("decoder")] == ["decoder.decode.plan", "decoder.prefill.plan"]
    assert written.engine("decoder") is None and written.engine("decoder", "decode") == written.of("decoder")[0]
    written.verify(tmp_path / "a", Manifest.read(tmp_path / "a"))


def test_an_artefact_without_engines_has_none(dates_artefact):
    assert EngineManifest.read(dates_artefact) is None


@pytest.mark.parametrize("broken", ["{", "[]", '{"format": 99}', '{"format": 1, "name": "x"}', " " * (1 << 22) + "{}"])
def test_a_manifest_that_is_not_whole_is_refused_with_what_to_do(tmp_path, broken):
    (tmp_path / ENGINE_MANIFEST_NAME).write_text(broken)
    with pytest.raises(ArtefactError, match=r"engine.json.*attendant export tensorrt"):
        EngineManifest.read(tmp_path)


@pytest.mark.parametrize("field", ["tensorrt", "cuda", "capability"])
@pytest.mark.parametrize("version", ["", "🙂", "13.x", "1" * 5000, "१.२"])
def test_versions_that_are_no_numbers_are_refused(dates_artefact, tmp_path, field, version):
    with_engines(dates_artefact, tmp_path / "a")
    path = tmp_path / "a" / ENGINE_MANIFEST_NAME
    value = json.loads(path.read_text())
    value["platform"][field] = version
    path.write_text(json.dumps(value))
    with pytest.raises(ArtefactError, match=r"versions of numbers"):
        EngineManifest.read(tmp_path / "a")


def test_a_damaged_engine_is_refused_by_name_and_with_the_command(dates_artefact, tmp_path):
    engines = with_engines(dates_artefact, tmp_path / "a")
    engines.verify(tmp_path / "a", Manifest.read(tmp_path / "a"))
    (tmp_path / "a/decoder.plan").write_bytes(b"something else")
    with pytest.raises(ArtefactError, match=rf"decoder.plan with SHA-256.*attendant export tensorrt {tmp_path}"):
        engines.verify(tmp_path / "a", Manifest.read(tmp_path / "a"))


@pytest.mark.parametrize("file", ["decoder.tensorrt.onnx", "encoder.tensorrt.onnx"])
def test_an_engine_of_another_export_is_refused(dates_artefact, tmp_path, file):
    engines = with_engines(dates_artefact, tmp_path / "a")
    manifest = Manifest.read(tmp_path / "a")
    manifest.files[file] = "0" * 64
    with pytest.raises(ArtefactError, match=rf"which was built from {file}"):
        engines.verify(tmp_path / "a", manifest)


def test_an_engine_of_a_file_that_no_hash_holds_is_refused(dates_artefact, tmp_path):
    engines = with_engines(dates_artefact, tmp_path / "a")
    other = replace(engines, engines=tuple(replace(one, source="decoder.onnx") for one in engines.engines))
    with pytest.raises(ArtefactError, match=r"a hash of decoder\.onnx, which .*encoder\.plan was built from"):
        other.verify(tmp_path / "a", Manifest.read(tmp_path / "a"))


def test_it_is_plain_json(dates_artefact, tmp_path):
    with_engines(dates_artefact, tmp_path / "a")
    value = json.loads((tmp_path / "a" / ENGINE_MANIFEST_NAME).read_text())
    assert value["platform"]["capability"] == "9.0"
    decoder = next(engine for engine in value["engines"] if engine["graph"] == "decoder")
    assert [profile["name"] for profile in decoder["profiles"]] == ["decode", "prefill"]
    assert decoder["built_from"].keys() == {decoder["source"]} == {"decoder.tensorrt.onnx"}
