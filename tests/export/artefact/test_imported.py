"""What `export` makes of a Hugging Face folder."""

from transformers import LlamaConfig, LlamaForCausalLM

from export.artefact.imported import imported_name
from models.checkpoints.store import load_checkpoint
from tests.models.checkpoints.importers.saved import VOCABULARY, rewrite, saved


def test_a_hugging_face_folder_is_imported_beside_the_artefact_once(tmp_path, capsys):
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 24}
    config = LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=40, **sizes)
    theirs = saved(LlamaForCausalLM(config), tmp_path / "theirs")
    name, out = str(theirs), tmp_path / "artefact"
    folder = imported_name(name, out)
    assert folder == str(tmp_path / "artefact-checkpoint")
    assert load_checkpoint(tmp_path / "artefact-checkpoint").config.max_length == 40
    assert "is a Hugging Face folder: it is imported to" in capsys.readouterr().err
    assert imported_name(name, out) == folder and "imported to" not in capsys.readouterr().err
    rewrite(theirs / "config.json", max_position_embeddings=30)
    assert load_checkpoint(imported_name(name, out) and tmp_path / "artefact-checkpoint").config.max_length == 30


def test_other_names_are_left_as_they_are(tmp_path):
    assert imported_name("vit-tiny", tmp_path / "x") == "vit-tiny"
    assert imported_name(str(tmp_path), tmp_path / "x") == str(tmp_path)
