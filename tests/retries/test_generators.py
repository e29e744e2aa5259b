"""Generators under the decorator: retried until their first item, and themselves from then on."""

import contextlib
import inspect
import sys

import pytest

from backoff_ticker import ConstantBackOff, retry
from tests.retries.faces import in_loop
from tests.retries.scripts import Recorded, now

POLICY = ConstantBackOff(5)


def echoing(log, fail=0, **options):
    """Return a decorated generator function: it fails so often, then it echoes."""

    @retry(POLICY, **options)
    def generator(first):
        """Echo."""
        log.append(("began", now()))
        if len(log) <= fail:
            raise OSError(len(log))
        try:
            sent = yield first
            while sent != "end":
                try:
                    sent = yield ("echo", sent)
                except KeyError as error:
                    sent = repr(error)
        finally:
            log.append("closed")
        return "returned"

    return generator


def test_a_generator_is_begun_again_until_its_first_item(clock):
    log = []
    generator = echoing(log, 2)
    assert inspect.isgeneratorfunction(generator)
    assert (generator.__name__, generator.__doc__) == ("generator", "Echo.")
    running = generator("first")
    assert log == []
    assert next(running) == "first"
    assert log == [("began", 0), ("began", 5), ("began", 10)]
    running.close()
    assert log[3:] == ["closed"]


def test_send_throw_and_the_return_value_go_through(clock):
    log = []
    running = echoing(log)("first")
    assert next(running) == "first"
    assert running.send(1) == ("echo", 1)
    assert running.throw(KeyError(7)) == ("echo", "KeyError(7)")
    assert next(running) == ("echo", None)
    with pytest.raises(StopIteration) as caught:
        running.send("end")
    assert caught.value.value == "returned"
    assert log == [("began", 0), "closed"]

    def delegating():
        return (yield from echoing(log)("first"))

    running = delegating()
    assert next(running) == "first"
    with pytest.raises(StopIteration) as caught:
        running.send("end")
    assert caught.value.value == "returned"


def test_an_error_after_the_first_item_passes(clock):
    log = []

    @retry(POLICY)
    def generator():
        log.append(now())
        yield 1
        raise OSError("later")

    running = generator()
    assert next(running) == 1
    with pytest.raises(OSError, match="later") as caught:
        next(running)
    assert log == [0]
    assert not hasattr(caught.value, "__notes__")
    running = echoing(log)("first")
    next(running)
    own = LookupError()
    with pytest.raises(LookupError) as thrown:
        running.throw(own)
    assert thrown.value is own
    assert log[-1] == "closed"


def test_a_generator_that_ends_without_an_item_is_a_success(clock):
    log = []
    success = Recorded()

    @retry(POLICY, on_success=success)
    def generator():
        log.append(now())
        if len(log) < 3:
            raise OSError
        return "empty"
        yield

    with pytest.raises(StopIteration) as caught:
        next(generator())
    assert caught.value.value == "empty"
    assert log == [0, 5, 10]
    assert [outcome.attempts for _, outcome in success.calls] == [3]
    log.clear()
    assert list(generator()) == []


def test_a_generator_that_gives_up_raises_its_last_error(clock):
    log = []
    running = echoing(log, 9, max_attempts=3)("first")
    with pytest.raises(OSError) as caught:
        next(running)
    assert caught.value.args == (3,)
    assert len(log) == 3
    with pytest.raises(StopIteration):
        next(running)


# Asynchronous ones


def echoing_async(log, fail=0, **options):
    """Return the same as an async generator function."""

    @retry(POLICY, **options)
    async def generator(first):
        """Echo."""
        log.append(("began", now()))
        if len(log) <= fail:
            raise OSError(len(log))
        try:
            sent = yield first
            while sent != "end":
                try:
                    sent = yield ("echo", sent)
                except KeyError as error:
                    sent = repr(error)
        finally:
            log.append("closed")

    return generator


def test_an_async_generator_is_begun_again_until_its_first_item(clock):
    log = []
    generator = echoing_async(log, 2)
    assert inspect.isasyncgenfunction(generator)
    assert (generator.__name__, generator.__doc__) == ("generator", "Echo.")

    async def main():
        running = generator("first")
        assert log == []
        assert await anext(running) == "first"
        assert log == [("began", 0), ("began", 5), ("began", 10)]
        await running.aclose()
        assert log[3:] == ["closed"]

    in_loop(main())


def test_asend_and_athrow_go_through(clock):
    log = []

    async def main():
        running = echoing_async(log)("first")
        assert await anext(running) == "first"
        assert await running.asend(1) == ("echo", 1)
        assert await running.athrow(KeyError(7)) == ("echo", "KeyError(7)")
        with pytest.raises(StopAsyncIteration):
            await running.asend("end")
        assert log == [("began", 0), "closed"]
        running = echoing_async(log)("first")
        await anext(running)
        own = LookupError()
        with pytest.raises(LookupError) as thrown:
            await running.athrow(own)
        assert thrown.value is own
        assert log[2:] == [("began", 0), "closed"]

    in_loop(main())


def test_an_async_generator_ends_as_it_would_alone(clock):
    log = []

    @retry(POLICY, max_attempts=3)
    async def generator(items, *, fail):
        log.append(now())
        for item in range(items):
            yield item
        if fail:
            raise OSError(len(log))

    async def main():
        assert [item async for item in generator(3, fail=False)] == [0, 1, 2]
        assert [item async for item in generator(0, fail=False)] == []
        assert len(log) == 2
        with pytest.raises(OSError) as caught:
            await anext(generator(0, fail=True))
        assert (caught.value.args, len(log)) == ((5,), 5)
        running = generator(1, fail=True)
        assert await anext(running) == 0
        with pytest.raises(OSError):
            await anext(running)
        assert len(log) == 6

    in_loop(main())


def test_an_error_that_was_thrown_and_handled_is_over():
    @retry(ConstantBackOff(5))
    def items():
        with contextlib.suppress(KeyError):
            yield 1
        assert sys.exception() is None
        raise ValueError

    generator = items()
    next(generator)
    with pytest.raises(ValueError) as caught:
        generator.throw(KeyError("thrown"))
    assert caught.value.__context__ is None
