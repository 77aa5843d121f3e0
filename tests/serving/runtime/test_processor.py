import pytest

from serving.runtime.processor import sums_of_bytes_overflow


@pytest.mark.parametrize(
    ("flags", "overflow"),
    [("sse4_2 avx2", True), ("avx2 avx512_vnni", False), ("avx2 avx_vnni", False), ("neon", False)],
)
def test_only_avx2_without_vnni_overflows(flags, overflow, tmp_path):
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: fpu {flags}\n")
    assert sums_of_bytes_overflow(tmp_path / "cpuinfo") == overflow


def test_where_nothing_tells_nothing_overflows(tmp_path):
    assert not sums_of_bytes_overflow(tmp_path / "cpuinfo")
