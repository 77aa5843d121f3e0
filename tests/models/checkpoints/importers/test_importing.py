import json
import sys
import time

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

from attendant.errors import ArtefactError, ConfigError, OutputError, ParityError
from models.checkpoints.importers.compare import inputs_for, largest_difference, ours, theirs
from models.checkpoints.importers.importing import import_checkpoint
from models.checkpoints.importers.registry import architectures
from models.checkpoints.store import load_checkpoint
from tests.models.checkpoints.folders import written_folder
from tests.models.checkpoints.importers.saved import GONE, assert_same, causal, imported, rewrite, translating, write
from tests.models.checkpoints.importers.test_bart import bart
from tests.models.checkpoints.importers.test_llama import llama
from tests.models.checkpoints.importers.test_marian import INDIFFERENT, marian
from tests.models.sentencepieces import write_marian_files
from tests.run_here import run_here


@pytest.fixture
def folder(tmp_path):
    return llama(tmp_path / "theirs")


@pytest.mark.planted
def test_a_checkpoint_in_many_files_is_read_as_one(folder, tmp_path):
    whole = imported(folder)
    theirs = LlamaForCausalLM.from_pretrained(folder)
    for path in folder.glob("model*"):
        path.unlink()
    theirs.save_pretrained(folder, max_shard_size="4KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 3
    parts = imported(folder)
    found, wanted = parts.model.state_dict(), whole.model.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())
    assert_same(parts, LlamaForCausalLM, folder, causal())


def test_a_language_model_without_a_tokenizer_is_imported_for_token_ids_alone_and_the_import_says_so(folder, tmp_path):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ArtefactError, match="a tokenizer in"):  # settings of one that is not there
        import_checkpoint(folder, tmp_path / "ours")
    (folder / "tokenizer_config.json").unlink()
    done = import_checkpoint(folder, tmp_path / "ours")
    assert done.notes == ("no tokenizer: it is served for token ids alone",)
    checkpoint = load_checkpoint(tmp_path / "ours")
    prompt, limit = checkpoint.example["inputs"]["input_ids"], checkpoint.example["inputs"]["max_tokens"]
    theirs = LlamaForCausalLM.from_pretrained(folder).eval()
    answer = theirs.generate(torch.tensor([prompt]), max_new_tokens=limit, do_sample=False)[0, len(prompt) :].tolist()
    assert checkpoint.example["answer"] == answer and "tokenizer" not in checkpoint.details


def test_a_tokenizer_that_adds_tokens_which_the_model_has_not_is_refused(folder, tmp_path):
    """A post-processor states numbers of its own, whatever the vocabulary holds."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    start = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    parts = [{"Sequence": {"id": one, "type_id": 0}} for one in "AB"]
    special = {"<s>": {"id": "<s>", "ids": [99_999], "tokens": ["<s>"]}}
    added = {"single": [start, parts[0]], "pair": [start, *parts], "special_tokens": special}
    rewrite(folder / "tokenizer.json", **tokenizer | {"post_processor": {"type": "TemplateProcessing", **added}})
    with pytest.raises(ConfigError, match="a tokenizer whose tokens the model has"):
        import_checkpoint(folder, tmp_path / "ours")


def test_an_import_says_what_it_did(folder, tmp_path):
    rewrite(folder / "generation_config.json", eos_token_id=[2, 3], no_repeat_ngram_size=3, temperature=0.6)
    done = import_checkpoint(folder, tmp_path / "ours", name="my-llama", max_length=20)
    assert (done.name, done.family, done.architecture) == ("my-llama", "decoder", "LlamaForCausalLM")
    assert done.notes == ("not followed yet when answers are decoded: no_repeat_ngram_size 3",)
    checkpoint = load_checkpoint(tmp_path / "ours")
    inputs = inputs_for(checkpoint)
    other = theirs(transformers, architectures("transformers")["llama"], folder, checkpoint.family.task.name, inputs)
    assert done.difference == largest_difference(ours(checkpoint, inputs), other)  # the same numbers in the same models
    assert done.parameters == sum(parameter.numel() for parameter in checkpoint.model.parameters())
    assert (checkpoint.name, checkpoint.config.max_length) == ("my-llama", 20)
    assert checkpoint.details == {
        "end_tokens": [2, 3],
        "sampling_defaults": {"temperature": 0.6},
        "generation_not_followed": {"no_repeat_ngram_size": 3},
        "tokenizer": {"unknown": "keep"},
    }
    assert checkpoint.example["inputs"]["text"] == "The house is small."
    assert [path.name for path in checkpoint.companions()] == ["tokenizer.json"]


def test_the_name_is_the_folders_if_none_is_given(folder, tmp_path):
    assert import_checkpoint(folder, tmp_path / "ours").name == "theirs"


def test_the_rules_of_a_translators_answers_are_kept(tmp_path):
    folder = bart(tmp_path / "theirs")
    rewrite(folder / "generation_config.json", forced_bos_token_id=0, bad_words_ids=[[1]], num_beams=4)
    details = imported(folder).details
    assert (details["forced_start_token"], details["suppressed_tokens"]) == (0, [1])
    assert details["generation_not_followed"] == {"num_beams": 4, "forced_eos_token_id": 1}
    assert "end_tokens" not in details


@pytest.mark.planted
def test_marians_own_tokenizer_travels_with_the_weights(tmp_path):
    from transformers import MarianMTModel

    vocabulary = write_marian_files(tmp_path / "files")
    pad, end = vocabulary["<pad>"], vocabulary["</s>"]
    specials = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": end}
    folder = marian(tmp_path / "theirs", vocab_size=len(vocabulary), **specials)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    write_marian_files(folder)
    checkpoint = imported(folder)
    assert [path.name for path in checkpoint.companions()] == ["source.spm", "target.spm", "vocab.json"]
    assert isinstance(checkpoint.example["inputs"]["text"], str)
    assert_same(checkpoint, MarianMTModel, folder, translating(), indifferent=INDIFFERENT)


@pytest.mark.planted
def test_without_transformers_the_comparison_is_left_out_and_said_to_be(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)  # as where it is not installed
    done = import_checkpoint(folder, tmp_path / "ours")
    assert done.difference is None
    assert done.notes == ("not compared with transformers, of which no version from 5 on is installed",)
    assert_same(load_checkpoint(tmp_path / "ours"), LlamaForCausalLM, folder, causal())


@pytest.mark.planted
def test_a_model_that_computes_something_else_is_not_written(folder, tmp_path, monkeypatch):
    from models.checkpoints.importers import llama as table

    swapped = {"gate": "up", "expand": "gate"}  # the mistake that is made most
    wrong = {f"blocks.{{}}.mlp.{ours}": table.origin(f"layers.{{}}.mlp.{one}_proj") for ours, one in swapped.items()}
    monkeypatch.setattr(table, "_BLOCKS", {**table._BLOCKS, **wrong})
    with pytest.raises(ParityError):
        import_checkpoint(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_a_failed_import_leaves_the_old_checkpoint_as_it_was(folder, tmp_path):
    import_checkpoint(folder, tmp_path / "ours")
    before = {path.name: path.read_bytes() for path in (tmp_path / "ours").iterdir()}
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "lora_a": torch.ones(1)}, folder / "model.safetensors")
    with pytest.raises(ArtefactError, match="lora_a"):
        import_checkpoint(folder, tmp_path / "ours")
    assert {path.name: path.read_bytes() for path in (tmp_path / "ours").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "theirs"]


@pytest.mark.parametrize("name", ["lm_head.weight", "model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_a_missing_tensor_is_refused_by_name(name, folder):
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ArtefactError, match=f"no {name.removeprefix('model.')}"):
        imported(folder)


def test_a_tensor_of_another_shape_is_refused_by_name(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] = torch.ones(17)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ArtefactError, match=r"model\.norm\.weight of a shape that becomes \(16,\); found \(17,\)"):
        imported(folder)


def test_more_layers_in_the_file_than_in_the_configuration_are_refused(folder):
    rewrite(folder / "config.json", num_hidden_layers=1)
    with pytest.raises(ArtefactError, match=r"model\.layers\.1\.input_layernorm\.weight"):
        imported(folder)


def test_tensors_that_nobody_needs_are_left_out_and_told(folder, tmp_path):
    tensors = load_file(folder / "model.safetensors")
    buffers = {f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": torch.ones(2) for layer in range(2)}
    save_file({**tensors, **buffers}, folder / "model.safetensors")
    (note,) = import_checkpoint(folder, tmp_path / "ours").notes
    assert note.startswith("2 tensors that the model does not need: model.layers.0.self_attn.rotary_emb.inv_freq")


def test_a_field_of_unknown_effect_is_refused(folder):
    rewrite(folder / "config.json", logit_softcapping=30.0)
    with pytest.raises(ConfigError, match=r"logit_softcapping: 30\.0"):
        imported(folder)


def test_a_checkpoint_of_ours_may_be_replaced_and_other_folders_may_not(folder, tmp_path):
    import_checkpoint(folder, written_folder(tmp_path / "ours"))
    assert load_checkpoint(tmp_path / "ours").family.name == "decoder"
    (tmp_path / "ours" / "thesis.tex").write_text("mine")
    with pytest.raises(OutputError, match=r"thesis\.tex"):
        import_checkpoint(folder, tmp_path / "ours")
    with pytest.raises(OutputError, match="a folder beside the one that is read"):
        import_checkpoint(folder, folder)


@pytest.mark.planted
def test_a_tied_model_may_hold_its_head_too_if_it_is_the_same(tmp_path):
    folder = llama(tmp_path / "theirs", tie_word_embeddings=True)
    tensors = load_file(folder / "model.safetensors")
    head = tensors["model.embed_tokens.weight"].clone()
    save_file({**tensors, "lm_head.weight": head}, folder / "model.safetensors")
    assert_same(imported(folder), LlamaForCausalLM, folder, causal())
    head[3, 3] += 1
    save_file({**tensors, "lm_head.weight": head}, folder / "model.safetensors")
    with pytest.raises(ArtefactError, match=r"the same values in model\.embed_tokens\.weight and lm_head\.weight"):
        imported(folder)


def test_the_older_place_of_decoding_rules_is_read_too(folder):
    (folder / "generation_config.json").unlink()
    rewrite(folder / "config.json", eos_token_id=5, repetition_penalty=1.2, bos_token_id=GONE)
    details = imported(folder).details
    assert details["end_tokens"] == [5]
    assert details["generation_not_followed"] == {"repetition_penalty": 1.2}


def test_a_folder_that_was_saved_with_a_chat_template_keeps_it(folder):
    write(
        folder / "tokenizer_config.json",
        tokenizer_class="PreTrainedTokenizerFast",
        chat_template="{{ x }}",
        eos_token="</s>",
    )
    checkpoint = imported(folder)
    assert [path.name for path in checkpoint.companions()] == ["tokenizer.json", "chat_template.jinja"]
    assert checkpoint.details["special_tokens"] == {"eos_token": "</s>"}
    assert json.loads((checkpoint.folder / "config.json").read_text())["details"] == checkpoint.details


def command(*words):
    return run_here("models", "import", *words)


def test_the_command_tells_what_it_made_and_how_far_it_is_from_transformers(folder, tmp_path):
    rewrite(folder / "generation_config.json", num_beams=4)
    done = command(folder, "--out", tmp_path / "ours", "--name", "mine", "--max-length", 32)
    assert done.returncode == 0, done.stderr
    first, second, last = done.stdout.splitlines()
    assert first == f"mine: LlamaForCausalLM as decoder, 5,008 parameters, in {tmp_path / 'ours'}"
    assert second == "not followed yet when answers are decoded: num_beams 4"
    assert last.startswith("largest difference from transformers ")
    assert load_checkpoint(tmp_path / "ours").config.max_length == 32


def test_the_command_ends_with_status_2_and_one_line_for_what_cannot_be_imported(folder, tmp_path):
    rewrite(folder / "config.json", model_type="mamba")
    done = command(folder, "--out", tmp_path / "ours")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "mamba" in done.stderr


@pytest.mark.parametrize("field", ["num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size"])
@pytest.mark.parametrize("size", [10**7, 10**9, 10**30], ids=str)
def test_a_size_that_no_file_holds_is_refused_before_anything_is_built(field, size, folder, tmp_path):
    rewrite(folder / "config.json", **{field: size})
    began = time.process_time()
    with pytest.raises((ConfigError, ArtefactError)):
        import_checkpoint(folder, tmp_path / "ours")
    assert time.process_time() - began < 20
    assert not (tmp_path / "ours").exists()


@pytest.mark.planted
@pytest.mark.parametrize(("tokens", "found"), [(range, "leave nothing to say"), (lambda size: [size], "of a vocab")])
def test_suppressed_tokens_that_leave_nothing_or_are_none_are_refused(tokens, found, folder, tmp_path):
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    rewrite(folder / "generation_config.json", suppress_tokens=list(tokens(size)))
    with pytest.raises(ConfigError, match=found):
        import_checkpoint(folder, tmp_path / "ours")


@pytest.mark.parametrize("name", ["../victim", "/etc/victim", "a\nb", ".", "a b"])
def test_a_name_that_is_no_folders_is_refused(name, folder, tmp_path):
    with pytest.raises(ArtefactError, match="a name of at most 200 letters"):
        import_checkpoint(folder, tmp_path / "ours", name=name)
