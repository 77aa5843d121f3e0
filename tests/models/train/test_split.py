import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.train.split import hash_order, hash_share, stratified_split


@given(st.lists(st.text(max_size=5), unique=True))
def test_the_order_of_names_depends_on_the_names_alone(names: list[str]) -> None:
    ordered = hash_order(names)
    assert sorted(ordered) == sorted(names)
    assert hash_order(names[::-1]) == ordered


@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.floats(0, 1))
def test_each_class_gives_the_same_share_within_one_example(labels: list[int], share: float) -> None:
    classes, wanted = np.array(labels), int(share * len(labels))
    kept, held = stratified_split(classes, wanted)
    assert sorted([*kept, *held]) == list(range(len(labels)))
    assert len(held) == wanted
    for label in set(labels):
        expected = wanted / len(labels) * labels.count(label)
        assert abs(np.count_nonzero(classes[held] == label) - expected) <= 1 + 1e-9


def test_the_split_never_changes() -> None:
    assert stratified_split(np.arange(12) % 3, 4)[1].tolist() == [0, 1, 5, 6]


@given(st.text())
def test_a_name_falls_between_zero_and_one(name: str) -> None:
    assert 0 <= hash_share(name) < 1


def test_names_fall_evenly_and_always_to_the_same_place() -> None:
    shares = sorted(hash_share(f"name {number}") for number in range(2000))
    assert np.abs(np.array(shares) - (np.arange(2000) + 0.5) / 2000).max() < 0.03
    assert hash_share("json") == pytest.approx(0.0107, abs=1e-4)
