from __future__ import annotations

import time
from pathlib import Path

import pytest

from serving.triton.server.server_log import LogFollower, problems_in

LOG = r"""
E1121 02:11:35.665328 7025 server.cc:241] "CudaDriverHelper has not been initialized."
I1121 02:11:35.666049 7025 model_lifecycle.cc:472] "loading: broken:1"
E1121 02:11:36.022496 7025 backend_model.cc:692] "ERROR: Failed to create instance: ValueError: no \"x\"\n"
E1121 02:11:36.022603 7025 model_lifecycle.cc:642] "failed to load 'broken': no \"x\"\n\nAt:\n  model.py(3)\n"
+--------+
error: creating server: Internal - failed to load all models
"""


def test_the_errors_are_told_in_plain_words_and_once():
    assert problems_in(LOG) == [
        "failed to load 'broken': no \"x\" At: model.py(3)",
        "creating server: Internal - failed to load all models",
    ]


def test_the_last_lines_are_told_when_no_line_is_an_error():
    assert problems_in("\n".join(map(str, range(9)))) == ["4", "5", "6", "7", "8"]


def test_a_followed_log_is_copied_to_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    log = tmp_path / "log"
    log.write_text("first\n")
    with LogFollower(log), log.open("a") as writer:
        time.sleep(0.3)
        writer.write("last\n")
    assert capsys.readouterr().err == "first\nlast\n"
