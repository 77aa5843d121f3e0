from benchmarks.peers.right_answers import SHIPPED, right_answers
from models.checkpoints.resolve import shipped_names


def test_the_right_answers_of_a_precision_are_those_of_the_artefact_that_is_timed(tmp_path, monkeypatch):
    monkeypatch.setitem(SHIPPED, "vision", ("digits-vit",))
    rows = list(right_answers("vision", ["", "--precision int8-static"], ["onnxruntime"], 1, tmp_path))
    assert [row[:2] for row in rows] == [
        ["digits-vit", "ours fp32, onnxruntime"],
        ["digits-vit", "ours precision int8-static, onnxruntime"],
    ]
    assert rows[0][2:] == ["99.44 %", "360"]  # as docs/reference/precision.md has it
    assert (tmp_path / "digits-vit" / "artefact-precision-int8-static" / "manifest.json").is_file()


def test_every_checkpoint_with_right_answers_is_shipped():
    assert {name for names in SHIPPED.values() for name in names} <= set(shipped_names())
