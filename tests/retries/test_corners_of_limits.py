"""Corners of limits of time, and of attempts that are cut."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import pytest

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    DeadlineExceeded,
    retry_call,
    retry_call_async,
)
from backoff_ticker.testing import VirtualClock, no_wait
from tests.retries.faces import BOTH, on_faces
from tests.retries.scripts import Script, now


@on_faces("async call", "async decorator", "async loop", "async loop, async with")
def test_a_manager_is_left_with_what_cut_its_attempt(face, clock):
    left = []

    @contextmanager
    def span(_):
        try:
            yield
        except Exception as error:
            left.append(type(error))
            raise

    async def hang():
        await asyncio.sleep(100)

    class Hangs(Script):
        async def in_loop(self):
            await asyncio.sleep(100)

    token = CancellationToken(clock).child(timeout=30)
    for options, kind in [
        ({"attempt_timeout": 2}, TimeoutError),
        ({"timeout": 3}, DeadlineExceeded),
        ({"token": token}, DeadlineExceeded),
    ]:
        with pytest.raises(kind):
            face.run(Hangs(), ConstantBackOff(1), max_attempts=1, on_attempt=span, **options)
        assert left.pop() is kind


@BOTH
def test_no_attempt_begins_after_the_timeout_has_passed_in_its_hook(face, clock):
    script = Script(OSError, 7)

    def hook(outcome):
        if outcome.attempts == 2:
            clock.sleep(10) if not face.asynchronous else None
        return slow() if face.asynchronous and outcome.attempts == 2 else None

    async def slow():
        await asyncio.sleep(10)

    with pytest.raises(DeadlineExceeded) as caught:
        face.run(script, ConstantBackOff(1), timeout=5, on_attempt=hook)
    assert script.count == 1
    assert isinstance(caught.value.__cause__, OSError)


def test_a_wait_that_would_reach_the_timeout_is_told(clock):
    with pytest.raises(DeadlineExceeded) as caught:
        retry_call(Script(OSError), ConstantBackOff(3), timeout=4)
    assert caught.value.__notes__[0].endswith(
        "in 3.0 s since the first failed: a wait of 3.0 s would reach the timeout of 4.0 s"
    ) or caught.value.__notes__[0].endswith(
        "in 3.0 s: a wait of 3.0 s would reach the timeout of 4.0 s"
    )
    assert now() == 3.0


@pytest.mark.parametrize("start", [0.3, 0.1, 1000.7])
def test_attempts_are_cut_where_waits_are_skipped(start):
    async def hang():
        await asyncio.sleep(1e6)

    with VirtualClock(start, auto=True) as clock, no_wait():
        for delay in (0.2, 0.7, 1.1):
            for limit in (0.3, 0.1, 0.7):
                with pytest.raises(TimeoutError):
                    clock.run_async(
                        retry_call_async(
                            hang, ConstantBackOff(delay), attempt_timeout=limit, max_attempts=4
                        )
                    )
        assert clock.monotonic() < start + 20


def test_skipped_waits_of_any_length_add_up(clock):
    with no_wait(), pytest.raises(OSError) as caught:
        retry_call(Script(OSError), ConstantBackOff(1e308), max_attempts=5)
    assert "inf" not in caught.value.__notes__[0]


def test_skipped_time_counts_for_a_tokens_deadline_while_an_attempt_runs(clock):
    calls = []

    async def operation():
        calls.append(1)
        if len(calls) == 1:
            raise OSError
        await asyncio.sleep(3)

    with no_wait(), pytest.raises(DeadlineExceeded):
        token = CancellationToken(clock).child(timeout=5)
        clock.run_async(retry_call_async(operation, ConstantBackOff(4), token=token))
    assert now() == 1
