"""What was asked of a channel and what came of it, and whether a channel may answer so."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from backoff_ticker import CLOSED, ChannelClosed, WouldBlock

REFUSED = (ChannelClosed, TimeoutError, WouldBlock)
ENDS = (*REFUSED, asyncio.CancelledError)


@dataclass(eq=False)
class Call:
    """One call, from its first to its last moment; ``error`` tells what it raised."""

    start: int
    end: int = 0
    item: Any = None
    error: Any = None

    def before(self, other):
        return 0 < self.end < other.start


@dataclass(eq=False)
class History:
    """All calls of one channel.

    Args:
        channel: It has the methods of ``Channel``.
        stamp: Returns a number greater than all it returned before.
    """

    channel: Any
    stamp: Any
    sends: list[Call] = field(default_factory=list)
    receives: list[Call] = field(default_factory=list)
    closes: list[Call] = field(default_factory=list)

    @contextmanager
    def _call(self, calls, item=None):
        call = Call(self.stamp(), item=item)
        calls.append(call)
        try:
            yield call
        except BaseException as error:
            call.error = type(error)
            if not isinstance(error, ENDS):
                raise
        finally:
            call.end = self.stamp()
        if calls is self.sends:
            self._check_room(call)

    # Sending

    def send(self, item, timeout=None):
        with self._call(self.sends, item):
            self.channel.send(item, timeout)

    def send_nowait(self, item):
        with self._call(self.sends, item):
            self.channel.send_nowait(item)

    async def send_async(self, item, timeout=None):
        with self._call(self.sends, item):
            await self.channel.send_async(item, timeout)

    def close(self):
        with self._call(self.closes):
            self.channel.close()

    # Receiving

    def receive(self, timeout=None):
        with self._call(self.receives) as call:
            call.item = self.channel.receive(timeout)
        return call.error is None

    def receive_nowait(self):
        with self._call(self.receives) as call:
            call.item = self.channel.receive_nowait()
        return call.error is None

    async def receive_async(self, timeout=None):
        with self._call(self.receives) as call:
            call.item = await self.channel.receive_async(timeout)
        return call.error is None

    def receive_all(self):
        """Receive until the channel is closed and drained."""
        while self.receive():
            pass

    def drain(self):
        while self.receive_nowait():
            pass

    # Judging

    def accepted(self):
        return [call for call in self.sends if call.end and call.error is None]

    def got(self):
        return [call for call in self.receives if call.end and call.error is None]

    def _check_room(self, send):
        """Whoever was let in either found room, or somebody had come to receive."""
        if self.channel.capacity == 0:
            there = any(not call.before(send) for call in self.receives)
            assert there or send.error, f"nobody was there to receive {send.item}"
        else:
            room = self.channel.capacity + len(self.receives)
            count = len(self.accepted())
            assert count <= room, f"{count} items accepted where {room} could be"

    def check(self):
        """Drain the channel, and raise if it answered as no channel may."""
        self.drain()
        if self.closes:
            assert self.receives[-1].error is ChannelClosed, "drained, closed, and not ended"
        assert len(self.channel) == 0, f"{len(self.channel)} items left after the drain"
        self._check_items()
        self._check_order()
        self._check_misses()
        self._check_refusals()
        self._check_close()

    def _check_items(self):
        got = [call.item for call in self.got()]
        assert len(set(got)) == len(got), f"received twice: {got}"
        unsure = {call.item for call in self.sends if call.error not in (None, *REFUSED)}
        lost = {call.item for call in self.accepted()} - set(got)
        assert not lost, f"accepted and lost: {lost}"
        refused = set(got) - {call.item for call in self.accepted()} - unsure
        assert not refused, f"refused and received: {refused}"

    def _check_order(self):
        received = {call.item: call for call in self.got()}
        for one in self.accepted():
            for other in self.accepted():
                if one.before(other):
                    first, second = received[one.item], received[other.item]
                    assert not second.before(first), f"{other.item} overtook {one.item}"

    def _check_misses(self):
        """Nobody who asked while an item was there all the time went away without one."""
        received = {call.item: call for call in self.got()}
        for miss in self.receives:
            if miss.error not in (None, asyncio.CancelledError):
                for send in self.accepted():
                    there = send.before(miss) and miss.before(received[send.item])
                    assert not there, f"{miss.error} though {send.item} was there"
        for end in self.receives:
            if end.error is ChannelClosed:
                for receive in self.got():
                    assert not end.before(receive), f"{receive.item} came after the end"

    def _check_refusals(self):
        """Nobody who sent while there was room all the time was told that there is none."""
        for miss in self.sends:
            closing = any(close.start < miss.end for close in self.closes)
            if miss.error in (TimeoutError, WouldBlock) and not closing:
                sent = [
                    call
                    for call in self.sends
                    if call is not miss
                    and call.start < miss.end
                    and not (call.error is not None and call.before(miss))
                ]
                taken = [call for call in self.got() if call.before(miss)]
                free = self.channel.capacity - len(sent) + len(taken)
                assert free <= 0, f"{miss.item} was refused though {free} could come in"

    def _check_close(self):
        for call in self.sends + self.receives:
            if call.error is ChannelClosed:
                begun = any(close.start < call.end for close in self.closes)
                assert begun, "ChannelClosed before close()"
        for send in self.accepted():
            for close in self.closes:
                assert not close.before(send), f"{send.item} was accepted after close()"


def note_selected(histories, select):
    """Call ``select()`` as a receive of each channel; return what was chosen, or None."""
    calls = [Call(history.stamp()) for history in histories]
    for history, call in zip(histories, calls, strict=True):
        history.receives.append(call)
    try:
        source, value = select()
    except TimeoutError:
        source, value = None, None
    for history, call in zip(histories, calls, strict=True):
        call.end = history.stamp()
        if source is not history.channel:
            # It left without an item, which it may where something else was ready.
            call.error = TimeoutError if source is None else asyncio.CancelledError
        elif value is CLOSED:
            call.error = ChannelClosed
        else:
            call.item = value
    return source
