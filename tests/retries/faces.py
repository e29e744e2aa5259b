"""The ways to run an operation with retries, behind one interface."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from backoff_ticker import Cancelled, attempts, retry, retry_call, retry_call_async
from tests.helpers import collect_garbage
from tests.retries.scripts import answered


def in_loop(coroutine):
    """Run a coroutine in a new event loop, in debug mode, in which nothing may go wrong."""
    wrong = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
        try:
            return await coroutine, None
        except BaseException as error:
            return None, error

    result, error = asyncio.run(main(), debug=True)
    assert wrong == []
    if error is not None:
        raise error
    return result


class Face:
    """One of the ways.

    Attributes:
        name: The id of the tests on it.
        asynchronous: Whether it runs coroutines.
        looped: Whether it is a loop over attempts.
    """

    name = ""
    asynchronous = False
    looped = False

    def run(self, script, backoff=None, **options):
        """Run ``script`` to its end here and now."""
        raise NotImplementedError


class Call(Face):
    name = "call"

    def run(self, script, backoff=None, **options):
        def operation():
            return script()

        return retry_call(operation, backoff, **options)


class Decorator(Face):
    name = "decorator"

    def run(self, script, backoff=None, **options):
        @retry(backoff, **options)
        def operation():
            return script()

        return operation()


Block = Callable[[Any], object]


class Loop(Face):
    name = "loop"
    looped = True

    def blocks(self, run, block, before=id, after=id):
        """Have ``block(attempt)`` retried by a loop; leave it where ``after(attempt)`` is False."""
        for attempt in run:
            before(attempt)
            with attempt:
                block(attempt)
            if after(attempt) is False:
                break

    def run(self, script, backoff=None, **options):
        for attempt in attempts(backoff, **options):
            with attempt:
                result = script()
                attempt.set_result(result)
        return result


class AsyncFace(Face):
    asynchronous = True

    def run(self, script, backoff=None, **options):
        return in_loop(self.main(script, backoff, **options))

    def main(self, script, backoff=None, **options):
        """Return the coroutine that ``run()`` runs."""
        raise NotImplementedError


class AsyncCall(AsyncFace):
    name = "async call"

    async def main(self, script, backoff=None, **options):
        async def operation():
            return await script.in_loop()

        return await retry_call_async(operation, backoff, **options)


class AsyncDecorator(AsyncFace):
    name = "async decorator"

    async def main(self, script, backoff=None, **options):
        @retry(backoff, **options)
        async def operation():
            return await script.in_loop()

        return await operation()


class AsyncLoop(AsyncFace):
    name = "async loop"
    looped = True

    def blocks(self, run, block, before=id, after=id):
        async def main():
            async for attempt in run:
                before(attempt)
                with attempt:
                    block(attempt)
                if after(attempt) is False:
                    break

        in_loop(main())

    async def main(self, script, backoff=None, **options):
        async for attempt in attempts(backoff, **options):
            with attempt:
                result = await script.in_loop()
                attempt.set_result(result)
        return result


class AsyncLoopAsyncWith(AsyncFace):
    name = "async loop, async with"
    looped = True

    def blocks(self, run, block, before=id, after=id):
        async def main():
            async for attempt in run:
                before(attempt)
                async with attempt:
                    block(attempt)
                if after(attempt) is False:
                    break

        in_loop(main())

    async def main(self, script, backoff=None, **options):
        async for attempt in attempts(backoff, **options):
            async with attempt:
                result = await script.in_loop()
                attempt.set_result(result)
        return result


FACES = {
    made.name: made
    for made in (
        Call(),
        Decorator(),
        Loop(),
        AsyncCall(),
        AsyncDecorator(),
        AsyncLoop(),
        AsyncLoopAsyncWith(),
    )
}


def on_faces(*names):
    """Run a test on some of the faces only."""
    return pytest.mark.parametrize("face", names, indirect=True)


BOTH = on_faces("call", "async call")
"""A test of what all faces leave to the same code: once in a thread, once in a loop."""

FOUR = on_faces("call", "loop", "async call", "async loop, async with")

SYNC = on_faces("call", "loop")

LOOPS = on_faces("loop", "async loop", "async loop, async with")

ALL_ASYNC = on_faces("async call", "async decorator", "async loop", "async loop, async with")

ASYNC = on_faces("async call", "async loop, async with")


def ended_by_cancel(face, script, *args, **options):
    """Return the error of a run that a cancel ends."""
    with pytest.raises(Cancelled) as caught:
        face.run(script, *args, **options)
    assert type(caught.value) is Cancelled
    return caught.value


def left_after_a_failure(face, policy, **options):
    """Leave a loop, and all that refers to it, after an attempt that has failed."""
    face.blocks(attempts(policy, **options), lambda _: answered(OSError), after=lambda _: False)
    collect_garbage()
