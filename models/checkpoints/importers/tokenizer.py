"""Keep an imported tokenizer, and the chat template that comes with it, beside the imported weights."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

from attendant.chat_template import template_fault
from attendant.errors import ArtefactError, MachineError
from attendant.records import read_file
from attendant.tokenizer import MARIAN_FILES, TOKENIZER_NAME
from models.checkpoints.file_names import CHAT_TEMPLATE_NAME
from models.checkpoints.importers.added_tokens import add_tokens, named_tokens, read_settings
from models.checkpoints.importers.library import quietly, transformers

# What tokenizers without a tokenizer.json consist of, and whose they are.
_SLOW = (("vocab.json", "merges.txt"), ("vocab.txt",), ("spiece.model",), ("tokenizer.model",))
_SETTINGS = ("special_tokens_map.json", "tokenizer_config.json")
DEFAULT, TOOL_USE = "default", "tool_use"
"""Names of chat templates, of which transformers takes the second where a request has tools."""
_ADDITIONAL = "additional_chat_templates"
TEXTS = ("The house is small.", "Three cats, 2 dogs and 1 naïve fox!", "日本 😀")
"""What tokenizers are compared on; of punctuation only what no version of Marian's rewrites."""


def has_any_tokenizer(source: Path) -> bool:
    """Whether an imported folder, or that of a file, has the files of a tokenizer, or settings of one."""
    folder = source.parent if source.is_file() else source
    names = {TOKENIZER_NAME, *_SETTINGS, *MARIAN_FILES, *(name for names in _SLOW for name in names)}
    return any((folder / name).is_file() for name in names)


def keep_tokenizer(source: Path, folder: Path, stated: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Copy or convert a tokenizer, and copy the chat template.

    Args:
        source: the imported folder, or GGUF file: files beside it come before what is in it.
        folder: where the imported checkpoint is written.
        stated: what it says of ``tokenizer_config.json`` itself.

    Returns:
        Details of the checkpoint: ``tokenizer``, the options of its loading, and where there is a chat template
        ``special_tokens``, which templates name.

    Raises:
        ArtefactError: there is no tokenizer, or it or the chat template cannot be read.
        MachineError: it has to be converted, and the library for that is not installed.
    """
    options = {"gguf_file": source.name} if stated else {}
    source = source.parent if source.is_file() else source
    settings = {**(stated or {}), **read_settings(source)}
    if (source / TOKENIZER_NAME).is_file():
        shutil.copyfile(source / TOKENIZER_NAME, folder / TOKENIZER_NAME)
        add_tokens(folder / TOKENIZER_NAME, settings)
    elif all((source / name).is_file() for name in MARIAN_FILES):
        for name in MARIAN_FILES:
            shutil.copyfile(source / name, folder / name)
    else:
        path = folder / TOKENIZER_NAME
        present = [names for names in _SLOW if all((source / name).is_file() for name in names)]
        present += [(name,) for name in options.values()]
        if not present:
            wanted = f"{TOKENIZER_NAME}, or {' or '.join('+'.join(names) for names in (MARIAN_FILES, *_SLOW))}"
            raise ArtefactError(f"a tokenizer in {source}: {wanted}", "none", "put the model's tokenizer beside it")
        library = transformers()
        if library is None:
            raise MachineError(
                f"{TOKENIZER_NAME} in {source}, or transformers, from version 5 on, to make it",
                f"{'+'.join(present[0])} alone",
                "pip install transformers, or save the tokenizer elsewhere with AutoTokenizer and save_pretrained",
            )
        try:
            with quietly():
                tokenizer = library.AutoTokenizer.from_pretrained(str(source), local_files_only=True, **options)
                tokenizer.backend_tokenizer.save(str(path))
        except Exception as error:  # whatever a reader of other people's files may raise
            raise ArtefactError(
                f"a tokenizer that transformers can convert in {source}",
                f"{'+'.join(present[0])}: {error}",
                f"install the package gguf, or put {TOKENIZER_NAME} beside the file" if options else "replace it",
            ) from error
        if present[0][0].endswith(".model"):
            _require_same_pieces(path, source / present[0][0])
    details: dict[str, Any] = {"tokenizer": {"unknown": "keep"}}
    templates = _templates(source, settings)
    if DEFAULT not in templates:
        return details
    for template in templates.values():
        if fault := template_fault(template):
            remedy = f"correct {CHAT_TEMPLATE_NAME} or tokenizer_config.json, or take the template out"
            raise ArtefactError(f"a chat template that Jinja can read in {source}", fault, remedy)
    (folder / CHAT_TEMPLATE_NAME).write_text(_joined(templates), encoding="utf-8")
    return {**details, "special_tokens": named_tokens(settings)}


def _require_same_pieces(path: Path, model: Path) -> None:
    ours, theirs = Tokenizer.from_file(str(path)), SentencePieceProcessor(model_proto=model.read_bytes())
    for text in TEXTS:
        found, wanted = ours.encode(text, add_special_tokens=False).ids, theirs.encode(text)
        if found != wanted:
            raise ArtefactError(
                f"the tokens {wanted} of {model.name} for {text!r}",
                f"{found} once transformers has converted it",
                "name its tokenizer_class in tokenizer_config.json, or put a tokenizer.json beside it",
            )


def _templates(source: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    # As transformers finds them: files come before what tokenizer_config.json says.
    files = {DEFAULT: source / CHAT_TEMPLATE_NAME}
    files |= {name: path for name in (DEFAULT, TOOL_USE) if (path := source / _ADDITIONAL / f"{name}.jinja").is_file()}
    found: dict[str, Any] = {}
    for name, path in files.items():
        if path.is_file():
            try:
                found[name] = read_file(path).decode()
            except (OSError, ValueError) as error:
                raise ArtefactError(f"a chat template at {path}", str(error), "copy the file again") from error
    if not found and (stated := settings.get("chat_template")) is not None:
        found = {DEFAULT: stated}
        if isinstance(stated, list):
            named = [(one.get("name"), one.get("template")) for one in stated if isinstance(one, dict)]
            found = {name: template for name, template in named if isinstance(name, str)}
        elif isinstance(stated, dict):
            found = stated
    templates = {name: found[name] for name in (DEFAULT, TOOL_USE) if found.get(name) is not None}
    for template in templates.values():
        if not isinstance(template, str):
            expected = "a text as chat_template in tokenizer_config.json"
            raise ArtefactError(expected, repr(template)[:100], "correct it")
    return templates


def _joined(templates: Mapping[str, str]) -> str:
    # transformers takes the one for tools where there are any. The signs keep Jinja from touching the blanks beside its
    # tags; of the line ends at the end of a template it drops one.
    default, tool_use = (
        template.removesuffix("\n").removesuffix("\r") for template in (templates[DEFAULT], templates.get(TOOL_USE, ""))
    )
    if TOOL_USE not in templates:
        return templates[DEFAULT]
    return f"{{% if tools is not none +%}}{tool_use}{{%+ else +%}}{default}{{%+ endif %}}"
