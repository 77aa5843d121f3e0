"""Reads dates by another way than the one that writes them: datetime.strptime, and the convention in plain words."""

import datetime
import re

MONTHS = ["%B", "%b"]
PATTERNS = (
    *(f"%d {month} %Y" for month in MONTHS),
    *(f"%d-{month}-%Y" for month in MONTHS),
    *(f"{month} %d %Y" for month in MONTHS),
    *(f"%Y {month} %d" for month in MONTHS),
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%Y-%m-%d",
)


def dates_meant(text: str) -> set[datetime.date]:
    plain = re.sub(r"\b(the|of|\w+day|mon|tue|wed|thu|fri|sat|sun)\b|,", " ", text)
    plain = " ".join(re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", plain).split())
    return {date for pattern in PATTERNS if (date := _parsed(plain, pattern))}


def weekday_named(text: str) -> str | None:
    found = re.match(r"(mon|tue|wed|thu|fri|sat|sun)", text)
    return found.group() if found else None


def _parsed(text: str, pattern: str) -> datetime.date | None:
    try:
        return datetime.datetime.strptime(text, pattern).date()
    except ValueError:
        return None
