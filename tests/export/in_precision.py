"""What must hold of an artefact in a narrower type."""

from __future__ import annotations

from pathlib import Path

from attendant.manifest import Manifest
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.precision.precisions import precision_named
from export.targets.check import validate_for_target
from tests.export.rewritten import rewritten


def hold_in_narrow_types(folder: Path, place: Path) -> None:
    """Every family in fp16 and bf16: weights of that type, what TensorRT reads, and parity."""
    for name, dtype in (("fp16", "float16"), ("bf16", "bfloat16")):
        artefact = place / name
        made = Manifest.read(rewritten(folder, name, artefact))
        assert {dtype} <= {found for types in made.types.values() for found in types.values()} <= {dtype, "float32"}
        assert {spec.dtype for one in made.graphs for spec in one.inputs if spec.name in one.aliases.values()} <= {
            dtype
        }
        _, checks = validate_for_target(artefact, "tensorrt")
        assert [check for check in checks if check.violations] == []
        levels = levels_of(check_parity(artefact), precision_named(name))
        assert [level for level in levels if not level.passed] == []
        assert {level.graph for level in levels if name in level.name} == {one.name for one in made.graphs}
