"""Waits in the wrong place say so: in an event loop that they block, or without one."""

from __future__ import annotations

import asyncio
import queue
import sys
import warnings
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Schedule,
    Ticker,
    Timer,
    ZeroBackOff,
    attempts,
    hedge_call_async,
    merge,
    retry,
    retry_call_async,
    select,
    select_async,
)
from backoff_ticker.testing import VirtualClock
from backoff_ticker.waiting import checkpoint, on_loop_wait
from tests.helpers import PATIENCE
from tests.interleaving import each_interleaving
from tests.retries.faces import in_a_loop

HOUR = 3600.0

BRIEFLY = 0.05  # seconds; it must not be over before the wait begins


def pending(kind: Any = Ticker) -> Any:
    ticker = kind(ConstantBackOff(HOUR))
    ticker.receive_nowait()
    return ticker


def drain(timeout: float | None = None) -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add("key")
    job = schedule.receive_nowait()
    try:
        schedule.drain(timeout)
    finally:
        job.succeed()


ENDLESS = {
    "await token.wait_async()": CancellationToken().wait,
    "await channel.receive_async()": Channel[Any]().receive,
    "await channel.send_async()": lambda: Channel[Any]().send(1),
    "await select_async()": lambda: select(Channel(), Timer(), CancellationToken()),
    "async for": lambda: next(merge(Channel(), Timer())),
    "await schedule.receive_async()": lambda: next(Schedule()),
    "await schedule.drain_async()": drain,
}


@pytest.mark.parametrize("instead", ENDLESS)
@in_a_loop
async def test_a_wait_without_an_end_is_refused_and_the_way_for_coroutines_is_named(instead):
    with pytest.raises(RuntimeError, match="would block the event loop") as caught:
        ENDLESS[instead]()
    assert str(caught.value).endswith(f"; use {instead}")


def ticking(**options: Any) -> Ticker:
    ticker = Ticker(ConstantBackOff(BRIEFLY), **options)
    ticker.receive()
    return ticker


def started() -> Timer:
    timer = Timer()
    timer.start(BRIEFLY)
    return timer


def due_soon() -> Schedule[str]:
    schedule: Schedule[str] = Schedule()
    schedule.add("key", BRIEFLY)
    return schedule


def times_out(call: Any) -> Any:
    with pytest.raises(TimeoutError):
        call(timeout=BRIEFLY)


ENDING = {
    "await token.wait_async()": [
        lambda: CancellationToken().wait(BRIEFLY),
        lambda: CancellationToken(timeout=BRIEFLY).wait(),
    ],
    "await channel.receive_async()": [
        lambda: times_out(Channel[Any]().receive),
        lambda: started().c.receive(),
    ],
    "await channel.send_async()": [lambda: times_out(partial(Channel[Any]().send, 1))],
    "an AsyncTicker": [
        lambda: next(ticking()),
        lambda: next(ticking(timer=Timer())),
        lambda: times_out(pending().receive),
    ],
    "await select_async()": [
        lambda: times_out(partial(select, Channel())),
        lambda: select(Channel(), ticking()),
        lambda: select(Channel(), started()),
        lambda: select(due_soon())[1].succeed(),
    ],
    "async for": [lambda: next(merge(Channel(), ticking()))],
    "await schedule.receive_async()": [
        lambda: next(due_soon()).succeed(),
        lambda: times_out(Schedule[str]().receive),
    ],
    "await schedule.drain_async()": [lambda: drain(BRIEFLY)],
}


@pytest.mark.parametrize(
    ("instead", "wait"), [(instead, wait) for instead in ENDING for wait in ENDING[instead]]
)
def test_a_wait_with_an_end_blocks_the_loop_and_warns(instead, wait):
    async def main():
        with pytest.warns(RuntimeWarning, match="blocks the event loop") as caught:
            wait()
        assert {str(each.message).endswith(f"; use {instead}") for each in caught} == {True}
        assert {each.filename for each in caught} == {__file__}

    with VirtualClock(auto=True):
        asyncio.run(main())


def test_it_warns_once_a_place():
    async def main():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            ticker = ticking()
            for _ in range(3):
                ticker.receive()
            next(ticker)
        return [each.lineno for each in caught]

    here = main.__code__.co_firstlineno
    with VirtualClock(auto=True):
        assert asyncio.run(main()) == [here + 5, here + 6]


@pytest.mark.parametrize("receive", [Ticker.receive, lambda ticker: select(ticker)[1]])
def test_a_wait_that_ends_does_so_in_a_thread_of_many_that_wait(receive):
    """Not the first in line, it does not know when the tick is due."""
    clock = VirtualClock()
    with clock:
        ticker = Ticker(ConstantBackOff(5))
        ticker.receive()

        async def main() -> int:
            with pytest.warns(RuntimeWarning, match="blocks the event loop"):
                return receive(ticker).number

        tasks = [clock.spawn(ticker.receive), clock.spawn(asyncio.run, main())]
        clock.advance(10)
        assert {tasks[0].result().number, tasks[1].result()} == {2, 3}


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_leaves_nothing_behind():
    async def main(ticker: Ticker, token: CancellationToken) -> None:
        for wait in (ticker.receive, partial(token.wait, 1)):
            with pytest.raises(RuntimeWarning, match="blocks the event loop"):
                wait()

    ticker, token = pending(), CancellationToken()
    asyncio.run(main(ticker, token))
    assert ticker._readers.first is None
    assert token._wait_set().first is None


@in_a_loop
async def test_calls_that_need_not_wait_work():
    token, ticker = CancellationToken(), Ticker(ConstantBackOff(HOUR))
    assert not token.wait(0)
    for receive in (Channel[Any]().receive, pending().receive):
        with pytest.raises(TimeoutError):
            receive(timeout=0)
    token.cancel("enough")
    channel: Channel[str] = Channel(1)
    channel.send("item")
    found = token.wait(), ticker.receive().number, select(token)[1], channel.receive()
    assert found == (True, 1, "enough", "item")


def test_threads_wait_while_another_thread_imports_asyncio(monkeypatch):
    """A module stands in ``sys.modules`` long before it has all its names."""
    for name in ("asyncio", "janus"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with pytest.raises(TimeoutError):
        Channel[Any]().receive(timeout=0.001)
    ticks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    ticker = Ticker(ConstantBackOff(HOUR))
    ticker.send_to(ticks)
    assert ticks.get(timeout=PATIENCE).number == 1
    ticker.stop()


async def failing() -> None:
    raise OSError("of the operation")


async def working() -> int:
    return 7


async def take_ticks_without_a_wait() -> None:
    async for _ in AsyncTicker(ZeroBackOff()):
        pass


async def exchange_without_a_wait() -> None:
    channel = Channel[int](1)
    while True:
        await channel.send_async(1)
        await channel.receive_async()


async def loop_over_attempts() -> None:
    async for attempt in attempts(ConstantBackOff(HOUR)):
        with attempt:
            await failing()


NEED_A_LOOP: dict[str, Any] = {
    "ticker": lambda: pending(AsyncTicker).receive(),
    "ticker, zero": take_ticks_without_a_wait,
    "send": lambda: Channel[int]().send_async(1),
    "receive": lambda: Channel[int]().receive_async(),
    "channel, no wait": exchange_without_a_wait,
    "select": lambda: select_async(Channel[int]()),
    "merge": lambda: anext(merge(Channel())),
    "token": lambda: CancellationToken().wait_async(),
    "scope": lambda: CancellationToken().scope().__aenter__(),
    "retry": lambda: retry(ConstantBackOff(HOUR))(failing)(),
    "retry_call_async": lambda: retry_call_async(failing, ConstantBackOff(HOUR)),
    "retry, zero": lambda: retry_call_async(failing, ZeroBackOff()),
    "retry, cut": lambda: retry_call_async(working, attempt_timeout=HOUR),
    "attempts": loop_over_attempts,
    "hedge": lambda: hedge_call_async(working, ConstantBackOff(HOUR)),
}


@pytest.mark.parametrize("name", NEED_A_LOOP)
def test_what_needs_a_loop_says_so(name):
    coroutine = NEED_A_LOOP[name]()
    with pytest.raises(RuntimeError, match="needs a running asyncio event loop") as caught:
        coroutine.send(None)
    assert "a task of trio" in str(caught.value)
    if name in ("retry", "retry_call_async", "attempts"):  # which tell the operation's error, too
        assert isinstance(caught.value.__cause__, OSError)


def test_what_need_not_wait_needs_no_loop():
    async def main():
        channel: Channel[int] = Channel(1)
        await channel.send_async(3)
        tick = await AsyncTicker(ConstantBackOff(HOUR)).receive()
        retried = await retry_call_async(working), await retry(working)()
        return await channel.receive_async(), tick.number, *retried

    with pytest.raises(StopIteration) as caught:
        main().send(None)
    assert caught.value.value == (3, 1, 7, 7)


def test_who_no_longer_asks_to_be_told_of_waits_does_no_harm_to_them(monkeypatch):
    async def wait():
        await checkpoint()

    def begin():
        on_loop_wait([].append)
        return lambda: asyncio.run(wait()), lambda: on_loop_wait(None)

    try:
        for outcomes in each_interleaving(begin, monkeypatch):
            assert outcomes == (None, None)
    finally:
        on_loop_wait(None)
