"""A call that ends something is interrupted, or has too little stack: everybody is still told."""

from __future__ import annotations

import asyncio
import queue
import weakref
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
    Channel,
    ChannelClosed,
    ConstantBackOff,
    Ticker,
    TickerClosed,
    Timer,
    select,
)
from tests.helpers import PATIENCE, LoopThread, eventually, in_thread, pending_sends_of, waiters_of
from tests.stress.places import Interrupted, each_place
from tests.waiting.test_deep_recursion import FRAMES, failed, with_frames

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = 3600.0


@pytest.fixture
def loop():
    thread = LoopThread(debug=False)
    yield thread
    assert thread.errors == []
    thread.close()


@dataclass
class Ending:
    """Something that ends, with everybody who waits for its end.

    Attributes:
        end: Ends it: the call that is interrupted.
        entries: At how many places, as the call is entered, nothing has begun yet.
        are_waiting: Whether all wait, and nothing has happened.
        check: Finds everybody told, though nothing but time has passed since the end.
    """

    end: Callable[[], object]
    entries: int
    are_waiting: Callable[[], object]
    check: Callable[[], object]


def leave_a_block(token: CancellationToken) -> None:
    with token:
        pass


def cancel(loop: LoopThread, end: Any = CancellationToken.cancel, entries: int = 3) -> Ending:
    token = CancellationToken()
    child = token.child()
    grandchild = child.child(timeout=HOUR)
    called: list[str] = []
    handles = [
        token.on_cancel(lambda: called.append("token")),
        grandchild.on_cancel(lambda: called.append("grandchild")),
    ]

    async def in_scope() -> None:
        with pytest.raises(Cancelled):
            async with grandchild.scope():
                await asyncio.sleep(HOUR)

    waits = [
        in_thread(token.wait),
        in_thread(token.wait),
        in_thread(grandchild.wait),
        in_thread(select, Channel(), child),
        loop.submit(token.wait_async()),
        loop.submit(child.wait_async()),
        loop.submit(in_scope()),
    ]

    def are_waiting() -> bool:
        tokens = [token, child, grandchild]
        counts = [len(waiters_of(each._wait_set())) for each in tokens]
        return counts == [3, 2, 2] and not (token.cancelled or called)

    def check() -> None:
        for wait in waits:
            wait.result(PATIENCE)
        assert child.cancelled
        assert grandchild.cancelled
        assert token.cause == grandchild.cause
        assert sorted(called) == ["grandchild", "token"]
        assert len(handles) == 2

    return Ending(partial(end, token), entries, are_waiting, check)


def stop(loop: LoopThread, kind: Any = Ticker, end: str = "stop", entries: int = 3) -> Ending:
    ticker = kind(ConstantBackOff(HOUR), token=CancellationToken())
    ticker.receive_nowait()
    sink = Channel[Any](5)
    ticker.send_to(sink)
    selecting = in_thread(select, ticker)
    if kind is Ticker:
        waits = [in_thread(ticker.receive) for _ in range(2)]
    else:
        waits = [loop.submit(ticker.receive()) for _ in range(2)]

    def are_waiting() -> bool:
        return len(waiters_of(ticker._readers)) == 4 and not ticker.closed

    def check() -> None:
        for wait in waits:
            assert isinstance(wait.exception(PATIENCE), TickerClosed)
        assert selecting.result(PATIENCE)[0] is ticker
        with pytest.raises(ChannelClosed):
            sink.receive(PATIENCE)

    arguments = [None] * 3 if end == "__exit__" else []
    return Ending(partial(getattr(ticker, end), *arguments), entries, are_waiting, check)


def close(loop: LoopThread, capacity: float) -> Ending:
    """One with room for one item is full, and has senders; the others have receivers."""
    channel = Channel[int](capacity)
    if capacity != 1:
        waits = [in_thread(channel.receive) for _ in range(2)]
        waits.append(loop.submit(channel.receive_async()))
    else:
        channel.send(0)
        waits = [in_thread(channel.send, number) for number in range(2)]
        waits.append(loop.submit(channel.send_async(3)))

    def are_waiting() -> bool:
        sets = [channel._buffer, *pending_sends_of(channel)]
        return sum(len(waiters_of(each)) for each in sets) == len(waits) and not channel.closed

    def check() -> None:
        for wait in waits:
            assert isinstance(wait.exception(PATIENCE), ChannelClosed)

    return Ending(channel.close, 2, are_waiting, check)


def stop_timer(_: LoopThread) -> Ending:
    timer = Timer()
    timer.start(HOUR)
    return Ending(timer.stop, 2, lambda: True, lambda: eventually(lambda: not timer.stop()))


def stop_forwarding(_: LoopThread) -> Ending:
    ticker = Ticker(ConstantBackOff(HOUR))
    sink: queue.SimpleQueue[Any] = queue.SimpleQueue()
    forwarding = ticker.send_to(sink)
    sink.get(timeout=PATIENCE)
    link = weakref.ref(ticker)

    def waiters() -> list[Any]:
        return waiters_of(link()._readers)  # type: ignore[union-attr]

    def has_left() -> bool:
        return waiters() == []

    return Ending(forwarding.stop, 2, lambda: not has_left(), lambda: eventually(has_left))


ENDINGS = {
    "cancel": cancel,
    "with token": partial(cancel, end=leave_a_block, entries=5),
    "stop": stop,
    "stop async": partial(stop, kind=AsyncTicker),
    "with ticker": partial(stop, end="__exit__"),
    "close empty": partial(close, capacity=0),
    "close full": partial(close, capacity=1),
    "close unbounded": partial(close, capacity=inf),
    "stop timer": stop_timer,
    "stop forwarding": stop_forwarding,
}


@pytest.mark.parametrize("raised", [Interrupted, RecursionError])
@pytest.mark.parametrize("kind", ENDINGS)
def test_everybody_is_told(kind, raised, loop):
    """A handler may have too little stack; a RuntimeError also says that a loop is closed."""
    wrong = []

    def handle():
        raise raised

    def run(interrupt):
        if wrong:
            return
        place = interrupt.left
        ending = ENDINGS[kind](loop)
        eventually(ending.are_waiting, "all wait")
        with suppress(raised), interrupt:
            ending.end()
        if place <= ending.entries:
            ending.end()
        try:
            ending.check()
        except BaseException as error:
            wrong.append((interrupt.where, error))
            ending.end()

    # Python swallows what is raised in a finalizer of an earlier test.
    assert each_place(run, handle, ("__del__",), all_of_them=raised is Interrupted) > 3
    assert wrong == []


@pytest.mark.parametrize("kind", [kind for kind in ENDINGS if kind.startswith(("c", "stop"))])
def test_an_end_for_which_the_stack_has_no_room_has_not_begun(kind, loop):
    for left in FRAMES:
        ending = ENDINGS[kind](loop)
        eventually(ending.are_waiting, "all wait")
        if failed(with_frames(left, ending.end)):
            assert ending.are_waiting(), left
            ending.end()
        ending.check()
