"""Test a service that waits for hours, in milliseconds.

Problem: tests of a login that is renewed every eight hours, or of a retry that waits for minutes,
must neither sleep nor patch the code that they test.
Shows: the fixtures ``auto_clock`` (time passes when all threads and event loops wait) and
``virtual_clock`` (the test moves it). The service, which has both, knows nothing of them.

    python -m pytest examples/test_with_virtual_clock.py
    python examples/test_with_virtual_clock.py              # the same without pytest
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    Ticker,
    retry_call,
)
from backoff_ticker.testing import VirtualClock

HOUR = 3600
Job = Callable[[], object]


def renew(log_in: Job, stop: CancellationToken) -> None:
    """Log in every eight hours, in a thread."""
    with suppress(Cancelled):  # if the service stops between two attempts
        for _ in Ticker(ConstantBackOff(8 * HOUR), token=stop):
            minute = ConstantBackOff(60)
            retry_call(log_in, minute, on=ConnectionError, token=stop)


async def report(send: Job, stop: CancellationToken) -> None:
    """Report every day, in an event loop."""
    async for _ in AsyncTicker(ConstantBackOff(24 * HOUR), token=stop):
        send()


def serve(log_in: Job, send: Job, stop: CancellationToken) -> None:
    thread = threading.Thread(target=renew, args=(log_in, stop))
    thread.start()
    asyncio.run(report(send, stop))
    thread.join()


def test_it_logs_in_and_reports(auto_clock: VirtualClock) -> None:
    logins: list[float] = []
    reports: list[float] = []
    serve(
        lambda: logins.append(auto_clock.monotonic() / HOUR),
        lambda: reports.append(auto_clock.monotonic() / HOUR),
        CancellationToken(timeout=48 * HOUR),
    )
    assert (logins, reports) == ([0, 8, 16, 24, 32, 40], [0, 24])


def test_it_stops_at_once(virtual_clock: VirtualClock) -> None:
    def log_in() -> None:
        attempts.append(virtual_clock.monotonic())
        raise ConnectionError("no route")

    attempts: list[float] = []
    stop = CancellationToken()
    service = virtual_clock.spawn(serve, log_in, lambda: None, stop)
    virtual_clock.advance(150)
    assert attempts == [0, 60, 120]
    # The thread waits for another attempt, the event loop for tomorrow.
    stop.cancel()
    service.join()
    assert virtual_clock.monotonic() == 150


if __name__ == "__main__":
    for test, auto in [
        (test_it_logs_in_and_reports, True),
        (test_it_stops_at_once, False),
    ]:
        with VirtualClock(auto=auto) as clock:
            test(clock)
            passed = clock.monotonic()
            print(f"{test.__name__}: passed, {passed:g} s on the clock")
