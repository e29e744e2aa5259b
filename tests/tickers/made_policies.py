"""Policies and small helpers that the ticker tests share."""

from concurrent.futures import FIRST_COMPLETED, wait

import pytest

from backoff_ticker import STOP, Pace, TickerClosed, WouldBlock
from tests.helpers import PATIENCE, Flag

EVERY_PACE = pytest.mark.parametrize("pace", list(Pace))


class Scripted:
    """Gives its answers in turn, then ``then``: errors are raised, functions called.

    It is shared on purpose, so that a test can look at it while a ticker runs it.
    """

    def __init__(self, *answers, then=STOP):
        self.answers = list(answers)
        self.then = then
        self.asked = 0
        self.resets = 0

    def __copy__(self):
        return self

    def _next(self):
        answer = self.answers.pop(0) if self.answers else self.then
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    def next_backoff(self):
        self.asked += 1
        return self._next()

    def reset(self):
        self.resets += 1

    def __repr__(self):
        return "<the scripted policy>"


class Counting:
    """1 s, 2 s, 3 s, ...; with state, and copied by the generic rule."""

    def __init__(self):
        self.last = 0

    def next_backoff(self):
        self.last += 1
        return float(self.last)

    def reset(self):
        self.last = 0


class Blocking(Scripted):
    """A policy that, when asked, says so by ``entered`` and waits for ``release``."""

    def __init__(self, *answers, then=10.0):
        super().__init__(*answers, then=then)
        self.block()

    def block(self):
        """Wait at the next question, whatever was released before."""
        self.entered = Flag()
        self.release = Flag()

    def next_backoff(self):
        self.entered.set()
        self.release.wait()
        return super().next_backoff()


def reason_of(future):
    """Return the reason of the ``TickerClosed`` that the receive ended with."""
    error = future.exception(PATIENCE)
    assert isinstance(error, TickerClosed), repr(error or future.result())
    return error.reason


def first_done(futures):
    """Wait for one of ``futures``; exactly one must be done."""
    done, _ = wait(futures, PATIENCE, FIRST_COMPLETED)
    assert len(done) == 1
    return done.pop()


def ticked(face, *args, **options):
    """Return a ticker whose first tick was taken."""
    ticker = face.ticker(*args, **options)
    face.receive(ticker)
    return ticker


def reader_that_waits(face, clock, ticker, timeout=None):
    """Begin to receive; return the future of a reader that waits by now."""
    reading = face.start_receive(ticker, timeout)
    clock.settle()
    assert not reading.done()
    return reading


def nothing_is_due(ticker):
    try:
        ticker.receive_nowait()
    except WouldBlock:
        return  # the record of a ``pytest.raises`` would hold the ticker
    raise AssertionError("a tick was due")
