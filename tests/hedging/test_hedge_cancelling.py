"""Hedged calls: tokens, cancels of the task, the clock of the system."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    RetryAfter,
    RetryBudget,
    StopBackOff,
    ZeroBackOff,
    current_attempt,
    hedge_call_async,
)
from backoff_ticker.testing import VirtualClock, no_wait
from tests.retries.faces import in_loop
from tests.retries.hedges import InTurn, hedge as hedge_in_loop, takes
from tests.retries.made_policies import at, cancelled_token
from tests.retries.scripts import Script, Takes, now
from tests.retries.test_cancelling import PLACES

if TYPE_CHECKING:
    from tests.retries.hedges import HedgeFace

TEN = ConstantBackOff(10)


# Tokens


def test_a_cancel_ends_all_at_once(hedge: HedgeFace, clock: VirtualClock) -> None:
    for when, last in ((5, None), (12, None), (13.5, OSError())):
        began, token = now(), CancellationToken()
        at(clock, began + when, lambda: token.cancel("enough"))
        operation = InTurn(takes(100, 1, cleanup=2), takes(3, last), takes(100, 1))
        with pytest.raises(Cancelled) as caught:
            hedge(operation, TEN, token=token, until=bool, on=OSError)
        assert (caught.value.cause, caught.value.__cause__) == ("enough", last)
        assert now() - began == when + 2 * hedge.waits


def test_the_deadline_of_a_token_ends_all(hedge: HedgeFace, clock: VirtualClock) -> None:
    for skipped in (False, True):
        began, last = now(), OSError()
        token = CancellationToken(clock=clock).child(timeout=25)
        script = Script(Takes(3, last), Takes(100, 7))
        if skipped:
            with no_wait(), pytest.raises(DeadlineExceeded) as caught:
                hedge(script, TEN, token=token)
        else:
            with pytest.raises(DeadlineExceeded) as caught:
                hedge(script, TEN, token=token)
        assert caught.value.__cause__ is last
        assert ([time - began for time in script.times], now() - began) == ([0, 3, 13, 23], 25)


def test_a_token_cancelled_before_lets_one_attempt_have_its_chance(
    hedge: HedgeFace, clock: VirtualClock
) -> None:
    script = Script(Takes(50, 7))
    assert hedge(script, TEN, token=cancelled_token()) == 7
    assert (script.count, now()) == (1, 50)
    for last in (OSError(), RetryAfter(5)):
        script = Script(Takes(5, last))
        with pytest.raises(Cancelled) as caught:
            hedge(script, TEN, token=cancelled_token("before"))
        assert (caught.value.cause, caught.value.__cause__) == ("before", last)
        assert script.count == 1
    with pytest.raises(DeadlineExceeded):
        hedge(script, TEN, token=cancelled_token(), timeout=2)


@pytest.mark.parametrize("place", PLACES)
def test_a_token_inside_the_policy_counts(
    hedge: HedgeFace, clock: VirtualClock, place: str
) -> None:
    for when, others in ((13, None), (5, CancellationToken())):
        token, began, script = CancellationToken(), now(), Script(Takes(100, 7))
        at(clock, began + when, lambda: token.cancel(place))
        with pytest.raises(Cancelled) as caught:
            hedge(script, PLACES[place](token), token=others)
        assert (caught.value.cause, now() - began) == (place, when)


@pytest.mark.parametrize("place", ["alone", "in a class"])
def test_one_inside_that_was_cancelled_before_lets_one_run(
    hedge: HedgeFace, clock: VirtualClock, place: str
) -> None:
    script = Script(Takes(50, 7))
    assert hedge(script, PLACES[place](cancelled_token())) == 7
    assert (script.count, now()) == (1, 50)
    with pytest.raises(Cancelled):
        hedge(Script(Takes(5, OSError)), PLACES[place](cancelled_token()))


def test_a_result_beside_a_cancel_is_returned_each_time(clock: VirtualClock) -> None:
    for turns in range(4):
        for _ in range(10):  # the order among sources that are ready is random
            token = CancellationToken()

            async def attempt() -> int:
                asyncio.get_running_loop().call_later(3, gate.set)
                await gate.wait()
                if turns == 0:
                    token.cancel()
                return 7

            async def main() -> Any:
                nonlocal gate
                gate = asyncio.Event()
                if turns:
                    asyncio.get_running_loop().call_later(3, token.cancel)
                return await hedge_call_async(attempt, TEN, token=token)

            gate: Any = None
            assert in_loop(main()) == 7


def test_no_attempt_starts_after_a_cancel(clock: VirtualClock) -> None:
    for failure, most in ((OSError(), 5), (RetryAfter(0), 5), (OSError(), 1)):
        token = CancellationToken()

        async def attempt() -> None:
            token.cancel()
            raise failure

        operation, budget = InTurn(attempt), RetryBudget()
        with pytest.raises(Cancelled) as caught:
            hedge_in_loop(operation, TEN, token=token, budget=budget, max_attempts=most)
        assert caught.value.__cause__ is failure
        assert len(operation.times) == 1
        assert budget.tokens == 500


# asyncio


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("when", [0, 5, 10, 12, 17, 20, 27, 37, 38, 42])
def test_a_cancel_of_the_task_passes_at_every_await(
    clock: VirtualClock, when: float, turns: int
) -> None:
    running: set[int] = set()

    def attempt_of(number: int, seconds: float, answer: Any) -> Any:
        inner = takes(seconds, answer, cleanup=5).in_loop

        async def attempt() -> Any:
            running.add(number)
            try:
                return await inner()
            finally:
                running.discard(number)

        return attempt

    operation = InTurn(attempt_of(1, 100, 1), attempt_of(2, 7, OSError), attempt_of(3, 20, 7))

    async def main() -> None:
        task = asyncio.ensure_future(hedge_call_async(operation.in_loop, TEN, max_attempts=3))
        await asyncio.sleep(when)
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.cancel("the user's"):
            with pytest.raises(asyncio.CancelledError, match="the user's"):
                await task
            assert task.cancelled()
        else:
            assert when == 42
            assert task.result() == 7
        assert running == set()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        if 0 < when < 37:
            assert now() == when + 5
        elif when == 38:
            assert now() == 38  # the second cancel cuts the clean-up

    in_loop(main())


def test_a_timeout_of_asyncio_is_one(clock: VirtualClock) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(25):
                await hedge_call_async(takes(100, 7, cleanup=3).in_loop, TEN)
        assert asyncio.current_task().cancelling() == 0

    in_loop(main())
    assert now() == 28


def test_a_hedge_returns_what_comes_in_spite_of_the_cut(clock):
    async def stubborn():
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return 7

    async def at_once():
        return 8

    assert clock.run_async(hedge_call_async(stubborn, StopBackOff(), timeout=5)) == 7
    assert clock.run_async(hedge_call_async(at_once, StopBackOff(), timeout=0)) == 8


def test_the_fallback_is_called_after_all_attempts_have_ended(hedge: HedgeFace) -> None:
    called = []

    def fallback(outcome: object) -> int:
        called.append(now())
        return 8

    operation = InTurn(takes(100, 1, cleanup=5))
    assert hedge(operation, TEN, timeout=25, fallback=fallback) == 8
    assert called == [25 + 5 * hedge.waits]


def test_on_the_systems_clock_no_delay_is_none() -> None:
    began = []

    async def operation() -> int:
        began.append(asyncio.Event())
        if len(began) == 3:
            for event in began:
                event.set()
        await began[-1].wait()
        return 7

    assert hedge_in_loop(operation, ZeroBackOff(), max_attempts=3, timeout=60) == 7
    assert len(began) == 3


def test_the_error_of_a_token_that_was_cancelled_before_is_a_cancel(hedge: HedgeFace) -> None:
    token = cancelled_token()

    def operation() -> None:
        token.raise_if_cancelled()

    with pytest.raises(Cancelled) as caught:
        hedge(operation, TEN, token=token)
    assert "gave up after 1 attempt" in caught.value.__notes__[0]
    assert isinstance(caught.value.__cause__, Cancelled)


def test_a_deadline_that_has_passed_before_leaves_no_time(
    hedge: HedgeFace, clock: VirtualClock
) -> None:
    token = CancellationToken(clock=clock, timeout=0)
    seen: list[Any] = []
    hedge(Script(lambda: seen.append(current_attempt()) or 7), TEN, token=token)
    assert [attempt.time_left for attempt in seen] == [0.0]
