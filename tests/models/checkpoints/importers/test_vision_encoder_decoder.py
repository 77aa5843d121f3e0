import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast, TrOCRProcessor, VisionEncoderDecoderModel
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from attendant.errors import ArtefactError, ConfigError, UnknownNameError
from attendant.tokenization import load_tokenizer
from models.checkpoints.importers.importing import import_checkpoint
from models.checkpoints.importers.vision_encoder_decoder import VISION_ENCODER_DECODER
from models.checkpoints.store import load_checkpoint
from models.families.vision_seq2seq import VisionSeq2Seq
from models.presets import PRESETS
from tests.models.agreement import both_precisions
from tests.models.checkpoints.importers.captioners import IMAGES, SIDE, looking, trocr, trocr_small, vit_gpt2
from tests.models.checkpoints.importers.paired import shapes_of
from tests.models.checkpoints.importers.saved import GONE, assert_same, imported, rewrite, write
from tests.models.families.vision_seq2seq_weights import stranger_from_ours
from tests.run_here import run_here

# A bias of the keys adds the same to every score of a query.
INDIFFERENT = ("attention.key.bias",)
KINDS = {"GPT-2": vit_gpt2, "TrOCR": trocr}


def told(value):
    """The name of a function, and anything else as it is written; no addresses, which differ between processes."""
    return getattr(value, "__name__", str(value)).replace(str(GONE), "gone")


either_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (vit_gpt2, {}),
        (vit_gpt2, {"n_embd": 16, "n_head": 2, "n_inner": 20, "activation_function": "relu"}),
        (vit_gpt2, {"tie_word_embeddings": False, "layer_norm_epsilon": 0.01}),
        (trocr, {}),
        (trocr_small, {"decoder_layers": 1}),  # as deep as the others its float32 rounding passes the tolerance
        (trocr, {"cross_attention_hidden_size": IMAGES["hidden_size"], "scale_embedding": True}),
        (trocr, {"layernorm_embedding": False, "tie_word_embeddings": False, "activation_function": "relu"}),
        (
            trocr,
            {
                "encoder": {"qkv_bias": False, "hidden_act": "relu", "layer_norm_eps": 0.01},
                "d_model": 16,
                "decoder_attention_heads": 2,
            },
        ),
    ],
    ids=told,
)
def test_an_imported_captioner_computes_what_transformers_does(make, settings, dtype, tmp_path):
    folder = make(tmp_path / "theirs", **settings)
    assert_same(imported(folder), VisionEncoderDecoderModel, folder, looking(), dtype, INDIFFERENT)


@either_kind
def test_tokenizer_preprocessing_and_an_answer_travel_with_it(make, tmp_path):
    folder = make(tmp_path / "theirs")
    checkpoint = imported(folder)
    assert (checkpoint.family.name, checkpoint.family.task.name) == ("vision_seq2seq", "caption")
    assert checkpoint.details["preprocessing"]["size"] == [SIDE, SIDE]
    assert [path.name for path in checkpoint.companions()] == ["tokenizer.json"]
    limit = checkpoint.example["inputs"].pop("max_tokens")
    assert checkpoint.example["inputs"] == {}
    theirs = VisionEncoderDecoderModel.from_pretrained(folder).eval()
    pixels = torch.zeros(1, 3, SIDE, SIDE)
    (made,) = theirs.generate(pixels, max_new_tokens=limit, min_new_tokens=limit, do_sample=False).tolist()
    tokenizer = load_tokenizer(checkpoint.folder, checkpoint.details["tokenizer"])
    assert checkpoint.example["answer"] == tokenizer.decode(made[1 : limit + 1])


def test_the_preprocessing_of_a_processor_of_images_and_texts_travels_too(tmp_path):
    folder = trocr(tmp_path / "theirs")
    images = ViTImageProcessorPil(size={"height": SIDE, "width": SIDE}, resample=3)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    (folder / "preprocessor_config.json").unlink()
    TrOCRProcessor(images, tokenizer).save_pretrained(folder)
    assert not (folder / "preprocessor_config.json").exists()
    assert imported(folder).details["preprocessing"]["resample"] == "bicubic"


def test_a_captioner_that_is_sure_of_nothing_has_an_example_without_an_answer(tmp_path):
    folder = vit_gpt2(tmp_path / "theirs")
    weights = folder / "model.safetensors"
    save_file({name: 0 * tensor for name, tensor in load_file(weights).items()}, weights)
    assert imported(folder).example == {"inputs": {"max_tokens": 1}}


@either_kind
def test_what_the_generation_leaves_open_the_outer_configuration_says_and_then_the_decoders(make, tmp_path):
    folder = make(tmp_path / "theirs")
    (folder / "generation_config.json").unlink()
    rewrite(folder / "config.json", decoder_start_token_id=5, pad_token_id=GONE, eos_token_id=None)
    config = imported(folder).config
    assert (config.start_token, config.pad_token, config.end_token) == (5, 0, 1)
    write(folder / "generation_config.json", decoder_start_token_id=6)
    assert imported(folder).config.start_token == 6


def test_rules_of_answers_are_kept_wherever_they_stand(tmp_path):
    folder = trocr(tmp_path / "theirs")
    (folder / "generation_config.json").unlink()
    change_part(folder, "decoder", no_repeat_ngram_size=3, forced_bos_token_id=4, num_beams=4)
    rewrite(folder / "config.json", num_beams=2)
    details = imported(folder).details
    assert details["forced_start_token"] == 4
    assert details["generation_not_followed"] == {"num_beams": 2, "no_repeat_ngram_size": 3}


def change_part(folder, part, **changes):
    """Change fields of the encoder's or the decoder's configuration; GONE takes one out."""
    values = json.loads((folder / "config.json").read_text())[part]
    kept = {name: one for name, one in {**values, **changes}.items() if one is not GONE}
    rewrite(folder / "config.json", **{part: kept})


@pytest.mark.planted
@either_kind
def test_a_shorter_captioner_keeps_the_first_positions(make, tmp_path):
    folder = make(tmp_path / "theirs")
    shorter = imported(folder, max_length=9)
    assert shorter.config.max_target_length == 9
    assert_same(shorter, VisionEncoderDecoderModel, folder, looking(), torch.float32, INDIFFERENT)
    with pytest.raises(ConfigError, match="a --max-length from 1 to 20"):
        imported(folder, max_length=21)


def test_files_have_the_names_of_version_4_and_those_of_version_5_are_read_too(tmp_path):
    folder = trocr(tmp_path / "theirs")
    weights = folder / "model.safetensors"
    first = imported(folder)
    assert "encoder.encoder.layer.0.attention.attention.query.weight" in load_file(weights)
    names = VisionEncoderDecoderModel.from_pretrained(folder).state_dict()
    assert "encoder.layers.0.attention.q_proj.weight" in names
    save_file({name: tensor.clone() for name, tensor in names.items()}, weights)
    pairs = zip(first.model.parameters(), imported(folder).model.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


def test_the_pooled_output_and_masks_that_older_versions_stored_are_passed_over_and_told(tmp_path):
    folder = vit_gpt2(tmp_path / "theirs")
    weights, layer = folder / "model.safetensors", "decoder.transformer.h.0."
    masks = {f"{layer}{name}": torch.ones(1) for name in ("attn.bias", "attn.masked_bias", "crossattention.bias")}
    save_file({**load_file(weights), **masks}, weights)
    (note,) = import_checkpoint(folder, tmp_path / "ours").notes
    assert note.startswith("5 tensors that the model does not need: ")


def test_a_tied_head_may_be_in_the_file_if_it_is_the_same(tmp_path):
    folder = trocr(tmp_path / "theirs")
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    head = tensors["decoder.model.decoder.embed_tokens.weight"].clone()
    save_file({**tensors, "decoder.output_projection.weight": head}, weights)
    assert imported(folder).config.tied
    save_file({**tensors, "decoder.output_projection.weight": head + 1}, weights)
    with pytest.raises(ArtefactError, match=r"decoder\.output_projection\.weight, which the configuration ties"):
        imported(folder)


@either_kind
@pytest.mark.parametrize("gone", ["enc_to_dec_proj.weight", "encoder.embeddings.cls_token"])
def test_a_missing_tensor_is_named(make, gone, tmp_path):
    folder = make(tmp_path / "theirs")
    weights = folder / "model.safetensors"
    save_file({name: tensor for name, tensor in load_file(weights).items() if name != gone}, weights)
    with pytest.raises(ArtefactError, match=gone):
        imported(folder)


@pytest.mark.parametrize(
    ("make", "part", "field", "value", "named"),
    [
        (trocr, "decoder", "use_learned_position_embeddings", False, "decoder.use_learned_position_embeddings: True"),
        (trocr, "decoder", "model_type", "bert", r"decoder.model_type, one of \['gpt2', 'trocr'\]; found 'bert'"),
        (trocr, "encoder", "model_type", "swin", r"encoder.model_type, one of \['deit', 'vit'\]; found 'swin'"),
        (trocr, "encoder", "model_type", GONE, "encoder.model_type"),
        (trocr, "encoder", "hidden_act", "mish", "encoder.hidden_act"),
        (trocr, "encoder", "image_size", [12, 12], "encoder.image_size in config.json to be a positive integer"),
        (trocr, "encoder", "mystery", 3, "encoder.mystery: 3"),
        (trocr, "decoder", "mystery", 3, "decoder.mystery: 3"),
        (trocr, "decoder", "activation_function", "mish", "decoder.activation_function"),
        (trocr, "decoder", "cross_attention_hidden_size", 20, "decoder.cross_attention_hidden_size: 16"),
        (vit_gpt2, "decoder", "cross_attention_hidden_size", 16, "decoder.cross_attention_hidden_size"),
        (vit_gpt2, "decoder", "add_cross_attention", GONE, "decoder.add_cross_attention: true"),
        (vit_gpt2, "decoder", "scale_attn_by_inverse_layer_idx", True, "decoder.scale_attn_by_inverse_layer_idx"),
        (vit_gpt2, "decoder", "scale_attn_weights", False, "decoder.scale_attn_weights"),
    ],
    ids=told,
)
def test_what_the_family_does_not_do_is_refused(make, part, field, value, named, tmp_path):
    folder = make(tmp_path / "theirs")
    change_part(folder, part, **{field: value})
    with pytest.raises(ConfigError, match=named):
        imported(folder)


@pytest.mark.parametrize(
    ("changes", "error", "named"),
    [
        ({"encoder": GONE}, ConfigError, "encoder in config.json to be an object"),
        ({"decoder": "gpt2"}, ConfigError, "decoder in config.json to be an object"),
        ({"mystery": 3}, ConfigError, "mystery: 3"),
        ({"architectures": ["DonutModel"]}, UnknownNameError, "VisionEncoderDecoderModel"),
    ],
    ids=told,
)
def test_an_outer_configuration_of_something_else_is_refused(changes, error, named, tmp_path):
    folder = trocr(tmp_path / "theirs")
    rewrite(folder / "config.json", **changes)
    with pytest.raises(error, match=named):
        imported(folder)


@pytest.mark.parametrize("preset", ["captioner-vit-gpt2", "trocr-base", "captioner-vit-gpt2-tiny", "trocr-tiny"])
def test_every_tensor_of_a_published_size_has_a_place_of_its_shape(preset):
    config = PRESETS[preset].config
    with torch.device("meta"):
        theirs = stranger_from_ours(VisionSeq2Seq(config)).state_dict()
    ours, made = shapes_of(VISION_ENCODER_DECODER, config, theirs)
    assert ours == made


@pytest.mark.planted
def test_the_command_imports_a_folder_and_says_how_far_it_is_from_transformers(tmp_path):
    folder, out = trocr(tmp_path / "theirs"), tmp_path / "ours"
    done = run_here("models", "import", folder, "--out", out, "--name", "mine")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mine: VisionEncoderDecoderModel as vision_seq2seq, ")
    assert "largest difference from transformers " in done.stdout
    assert_same(load_checkpoint(out), VisionEncoderDecoderModel, folder, looking(), torch.float32, INDIFFERENT)
