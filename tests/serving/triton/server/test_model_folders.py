from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from attendant.errors import ArtefactError
from serving.triton.server.model_folders import check_models_exist
from serving.triton.server.settings import ServerSettings


def test_a_model_that_the_repository_lacks_is_named_beside_those_it_has(settings: ServerSettings):
    with pytest.raises(ArtefactError, match=r"\['absent'\].*\['double', 'tokens'\]"):
        check_models_exist(replace(settings, models=("double", "absent")))


def test_an_empty_repository_is_refused(tmp_path: Path):
    with pytest.raises(ArtefactError, match="one model at least"):
        check_models_exist(ServerSettings(repository=tmp_path))


def test_models_that_are_there_are_accepted(settings: ServerSettings):
    check_models_exist(replace(settings, models=("tokens",)))
