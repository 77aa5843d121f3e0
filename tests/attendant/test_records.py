import os

import pytest

from attendant.records import read_file, read_json


def test_what_would_wait_or_never_end_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless", "."):
        with pytest.raises(OSError, match=r"is no file|Is a directory"):
            read_file(tmp_path / name)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 1 << 40)
    with pytest.raises(OSError, match="has 1099511627776 bytes, more than 67108864"):
        read_file(tmp_path / "large")


@pytest.mark.parametrize("text", [rb'{"a": "\ud800"}', rb'{"\uDFFF": 1}', b'["\xed\xa0\x80"]'])
def test_half_of_a_character_is_no_json(text, tmp_path):
    (tmp_path / "half.json").write_bytes(text)
    with pytest.raises(ValueError, match="surrogates not allowed"):
        read_json(tmp_path / "half.json")
    (tmp_path / "whole.json").write_bytes(rb'["\ud83d\ude00"]')
    assert read_json(tmp_path / "whole.json") == ["😀"]


def test_json_is_read_through_a_link_as_caches_of_models_have_them(tmp_path):
    (tmp_path / "blob").write_text('{"a": 1}', encoding="utf-8")
    (tmp_path / "config.json").symlink_to("blob")
    assert read_json(tmp_path / "config.json") == {"a": 1}
