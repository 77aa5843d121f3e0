"""The harness finds the processes of what it started, and what they hold; and it changes repositories as it says."""

import os
import subprocess
import sys
import time

import pytest

from benchmarks.chaos.processes import family_of
from benchmarks.chaos.repository import change_repository


def test_a_family_is_a_process_and_all_that_descend_from_it():
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        until = time.monotonic() + 30
        while len(family := family_of(process.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert [one.role for one in family] == ["serve", "other"]
        assert all(one.is_alive and one.resident_mb > 1 and one.descriptors > 2 for one in family)
    finally:
        for one in family_of(process.pid):
            os.kill(one.pid, 9)
        process.wait()
    while any(one.is_alive for one in family) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(one.is_alive for one in family)
    assert family_of(process.pid) == []


@pytest.mark.parametrize("change", ["truncate", "manifest", "add", "remove"])
def test_a_repository_is_changed_in_one_models_folder(change, tmp_path):
    for model in ("a", "b"):
        (tmp_path / model / "1").mkdir(parents=True)
        (tmp_path / model / "1" / "model.onnx").write_bytes(bytes(100))
        (tmp_path / model / "1" / "manifest.json").write_bytes(bytes(50))
        (tmp_path / model / "config.pbtxt").write_text(f'name: "{model}"\n')
    change_repository(tmp_path, change, "a")
    sizes = {str(path.relative_to(tmp_path)): path.stat().st_size for path in tmp_path.rglob("*.*")}
    assert sizes["b/1/model.onnx"] == 100 and sizes["b/1/manifest.json"] == 50
    assert sizes.get("a/1/model.onnx") == {"truncate": 50, "remove": None}.get(change, 100)
    assert sizes.get("a/1/manifest.json") == {"manifest": 25, "remove": None}.get(change, 50)
    assert ("copied-0/1/model.onnx" in sizes) is (change == "add")
    if change == "add":
        change_repository(tmp_path, change, "a")
        for name in ("copied-0", "copied-1"):
            assert (tmp_path / name / "config.pbtxt").read_text() == f'name: "{name}"\n'
