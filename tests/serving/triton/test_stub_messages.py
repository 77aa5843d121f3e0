"""The queue of messages to a stub, in regions of this and of other layouts."""

import struct

import pytest

from serving.triton.stub_messages import CONTROL, OWNER_BYTES, QUEUE_AT, REGION, STATE_AT, STUB, find_messages

CONTROL_PLACE, QUEUE_PLACE = 64, 512


@pytest.fixture
def region(tmp_path):
    """Writes a region with a queue of so many places and such a head and tail, and gives a stub's arguments."""

    def write(size=1000, head=3, tail=3, place=QUEUE_PLACE):
        data = bytearray(1024)
        struct.pack_into("q", data, CONTROL_PLACE + OWNER_BYTES + QUEUE_AT, place)
        struct.pack_into("Qqii", data, QUEUE_PLACE + OWNER_BYTES + STATE_AT, size, 0, head, tail)
        (tmp_path / "region").write_bytes(data)
        arguments = [f"a/{STUB}", *["0"] * 9]
        arguments[REGION], arguments[CONTROL] = "region", str(CONTROL_PLACE)
        return arguments

    return write


def test_what_waits_behind_a_request_shows_that_it_was_given_up(region, tmp_path):
    messages = find_messages(region(), tmp_path)
    assert messages.is_empty
    region(head=4)
    assert not messages.is_empty


def test_it_says_that_it_lives_where_triton_looks(region, tmp_path):
    find_messages(region(), tmp_path).say_alive()
    data = (tmp_path / "region").read_bytes()
    assert [place for place in range(QUEUE_PLACE) if data[place] == 1] == [CONTROL_PLACE + OWNER_BYTES]


@pytest.mark.parametrize(
    "wrong",
    [{"size": 0}, {"size": 1 << 40}, {"head": 5}, {"head": -1, "tail": -1}, {"place": 1 << 40}, {"place": -9000}],
)
def test_another_layout_is_left_alone(region, tmp_path, wrong, capsys):
    assert find_messages(region(**wrong), tmp_path) is None
    assert "not seen" in capsys.readouterr().err


def test_what_is_no_stub_has_no_messages(region, tmp_path, capsys):
    arguments = region()
    assert find_messages(["python", *arguments[1:]], tmp_path) is None
    assert find_messages(arguments[:3], tmp_path) is None
    assert find_messages(arguments, tmp_path / "elsewhere") is None
