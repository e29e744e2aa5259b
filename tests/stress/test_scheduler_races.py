"""The scheduler starts and ends under fire: every entry runs, once."""

from __future__ import annotations

import threading
import time

from backoff_ticker.clock._scheduler import Scheduler
from tests import effort
from tests.helpers import PATIENCE, eventually
from tests.stress.tools import fast_switching, join_all, start_threads


def test_entries_of_eight_threads_that_meet_idle_ends_all_run_once() -> None:
    scheduler = Scheduler(time.monotonic, idle_seconds=0.0001)
    ran: list[tuple[int, int]] = []

    count = effort.rounds(25, 250)

    def post(index: int) -> None:
        for number in range(count):
            done = threading.Event()

            def run(number: int = number, done: threading.Event = done) -> None:
                ran.append((index, number))
                done.set()

            scheduler.call_at(time.monotonic() + 0.0001 * (number % 3), run)
            assert done.wait(PATIENCE)

    with fast_switching():
        join_all(start_threads(8, post))
    assert sorted(ran) == [(index, number) for index in range(8) for number in range(count)]


def test_cancel_meets_the_due_time_and_exactly_one_wins() -> None:
    scheduler = Scheduler(time.monotonic, idle_seconds=0.5)
    ran: list[int] = []
    prevented: list[int] = []
    timers = []
    count = effort.rounds(300, 3000)
    with fast_switching():
        for number in range(count):
            timers.append(
                scheduler.call_at(
                    time.monotonic() + 0.0003, lambda number=number: ran.append(number)
                )
            )
            if number >= 5 and timers[number - 5].cancel():
                prevented.append(number - 5)
    eventually(lambda: len(ran) + len(prevented) == count, "all are settled")
    assert sorted(ran + prevented) == list(range(count))
