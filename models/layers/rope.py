"""Rotary position embedding: turn every pair of a head's dimensions by an angle that grows with the position.

    angle(p, i) = p · f_i        f_i = θ^(−2i/D)        0 ≤ i < D/2
    (a, b) → (a cos − b sin, a sin + b cos)        so that ⟨rotated q at m, rotated k at n⟩ depends on m − n alone

    half: the pair i is dimensions i and i + D/2        interleaved: it is dimensions 2i and 2i + 1

    linear: f_i / factor        ntk: θ′ = θ · factor^(D/(D−2))
    llama3: (1 − s) f_i / factor + s f_i        s = (original_length · f_i / 2π − low) / (high − low), held in [0, 1]
    yarn: (1 − s) f_i / factor + s f_i          s falls from 1 to 0 between the pairs that turn high and low times in
        the original length        longrope: f_i / factors_i, and from position original_length on f_i / long_factors_i
        cos and sin of both times attention_factor
    proportional: f_i / factor, and 0 from pair rotated_pairs on

Legend: B batch, S positions, H heads, D head size.
Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2 (interleaved; the
half layout is GPT-NeoX's); Chen et al. 2023, "Extending Context Window of Large Language Models via Position
Interpolation", section 2.3 (linear); Peng et al. 2024, "YaRN", sections 3.1 (ntk) to 3.4 (yarn); Ding et al. 2024,
"LongRoPE", section 3; Meta's Llama 3.1 reference code, ``apply_scaling`` (llama3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from attendant.config import require, require_positive

Layout = Literal["half", "interleaved"]
Scaling = Literal["none", "linear", "ntk", "llama3", "yarn", "longrope", "proportional"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """Which dimensions pair up, how fast they turn, and how a longer context slows them.

    Attributes:
        theta: the base θ of the wavelengths.
        layout: which dimensions form a pair.
        scaling: how the frequencies are lowered for contexts longer than those of training.
        factor: how many times longer the context becomes; every scaling but "none" and "longrope" has it.
        low_frequency_factor: llama3 and yarn: turns within the original length below which a pair is slowed in full.
        high_frequency_factor: llama3 and yarn: turns above which it is left as it was.
        original_length: llama3 and yarn: positions of the training context; longrope: those before ``long_factors``.
        truncated: yarn alone: whether those turns are rounded to whole pairs.
        factors: longrope alone: what each pair is slowed by, or one number for all.
        long_factors: longrope alone: the same of positions from ``original_length`` on, if there are such.
        rotated_pairs: proportional alone: how many pairs turn, the fastest.
        attention_factor: yarn and longrope: what cosines and sines are multiplied by.
    """

    theta: float = 10000.0
    layout: Layout = "half"
    scaling: Scaling = "none"
    factor: float = 1.0
    low_frequency_factor: float = 0.0
    high_frequency_factor: float = 0.0
    original_length: int = 0
    truncated: bool = True
    factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    rotated_pairs: int = 0
    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        require(_is_positive(self.theta), "theta to be a positive number", repr(self.theta))
        require(self.layout in get_args(Layout), f"a layout of {get_args(Layout)}", repr(self.layout))
        require(self.scaling in get_args(Scaling), f"a scaling of {get_args(Scaling)}", repr(self.scaling))
        require(_is_positive(self.factor), "factor to be a positive number", repr(self.factor))
        require(self.scaling != "none" or self.factor == 1, "a factor of 1 without scaling", repr(self.factor))
        scaled = self.scaling in ("yarn", "longrope")
        require(_is_positive(self.attention_factor), "a positive attention_factor", repr(self.attention_factor))
        require(scaled or self.attention_factor == 1, "no attention_factor", repr(self.attention_factor))
        require(bool(self.factors) == (self.scaling == "longrope"), "factors under longrope only", repr(self.factors))
        every = (*self.factors, *self.long_factors)
        require(all(map(_is_positive, every)), "positive factors", repr(every)[:200])
        long = bool(self.long_factors)
        require(not long or bool(self.factors), "long_factors under longrope only", repr(self.long_factors)[:200])
        pairs = self.rotated_pairs if self.scaling == "proportional" else 0
        require(type(pairs) is int and pairs >= 0, "rotated_pairs of at least 0", repr(self.rotated_pairs))
        require(pairs == self.rotated_pairs, "rotated_pairs under proportional only", repr(self.rotated_pairs))
        if self.scaling in ("llama3", "yarn"):
            low, high = self.low_frequency_factor, self.high_frequency_factor
            ordered = self.scaling == "yarn" or (_is_positive(low) and _is_positive(high) and low < high)
            require(
                _is_positive(low) and _is_positive(high) and ordered,
                "0 < low_frequency_factor < high_frequency_factor",
                repr((low, high)),
            )
            require_positive(self, "original_length")
        elif long:
            require_positive(self, "original_length")
        else:
            bounds = self.low_frequency_factor, self.high_frequency_factor, self.original_length
            require(
                not any(bounds),
                "frequency factors and original_length under llama3 and yarn scaling only",
                repr(bounds),
            )


@dataclass(frozen=True, slots=True)
class Rotation:
    """Cosines and sines ``[B, 1, S, D/2]`` of the positions of one call, shared by every layer and head.

    Attributes:
        exact: the same as they were computed, if these are rounded.
    """

    cos: Tensor
    sin: Tensor
    layout: Layout
    exact: Rotation | None = None

    def to(self, dtype: torch.dtype) -> Rotation:
        """The same in another type: once for all layers, instead of in each."""
        if self.cos.dtype is dtype:
            return self
        return Rotation(self.cos.to(dtype), self.sin.to(dtype), self.layout, self.exact or self)

    def apply(self, x_BHSD: Tensor) -> Tensor:
        """Rotate queries or keys ``[B, H, S, D]``; the result has their type."""
        cos, sin = self.cos.to(x_BHSD.dtype), self.sin.to(x_BHSD.dtype)
        if self.layout == "half":
            first, second = x_BHSD.chunk(2, dim=-1)
            return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
        first, second = x_BHSD[..., ::2], x_BHSD[..., 1::2]
        return torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1).flatten(-2)


class Rope(nn.Module):
    """The rotation of any positions, for heads of one size.

    Raises:
        ConfigError: the head size is odd, or two under ntk scaling, whose base is infinite there, or it has another
            number of pairs than longrope has factors.
    """

    frequencies: Tensor
    long_frequencies: Tensor | None

    def __init__(self, head_size: int, config: RopeConfig) -> None:
        super().__init__()
        require(head_size > 0 and head_size % 2 == 0, "an even head size", head_size, "change the head size")
        require(config.scaling != "yarn" or config.theta != 1, "another theta than 1 under yarn scaling", config.theta)
        require(config.scaling != "ntk" or head_size > 2, "a head size above 2 under ntk scaling", head_size)
        for count in (len(config.factors), len(config.long_factors)):
            require(count in (0, 1, head_size // 2), f"{head_size // 2} factors, one a pair", count)
        self.layout: Layout = config.layout
        self.attention_factor = config.attention_factor
        self.register_buffer("frequencies", _frequencies(head_size, config), persistent=False)
        self.original_length = config.original_length
        long = None
        if config.long_factors:
            long = replace(config, factors=config.long_factors, long_factors=(), original_length=0)
        frequencies = None if long is None else _frequencies(head_size, long)
        self.register_buffer("long_frequencies", frequencies, persistent=False)

    def forward(self, positions: Tensor) -> Rotation:
        """The rotation of int64 positions ``[B, S]``; angles are computed in float32 or better."""
        precise = torch.promote_types(self.frequencies.dtype, torch.float32)
        positions_B1S1, frequencies = positions[:, None, :, None], self.frequencies.to(precise)
        if self.long_frequencies is not None:
            is_long = positions_B1S1 >= self.original_length
            frequencies = torch.where(is_long, self.long_frequencies.to(precise), frequencies)
        angles_B1SF = positions_B1S1.to(precise) * frequencies
        cos, sin = angles_B1SF.cos(), angles_B1SF.sin()
        if self.attention_factor != 1:
            cos, sin = cos * self.attention_factor, sin * self.attention_factor
        return Rotation(cos, sin, self.layout)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rope:
        # A model cast to half precision keeps these: rounded to 11 bits, position 4096 would be off by a radian.
        exact, exact_long = self.frequencies, self.long_frequencies
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if torch.finfo(self.frequencies.dtype).bits < 32:
            self.frequencies = exact.to(self.frequencies.device)
            self.long_frequencies = None if exact_long is None else exact_long.to(self.frequencies.device)
        return self


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and 0 < value < math.inf


def _frequencies(head_size: int, config: RopeConfig) -> Tensor:
    theta = config.theta
    if config.scaling == "ntk":
        theta *= config.factor ** (head_size / (head_size - 2))
    powers_F = theta ** (torch.arange(0, head_size, 2).float() / head_size)
    if config.scaling == "yarn":
        return _ramp(powers_F, head_size, config)
    if config.scaling == "longrope":
        return 1.0 / (torch.tensor(config.factors) * powers_F)
    frequencies_F = 1.0 / powers_F
    if config.scaling == "proportional":
        frequencies_F[config.rotated_pairs :] = 0
    if config.scaling in ("linear", "proportional"):
        return frequencies_F / config.factor
    return _smooth(frequencies_F, config) if config.scaling == "llama3" else frequencies_F


def _smooth(frequencies_F: Tensor, config: RopeConfig) -> Tensor:
    low, high = config.low_frequency_factor, config.high_frequency_factor
    turns_F = config.original_length / (2 * math.pi / frequencies_F)
    kept_F = ((turns_F - low) / (high - low)).clamp(0, 1)
    return (1 - kept_F) * frequencies_F / config.factor + kept_F * frequencies_F


def _ramp(powers_F: Tensor, head_size: int, config: RopeConfig) -> Tensor:
    ends = [_pair_of(turns, head_size, config) for turns in (config.high_frequency_factor, config.low_frequency_factor)]
    first, last = (math.floor(ends[0]), math.ceil(ends[1])) if config.truncated else ends
    first, last = max(first, 0), min(last, head_size - 1)
    last += 0.001 if first == last else 0
    slowed_F = ((torch.arange(len(powers_F)).float() - first) / (last - first)).clamp(0, 1)
    kept_F = 1 - slowed_F
    return 1.0 / (config.factor * powers_F) * (1 - kept_F) + 1.0 / powers_F * kept_F


def _pair_of(turns: float, head_size: int, config: RopeConfig) -> float:
    """Which pair, a fraction too, turns so often within the original length."""
    return head_size * math.log(config.original_length / (turns * 2 * math.pi)) / (2 * math.log(config.theta))
