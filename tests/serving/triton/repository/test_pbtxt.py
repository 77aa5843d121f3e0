import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2 as pb

from attendant.errors import ArtefactError
from attendant.manifest import Manifest
from serving.triton.repository.model_config import model_config_from_manifest
from serving.triton.repository.pbtxt import config_from_pbtxt, pbtxt_from_config

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@st.composite
def configs(draw):
    config = pb.ModelConfig(name=draw(TEXTS), backend="python", max_batch_size=draw(st.integers(0, 64)))
    for name in draw(st.lists(TEXTS, max_size=3)):
        dims = draw(st.lists(st.integers(-1, 512), min_size=1, max_size=4))
        config.input.add(name=name, data_type=pb.TYPE_FP32, dims=dims, optional=draw(st.booleans()))
    for key, value in draw(st.dictionaries(TEXTS, TEXTS, max_size=4)).items():
        config.parameters[key].string_value = value
    config.model_transaction_policy.decoupled = draw(st.booleans())
    return config


@given(configs())
def test_any_configuration_survives_the_round_trip(config):
    assert config_from_pbtxt(pbtxt_from_config(config)) == config


@given(st.integers(0, 64))
def test_max_batch_size_is_written_exactly_once_even_when_it_is_0(size):
    assert pbtxt_from_config(pb.ModelConfig(max_batch_size=size)).count(f"max_batch_size: {size}\n") == 1


@pytest.mark.parametrize("artefact", ["digits_artefact", "dates_artefact", "language_model", "text_encoder"])
def test_a_models_configuration_survives_the_round_trip(artefact, request):
    config = model_config_from_manifest(Manifest.read(request.getfixturevalue(artefact)))
    assert config_from_pbtxt(pbtxt_from_config(config)) == config


def test_so_is_a_number_that_its_type_does_not_hold():
    with pytest.raises(ArtefactError, match=r"a config\.pbtxt"):
        config_from_pbtxt("input { data_type: 2147483648 }")


def test_a_text_that_is_no_configuration_is_refused():
    with pytest.raises(ArtefactError, match="max_batch"):
        config_from_pbtxt("max_batch: 8")
