"""CircuitBreaker in threads, loops, signal handlers, finalizers and forked children, at once."""

import asyncio
import random
import threading
from collections import Counter
from contextlib import suppress
from itertools import count

import pytest

from backoff_ticker import CircuitBreaker, CircuitOpen, CircuitState
from tests import effort
from tests.helpers import PATIENCE, SetClock
from tests.stress.tools import fast_switching, join_all, run_silently, start_threads

ENDS = OSError, CircuitOpen, asyncio.CancelledError
"""How calls end, if not well."""


class GoingOn(SetClock):
    """A clock that goes on with each look at it; threads never see it go back."""

    def __init__(self):
        super().__init__()
        self._looks = count()

    def monotonic(self):
        return self.now + next(self._looks) / 10


class Service:
    """A breaker under load; checks what holds at any time."""

    def __init__(self, **options):
        self.now = GoingOn()
        self.asked = 0
        self.changes = []  # a Counter is not safe in threads
        self.breaker = CircuitBreaker(
            self,  # its policy
            probes=2,
            successes=3,
            probe_timeout=50,
            clock=self.now,
            on_change=lambda old, new, _: self.changes.append((old, new)),
            **(options or {"failures": 3}),
        )

    def next_backoff(self):
        self.asked += 1
        return 2.0

    def reset(self):
        pass

    def __copy__(self):
        return self

    def call(self, chance):
        with suppress(*ENDS), self.breaker.guard():
            self.finish(chance)

    def finish(self, chance):
        if chance.random() < 0.5:
            raise OSError
        if chance.random() < 0.1:
            raise asyncio.CancelledError

    def call_in_a_row(self, seed, times):
        chance = random.Random(seed)
        for _ in range(times):
            self.call(chance)

    async def call_in_tasks(self, seed, times):
        async def work(seed):
            chance = random.Random(seed)
            for _ in range(times):
                with suppress(*ENDS):
                    async with self.breaker.guard():
                        await asyncio.sleep(0)
                        self.finish(chance)
                await asyncio.sleep(0)

        await asyncio.gather(*(work(seed + number) for number in range(5)))

    def check(self):
        """Find that it works as ever, once all have ended."""
        breaker, now = self.breaker, self.now
        with suppress(CircuitOpen):
            breaker.release(breaker.allow())  # asks the policy, if that was interrupted
        now.advance(50)
        for _ in range(3):
            breaker.record(breaker.allow())
        assert breaker.state is CircuitState.CLOSED
        while breaker.state is CircuitState.CLOSED:
            breaker.record(breaker.allow(), OSError())
        assert 1 < (breaker.remaining() or 0) < 2


@pytest.mark.parametrize(
    "options", [{}, {"failure_rate": 0.4, "window": 5, "minimum_calls": 3}], ids=["row", "rate"]
)
def test_threads_and_loops_open_it_once_each_time(options):
    start = threading.Barrier(6)

    def run(service, seed):
        start.wait(PATIENCE)
        if seed % 20:
            service.call_in_a_row(seed, 200)
        else:
            asyncio.run(service.call_in_tasks(seed, 30))

    for seed in range(effort.rounds(3, 60)):
        service = Service(**options)
        with fast_switching(1e-5):
            join_all(start_threads(6, lambda index: run(service, 100 * seed + 10 * index)))
        changes = Counter(service.changes)
        openings = sum(number for (_, new), number in changes.items() if new == "open")
        assert openings == service.asked > 0
        begun = changes[CircuitState.OPEN, CircuitState.HALF_OPEN]
        ended = sum(number for (old, _), number in changes.items() if old == "half-open")
        assert 0 <= begun - ended <= 1
        service.check()


def test_a_child_has_a_circuit_of_its_own():
    run_silently(
        """
from tests.helpers import SetClock
sys.setswitchinterval(1e-6)
now = SetClock()
asking, go_on = threading.Event(), threading.Event()
class Policy:
    slow = False
    def next_backoff(self):
        if self.slow: asking.set(); go_on.wait(30)
        return 0.25
    def reset(self): pass
    def __copy__(self): return self

def fail(breaker):
    try:
        with breaker.guard(): raise OSError
    except OSError: pass

def refused(breaker):
    try:
        with breaker.guard(): return False
    except CircuitOpen as error: return error.state

policy = Policy()
breaker = CircuitBreaker(policy, failures=1, clock=now)
fail(breaker)
now.advance(0.25)
def hang():
    with breaker.guard(): go_on.wait(30)
probe, = threads(1, hang)
while breaker.remaining() is not None: time.sleep(0.001)

def after_the_probe():
    assert breaker.remaining() == 0.0  # its thread is not here
    with breaker.guard(): pass
    assert breaker.state == "closed"
assert collect(fork(after_the_probe)) == 0
assert breaker.remaining() is None

opening = CircuitBreaker(policy, failures=1, clock=now)
policy.slow = True
asker, = threads(1, lambda: fail(opening))
assert asking.wait(10)
def while_the_policy_is_asked():
    policy.slow = False
    assert refused(opening) == "open"
    assert opening.remaining() == 0.25
    now.advance(0.25)
    with opening.guard(): pass
    assert opening.state == "closed"
assert collect(fork(while_the_policy_is_asked)) == 0
assert (opening.state, opening.remaining()) == ("open", 0.0)
now.advance(0.25)
go_on.set()
probe.join(10); asker.join(10)
assert breaker.state == "closed" and opening.state == "half-open"
"""
    )
