import pytest
from tritonclient.grpc import model_config_pb2 as pb

from attendant.errors import ServerError, UnknownNameError
from attendant.manifest import Manifest
from clients.served_model import ServedModel
from clients.statuses import reading
from serving.triton.repository.model_config import model_config_from_manifest


@pytest.fixture
def encoder(text_encoder):
    return ServedModel.from_config("mine", model_config_from_manifest(Manifest.read(text_encoder)))


def test_tensors_and_batch_are_read_from_the_configuration(encoder):
    assert (encoder.name, encoder.task, encoder.decoupled, encoder.max_batch) == ("mine", "embed", False, 32)
    assert encoder.inputs == {"text_input": (1,)}
    assert encoder.outputs == {"pooled": (16,), "hidden": (-1, 16), "token_mask": (-1,), "token_ids": (-1,)}


def test_parameters_are_values_again(encoder):
    assert encoder.parameters["max_length"] == 24
    assert len(encoder.parameters["example"]["answer"]) == 8


def test_a_model_of_another_task_is_refused_by_name_and_its_own_is_not(encoder):
    assert encoder.require_task("embed") is encoder
    with pytest.raises(UnknownNameError, match="model 'mine' can embed; it cannot translate"):
        encoder.require_task("translate")


LARGE = {
    "fixed": ([3, 8000, 8000], ""),
    "varying": ([3, -1, -1], "8000"),
    "several": ([1 << 24], ""),
}


@pytest.mark.parametrize(("dims", "image_size"), LARGE.values(), ids=LARGE)
def test_a_model_whose_inputs_would_take_gigabytes_is_refused(dims, image_size):
    config = pb.ModelConfig()
    for name in ("pixels", "others", "more"):
        config.input.add(name=name, data_type=pb.TYPE_UINT8).dims.extend(dims)
    config.parameters["image_size"].string_value = image_size
    with pytest.raises(ServerError, match="inputs of at most 33554432 values a row; found"), reading("large"):
        ServedModel.from_config("large", config)
    del config.input[1:]
    config.input[0].dims[:] = [3, 1024, 1024]
    assert ServedModel.from_config("large", config).inputs == {"pixels": (3, 1024, 1024)}


def test_a_model_of_another_project_is_let_through():
    foreign = ServedModel.from_config("foreign", pb.ModelConfig())
    assert foreign.task == ""
    assert foreign.require_task("generate") is foreign
