"""A configuration of a larger model than its weights is refused before anything is built."""

import json
import struct
import time

import pytest
from torch import nn

from attendant.errors import ArtefactError, ConfigError
from models.checkpoints import fitting
from models.checkpoints.file_names import CONFIG_NAME, WEIGHTS_NAME
from models.checkpoints.fitting import require_fitting
from models.checkpoints.store import load_checkpoint
from tests.models.checkpoints.folders import TINY, rewrite_config, tiny_checkpoint, written_folder

AT_ONCE_S = 20.0
"""Of the processor's time. Without the count, the smallest of these would take hours, or all memory."""


def sizes_in(value, *place):
    """The places of the numbers in a configuration; a list's only as a whole."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from sizes_in(part, *place, key)
    elif type(value) is int and value > 0:
        yield place


def replace_at(value, place, new):
    key, *rest = place
    return value | {key: replace_at(value[key], rest, new) if rest else new}


@pytest.mark.planted
@pytest.mark.parametrize("preset", TINY)
def test_no_number_of_a_configuration_is_believed_before_it_is_compared_with_the_file(preset, tmp_path):
    folder = written_folder(tmp_path / "checkpoint", preset)
    config = json.loads((folder / CONFIG_NAME).read_text())["config"]
    places = list(sizes_in(config))
    assert len(places) >= 3
    for place in places:
        for size in (10**9, 10**30):
            rewrite_config(folder, config=replace_at(config, place, size))
            began = time.process_time()
            with pytest.raises((ConfigError, ArtefactError)):
                load_checkpoint(folder)
            assert time.process_time() - began < AT_ONCE_S, place


@pytest.mark.parametrize(("preset", "name"), [("llama-tiny", "layers"), ("bert-tiny", "layers"), ("vit-tiny", "width")])
def test_ten_million_layers_or_columns_are_refused_at_once(preset, name, tmp_path):
    folder = written_folder(tmp_path / "checkpoint", preset)
    config = json.loads((folder / CONFIG_NAME).read_text())["config"]
    assert name in config
    rewrite_config(folder, config=config | {name: 10**7})
    began = time.process_time()
    with pytest.raises((ConfigError, ArtefactError)):
        load_checkpoint(folder)
    assert time.process_time() - began < AT_ONCE_S


@pytest.mark.parametrize("preset", TINY)
def test_every_model_fits_its_own_weights(preset):
    saved = tiny_checkpoint(preset)
    shapes = {name: tuple(tensor.shape) for name, tensor in saved.model.state_dict().items()}
    require_fitting(lambda: saved.family.build(saved.config), saved.config, shapes)


def test_a_module_is_not_built_further_than_its_file_reaches(monkeypatch):
    monkeypatch.setattr(fitting, "_CALLS", 1000)
    built = []

    def build():
        for _ in range(10**6):
            built.append(nn.Linear(2, 2))
        return nn.Sequential(*built)

    with pytest.raises(ConfigError, match="a configuration of the model that the weights are of; found more layers"):
        require_fitting(build, None, {"weight": (2, 2)})
    assert 0 < len(built) < 2000


def test_a_header_of_gigabytes_is_refused_unread(tmp_path):
    folder = written_folder(tmp_path / "checkpoint")
    (folder / WEIGHTS_NAME).write_bytes(struct.pack("<Q", 90_000_000) + b"{")
    with pytest.raises(ArtefactError, match="a header of 90000000 bytes"):
        load_checkpoint(folder)


@pytest.mark.parametrize("name", ["../victim", "/etc/x", ".", "", "a\nb", "a/b"])
def test_a_checkpoint_is_not_called_by_a_path(name, tmp_path):
    folder = written_folder(tmp_path / "checkpoint")
    rewrite_config(folder, name=name)
    with pytest.raises(ArtefactError, match="a name of at most 200 letters"):
        load_checkpoint(folder)
