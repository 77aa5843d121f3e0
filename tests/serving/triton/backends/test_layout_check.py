"""A model that was exchanged between its configuration and its files is not served as a mixture of both."""

from dataclasses import replace
from shutil import copytree

import pytest

from attendant.errors import ArtefactError
from attendant.manifest import MANIFEST_NAME, Manifest
from attendant.records import read_json
from serving.engine.engine_process import load_verified
from serving.triton.backends.layout_check import require_one_layout
from serving.triton.repository.layout import write_repository


def test_a_configuration_of_before_is_refused_and_one_of_another_writer_is_not(language_model, tmp_path):
    write_repository([language_model], tmp_path)
    (model,) = tmp_path.iterdir()
    manifest = Manifest.read(model / "1")
    for configured in ("", manifest.sha256):
        require_one_layout(model, manifest, configured)
    former = replace(manifest, files=manifest.files | {"labels.json": 64 * "0"})
    with pytest.raises(ArtefactError, match="another since its configuration was read"):
        require_one_layout(model, manifest, former.sha256)
    config = model / "config.pbtxt"
    config.write_text(config.read_text().replace(manifest.sha256, former.sha256))
    require_one_layout(model, manifest, former.sha256)


def test_what_is_exchanged_while_it_is_loaded_is_not_taken_for_what_was_verified(language_model, tmp_path):
    folder = copytree(language_model, tmp_path / "artefact")
    manifest = Manifest.read(folder)

    def load(folder, manifest):
        text = (folder / MANIFEST_NAME).read_text().replace(f'"source": "{manifest.source}"', '"source": "another"')
        (folder / MANIFEST_NAME).write_text(text)
        return "loaded"

    assert load_verified(lambda *given: "loaded", folder, manifest) == "loaded"
    assert read_json(folder / MANIFEST_NAME)["source"] != "another"
    with pytest.raises(ArtefactError, match=r"one artefact in .* while it is loaded; found another meanwhile"):
        load_verified(load, folder, manifest)
