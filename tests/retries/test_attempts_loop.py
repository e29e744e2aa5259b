"""Loops over attempts: how blocks end, what an attempt tells, and what is misuse."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    Attempt,
    Attempts,
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    RetryBudget,
    StopReason,
    ZeroBackOff,
    attempts,
)
from backoff_ticker.retries._steps import END
from tests.retries.faces import in_loop
from tests.retries.made_policies import at
from tests.retries.scripts import Recorded, now

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backoff_ticker import Outcome
    from backoff_ticker.testing import VirtualClock


def test_a_loop_ends_after_its_first_success(clock: VirtualClock) -> None:
    seen = []
    run = attempts(ConstantBackOff(5))
    for attempt in run:
        with attempt:
            seen.append((attempt.number, now()))
            if attempt.number < 3:
                raise OSError
        seen.append("after the block")
    assert seen == [
        (1, 0),
        "after the block",
        (2, 5),
        "after the block",
        (3, 10),
        "after the block",
    ]
    assert (type(run), type(attempt)) == (Attempts, Attempt)


def test_an_async_loop_ends_after_its_first_success(clock: VirtualClock) -> None:
    seen = []

    async def main() -> None:
        async for attempt in attempts(ConstantBackOff(5)):
            async with attempt:
                seen.append((attempt.number, now()))
                if attempt.number < 3:
                    raise OSError

    in_loop(main())
    assert seen == [(1, 0), (2, 5), (3, 10)]


def test_leaving_the_block_early_is_a_success(clock: VirtualClock) -> None:
    def returning(run: Any) -> Any:
        for attempt in run:
            with attempt:
                if attempt.number == 2:
                    return "returned"
                raise OSError
        return "ended"

    def breaking(run: Any) -> Any:
        for attempt in run:
            with attempt:
                if attempt.number == 2:
                    break
                raise OSError
        else:
            return "ended"
        return "broken"

    def continuing(run: Any) -> Any:
        for attempt in run:
            with attempt:
                if attempt.number == 2:
                    continue
                raise OSError
        return "ended"

    for leave, told in [(returning, "returned"), (breaking, "broken"), (continuing, "ended")]:
        budget, success, gave_up = RetryBudget(10, 0.5), Recorded(), Recorded()
        run = attempts(ConstantBackOff(5), budget=budget, on_success=success, on_give_up=gave_up)
        assert leave(run) == told
        assert run.outcome[1:4] == (2, 5, 5)
        assert run.outcome.reason is StopReason.SUCCEEDED
        assert (len(success.calls), gave_up.calls, budget.tokens) == (1, [], 9.5)


def test_the_success_is_told_as_the_block_ends(clock: VirtualClock) -> None:
    success = Recorded()
    for attempt in attempts(ZeroBackOff(), on_success=success):
        with attempt:
            assert success.calls == []
        clock.sleep(5)
    assert [when for when, _ in success.calls] == [0]


def test_an_error_outside_the_block_is_none_of_an_attempt(clock: VirtualClock) -> None:
    seen = []
    with pytest.raises(OSError, match="outside"):
        for attempt in attempts(ZeroBackOff()):
            seen.append(attempt.number)
            with attempt:
                pass
            raise OSError("outside")
    assert seen == [1]


def test_nothing_happens_before_the_first_step(clock: VirtualClock) -> None:
    hook = Recorded()
    run = attempts(ZeroBackOff(), on_attempt=hook, timeout=5)
    clock.sleep(60)
    assert hook.calls == []
    for attempt in run:
        with attempt:
            if attempt.number == 1:
                raise OSError
    assert [(when, outcome.elapsed) for when, outcome in hook.calls] == [(60, 0), (60, 0)]


def test_an_attempt_has_a_token_of_its_own(clock: VirtualClock) -> None:
    token, kept = CancellationToken(), []
    at(clock, 13, lambda: token.cancel("enough"))
    with pytest.raises(Cancelled):
        for attempt in attempts(ConstantBackOff(10), token=token):
            with attempt:
                kept.append(attempt.token)
                assert not attempt.token.cancelled
                if attempt.token.wait(5):
                    assert (attempt.token.cause, now()) == ("enough", 13)
                    attempt.token.raise_if_cancelled()
                raise OSError
    assert all(each.cancelled for each in kept)
    assert now() == 13


def test_the_token_of_an_attempt_is_cancelled_at_the_deadline_and_at_the_end(
    clock: VirtualClock,
) -> None:
    with pytest.raises(DeadlineExceeded):
        for attempt in attempts(ZeroBackOff(), timeout=4):
            with attempt:
                assert attempt.token.wait(9)
                attempt.token.raise_if_cancelled()
    assert now() == 4
    for attempt in attempts(ZeroBackOff()):
        with attempt:
            token = attempt.token
            assert not token.cancelled
    assert token.cancelled


# Misuse


def test_a_run_is_iterated_once(clock: VirtualClock) -> None:
    run = attempts(ZeroBackOff())
    for attempt in run:
        with attempt:
            pass
    with pytest.raises(RuntimeError):
        for _ in run:
            pass


@pytest.mark.parametrize("first", ["for", "async for"])
def test_a_run_is_for_one_kind_of_loop(clock: VirtualClock, first: str) -> None:
    run = attempts(ZeroBackOff())

    def plain() -> None:
        for attempt in run:
            with attempt:
                return

    async def asynchronous() -> None:
        async for attempt in run:
            with attempt:
                return

    if first == "for":
        plain()
        with pytest.raises(RuntimeError):
            in_loop(asynchronous())
    else:
        in_loop(asynchronous())
        with pytest.raises(RuntimeError):
            plain()


def test_an_attempt_whose_block_is_not_entered_is_refused_at_the_next_step(
    clock: VirtualClock,
) -> None:
    seen = []
    with pytest.raises(RuntimeError, match="with"):
        for attempt in attempts(ZeroBackOff()):
            seen.append(attempt.number)

    async def main() -> None:
        async for attempt in attempts(ZeroBackOff()):
            seen.append(attempt.number)

    with pytest.raises(RuntimeError, match="with"):
        in_loop(main())
    assert seen == [1, 1]


def test_a_block_is_entered_once(clock: VirtualClock) -> None:
    with pytest.raises(RuntimeError):
        for attempt in attempts(ZeroBackOff(), on=OSError):
            with attempt:
                raise OSError
            with attempt:
                pass


def test_a_loop_whose_end_nobody_decided_raises_nothing(clock: VirtualClock) -> None:
    run = attempts(ZeroBackOff())
    for attempt in run:
        with attempt:
            raise OSError
        assert run._steps is not None
        run._steps.step = END  # as an interrupt between two steps leaves it
    assert run.outcome.attempts == 1
    assert run.outcome.reason is None


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_interrupt_as_a_block_begins_is_told_by_the_token(
    asynchronous: bool, clock: VirtualClock
) -> None:
    tokens: list[CancellationToken] = []

    @contextlib.contextmanager
    def span(outcome: Outcome) -> Iterator[None]:
        if outcome.attempts == 2:
            raise KeyboardInterrupt
        yield

    run = attempts(ZeroBackOff(), on_attempt=span)

    def block(attempt: Attempt) -> None:
        tokens.append(attempt.token)
        raise OSError

    async def coroutine() -> None:
        async for attempt in run:
            async with attempt:
                block(attempt)

    with pytest.raises(KeyboardInterrupt):
        if asynchronous:
            in_loop(coroutine())
        else:
            for attempt in run:
                with attempt:
                    block(attempt)
    assert [token.cancelled for token in tokens] == [True]
    assert run.outcome.reason is StopReason.INTERRUPTED


@pytest.mark.parametrize("block", ["with", "async with", "with in a coroutine"])
def test_a_cancel_between_the_loop_and_the_block_keeps_the_block_from_running(
    block: str, clock: VirtualClock
) -> None:
    token, ran = CancellationToken(), []
    run = attempts(ZeroBackOff(), token=token)

    def step(attempt: Attempt) -> None:
        if attempt.number == 2:
            token.cancel()

    def body(attempt: Attempt) -> None:
        ran.append(attempt.number)
        raise OSError

    async def coroutine() -> None:
        async for attempt in run:
            step(attempt)
            if block == "async with":
                async with attempt:
                    body(attempt)
            else:
                with attempt:
                    body(attempt)

    with pytest.raises(Cancelled):
        if block == "with":
            for attempt in run:
                step(attempt)
                with attempt:
                    body(attempt)
        else:
            in_loop(coroutine())
    assert ran == [1]
    assert (run.outcome.attempts, run.outcome.reason) == (1, StopReason.CANCELLED)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_cancel_by_on_attempt_ends_the_loop_and_its_manager_is_left(
    asynchronous: bool, clock: VirtualClock
) -> None:
    token, log = CancellationToken(), []

    @contextlib.contextmanager
    def span(outcome: Outcome) -> Iterator[None]:
        log.append(f"in {outcome.attempts}")
        try:
            yield
        except Exception as error:
            log.append(f"out by {type(error).__name__}")
            raise

    def hook(outcome: Outcome) -> Any:
        if outcome.attempts == 2:
            token.cancel()
        return span(outcome)

    run = attempts(ZeroBackOff(), token=token, on_attempt=hook)

    def body(attempt: Attempt) -> None:
        log.append(f"block {attempt.number}")
        raise OSError

    async def coroutine() -> None:
        async for attempt in run:
            log.append(f"step {attempt.number}")
            async with attempt:
                body(attempt)

    with pytest.raises(Cancelled):
        if asynchronous:
            in_loop(coroutine())
        else:
            for attempt in run:
                log.append(f"step {attempt.number}")
                with attempt:
                    body(attempt)
    assert log == ["step 1", "in 1", "block 1", "out by OSError", "in 2", "out by Cancelled"]
