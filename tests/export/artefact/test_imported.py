"""What `export` makes of a Hugging Face folder."""

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from export.artefact.imported import import_once, imported_name
from models.checkpoints.store import load_checkpoint
from tests.models.checkpoints.importers.saved import VOCABULARY, rewrite, saved

CONFIG = LlamaConfig(
    vocab_size=VOCABULARY,
    max_position_embeddings=40,
    hidden_size=16,
    num_attention_heads=2,
    num_hidden_layers=1,
    intermediate_size=24,
)


def test_a_hugging_face_folder_is_imported_beside_the_artefact_once(tmp_path, capsys):
    theirs = saved(LlamaForCausalLM(CONFIG), tmp_path / "theirs")
    name, out = str(theirs), tmp_path / "artefact"
    folder = imported_name(name, out)
    assert folder == str(tmp_path / "artefact-checkpoint")
    assert load_checkpoint(tmp_path / "artefact-checkpoint").config.max_length == 40
    assert "is a Hugging Face folder: it is imported to" in capsys.readouterr().err
    assert imported_name(name, out) == folder and "imported before" in capsys.readouterr().err
    rewrite(theirs / "config.json", max_position_embeddings=30)
    assert load_checkpoint(imported_name(name, out) and tmp_path / "artefact-checkpoint").config.max_length == 30


@pytest.mark.parametrize("damage", ["weights.cut", "weights.bit", "tokenizer.gone"])
def test_a_checkpoint_that_is_not_as_the_import_left_it_is_imported_anew(tmp_path, capsys, damage):
    theirs = saved(LlamaForCausalLM(CONFIG), tmp_path / "theirs")
    out = tmp_path / "cache" / "checkpoint"
    assert import_once(theirs, out) == "LlamaForCausalLM"
    assert import_once(theirs, out) is None
    whole = {path.name: path.read_bytes() for path in out.iterdir()}
    weights, tokenizer = out / "model.safetensors", out / "tokenizer.json"
    if damage == "tokenizer.gone":
        tokenizer.unlink()
    else:
        data = weights.read_bytes()
        weights.write_bytes(data[:-10] if damage == "weights.cut" else data[:-1] + bytes([data[-1] ^ 1]))
    assert import_once(theirs, out) == "LlamaForCausalLM"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == whole


def test_other_names_are_left_as_they_are(tmp_path):
    assert imported_name("vit-tiny", tmp_path / "x") == "vit-tiny"
    assert imported_name(str(tmp_path), tmp_path / "x") == str(tmp_path)
