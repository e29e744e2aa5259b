"""CircuitBreaker: a half-open circuit, calls that end late or never, and many calls at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

import pytest

from backoff_ticker import (
    CircuitBreaker,
    ConstantBackOff,
    retry_call,
)
from tests.circuits.circuits import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    fail,
    half_open,
    refused,
    succeed,
)
from tests.helpers import PATIENCE, SetClock, in_thread
from tests.retries.faces import in_loop
from tests.tickers.made_policies import Blocking, Counting, Scripted

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


def test_as_many_probes_at_once_as_asked_for(now: SetClock) -> None:
    breaker = half_open(now, probes=3, successes=2)
    tickets = [breaker.allow() for _ in range(3)]
    assert len(set(tickets)) == 3
    error = refused(breaker)
    assert (error.state, error.seconds, breaker.remaining()) == (HALF_OPEN, None, None)
    assert str(error) == "the circuit is half-open, and lets no further probe through"
    breaker.record(tickets[0])
    breaker.record(tickets[0])
    assert breaker.state is HALF_OPEN, "a result that is told twice counts once"
    tickets.append(breaker.allow())
    refused(breaker)
    breaker.record(tickets[1])
    assert breaker.state is CLOSED
    for ticket in tickets:
        breaker.record(ticket, OSError())
    assert breaker.state is CLOSED, "the other probes belong to the past"


def test_one_failing_probe_opens_it_for_the_next_delay(now: SetClock) -> None:
    breaker = CircuitBreaker(Counting(), failures=1, probes=3, successes=3, clock=now)
    fail(breaker)
    now.advance(1)
    tickets = [breaker.allow() for _ in range(3)]
    breaker.record(tickets[0])
    for failing in tickets[1:]:
        breaker.record(failing, OSError())
        assert breaker.remaining() == 2, "a second one changes nothing"
    now.advance(2)
    succeed(breaker, 2)
    assert breaker.state is HALF_OPEN, "the success of the last time is forgotten"
    succeed(breaker)
    assert breaker.state is CLOSED


def test_one_probe_decides_whatever_a_rate_needs(now: SetClock) -> None:
    breaker = CircuitBreaker(Counting(), failure_rate=0.5, minimum_calls=10, clock=now)
    fail(breaker, 10)
    for seconds in (1, 2, 3):
        assert breaker.remaining() == seconds
        now.advance(seconds)
        fail(breaker)
    now.advance(4)
    succeed(breaker)
    assert breaker.state is CLOSED


def test_a_probe_that_never_returns_loses_its_place(now: SetClock) -> None:
    breaker = half_open(now, probe_timeout=30)
    lost = breaker.allow()
    now.advance(29)
    refused(breaker)
    now.advance(1)
    assert (breaker.state, breaker.remaining()) == (HALF_OPEN, 0.0)
    taken = breaker.allow()
    refused(breaker)
    for error in [OSError(), None]:
        breaker.record(lost, error)
        assert breaker.state is HALF_OPEN, "its late result counts for nothing"
        refused(breaker)
    breaker.release(taken)
    late = breaker.allow()
    now.advance(3600)
    breaker.record(late)
    assert breaker.state is CLOSED, "nobody has taken its place"


@pytest.mark.parametrize("error", [None, OSError()])
def test_a_call_from_before_the_circuit_opened_counts_for_nothing(
    now: SetClock, error: Exception | None
) -> None:
    breaker = CircuitBreaker(Counting(), failures=1, clock=now)
    early = [breaker.allow() for _ in range(9)]
    fail(breaker)
    breaker.record(early.pop(), error)
    assert (breaker.state, breaker.remaining()) == (OPEN, 1.0), "neither longer nor shorter"
    now.advance(1)
    breaker.record(early.pop(), error)
    assert breaker.state is HALF_OPEN
    probe = breaker.allow()
    breaker.record(early.pop(), error)
    refused(breaker)
    breaker.record(probe)
    breaker.record(early.pop(), error)
    assert repr(breaker) == "<CircuitBreaker closed, 0 of 1 failures in a row>"


def test_may_probe_decides_on_each_probe_and_on_nothing_else(now: SetClock) -> None:
    answers: list[bool] = []
    breaker = CircuitBreaker(
        ConstantBackOff(10), failures=1, probes=2, successes=2, may_probe=answers.pop, clock=now
    )
    succeed(breaker)
    fail(breaker)
    assert refused(breaker).seconds == 10, "it was not asked"
    now.advance(10)
    answers += [True, False, True, False]
    for _ in range(2):
        error = refused(breaker)
        assert (error.state, error.seconds, breaker.remaining()) == (HALF_OPEN, None, 0.0)
        assert str(error) == "the circuit is half-open, and lets no further probe through"
        breaker.release(breaker.allow())
    answers += [True, True]
    tickets = [breaker.allow(), breaker.allow()]
    refused(breaker)
    assert answers == [], "it is asked only where there is a place"
    for ticket in tickets:
        breaker.record(ticket)
    assert breaker.state is CLOSED


def test_a_retry_goes_on_while_may_probe_refuses(clock: VirtualClock) -> None:
    answers = [True, False, False]
    breaker = CircuitBreaker(ConstantBackOff(10), failures=1, may_probe=answers.pop)
    fail(breaker)
    started = clock.monotonic()
    assert retry_call(clock.monotonic, ConstantBackOff(3), breaker=breaker) - started == 16.0


@pytest.mark.parametrize(
    ("may_probe", "kind", "text"),
    [
        (lambda: 1, TypeError, "may_probe must return a bool, not 1"),
        (lambda: 1 / 0, ZeroDivisionError, "division by zero"),
        (AsyncMock(), TypeError, "may_probe must be a plain function, not a coroutine function"),
    ],
)
def test_an_error_of_may_probe_is_raised_and_takes_no_place(
    now: SetClock, may_probe: Any, kind: type[Exception], text: str
) -> None:
    wrong = [may_probe]
    breaker = half_open(now, may_probe=lambda: wrong.pop()() if wrong else True)
    with pytest.raises(kind, match=text):
        breaker.allow()
    assert (breaker.state, breaker.remaining()) == (HALF_OPEN, 0.0)
    succeed(breaker)
    assert breaker.state is CLOSED


def test_a_cancelled_coroutine_frees_its_probe(now: SetClock) -> None:
    breaker = half_open(now)

    async def main() -> None:
        async def hang() -> None:
            async with breaker:
                await asyncio.Event().wait()

        for _ in range(3):
            task = asyncio.create_task(hang())
            await asyncio.sleep(0)
            refused(breaker)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with breaker:
            pass

    in_loop(main())
    assert breaker.state is CLOSED


def test_a_timeout_inside_the_block_is_a_failure_and_one_outside_is_not(
    clock: VirtualClock,
) -> None:
    breaker = CircuitBreaker(failures=1)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), breaker:
                await asyncio.sleep(2)
        assert breaker.state is CLOSED
        with pytest.raises(TimeoutError):
            async with breaker, asyncio.timeout(1):
                await asyncio.sleep(2)
        assert breaker.state is OPEN

    in_loop(main())


# Threads


def test_many_failures_at_once_open_it_once(now: SetClock) -> None:
    policy, changes = Blocking(10), []
    breaker = CircuitBreaker(
        policy, failures=3, on_change=lambda *change: changes.append(change[:2]), clock=now
    )
    tickets = [breaker.allow() for _ in range(8)]
    first = [in_thread(breaker.record, ticket, OSError()) for ticket in tickets[:3]]
    policy.entered.wait()
    assert (breaker.state, breaker.remaining(), refused(breaker).seconds) == (OPEN, 0.0, 0.0)
    for ticket in tickets[3:]:
        in_thread(breaker.record, ticket, OSError()).result(PATIENCE)
    assert changes == []
    policy.release.set()
    for each in first:
        each.result(PATIENCE)
    assert (policy.asked, changes, breaker.remaining()) == (1, [(CLOSED, OPEN)], 10)


class Overtaken(SetClock):
    """A clock; while the breaker asks it for the time, another call changes the circuit."""

    def __init__(self) -> None:
        super().__init__()
        self.coming: list[Any] = []

    def monotonic(self) -> float:
        if self.coming:
            in_thread(self.coming.pop()).result(PATIENCE)
        return super().monotonic()


def test_a_result_that_another_one_overtakes_counts_as_well() -> None:
    now = Overtaken()
    breaker = CircuitBreaker(ConstantBackOff(10), failures=3, clock=now)
    now.coming.append(lambda: fail(breaker))
    fail(breaker)
    assert repr(breaker) == "<CircuitBreaker closed, 2 of 3 failures in a row>"
    now.coming.append(lambda: fail(breaker))
    fail(breaker)
    assert (breaker.state, breaker.remaining()) == (OPEN, 10)


def test_a_call_that_another_one_overtakes_gets_no_second_place() -> None:
    now, tickets = Overtaken(), []
    breaker = half_open(now)
    now.coming.append(lambda: tickets.append(breaker.allow()))
    refused(breaker)
    breaker.record(*tickets)
    assert breaker.state is CLOSED


def test_a_reset_while_the_policy_is_asked_takes_effect_at_once(now: SetClock) -> None:
    policy = Blocking(10, 20)
    breaker = CircuitBreaker(policy, failures=1, clock=now)
    failing = in_thread(fail, breaker)
    policy.entered.wait()
    breaker.reset()
    succeed(breaker)
    assert breaker.state is CLOSED
    again = in_thread(fail, breaker)
    again.result(PATIENCE)  # it does not wait for the policy, which another thread asks
    assert (breaker.state, breaker.remaining()) == (OPEN, 0.0)
    policy.release.set()
    failing.result(PATIENCE)
    assert breaker.remaining() == 20, "the thread that asked saw that it was to ask again"
    assert policy.asked == 2


def test_a_policy_that_uses_its_breaker_does_no_harm(now: SetClock) -> None:
    seen: list[object] = []

    def answer() -> float:
        seen.append(refused(breaker).seconds)
        return 10.0

    breaker = CircuitBreaker(Scripted(answer), failures=1, clock=now)
    fail(breaker)
    assert seen == [0.0], "not None, which means until a reset"
    assert breaker.remaining() == 10
