import numpy as np
import pytest
import torch

from attendant.errors import ConfigError
from models.explain.alignments import alignments
from models.presets import PRESETS
from models.registry import FAMILIES
from tests.models.agreement import difference, randomised
from tests.models.families.rnn_seq2seq_by_loops import translate_by_loops
from tests.models.families.seq2seq_weights import stranger_from_ours
from tests.models.float64_oracles import FullPrecision

SOURCE, TARGET = torch.tensor([[3, 4, 5, 6, 7, 8], [8, 3, 7, 5, 0, 0]]), torch.tensor([[1, 4, 6, 5], [1, 7, 3, 4]])
MASK = torch.arange(6) < torch.tensor([[6], [4]])


def built(preset):
    torch.manual_seed(0)
    chosen = PRESETS[preset]
    return randomised(FAMILIES[chosen.family].build(chosen.config), torch.float64)


@pytest.mark.parametrize("preset", ["marian-tiny", "bart-tiny"])
def test_a_transformer_s_are_the_cross_attentions_of_transformers(preset):
    model = built(preset)
    theirs = stranger_from_ours(model)
    theirs.set_attn_implementation("eager")
    with FullPrecision():
        wanted = theirs(
            input_ids=SOURCE, attention_mask=MASK.long(), decoder_input_ids=TARGET, output_attentions=True
        ).cross_attentions
    found = alignments(model, SOURCE, MASK, TARGET)
    assert found.shape == (2, len(wanted), model.config.heads, 4, 6)
    assert difference(found, torch.stack(wanted, dim=1)) <= 1e-12
    assert found[1, ..., 4:].abs().max() == 0
    assert difference(found[:, 0], found.flip(3)[:, 0]) > 1e-3


def test_a_recurrent_decoder_s_are_those_of_the_formulas():
    model = built("gru-seq2seq-tiny")
    weights = {name: one.numpy() for name, one in model.state_dict().items()}
    weights = {name: np.asarray(one) for name, one in weights.items()}
    found = alignments(model, SOURCE, MASK, TARGET)
    assert found.shape == (2, 1, 1, 4, 6)
    for row, length in enumerate((6, 4)):
        source, target = SOURCE[row, :length].tolist(), TARGET[row].tolist()
        _, wanted = translate_by_loops(model.config, weights, source, target)
        assert difference(found[row, 0, 0, :, :length], torch.from_numpy(np.stack(wanted))) <= 1e-12


@pytest.mark.parametrize("preset", ["rnn-seq2seq-tiny", "gpt2-tiny"])
def test_a_model_without_attention_to_a_source_is_refused(preset):
    with pytest.raises(ConfigError, match="attends to its source"):
        model = built(preset)
        if preset == "gpt2-tiny":
            model.forward = lambda *_: None
        alignments(model, SOURCE, MASK, TARGET)
