"""CircuitBreaker: interrupts and signal handlers at each place at which CPython lets them run."""

from contextlib import suppress
from functools import partial

import pytest

from backoff_ticker import CircuitBreaker, CircuitOpen, ExponentialBackOff, retry_call_async
from tests.circuits.circuits import (
    CLOSED,
    async_with_block,
    decorated,
    decorated_coroutine,
    fail,
    half_open,
    refused,
    succeed,
    told,
    walk,
    with_block,
)
from tests.helpers import PATIENCE, SetClock, collect_garbage, in_thread
from tests.interleaving import each_interleaving
from tests.retries.scripts import ZERO
from tests.retries.test_interrupts import called, interrupted_loops, looped, ways
from tests.stress.places import Interrupted, check_each_place, each_place
from tests.tickers.made_policies import Blocking, Scripted


def without_a_loop(coroutine):
    """Run a coroutine that waits for nothing but its turn."""
    with suppress(StopIteration):
        while True:
            coroutine.send(None)


AT_AN_EDGE = {"__enter__", "__exit__", "__aexit__", "record"}


@pytest.mark.parametrize(
    "way",
    [
        *(with_block, partial(async_with_block, run=without_a_loop)),
        *(decorated, partial(decorated_coroutine, run=without_a_loop)),
    ],
)
def test_an_interrupt_anywhere_leaves_it_usable(way):
    lost = set()

    def run(interrupt):
        now = SetClock()
        breaker = CircuitBreaker(Scripted(then=10.0), failures=2, clock=now, probe_timeout=40)
        with suppress(Interrupted), interrupt:
            walk(breaker, now, way)
        with suppress(CircuitOpen):
            breaker.release(breaker.allow())  # asks the policy, if the interrupt has prevented that
        now.advance(10)
        if breaker.remaining() is None:
            lost.add(str(interrupt.where).split(":")[0].split(".")[-1])
            now.advance(30)
        assert breaker.remaining() == 0.0
        succeed(breaker)
        assert breaker.state is CLOSED
        fail(breaker, 2)
        assert breaker.remaining() == 10

    assert each_place(run) > 100
    # A probe keeps its place until its time is over only if the interrupt came as a block began or
    # ended, or a decorated call ended: not while the circuit changed, or its policy was asked.
    assert lost <= AT_AN_EDGE


def test_opened_while_its_policy_is_about_to_be_asked_it_begins_a_new_outage(monkeypatch):
    """The policy is reset once, whatever comes between: 1 s, then 2 s or 4 s, not 16 s."""
    begun = []

    def begin():
        now = SetClock()
        breaker = CircuitBreaker(ExponentialBackOff(1, 0, 2), failures=1, clock=now)
        for _ in range(4):  # an outage before, so that the policy has gone on
            fail(breaker)
            now.advance(breaker.remaining())
        succeed(breaker)
        begun[:] = breaker, now
        ticket = breaker.allow()
        return lambda: breaker.record(ticket, OSError()), lambda: breaker.open(3)

    seen = set()
    for outcomes in each_interleaving(begin, monkeypatch):
        assert outcomes == (None, None)
        breaker, now = begun
        now.advance(breaker.remaining())
        fail(breaker)
        seen.add(breaker.remaining())
    assert seen <= {2.0, 4.0}


def test_two_results_at_once_count_both(monkeypatch):
    breakers = []

    def begin():
        breaker = CircuitBreaker(failures=5, clock=SetClock())
        breakers[:] = [breaker]
        ticket = breaker.allow()
        return (lambda: breaker.record(ticket, OSError()),) * 2

    for outcomes in each_interleaving(begin, monkeypatch):
        assert outcomes == (None, None)
        assert repr(*breakers) == "<CircuitBreaker closed, 2 of 5 failures in a row>"


@pytest.mark.parametrize("answer", [10.0, LookupError()])
def test_a_call_that_comes_while_another_thread_ends_asking_the_policy(monkeypatch, answer):
    """What that thread changes, a call reads once: it is refused, wherever the other one ends."""
    policies = []

    def begin():
        policy = Blocking(answer)
        policies[:] = [policy]
        breaker = CircuitBreaker(policy, failures=1, clock=SetClock())
        asking = in_thread(breaker.record, breaker.allow(), OSError())
        policy.entered.wait()

        def end():
            policy.release.set()
            return asking.exception(PATIENCE)

        return lambda: refused(breaker).seconds, end

    asked, seen = (1, None) if answer == 10.0 else (2, answer)
    for seconds, error in each_interleaving(begin, monkeypatch):
        assert seconds in {0.0, 10.0}
        assert error is seen
        assert policies[0].asked in {1, asked}


def test_a_signal_handler_may_use_it_anywhere():
    def run(interrupt):
        now = SetClock()
        breaker = CircuitBreaker(Scripted(then=10.0), failures=2, clock=now)

        def handler():
            with suppress(CircuitOpen, OSError), breaker.guard():
                raise OSError

        interrupt.handler = handler
        with interrupt:
            walk(breaker, now)
        now.advance(20)
        assert breaker.remaining() == 0.0
        succeed(breaker)
        fail(breaker, 2)
        assert breaker.remaining() == 10

    assert each_place(run) > 100


def test_two_that_ask_the_policy_at_once_ask_it_once():
    def run(interrupt):
        policy = Scripted(LookupError(), 10.0)
        breaker = CircuitBreaker(policy, failures=1, clock=SetClock())
        with pytest.raises(LookupError):
            told(breaker, OSError())

        def allow():
            with pytest.raises(CircuitOpen):
                breaker.allow()

        interrupt.handler = allow
        with interrupt:
            allow()
        assert policy.asked == 2, "the handler has asked it, or left that to the interrupted call"
        assert breaker.remaining() == 10

    assert each_place(run, all_of_them=True) > 20


def awaited(operation, **options):
    async def attempt():
        operation()

    without_a_loop(retry_call_async(attempt, ZERO, **options))


@interrupted_loops
@ways(called, awaited, looped)
def test_an_interrupt_anywhere_in_a_retry_frees_the_place_of_its_probe(way):
    def run(interrupt):
        breaker = half_open(SetClock(), on=OSError)
        errors = [LookupError()]  # an answer, but retried

        def operation():
            if errors:
                raise errors.pop()

        with suppress(Interrupted), interrupt:
            way(operation, breaker=breaker)
        interrupt.forget()
        collect_garbage()  # a loop that was left
        return ["its place is lost"] if breaker.remaining() is None else []

    check_each_place(run, at_least=91)
