"""What fp16 and bf16 answer, and where nobody on a CPU can execute them."""

import numpy as np
import pytest

from attendant.errors import MachineError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from models.train.date_data import held_out
from serving.engine.text_generation_model import LanguageModel, TranslationModel
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners
from serving.runtime.openvino.runner import OpenVinoRunner
from serving.runtime.ort.runner import RowByRow
from serving.triton.repository.layout import write_repository
from tests.export.rewritten import rewritten


@pytest.fixture(scope="module")
def dates_in_fp16(dates_artefact, tmp_path_factory):
    """The shipped translator in fp16."""
    out = tmp_path_factory.mktemp("narrow") / "dates-transformer"
    rewritten(dates_artefact, "fp16", out)
    return out


def answers(folder, texts):
    translator = TranslationModel(folder, Manifest.read(folder))
    return [
        [token for piece in translator.stream(translator.request(text)) for token in piece.token_ids] for text in texts
    ]


def test_in_fp16_a_trained_translator_gives_the_tokens_of_fp32(dates_artefact, dates_in_fp16):
    texts = [text for text, _ in held_out(40)]
    assert answers(dates_in_fp16, texts) == answers(dates_artefact, texts)


def test_in_fp16_a_language_model_gives_the_tokens_of_fp32(language_model, tmp_path):
    rewritten(language_model, "fp16", tmp_path / "fp16")
    options = SamplingParams(max_tokens=12, ignore_eos=True)
    tokens = []
    for folder in (language_model, tmp_path / "fp16"):
        generator = LanguageModel(folder, Manifest.read(folder))
        pieces = generator.stream(generator.request([0, 290, 277, 97, 83], options))
        tokens.append([token for piece in pieces for token in piece.token_ids])
    assert tokens[0] == tokens[1] and len(tokens[0]) == 12


def test_in_fp16_caches_and_memories_take_half_the_bytes_and_are_updated_in_place(dates_artefact, dates_in_fp16):
    sizes = []
    for folder in (dates_artefact, dates_in_fp16):
        runner = create_runners(folder, Manifest.read(folder))["decoder"]
        assert isinstance(runner, RowByRow), "it is lowered to the runtime's own operator too"
        source = np.ones((1, 5), dtype=np.int64)
        memories = create_runners(folder, Manifest.read(folder))["encoder"].run(
            {"source_ids": source, "source_mask": source.astype(bool)}
        )
        decoder = CachedDecoder(runner, 1, {"source_mask": source.astype(bool), **memories})
        addresses = [buffer.address for buffer in decoder.caches.values()]
        decoder.step(np.array([[1]]), np.array([0]))
        assert [buffer.address for buffer in decoder.caches.values()] == addresses
        assert all(np.any(buffer.numpy()) for buffer in decoder.caches.values())
        sizes.append(sum(buffer.nbytes for buffer in (*decoder.caches.values(), *memories.values())))
    assert sizes[0] == 2 * sizes[1]


def test_in_bf16_a_decoder_is_refused_on_a_cpu_with_what_to_do_before_a_repository_is_written(dates_artefact, tmp_path):
    made = Manifest.read(rewritten(dates_artefact, "bf16", tmp_path / "bf16"))
    assert {one.target for one in made.lowered} == {"tensorrt"}
    why = (
        r"'dates-transformer' in bf16; found ONNX Runtime, which has no .*, and OpenVINO, .* \['decoder'\] do; serve an"
    )
    with pytest.raises(MachineError, match=why):
        create_runners(tmp_path / "bf16", made)
    with pytest.raises(MachineError, match=why):
        write_repository([tmp_path / "bf16"], tmp_path / "repository")
    assert not (tmp_path / "repository").exists()


def test_in_bf16_a_classifier_runs_on_openvino_and_nowhere_else(digits_artefact, tmp_path):
    pytest.importorskip("openvino")
    made = Manifest.read(rewritten(digits_artefact, "bf16", tmp_path / "bf16"))
    runner = create_runners(tmp_path / "bf16", made)["model"]
    assert isinstance(runner, OpenVinoRunner)
    pixels = np.random.default_rng(0).random((2, *made.graph("model").inputs[0].axes[1:]), dtype=np.float32)
    exact = create_runners(digits_artefact, Manifest.read(digits_artefact))["model"].run({"pixels": pixels})["logits"]
    found = runner.run({"pixels": pixels})["logits"]
    assert 0 < np.abs(found.numpy() - exact.numpy()).max() < 0.1 * np.abs(exact.numpy()).max()
    with pytest.raises(
        MachineError, match="'digits-vit' in bf16; found ONNX Runtime, which has no operators of that type; serve"
    ):
        create_runners(tmp_path / "bf16", made, runtime="onnxruntime")
