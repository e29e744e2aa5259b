"""Operations that a test writes down beforehand, and what else it gives to a run."""

from inspect import isawaitable, isclass, isfunction
from typing import Any, NamedTuple

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    RetryBudget,
    ZeroBackOff,
    current_clock,
)
from tests.helpers import sleep

START = 1000.0
"""When the clock of these tests begins; all times that tests compare count from here."""

ZERO, ONE, FIVE, TEN = ZeroBackOff(), *map(ConstantBackOff, (1, 5, 10))
"""Delays of so many seconds."""


def now():
    """Return the seconds since the test began."""
    return current_clock().monotonic() - START


class Takes(NamedTuple):
    """A step that takes time before it answers."""

    seconds: float
    answer: Any


class Script:
    """An operation that gives its answers in turn, and its last one ever after.

    Exceptions are raised, a class of them freshly; functions are called for one of the others, and
    objects that can be called for what they return; anything else is returned.

    Attributes:
        times: When it was called.
    """

    def __init__(self, *steps):
        self._steps = steps
        self.times = []

    @property
    def count(self):
        return len(self.times)

    def _step(self):
        self.times.append(now())
        step = self._steps[min(self.count, len(self._steps)) - 1]
        return step() if isfunction(step) else step

    def __call__(self):
        step = self._step()
        if isinstance(step, Takes):
            current_clock().sleep(step.seconds)
            step = step.answer
        return answered(step)

    async def in_loop(self):
        """Do the same as a coroutine; steps may be coroutines themselves."""
        step = self._step()
        step = step.in_loop() if hasattr(step, "in_loop") else step
        if isawaitable(step):
            return await step
        if isinstance(step, Takes):
            await sleep(step.seconds)
            step = step.answer
        return answered(step)


def answered(step):
    """Return or raise what ``step`` stands for."""
    if isinstance(step, BaseException) or (isclass(step) and issubclass(step, BaseException)):
        raise step
    return answered(step()) if callable(step) else step


class Recorded:
    """Collects what it is called with, each time with when it was.

    Attributes:
        calls: ``(when, *arguments)`` of each call.
    """

    def __init__(self, then=None):
        self.calls = []
        self._then = then

    def __call__(self, *arguments):
        self.calls.append((now(), *arguments))
        return answered(self._then)

    @property
    def last(self):
        """The argument of the last call."""
        return self.calls[-1][1]


class Ahead:
    """The current clock, put forward by a test; nothing waits on it."""

    def __init__(self):
        self._clock = current_clock()
        self.seconds = 0.0

    def __getattr__(self, name):
        return getattr(self._clock, name)

    def monotonic(self):
        return self._clock.monotonic() + self.seconds


def cancelled_token(cause=None):
    token = CancellationToken()
    token.cancel(cause)
    return token


def timed(seconds):
    """Return a token that has a deadline in so many seconds."""
    return CancellationToken(timeout=seconds)


def spent_budget():
    """Return a budget that refuses until it hears of a success."""
    budget = RetryBudget(1)
    assert budget.try_acquire()
    return budget


def at(clock, when, callback):
    """Have ``callback()`` called so many seconds after the test began."""
    clock.call_at(START + when, callback)
