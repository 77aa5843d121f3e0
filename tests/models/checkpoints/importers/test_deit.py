import pytest
from safetensors.torch import save_file
from transformers import DeiTConfig, DeiTForImageClassification, DeiTForImageClassificationWithTeacher
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil

from attendant.errors import ArtefactError, ConfigError, UnknownNameError
from tests.models.agreement import both_precisions
from tests.models.checkpoints.importers.saved import GONE, assert_same, imported, rewrite, saved
from tests.models.checkpoints.importers.test_vit import INDIFFERENT, SIZES, seeing

WITH_TEACHER = DeiTForImageClassificationWithTeacher


def deit(folder, kind=WITH_TEACHER, **settings):
    folder = saved(kind(DeiTConfig(**{**SIZES, **settings})), folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    DeiTImageProcessorPil(size={"height": 14, "width": 14}, crop_size={"height": 12, "width": 12}).save_pretrained(
        folder
    )
    return folder


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize(
    "settings", [{}, {"layer_norm_eps": 0.01, "patch_size": 3}, {"qkv_bias": False, "hidden_act": "relu"}], ids=str
)
def test_an_imported_deit_computes_what_transformers_does(settings, dtype, tmp_path):
    folder = deit(tmp_path / "theirs", **settings)
    assert_same(imported(folder), WITH_TEACHER, folder, seeing(), dtype, INDIFFERENT)


@pytest.mark.planted
def test_the_names_of_a_model_in_memory_are_understood_too(tmp_path):
    folder = deit(tmp_path / "theirs")
    tensors = WITH_TEACHER.from_pretrained(folder).state_dict()
    assert "deit.layers.0.attention.q_proj.weight" in tensors  # of version 5, which writes those of version 4
    save_file(tensors, folder / "model.safetensors")
    assert_same(imported(folder), WITH_TEACHER, folder, seeing(), indifferent=INDIFFERENT)


def test_the_way_to_prepare_an_image_travels_with_it(tmp_path):
    preprocessing = imported(deit(tmp_path / "theirs")).details["preprocessing"]
    assert (preprocessing["size"], preprocessing["crop"]) == ([14, 14], [12, 12])


def test_a_model_with_one_head_is_refused(tmp_path):
    folder = deit(tmp_path / "theirs", DeiTForImageClassification)
    with pytest.raises(UnknownNameError, match="DeiTForImageClassificationWithTeacher"):
        imported(folder)
    rewrite(folder / "config.json", architectures=GONE)
    with pytest.raises(ArtefactError, match="cls_classifier"):
        imported(folder)


@pytest.mark.parametrize("fields", [{"qkv_bias": 2}, {"hidden_act": "mish"}, {"mystery": 3}], ids=str)
def test_what_the_family_does_not_do_is_refused(fields, tmp_path):
    folder = deit(tmp_path / "theirs")
    rewrite(folder / "config.json", **fields)
    with pytest.raises(ConfigError, match=next(iter(fields))):
        imported(folder)
