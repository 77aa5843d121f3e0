from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from attendant.errors import ArtefactError
from serving.triton.server.model_folders import find_models
from serving.triton.server.settings import ServerSettings


def test_a_model_that_the_repository_lacks_is_named_beside_those_it_has(settings: ServerSettings):
    with pytest.raises(ArtefactError, match=r"\['absent'\].*\['double', 'tokens'\]"):
        find_models(replace(settings, models=("double", "absent")))


def test_an_empty_repository_is_refused(tmp_path: Path):
    with pytest.raises(ArtefactError, match="one model at least"):
        find_models(ServerSettings(repository=tmp_path))


def test_models_that_are_there_are_accepted(settings: ServerSettings):
    assert find_models(replace(settings, models=("tokens",))) == ("tokens",)
    assert find_models(settings) == ("double", "tokens")
