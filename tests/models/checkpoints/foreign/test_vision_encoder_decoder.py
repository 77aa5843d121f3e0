import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import VisionEncoderDecoderModel

from models.checkpoints.foreign.importing import import_checkpoint
from models.checkpoints.foreign.registry import ARCHITECTURES
from models.checkpoints.foreign.vision_encoder_decoder import VISION_ENCODER_DECODER
from models.errors import ArtefactError, ConfigError, UnknownNameError
from models.families.registry import FAMILIES
from models.families.vision_seq2seq import VisionSeq2Seq
from models.presets import PRESETS
from models.tokenization import load_tokenizer
from tests.models.agreement import both_precisions
from tests.models.checkpoints.foreign.captioners import IMAGES, SIDE, looking, trocr, vit_gpt2
from tests.models.checkpoints.foreign.paired import shapes_of
from tests.models.checkpoints.foreign.saved import GONE, assert_same, imported, rewrite, write
from tests.models.families.vision_seq2seq_weights import stranger_from_ours

# A bias of the keys adds the same to every score of a query.
INDIFFERENT = ("attention.key.bias",)
KINDS = {"GPT-2": vit_gpt2, "TrOCR": trocr}
either_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@both_precisions
@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (vit_gpt2, {}),
        (vit_gpt2, {"n_embd": 16, "n_head": 2, "n_inner": 20, "activation_function": "relu"}),
        (vit_gpt2, {"tie_word_embeddings": False, "layer_norm_epsilon": 0.01}),
        (trocr, {}),
        (trocr, {"cross_attention_hidden_size": IMAGES["hidden_size"], "scale_embedding": True}),
        (trocr, {"layernorm_embedding": False, "tie_word_embeddings": False, "activation_function": "relu"}),
        (trocr, {"encoder": {"qkv_bias": False, "layer_norm_eps": 0.01}, "d_model": 16, "decoder_attention_heads": 2}),
    ],
    ids=str,
)
def test_an_imported_captioner_computes_what_transformers_does(make, settings, dtype, tmp_path):
    folder = make(tmp_path / "theirs", **settings)
    assert_same(imported(folder), VisionEncoderDecoderModel, folder, looking(), dtype, INDIFFERENT)
