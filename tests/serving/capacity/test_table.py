"""Between measured points a table is bilinear, below them it stays, beyond them it refuses."""

import pytest

from attendant.errors import ConfigError
from serving.capacity.table import TimeTable


def plane(x, y):
    return 1.0 + 2.0 * x + 3.0 * y + 0.5 * x * y


def table(sizes=(1, 4, 16), lengths=(8, 64)):
    seconds = tuple(tuple(plane(x, y) for y in lengths) for x in sizes)
    return TimeTable(sizes=sizes, lengths=lengths, seconds=seconds)


@pytest.mark.parametrize("point", [(1, 8), (4, 64), (16, 64), (2, 8), (10, 30), (3, 63)])
def test_what_is_bilinear_is_repeated_exactly(point):
    assert table().at(*point) == pytest.approx(plane(*point))
    assert table().at(*point) == pytest.approx(plane(*point))


def test_below_the_grid_its_edge_holds():
    assert table().at(1, 1) == pytest.approx(plane(1, 8))


@pytest.mark.parametrize(("point", "axis"), [((17, 8), "sizes"), ((1, 65), "lengths")])
def test_beyond_the_grid_nothing_is_known(point, axis):
    with pytest.raises(ConfigError, match=f"{axis} of a profile up to"):
        table().at(*point)


def test_one_point_is_a_table():
    assert TimeTable(sizes=(1,), lengths=(1,), seconds=((0.5,),)).at(1, 1) == 0.5


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ({"sizes": (4, 1)}, "sizes of at least 1 that rise"),
        ({"lengths": ()}, "lengths of at least 1 that rise"),
        ({"seconds": ((1.0,),)}, "2 rows of 1 seconds"),
        ({"seconds": ((1.0,), (0.0,))}, "seconds above 0"),
        ({"seconds": ((1.0,), (float("nan"),))}, "seconds above 0"),
    ],
)
def test_a_table_that_is_none_is_refused(parts, wanted):
    with pytest.raises(ConfigError, match=wanted):
        TimeTable(**{"sizes": (1, 4), "lengths": (1,), "seconds": ((1.0,), (2.0,)), **parts})
