"""An interrupt anywhere inside a call that ends something: everybody who waits is still told."""

from __future__ import annotations

import asyncio
import queue
import weakref
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

if TYPE_CHECKING:
    from concurrent.futures import Future

HOUR = 3600.0


@pytest.fixture
def loop():
    thread = LoopThread(debug=False)
    yield thread
    assert thread.errors == []
    thread.close()


class Ending:
    """Something that ends, with everybody who waits for its end.

    Attributes:
        entries: At how many places, as the call is entered, nothing has begun yet.
    """

    entries = 2

    def __init__(self, loop: LoopThread) -> None:
        self.loop = loop
        self.waits: list[Future[Any]] = []

    def end(self) -> None:
        """End it: the call that is interrupted."""
        raise NotImplementedError

    def are_waiting(self) -> bool:
        """Whether all of them wait."""
        raise NotImplementedError

    def check(self) -> None:
        """Find everybody told, though nothing but time has passed since."""
        for wait in self.waits:
            wait.exception(PATIENCE)


class Cancel(Ending):
    entries = 3

    def __init__(self, loop: LoopThread) -> None:
        super().__init__(loop)
        self.token = CancellationToken()
        self.child = self.token.child()
        self.grandchild = self.child.child(timeout=HOUR)
        self.called: list[str] = []
        self.handles = [
            self.token.on_cancel(lambda: self.called.append("token")),
            self.grandchild.on_cancel(lambda: self.called.append("grandchild")),
        ]
        self.waits += [
            in_thread(self.token.wait),
            in_thread(self.token.wait),
            in_thread(self.grandchild.wait),
            in_thread(select, Channel(), self.child),
            loop.submit(self.token.wait_async()),
            loop.submit(self.child.wait_async()),
            loop.submit(self.in_scope()),
        ]

    async def in_scope(self) -> None:
        with pytest.raises(Cancelled):
            async with self.grandchild.scope():
                await asyncio.sleep(HOUR)

    def are_waiting(self) -> bool:
        tokens = [self.token, self.child, self.grandchild]
        return [len(waiters_of(token._wait_set())) for token in tokens] == [3, 2, 2]

    def end(self) -> None:
        self.token.cancel("enough")

    def check(self) -> None:
        super().check()
        assert self.child.cancelled
        assert self.grandchild.cancelled
        assert self.token.cause == self.grandchild.cause
        assert sorted(self.called) == ["grandchild", "token"]


class WithToken(Cancel):
    entries = 5  # as the block is entered

    def end(self) -> None:
        with self.token:
            pass


class Stop(Ending):
    entries = 3
    kind: Any = Ticker

    def __init__(self, loop: LoopThread) -> None:
        super().__init__(loop)
        self.ticker = self.kind(ConstantBackOff(HOUR), token=CancellationToken())
        self.ticker.receive_nowait()
        self.sink = Channel(5)
        self.ticker.send_to(self.sink)
        self.waits.append(in_thread(select, self.ticker))
        self.wait()

    def wait(self) -> None:
        self.waits += [in_thread(self.ticker.receive), in_thread(self.ticker.receive)]

    def are_waiting(self) -> bool:
        return self.ticker._readers is not None and len(waiters_of(self.ticker._readers)) == 4

    def end(self) -> None:
        self.ticker.stop()

    def check(self) -> None:
        for wait in self.waits[1:]:
            assert isinstance(wait.exception(PATIENCE), TickerClosed)
        assert self.waits[0].result(PATIENCE)[0] is self.ticker
        with pytest.raises(ChannelClosed):
            self.sink.receive(PATIENCE)


class WithTicker(Stop):
    entries = 2

    def end(self) -> None:
        self.ticker.__exit__(None, None, None)


class StopAsync(Stop):
    kind = AsyncTicker

    def wait(self) -> None:
        self.waits += [self.loop.submit(self.ticker.receive()) for _ in range(2)]


class Close(Ending):
    def __init__(self, loop: LoopThread) -> None:
        super().__init__(loop)
        self.channel = Channel[int]()
        self.waits += [
            in_thread(self.channel.receive),
            in_thread(self.channel.receive),
            loop.submit(self.channel.receive_async()),
        ]

    def are_waiting(self) -> bool:
        return len(waiters_of(self.channel._buffer)) == len(self.waits)

    def end(self) -> None:
        self.channel.close()

    def check(self) -> None:
        for wait in self.waits:
            assert isinstance(wait.exception(PATIENCE), ChannelClosed)


class CloseFull(Close):
    def __init__(self, loop: LoopThread) -> None:
        Ending.__init__(self, loop)
        self.channel = Channel(1)
        self.channel.send(0)
        self.waits += [
            in_thread(self.channel.send, 1),
            in_thread(self.channel.send, 2),
            loop.submit(self.channel.send_async(3)),
        ]

    def are_waiting(self) -> bool:
        pending = pending_sends_of(self.channel)
        return len(pending) == len(self.waits) and all(waiters_of(each) for each in pending)


class StopTimer(Ending):
    def __init__(self, loop: LoopThread) -> None:
        super().__init__(loop)
        self.timer = Timer()
        self.timer.start(HOUR)

    def are_waiting(self) -> bool:
        return True

    def end(self) -> None:
        self.timer.stop()

    def check(self) -> None:
        assert not self.timer.stop()


class StopForwarding(Ending):
    def __init__(self, loop: LoopThread) -> None:
        super().__init__(loop)
        ticker = Ticker(ConstantBackOff(HOUR))
        sink: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.forwarding = ticker.send_to(sink)
        sink.get(timeout=PATIENCE)
        self.link = weakref.ref(ticker)
        self.waiters = lambda: waiters_of(self.link()._readers)  # type: ignore[union-attr]

    def are_waiting(self) -> bool:
        return len(self.waiters()) == 1

    def end(self) -> None:
        self.forwarding.stop()

    def check(self) -> None:
        eventually(lambda: not self.waiters(), "the forwarding has left the line")


class Alarm(Exception):
    """As the time limits of some programs raise it."""


class WrongMoment(RuntimeError):
    """As asyncio says that a loop is closed, and threading that no thread can be started."""


@pytest.mark.parametrize("raised", [Interrupted, Alarm, WrongMoment])
@pytest.mark.parametrize(
    "kind",
    [Cancel, WithToken, Stop, WithTicker, StopAsync, Close, CloseFull, StopTimer, StopForwarding],
)
def test_everybody_is_told(kind, raised, loop):
    wrong: list[object] = []

    def handle():
        raise raised

    def run(interrupt):
        if wrong:
            return
        place = interrupt.left
        ending = kind(loop)
        eventually(ending.are_waiting, "all wait")
        try:
            with interrupt:
                ending.end()
        except raised:
            pass
        if place <= ending.entries:
            ending.end()
        try:
            ending.check()
        except BaseException as error:
            wrong.append((interrupt.where, error))
            ending.end()

    assert each_place(run, handle, all_of_them=True) > 3
    assert wrong == []
