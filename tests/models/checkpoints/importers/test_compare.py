import pytest
import torch
import transformers
from tokenizers import Regex, normalizers, processors

from attendant.errors import MachineError, ParityError
from attendant.tokenization import load_tokenizer
from models.checkpoints.importers import compare
from models.checkpoints.importers.compare import TOLERANCE, inputs_for, largest_difference, other_tokens, ours, theirs
from models.checkpoints.importers.registry import architectures
from tests.models.checkpoints.importers.captioners import vit_gpt2
from tests.models.checkpoints.importers.saved import characters, imported, rewrite
from tests.models.checkpoints.importers.test_bart import bart
from tests.models.checkpoints.importers.test_bert import bert
from tests.models.checkpoints.importers.test_llama import mistral
from tests.models.checkpoints.importers.test_t5 import t5

MAKERS = {
    "mistral": lambda folder: mistral(folder, sliding_window=30),
    "bart": bart,
    "t5": t5,
    "bert": bert,
    "vision-encoder-decoder": vit_gpt2,
}


@pytest.fixture(params=MAKERS)
def pair(request, tmp_path):
    folder = MAKERS[request.param](tmp_path / "theirs")
    return imported(folder), folder, architectures("transformers")[request.param]


def test_a_comparison_runs_both_models_with_the_same_inputs(pair):
    checkpoint, folder, architecture = pair
    inputs = inputs_for(checkpoint)
    other = theirs(transformers, architecture, folder, checkpoint.family.task.name, inputs)
    assert largest_difference(ours(checkpoint, inputs), other, inputs.get("mask")) < TOLERANCE / 10


@pytest.mark.planted
def test_a_comparison_notices_a_wrong_number_in_any_matrix(pair):
    checkpoint, folder, architecture = pair
    inputs = inputs_for(checkpoint)
    other = theirs(transformers, architecture, folder, checkpoint.family.task.name, inputs)
    for name, parameter in checkpoint.model.named_parameters():
        if parameter.ndim < 2 or "token_types" in name:
            continue
        kept = parameter.data.clone()
        parameter.data = parameter.data.flip(-1)
        with pytest.raises(ParityError):
            largest_difference(ours(checkpoint, inputs), other, inputs.get("mask"))
        parameter.data = kept


def test_the_inputs_have_padding_and_reach_beyond_a_short_window(tmp_path):
    windowed = inputs_for(imported(mistral(tmp_path / "mistral", sliding_window=30)))
    assert windowed["token_ids"].shape[1] == 38
    padded = inputs_for(imported(bart(tmp_path / "bart")))["source_mask"]
    assert padded.all(1).tolist() == [True, False]
    assert padded.any(1).all()


def test_the_inputs_fit_a_short_model(tmp_path):
    inputs = inputs_for(imported(bart(tmp_path / "bart"), max_length=3))
    assert {tensor.shape[1] for tensor in inputs.values()} == {3}


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_a_difference_is_measured_against_the_largest_output(scale):
    wanted = torch.tensor([[scale, -0.5]])
    assert largest_difference([wanted + 0.5 * TOLERANCE * scale], [wanted]) == pytest.approx(TOLERANCE / 2, rel=1e-2)
    with pytest.raises(ParityError, match=r"outputs within 0\.0001 of the other library's"):
        largest_difference([wanted + 2 * TOLERANCE * scale], [wanted])


@pytest.mark.parametrize("found", [[[float("nan"), 0.0]], [[1.0, 0.0, 0.0]]], ids=str)
def test_what_is_no_number_or_of_another_shape_is_no_match(found):
    with pytest.raises(ParityError):
        largest_difference([torch.tensor(found)], [torch.tensor([[1.0, 0.0]])])


def test_outputs_at_padding_mean_nothing():
    found, wanted = torch.zeros(1, 2, 3), torch.zeros(1, 2, 3)
    found[0, 1] = 5.0
    assert largest_difference([found], [wanted], torch.tensor([[True, False]])) == 0
    with pytest.raises(ParityError):
        largest_difference([found], [wanted])


def test_other_tokens_are_told_and_no_error(tmp_path):
    folder = bart(tmp_path / "theirs")
    tokenizer = load_tokenizer(imported(folder).folder, {"unknown": "keep"})
    assert other_tokens(transformers, folder, tokenizer) == []
    other = characters()
    other.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 3)])
    other.save(str(folder / "tokenizer.json"))
    (told,) = other_tokens(transformers, folder, tokenizer)
    assert told.startswith(f"transformers has other tokens for {compare.TEXTS[0]!r}: [3, ")


def test_blanks_that_are_read_otherwise_are_told(tmp_path):
    folder = bart(tmp_path / "theirs")
    tokenizer = load_tokenizer(imported(folder).folder, {"unknown": "keep"})
    other = characters()
    other.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
    other.save(str(folder / "tokenizer.json"))
    (told,) = other_tokens(transformers, folder, tokenizer)
    assert told.startswith(f"transformers has other tokens for {compare.BLANKS[0]!r}: ")


def test_a_folder_that_transformers_cannot_load_is_said_to_be_so(tmp_path):
    folder = bart(tmp_path / "theirs")
    inputs = inputs_for(imported(folder))
    rewrite(folder / "config.json", d_model="wide")
    with pytest.raises(MachineError, match=f"transformers {transformers.__version__} to load .*theirs"):
        theirs(transformers, architectures("transformers")["bart"], folder, "translate", inputs)


def test_a_tokenizer_that_transformers_cannot_read_is_told(tmp_path):
    folder = bart(tmp_path / "theirs")
    tokenizer = load_tokenizer(imported(folder).folder, {"unknown": "keep"})
    (folder / "tokenizer.json").write_text("{}")
    (told,) = other_tokens(transformers, folder, tokenizer)
    assert told.startswith("tokenizer not compared with transformers: ")
