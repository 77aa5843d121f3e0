import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.train.date_formats import FIRST_DAY, FORMATS, LAST_DAY, every_day, write_date
from models.train.date_tokenizer import ALPHABET
from models.train.dates import CONFIG
from tests.models.train.oracle import dates_meant, weekday_named

anyday = st.dates(FIRST_DAY, LAST_DAY)


def test_at_least_ten_formats_are_taught_and_no_two_are_the_same() -> None:
    assert len(set(FORMATS)) == len(FORMATS) >= 10


def test_every_calendar_day_of_two_centuries_is_there_once() -> None:
    days = every_day()
    assert len(set(days)) == len(days) == 73049
    assert (days[0], days[-1]) == (datetime.date(1900, 1, 1), datetime.date(2099, 12, 31))
    assert datetime.date(2000, 2, 29) in days


@pytest.mark.parametrize("pattern", FORMATS)
def test_an_independent_reader_finds_in_each_format_the_very_date_that_was_written(pattern: str) -> None:
    for date in every_day()[::367]:
        assert dates_meant(write_date(date, pattern)) == {date}


@given(anyday, st.sampled_from(FORMATS))
def test_a_written_weekday_is_the_right_one(date: datetime.date, pattern: str) -> None:
    named = weekday_named(write_date(date, pattern))
    assert named == (f"{date:%a}".lower() if "{w" in pattern else None)


@given(anyday, st.sampled_from(FORMATS))
def test_a_written_date_fits_the_model(date: datetime.date, pattern: str) -> None:
    text = write_date(date, pattern)
    assert set(text) <= set(ALPHABET)
    assert len(text) <= CONFIG.max_source_length
    assert len(date.isoformat()) + 2 <= CONFIG.max_target_length


def test_no_text_means_two_dates() -> None:
    meaning: dict[str, datetime.date] = {}
    for date in every_day()[::7]:
        for pattern in FORMATS:
            assert meaning.setdefault(write_date(date, pattern), date) == date
