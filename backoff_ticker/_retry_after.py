"""The value of HTTP's field Retry-After: a number of seconds, or a date in one of three forms.

``email.utils`` accepts far more than these forms, and reads no leap second, no year below 100, and
no two-digit year as HTTP defines it.
"""

from __future__ import annotations

from ._validation import LARGEST, as_number, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_DAY = "|".join(name[:3] for name in _DAYS)
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"

_DATE_FORMS = (
    f"(?:{_DAY}), (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",
    f"(?:{'|'.join(_DAYS)}), (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",
    f"(?:{_DAY}) {_MONTH} (?P<day>[0-9]{{2}}| [0-9]) {_TIME} (?P<year>[0-9]{{4}})",
)

_YEAR_1, _YEAR_10000 = -62_135_596_800.0, 253_402_300_800.0  # in Unix seconds
_LEAP_SECOND = 60
_YEARS_AHEAD = 50


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds to wait that the value of a Retry-After header asks for.

    The value is a number of seconds (digits only) or a date in GMT, such as ``Sun, 06 Nov 1994
    08:49:37 GMT``, ``Sunday, 06-Nov-94 08:49:37 GMT`` or ``Sun Nov  6 08:49:37 1994``; spaces and
    tabs around it are ignored. A date in the past gives 0. A number too big for a float gives the
    largest float. The name of the day is not checked against the date. The locale does not matter.

    Of anything else, such as ``3600.5``, ``120 s``, or two fields joined as ``120, 3600``, the
    greatest number or date in it counts: the server has asked for that at least.

    Source: RFC 9110, sections 10.2.3 and 5.6.7. A two-digit year means the latest such year
    whose date is not more than 50 years after ``now``.

    Example:
        >>> from backoff_ticker import parse_retry_after
        >>> parse_retry_after("120", now=0.0)
        120.0
        >>> parse_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", now=15.0)
        45.0
        >>> parse_retry_after("120, 3600", now=0.0)
        3600.0
        >>> parse_retry_after("soon", now=0.0)

    Args:
        value: The text of the header. None means that the response has no such header.
        now: The current time in Unix seconds, such as ``time.time()``, within the years 1 to 9999.

    Returns:
        Finite seconds >= 0, or None if there is neither a number nor a date in ``value``.

    Raises:
        TypeError: ``value`` is neither a ``str`` nor None, or ``now`` is not a number.
        ValueError: ``now`` is out of range.
    """
    import re

    expected = "Unix seconds within the years 1 to 9999"
    present = as_number("now", now, expected)
    if not _YEAR_1 <= present < _YEAR_10000:
        raise ValueError(f"now must be {expected}, not {safe_repr(now)}")
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(
            f"value must be a str or None, not {safe_repr(value)} of type {type(value).__name__}"
        )
    asked: list[float] = []

    def take_date(date: re.Match[str]) -> str:
        moment = _unix_seconds(date, present)
        if moment is None:
            return date[0]
        asked.append(moment - present)
        return ""

    for form in _DATE_FORMS:
        value = re.sub(form, take_date, value)
    asked += map(float, re.findall(r"[0-9]*\.?[0-9]+(?:[eE]\+?[0-9]+)?", value))
    return max(min(max(asked), LARGEST), 0.0) if asked else None


def _unix_seconds(date: re.Match[str], now: float) -> float | None:
    """Return the moment of a date in Unix seconds; None if there is no such date."""
    from datetime import UTC, datetime, timedelta

    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    month = _MONTHS.index(date["month"]) + 1
    day, hour, minute, second = (int(date[name]) for name in ("day", "hour", "minute", "second"))
    if second > _LEAP_SECOND:
        return None
    year = int(date["year"])
    if len(date["year"]) == len("94"):
        present = epoch + timedelta(seconds=now)
        latest = present.year + _YEARS_AHEAD
        year = latest - (latest - year) % 100
        if year == latest and (month, day, hour, minute, second) > present.timetuple()[1:6]:
            year -= 100
    try:
        start_of_minute = datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        return None
    return (start_of_minute - epoch).total_seconds() + second
