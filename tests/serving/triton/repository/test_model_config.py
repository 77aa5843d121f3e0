import dataclasses
import json

import pytest
from tritonclient.grpc import model_config_pb2 as pb

from attendant.errors import ArtefactError, ConfigError
from attendant.manifest import Manifest
from attendant.sampling_tensors import SPECS
from attendant.signature import Axis
from attendant.tensor_names import TEXT_RESPONSE
from serving.engine.settings import EngineSettings
from serving.triton.repository.model_config import model_config_from_manifest


@pytest.fixture
def digits(digits_artefact):
    return model_config_from_manifest(Manifest.read(digits_artefact))


@pytest.fixture
def dates(dates_artefact):
    return model_config_from_manifest(Manifest.read(dates_artefact))


@pytest.fixture
def encoder(text_encoder):
    return model_config_from_manifest(Manifest.read(text_encoder))


def test_artefacts_of_other_files_are_told_apart_by_their_configurations(digits_artefact, digits):
    manifest = Manifest.read(digits_artefact)
    other = dataclasses.replace(manifest, files=dict.fromkeys(manifest.files, "0" * 64))
    assert model_config_from_manifest(manifest) == digits != model_config_from_manifest(other)


def outputs(config):
    return {tensor.name: (tensor.data_type, list(tensor.dims)) for tensor in config.output}


def test_tensors_are_the_signatures_without_the_batch(digits):
    assert [(tensor.name, tensor.data_type, list(tensor.dims)) for tensor in digits.input] == [
        ("pixels", pb.TYPE_FP32, [1, 8, 8])
    ]
    assert [(tensor.name, tensor.data_type, list(tensor.dims)) for tensor in digits.output] == [
        ("logits", pb.TYPE_FP32, [10])
    ]


def test_a_classifier_batches_dynamically_without_a_queue_policy(digits):
    assert digits.max_batch_size == 32
    assert digits.HasField("dynamic_batching")
    assert not digits.dynamic_batching.HasField("default_queue_policy"), "it stalls the batcher for 500 ms"


def test_a_classifier_is_warmed_up_at_its_smallest_and_largest_batch(digits):
    assert {warmup.batch_size for warmup in digits.model_warmup} == {1, 32}


def test_images_that_are_huge_are_not_held_to_warm_a_classifier_up(digits_artefact):
    manifest = Manifest.read(digits_artefact)
    (pixels,) = manifest.graph("model").inputs
    for side, batches in ((512, {1}), (5000, set())):
        wide = dataclasses.replace(pixels, axes=("batch", 3, side, side))
        graph = dataclasses.replace(manifest.graph("model"), inputs=(wide,))
        details = {**manifest.details, "preprocessing": {**manifest.details["preprocessing"], "size": [side, side]}}
        config = model_config_from_manifest(dataclasses.replace(manifest, graphs=(graph,), details=details))
        assert {warmup.batch_size for warmup in config.model_warmup} == batches


ODD_AXES = {"none": {}, "large": {"batch": Axis(opt=2, max=2**31)}}


@pytest.mark.parametrize("axes", ODD_AXES.values(), ids=ODD_AXES)
def test_a_graph_without_a_batch_that_triton_can_count_is_refused(digits_artefact, axes):
    manifest = Manifest.read(digits_artefact)
    graph = dataclasses.replace(manifest.graph("model"), axes=axes)
    with pytest.raises(ArtefactError, match="an axis 'batch' of at most 2147483647 rows"):
        model_config_from_manifest(dataclasses.replace(manifest, graphs=(graph,)))


@pytest.mark.parametrize("size", [2**63, -5])
def test_a_size_that_no_axis_has_is_refused(digits_artefact, size):
    manifest = Manifest.read(digits_artefact)
    graph = manifest.graph("model")
    pixels = dataclasses.replace(graph.inputs[0], axes=("batch", size, 8, 8))
    with pytest.raises(ArtefactError, match="sizes of axes from 0 to 2147483647"):
        model_config_from_manifest(
            dataclasses.replace(manifest, graphs=(dataclasses.replace(graph, inputs=(pixels,)),))
        )


@pytest.mark.parametrize("labels", [["zero\nnull", "one"], ["a\r"], ["a", None], True, "ab"], ids=repr)
def test_labels_that_are_no_lines_of_triton_s_file_are_refused(digits_artefact, labels):
    manifest = Manifest.read(digits_artefact)
    details = {**manifest.details, "labels": labels}
    with pytest.raises(ArtefactError, match="labels of one line each in the manifest of 'digits-vit'"):
        model_config_from_manifest(dataclasses.replace(manifest, details=details))


def test_the_batcher_gathers_what_the_graph_was_made_for(digits_artefact):
    manifest = Manifest.read(digits_artefact)
    graph = dataclasses.replace(manifest.graph("model"), axes={"batch": Axis(opt=2, max=5)})
    config = model_config_from_manifest(dataclasses.replace(manifest, graphs=(graph,)))
    assert config.max_batch_size == 5
    assert {warmup.batch_size for warmup in config.model_warmup} == {1, 5}


@pytest.mark.parametrize("artefact", ["dates_artefact", "language_model"])
def test_a_model_that_answers_texts_with_texts_streams_under_the_names_of_tensorrt_llm(artefact, request):
    config = model_config_from_manifest(Manifest.read(request.getfixturevalue(artefact)))
    assert config.max_batch_size == 1, "TensorRT-LLM's tensors have a batch of one in front"
    assert config.model_transaction_policy.decoupled
    assert [tensor.name for tensor in config.input] == [
        *SPECS,
        "text_input",
        "input_ids",
    ]
    assert all(tensor.optional for tensor in config.input)
    assert not config.HasField("dynamic_batching"), "the engine batches"
    assert config.parameters["max_num_seqs"].string_value == "16"
    assert outputs(config)["text_output"] == (pb.TYPE_STRING, [1])
    assert outputs(config)["output_ids"] == (pb.TYPE_INT32, [-1])
    assert list(outputs(config)) == [spec.name for spec in TEXT_RESPONSE]


def test_what_an_artefact_can_show_is_listed_behind_what_it_answers(explained_digits, explained_dates):
    digits, dates = (model_config_from_manifest(Manifest.read(one)) for one in (explained_digits, explained_dates))
    assert list(outputs(digits)) == ["logits", "attention", "rollout"]
    assert outputs(digits)["rollout"] == (pb.TYPE_FP32, [4, 4])
    assert list(outputs(dates)) == [*(spec.name for spec in TEXT_RESPONSE), "alignment", "token_texts", "source_texts"]
    assert outputs(dates)["alignment"] == (pb.TYPE_FP32, [-1, -1])
    assert digits.output[0].label_filename == "labels.txt"


def test_a_text_encoder_takes_texts_in_batches_without_a_queue_policy(encoder):
    assert [(tensor.name, tensor.data_type, list(tensor.dims), tensor.optional) for tensor in encoder.input] == [
        ("text_input", pb.TYPE_STRING, [1], False)
    ]
    assert encoder.max_batch_size == 32
    assert encoder.HasField("dynamic_batching")
    assert encoder.dynamic_batching.max_queue_delay_microseconds == 0
    assert not encoder.dynamic_batching.HasField("default_queue_policy"), "it stalls the batcher for 500 ms"


def test_a_text_encoder_answers_with_vectors_of_its_width_and_a_mask(encoder):
    assert outputs(encoder) == {
        "pooled": (pb.TYPE_FP32, [16]),
        "hidden": (pb.TYPE_FP32, [-1, 16]),
        "token_mask": (pb.TYPE_BOOL, [-1]),
        "token_ids": (pb.TYPE_INT32, [-1]),
    }


def test_what_a_client_needs_travels_in_the_parameters(digits, dates):
    assert json.loads(digits.parameters["labels"].string_value) == list("0123456789")
    assert json.loads(digits.parameters["preprocessing"].string_value)["size"] == [8, 8]
    assert json.loads(dates.parameters["example"].string_value)["answer"] == "1997-03-03"
    assert json.loads(dates.parameters["max_target_length"].string_value) == 16


@pytest.mark.parametrize(("runtime", "within"), [("openvino", None), ("openvino-bf16", 0.5)])
def test_values_may_be_off_where_a_runtime_rounds(text_encoder, dates_artefact, runtime, within):
    def example(folder):
        config = model_config_from_manifest(Manifest.read(folder), runtime=runtime)
        return json.loads(config.parameters["example"].string_value)

    assert "answer" in example(text_encoder) and example(text_encoder).get("within") == within
    assert "within" not in example(dates_artefact), "a text is right or wrong"


def test_the_number_of_threads_travels_to_the_backend(digits_artefact):
    config = model_config_from_manifest(Manifest.read(digits_artefact), threads=4)
    assert config.parameters["threads"].string_value == "4"
    with pytest.raises(ConfigError, match="from 1 to 1024 threads"):
        model_config_from_manifest(Manifest.read(digits_artefact), threads=0)


def test_a_task_that_nothing_serves_is_refused(digits_artefact):
    manifest = dataclasses.replace(Manifest.read(digits_artefact), task="compose")
    with pytest.raises(ArtefactError, match="'compose'"):
        model_config_from_manifest(manifest)


def test_the_runtime_travels_to_the_backend_where_one_was_named(digits_artefact):
    manifest = Manifest.read(digits_artefact)
    assert "runtime" not in model_config_from_manifest(manifest).parameters
    assert model_config_from_manifest(manifest, runtime="openvino").parameters["runtime"].string_value == "openvino"


def test_more_slots_than_the_decoder_takes_rows_are_refused(dates_artefact):
    with pytest.raises(
        ConfigError, match="max_num_seqs of at most 32, the rows that 'dates-transformer' takes; found 33"
    ):
        model_config_from_manifest(Manifest.read(dates_artefact), engine=EngineSettings(max_num_seqs=33))


@pytest.mark.parametrize("preprocessing", [{"size": [9000, 9000]}, {"size": 9000, "crop": [8, 8]}, {}, 5])
def test_preprocessing_to_more_than_a_graph_takes_is_refused(digits_artefact, preprocessing):
    manifest = Manifest.read(digits_artefact)
    details = {**manifest.details, "preprocessing": preprocessing}
    with pytest.raises(ArtefactError, match="preprocessing"):
        model_config_from_manifest(dataclasses.replace(manifest, details=details))
