import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from serving.runtime.torch.capture import SHORTEST, NewTensors, Recording, Recordings, bucket


@given(attended=st.integers(1, 40_000), capacity=st.integers(1, 40_000))
def test_a_bucket_holds_what_is_attended_within_the_capacity_and_is_hardly_longer(attended, capacity):
    attended = min(attended, capacity)
    found = bucket(attended, capacity)
    assert attended <= found <= capacity
    assert found <= max(SHORTEST, attended + attended // 4 + SHORTEST)
    assert bucket(found, capacity) == found


def test_there_are_few_buckets():
    assert len({bucket(attended, 8192) for attended in range(1, 8193)}) < 30


def test_new_tensors_lie_in_one_piece_and_a_short_one_is_filled_up_with_zeros():
    new = NewTensors({"ids": ("int64", (2, 1)), "mask": ("bool", (2, 1, 1, 6)), "x": ("bfloat16", (2, 3))}, "cpu")
    addresses = [tensor.data_ptr() for tensor in new.tensors.values()]
    bits = torch.full((2, 3), 1.5, dtype=torch.bfloat16).view(torch.uint16).numpy()
    for length in (6, 4):
        ids = np.array([[length], [9]])
        new.write({"ids": ids, "mask": np.ones((2, 1, 1, length), dtype=bool), "x": bits})
        assert new.tensors["ids"].tolist() == ids.tolist()
        assert new.tensors["mask"].sum(-1).tolist() == [[[length]], [[length]]]
        assert (new.tensors["x"] == 1.5).all()
    assert [tensor.data_ptr() for tensor in new.tensors.values()] == addresses
    assert all(address % 16 == 0 for address in np.diff(addresses))


def test_a_recording_is_made_once_a_key_and_the_one_not_used_for_longest_goes_first():
    made = []
    recordings = Recordings(most=2)

    def asked(key):
        recordings.get(key, lambda: made.append(key) or Recording(None, None))

    for key in ("a", "b", "a", "c", "a", "b"):
        asked(key)
    assert made == ["a", "b", "c", "b"]
    assert len(recordings) == 2
