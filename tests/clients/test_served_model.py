import pytest
from tritonclient.grpc import model_config_pb2 as pb

from attendant.errors import UnknownNameError
from attendant.manifest import Manifest
from clients.served_model import ServedModel
from serving.triton.repository.model_config import model_config_from_manifest


@pytest.fixture
def encoder(text_encoder):
    return ServedModel.from_config("mine", model_config_from_manifest(Manifest.read(text_encoder)))


def test_tensors_and_batch_are_read_from_the_configuration(encoder):
    assert (encoder.name, encoder.task, encoder.decoupled, encoder.max_batch) == ("mine", "embed", False, 32)
    assert encoder.inputs == {"text_input": (1,)}
    assert encoder.outputs == {"pooled": (16,), "hidden": (-1, 16), "token_mask": (-1,)}


def test_parameters_are_values_again(encoder):
    assert encoder.parameters["max_length"] == 24
    assert len(encoder.parameters["example"]["answer"]) == 8


def test_a_model_of_another_task_is_refused_by_name_and_its_own_is_not(encoder):
    assert encoder.require_task("embed") is encoder
    with pytest.raises(UnknownNameError, match="model 'mine' can embed; it cannot translate"):
        encoder.require_task("translate")


def test_a_model_of_another_project_is_let_through():
    foreign = ServedModel.from_config("foreign", pb.ModelConfig())
    assert foreign.task == ""
    assert foreign.require_task("generate") is foreign
