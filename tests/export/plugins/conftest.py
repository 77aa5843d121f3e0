"""Small models of every kind of attention, exported once."""

import pytest

from export.stage import export_onnx


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A function from a preset to the folder of its artefact."""
    folder, made = tmp_path_factory.mktemp("small"), {}

    def exported(preset, precision="fp32"):
        if (preset, precision) not in made:
            made[preset, precision] = folder / f"{preset}-{precision}"
            export_onnx(preset, made[preset, precision], False, False, precision, None)
        return made[preset, precision]

    return exported
