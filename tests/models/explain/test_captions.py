import numpy as np
import pytest
import torch

from attendant.errors import ConfigError
from models.explain.captions import caption_attention, word_maps
from tests.models.agreement import difference
from tests.models.families.captioning import TROCR, captioner, image_batch
from tests.models.families.recurrent_captioning import PLAIN, recurrent_captioner
from tests.models.families.rnn_captioner_by_loops import caption_by_loops
from tests.models.families.vision_seq2seq_weights import stranger_from_ours
from tests.models.float64_oracles import FullPrecision

BATCH = image_batch()


def test_a_transformer_s_are_the_cross_attentions_of_transformers():
    model = captioner(**TROCR)
    theirs = stranger_from_ours(model)
    theirs.set_attn_implementation("eager")
    with FullPrecision(), torch.no_grad():
        wanted = theirs(
            pixel_values=BATCH.pixels, decoder_input_ids=BATCH.target_ids, output_attentions=True
        ).cross_attentions
    found = caption_attention(model, BATCH.pixels, BATCH.target_ids)
    assert difference(found, torch.stack(wanted, dim=1)) <= 1e-12
    assert difference(found[0], found[1]) > 1e-3


def test_show_attend_and_tell_s_are_those_of_the_formulas():
    model = recurrent_captioner()
    weights = {name: one.double().numpy() for name, one in model.state_dict().items()}
    found = caption_attention(model, BATCH.pixels, BATCH.target_ids)
    for row in range(len(BATCH.pixels)):
        _, wanted = caption_by_loops(model.config, weights, BATCH.pixels[row].numpy(), BATCH.target_ids[row])
        assert difference(found[row, 0, 0], torch.from_numpy(np.stack(wanted))) <= 1e-12


def test_a_captioner_without_attention_is_refused():
    with pytest.raises(ConfigError, match="attends to its image"):
        caption_attention(recurrent_captioner(**PLAIN), BATCH.pixels, BATCH.target_ids)


def test_a_map_is_the_mean_of_the_last_layer_s_heads_without_the_class_token():
    weights = torch.rand(2, 3, 4, 5, 10, generator=torch.Generator().manual_seed(0)).double()
    maps = word_maps(weights)
    assert maps.shape == (2, 5, 3, 3)
    assert difference(maps[1, 2, 0, 1], weights[1, 2, :, 2, 2].mean()) <= 1e-12
    assert word_maps(weights[..., 1:]).shape == (2, 5, 3, 3)
