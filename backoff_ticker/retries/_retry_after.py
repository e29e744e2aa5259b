"""The value of HTTP's field Retry-After: a number of seconds, or a date in one of three forms."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from .._validation import LARGEST, as_number, safe_repr

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_LONG_DAY = "|".join(_DAYS)
_DAY = "|".join(name[:3] for name in _DAYS)
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"

_SECONDS = re.compile("[0-9]+")
_IMF_FIXDATE = re.compile(
    f"(?:{_DAY}), (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT"
)
_RFC850_DATE = re.compile(
    f"(?:{_LONG_DAY}), (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"
)
_ASCTIME_DATE = re.compile(
    f"(?:{_DAY}) {_MONTH} (?P<day>[0-9]{{2}}| [0-9]) {_TIME} (?P<year>[0-9]{{4}})"
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_1 = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds()
_YEAR_10000 = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH).total_seconds() + 86_400.0
_LEAP_SECOND = 60
_YEARS_AHEAD = 50


def parse_retry_after(value: str, now: float) -> float | None:
    """Return the seconds from ``now`` that ``value`` asks to wait, at least 0.

    ``value`` is a number of seconds (digits alone) or a date, in GMT, as in ``Sun, 06 Nov 1994
    08:49:37 GMT``, ``Sunday, 06-Nov-94 08:49:37 GMT`` or ``Sun Nov  6 08:49:37 1994``; spaces and
    tabs may stand around it. A date that has passed gives 0, and a number too big for a float the
    largest one. The name of the day is not compared with the date. The locale plays no part.

    Source: RFC 9110, sections 10.2.3 and 5.6.7. A year of two digits means the last such year
    whose date is not more than 50 years after ``now``.

    Args:
        value: The text of the field, any ``str``.
        now: The present in Unix seconds, within the years 1 to 9999.

    Returns:
        Finite seconds, or None where ``value`` is neither a number of seconds nor a date.

    Raises:
        TypeError: ``now`` is no number.
        ValueError: ``now`` is out of its range.
    """
    now = _as_moment("now", now)
    text = value.strip(" \t")
    if _SECONDS.fullmatch(text):
        return min(float(text), LARGEST)
    for form in (_IMF_FIXDATE, _RFC850_DATE, _ASCTIME_DATE):
        found = form.fullmatch(text)
        if found is not None:
            moment = _unix_seconds(found, now)
            return None if moment is None else max(moment - now, 0.0)
    return None


def _as_moment(name: str, value: float) -> float:
    expected = "Unix seconds within the years 1 to 9999"
    moment = as_number(name, value, expected)
    if not _YEAR_1 <= moment < _YEAR_10000:
        raise ValueError(f"{name} must be {expected}, not {safe_repr(value)}")
    return moment


def _unix_seconds(found: re.Match[str], now: float) -> float | None:
    """Return the moment that a date tells, or None where there is no such moment."""
    month = _MONTHS.index(found["month"]) + 1
    day, hour, minute, second = (int(found[name]) for name in ("day", "hour", "minute", "second"))
    if second > _LEAP_SECOND:
        return None
    year = int(found["year"])
    if found.re is _RFC850_DATE:
        year = _whole_year(year, (month, day, hour, minute, second), now)
    try:
        minute_began = datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        return None
    return (minute_began - _EPOCH).total_seconds() + second


def _whole_year(two_digits: int, rest: tuple[int, ...], now: float) -> int:
    """Return the last year that ends so, if its date is not more than 50 years after ``now``.

    Args:
        two_digits: The end of the year.
        rest: Month, day, hour, minute, second of the date.
        now: The present, in Unix seconds.
    """
    present = _EPOCH + timedelta(seconds=now)
    latest = present.year + _YEARS_AHEAD
    year = latest - (latest - two_digits) % 100
    return year - 100 if year == latest and rest > present.timetuple()[1:6] else year
