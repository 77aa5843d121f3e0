import json

import pytest

from attendant.errors import ArtefactError, ConfigError, OutputError
from models.checkpoints.importers.folder import generation_values, read_config, refuse_place
from tests.models.checkpoints.folders import written_folder


def folder(path, **values):
    path.mkdir()
    (path / "config.json").write_text(json.dumps(values))
    return path


def test_the_fields_of_a_configuration_are_read(tmp_path):
    assert read_config(folder(tmp_path / "theirs", model_type="gpt2")) == {"model_type": "gpt2"}


def test_a_model_that_is_code_in_its_folder_is_refused(tmp_path):
    theirs = folder(tmp_path / "theirs", model_type="llama", auto_map={"AutoModel": "modeling_mine.Model"})
    with pytest.raises(ConfigError, match=r"auto_map.*modeling_mine"):
        read_config(theirs)


def test_a_checkpoint_of_ours_needs_no_import(tmp_path):
    with pytest.raises(ArtefactError, match="it needs no import"):
        read_config(written_folder(tmp_path / "ours"))


@pytest.mark.parametrize("content", [None, "", "[]", "{", "\udce9", '{"a":' * 10_000], ids=lambda text: repr(text)[:12])
def test_a_folder_without_a_readable_configuration_is_refused_with_its_path(content, tmp_path):
    if content is not None:
        (tmp_path / "config.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(ArtefactError) as caught:
        read_config(tmp_path)
    assert str(tmp_path / "config.json") in caught.value.expected


def test_a_generation_configuration_replaces_the_fields_of_the_models(tmp_path):
    config = {"num_beams": 4, "eos_token_id": 2}
    assert generation_values(tmp_path, config) == config
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 3], "temperature": 0.5}))
    assert generation_values(tmp_path, config) == {"eos_token_id": [2, 3], "temperature": 0.5}


def test_what_the_models_fields_leave_open_its_decoders_say(tmp_path):
    decoder = {"num_beams": 4, "eos_token_id": 3, "forced_bos_token_id": 5}
    found = generation_values(tmp_path, {"decoder": decoder, "num_beams": 2, "eos_token_id": None})
    assert {name: found[name] for name in decoder} == {"num_beams": 2, "eos_token_id": 3, "forced_bos_token_id": 5}


@pytest.mark.parametrize("values", [{}, {"eos_token_id": None}], ids=str)
def test_a_generation_configuration_without_an_end_has_the_models(values, tmp_path):
    (tmp_path / "generation_config.json").write_text(json.dumps(values))
    assert generation_values(tmp_path, {"eos_token_id": 2}) == {"eos_token_id": 2}


def test_the_folder_that_is_read_is_never_written(tmp_path):
    theirs = folder(tmp_path / "theirs", model_type="gpt2")
    with pytest.raises(OutputError, match="a folder beside the one that is read"):
        refuse_place(theirs, tmp_path / "x" / ".." / "theirs")


def test_another_folder_of_the_library_is_never_written(tmp_path):
    theirs, other = (folder(tmp_path / name, model_type="gpt2") for name in ("theirs", "other"))
    with pytest.raises(OutputError, match="another library's"):
        refuse_place(theirs, other)


def test_a_new_folder_and_a_checkpoint_of_ours_may_be_written(tmp_path):
    theirs = folder(tmp_path / "theirs", model_type="gpt2")
    refuse_place(theirs, tmp_path / "new")
    refuse_place(theirs, written_folder(tmp_path / "ours"))
