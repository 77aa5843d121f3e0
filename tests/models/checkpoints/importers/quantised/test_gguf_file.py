import random
import struct
import tracemalloc

import gguf
import numpy as np
import pytest

from attendant.errors import ArtefactError, AttendantError, ConfigError
from models.checkpoints.importers.quantised.gguf_file import read_gguf
from models.checkpoints.importers.quantised.gguf_model import gguf_config, gguf_tensors

TEXT = struct.pack("<Q", 1) + b"a"


@pytest.fixture
def path(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    writer.add_token_list(["a", "<é>", "日本"])
    writer.add_array("numbers", [1, 2, 3])
    writer.add_bool("truth", True)
    writer.add_float32("half", 0.5)
    writer.add_tensor("one", np.arange(64, dtype=np.float32).reshape(2, 32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "one.gguf"


def test_metadata_and_places_are_those_that_gguf_py_wrote(path):
    file = read_gguf(path)
    assert file.values["general.architecture"] == "llama"
    assert file.values["tokenizer.ggml.tokens"] == ["a", "<é>", "日本"]
    assert (file.values["numbers"], file.values["truth"], file.values["half"]) == ([1, 2, 3], True, 0.5)
    assert (file.tensors["one"].kind, file.tensors["one"].shape) == ("F32", (2, 32))
    assert file.bytes_of("one").view(np.float32).tolist() == np.arange(64.0).reshape(2, 32).tolist()


def header(version=3, tensors=0, entries=0, rest=b""):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries) + rest


def tensor(shape=(32,), kind=0, offset=0, name=b"a"):
    return struct.pack("<Q", 1) + name + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


HUGE = 2**63
HOSTILE = {
    "nothing": b"",
    "another file": b"PK\x03\x04" * 9,
    "an old version": header(version=1),
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "many tensors": header(tensors=HUGE),
    "many entries": header(entries=HUGE),
    "a long key": header(entries=1, rest=struct.pack("<Q", HUGE)),
    "a long text": header(entries=1, rest=TEXT + struct.pack("<IQ", 8, HUGE)),
    "a long array": header(entries=1, rest=TEXT + struct.pack("<IIQ", 9, 4, HUGE)),
    "a long array of texts": header(entries=1, rest=TEXT + struct.pack("<IIQ", 9, 8, HUGE)),
    "an array of arrays": header(entries=1, rest=TEXT + struct.pack("<IIQ", 9, 9, 1)),
    "an unknown value": header(entries=1, rest=TEXT + struct.pack("<I", 99)),
    "no text": header(entries=1, rest=struct.pack("<Q", 1) + b"\xff" + struct.pack("<IB", 0, 1)),
    "a key twice": header(entries=2, rest=2 * (TEXT + struct.pack("<IB", 0, 1))),
    "many axes": header(tensors=1, rest=tensor((1,) * 9)),
    "no axes": header(tensors=1, rest=tensor(())),
    "an empty axis": header(tensors=1, rest=tensor((32, 0))),
    "a huge axis": header(tensors=1, rest=tensor((HUGE, HUGE))),
    "a part of a block": header(tensors=1, rest=tensor((33,), kind=8)),
    "beyond the file": header(tensors=1, rest=tensor((2**20, 2**20))),
    "far beyond the file": header(tensors=1, rest=tensor(offset=2**63)),
    "an odd place": header(tensors=1, rest=tensor(offset=7) + bytes(999)),
    "a place of another": header(tensors=2, rest=tensor() + tensor(name=b"b") + bytes(999)),
    "a gap": header(tensors=2, rest=tensor() + tensor(name=b"b", offset=256) + bytes(999)),
    "no alignment": header(entries=1, rest=struct.pack("<Q", 17) + b"general.alignment" + struct.pack("<II", 4, 0)),
}


@pytest.mark.parametrize("content", HOSTILE)
def test_a_damaged_file_is_refused_without_reading_what_it_asks_for(content, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(HOSTILE[content])
    tracemalloc.start()
    with pytest.raises(ArtefactError, match=r"a whole GGUF file at .*bad\.gguf"):
        read_gguf(tmp_path / "bad.gguf")
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


@pytest.mark.parametrize(("kind", "name"), [(6, "Q5_0"), (13, "Q5_K"), (20, "IQ4_NL"), (39, "MXFP4"), (77, "type 77")])
def test_another_type_is_refused_by_name(kind, name, tmp_path):
    (tmp_path / "other.gguf").write_bytes(header(tensors=1, rest=tensor((256,), kind=kind) + bytes(4096)))
    with pytest.raises(ConfigError, match=rf"GGUF: {name}, of which a is") as caught:
        read_gguf(tmp_path / "other.gguf")
    assert "Q4_0, Q4_1, Q4_K, Q6_K, Q8_0" in caught.value.expected


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ArtefactError, match=r"none\.gguf"):
        read_gguf(tmp_path / "none.gguf")


def test_no_damage_is_an_unexpected_error(path, tmp_path):
    whole, chance = path.read_bytes(), random.Random(3)  # noqa: S311
    for _ in range(300):
        damaged = bytearray(whole[: chance.randrange(len(whole))] if chance.random() < 0.2 else whole)
        for _ in range(chance.randrange(1, 4) if damaged else 0):
            damaged[chance.randrange(min(len(damaged), 400))] = chance.randrange(256)
        (tmp_path / "damaged.gguf").write_bytes(damaged)
        try:
            file = read_gguf(tmp_path / "damaged.gguf")
            gguf_tensors(file, gguf_config(file))
        except AttendantError:
            pass
