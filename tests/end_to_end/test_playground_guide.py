"""The commands of docs/guides/playground.md, as a reader would type them."""

import json

import pytest
from PIL import Image

from tests.end_to_end.documents import ROOT, commands, succeeded

GUIDE = (ROOT / "docs/guides/playground.md").read_text()
ADDRESS = "http://127.0.0.1:8080"
ASKING = [command for command in commands(GUIDE) if ADDRESS in command]


@pytest.mark.parametrize("command", ASKING)
def test_a_command_is_answered(command, shipped_gateway, tmp_path):
    said = succeeded(command.replace(ADDRESS, shipped_gateway.url).replace("build/", f"{tmp_path}/"))
    if "--output" in command:
        (file,) = tmp_path.glob("*.png")
        with Image.open(file) as picture:
            assert min(picture.size) >= 128
    elif "--no-buffer" in command:
        assert said.rstrip().endswith("data: [DONE]") and '"source"' in said
    else:
        assert json.loads(said)["answer"] in ("3", "1997-03-03")


def test_the_guide_starts_what_it_asks():
    assert "attendant serve --gateway-port 8080" in commands(GUIDE) and len(ASKING) == 7


def test_every_picture_of_the_guide_is_there_and_small():
    shown = set(ROOT.glob("docs/images/playground-*.png"))
    assert {path for path in shown if path.name not in GUIDE and "phone-dark" not in path.name} == set()
    assert all(path.stat().st_size < 200_000 for path in shown)
