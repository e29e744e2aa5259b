"""What a circuit breaker adds to a call, beside one written by hand and other libraries.

The call returns at once. All count failures in a row. By hand: a lock, a count, and a time; no
half-open state. ``closed``: the call is let through and succeeds. ``open``: it is refused, and the
error caught.

Run as ``python -m tests.benchmarks.circuit`` from the project's root.
"""

import threading
import time
import warnings
from datetime import timedelta
from functools import partial
from importlib.util import find_spec

from backoff_ticker import CircuitBreaker, ConstantBackOff
from tests.benchmarks._measures import timed
from tests.benchmarks._table import compare, options

HOUR = 3600


class RefusedError(Exception):
    """Raised by the breaker written by hand."""


class ByHand:
    """The breaker that one writes instead of using a library."""

    def __init__(self):
        self._lock = threading.Lock()
        self._failures = 0
        self._open_until = 0.0

    def __call__(self, function):
        def call():
            with self._lock:
                if self._failures >= 5 and time.monotonic() < self._open_until:
                    raise RefusedError
            try:
                result = function()
            except Exception:
                with self._lock:
                    self._failures += 1
                    self._open_until = time.monotonic() + HOUR
                raise
            with self._lock:
                self._failures = 0
            return result

        return call


class Service:
    """What is called: it answers until it is down."""

    is_down = False


def with_block(breaker, function):
    def call():
        with breaker.guard():
            return function()

    return call


def told(breaker, function):
    def call():
        ticket = breaker.allow()
        try:
            result = function()
        except Exception as error:
            breaker.record(ticket, error)
            raise
        breaker.record(ticket)
        return result

    return call


def ours(**given):
    return CircuitBreaker(ConstantBackOff(HOUR), **given)


def guarded(service):
    """Return the call of ``service`` behind each breaker."""

    def call():  # circuitbreaker and aiobreaker want functions
        if service.is_down:
            raise OSError

    calls = {
        "by hand, with a lock": ByHand()(call),
        "@breaker": ours()(call),
        "with breaker.guard()": with_block(ours(), call),
        "allow(), record()": told(ours(), call),
        "@breaker, failure_rate, window_calls": ours(failure_rate=0.01)(call),
        "@breaker, failure_rate, window": ours(failure_rate=0.001, window=60)(call),
    }
    if find_spec("pybreaker"):
        import pybreaker

        calls["pybreaker"] = pybreaker.CircuitBreaker(reset_timeout=HOUR)(call)
    if find_spec("circuitbreaker"):
        from circuitbreaker import circuit

        calls["circuitbreaker"] = circuit(recovery_timeout=HOUR)(call)
    return calls


def guarded_async(service):
    """Return the awaited call of ``service`` behind each breaker."""

    async def call():
        if service.is_down:
            raise OSError

    calls = {}
    if find_spec("aiobreaker"):
        import aiobreaker

        calls["aiobreaker"] = aiobreaker.CircuitBreaker(5, timedelta(hours=1))(call)
    calls["@breaker"] = ours()(call)
    return calls


CALL = """\
try:
    AWAIT call()
except Exception:
    pass
"""


def figures(make, name, count):
    """Measure one subject while it is closed, then while it is open, by nanoseconds of CPU."""
    service = Service()
    measured = timed(CALL, make is guarded_async, call=make(service)[name])
    closed = measured(count)
    service.is_down = True
    measured(100)
    service.is_down = False  # each is open now
    return {"closed ns": closed, "open ns": measured(count)}


def main():
    chosen = options(__doc__, rounds=25)
    count = 200 if chosen.quick else 10_000
    warnings.simplefilter("ignore", DeprecationWarning)  # aiobreaker uses what 3.12 deprecates
    for make, title in [(guarded, "calls"), (guarded_async, "awaited calls")]:
        subjects = {name: partial(figures, make, name, count) for name in make(Service())}
        compare(title, subjects, chosen.rounds, warm_up=True)


if __name__ == "__main__":
    main()
