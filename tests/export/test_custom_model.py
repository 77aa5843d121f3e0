"""A module of the reader's own: torch's attention with a padding mask, down the road."""

import onnx
import pytest
import torch
from torch import nn

from attendant.errors import ParityError
from export.artefact.stage import export_onnx
from export.parity.check import check_parity
from export.parity.parity import ROWS_ALONE, levels_of, require_parity
from tests.export.parity.test_check import RUNTIMES, damage, failed, nudged
from tests.models.checkpoints.custom_models import WHOLE, own_file


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    path = own_file(folder)
    export_onnx(str(path), folder / "artefact")
    return path, folder / "artefact"


@pytest.mark.planted
def test_it_passes_the_parity_check_over_batches_and_lengths_and_a_changed_weight_fails(exported):
    _, folder = exported
    measurements = check_parity(folder)
    assert {"batch 1, time 1, mixed", "batch 5, time 12, weights"} <= {one.case for one in measurements}
    assert all(level.passed for level in levels_of(measurements))
    original = (folder / "model.onnx").read_bytes(), (folder / "manifest.json").read_bytes()
    damage(folder, "model", nudged)
    assert failed(folder) == {("model", runtime) for runtime in RUNTIMES}
    (folder / "model.onnx").write_bytes(original[0])
    (folder / "manifest.json").write_bytes(original[1])


def test_a_program_whose_rows_depend_on_each_other_fails_the_parity_check(tmp_path):
    shapes = ({0: torch.export.Dim("batch")},)
    layer = nn.TransformerEncoderLayer(8, 2).eval()  # it attends along the batch
    program = torch.export.export(layer, (torch.randn(2, 3, 8),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "mixing.pt2")
    export_onnx(str(tmp_path / "mixing.pt2"), tmp_path / "artefact")
    levels = levels_of(check_parity(tmp_path / "artefact"))
    assert [level.name for level in levels if not level.passed] == [ROWS_ALONE]
    with pytest.raises(ParityError, match=r"let no row of forward.. depend on another: is batch_first=True missing"):
        require_parity(levels, tmp_path / "parity.json")


class Label(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        scores = self.layer(x)
        return (scores - 0.3 * scores.mean(0)).argmax(-1, keepdim=True)


class Clamped(Label):
    def forward(self, x):
        return self.layer(x / x.abs().max().clamp(min=10.0))


class Overflowing(Label):
    def forward(self, x):
        return (self.layer(x) * 1e3).exp().cumsum(-1)


class Rates(Label):
    def forward(self, x):
        return self.layer(x).exp()


@pytest.mark.parametrize(
    ("module", "is_refused"), [(Label, True), (Clamped, True), (Overflowing, False), (Rates, False)]
)
def test_rows_that_see_each_other_seldom_fail_the_parity_check(tmp_path, module, is_refused):
    torch.manual_seed(0)
    shapes = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(module().eval(), (torch.randn(2, 4),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "model.pt2")
    export_onnx(str(tmp_path / "model.pt2"), tmp_path / "artefact")
    (rows,) = [level for level in levels_of(check_parity(tmp_path / "artefact")) if level.name == ROWS_ALONE]
    assert rows.passed is not is_refused


BOUNDED = """
import torch
from torch import nn
from attendant.custom_model import Contract, CustomModel, TensorSpec


class Logs(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x.float().log())


def model():
    inputs = (TensorSpec(name="x", dtype="float16", axes=("batch", 4)),)
    outputs = (TensorSpec(name="y", dtype="float32", axes=("batch", 3)),)
    contract = Contract(inputs=inputs, outputs=outputs, within={"x": (0.5, 2.0)})
    return CustomModel(name="logs", module=Logs(), contract=contract, example={"inputs": {"x": [1, 1, 2, 2]}})
"""


def test_numbers_of_a_bounded_input_of_another_float_type_are_drawn_within_its_bounds(tmp_path):
    (tmp_path / "logs.py").write_text(BOUNDED)
    export_onnx(str(tmp_path / "logs.py"), tmp_path / "artefact")
    levels = levels_of(check_parity(tmp_path / "artefact", str(tmp_path / "logs.py")))
    assert levels and all(level.passed for level in levels)


class Logarithm(nn.Module):
    def forward(self, x):
        return x.log()


def test_a_program_that_makes_no_finite_numbers_of_what_is_drawn_is_told_why(tmp_path):
    program = torch.export.export(Logarithm(), (torch.ones(2, 4),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, tmp_path / "logs.pt2")
    export_onnx(str(tmp_path / "logs.pt2"), tmp_path / "artefact")
    with pytest.raises(ParityError, match=r"makes no finite numbers of the inputs that are drawn.*within="):
        require_parity(levels_of(check_parity(tmp_path / "artefact")), tmp_path / "parity.json")


def test_a_key_padding_mask_has_its_query_axis_written_out(exported):
    model = onnx.load(exported[1] / "model.onnx")
    made_by = {output: node.op_type for node in model.graph.node for output in node.output}
    masks = [node.input[3] for node in model.graph.node if node.op_type == "Attention"]
    assert [made_by[name] for name in masks] == ["Expand"] * len(masks)


@pytest.mark.slow
def test_it_is_exported_again_only_when_its_file_its_neighbours_or_its_weights_change(exported):
    path, folder = exported
    export_onnx(str(path), folder)
    assert not export_onnx(str(path), folder)[1]
    path.write_text(WHOLE.replace("manual_seed(0)", "manual_seed(1)"))
    assert export_onnx(str(path), folder)[1]
    (path.parent / "neighbour.py").write_text("HEADS = 4\n")
    assert export_onnx(str(path), folder)[1]
