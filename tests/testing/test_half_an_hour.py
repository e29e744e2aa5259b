"""Threads and coroutines that share one token for half an hour, the same way each time."""

from __future__ import annotations

import sys
from collections import Counter

from tests.testing.half_an_hour import WORKERS, half_an_hour


def test_half_an_hour_of_retries_under_one_token_is_the_same_200_times() -> None:
    first = half_an_hour()
    per_worker = Counter(entry[1] for entry in first)
    assert len(per_worker) == 2 * WORKERS
    assert min(per_worker.values()) > 15
    times = [entry[0] for entry in first]
    assert times == sorted(times)
    ends = [(entry[0], entry[2]) for entry in first if len(entry) == 3]
    assert ends == [(1800.0, "half an hour is over")] * (2 * WORKERS)
    usual = sys.getswitchinterval()
    for run in range(199):
        sys.setswitchinterval(1e-6 if run % 2 else usual)
        try:
            assert half_an_hour() == first
        finally:
            sys.setswitchinterval(usual)
