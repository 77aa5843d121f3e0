from dataclasses import replace

import pytest

from export.tensorrt.timing_cache import keep_timings, read_timings, timing_file
from tests.nvidia.engines import H100


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_timings_are_kept_for_a_gpu_and_a_version():
    assert read_timings(H100) == b""
    keep_timings(H100, lambda kept: kept + b"first")
    assert read_timings(H100) == b"first"
    assert timing_file(H100).name == "nvidia-h100-80gb-hbm3-9.0-tensorrt-11.4.0.cache"


@pytest.mark.parametrize("other", [{"gpu": "NVIDIA H200"}, {"tensorrt": "11.4.1"}, {"capability": "10.0"}], ids=str)
def test_another_gpu_or_version_has_others(other):
    keep_timings(H100, lambda kept: b"ours")
    assert read_timings(replace(H100, **other)) == b""


def test_what_another_build_has_kept_in_the_meantime_is_combined():
    keep_timings(H100, lambda kept: kept + b"a")
    keep_timings(H100, lambda kept: kept + b"b")
    assert read_timings(H100) == b"ab"
    assert [path.name for path in timing_file(H100).parent.iterdir()] == [timing_file(H100).name]


def test_a_place_that_cannot_be_written_costs_nothing_but_time(place):
    (place / "attendant").write_text("no folder")
    keep_timings(H100, lambda kept: b"x")
    assert read_timings(H100) == b""
