"""What docs/why_compared.md says of other packages is true: each row has a test.

What it says of this package, the tests of its folders show.
"""

import asyncio
import datetime as dt
import inspect
import logging
import math
import queue
import re
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

import backoff_ticker as b
from backoff_ticker.testing import no_wait
from tests.helpers import PATIENCE, LoopThread, eventually, in_thread

tenacity = pytest.importorskip("tenacity")
stamina = pytest.importorskip("stamina")
backoff = pytest.importorskip("backoff")
anyio = pytest.importorskip("anyio")
aiologic = pytest.importorskip("aiologic")
trio = pytest.importorskip("trio")
trio_testing = pytest.importorskip("trio.testing")

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[1] / "docs" / "why_compared.md").read_text("utf-8")
ROWS = {row for row in re.findall(r"^\| ([^|]+) \|", PAGE, re.MULTILINE) if not row.startswith("-")}
TESTED = set()


def about(row):
    """Say which row of the page a test is about."""
    assert row in ROWS, f"docs/why_compared.md has no row {row!r}"
    TESTED.add(row)
    return lambda test: test


def names(thing):
    return {name for name in dir(thing) if not name.startswith("_")}


def matching(pattern, *things):
    """Return the public names that match, in any case."""
    found = re.compile(pattern, re.IGNORECASE)
    return {name for thing in things for name in names(thing) if found.search(name)}


def options(function):
    return set(inspect.signature(function).parameters)


OPTIONS = options(tenacity.Retrying) | options(stamina.retry) | options(backoff.on_exception)


class Failing:
    """An operation that fails some times, then returns; it keeps the times of its calls."""

    __name__ = "fetch"  # backoff logs it

    def __init__(self, failures=math.inf, clock=None, error=ConnectionError):
        self.failures = failures
        self.error = error
        self.clock = clock
        self.calls = []

    def __call__(self):
        self.calls.append(self.clock.monotonic() if self.clock else len(self.calls))
        if len(self.calls) <= self.failures:
            raise self.error("no route")
        return "page"

    async def awaited(self):
        return self()


def decorators(seconds=0):
    """Return one for each package, which waits so long after each failure."""
    waits = {"wait_initial": seconds, "wait_max": seconds, "wait_jitter": 0}
    return {
        "backoff_ticker": b.retry(b.ConstantBackOff(seconds), on=OSError),
        "tenacity": tenacity.retry(
            retry=tenacity.retry_if_exception_type(OSError), wait=tenacity.wait_fixed(seconds)
        ),
        "stamina": stamina.retry(on=OSError, **waits),
        "backoff": backoff.on_exception(partial(backoff.constant, seconds), OSError, jitter=None),
    }


# Retries


@about("functions and coroutine functions")
@pytest.mark.parametrize("package", ["backoff_ticker", "tenacity", "stamina", "backoff"])
def test_all_retry_functions_and_coroutine_functions(package):
    decorate = decorators()[package]
    function, coroutine = Failing(2), Failing(2)
    assert decorate(function)() == "page"
    assert asyncio.run(decorate(coroutine.awaited)()) == "page"
    assert len(function.calls) == len(coroutine.calls) == 3


@about("blocks of code")
def test_all_but_backoff_retry_a_block():
    loops = [
        b.attempts(b.ZeroBackOff(), on=OSError),
        tenacity.Retrying(retry=tenacity.retry_if_exception_type(OSError)),
        stamina.retry_context(on=OSError, wait_initial=0, wait_max=0, wait_jitter=0),
    ]
    for loop in loops:
        operation = Failing(2)
        for attempt in loop:
            with attempt:
                operation()
        assert len(operation.calls) == 3
    assert matching("^on_", backoff) == {"on_exception", "on_predicate"}
    assert not {"__iter__", "__enter__"} & set(dir(decorators()["backoff"]))


@about("results, not only errors")
def test_all_but_stamina_retry_a_result():
    def poll():
        polled.append(1)
        return None if len(polled) < 3 else "done"

    for decorate in (
        b.retry(b.ZeroBackOff(), until=bool),
        tenacity.retry(retry=tenacity.retry_if_not_result(bool)),
        backoff.on_predicate(partial(backoff.constant, 0), lambda result: not result, jitter=None),
    ):
        polled = []
        assert decorate(poll)() == "done"
    polled, asked = [], []
    assert stamina.retry(on=asked.append)(poll)() is None
    assert asked == []
    assert not options(stamina.retry) & {"until", "result", "predicate"}


@about("at the end it raises")
@pytest.mark.parametrize(
    ("decorate", "error"),
    [
        (b.retry(b.ZeroBackOff(), max_attempts=2), ConnectionError),
        (tenacity.retry(stop=tenacity.stop_after_attempt(2)), tenacity.RetryError),
        (tenacity.retry(stop=tenacity.stop_after_attempt(2), reraise=True), ConnectionError),
        (stamina.retry(on=OSError, attempts=2, wait_max=0, wait_jitter=0), ConnectionError),
        (
            backoff.on_exception(partial(backoff.constant, 0), OSError, max_tries=2, jitter=None),
            ConnectionError,
        ),
    ],
    ids=["backoff_ticker", "tenacity", "tenacity-reraise", "stamina", "backoff"],
)
def test_what_is_raised_at_the_end(decorate, error):
    with pytest.raises(error):
        decorate(Failing())()


@about("a wait ended from another thread")
def test_an_event_ends_the_wait_of_tenacity_in_a_thread_and_one_more_call_is_made():
    event, operation = threading.Event(), Failing()
    reliably = tenacity.retry(
        wait=tenacity.wait_fixed(3600),
        sleep=tenacity.sleep_using_event(event),
        stop=tenacity.stop_when_event_set(event),
        before_sleep=lambda _: event.set(),
    )
    with pytest.raises(tenacity.RetryError):
        reliably(operation)()
    assert len(operation.calls) == 2
    others = options(stamina.retry) | options(backoff.on_exception)
    assert not [name for name in others if re.search("sleep|event|token|cancel", name)]


@about("a total limit")
def test_no_wait_exceeds_the_limit_here_and_with_stop_before_delay(patched_clock):
    for decorate in (
        b.retry(b.ConstantBackOff(2), timeout=5),
        b.retry(b.ConstantBackOff(2), max_elapsed_time=5),
        tenacity.retry(
            wait=tenacity.wait_fixed(2),
            stop=tenacity.stop_before_delay(5),
            sleep=patched_clock.sleep,
        ),
    ):
        operation, began = Failing(clock=patched_clock), patched_clock.monotonic()
        with pytest.raises((OSError, tenacity.RetryError)):
            decorate(operation)()
        assert [when - began for when in operation.calls] == [0, 2, 4]
        assert patched_clock.monotonic() == began + 4


@about("a total limit")
def test_stamina_overruns_it_by_a_wait_and_backoff_cuts_the_last_wait_short(patched_clock):
    operation = Failing(clock=patched_clock)
    reliably = stamina.retry(on=OSError, timeout=5, wait_initial=4, wait_max=4, wait_jitter=0)
    with pytest.raises(ConnectionError):
        reliably(operation)()
    assert operation.calls == [0, 4, 8]
    operation = Failing(clock=patched_clock)
    reliably = backoff.on_exception(backoff.constant, OSError, max_time=5, jitter=None, interval=2)
    wall = SimpleNamespace(now=lambda: dt.datetime.fromtimestamp(patched_clock.time(), dt.UTC))
    with (
        mock.patch("backoff._sync.time", patched_clock),
        mock.patch("backoff._sync.datetime", SimpleNamespace(datetime=wall)),
        pytest.raises(ConnectionError),
    ):
        reliably(operation)()
    assert operation.calls == [8, 10, 12, 13]


@about("a limit for each attempt")
def test_nobody_else_limits_an_attempt():
    assert {name for name in OPTIONS if "timeout" in name} == {"timeout"}  # stamina's, for all
    assert not matching("attempt_?time|time_?limit", tenacity, stamina, backoff)


@about("a wait that the server asks for")
def test_each_package_can_wait_as_long_as_the_error_says(patched_clock):
    class Busy(Exception):
        retry_after = 30

    def seconds(error):
        return error.retry_after

    for decorate in (
        b.retry(b.ZeroBackOff(), on=seconds),
        tenacity.retry(
            wait=lambda state: seconds(state.outcome.exception()), sleep=patched_clock.sleep
        ),
        stamina.retry(on=seconds),
        backoff.on_exception(backoff.runtime, Busy, value=seconds, jitter=None),
    ):
        operation, began = Failing(1, patched_clock, Busy), patched_clock.monotonic()
        decorate(operation)()
        assert operation.calls[1] - began == 30


@about("budget, circuit breaker, hedged calls")
def test_nobody_else_has_budgets_circuit_breakers_and_hedged_calls():
    pattern = "budget|circuit|breaker|hedg"
    assert matching(pattern, b) >= {"RetryBudget", "CircuitBreaker", "hedge_call"}
    assert matching(pattern, tenacity, stamina, stamina.instrumentation, backoff) == set()
    assert not [name for name in OPTIONS if re.search(pattern, name)]


@about("logs and metrics")
def test_stamina_and_backoff_log_unless_told_not_to(caplog, capsys):
    caplog.set_level(logging.INFO)
    logged = set()
    with mock.patch("time.sleep"), no_wait():
        for package, decorate in decorators().items():
            caplog.clear()
            decorate(Failing(1))()
            # Where structlog is installed stamina uses it, and that prints.
            if caplog.records or capsys.readouterr().out:
                logged.add(package)
    assert logged == {"stamina", "backoff"}
    assert {"before_sleep_log", "after_log"} <= names(tenacity)
    hooks = names(stamina.instrumentation)
    assert {"PrometheusOnRetryHook", "StructlogOnRetryHook"} <= hooks
    assert not matching("prometheus|structlog|telemetry", b, tenacity, backoff)


@about("tests without waiting")
def test_how_tests_avoid_the_waits():
    slept = []
    hour = tenacity.wait_fixed(3600)
    tenacity.retry(wait=hour, sleep=slept.append)(Failing(2))()
    assert slept == [3600, 3600]
    with pytest.raises(ConnectionError):
        tenacity.retry(wait=hour, enabled=False)(Failing(1))()

    operation = Failing()
    with stamina.set_testing(True, attempts=3), pytest.raises(ConnectionError):
        stamina.retry(on=OSError, wait_initial=3600, wait_max=3600)(operation)()
    assert len(operation.calls) == 3

    assert not matching("test|sleep|wait_none|active", backoff)


@about("trio")
def test_all_but_backoff_wait_on_trio():
    works = set()
    for package, decorate in decorators(60).items():
        with suppress(RuntimeError):  # no running event loop
            instant = trio_testing.MockClock(autojump_threshold=0)
            assert trio.run(decorate(Failing(1).awaited), clock=instant) == "page"
            works.add(package)
    assert works == {"backoff_ticker", "tenacity", "stamina"}


# Threads and event loops


@pytest.fixture
def loops():
    """Loops that do nothing unless they are woken, as loops are outside of debug mode."""
    made = [LoopThread(debug=False), LoopThread(debug=False)]
    yield made
    for loop in made:
        loop.close()


@about("one signal stops threads and several loops")
@about("a queue for threads and several loops")
def test_an_event_and_a_queue_of_aiologic_reach_threads_and_loops(loops):
    async def until_set():
        return await event and await items.async_get()

    event, items = aiologic.Event(), aiologic.Queue()
    waiting = [in_thread(lambda: event.wait() and items.green_get())]
    waiting += [loop.submit(until_set()) for loop in loops]
    eventually(lambda: event.waiting == 3)
    event.set()
    for _ in waiting:
        items.green_put("item")
    assert [each.result(PATIENCE) for each in waiting] == ["item"] * 3
    assert not matching("scope|cancel|timeout", aiologic)


def is_woken(loop, start_waiting, change, within=0.05):
    """Return whether a loop notices a change that another thread makes without telling it."""
    waiting = loop.submit(start_waiting)
    loop.settle()
    change()
    try:
        waiting.result(within)
    except TimeoutError:
        return False
    else:
        return True
    finally:
        loop.settle()  # wakes it
        waiting.result(PATIENCE)


@about("one signal stops threads and several loops")
@pytest.mark.parametrize("make", [anyio.Event, asyncio.Event], ids=["anyio", "asyncio"])
def test_an_event_of_anyio_or_asyncio_does_not_wake_a_loop_and_a_token_does(loops, make):
    event = make()
    assert not is_woken(loops[0], event.wait(), event.set)
    assert not hasattr(threading.Event(), "__await__")
    token = b.CancellationToken()
    assert is_woken(loops[0], token.wait_async(), token.cancel, PATIENCE)


@about("a queue for threads and several loops")
def test_other_queues_do_not_wake_a_loop_from_a_thread(loops):
    send, receive = anyio.create_memory_object_stream(1)
    tasks, channel = asyncio.Queue(), b.Channel(1)
    with send, receive:
        assert not is_woken(loops[0], receive.receive(), partial(send.send_nowait, "item"))
    assert not is_woken(loops[0], tasks.get(), partial(tasks.put_nowait, "item"))
    put = partial(channel.send_nowait, "item")
    assert is_woken(loops[0], channel.receive_async(), put, PATIENCE)


@about("close a queue")
def test_what_can_be_closed():
    assert not matching("close|shutdown", aiologic.Queue, aiologic.SimpleQueue)
    send, receive = anyio.create_memory_object_stream(1)
    send.send_nowait("item")
    send.close()
    assert receive.receive_nowait() == "item"
    with pytest.raises(anyio.EndOfStream):
        receive.receive_nowait()
    receive.close()
    for kind in queue.Queue, asyncio.Queue:
        assert hasattr(kind, "shutdown") == (sys.version_info >= (3, 13))


@about("wait for the first of several")
@about("cancel what a coroutine awaits")
@about("ticks at intervals")
@about("locks, semaphores, barriers")
@about("a clock for tests")
def test_who_has_what():
    other = (aiologic, anyio)
    assert {"select", "merge", "Ticker", "AsyncTicker"} <= names(b)
    assert not matching("select|merge", *other)
    assert not matching("tick|interval|period|every|clock", *other, asyncio, threading)
    assert not matching("^r?lock$|semaphore|barrier", b)
    wanted = {"Lock", "Semaphore", "Condition", "CapacityLimiter"}
    assert wanted <= names(aiologic) & names(anyio)

    async def hour():
        await anyio.sleep(3600)
        return anyio.current_time()

    instant = {"clock": trio_testing.MockClock(autojump_threshold=0)}
    assert anyio.run(hour, backend="trio", backend_options=instant) >= 3600


@about("runs on trio")
def test_waits_of_aiologic_of_anyio_and_of_ours_run_on_trio():
    async def main():
        event, token = aiologic.Event(), b.CancellationToken()
        event.set()
        token.cancel()
        with anyio.move_on_after(60):
            return await event, await token.wait_async()

    assert trio.run(main) == (True, True)


# The page


def test_each_row_of_the_page_has_a_test():
    assert ROWS == TESTED


def test_the_page_names_the_versions_that_are_pinned():
    constraints = (Path(__file__).parents[1] / ".ci" / "constraints.txt").read_text("utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==(\d+\.\d+)", constraints, re.MULTILINE))
    named = dict(re.findall(r"\| (tenacity|stamina|backoff|aiologic|anyio) (\d+\.\d+) ", PAGE))
    named |= dict(re.findall(r"(tenacity|stamina|backoff|aiologic|anyio) (\d+\.\d+)", PAGE))
    assert named == {package: pinned[package] for package in named}
    assert set(named) == {"tenacity", "stamina", "backoff", "aiologic", "anyio"}
