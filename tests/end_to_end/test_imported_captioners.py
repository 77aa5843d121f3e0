"""Random captioners, imported, exported and served, describe an image with transformers' own tokens."""

import asyncio

import pytest
import torch
import transformers
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from attendant.sampling_params import SamplingParams
from clients.caption import Captioner
from clients.images import file_pixels
from clients.triton_client import TritonClient
from export.artefact.stage import export_onnx
from models.checkpoints.importers.importing import import_checkpoint
from tests.end_to_end.test_imported import served
from tests.end_to_end.test_imported_images import photograph
from tests.models.checkpoints.importers.captioners import IMAGES, SPECIALS, trocr, vit_gpt2
from tests.models.checkpoints.importers.saved import VOCABULARY, saved

NEW_TOKENS = 12
TINY = {"vit-gpt2": vit_gpt2, "trocr": trocr}
CROSSED = {"is_decoder": True, "add_cross_attention": True}
WIDE_DECODERS = {
    "vit-gpt2": transformers.GPT2Config(vocab_size=VOCABULARY, n_layer=4, **SPECIALS, **CROSSED),
    "trocr": transformers.TrOCRConfig(vocab_size=VOCABULARY, decoder_layers=4, **SPECIALS, **CROSSED),
}


def save(name, folder, as_published):
    """Write a random model; of published width it has four of the decoder's blocks."""
    if not as_published:
        return TINY[name](folder, encoder={**IMAGES, "image_size": 16})
    torch.manual_seed(0)
    encoder = transformers.ViTConfig(image_size=384 if name == "trocr" else 224, qkv_bias=name != "trocr")
    config = transformers.VisionEncoderDecoderConfig(
        encoder=encoder.to_dict(), decoder=WIDE_DECODERS[name].to_dict(), **SPECIALS
    )
    saved(transformers.VisionEncoderDecoderModel(config), folder, deviation=0.04)
    return folder


def prepared(folder):
    """The folder with an image processor for the encoder's own size."""
    side = transformers.VisionEncoderDecoderConfig.from_pretrained(folder).encoder.image_size
    ViTImageProcessorPil(size={"height": side, "width": side}).save_pretrained(folder)
    return folder


def their_tokens(folder, pixels):
    """What transformers says greedily, without its start and end tokens."""
    theirs = transformers.VisionEncoderDecoderModel.from_pretrained(folder).eval()
    answer = theirs.generate(torch.from_numpy(pixels)[None], max_new_tokens=NEW_TOKENS, do_sample=False, num_beams=1)
    tokens = answer[0].tolist()[1:]
    return tokens[: tokens.index(1)] if 1 in tokens else tokens


async def described(server, name, path):
    async with TritonClient(server, timeout_s=60.0) as client:
        model = await client.model(name)
        pixels = file_pixels(model, path)
        stream = Captioner(client, model).stream(pixels, SamplingParams(max_tokens=NEW_TOKENS))
        return pixels, [token async for piece in stream for token in piece.token_ids]


def compare(place, names, as_published):
    path = photograph(place / "photograph.png")
    folders = {name: prepared(save(name, place / "saved" / name, as_published)) for name in names}
    for name, folder in folders.items():
        import_checkpoint(folder, place / "imported" / name, max_length=20)
        export_onnx(str(place / "imported" / name), place / "artefacts" / name)
    with served(place, names) as server:
        found = {name: asyncio.run(described(server, name, path)) for name in names}
    for name, (pixels, tokens) in found.items():
        assert tokens == their_tokens(folders[name], pixels), name
        assert tokens, name


# The other is asked more in tests/serving/engine/test_equals_transformers.py.
@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["trocr", "vit-gpt2"])
def test_a_caption_served_is_the_one_that_transformers_generates(name, tmp_path):
    compare(tmp_path, [name], as_published=False)


@pytest.mark.full_width
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", TINY)
def test_so_it_is_at_the_width_of_published_checkpoints(name, tmp_path):
    compare(tmp_path, [name], as_published=True)
