"""Folders as transformers writes them: tiny models with random weights, and a tokenizer."""

import json

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel

from models.checkpoints.importers.importing import import_checkpoint
from models.checkpoints.store import load_checkpoint
from tests.models.agreement import compare_models, parameters_that_do_not_matter
from tests.oracles.timm_models import timm, timm_model

SPECIALS = ["<pad>", "</s>", "<unk>", "<s>"]
GONE = Ellipsis
LETTERS = "abcdefghijklmnopqrstuvwxyzTH ."
VOCABULARY = len(SPECIALS) + len(LETTERS)


def characters():
    """A tokenizer of one token a letter."""
    entries = {token: number for number, token in enumerate([*SPECIALS, *LETTERS])}
    tokenizer = Tokenizer(WordLevel(entries, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(SPECIALS)
    return tokenizer


def saved(theirs, folder, *, deviation=0.15, **changes):
    """Write a model whose every number is random; change fields of its config.json, GONE taking one out."""
    generator = torch.Generator().manual_seed(1)
    fixed = [name for name, _ in theirs.named_parameters() if theirs.config.model_type == "marian" and "_pos" in name]
    for name, tensor in [*theirs.named_parameters(), *theirs.named_buffers()]:
        if name not in fixed and tensor.is_floating_point() and "inv_freq" not in name:
            noise = deviation * torch.randn(tensor.shape, generator=generator)
            tensor.data = (noise if tensor.ndim > 1 else tensor.data + noise).to(tensor.dtype)
    theirs.save_pretrained(folder)
    characters().save(str(folder / "tokenizer.json"))
    write(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    rewrite(folder / "config.json", **changes)
    return folder


def saved_by_timm(folder, name, *, deviation=0.15, **settings):
    """Write a model of timm's registry whose every number is random, as timm writes it."""
    torch.manual_seed(0)
    theirs, generator = timm_model(name, **settings), torch.Generator().manual_seed(1)
    for parameter in theirs.parameters():
        parameter.data += deviation * torch.randn(parameter.shape, generator=generator)
    timm.models.save_for_hf(theirs, folder, safe_serialization=True)
    return folder


def write(path, **values):
    path.write_text(json.dumps(values))


def rewrite(path, **changes):
    """Change fields of a JSON file; GONE takes one out."""
    value = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: one for name, one in value.items() if one is not GONE}))


def imported(folder, **options):
    """What the importer makes of a folder, read back."""
    out = folder.with_name(folder.name + "-imported")
    import_checkpoint(folder, out, **options)
    return load_checkpoint(out)


def tokens(*shape, seed=0):
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def padding(*lengths):
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def causal(length=11):
    """Inputs of a language model, and how each side is run with them."""
    ids = tokens(2, length)
    return lambda ours: ours(ids), lambda theirs: theirs(input_ids=ids, use_cache=False).logits


def translating():
    """Inputs of a translator, one source padded."""
    source, mask, target = tokens(2, 9), padding(9, 6), tokens(2, 7, seed=1)
    return (
        lambda ours: ours(source, mask, target),
        lambda theirs: theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits,
    )


def looking_at(shape, batch=3):
    """How a model is run on the same images, in its own type."""
    pixels = torch.randn(batch, *shape, generator=torch.Generator().manual_seed(1))
    return lambda model: model(pixels.to(next(model.parameters()).dtype))


def assert_same(checkpoint, kind, folder, runs, dtype=torch.float32, indifferent=()):
    """Ours and theirs, each read from its folder, compute the same; and every parameter of ours matters to that.

    Args:
        checkpoint: ours.
        kind: their class.
        folder: theirs.
        runs: how ours and how theirs is run.
        dtype: the precision of both.
        indifferent: endings of parameters that no output depends on.
    """
    run_ours, run_theirs = runs
    theirs = kind.from_pretrained(folder, dtype=torch.float32).eval()
    error, tolerance = compare_models(checkpoint.model, run_ours, theirs, run_theirs, dtype)
    assert error() <= tolerance
    blind = parameters_that_do_not_matter(checkpoint.model, error, 10 * tolerance)
    assert {name for name in blind if not name.endswith(tuple(indifferent))} == set()
