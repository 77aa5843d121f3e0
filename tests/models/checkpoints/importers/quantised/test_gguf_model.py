from dataclasses import replace

import numpy as np
import pytest

from attendant.errors import ArtefactError, ConfigError
from attendant.no_tokenizer import NOTE
from attendant.tokenization import load_tokenizer
from models.checkpoints.importers.importing import import_checkpoint
from models.checkpoints.importers.quantised.gguf_file import read_gguf
from models.checkpoints.importers.quantised.gguf_model import gguf_generation
from models.checkpoints.store import load_checkpoint, stored_integers
from tests.models.checkpoints.importers.quantised.ggufs import KIND, MODELS, theirs_of, write_gguf
from tests.models.checkpoints.importers.saved import LETTERS, SPECIALS, assert_same, causal

KINDS = [KIND.Q8_0, KIND.Q4_0, KIND.Q4_K, KIND.Q6_K]


def written(place, kind, architecture="llama", *, settings=(), **options):
    """A GGUF file in a folder of its own, and the folder of the model that it stands for."""
    theirs = theirs_of(place / "theirs", architecture, **dict(settings))
    (place / "gguf").mkdir()
    path = write_gguf(theirs, place / "gguf" / "tiny.gguf", kind, architecture, **options)
    theirs.save_pretrained(place / "theirs")
    return path, place / "theirs"


def imported(path):
    out = path.parent.with_name("ours")
    return import_checkpoint(path, out), load_checkpoint(out)


@pytest.mark.planted
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_llama_computes_what_gguf_py_says_that_its_numbers_are(kind, tmp_path):
    path, plain = written(tmp_path, kind)
    done, checkpoint = imported(path)
    assert done.name == "tiny"
    assert done.difference is not None
    assert checkpoint.details["end_tokens"] == [1]
    assert_same(checkpoint, MODELS["llama"][1], plain, causal())


@pytest.mark.planted
@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_so_does_a_qwen_whose_heads_stand_as_they_are(architecture, tmp_path):
    path, plain = written(tmp_path, KIND.Q8_0, architecture, settings={"tie_word_embeddings": True})
    assert_same(imported(path)[1], MODELS[architecture][1], plain, causal(), indifferent=("attention.key.bias",))


def test_a_mixture_keeps_each_matrix_in_its_own_type(tmp_path):
    others = {"blk.0.attn_v.weight": KIND.Q6_K, "blk.0.ffn_down.weight": KIND.Q6_K, "output.weight": KIND.Q6_K}
    others |= {"token_embd.weight": KIND.Q4_K}
    path, plain = written(tmp_path, KIND.Q4_K, others=others)
    done, checkpoint = imported(path)
    assert_same(checkpoint, MODELS["llama"][1], plain, causal())
    kept = {name: one.read() for name, one in stored_integers(checkpoint.folder).items()}
    wide = {name for name, one in kept.items() if one.bits == 8}
    assert wide == {"blocks.0.attention.value.weight", "blocks.0.mlp.contract.weight", "head.weight"}
    assert len(kept) == 15
    assert checkpoint.details["weight_bits"] == 4
    assert done.notes[0].startswith("15 matrices in integers of 4 bits")


@pytest.mark.planted
def test_factors_of_the_rotation_are_llama_3s(tmp_path):
    rope = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope["original_max_position_embeddings"] = 16
    theirs = theirs_of(tmp_path / "theirs", rope_parameters=rope)
    scaled = theirs.model.rotary_emb.inv_freq.numpy()
    plain = 500.0 ** -(np.arange(0, 64, 2) / 64)
    (tmp_path / "gguf").mkdir()
    path = write_gguf(theirs, tmp_path / "gguf" / "tiny.gguf", KIND.Q8_0, factors=(plain / scaled).astype(np.float32))
    theirs.save_pretrained(tmp_path / "theirs")
    assert_same(imported(path)[1], MODELS["llama"][1], tmp_path / "theirs", causal(40))


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ({"llama.expert_count": 8}, "llama.expert_count 8"),
        ({"llama.attention.sliding_window": 16}, "llama.attention.sliding_window 16, whose effect is not known"),
        ({"llama.rope.dimension_count": 32}, "llama.rope.dimension_count 32"),
        ({"llama.rope.scaling.type": "yarn"}, "llama.rope.scaling.type 'yarn'"),
        ({"llama.attention.value_length": 32}, "llama.attention.value_length 32"),
        ({"split.count": 2}, "one of several files"),
    ],
    ids=str,
)
def test_what_has_another_arithmetic_is_refused_by_name(metadata, found, tmp_path):
    path, _ = written(tmp_path, KIND.Q8_0, metadata=metadata)
    with pytest.raises(ConfigError) as caught:
        import_checkpoint(path, tmp_path / "ours")
    assert found in caught.value.found
    assert not (tmp_path / "ours").exists()


def test_an_end_token_that_is_no_number_is_refused_by_name(tmp_path):
    path, _ = written(tmp_path, KIND.Q8_0)
    file = read_gguf(path)
    for wrong in ([1, 2], "1", True, 1.5):
        with pytest.raises(ArtefactError, match=r"whole number as tokenizer\.ggml\.eot_token_id"):
            gguf_generation(replace(file, values={**file.values, "tokenizer.ggml.eot_token_id": wrong}))


def test_an_unknown_architecture_is_refused_by_name(tmp_path):
    path, _ = written(tmp_path, KIND.Q8_0, metadata={"general.architecture": "gemma3"})
    with pytest.raises(ConfigError, match=r"general\.architecture 'gemma3', none of"):
        import_checkpoint(path, tmp_path / "ours")


@pytest.mark.parametrize("heads", [3, 0, 2**31 - 1])
def test_heads_that_do_not_fit_the_rows_are_refused(heads, tmp_path):
    path, _ = written(tmp_path, KIND.Q8_0, metadata={"llama.attention.head_count": heads})
    with pytest.raises((ArtefactError, ConfigError)):
        import_checkpoint(path, tmp_path / "ours")


def test_a_folder_is_taken_for_its_one_file_and_not_of_two(tmp_path):
    path, _ = written(tmp_path, KIND.Q8_0)
    assert import_checkpoint(path.parent, tmp_path / "ours").name == "gguf"
    path.with_name("other.gguf").write_bytes(path.read_bytes())
    with pytest.raises(ConfigError, match="one GGUF file in"):
        import_checkpoint(path.parent, tmp_path / "ours")


def test_a_tokenizer_and_a_chat_template_in_the_file_travel_with_the_weights(tmp_path):
    letters = ["th" if letter == "T" else letter.replace(" ", "Ġ") for letter in LETTERS]
    tokens, template = [*SPECIALS, *letters], "{{ messages[0].content }}{{ eos_token }}"
    path, _ = written(tmp_path, KIND.Q8_0, tokenizer=(tokens, ["t h"]), metadata={"tokenizer.chat_template": template})
    _, checkpoint = imported(path)
    assert [one.name for one in checkpoint.companions()] == ["tokenizer.json", "chat_template.jinja"]
    assert (checkpoint.folder / "chat_template.jinja").read_text() == template
    assert checkpoint.details["special_tokens"] == {"eos_token": "</s>"}
    found = load_tokenizer(checkpoint.folder, checkpoint.details["tokenizer"]).encode("the hat.", longest=20)
    assert found == [tokens.index(token) for token in ("th", "e", "Ġ", "h", "a", "t", ".")]


def test_a_file_without_a_tokenizer_is_for_token_ids_alone_and_says_so(tmp_path):
    path, _ = written(tmp_path, KIND.Q8_0)
    (path.parent / "tokenizer.json").unlink()
    done, checkpoint = imported(path)
    assert NOTE in done.notes
    assert "tokenizer" not in checkpoint.details
