"""From a Hugging Face folder to a checkpoint folder of ours, compared with the library that wrote it."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from attendant.errors import ConfigError
from attendant.names import require_plain_name
from attendant.progress import progress
from attendant.suppression import suppression_fault
from attendant.tokenization import load_tokenizer
from models.checkpoints.blank import blank
from models.checkpoints.example import example_for, image_example, token_ids_example
from models.checkpoints.file_names import BITS_NAME
from models.checkpoints.fitting import require_fitting
from models.checkpoints.folder import replaced_checkpoint
from models.checkpoints.importers import compare
from models.checkpoints.importers.architecture import Architecture, ReferenceModel
from models.checkpoints.importers.companions import keep_companions
from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.folder import refuse_place
from models.checkpoints.importers.generation import end_tokens, generation_details
from models.checkpoints.importers.library import LIBRARIES
from models.checkpoints.importers.pairing import canonical_names, fill_from, pair
from models.checkpoints.importers.registry import architecture_of
from models.checkpoints.importers.source import ImportSource, opened_source
from models.checkpoints.importers.timm import flatten_config, is_timm
from models.checkpoints.place import GGUF_SUFFIX
from models.checkpoints.store import Checkpoint, load_checkpoint, save_checkpoint, write_config
from models.registry import FAMILIES

_NOT_COMPARED = {
    "transformers": "not compared with transformers, of which no version from 5 on is installed",
    "timm": "not compared with timm, which is not installed, or without a torchvision that works",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import did.

    Attributes:
        name: of the checkpoint.
        family: ours.
        architecture: as the imported folder calls it.
        parameters: how many numbers were imported.
        notes: what the user should read.
        difference: from the other library's outputs, see :mod:`models.checkpoints.importers.compare`; none if the
            library is not installed.
    """

    name: str
    family: str
    architecture: str
    parameters: int
    notes: tuple[str, ...]
    difference: float | None


def import_checkpoint(source: Path, out: Path, name: str | None = None, max_length: int | None = None) -> Imported:
    """Read a Hugging Face folder, and write a checkpoint folder in one step.

    Args:
        source: the folder with ``config.json``, safetensors and a tokenizer; or a GGUF file, or the folder of one.
        out: the folder to write.
        name: of the checkpoint; the folder's if not given.
        max_length: longest sequence; as :meth:`ReferenceModel.length` says if not given.

    Raises:
        UnknownNameError: the architecture is not supported.
        ConfigError: the configuration asks for what our model does not do.
        ArtefactError: a file or a tensor is missing, damaged, or one too many; the name cannot be a folder's.
        OutputError: the place cannot be written.
        ParityError: the imported model does not compute what the other library's does.
        MachineError: the tokenizer has to be converted by a library that is not installed, or that library cannot read
            the folder.
    """
    name = name or source.resolve().name.removesuffix(GGUF_SUFFIX)
    require_plain_name(name)
    refuse_place(source, out)
    with opened_source(source) as opened, replaced_checkpoint(out) as staged:
        values, tensors, architecture = opened.values, opened.tensors, architecture_of(opened.values)
        names = canonical_names(architecture, tensors)
        reference = ReferenceModel(
            fields=Fields(flatten_config(values) if is_timm(values) else values),
            values=values,
            names=names.keys(),
            generation=opened.generation,
            tokenizer=opened.tokenizer,
            asked_length=max_length,
            notes=list(opened.notes),
        )
        family = FAMILIES[architecture.family]
        config = architecture.config_from(reference)
        reference.fields.refuse_rest()
        build = partial(family.build, config)
        require_fitting(build, config, tensors.shapes)
        details = generation_details(reference.generation) if family.task.answers == "text" else {}
        vocabulary = getattr(config, "target_vocabulary_size", getattr(config, "vocabulary_size", 0))
        if fault := suppression_fault(details, vocabulary) if details else "":
            expected = "suppress_tokens and bad_words_ids that leave a token to say"
            raise ConfigError(expected, fault, "correct generation_config.json or config.json")
        ends = end_tokens(reference.generation) if family.task.answers == "text" else []
        if family.task.name == "generate" or len(ends) > 1:  # others have one of their own
            details["end_tokens"] = ends
        for field, value in details.get("generation_not_followed", {}).items():
            reference.notes.append(f"not followed yet when answers are decoded: {field} {value}")
        details |= keep_companions(opened.place, staged, family.task, reference, config)
        model = blank(build)
        checkpoint = Checkpoint(name=name, family=family, model=model, details=details)
        pairing = pair(model, architecture.origins(config), architecture, names, tensors.zeros)
        if pairing.ignored:
            reference.notes.append(
                f"{len(pairing.ignored)} tensors that the model does not need: {pairing.ignored[0]} …"
            )
        with progress(f"import {checkpoint.name}", len(pairing.origins)) as advance:
            integers = fill_from(model, pairing, tensors, advance)
        bits = min((one.bits for one in integers.values()), default=None)
        if bits == 8 or (bits and family.task.answers == "text"):
            details[BITS_NAME] = bits
            reference.notes.append(
                f"{len(integers)} matrices in integers of {bits} bits: an export keeps them, in int{bits}; one with"
                " --precision fp32 computes with the numbers that they stand for"
            )
        save_checkpoint(checkpoint, staged, integers)
        parameters = sum(int(tensor.numel()) for tensor in model.state_dict().values())
        model.to("meta")  # its memory is needed for what follows
        difference = _compare(staged, opened, architecture, reference.notes)
    return Imported(
        name=checkpoint.name,
        family=architecture.family,
        architecture=architecture.classes[0],
        parameters=parameters,
        notes=tuple(reference.notes),
        difference=difference,
    )


def _compare(staged: Path, opened: ImportSource, architecture: Architecture, notes: list[str]) -> float | None:
    loaded = load_checkpoint(staged)
    tokenizer = load_tokenizer(staged, loaded.details["tokenizer"]) if "tokenizer" in loaded.details else None
    if tokenizer is not None:
        try:
            example = example_for(loaded, tokenizer)
        except IndexError as error:  # of the table of embeddings: a tokenizer adds tokens of its own as well
            remedy = "copy the tokenizer of this very model"
            raise ConfigError(
                "a tokenizer whose tokens the model has", f"tokens beyond them: {error}", remedy
            ) from error
    else:
        example = token_ids_example(loaded) if loaded.family.task.name == "generate" else image_example(loaded)
    write_config(replace(loaded, example=example), staged)
    library = LIBRARIES[architecture.library]()
    if library is None:
        notes.append(_NOT_COMPARED[architecture.library])
        return None
    if tokenizer and opened.place.is_dir():
        notes.extend(compare.other_tokens(library, opened.place, tokenizer))
    inputs, task = compare.inputs_for(loaded), loaded.family.task.name
    found = compare.ours(loaded, inputs)
    unpooled = getattr(loaded.config, "pooler", None) is False
    del loaded  # two models at a time would be twice the memory
    read = (opened.values, opened.tensors) if opened.quantised else None
    wanted = compare.theirs(library, architecture, opened.place, task, inputs, read)
    compared = 1 if unpooled else len(found)  # the library makes a pooler up where the file has none
    return compare.largest_difference(found[:compared], wanted[:compared], inputs.get("mask"))
