"""The value of Retry-After: seconds, and the three forms of a date in RFC 9110."""

import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given, strategies as st

from backoff_ticker import parse_retry_after

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
THE_EXAMPLE = 784111777
"""1994-11-06 08:49:37, the date of which RFC 9110 shows each form."""

FIRST = datetime(1, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(microsecond=0))

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


MOST = 1.7976931348623157e308


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *[("0", 0), ("120", 120), ("007", 7), ("  120", 120), ("120\t ", 120)],
        *[("9" * 400, MOST), ("9" * 100_000, MOST), ("0" * 100_000 + "5", 5)],
    ],
)
def test_digits_are_seconds_from_now(value, seconds):
    found = parse_retry_after(value, NOW)
    assert found == seconds
    assert type(found) is float


NO_SECONDS = ["0", None, True]
NO_MOMENTS = [math.nan, math.inf, 10**400, -62135596800.001, 253402300800]


@pytest.mark.parametrize("value", ["5", "Sunday, 06-Nov-94 08:49:37 GMT", "soon"])
def test_a_present_that_is_none_is_refused_by_name(value):
    for now in (*NO_SECONDS, *NO_MOMENTS):
        kind = TypeError if now in NO_SECONDS else ValueError
        with pytest.raises(
            kind, match="^now must be Unix seconds within the years 1 to 9999, not "
        ):
            parse_retry_after(value, now)


@pytest.mark.parametrize(
    "value",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun Nov 06 08:49:37 1994",
        " \tSun, 06 Nov 1994 08:49:37 GMT\t ",
        "Mon, 06 Nov 1994 08:49:37 GMT",  # the name of the day is not compared with the date
    ],
)
def test_the_three_forms_of_the_rfc(value):
    assert parse_retry_after(value, THE_EXAMPLE - 37.5) == 37.5
    assert parse_retry_after(value, THE_EXAMPLE) == 0.0


@given(MOMENTS, st.integers(0, 10**9))
@example(FIRST + timedelta(days=1), 10**9)
def test_the_two_forms_with_a_whole_year_tell_any_moment(moment, ahead):
    now = max(moment.timestamp() - ahead, FIRST.timestamp())
    for value in (format_datetime(moment, usegmt=True), moment.ctime()):
        assert parse_retry_after(value, now) == moment.timestamp() - now


@pytest.mark.parametrize(
    ("value", "now", "moment"),
    [
        # up to 50 years ahead it is the future, beyond that the past
        ("Friday, 02-Jan-76 03:04:05 GMT", NOW, (2076, 1, 2, 3, 4, 5)),
        ("Friday, 02-Jan-76 03:04:06 GMT", NOW, None),
        ("Friday, 01-Jan-77 00:00:00 GMT", NOW, None),
        ("Tuesday, 31-Dec-75 23:59:59 GMT", NOW, (2075, 12, 31, 23, 59, 59)),
        ("Friday, 31-Dec-99 00:00:00 GMT", NOW, None),
        ("Friday, 02-Jan-26 03:04:06 GMT", NOW, (2026, 1, 2, 3, 4, 6)),
        # also across the end of a century
        ("Saturday, 01-Jan-00 00:00:00 GMT", 946684799.0, (2000, 1, 1)),
        ("Wednesday, 01-Jan-10 00:00:00 GMT", 3786912000.0, (2110, 1, 1)),
    ],
)
def test_a_year_of_two_digits_is_within_fifty_years(value, now, moment):
    ahead = 0.0 if moment is None else datetime(*moment, tzinfo=UTC).timestamp() - now
    assert parse_retry_after(value, now) == ahead


def test_a_leap_second_is_the_second_before_midnight_ends():
    at = datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
    for value in (
        "Sat, 31 Dec 2016 23:59:60 GMT",
        "Saturday, 31-Dec-16 23:59:60 GMT",
        "Sat Dec 31 23:59:60 2016",
    ):
        assert parse_retry_after(value, at) == 1.0


@pytest.mark.parametrize(
    "value", [None, "", " ", "soon", "nan", "\u0661\u0662", "\uff11", "\u00b2"]
)
def test_where_there_is_neither_a_number_nor_a_date_nothing_is_asked_for(value):
    assert parse_retry_after(value, NOW) is None


ODD = [
    *[("-1", 1), ("+1", 1), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000), ("1_000", 1), ("0x10", 10)],
    *[("1 2", 2), ("120 s", 120), ("3600.5", 3600.5), ("120\n", 120), ("120\x00", 120)],
    *[("120, 3600", 3600), ("3600, 120", 3600), ("120,5", 120), ("1e999", MOST)],
    # dates that are none: at least, nobody asks at once
    *[("Sun, 06 Nov 1994 08:49:37 UTC", 1994), ("Sun, 06 Nov 94 08:49:37 GMT", 94)],
    *[("Sun, 06 Nov 1994 08:49:37 gmt", 1994), ("1994-11-06T08:49:37Z", 1994)],
    *[("sun, 06 nov 1994 08:49:37 GMT", 1994), ("Sun Nov 6 08:49:37 1994", 1994)],
    *[("Sun, 31 Nov 1994 08:49:37 GMT", 1994), ("Sun, 06 Nov 1994 08:49:61 GMT", 1994)],
    *[("Sun, 06 Nov 1994 24:00:00 GMT", 1994), ("Sun, 06 Nov 0000 08:49:37 GMT", 49)],
    *[("Sun, 06-Nov-94 08:49:37 GMT", 94), ("Sunday, 06-Nov-1994 08:49:37 GMT", 1994)],
    # more than a date
    *[("Sun, 06 Nov 1994 08:49:37 GMT;", 37), ("Sun, 06 Nov 1994 08:49:37 GMT, 5", 37)],
    *[("40, Sun, 06 Nov 1994 08:49:37 GMT", 40)],
    ("Sun, 06 Nov 1994 08:49:37 GMT, Sun Nov  6 08:50:00 1994", 60),
]


@pytest.mark.parametrize("value, seconds", ODD)
def test_of_what_breaks_the_rules_the_greatest_number_or_date_counts(value, seconds):
    assert parse_retry_after(value, THE_EXAMPLE - 37) == seconds


@pytest.mark.parametrize("value", [b"5", 5, 5.0])
def test_what_is_no_text_is_refused_by_name(value):
    with pytest.raises(TypeError, match=f"^value must be a str or None, not {value!r} of type "):
        parse_retry_after(value, NOW)


PIECES = st.sampled_from(
    [*DAYS, *MONTHS, *(day[:3] for day in DAYS), "GMT", ", ", " ", "  ", "-", ":", "94", "1994"]
)
NEARLY_DATES = st.lists(PIECES | st.from_regex("[0-9]{1,5}", fullmatch=True), max_size=14)


@given(st.text() | NEARLY_DATES.map("".join), st.floats(-6e10, 2.5e11))
@example("\ud800", 0.0)
@example("Saturday, 31-Dec-99 23:59:60 GMT", 2.5e11)
@example("Monday, 01-Jan-00 00:00:00 GMT", -6e10)
def test_no_text_raises_and_every_answer_is_finite(value, now):
    found = parse_retry_after(value, now)
    assert found is None or (math.isfinite(found) and found >= 0.0)
