"""The benchmarks' own trials on a GPU: events, compilers and every library are real there."""

import sys

import pytest
import torch

from benchmarks.gpu import attention, decoding, goals, prefill, tiles, vision
from models.kernel_configs import tuned

pytestmark = [
    pytest.mark.needs_gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.filterwarnings("ignore"),  # of PyTorch, where a library cannot do a case
]


@pytest.mark.parametrize(
    "script", [attention, decoding, goals, prefill, vision], ids=lambda script: script.__name__.split(".")[-1]
)
def test_a_trial_writes_a_page_of_this_gpu(script, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", [script.__name__, "--quick", "--out", str(tmp_path)])
    script.main()
    (page,) = tmp_path.glob("*.md")
    assert torch.cuda.get_device_name() in page.read_text()


def test_a_trial_times_tiles_and_leaves_the_table_of_the_kernels_alone(monkeypatch, tmp_path):
    before = tuned.FILE.read_text()
    monkeypatch.setattr(sys, "argv", ["tiles.py", "--quick", "--out", str(tmp_path / "tiles.json")])
    tiles.main()
    assert (tmp_path / "tiles.json").is_file() and tuned.FILE.read_text() == before
