"""How people write a calendar day, and the one way in which ISO 8601 does.

No format is ambiguous. Numbers follow one convention a separator: dots are day first (3.3.1997), slashes are month
first (3/14/1997) unless the year leads (1997/03/14), hyphens are ISO. Years always have four digits, 1900 to 2099.
"""

import datetime

FIRST_DAY = datetime.date(1900, 1, 1)
LAST_DAY = datetime.date(2099, 12, 31)

_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_SUFFIXES = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}

FORMATS = (
    "{day}{suffix} of {month} {year}",
    "the {day}{suffix} of {month}, {year}",
    "{day}{suffix} {month} {year}",
    "{day} {month} {year}",
    "{day} {mon} {year}",
    "{day}-{mon}-{year}",
    "{month} {day} {year}",
    "{month} {day}, {year}",
    "{month} {day}{suffix}, {year}",
    "{mon} {day}, {year}",
    "{weekday}, {day} {month} {year}",
    "{wkd}, {day:02d} {mon} {year}",
    "{weekday}, {month} {day}{suffix}, {year}",
    "{year} {month} {day}",
    "{day:02d}.{number:02d}.{year}",
    "{day}.{number}.{year}",
    "{number:02d}/{day:02d}/{year}",
    "{number}/{day}/{year}",
    "{year}/{number:02d}/{day:02d}",
    "{year}-{number:02d}-{day:02d}",
)


def every_day() -> list[datetime.date]:
    """Every day from 1 January 1900 to 31 December 2099."""
    return [FIRST_DAY + datetime.timedelta(days) for days in range((LAST_DAY - FIRST_DAY).days + 1)]


def write_date(date: datetime.date, pattern: str) -> str:
    """The date in lower-case English, in one of :data:`FORMATS`."""
    month, weekday = _MONTHS[date.month - 1], _WEEKDAYS[date.weekday()]
    return pattern.format(
        day=date.day,
        suffix=_SUFFIXES.get(date.day, "th"),
        month=month,
        mon=month[:3],
        number=date.month,
        weekday=weekday,
        wkd=weekday[:3],
        year=date.year,
    )
