"""Keep an imported tokenizer, and the chat template that comes with it, beside the imported weights."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

from attendant.chat_template import template_fault
from attendant.errors import ArtefactError, MachineError
from attendant.records import read_file, read_json
from attendant.tokenizer import MARIAN_FILES, TOKENIZER_NAME
from models.checkpoints.file_names import CHAT_TEMPLATE_NAME
from models.checkpoints.importers.library import quietly, transformers

# What tokenizers without a tokenizer.json consist of, and whose they are.
_SLOW = (("vocab.json", "merges.txt"), ("vocab.txt",), ("spiece.model",), ("tokenizer.model",))
_SPECIALS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
TEXTS = ("The house is small.", "Three cats, 2 dogs and 1 naïve fox!", "日本 😀")
"""What tokenizers are compared on; of punctuation only what no version of Marian's rewrites."""


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
    options = {"gguf_file": source.name} if source.is_file() else {}
    source = source.parent if options else source
    beside = {**_json(source / "special_tokens_map.json"), **_json(source / "tokenizer_config.json")}
    config = {**(stated or {}), **beside}
    if (source / TOKENIZER_NAME).is_file():
        shutil.copyfile(source / TOKENIZER_NAME, folder / TOKENIZER_NAME)
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
    template = _template(source, config)
    if template is None:
        return details
    if fault := template_fault(template):
        remedy = f"correct {CHAT_TEMPLATE_NAME} or tokenizer_config.json, or take the template out"
        raise ArtefactError(f"a chat template that Jinja can read in {source}", fault, remedy)
    (folder / CHAT_TEMPLATE_NAME).write_text(template, encoding="utf-8")
    tokens = {name: config[name] for name in _SPECIALS if config.get(name)}
    texts = {name: token.get("content") if isinstance(token, dict) else token for name, token in tokens.items()}
    wrong = [name for name, text in texts.items() if not isinstance(text, str)]
    if wrong:
        expected = f"a text as {wrong[0]} in tokenizer_config.json, or an object with its content"
        raise ArtefactError(expected, repr(tokens[wrong[0]])[:100], "correct it")
    return {**details, "special_tokens": texts}


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


def _template(source: Path, config: Mapping[str, Any]) -> str | None:
    path = source / CHAT_TEMPLATE_NAME
    if path.is_file():
        try:
            return read_file(path).decode()
        except (OSError, ValueError) as error:
            raise ArtefactError(f"a chat template at {path}", str(error), "copy the file again") from error
    found = config.get("chat_template")
    if isinstance(found, list):  # several, by name
        every = [one for one in found if isinstance(one, dict)]
        found = next((one.get("template") for one in every if one.get("name") == "default"), None)
    if found is not None and not isinstance(found, str):
        raise ArtefactError("a text as chat_template in tokenizer_config.json", repr(found)[:100], "correct it")
    return found


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = read_json(path)
    except (OSError, ValueError) as error:
        raise ArtefactError(f"JSON in {path}", str(error), "copy the file again") from error
    return value if isinstance(value, dict) else {}
