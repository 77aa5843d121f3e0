import json
import os

import pytest
import torch
from safetensors.torch import save_file

from attendant.errors import ArtefactError
from models.checkpoints.importers.reader import INDEX_NAME, SINGLE_NAME, opened_tensors

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b.weight": torch.ones(4), "c": torch.zeros(2, dtype=torch.bfloat16)}


@pytest.fixture
def single(tmp_path):
    save_file(TENSORS, tmp_path / SINGLE_NAME)
    return tmp_path


@pytest.fixture
def sharded(tmp_path):
    shards = {"model-1.safetensors": ["a", "c"], "model-2.safetensors": ["b.weight"]}
    for name, inside in shards.items():
        save_file({one: TENSORS[one] for one in inside}, tmp_path / name)
    write_index(tmp_path, {one: name for name, inside in shards.items() for one in inside})
    return tmp_path


def write_index(folder, weight_map):
    (folder / INDEX_NAME).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def refusal(folder, read=()):
    with pytest.raises(ArtefactError) as caught, opened_tensors(folder) as tensors:
        for name in read:
            tensors.read(name)
    return caught.value


@pytest.mark.parametrize("layout", ["single", "sharded"])
def test_every_tensor_is_found_and_read(layout, request):
    with opened_tensors(request.getfixturevalue(layout)) as tensors:
        assert tensors.shapes == {"a": (2, 3), "b.weight": (4,), "c": (2,)}
        for name, wanted in TENSORS.items():
            found = tensors.read(name)
            assert found.dtype == wanted.dtype
            assert torch.equal(found, wanted)


def test_a_shard_that_is_missing_is_refused_by_its_path(sharded):
    (sharded / "model-2.safetensors").unlink()
    assert refusal(sharded).expected == f"a whole safetensors file at {sharded / 'model-2.safetensors'}"


def test_a_shard_that_is_a_pipe_is_refused_and_not_waited_for(sharded):
    (sharded / "model-2.safetensors").unlink()
    os.mkfifo(sharded / "model-2.safetensors")
    assert "is no file" in refusal(sharded).found


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_a_file_that_was_cut_is_refused_by_its_path(keep, single):
    path = single / SINGLE_NAME
    path.write_bytes(path.read_bytes()[:keep])
    error = refusal(single)
    assert error.expected == f"a whole safetensors file at {path}"
    assert error.remedy == "copy the file again"


@pytest.mark.parametrize("change", [{"d": "model-1.safetensors"}, {"a": "model-2.safetensors"}], ids=str)
def test_a_tensor_that_is_not_where_the_index_says_is_refused_by_name(change, sharded):
    weight_map = json.loads((sharded / INDEX_NAME).read_text())["weight_map"]
    write_index(sharded, {**weight_map, **change})
    assert f"1 elsewhere or missing, first {list(change)}" in refusal(sharded).found


def test_a_tensor_that_the_index_does_not_know_is_refused_by_name(sharded):
    write_index(sharded, {"a": "model-1.safetensors", "b.weight": "model-2.safetensors"})
    assert "first ['c']" in refusal(sharded).found


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "a/b.safetensors"])
def test_an_index_that_points_out_of_its_folder_is_refused(name, sharded):
    write_index(sharded, {"a": name})
    assert refusal(sharded).found == str([name])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": 5}', '{"weight_map": null}', "[" * 9999])
def test_an_index_that_is_none_is_refused_with_its_path(content, sharded):
    (sharded / INDEX_NAME).write_text(content)
    assert str(sharded / INDEX_NAME) in refusal(sharded).expected


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "tf_model.h5", "consolidated.00.pth"]
)
def test_a_folder_of_pickles_is_refused_with_the_way_to_convert_it(name, tmp_path):
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'touch /tmp/opened'\ntR.")
    error = refusal(tmp_path)
    assert name in error.found
    assert "never read here" in error.found
    assert "save_pretrained" in error.remedy


def test_a_folder_without_weights_is_refused_with_what_it_holds(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert refusal(tmp_path).found == "['config.json']"


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.float8_e4m3fn, torch.int64], ids=str)
def test_numbers_that_are_quantised_are_refused_by_the_tensors_name(kind, tmp_path):
    save_file({"h.0.weight": torch.zeros(2).to(kind)}, tmp_path / SINGLE_NAME)
    error = refusal(tmp_path, read=["h.0.weight"])
    assert error.expected.startswith("h.0.weight in a type of ['float32', 'float16', 'bfloat16'")
    assert error.found == str(kind)
