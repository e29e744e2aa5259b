"""Generators under the decorator: retried until their first item, and themselves from then on."""

import asyncio
import contextlib
import functools
import inspect

import pytest

from backoff_ticker import retry
from tests.retries.scripts import FIVE, Recorded, Script, now


def async_twin(function):
    """Return an async generator function that does what a generator function does."""

    @functools.wraps(function)
    async def generator(*args):
        items = function(*args)
        with contextlib.closing(items), contextlib.suppress(StopIteration):
            item = next(items)
            while True:
                try:
                    sent = yield item
                except Exception as error:
                    item = items.throw(error)
                else:
                    item = items.send(sent)

    return generator


class Kind:
    """Decorates a generator function, or its async twin, and drives what it returns."""

    def __init__(self, runner):
        self._runner = runner
        self.ends_with = StopAsyncIteration if runner else StopIteration
        self.is_function = inspect.isasyncgenfunction if runner else inspect.isgeneratorfunction

    def decorated(self, function, **options):
        return retry(FIVE, **options)(async_twin(function) if self._runner else function)

    def call(self, generator, name, *args):
        """Call ``__next__``, ``send``, ``throw`` or ``close``, or what it is called in a loop."""
        if not self._runner:
            return getattr(generator, name)(*args)

        async def awaited():
            return await getattr(generator, "__anext__" if name == "__next__" else f"a{name}")(
                *args
            )

        return self._runner.run(awaited())


@pytest.fixture(params=["generator", "async generator"])
def kind(request, clock):
    with asyncio.Runner(debug=True) as runner:
        yield Kind(runner if request.param.startswith("async") else None)


def echoing(log, fail=0):
    """Return a generator function that fails so often, then echoes."""

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


def test_it_is_begun_again_until_its_first_item(kind):
    log = []
    generator = kind.decorated(echoing(log, 2))
    assert kind.is_function(generator)
    assert (generator.__name__, generator.__doc__) == ("generator", "Echo.")
    running = generator("first")
    assert log == []
    assert kind.call(running, "__next__") == "first"
    assert log == [("began", 0), ("began", 5), ("began", 10)]
    kind.call(running, "close")
    assert log[3:] == ["closed"]


def test_what_is_sent_and_thrown_goes_through(kind):
    log = []
    running = kind.decorated(echoing(log))("first")
    assert kind.call(running, "__next__") == "first"
    assert kind.call(running, "send", 1) == ("echo", 1)
    assert kind.call(running, "throw", KeyError(7)) == ("echo", "KeyError(7)")
    assert kind.call(running, "__next__") == ("echo", None)
    with pytest.raises(kind.ends_with):
        kind.call(running, "send", "end")
    assert log == [("began", 0), "closed"]


def test_yield_from_it_returns_what_it_returns(clock):
    def delegating():
        return (yield from retry(echoing([]))("first"))

    running = delegating()
    assert next(running) == "first"
    with pytest.raises(StopIteration) as caught:
        running.send("end")
    assert caught.value.value == "returned"


def test_an_error_after_the_first_item_passes(kind):
    script = Script(1)

    def generator():
        yield script()
        raise OSError("later")

    running = kind.decorated(generator)()
    assert kind.call(running, "__next__") == 1
    with pytest.raises(OSError, match="later") as caught:
        kind.call(running, "__next__")
    assert script.count == 1
    assert not hasattr(caught.value, "__notes__")


def test_one_that_ends_without_an_item_is_a_success(kind):
    script, success = Script(OSError, OSError, "empty"), Recorded()

    def generator():
        return script()
        yield

    with pytest.raises(kind.ends_with) as caught:
        kind.call(kind.decorated(generator, on_success=success)(), "__next__")
    assert getattr(caught.value, "value", "empty") == "empty"
    assert script.times == [0, 5, 10]
    assert [outcome.attempts for _, outcome in success.calls] == [3]
