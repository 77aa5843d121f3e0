import pytest
import torch

from attendant.errors import ArtefactError, UnknownNameError
from models.checkpoints import place as place_module
from models.checkpoints.place import shipped_names
from models.checkpoints.resolve import checkpoint_named
from models.presets import PRESETS
from tests.models.checkpoints.folders import TINY, tiny_checkpoint, written_folder


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A place of shipped checkpoints with one whole checkpoint in it, and a folder and a file that are none."""
    place = tmp_path / "pretrained"
    written_folder(place / "shipped-one")
    (place / "half-made").mkdir()
    (place / "README.md").write_text("")
    monkeypatch.setattr(place_module, "PRETRAINED", place)
    return place


def same_weights(first, second):
    pairs = zip(first.model.state_dict().values(), second.model.state_dict().values(), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("name", TINY)
def test_a_preset_has_the_same_random_weights_every_time(name):
    torch.manual_seed(1)
    first = checkpoint_named(name)
    torch.manual_seed(2)
    second = checkpoint_named(name)
    assert same_weights(first, second)
    assert (first.name, first.config, first.folder) == (name, PRESETS[name].config, None)
    assert not first.model.training


def test_a_preset_leaves_the_random_numbers_of_others_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    checkpoint_named("vit-tiny")
    assert torch.equal(torch.rand(3), expected)


def test_a_folder_is_read_wherever_it_lies(tmp_path):
    folder = written_folder(tmp_path / "mine")
    loaded = checkpoint_named(str(folder))
    assert same_weights(loaded, tiny_checkpoint("vit-tiny"))
    assert loaded.folder == folder


def test_a_shipped_checkpoint_is_found_by_its_name(shipped):
    assert shipped_names() == ["shipped-one"]
    assert checkpoint_named("shipped-one").folder == shipped / "shipped-one"


def test_a_folder_comes_before_a_preset_of_the_same_name(tmp_path, monkeypatch):
    written_folder(tmp_path / "vit-tiny")
    monkeypatch.chdir(tmp_path)
    assert checkpoint_named("vit-tiny").name == "a-model"


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(ArtefactError, match=r"a checkpoint's configuration at .*config\.json"):
        checkpoint_named(str(tmp_path))


@pytest.mark.parametrize("name", ["vit-tiney", "half-made", "no/such/folder", "x" * 300, "nul\0byte"])
def test_a_name_that_is_nothing_is_refused_with_all_that_there_is(name, shipped):
    with pytest.raises(UnknownNameError) as caught:
        checkpoint_named(name)
    assert all(known in caught.value.expected for known in ["shipped-one", *PRESETS])
    assert caught.value.found == repr(name)
    assert caught.value.remedy.startswith("name one of `attendant models list`")
    assert str(caught.value).startswith(f"unknown model {name[:100]!r}; ")
    assert ("did you mean 'vit-tiny'?" in str(caught.value)) is (name == "vit-tiney")


@pytest.mark.parametrize(("name", "hub"), [("meta/Llama-3.2-1B", True), ("no/such/folder", False), ("nothing", False)])
def test_an_id_of_the_hub_leads_to_a_download(name, hub):
    with pytest.raises(UnknownNameError) as caught:
        checkpoint_named(name)
    assert (f"hf download {name} --local-dir Llama-3.2-1B" in caught.value.remedy) == hub


def test_a_hugging_face_folder_is_refused_as_such_where_a_checkpoint_is_wanted(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    with pytest.raises(ArtefactError, match=r"found a Hugging Face folder; import it: attendant models import"):
        checkpoint_named(str(tmp_path))
