"""The queue of messages to a stub, in regions of this and of other layouts."""

import ctypes
import mmap
import struct

import pytest

from serving.triton import stub_messages
from serving.triton.stub_messages import (
    CONTROL,
    FILLED_AT,
    FROM_STUB_AT,
    MUTEX_AT,
    OWNER_BYTES,
    QUEUE_AT,
    REGION,
    STATE_AT,
    STUB,
    FirstMessage,
    find_messages,
)

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


@pytest.fixture
def unborn(tmp_path):
    """A region of a stub that has said nothing, with semaphores and mutexes of this machine, and those of its queue."""
    libc, (to_stub, from_stub) = ctypes.CDLL(None), (1024, 2048)
    path = tmp_path / "unborn"
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    control = stub_messages.CONTROL_PLACE + OWNER_BYTES
    for at, queue in ((QUEUE_AT, to_stub), (FROM_STUB_AT, from_stub)):
        struct.pack_into("q", memory, control + at, queue - OWNER_BYTES)
        struct.pack_into("Qqii", memory, queue + STATE_AT, 2, queue + 256, 0, 0)
        for place, count in ((0, 2), (FILLED_AT, 0)):
            libc.sem_init(ctypes.c_void_p(begin + queue + place), 1, count)
    places = (ctypes.c_void_p(begin + from_stub + at) for at in (0, FILLED_AT, MUTEX_AT))
    return path, libc, *places


def test_the_first_message_is_there_for_who_waits_for_it(unborn):
    path, libc, empty, filled, mutex = unborn
    message = FirstMessage(path)
    assert message.is_awaited and libc.sem_trywait(filled) == -1
    message.send()
    assert not message.is_awaited
    assert libc.pthread_mutex_trylock(mutex) == 0, "which is free again"
    assert [libc.sem_trywait(filled), libc.sem_trywait(filled)] == [0, -1]
    assert [libc.sem_trywait(empty), libc.sem_trywait(empty)] == [0, -1], "of two places"


def test_it_is_not_sent_while_somebody_looks(unborn):
    path, libc, empty, filled, mutex = unborn
    message = FirstMessage(path)
    libc.pthread_mutex_lock(mutex)
    with pytest.raises(BlockingIOError):
        message.send()
    assert message.is_awaited and libc.sem_trywait(filled) == -1
    assert [libc.sem_trywait(empty) for _ in range(3)] == [0, 0, -1]


def test_it_is_awaited_in_no_region_of_another_layout(tmp_path):
    (tmp_path / "region").write_bytes(bytes(4096))
    with pytest.raises(ValueError, match="no queue of messages"):
        FirstMessage(tmp_path / "region")
