"""A ``.pt2`` file that somebody else wrote."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from attendant.errors import ArtefactError, ConfigError
from export.parity.eager import eager_runners
from models.checkpoints.resolve import checkpoint_named


class Tagger(nn.Module):
    """Ids and a scale → a dict of two outputs; with a constant, a buffer and a type written down."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 3)
        self.shift = torch.full((8,), 0.1)

    def forward(self, ids, scale):
        hidden = self.embed(ids).to(torch.float32) * scale[:, None] + self.shift
        return {"tags": self.head(hidden), "pooled": hidden.mean(1)}


def write_program(path, module, inputs, shapes):
    torch.export.save(torch.export.export(module.eval(), inputs, dynamic_shapes=shapes), path)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    inputs = torch.randint(11, (2, 5)), torch.rand(2, 8)
    shapes = {"ids": {0: Dim("rows"), 1: Dim("length", max=9)}, "scale": {0: Dim("rows")}}
    return write_program(tmp_path_factory.mktemp("programs") / "My tagger.pt2", Tagger(), inputs, shapes)


def test_names_types_and_axes_are_those_of_the_program(program):
    checkpoint = checkpoint_named(str(program))
    (graph,) = checkpoint.graphs()
    tensors = [(spec.name, spec.dtype, spec.axes) for spec in (*graph.signature.inputs, *graph.signature.outputs)]
    assert checkpoint.name == "my-tagger" and tensors == [
        ("ids", "int64", ("batch", "ids_1")),
        ("scale", "float32", ("batch", 8)),
        ("tags", "float32", ("batch", "ids_1", 3)),
        ("pooled", "float32", ("batch", 8)),
    ]
    assert (graph.largest, graph.below) == ({"ids_1": 9}, {"ids": 11})


def test_its_example_is_the_first_row_that_it_was_exported_with(program):
    example = checkpoint_named(str(program)).example
    scale = torch.tensor([example["inputs"]["scale"]])
    tags = Tagger()(torch.tensor([example["inputs"]["ids"]]), scale)["tags"][0]
    assert torch.tensor(example["answer"]["tags"]).allclose(tags)


def test_in_float64_it_is_the_module_in_float64(program):
    checkpoint = checkpoint_named(str(program))
    ids, scale = torch.tensor([[1, 2, 3]]), torch.rand(1, 8, dtype=torch.float64)
    runner = eager_runners(checkpoint.graphs(), torch.float64)["model"]
    found = runner.run({"ids": ids.numpy(), "scale": scale.numpy()})
    module = Tagger().double()
    hidden = module.embed(ids) * scale[:, None] + module.shift.double()
    assert abs(found["tags"].numpy() - module.head(hidden).detach().numpy()).max() < 1e-14


def test_a_batch_that_does_not_vary_is_refused_with_what_to_do(tmp_path):
    path = write_program(tmp_path / "fixed.pt2", nn.Linear(2, 3), (torch.ones(2, 2),), None)
    with pytest.raises(ConfigError, match=r"first axis of 'input'.*found 2, which does not vary; export it as"):
        checkpoint_named(str(path))


def test_nested_inputs_are_refused(tmp_path):
    class Nested(nn.Module):
        def forward(self, pair):
            return pair[0] + pair[1]

    path = write_program(tmp_path / "nested.pt2", Nested(), ((torch.ones(2), torch.ones(2)),), None)
    with pytest.raises(ArtefactError, match="flatten them"):
        checkpoint_named(str(path))


def test_a_file_that_is_no_program_is_refused(tmp_path):
    (tmp_path / "other.pt2").write_bytes(b"PK nothing")
    with pytest.raises(ArtefactError, match=r"an exported program at .*other.pt2"):
        checkpoint_named(str(tmp_path / "other.pt2"))


def test_the_server_is_told_the_rows_of_a_table_and_no_limit_that_is_assumed(program, tmp_path):
    assert checkpoint_named(str(program)).config.below == {"ids": 11}

    class Scaling(nn.Module):
        def forward(self, count):
            return count.float() * 2

    path = write_program(tmp_path / "count.pt2", Scaling(), (torch.ones(2, 3).long(),), ({0: Dim("rows")},))
    assert checkpoint_named(str(path)).config.below == {}
