"""Configurations of decoders whose states Triton keeps, decoded by what Triton would do with them."""

import dataclasses

import numpy as np
import pytest
from tokenizers import Tokenizer

from models.errors import ArtefactError
from models.manifest import Manifest
from models.signature import TensorSpec
from serving.lint.check import problems_of_repository
from serving.repository.implicit_state import implicit_state_configs, state_bytes
from serving.repository.implicit_state_layout import write_implicit_states
from serving.repository.layout import write_repository
from serving.repository.pbtxt import config_from_pbtxt, pbtxt_from_config
from tests.serving.repository.sequence_batcher import SequenceBatcher
from tests.text_checkpoints import CAPACITY, OTHER_PROMPT, PROMPT, STOPS_AFTER


def with_decoder(manifest, **changes):
    decoder = dataclasses.replace(manifest.graph("decoder"), **changes)
    others = [graph for graph in manifest.graphs if graph.name != "decoder"]
    return dataclasses.replace(manifest, graphs=(*others, decoder))


def request(new, position, capacity=CAPACITY):
    """What a client of a language model sends with its new tokens."""
    seen = np.arange(capacity)[None] <= position + np.arange(len(new))[:, None]
    return {
        "token_ids": np.array([new], np.int64),
        "start": np.array([[position]], np.int64),
        "self_mask": seen[None, None],
        "scored": np.array([[len(new) - 1]], np.int64),
    }


@pytest.fixture(scope="module")
def batcher(language_model):
    config = implicit_state_configs(Manifest.read(language_model), "onnxruntime")["decoder"]
    return SequenceBatcher(config, language_model / "decoder.onnx")


@pytest.fixture(scope="module")
def tokenizer(language_model):
    return Tokenizer.from_file(str(language_model / "tokenizer.json"))


def greedy(batcher, prompt, count):
    batcher.start("alone")
    tokens, new, position = [], prompt, 0
    for _ in range(count):
        logits = batcher.step({"alone": request(new, position)})["alone"]["logits"]
        position += len(new)
        new = [int(logits[0].argmax())]
        tokens += new
    return tokens


def test_a_client_that_sends_a_token_a_step_decodes_the_right_answer(batcher, tokenizer, language_model):
    tokens = greedy(batcher, tokenizer.encode(PROMPT).ids, STOPS_AFTER)
    assert tokenizer.decode(tokens) == Manifest.read(language_model).example["answer"]


def test_sequences_at_different_positions_share_a_step_and_answer_as_alone(batcher, tokenizer):
    prompts = {name: tokenizer.encode(text).ids for name, text in (("a", PROMPT), ("b", OTHER_PROMPT))}
    assert len(prompts["a"]) != len(prompts["b"])
    alone = {name: greedy(batcher, prompt, 4) for name, prompt in prompts.items()}
    batcher.start(*prompts)
    for name, prompt in prompts.items():  # prompts of different lengths are steps of their own
        batcher.step({name: request(prompt[:-1], 0)})
    new = {name: prompt[-1] for name, prompt in prompts.items()}
    together = {name: [] for name in prompts}
    for step in range(4):
        answers = batcher.step({name: request([new[name]], len(prompt) - 1 + step) for name, prompt in prompts.items()})
        new = {name: int(answer["logits"][0].argmax()) for name, answer in answers.items()}
        together = {name: [*tokens, new[name]] for name, tokens in together.items()}
    assert together == alone


def test_states_are_the_caches_in_full_and_begin_with_zeros(language_model):
    manifest = Manifest.read(language_model)
    config = implicit_state_configs(manifest, "onnxruntime")["decoder"]
    decoder, batcher = manifest.graph("decoder"), config.sequence_batching
    assert {state.output_name: state.input_name for state in batcher.state} == decoder.aliases
    for state in batcher.state:
        assert tuple(state.dims) == decoder.input(state.input_name).axes[1:]
        assert state.initial_state[0].zero_data
        assert state.use_same_buffer_for_input_output
        assert not state.use_growable_memory
    assert batcher.max_sequence_idle_microseconds >= 60_000_000
    assert batcher.oldest.max_candidate_sequences == config.max_batch_size == 32
    sizes = [np.prod(state.dims) * 4 for state in batcher.state]
    assert state_bytes(config) == 32 * sum(sizes)


def test_an_encoder_decoder_is_sent_its_memories_at_every_step(dates_artefact):
    manifest = Manifest.read(dates_artefact)
    configs = implicit_state_configs(manifest, "onnxruntime")
    encoder = SequenceBatcher(configs["encoder"], dates_artefact / "encoder.onnx")
    decoder = SequenceBatcher(configs["decoder"], dates_artefact / "decoder.onnx")
    tokenizer, details = Tokenizer.from_file(str(dates_artefact / "tokenizer.json")), manifest.details
    source = np.array([tokenizer.encode(manifest.example["inputs"]["text"]).ids], np.int64)
    asked = {"source_ids": source, "source_mask": np.ones_like(source, bool)}
    encoder.start("s")
    memories = {name: memory[None] for name, memory in encoder.step({"s": asked})["s"].items()}
    memories["source_mask"] = asked["source_mask"]
    decoder.start("s")
    tokens = [details["start_token"]]
    while tokens[-1] != details["end_token"] and len(tokens) < details["max_target_length"]:
        sent = request(tokens[-1:], len(tokens) - 1, details["max_target_length"])
        tokens.append(int(decoder.step({"s": {**sent, **memories}})["s"]["logits"][0].argmax()))
    assert tokenizer.decode(tokens) == manifest.example["answer"]


@pytest.mark.parametrize("artefact", ["language_model", "dates_artefact", "captioner_artefact"])
def test_what_is_written_is_clean_and_read_back(artefact, request, tmp_path):
    folder, out = request.getfixturevalue(artefact), tmp_path / "repository"
    configs = write_implicit_states([folder], out, "onnxruntime")
    assert problems_of_repository(out) == []
    assert {path.name for path in out.iterdir()} == {config.name for config in configs}
    for config in configs:
        assert config_from_pbtxt((out / config.name / "config.pbtxt").read_text()) == config
        graph = config.name.removeprefix(f"{folder.name}-")
        assert (out / config.name / "1/model.onnx").read_bytes() == (folder / f"{graph}.onnx").read_bytes()


def test_an_engine_is_the_one_thing_missing_for_tensorrt(language_model, tmp_path):
    (config,) = write_implicit_states([language_model], tmp_path / "r", "tensorrt")
    assert (config.backend, config.platform) == ("tensorrt", "tensorrt_plan")
    assert [problem.finding.where for problem in problems_of_repository(tmp_path / "r")] == ["1/model.plan"]
    (tmp_path / "r" / config.name / "1/model.plan").touch()
    assert problems_of_repository(tmp_path / "r") == []


def test_a_renamed_pair_is_found(language_model, tmp_path):
    (config,) = write_implicit_states([language_model], tmp_path / "r", "onnxruntime")
    config.sequence_batching.state[0].output_name = "zero_key_out"
    (tmp_path / "r" / config.name / "config.pbtxt").write_text(pbtxt_from_config(config))
    problems = problems_of_repository(tmp_path / "r")
    assert {problem.rule.name for problem in problems} == {"state-order"}
    assert problems[0].finding.where == "state 'self_00_key_in'"


def test_it_lies_beside_the_model_of_the_generation_server(language_model, tmp_path):
    write_repository([language_model], tmp_path / "r")
    write_implicit_states([language_model], tmp_path / "r", "onnxruntime")
    assert {path.name for path in (tmp_path / "r").iterdir()} == {"language-model", "language-model-decoder"}
    assert problems_of_repository(tmp_path / "r") == []


def test_weights_in_a_file_of_their_own_come_along(language_model, tmp_path, monkeypatch):
    folder = tmp_path / "artefact"
    folder.mkdir()
    for path in language_model.iterdir():
        (folder / path.name).hardlink_to(path)
    (folder / "decoder.onnx.data").write_bytes(b"weights")
    write_implicit_states([folder], tmp_path / "r", "onnxruntime")
    assert (tmp_path / "r/language-model-decoder/1/decoder.onnx.data").read_bytes() == b"weights"


def test_a_first_state_that_an_encoder_computes_is_refused_by_name(explained_gru):
    with pytest.raises(ArtefactError, match=r"'state_00_in'.*encoder"):
        implicit_state_configs(Manifest.read(explained_gru), "onnxruntime")


def test_a_model_without_a_decoder_is_refused(digits_artefact):
    with pytest.raises(ArtefactError, match="'decoder'"):
        implicit_state_configs(Manifest.read(digits_artefact), "onnxruntime")


def test_a_decoder_without_states_is_refused(language_model):
    with pytest.raises(ArtefactError, match="without states"):
        implicit_state_configs(with_decoder(Manifest.read(language_model), aliases={}), "onnxruntime")


def test_states_of_a_varying_shape_are_refused(language_model):
    manifest = Manifest.read(language_model)
    decoder = manifest.graph("decoder")

    def grown(specs):
        return tuple(
            dataclasses.replace(spec, axes=(*spec.axes[:2], "past", spec.axes[3])) if "_00_key" in spec.name else spec
            for spec in specs
        )

    changed = with_decoder(manifest, inputs=grown(decoder.inputs), outputs=grown(decoder.outputs))
    with pytest.raises(ArtefactError, match="'self_00_key_in' of the varying shape"):
        implicit_state_configs(changed, "onnxruntime")


def test_names_that_triton_would_mix_up_are_refused(language_model):
    manifest = Manifest.read(language_model)
    decoder = manifest.graph("decoder")
    outputs = tuple(
        dataclasses.replace(spec, name="zero_out") if spec.name == "self_00_key_out" else spec
        for spec in decoder.outputs
    )
    aliases = {"zero_out" if name == "self_00_key_out" else name: kept for name, kept in decoder.aliases.items()}
    with pytest.raises(ArtefactError, match="8586"):
        implicit_state_configs(with_decoder(manifest, outputs=outputs, aliases=aliases), "onnxruntime")


def test_a_type_that_triton_has_no_name_for_is_refused(language_model):
    manifest = Manifest.read(language_model)
    narrow = TensorSpec(name="token_ids", dtype="bfloat16", axes=("batch", "steps"))
    inputs = (narrow, *manifest.graph("decoder").inputs[1:])
    with pytest.raises(ArtefactError, match="bfloat16"):
        implicit_state_configs(with_decoder(manifest, inputs=inputs), "onnxruntime")
