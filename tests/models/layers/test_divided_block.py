import pytest
import torch

from models.layers.divided_block import DividedBlock
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised

FRAMES, PATCHES, WIDTH, HEADS, MLP_WIDTH = 3, 4, 8, 2, 12


def block_of(dtype=torch.float64):
    torch.manual_seed(0)
    return randomised(DividedBlock(FRAMES, WIDTH, HEADS, MLP_WIDTH, 1e-6), dtype)


def tokens_of(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, 1 + PATCHES * FRAMES, WIDTH, generator=generator).to(dtype)


def attended(attention, norm, x):
    """The formula, head by head, for one short row of tokens ``[S, E]``."""
    x = norm(x)
    q, k, v = attention.query(x), attention.key(x), attention.value(x)
    size = WIDTH // HEADS
    heads = []
    for start in range(0, WIDTH, size):
        head = slice(start, start + size)
        heads.append(torch.softmax(q[:, head] @ k[:, head].T / size**0.5, dim=-1) @ v[:, head])
    return attention.output(torch.cat(heads, dim=1))


def by_loops(block, tokens):
    return torch.stack([one_by_loops(block, video) for video in tokens])


def one_by_loops(block, tokens):
    class_token = tokens[0]
    patch = {(p, f): tokens[1 + p * FRAMES + f] for p in range(PATCHES) for f in range(FRAMES)}
    for p in range(PATCHES):
        series = torch.stack([patch[p, f] for f in range(FRAMES)])
        moved = series + block.time_linear(attended(block.time_attention, block.time_residual.norm, series))
        patch.update({(p, f): moved[f] for f in range(FRAMES)})
    class_changes = []
    for f in range(FRAMES):
        frame = torch.stack([class_token, *(patch[p, f] for p in range(PATCHES))])
        change = attended(block.space_attention, block.space_residual.norm, frame)
        class_changes.append(change[0])
        patch.update({(p, f): patch[p, f] + change[1 + p] for p in range(PATCHES)})
    class_token = class_token + sum(class_changes) / FRAMES
    joined = torch.stack([class_token, *(patch[p, f] for p in range(PATCHES) for f in range(FRAMES))])
    return joined + block.mlp(block.mlp_residual.norm(joined))


@agrees_in_both_precisions
def test_it_equals_attention_place_by_place_and_then_frame_by_frame(dtype):
    block, tokens = block_of(dtype), tokens_of(dtype)
    yield block(tokens), by_loops(block, tokens)


@pytest.mark.planted
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen():
    block, tokens = block_of(), tokens_of()
    wanted = by_loops(block, tokens)
    blind = parameters_that_do_not_matter(block, lambda: difference(block(tokens), wanted))
    assert blind == {"time_attention.key.bias", "space_attention.key.bias"}


def places_changed(block, tokens, place):
    """Rows and tokens of the output that another token at one place changes, each by more than a thousandth."""
    before, changed = block(tokens), tokens.clone()
    # Not the same added to every channel: the normalisation takes that away again, and what is left is rounding.
    changed[place] += torch.randn(WIDTH, generator=torch.Generator().manual_seed(2))
    moved = (block(changed) - before).abs().amax(-1)
    assert (moved[moved > 1e-12] > 1e-3).all()
    return (moved > 1e-3).nonzero().tolist()


def test_time_attention_mixes_the_frames_of_one_place_and_leaves_the_class_token_alone():
    block, tokens = block_of(), tokens_of()
    block.space_attention.output.weight.zero_()
    changed = places_changed(block, tokens, (1, 1 + 2 * FRAMES))  # place 2, frame 0
    assert changed == [[1, 1 + 2 * FRAMES + frame] for frame in range(FRAMES)]


def test_without_time_attention_a_patch_is_seen_in_its_frame_and_by_the_class_token():
    block, tokens = block_of(), tokens_of()
    block.time_linear.weight.zero_()
    changed = places_changed(block, tokens, (1, 1 + 2 * FRAMES))  # place 2, frame 0
    assert changed == [[1, 0], *([1, 1 + place * FRAMES] for place in range(PATCHES))]


def test_another_order_of_frames_orders_the_outputs_alike():
    block, tokens = block_of(), tokens_of()
    order = [0, *(1 + place * FRAMES + frame for place in range(PATCHES) for frame in (2, 0, 1))]
    assert difference(block(tokens[:, order]), block(tokens)[:, order]) <= 1e-12
