import dataclasses
import platform
import re
from itertools import islice

import pytest
import torch

from attendant.tokenization import load_tokenizer
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint
from models.train import stdlib_lm
from models.train.bits_per_byte import BitsPerByte, decoder_bits
from models.train.docstrings import size, standard_library
from models.train.loop import silent
from models.train.streams import token_streams
from tests.models.train.losses import Losses

pytestmark = pytest.mark.slow

SHORT = dataclasses.replace(stdlib_lm.SCHEDULE, steps=6, batch=4)
CERTAIN = 0.05  # logits; two runtimes differ by about 1e-5


@pytest.fixture(scope="module")
def shipped() -> Checkpoint:
    return checkpoint_named("stdlib-lm")


@pytest.fixture(scope="module")
def score(shipped: Checkpoint) -> BitsPerByte:
    with torch.random.fork_rng():
        torch.set_num_threads(1)
        return stdlib_lm.bits_per_byte(shipped)


def test_the_shipped_model_beats_both_n_gram_models_on_modules_that_it_never_saw(score: BitsPerByte) -> None:
    assert len(score.baselines) == 2
    assert all(score.model < 0.97 * baseline for baseline in score.baselines.values())


def test_the_model_card_tells_these_figures_as_far_as_this_python_has_the_same_texts(
    shipped: Checkpoint, score: BitsPerByte
) -> None:
    assert shipped.folder
    card = (shipped.folder / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| {stdlib_lm.TASK.metric} \| (.+) \|$", card, re.MULTILINE)
    figures = [float(figure) for figure in re.findall(r"\d\.\d{3}", row)]
    close = 0.0006 if f"| Python | {platform.python_version()} |" in card else 0.05
    assert figures == pytest.approx([score.model, *score.baselines.values()], abs=close)
    assert re.sub(r"[\d.,]+ ", "", row) == re.sub(r"[\d.,]+ ", "", str(score))


@pytest.mark.planted
def test_a_zeroed_matrix_costs_bits(shipped: Checkpoint) -> None:
    broken = checkpoint_named("stdlib-lm").model
    broken.get_parameter("blocks.1.attention.value.weight").zero_()
    assert shipped.folder
    stream = token_streams({"queue": standard_library()[1]["queue"]}, load_tokenizer(shipped.folder))[0]
    assert decoder_bits(broken, stream, 256) > 1.05 * decoder_bits(shipped.model, stream, 256)


@torch.no_grad()
def test_the_example_is_the_greedy_continuation_and_no_step_of_it_is_close(shipped: Checkpoint) -> None:
    assert shipped.folder
    tokenizer = load_tokenizer(shipped.folder)
    tokens = tokenizer.encode(shipped.example["inputs"]["text"], 256)
    prompt = len(tokens)
    for _ in range(shipped.example["inputs"]["max_tokens"]):
        best, second = shipped.model(torch.tensor([tokens]))[0, -1].topk(2).values.tolist()
        assert best - second > CERTAIN
        tokens.append(int(shipped.model(torch.tensor([tokens]))[0, -1].argmax()))
        if tokens[-1] in shipped.details["end_tokens"]:
            break
    answer = shipped.example["answer"]
    assert tokenizer.decode(tokens[prompt:]) == answer
    assert len(answer.split()) >= 4


def test_a_few_steps_lower_the_loss() -> None:
    losses = Losses()
    stdlib_lm.train(0, losses, SHORT)
    assert losses.last(1) < 0.97 * losses.first(1)


def test_one_seed_gives_one_model_and_another_seed_another() -> None:
    first, again, other = (
        stdlib_lm.train(seed, silent, dataclasses.replace(SHORT, steps=2, batch=2)).state_dict() for seed in (3, 3, 4)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


def test_windows_are_pieces_of_the_stream_and_one_time_round_holds_each_target_once() -> None:
    stream = torch.arange(1000)
    batches = stdlib_lm.random_windows(stream, 9, 4, torch.Generator().manual_seed(0))
    once = torch.cat(list(islice(batches, 31)))
    assert all(torch.equal(window, torch.arange(int(window[0]), int(window[0]) + 9)) for window in once)
    targets = once[:, 1:].flatten()
    assert len(targets.unique()) == len(targets) == 31 * 4 * 8
    assert not torch.equal(once, torch.cat(list(islice(batches, 31))))


def test_every_parameter_is_learned_by_one_optimiser_and_the_matrices_of_the_blocks_by_muon() -> None:
    model = stdlib_lm.Decoder(stdlib_lm.CONFIG)
    muon, adam = (
        [id(parameter) for group in optimiser.param_groups for parameter in group["params"]]
        for optimiser in stdlib_lm.optimisers(model, stdlib_lm.SCHEDULE)
    )
    assert sorted(muon + adam) == sorted(id(parameter) for parameter in model.parameters())
    assert set(muon) == {id(matrix) for matrix in model.blocks.parameters() if matrix.ndim == 2}


def test_the_held_out_texts_are_a_few_hundred_kilobytes_at_most() -> None:
    assert 80_000 < size(standard_library()[1]) < 300_000
