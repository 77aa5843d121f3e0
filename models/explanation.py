"""``attendant models explain``: from a checkpoint and a file or a text to a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from attendant.errors import ConfigError, InputError
from attendant.images import pixels_from_file
from attendant.tasks import TASKS, resolve
from attendant.tokenization import load_tokenizer
from models.checkpoints.store import Checkpoint
from models.explain.alignments import alignments
from models.explain.captions import caption_attention, word_maps
from models.explain.drawing import draw_alignment, draw_maps, draw_over_image
from models.explain.images import attention_maps, class_gradient_rollout, class_rollout, patch_map
from models.explain.positions import position_similarity
from models.explain.rollout import Fusion
from models.explain.windows import received_attention
from models.generate import caption_greedily, translate_greedily


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be explained.

    Attributes:
        subject: an image file, or a text.
        out: the figure's file.
        fusion: of the heads, in a rollout.
        discard: share of each layer's weights that a rollout leaves out.
        label: whose evidence is shown; the most probable one if not given.
    """

    subject: str
    out: Path
    fusion: Fusion = "mean"
    discard: float = 0.0
    label: str | None = None


def explain(checkpoint: Checkpoint, wish: Wish) -> str:
    """Draw what a model attends to; a sentence that says what was answered.

    Raises:
        InputError: the image or the text cannot be read.
        ConfigError: the model has nothing of the kind to show, or an argument means nothing.
        OutputError: the figure cannot be written.
    """
    task = checkpoint.family.task
    if not task.explain:
        known = sorted(one.name for one in TASKS.values() if one.explain)
        raise ConfigError(f"a model of the tasks {known}", repr(task.name), "explain another model")
    sentence: str = resolve(task.explain)(checkpoint, wish)
    return sentence


def explain_positions(checkpoint: Checkpoint, out: Path) -> str:
    """Draw how alike the learned positions of a model of images are.

    Raises:
        ConfigError: it has none.
        OutputError: the figure cannot be written.
    """
    table = checkpoint.model.state_dict().get("positions.table")
    if table is None:
        raise ConfigError("a model with learned positions of patches", checkpoint.family.name, "explain another model")
    side = int((table.shape[-2] - 1) ** 0.5)
    maps = position_similarity(table[0, -side * side :], (side, side)).numpy()
    draw_maps(list(maps), side, out)
    return f"{side} × {side} positions"


def explain_image(checkpoint: Checkpoint, wish: Wish) -> str:
    """A classifier: over windows what each place receives; else rollouts, the heads and a label's evidence."""
    pixels_1CHW = _pixels(checkpoint, wish)
    with torch.no_grad():
        shares_K: Tensor = checkpoint.model(pixels_1CHW)[0].softmax(-1)
    labels = checkpoint.details.get("labels") or [str(index) for index in range(len(shares_K))]
    index = _index_of(wish.label, labels, int(shares_K.argmax()))
    received = received_attention(checkpoint.model, pixels_1CHW)
    maps = {f"received, layer {layer}": one for layer, one in enumerate(received.values(), start=1)} or {
        **_token_maps(checkpoint.model, pixels_1CHW, wish),
        f"evidence for {labels[index]}": class_gradient_rollout(
            checkpoint.model, pixels_1CHW, torch.tensor([index]), wish.discard
        ),
    }
    draw_over_image(_shown(pixels_1CHW[0]), {title: one[0].numpy() for title, one in maps.items()}, wish.out)
    return f"{labels[index]} ({shares_K[index]:.1%})"


def _pixels(checkpoint: Checkpoint, wish: Wish) -> Tensor:
    preprocessing = checkpoint.details.get("preprocessing")
    if preprocessing is None:
        raise ConfigError("a checkpoint that says how to prepare an image", "no preprocessing", "explain another model")
    return torch.from_numpy(pixels_from_file(Path(wish.subject), preprocessing))[None]


def _token_maps(model: nn.Module, pixels: Tensor, wish: Wish) -> dict[str, Tensor]:
    last_1HSS = attention_maps(model, pixels)[-1]
    heads = {f"last layer, head {head}": patch_map(one) for head, one in enumerate(last_1HSS.unbind(1), start=1)}
    return {f"rollout, {wish.fusion} of heads": class_rollout(model, pixels, wish.fusion, wish.discard), **heads}


def _index_of(label: str | None, labels: Sequence[str], best: int) -> int:
    if label is None:
        return best
    if label not in labels:
        raise InputError(f"a label, one of {list(labels)[:20]}", repr(label), "correct --label")
    return labels.index(label)


def _shown(pixels_CHW: Tensor) -> NDArray[np.uint8]:
    least, most = pixels_CHW.amin(), pixels_CHW.amax()
    values_HWC = ((pixels_CHW - least) / (most - least).clamp(min=1e-6) * 255).byte().permute(1, 2, 0).numpy()
    return np.asarray(Image.fromarray(values_HWC.squeeze()))


def explain_text(checkpoint: Checkpoint, wish: Wish) -> str:
    """A translator: which source token each token of the answer looks at."""
    assert checkpoint.folder is not None
    tokenizer = load_tokenizer(checkpoint.folder, checkpoint.details.get("tokenizer"))
    config, model = checkpoint.config, checkpoint.model
    source = tokenizer.encode(wish.subject, config.max_source_length)
    source_1S = torch.tensor([source])
    mask_1S = torch.ones_like(source_1S, dtype=torch.bool)
    answer = translate_greedily(model, source_1S, mask_1S, config.max_target_length - 1)[0]  # type: ignore[arg-type]
    weights_LHTS = alignments(model, source_1S, mask_1S, torch.tensor([[config.start_token, *answer[:-1]]]))[0]
    rows = [[_visible(tokenizer.decode([token])) for token in tokens] for tokens in (source, answer)]
    draw_alignment(rows[0], rows[1], weights_LHTS[-1].mean(0).numpy(), wish.out)
    return tokenizer.decode(answer)


def _visible(token: str) -> str:
    return token.replace(" ", "␣") or "·"


def explain_caption(checkpoint: Checkpoint, wish: Wish) -> str:
    """A captioner: where each word looks."""
    assert checkpoint.folder is not None
    tokenizer = load_tokenizer(checkpoint.folder, checkpoint.details.get("tokenizer"))
    pixels_1CHW, config = _pixels(checkpoint, wish), checkpoint.config
    answer = caption_greedily(checkpoint.model, pixels_1CHW, config.max_target_length - 1)[0]  # type: ignore[arg-type]
    target_1T = torch.tensor([[config.start_token, *answer[:-1]]])
    maps_Thw = word_maps(caption_attention(checkpoint.model, pixels_1CHW, target_1T))[0]
    titles = [f"{number}. {_visible(tokenizer.decode([token]))}" for number, token in enumerate(answer, start=1)]
    drawn = {title: one.numpy() for title, one in zip(titles, maps_Thw, strict=True)}
    draw_over_image(_shown(pixels_1CHW[0]), drawn, wish.out)
    return tokenizer.decode(answer)
