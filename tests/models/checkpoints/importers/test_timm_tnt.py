import pytest
import torch
from safetensors.torch import load_file, save_file

from attendant.errors import ArtefactError, ConfigError
from models.checkpoints.importers.architecture import ReferenceModel
from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.library import LIBRARIES
from models.checkpoints.importers.timm import flatten_config
from models.checkpoints.importers.timm_tnt import TIMM_TNT
from models.presets import PRESETS
from tests.models.agreement import both_precisions, compare_models, parameters_that_do_not_matter
from tests.models.checkpoints.importers.saved import imported, looking_at, rewrite, saved_by_timm
from tests.oracles.timm_models import timm

THEIR_SIZES = {
    "img_size": 24,
    "patch_size": 8,
    "num_classes": 5,
    "depth": 2,
    "inner_dim": 8,
    "num_heads_inner": 2,
    "embed_dim": 16,
    "num_heads_outer": 2,
    "mlp_ratio": 2.0,
}
# What the authors' files call the parts, by timm's name.
AUTHORS = {
    "patch_pos": "outer_pos",
    "pixel_pos": "inner_pos",
    "pixel_embed": "patch_embed",
    "norm1_proj": "proj_norm1",
    "norm2_proj": "proj_norm2",
    "norm_in": "inner_norm1",
    "attn_in": "inner_attn",
    "norm_mlp_in": "inner_norm2",
    "mlp_in": "inner_mlp",
    "norm_out": "outer_norm1",
    "attn_out": "outer_attn",
    "norm_mlp": "outer_norm2",
    "mlp": "outer_mlp",
}


def tnt(folder, name="tnt_s_patch16_224", **settings):
    return saved_by_timm(folder, name, **{**THEIR_SIZES, **settings})


def by_authors(folder):
    """The same numbers as the authors' code writes them."""
    path = folder / "model.safetensors"
    named = {
        ".".join(AUTHORS.get(part, part) for part in name.split(".")): one for name, one in load_file(path).items()
    }
    words = named["inner_pos"].flatten(2).mT.contiguous()
    save_file({**named, "inner_pos": words, "outer_tokens": torch.zeros(1, 9, 16)}, path)


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize("settings", [{}, {"in_chans": 3, "depth": 1, "mlp_ratio": 3.0}], ids=str)
def test_an_imported_model_computes_what_timm_does(settings, dtype, tmp_path):
    folder, look = tnt(tmp_path / "theirs", **settings), looking_at((3, 24, 24))
    ours, theirs = imported(folder).model, timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    error, tolerance = compare_models(ours, look, theirs, look, dtype)
    assert error() <= tolerance
    blind = parameters_that_do_not_matter(ours, error, 10 * tolerance)
    assert blind == set()


def test_the_authors_names_are_understood(tmp_path, monkeypatch):
    folder = tnt(tmp_path / "theirs")
    look = looking_at((3, 24, 24))
    wanted = look(imported(folder).model)
    by_authors(folder)
    monkeypatch.setitem(LIBRARIES, "timm", lambda: None)  # timm itself reads files of its own names only
    assert torch.equal(look(imported(folder).model), wanted)  # the same numbers in the same model


def test_the_way_to_prepare_an_image_travels_with_it(tmp_path):
    preprocessing = imported(tnt(tmp_path / "theirs")).details["preprocessing"]
    assert preprocessing["size"] == 26  # 24 / 0.9
    assert preprocessing["crop"] == [24, 24]
    assert preprocessing["mean"] == [0.5] * 3


def test_the_first_version_of_the_architecture_is_refused(tmp_path):
    with pytest.raises(ArtefactError, match="norm2_proj"):
        imported(rewritten(tnt(tmp_path / "theirs", "tnt_s_legacy_patch16_224")))


def rewritten(folder):
    rewrite(folder / "config.json", architecture="tnt_s_patch16_224")
    return folder


def config_of(**values):
    fields = Fields(flatten_config(values))
    config = TIMM_TNT.config_from(ReferenceModel(fields=fields, generation=values))
    fields.refuse_rest()
    return config


@pytest.mark.parametrize(("architecture", "preset"), [("tnt_s_patch16_224", "tnt-s"), ("tnt_b_patch16_224", "tnt-b")])
def test_the_name_gives_the_sizes(architecture, preset):
    published = {"num_classes": 1000, "num_features": 384, "global_pool": "token", "pretrained_cfg": {"tag": "in1k"}}
    assert config_of(architecture=architecture, **published) == PRESETS[preset].config
    assert config_of(architecture=architecture, num_classes=7).classes == 7


@pytest.mark.parametrize(
    "fields",
    [{"architecture": "tnt_s_legacy_patch16_224"}, {"global_pool": "avg"}, {"model_args": {"legacy": True}}],
    ids=str,
)
def test_what_the_family_does_not_do_is_refused(fields):
    with pytest.raises(ConfigError, match=next(iter(fields.get("model_args", fields)))):
        config_of(**{"architecture": "tnt_s_patch16_224", **fields})
