"""``attendant models explain``: from a checkpoint and a file or a text to a figure."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from attendant.errors import ConfigError, InputError
from attendant.images import pixels_from_file
from attendant.tasks import TASKS, resolve
from attendant.tokenization import load_tokenizer
from models.checkpoints.store import Checkpoint
from models.explain.alignments import alignments
from models.explain.captions import caption_attention, word_maps
from models.explain.drawing import draw_alignment, draw_maps, draw_over_image
from models.explain.images import attention_maps, class_gradient_rollout, class_rollout, patch_map
from models.explain.observe import observe
from models.explain.positions import position_similarity
from models.explain.rollout import Fusion
from models.explain.windows import received_attention
from models.generate import caption_greedily, continue_greedily, translate_greedily

_CONTINUED = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """What is to be explained, and how.

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


def explain(checkpoint: Checkpoint, options: ExplainOptions) -> str:
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
    sentence: str = resolve(task.explain)(checkpoint, options)
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


def explain_image(checkpoint: Checkpoint, options: ExplainOptions) -> str:
    """A classifier: over windows what each place receives; else rollouts, the heads and a label's evidence."""
    pixels_1CHW = _pixels(checkpoint, options)
    with torch.no_grad():
        shares_K: Tensor = checkpoint.model(pixels_1CHW)[0].softmax(-1)
    labels = checkpoint.details.get("labels") or [str(index) for index in range(len(shares_K))]
    if options.label is not None and options.label not in labels:
        raise InputError(f"a label, one of {list(labels)[:20]}", repr(options.label), "correct --label")
    meant = [one for one, label in enumerate(labels) if options.label in (None, label)]  # several may have one name
    index = max(meant, key=lambda one: float(shares_K[one]))
    received = received_attention(checkpoint.model, pixels_1CHW)
    maps = {f"received, layer {layer}": one for layer, one in enumerate(received.values(), start=1)}
    if not maps:
        model, one_class = checkpoint.model, torch.tensor([index])
        last_1HSS = attention_maps(model, pixels_1CHW)[-1]
        rollout_1hw = class_rollout(model, pixels_1CHW, options.fusion, options.discard)
        maps = {
            f"rollout, {options.fusion} of heads": rollout_1hw,
            **{f"last layer, head {head}": patch_map(one) for head, one in enumerate(last_1HSS.unbind(1), start=1)},
            f"evidence for {labels[index]}": class_gradient_rollout(model, pixels_1CHW, one_class, options.discard),
        }
    draw_over_image(_to_picture(pixels_1CHW[0]), {title: one[0].numpy() for title, one in maps.items()}, options.out)
    return f"{labels[index]} ({shares_K[index]:.1%})"


def _pixels(checkpoint: Checkpoint, options: ExplainOptions) -> Tensor:
    preprocessing = checkpoint.details.get("preprocessing")
    if preprocessing is None:
        raise ConfigError("a checkpoint that says how to prepare an image", "no preprocessing", "explain another model")
    return torch.from_numpy(pixels_from_file(Path(options.subject), preprocessing))[None]


def _to_picture(pixels_CHW: Tensor) -> NDArray[np.uint8]:
    least, most = pixels_CHW.amin(), pixels_CHW.amax()
    values_HWC = ((pixels_CHW - least) / (most - least).clamp(min=1e-6) * 255).byte().permute(1, 2, 0).numpy()
    return np.asarray(Image.fromarray(values_HWC.squeeze()))


def explain_text(checkpoint: Checkpoint, options: ExplainOptions) -> str:
    """A translator: which source token each token of the answer looks at."""
    assert checkpoint.folder is not None
    tokenizer = load_tokenizer(checkpoint.folder, checkpoint.details.get("tokenizer"))
    config, model = checkpoint.config, checkpoint.model
    source = tokenizer.encode(options.subject, config.max_source_length)
    source_1S = torch.tensor([source])
    mask_1S = torch.ones_like(source_1S, dtype=torch.bool)
    answer = translate_greedily(model, source_1S, mask_1S, config.max_target_length - 1)[0]  # type: ignore[arg-type]
    weights_LHTS = alignments(model, source_1S, mask_1S, torch.tensor([[config.start_token, *answer[:-1]]]))[0]
    rows = [[_show_spaces(tokenizer.decode([token])) for token in tokens] for tokens in (source, answer)]
    draw_alignment(rows[0], rows[1], weights_LHTS[-1].mean(0).numpy(), options.out)
    return tokenizer.decode(answer)


def explain_continuation(checkpoint: Checkpoint, options: ExplainOptions) -> str:
    """A language model: what each token that it adds looks at, in its last layer, by the mean of its heads."""
    if checkpoint.folder is None:
        raise ConfigError("a checkpoint with a tokenizer", "a preset", "explain another model")
    tokenizer, model = load_tokenizer(checkpoint.folder, checkpoint.details.get("tokenizer")), checkpoint.model
    prompt = tokenizer.encode(options.subject, checkpoint.config.max_length - 1)
    limit = min(_CONTINUED, checkpoint.config.max_length - len(prompt))
    answer = continue_greedily(model, prompt, limit, checkpoint.details.get("end_tokens") or ())
    if not answer:
        raise InputError("a prompt that the model continues", "one that it ends at once", "give another")
    tokens = [*prompt, *answer[:-1]]
    with torch.no_grad(), observe(model) as maps:
        model(torch.tensor([tokens]))
    ((last_HTT,),) = list(maps.values())[-1]
    rows = [[_show_spaces(tokenizer.decode([token])) for token in shown] for shown in (tokens, answer)]
    weights_TS = last_HTT.mean(0)[len(prompt) - 1 :].numpy()
    draw_alignment(rows[0], rows[1], weights_TS, options.out, read="tokens before")
    return tokenizer.decode(answer)


def _show_spaces(token: str) -> str:
    return token.replace(" ", "␣") or "·"


def explain_caption(checkpoint: Checkpoint, options: ExplainOptions) -> str:
    """A captioner: where each word looks."""
    assert checkpoint.folder is not None
    tokenizer = load_tokenizer(checkpoint.folder, checkpoint.details.get("tokenizer"))
    pixels_1CHW, config = _pixels(checkpoint, options), checkpoint.config
    answer = caption_greedily(checkpoint.model, pixels_1CHW, config.max_target_length - 1)[0]  # type: ignore[arg-type]
    target_1T = torch.tensor([[config.start_token, *answer[:-1]]])
    maps_Thw = word_maps(caption_attention(checkpoint.model, pixels_1CHW, target_1T))[0]
    titles = [f"{number}. {_show_spaces(tokenizer.decode([token]))}" for number, token in enumerate(answer, start=1)]
    drawn = {title: one.numpy() for title, one in zip(titles, maps_Thw, strict=True)}
    draw_over_image(_to_picture(pixels_1CHW[0]), drawn, options.out)
    return tokenizer.decode(answer)
