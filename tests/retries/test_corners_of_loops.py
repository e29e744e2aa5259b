"""Corners of the loops over attempts."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    StopBackOff,
    ZeroBackOff,
    attempts,
)
from tests.retries.faces import in_loop, on_faces
from tests.retries.scripts import Script


def test_a_failure_that_looks_like_the_end_of_a_loop_does_not_end_it(clock):
    async def give_up(_):
        await asyncio.sleep(0)

    async def nothing():
        return
        yield

    async def main():
        async for attempt in attempts(StopBackOff(), on_give_up=give_up):
            with attempt:
                await anext(nothing())

    with pytest.raises(RuntimeError, match="StopAsyncIteration") as caught:
        in_loop(main())
    assert isinstance(caught.value.__cause__, StopAsyncIteration)


@on_faces("loop", "async loop", "async loop, async with")
def test_without_a_delay_too_an_attempt_begins_with_the_step_of_the_loop(face):
    seen = []

    class Told(Script):
        def __call__(self):
            seen.append("block")
            return super().__call__()

        async def in_loop(self):
            return self()

    told = Told(OSError, 7)
    assert face.run(told, ZeroBackOff(), on_attempt=lambda outcome: seen.append(outcome.attempts))
    assert seen == [1, "block", 2, "block"]

    run = attempts(ZeroBackOff())
    for attempt in run:
        with attempt:
            raise OSError
        assert run.outcome.attempts == 1
        break


@on_faces("async loop", "async loop, async with")
def test_a_cancel_between_the_step_and_the_block_is_not_lost(face, clock):
    token = CancellationToken(clock)

    async def main():
        made = 0
        async for attempt in attempts(ConstantBackOff(1), token=token):
            if attempt.number == 2:
                token.cancel()
            if face.name == "async loop":
                with attempt:
                    made += 1
                    raise OSError
            else:
                async with attempt:
                    made += 1
                    raise OSError
        return made

    with pytest.raises(Cancelled) as caught:
        in_loop(main())
    assert isinstance(caught.value.__cause__, OSError)


def test_a_cancel_while_a_manager_is_entered_is_not_lost(clock):
    token = CancellationToken(clock)
    made, log = [], []

    @asynccontextmanager
    async def span(outcome):
        if outcome.attempts == 2:
            token.cancel()
        log.append("in")
        try:
            yield
        finally:
            log.append("out")

    async def main():
        async for attempt in attempts(ConstantBackOff(1), token=token, on_attempt=span):
            async with attempt:
                made.append(attempt.number)
                raise OSError

    with pytest.raises(Cancelled):
        in_loop(main())
    assert made == [1]
    assert log == ["in", "out"] * 2


def test_the_token_of_an_attempt_hears_of_an_interrupt(clock):
    for attempt in attempts(ZeroBackOff()):
        token = attempt.token
        with pytest.raises(KeyboardInterrupt), attempt:
            raise KeyboardInterrupt
        break
    assert token.cancelled


def test_a_closed_generator_tells_its_manager(clock):
    left = []

    class Span:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            left.append(kind)

    def numbers():
        for attempt in attempts(ZeroBackOff(), on_attempt=lambda _: Span()):
            with attempt:
                yield 1

    generator = numbers()
    next(generator)
    generator.close()
    assert left == [GeneratorExit]


def test_a_closed_asynchronous_generator_tells_its_manager(clock):
    left = []

    class Span:
        async def __aenter__(self):
            return self

        async def __aexit__(self, kind, error, traceback):
            await asyncio.sleep(0)
            left.append(kind)

    async def numbers():
        async for attempt in attempts(ZeroBackOff(), on_attempt=lambda _: Span()):
            async with attempt:
                yield 1

    async def main():
        generator = numbers()
        await anext(generator)
        await generator.aclose()

    in_loop(main())
    assert left == [GeneratorExit]


@on_faces("loop", "async loop", "async loop, async with")
def test_who_leaves_after_a_failed_block_is_told_of_no_retry(face, clock):
    told = []
    run = attempts(ConstantBackOff(5), notify=told.append, on_retry=told.append)

    async def main():
        async for attempt in run:
            if face.name == "async loop":
                with attempt:
                    raise OSError
            else:
                async with attempt:
                    raise OSError
            break

    if face.asynchronous:
        in_loop(main())
    else:
        for attempt in run:
            with attempt:
                raise OSError
            break
    assert told == []
    assert (run.outcome.attempts, run.outcome.delay) == (1, 5.0)


def test_a_cancel_before_a_plain_block_is_raised_though_a_hook_is_awaitable(clock):
    token = CancellationToken(clock)

    async def give_up(_):
        await asyncio.sleep(0)

    async def main():
        async for attempt in attempts(ConstantBackOff(1), token=token, on_give_up=give_up):
            if attempt.number == 2:
                token.cancel()
            with attempt:
                raise OSError

    with pytest.raises(Cancelled):
        in_loop(main())
