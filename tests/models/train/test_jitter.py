import pytest
import torch

from attendant.errors import ConfigError
from models.train.jitter import Jitter

IMAGES = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def jittered(jitter: Jitter, seed: int = 0) -> torch.Tensor:
    return jitter.apply(IMAGES, torch.Generator().manual_seed(seed))


def test_no_jitter_leaves_the_images_as_they_are() -> None:
    torch.testing.assert_close(jittered(Jitter(degrees=0, scale=0, pixels=0)), IMAGES)


def test_the_same_generator_gives_the_same_images_and_another_gives_others() -> None:
    jitter = Jitter(degrees=10, scale=0.1, pixels=0.5)
    assert torch.equal(jittered(jitter), jittered(jitter))
    assert not torch.equal(jittered(jitter), jittered(jitter, seed=1))


def test_an_image_moves_by_no_more_than_the_pixels_allowed() -> None:
    dot = torch.zeros(200, 1, 8, 8)
    dot[:, 0, 4, 4] = 1
    moved = Jitter(degrees=0, scale=0, pixels=1).apply(dot, torch.Generator().manual_seed(0))[:, 0]
    row = torch.einsum("bhw,h->b", moved, torch.arange(8.0)) / moved.sum((1, 2))
    assert 0.9 < (row - 4).abs().max() <= 1 + 1e-5


def test_a_negative_jitter_is_refused() -> None:
    with pytest.raises(ConfigError, match="pixels of at least 0"):
        Jitter(degrees=0, scale=0, pixels=-1)
