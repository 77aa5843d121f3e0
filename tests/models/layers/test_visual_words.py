import pytest
import torch
from torch.nn import functional as F

from attendant.errors import ConfigError
from models.layers.visual_words import KERNEL, WordEmbed, WordProjection
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised

IMAGE, PATCH, WORD, CHANNELS, INNER, WIDTH = 12, 6, 2, 3, 4, 5
PATCHES, WORDS = 4, 9


def embed_of(dtype=torch.float64):
    torch.manual_seed(0)
    return randomised(WordEmbed(IMAGE, PATCH, WORD, CHANNELS, INNER, 0.02), dtype)


def projection_of(dtype=torch.float64, bias=True):
    torch.manual_seed(0)
    return randomised(WordProjection(PATCHES, WORDS, INNER, WIDTH, 1e-5, bias), dtype)


def random(*shape, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def words_by_loops(layer, pixels):
    """One number after another: a word's window around its corner, cut off at the border of its own patch."""
    kernel, half = layer.projection.weight, KERNEL // 2
    found = []
    for image in pixels:
        for top, left in ((0, 0), (0, PATCH), (PATCH, 0), (PATCH, PATCH)):
            patch = image[:, top : top + PATCH, left : left + PATCH]
            for place, (y, x) in enumerate((y, x) for y in range(0, PATCH, WORD) for x in range(0, PATCH, WORD)):
                rows = slice(max(y - half, 0), y + half + 1)
                columns = slice(max(x - half, 0), x + half + 1)
                window = patch[:, rows, columns]
                start = rows.start - y + half, columns.start - x + half
                part = kernel[:, :, start[0] : start[0] + window.shape[1], start[1] : start[1] + window.shape[2]]
                word = (part * window).sum((1, 2, 3)) + layer.projection.bias
                found.append(word + layer.positions.table[0, place])
    return torch.stack(found).view(len(pixels) * PATCHES, WORDS, INNER)


@agrees_in_both_precisions
def test_words_equal_a_window_around_each_within_its_patch(dtype):
    layer, pixels = embed_of(dtype), random(2, CHANNELS, IMAGE, IMAGE, dtype=dtype)
    words = layer(pixels)
    assert (layer.patches, layer.words) == (PATCHES, WORDS)
    assert words.shape == (2 * PATCHES, WORDS, INNER)
    yield words, words_by_loops(layer, pixels)


@pytest.mark.planted
def test_every_parameter_of_the_words_is_seen_by_the_loops():
    layer, pixels = embed_of(), random(2, CHANNELS, IMAGE, IMAGE)
    wanted = words_by_loops(layer, pixels)
    assert parameters_that_do_not_matter(layer, lambda: difference(layer(pixels), wanted)) == set()


def test_a_pixel_changes_words_of_its_own_patch_only():
    layer, pixels = embed_of(), random(2, CHANNELS, IMAGE, IMAGE)
    before = layer(pixels)
    pixels[1, 2, 5, 6] += 1.0  # the last row of the first row of patches, the first column of the second
    changed = (layer(pixels) != before).any(-1).any(-1).nonzero().flatten().tolist()
    assert changed == [PATCHES + 1]


@agrees_in_both_precisions
@pytest.mark.parametrize("bias", [True, False])
def test_a_patchs_token_is_the_projection_of_its_words_side_by_side_between_two_normalisations(bias, dtype):
    layer, words = projection_of(dtype, bias), random(2 * PATCHES, WORDS, INNER, dtype=dtype)
    tokens = layer(words)
    assert tokens.shape == (2, PATCHES, WIDTH)
    yield tokens, tokens_by_loops(layer, words)


def tokens_by_loops(layer, words):
    tokens = []
    for patch in words:
        side_by_side = torch.cat(list(patch))
        normed = F.layer_norm(side_by_side, side_by_side.shape, layer.norm.weight, layer.norm.bias)
        linear = torch.stack([(row * normed).sum() for row in layer.linear.weight])
        linear = linear if layer.linear.bias is None else linear + layer.linear.bias
        tokens.append(F.layer_norm(linear, linear.shape, layer.output_norm.weight, layer.output_norm.bias))
    return torch.stack(tokens).view(-1, PATCHES, WIDTH)


@pytest.mark.planted
def test_every_parameter_of_the_projection_is_seen_by_the_loops():
    layer, words = projection_of(), random(2 * PATCHES, WORDS, INNER)
    wanted = tokens_by_loops(layer, words)
    assert parameters_that_do_not_matter(layer, lambda: difference(layer(words), wanted)) == set()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((12, 5, 1), "an image size that is a multiple of the patch's 5; found 12"),
        ((12, 6, 4), "a patch size that is a multiple of the word's 4; found 6"),
    ],
    ids=["patches", "words"],
)
def test_an_image_that_does_not_divide_is_refused(sizes, expected):
    with pytest.raises(ConfigError, match=expected):
        WordEmbed(*sizes, CHANNELS, INNER, 0.02)
