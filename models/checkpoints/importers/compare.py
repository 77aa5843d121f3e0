"""Compare an imported checkpoint with the library that it came from: the same inputs, the same outputs.

Legend: B batch, S positions, T target positions, V vocabulary.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attendant.errors import MachineError, ParityError
from attendant.tasks import TASKS, resolve
from attendant.tokenizer import SpecialText, TextTokenizer, Tokenizer
from models.checkpoints.importers.architecture import Architecture
from models.checkpoints.importers.library import quietly
from models.checkpoints.importers.reader import TensorSource
from models.checkpoints.importers.tokenizer import TEXTS
from models.checkpoints.store import Checkpoint

TOLERANCE = 1e-4
"""The largest difference, in units of the largest output or of one, whichever is larger; both compute in float32."""
BLANKS = (" two  blanks ", "a line\n\nanother\tone\n")
"""Texts that a library may read by rules of its own for an architecture, as T5's, whatever tokenizer.json says."""
_BATCH, _LENGTH, _LONGEST = 2, 24, 256
_REMEDY = "the import is at fault: nothing was written; please report it with config.json"
Inputs = dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How models of one task are compared.

    Attributes:
        inputs: from a configuration to random inputs: two rows, one padded where the model knows padding, past a short
            window.
        run: the library's model, and what it makes of them.
    """

    inputs: Callable[[Any, torch.Generator], Inputs]
    run: Callable[[Any, Inputs], list[Tensor]]


def inputs_for(checkpoint: Checkpoint) -> Inputs:
    """Random pixels or tokens, the same in every run."""
    comparison: Comparison = resolve(checkpoint.family.task.comparison)
    return comparison.inputs(checkpoint.config, torch.Generator().manual_seed(0))


def ours(checkpoint: Checkpoint, inputs: Inputs) -> list[Tensor]:
    """What our model makes of the inputs."""
    with torch.no_grad():
        outputs = checkpoint.model(**inputs)
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def theirs(
    library: Any,
    architecture: Architecture,
    folder: Path,
    task: str,
    inputs: Inputs,
    read: tuple[Mapping[str, Any], TensorSource] | None = None,
) -> list[Tensor]:
    """What the library's own model makes of them.

    Args:
        library: transformers or timm.
        architecture: of the folder.
        folder: what it loads.
        task: of our family.
        inputs: as :func:`inputs_for` makes them.
        read: the configuration and the tensors that it is given instead, of a folder in integers.

    Raises:
        MachineError: the library cannot read the folder.
    """
    with quietly(), torch.no_grad():
        try:
            load = _LOAD[architecture.library]
            model = load(library, architecture, folder) if read is None else _fill(library, architecture, *read)
            model.eval()
        except Exception as error:  # whatever a reader of other people's files may raise
            raise MachineError(
                f"{architecture.library} {library.__version__} to load {folder}, for the comparison",
                str(error),
                "install another version, or none: without it nothing is compared",
            ) from error
        comparison: Comparison = resolve(TASKS[task].comparison)
        return comparison.run(model, inputs)


def largest_difference(found: list[Tensor], wanted: list[Tensor], mask: Tensor | None = None) -> float:
    """The largest difference between outputs, in units of the largest one or of 1.

    Args:
        found: ours.
        wanted: theirs.
        mask: bool ``[B, S]``, where outputs for every token mean something.

    Raises:
        ParityError: it is beyond ``TOLERANCE``.
    """
    worst = max(_relative(one, other, mask) for one, other in zip(found, wanted, strict=True))
    if not worst <= TOLERANCE:
        raise ParityError(f"outputs within {TOLERANCE} of the other library's", f"{worst:.2g}", _REMEDY)
    return worst


def other_tokens(library: Any, folder: Path, tokenizer: TextTokenizer) -> list[str]:
    """What the library's tokenizer makes otherwise than ours of a few texts, a sentence for the user each.

    It is no error: the library may read a folder by its own rules for the architecture, and not by ``tokenizer.json``.
    """
    try:
        with quietly():
            other = library.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            specials = [SpecialText(f"a{token}b") for token in other.all_special_tokens]
            texts = [*TEXTS, *BLANKS, *(specials if isinstance(tokenizer, Tokenizer) else ())]
            wanted = {text: list(other(text)["input_ids"]) for text in texts}
    except Exception as error:  # whatever a reader of other people's files may raise
        return [f"tokenizer not compared with transformers: {error}"]
    found = {text: tokenizer.encode(text, longest=10**6) for text in texts}
    different = [text for text, ids in wanted.items() if found[text] != ids]
    return [f"transformers has other tokens for {text!r}: {wanted[text]}, here {found[text]}" for text in different[:1]]


def _relative(found: Tensor, wanted: Tensor, mask: Tensor | None) -> float:
    if found.shape != wanted.shape:
        return float("inf")
    if mask is not None and found.shape[:2] == mask.shape:
        found, wanted = found[mask], wanted[mask]
    difference = (found - wanted).abs().max() / wanted.abs().max().clamp(min=1.0)
    return float(difference.nan_to_num(nan=float("inf")))


def _from_transformers(library: Any, architecture: Architecture, folder: Path) -> Any:
    options = {"dtype": torch.float32, "local_files_only": True, "use_safetensors": True}
    return getattr(library, architecture.classes[0]).from_pretrained(str(folder), **options)


def _fill(library: Any, architecture: Architecture, values: Mapping[str, Any], tensors: TensorSource) -> Any:
    kind = getattr(library, architecture.classes[0])
    config = kind.config_class.from_dict(dict(values))
    weights = {name: tensors.read(name).float() for name in tensors.shapes}
    return kind.from_pretrained(None, config=config, state_dict=weights, dtype=torch.float32)


def _from_timm(library: Any, architecture: Architecture, folder: Path) -> Any:
    return library.create_model(f"local-dir:{folder}", pretrained=True)


_LOAD: dict[str, Callable[[Any, Architecture, Path], Any]] = {"transformers": _from_transformers, "timm": _from_timm}


def _tokens(count: int, length: int, random: torch.Generator) -> Tensor:
    return torch.randint(count, (_BATCH, length), generator=random)


def _padding_mask(token_ids: Tensor) -> Tensor:
    mask = torch.ones_like(token_ids, dtype=torch.bool)
    mask[1, token_ids.shape[1] * 2 // 3 :] = token_ids.shape[1] < 2
    return mask


def _images(config: Any, random: torch.Generator) -> Inputs:
    return {"pixels": torch.randn(_BATCH, *config.pixel_shape, generator=random)}


def _classify(model: Any, inputs: Inputs) -> list[Tensor]:
    outputs = model(inputs["pixels"])
    return [outputs if isinstance(outputs, Tensor) else outputs.logits]


CLASSIFIER = Comparison(inputs=_images, run=_classify)


def _images_and_captions(config: Any, random: torch.Generator) -> Inputs:
    length = min(_LENGTH, config.max_target_length)
    return {**_images(config, random), "target_ids": _tokens(config.vocabulary_size, length, random)}


def _caption(model: Any, inputs: Inputs) -> list[Tensor]:
    outputs = model(pixel_values=inputs["pixels"], decoder_input_ids=inputs["target_ids"], use_cache=False)
    return [outputs.logits]


CAPTIONER = Comparison(inputs=_images_and_captions, run=_caption)


def _prompts(config: Any, random: torch.Generator) -> Inputs:
    window = config.window or 0
    length = window + 8 if _LENGTH < window + 8 <= min(_LONGEST, config.max_length) else _LENGTH
    longest = config.rope.original_length if config.rope and config.rope.long_factors else config.max_length
    return {"token_ids": _tokens(config.vocabulary_size, min(length, longest, config.max_length), random)}


def _generate(model: Any, inputs: Inputs) -> list[Tensor]:
    return [model(input_ids=inputs["token_ids"], use_cache=False).logits]


GENERATOR = Comparison(inputs=_prompts, run=_generate)


def _sources_and_targets(config: Any, random: torch.Generator) -> Inputs:
    source_ids = _tokens(config.vocabulary_size, min(_LENGTH, config.max_source_length), random)
    target_ids = _tokens(config.vocabulary_size, min(_LENGTH, config.max_target_length), random)
    return {"source_ids": source_ids, "source_mask": _padding_mask(source_ids), "target_ids": target_ids}


def _translate(model: Any, inputs: Inputs) -> list[Tensor]:
    mask = inputs["source_mask"].long()
    outputs = model(input_ids=inputs["source_ids"], attention_mask=mask, decoder_input_ids=inputs["target_ids"])
    return [outputs.logits]


TRANSLATOR = Comparison(inputs=_sources_and_targets, run=_translate)


def _texts(config: Any, random: torch.Generator) -> Inputs:
    token_ids = _tokens(config.vocabulary_size, min(_LENGTH, config.max_length), random)
    types = _tokens(config.token_types, token_ids.shape[1], random)
    return {"token_ids": token_ids, "mask": _padding_mask(token_ids), "token_types": types}


def _embed(model: Any, inputs: Inputs) -> list[Tensor]:
    outputs = model(
        input_ids=inputs["token_ids"],
        attention_mask=inputs["mask"].long(),
        token_type_ids=inputs["token_types"],
    )
    return [outputs.last_hidden_state, outputs.pooler_output]


EMBEDDER = Comparison(inputs=_texts, run=_embed)
