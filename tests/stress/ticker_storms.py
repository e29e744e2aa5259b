"""Storms over tickers: each tick once, one end, nothing after it."""

import math
import threading
import time
from contextlib import suppress

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Pace,
    Ticker,
    TickerClosed,
    with_max_retries,
)
from tests.stress.crew import cast

READERS = 4
TICKS = 60


class Watched:
    """A policy that notices when two run it at once."""

    def __init__(self, delay):
        self.delay = delay
        self._inside = []

    def next_backoff(self, _=None):
        self._inside.append(None)
        assert len(self._inside) == 1, "the policy is run by two at once"
        self._inside.pop()
        return self.delay

    reset = next_backoff

    def __copy__(self):
        return self


class WatchedFeedback(Watched):
    """A policy that is told of each outcome."""

    failure = success = Watched.next_backoff


def readers(read, ticker):
    """Return acts that read, where this ticker is read."""
    in_loop = isinstance(ticker, AsyncTicker)
    return cast(read, 0 if in_loop else READERS, READERS if in_loop else 0)


class Reading:
    """A ticker with its readers, and what they have got.

    Attributes:
        ticks: The ticks that came, of all readers.
        floors: When each ``reset()`` was called that has returned: no tick is due before.
        stopped: Holds something once ``stop()`` has returned.
        reasons: Why the ticker has ended, as told to each reader.
        enough: Set once there are ``until`` ticks.
    """

    def __init__(self, ticker, until):
        self.ticker = ticker
        self.ticks = []
        self.floors = []
        self.stopped = []
        self.reasons = []
        self.enough = threading.Event()
        self._until = until
        self.readers = readers(self._read, ticker)

    async def _read(self, face):
        receive = self.ticker.receive
        try:
            while True:
                was_stopped, floor = bool(self.stopped), max(self.floors.copy(), default=0.0)
                tick = await face.wait(receive, receive)
                assert not was_stopped, "a tick, asked for after stop() had returned"
                assert tick.due >= floor, "a tick from before a reset() that had returned"
                self.ticks.append(tick)
                if len(self.ticks) >= self._until:
                    self.enough.set()
        except TickerClosed as error:
            assert self.ticker.close_reason == error.reason
            self.reasons.append(error.reason)
        with pytest.raises(TickerClosed):
            self.ticker.receive_nowait()
        self.enough.set()

    def stop(self):
        self.enough.wait()
        self.ticker.stop()
        self.stopped.append(None)

    def check(self, dropped):
        """Return the number of ticks: each came once, all but so many that were dropped."""
        numbers = sorted(tick.number for tick in self.ticks)
        assert len(set(numbers)) == len(numbers), "a tick came twice"
        assert max(numbers) - len(numbers) <= dropped, "a tick was lost"
        assert len(self.reasons) == READERS
        assert set(self.reasons) == {self.ticker.close_reason}
        return len(numbers)


def draw_ticker(draw, policy, **options):
    return draw.choice([Ticker, AsyncTicker])(policy, pace=draw.choice(list(Pace)), **options)


def end_it(crew, draw):
    """Stop it, cancel it and let it run out at the same moment: it ends once, for one reason."""
    token = CancellationToken()
    policy = with_max_retries(Watched(draw.choice([0, 0, 2e-5])), draw.choice([TICKS, 10**9]))
    ticker = draw_ticker(draw, policy, token=token)
    reading = Reading(ticker, TICKS)
    seen = []

    def watch():
        last = None
        while last is None or len(reading.reasons) < READERS:
            must_have_ended = bool(seen)
            last, before = ticker.close_reason, last
            assert before in (None, last), "close_reason has changed"
            assert last is not None or not must_have_ended, "stopped, and open"
            time.sleep(0)

    def stop():
        reading.stop()
        seen.append(ticker.close_reason)

    def cancel():
        reading.enough.wait()
        token.cancel()
        seen.append(ticker.close_reason)

    crew.play(*reading.readers, stop, draw.choice([stop, cancel]), watch)
    assert set(seen) == {ticker.close_reason}
    return reading.check(0)


def tell_it(crew, draw):
    """``success()``, ``failure()`` and ``reset()`` in threads, while others read."""
    policy = draw.choice([Watched, WatchedFeedback])(draw.choice([0, 0, 2e-5]))
    ticker = draw_ticker(draw, policy)
    reading = Reading(ticker, 2 * TICKS)

    def tell():
        while not reading.enough.is_set():
            ticker.success()
            ticker.failure()
            time.sleep(0)

    def reset():
        while not reading.enough.is_set():
            began = time.monotonic()
            with suppress(TickerClosed):
                ticker.reset(immediately=draw.random() < 0.5)
                reading.floors.append(began)
            time.sleep(0)

    # One reset() at a time: of two, the one that looked at the clock first may come last.
    others = draw.choice([[tell, reset], [tell, tell], [reset]])
    crew.play(*reading.readers, *others, reading.stop)
    return reading.check(math.inf)  # a reset() drops the tick that is due


STORMS = {"end tickers": end_it, "tell tickers": tell_it}
