"""Bytes, seconds and counts as people read them."""

_STEP = 1000.0


def bytes_text(count: float) -> str:
    """A size in decimal units, for instance ``3.29 MB``."""
    return _scaled(count, ("B", "kB", "MB", "GB", "TB"))


def count_text(count: float) -> str:
    """A number of parameters, for instance ``816 k``."""
    return _scaled(count, ("", "k", "M", "G", "T")).strip()


def seconds_text(seconds: float) -> str:
    """A time, for instance ``254 µs``."""
    if seconds <= 0:
        return "< 1 µs"
    return _scaled(seconds * 1e6, ("µs", "ms", "s")) if seconds < 1e3 else f"{seconds:,.0f} s"


def _scaled(value: float, units: tuple[str, ...]) -> str:
    *smaller, largest = units
    for unit in smaller:
        if value < _STEP * 0.9995:
            return f"{value:.0f} {unit}" if unit == units[0] else f"{value:.3g} {unit}"
        value /= _STEP
    return f"{value:,.3g} {largest}"
