"""``backoff-ticker retry-after``: the parser has tests of its own."""

import sys
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from backoff_ticker.testing import VirtualClock

from .calling import call


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("120\r\n", "120"),
        ("10000000000000000", "10000000000000000"),
        ("9" * 400, str(int(sys.float_info.max))),
        ("Sun, 06 Nov 1994 08:49:37 GMT", "0"),
    ],
)
def test_seconds_from_now(value, printed):
    assert call("retry-after", value) == (0, f"{printed}\n", "")


@pytest.mark.parametrize(
    ("ahead", "printed"), [(0.0004, "0.001"), (0.0011, "0.002"), (0.9999, "1"), (1.0, "1")]
)
def test_a_wait_until_a_date_is_rounded_up_to_milliseconds(ahead, printed):
    date = datetime(2030, 1, 1, tzinfo=UTC)
    with VirtualClock(epoch=date.timestamp() - ahead):
        said = call("retry-after", format_datetime(date, usegmt=True))
    assert said == (0, f"{printed}\n", "")


@pytest.mark.parametrize("value", ["", "soon", "-x", "\udcff", "a\nb"])
def test_what_is_neither_fails_with_1(value):
    said = call("retry-after", value)
    assert (said.status, said.out) == (1, "")
    assert said.err == f"Error: neither a number of seconds nor an HTTP date: {value!r}\n"


def test_what_stands_after_two_dashes_is_no_option():
    assert call("retry-after -- 5").out == "5\n"
    assert call("retry-after -- --help").status == 1
