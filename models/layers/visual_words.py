"""Patches as sentences of visual words: cut an image into both, and make a patch's token of its words.

    words_p = convolution(patch_p) + I_pos, a 7 × 7 kernel whose stride is a word's side, zeros around each patch
    token_p = LayerNorm(W · LayerNorm(concat(words_p)))

Every patch has the same positions I_pos of its words. The paper's equation has W alone: the two normalisations around
it, and the overlapping kernel, are those of the authors' code.

Legend: B batch, C channels, P patches, X = B P, M words of a patch, I width of a word, E width of a patch's token.
Source: Han et al. 2021, "Transformer in Transformer", section 2.2, and its authors' code.
"""

from torch import Tensor, nn

from attendant.config import require
from models.layers.positional import LearnedPositions

KERNEL = 7


class WordEmbed(nn.Module):
    """Cut an image into patches and each patch into words.

    Args:
        image_size: side of the square image, in pixels.
        patch_size: side of a square patch.
        word_size: side of a square word.
        channels: C.
        width: I.
        deviation: standard deviation of the initial position table.

    Attributes:
        patches: P.
        words: M.

    Raises:
        ConfigError: one side is not a multiple of the next.
    """

    def __init__(
        self, image_size: int, patch_size: int, word_size: int, channels: int, width: int, deviation: float
    ) -> None:
        super().__init__()
        require(
            image_size % patch_size == 0, f"an image size that is a multiple of the patch's {patch_size}", image_size
        )
        require(patch_size % word_size == 0, f"a patch size that is a multiple of the word's {word_size}", patch_size)
        self.patches = (image_size // patch_size) ** 2
        self.words = (patch_size // word_size) ** 2
        self.patch_size = patch_size
        self.projection = nn.Conv2d(channels, width, KERNEL, stride=word_size, padding=KERNEL // 2)
        self.positions = LearnedPositions(self.words, width, deviation)

    def forward(self, pixels: Tensor) -> Tensor:
        """``[B, C, side, side]`` → ``[B P, M, I]``, patches and words row by row."""
        side = self.patch_size
        _, channels, height, width = pixels.shape
        grid = pixels.reshape(-1, channels, height // side, side, width // side, side).permute(0, 2, 4, 1, 3, 5)
        grid_XIhw: Tensor = self.projection(grid.reshape(-1, channels, side, side))
        words_XMI: Tensor = self.positions(grid_XIhw.flatten(2).transpose(1, 2))
        return words_XMI


class WordProjection(nn.Module):
    """Make one token of the words of a patch.

    Args:
        patches: P.
        words: M.
        word_width: I.
        width: E.
        norm_eps: ε of both normalisations.
        bias: whether the linear layer between them has one.
    """

    def __init__(self, patches: int, words: int, word_width: int, width: int, norm_eps: float, bias: bool) -> None:
        super().__init__()
        self.patches = patches
        self.norm = nn.LayerNorm(words * word_width, eps=norm_eps)
        self.linear = nn.Linear(words * word_width, width, bias=bias)
        self.output_norm = nn.LayerNorm(width, eps=norm_eps)

    def forward(self, words: Tensor) -> Tensor:
        """``[B P, M, I]`` → ``[B, P, E]``."""
        joined_BPF = words.reshape(-1, self.patches, words.shape[1] * words.shape[2])
        tokens_BPE: Tensor = self.output_norm(self.linear(self.norm(joined_BPF)))
        return tokens_BPE
