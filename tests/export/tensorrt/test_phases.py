"""From which form of a graph each engine is built, by what the artefact is for."""

import shutil
from dataclasses import replace

from attendant.manifest import Manifest
from export.tensorrt.config import EngineConfig
from export.tensorrt.phases import forms_of


def test_masks_are_padding_where_our_own_code_makes_them(text_encoder, tmp_path):
    folder = shutil.copytree(text_encoder, tmp_path / "encoder")
    manifest = Manifest.read(folder)
    (ours,) = forms_of("model", manifest, folder, EngineConfig(attention="plugin"))
    (clients,) = forms_of("model", replace(manifest, task="predict"), folder, EngineConfig(attention="plugin"))
    assert set(ours.plugins.values()) == {"flash_attention"} and not ours.attention
    assert len(clients.attention) == len(ours.plugins) and not clients.plugins
    reasons = [
        why for one in clients.lowered.passes if one["name"] == "fuse_flash_attention" for why in one["refusals"]
    ]
    assert reasons and all("its mask is a client's own" in why for why in reasons)
