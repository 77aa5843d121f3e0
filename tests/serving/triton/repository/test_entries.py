"""Which folders of a model Triton takes for versions."""

import os

import pytest
from tritonclient.grpc import model_config_pb2 as pb

from serving.triton.repository.entries import CONFIG, number_of, read_config, served_versions

LATEST, TWO = pb.ModelVersionPolicy(), pb.ModelVersionPolicy(latest={"num_versions": 2})
ALL, SPECIFIC = pb.ModelVersionPolicy(all={}), pb.ModelVersionPolicy(specific={"versions": [7, 2]})
TWICE = pb.ModelVersionPolicy(specific={"versions": [7, 2, 7, 5]})


@pytest.mark.parametrize(
    ("name", "number"),
    [("2", 2), ("2x", 2), ("+2", 2), (" 2", 2), ("-1", -1), ("0", 0), ("01", None), ("v1", None), ("٣", None)],
)
def test_a_version_is_the_number_that_a_name_begins_with(name, number):
    assert number_of(name) == number


@pytest.mark.parametrize(
    ("policy", "served"), [(LATEST, [10]), (TWO, [2, 10]), (ALL, [1, 2, 10]), (SPECIFIC, [2]), (TWICE, [2, 7])]
)
def test_a_policy_chooses_among_the_folders(policy, served, tmp_path):
    for name in ("1", "2x", "10", "warmup"):
        (tmp_path / name).mkdir()
    (tmp_path / "11").touch()
    assert served_versions(tmp_path, policy) == served


def test_a_configuration_that_got_the_place_the_size_and_the_time_of_the_former_is_read(tmp_path):
    config = tmp_path / CONFIG
    for name in ("one", "two"):
        config.write_text(f'name: "{name}"\n')
        os.utime(config, ns=(1, 1))
        assert read_config(tmp_path).name == name
