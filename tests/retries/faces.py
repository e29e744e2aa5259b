"""The six ways to run an operation with retries, behind one interface; three in trio, too."""

import asyncio
from numbers import Real

import pytest

from backoff_ticker import (
    Cancelled,
    ConstantBackOff,
    StopReason,
    attempts,
    retry,
    retry_call,
    retry_call_async,
)
from tests.helpers import collect_garbage, run_by
from tests.retries.scripts import Recorded, Script, answered, now
from tests.tickers.made_policies import Scripted


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


in_a_loop = run_by(lambda test: in_loop(test()))
"""Have a test, which is a coroutine function, run in a loop in which nothing may go wrong."""


def in_trio(coroutine):
    """Run a coroutine in trio."""
    from tests.trio import virtual  # trio may be missing

    return virtual.in_trio(coroutine)


class Face:
    """One of the ways.

    Attributes:
        name: The id of the tests on it.
        main: Runs a script to its end; for coroutines, returns the coroutine that does.
        in_loop: Runs a coroutine; None: it runs functions.
        asynchronous: Whether it runs coroutines.
    """

    def __init__(self, name, main, *, in_loop=None, blocks=None):
        self.name = name
        self.main = main
        self.in_loop = in_loop
        self.asynchronous = in_loop is not None
        self._blocks = blocks

    def run(self, script, backoff=None, **options):
        """Run ``script`` to its end here and now."""
        made = self.main(script, backoff, **options)
        return self.in_loop(made) if self.asynchronous else made

    def fails(self, kind, script, backoff=None, *, match=None, **options):
        """Run ``script`` to its end, which is an error of this kind, and return the error."""
        with pytest.raises(kind, match=match) as caught:
            self.run(script, backoff, **options)
        return caught.value

    def blocks(self, run, block, before=id, after=id):
        """Have ``block(attempt)`` retried by a loop, after ``before(attempt)`` in each step.

        The loop is left where ``after(attempt)`` returns False.
        """
        made = self._blocks(run, block, before, after)
        if self.asynchronous:
            self.in_loop(made)


def call(script, backoff, **options):
    def operation():
        return script()

    return retry_call(operation, backoff, **options)


def decorator(script, backoff, **options):
    @retry(backoff, **options)
    def operation():
        return script()

    return operation()


def loop(script, backoff, **options):
    for attempt in attempts(backoff, **options):
        with attempt:
            result = script()
            attempt.set_result(result)
    return result


def blocks(run, block, before, after):
    for attempt in run:
        before(attempt)
        with attempt:
            block(attempt)
        if after(attempt) is False:
            break


async def async_call(script, backoff=None, **options):
    async def operation():
        return await script.in_loop()

    return await retry_call_async(operation, backoff, **options)


async def async_decorator(script, backoff=None, **options):
    @retry(backoff, **options)
    async def operation():
        return await script.in_loop()

    return await operation()


async def async_loop(script, backoff=None, **options):
    async for attempt in attempts(backoff, **options):
        async with attempt:
            result = await script.in_loop()
            attempt.set_result(result)
    return result


async def async_blocks(run, block, before, after):
    async for attempt in run:
        before(attempt)
        async with attempt:
            block(attempt)
        if after(attempt) is False:
            break


FACES = {
    made.name: made
    for made in (
        Face("call", call),
        Face("decorator", decorator),
        Face("loop", loop, blocks=blocks),
        Face("async call", async_call, in_loop=in_loop),
        Face("async decorator", async_decorator, in_loop=in_loop),
        Face("async loop", async_loop, in_loop=in_loop, blocks=async_blocks),
        Face("trio call", async_call, in_loop=in_trio),
        Face("trio decorator", async_decorator, in_loop=in_trio),
        Face("trio loop", async_loop, in_loop=in_trio, blocks=async_blocks),
    )
}


IN_TURN = [name for name in FACES if not name.startswith("trio")]
"""The names of those on which each contract test runs, in trio with ``--all`` only."""


def rows(*names):
    """Return the rows of faces; those that run in asyncio run in trio, too."""
    twins = [name.replace("async", "trio") for name in names if name.startswith("async")]
    return [*names, *(pytest.param(name, marks=pytest.mark.slow) for name in twins)]


def on_faces(*names):
    """Run a test on some of the faces only, and on their twins in trio."""
    return pytest.mark.parametrize("face", rows(*names), indirect=True)


BOTH = on_faces("call", "async call")
"""A test of what all faces leave to the same code: once in a thread, once in a loop."""

FOUR = on_faces("call", "loop", "async call", "async loop")

AND_HEDGES = on_faces(*IN_TURN, "hedge", "async hedge")
"""A test of what holds for hedged calls, too."""

CALLS = on_faces("call", "decorator", "async call", "async decorator")

SYNC = on_faces("call", "loop")

LOOPS = on_faces("loop", "async loop")

ALL_ASYNC = on_faces("async call", "async decorator", "async loop")

ASYNC = on_faces("async call", "async loop")

IN_ASYNCIO = pytest.mark.parametrize("face", ["async call", "async loop"], indirect=True)
"""A test of what only asyncio has."""


def ended_by_cancel(face, script, *args, **options):
    """Return the error of a run that a cancel ends."""
    error = face.fails(Cancelled, script, *args, **options)
    assert type(error) is Cancelled
    return error


def left_after_a_failure(face, policy, **options):
    """Leave a loop, and all that refers to it, after an attempt that has failed."""
    face.blocks(attempts(policy, **options), lambda _: answered(OSError), after=lambda _: False)
    collect_garbage()


def check(face, case):
    """Make a run, and compare what comes of it.

    Args:
        face: The way to run it.
        case: A pair. First: the steps of the script, the policy (seconds are a constant one, a
            tuple gives its delays), and the options or a function that makes them. Second: when
            the operation is called, counted from the start, and what is returned or raised, for
            which the type will do; if it matters, when the run ends, the reason that
            ``on_give_up`` is told, the cause of the error, and how its note ends.
    """
    (steps, backoff, options), (times, end, *rest) = case
    ended, reason, cause, note = [*rest, *[None] * (4 - len(rest))]
    began, script, gave_up = now(), Script(*steps), Recorded()
    backoff = ConstantBackOff(backoff) if isinstance(backoff, Real) else backoff
    backoff = Scripted(*backoff) if isinstance(backoff, tuple) else backoff
    options = options() if callable(options) else options
    if reason is not None:
        options = {**options, "on_give_up": gave_up}
    try:
        found = face.run(script, backoff, **options)
    except Exception as error:
        found = error
    assert script.times == [began + one for one in times]
    assert is_as_expected(found, end), found
    if ended is not None:
        assert now() == began + ended
    if reason is not None:
        assert len(gave_up.calls) == 1
        assert gave_up.last.reason is StopReason(reason)
    if cause is not None:
        assert is_as_expected(found.__cause__, cause), found.__cause__
    if note is not None:
        assert found.__notes__[0].endswith(note)


def is_as_expected(found, expected):
    if isinstance(expected, type):
        return type(found) is expected
    return found is expected if isinstance(expected, BaseException) else found == expected
