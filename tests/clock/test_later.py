"""Sums of times: what is due after a delay is due at a time that a clock can show."""

import math
from fractions import Fraction

from hypothesis import example, given, strategies as st

from backoff_ticker.clock import later

SECOND = 10**9
UPTIME = 2 * 10**6 * SECOND  # three weeks


@given(st.integers(0, UPTIME), st.integers(0, UPTIME))
@example(999_999 * SECOND + 999_999_999, 1)
def test_whole_nanoseconds_are_added_exactly(now, delay):
    assert later(now / SECOND, delay / SECOND) == (now + delay) / SECOND


@given(st.floats(-1e300, 1e300), st.floats(0, 1e300))
@example(1e6, 1e-10)
@example(-1e300, 1.0)
@example(1.0, 5e-10)
def test_it_is_a_nanosecond_off_at_most_and_never_before_now(now, delay):
    when = later(now, delay)
    exact = Fraction(now) + Fraction(delay)
    assert abs(Fraction(when) - exact) <= Fraction(1, SECOND) + 2 * Fraction(math.ulp(when))
    assert when > now or now + delay <= now
