"""The guide of one's own model, followed word by word."""

import runpy
from contextlib import ExitStack

import pytest

from models.checkpoints.resolve import checkpoint_named
from tests.end_to_end.documents import ROOT, blocks, commands, run_python, succeeded, until_ctrl_c

GUIDE = (ROOT / "docs/tutorials/your-own-model.md").read_text()
FILE, CLIENT = blocks(GUIDE, "python")


def test_the_file_of_the_guide_is_a_model_that_can_be_exported(tmp_path):
    file = tmp_path / "sensors.py"
    file.write_text(FILE)
    runpy.run_path(str(file), run_name="__main__")
    assert checkpoint_named(str(file)).name == "sensors"


# Shorter ways: tests/export/test_custom_model.py exports one, and tests/end_to_end/test_bounds.py serves it.
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_guide_takes_a_module_from_its_file_to_a_served_answer():
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build/sensors.py").write_text(FILE)
    shown = {}
    with ExitStack() as servers:
        for command in commands(GUIDE):
            if command == ". .venv/bin/activate":
                continue  # the shell of a test has this interpreter first on its path
            if command.startswith("attendant serve"):
                servers.enter_context(until_ctrl_c(command))
            else:
                shown[command] = succeeded(command)
        assert run_python(CLIENT) == "falling\n"
    assert "│ ok " in shown["attendant verify build/sensors --source build/sensors.py"]
    assert '"scores": [[' in shown["attendant predict build/request.json --model sensors"]
    assert "sensors (predict): ok" in shown["attendant health"]
