import pytest

from serving.runtime.processor import has_instructions, sums_of_bytes_overflow


@pytest.mark.parametrize(
    ("flags", "overflow"),
    [("sse4_2 avx2", True), ("avx2 avx512_vnni", False), ("avx2 avx_vnni", False), ("neon", False)],
)
def test_only_avx2_without_vnni_overflows(flags, overflow, tmp_path):
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: fpu {flags}\n")
    assert sums_of_bytes_overflow(tmp_path / "cpuinfo") == overflow


def test_where_nothing_tells_nothing_overflows(tmp_path):
    assert not sums_of_bytes_overflow(tmp_path / "cpuinfo")


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        ("", "avx2 avx_vnni avx512f avx512_bf16 amx_int8"),
        ("ALL", "avx2 avx_vnni avx512f avx512_bf16 amx_int8"),
        ("avx512_core_vnni", "avx2 avx_vnni avx512f"),
        ("AVX2_VNNI", "avx2 avx_vnni"),
        ("AVX2", "avx2"),
        ("AVX", ""),
    ],
)
def test_what_onednn_is_forbidden_is_not_known(limit, left, monkeypatch, tmp_path):
    every = "avx2 avx_vnni avx512f avx512_bf16 amx_int8"
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {every}\n")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    has_instructions.cache_clear()
    assert {name for name in every.split() if has_instructions(frozenset({name}), tmp_path / "cpuinfo")} == {
        *left.split()
    }
    has_instructions.cache_clear()
