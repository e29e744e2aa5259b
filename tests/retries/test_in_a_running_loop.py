"""A retry of a plain function in an event loop: it waits as ``time.sleep()`` does, and warns."""

import asyncio
import linecache
import warnings

import pytest

from backoff_ticker import Timer, retry, retry_call
from backoff_ticker.testing import no_wait
from tests.retries.faces import call, decorator, loop
from tests.retries.scripts import TEN, ZERO, Script


def generator(script, backoff, **options):
    @retry(backoff, **options)
    def operation():
        yield script()

    return next(operation())


# Each way to retry, and the user's line that the warning is about.
WAYS = {
    call: "return retry_call(operation, backoff, **options)",
    decorator: "return operation()",
    loop: "for attempt in attempts(backoff, **options):",
    generator: "return next(operation())",
}


def in_loop(body):
    """Call ``body`` in a coroutine; return its result, and what a program with defaults shows."""

    async def main():
        return body()

    with warnings.catch_warnings(record=True) as shown:
        warnings.resetwarnings()
        warnings.simplefilter("default")
        return asyncio.run(main()), shown


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("timed", [False, True], ids=["clock", "timer"])
def test_it_waits_and_warns_once_a_place(clock, way, timed):
    script = Script(OSError, OSError, 7)
    options = {"timer": Timer()} if timed else {}
    result, shown = in_loop(lambda: way(script, TEN, **options))
    assert result == 7
    assert script.times == [0, 10, 20]
    (warning,) = shown
    assert warning.category is RuntimeWarning
    assert linecache.getline(warning.filename, warning.lineno).strip() == WAYS[way]
    assert str(warning.message).endswith(
        " blocks the event loop of this thread; "
        "use await retry_call_async(), async for, or a coroutine function"
    )


@pytest.mark.parametrize("way", WAYS)
def test_where_nothing_waits_it_says_nothing(clock, way):
    def body():
        way(Script(7), TEN)
        way(Script(OSError, 7), ZERO)
        with no_wait():
            way(Script(OSError, 7), TEN)
        with pytest.raises(OSError):
            way(Script(OSError), TEN, max_attempts=1)

    assert in_loop(body)[1] == []


def test_where_warnings_are_errors_that_error_ends_the_run(clock):
    async def main():
        with pytest.raises(RuntimeWarning, match="blocks the event loop") as caught:
            retry_call(Script(OSError), TEN)
        assert isinstance(caught.value.__cause__, OSError)

    asyncio.run(main())
    assert clock.monotonic() == 1000
