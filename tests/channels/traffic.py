"""What goes into a channel and comes out of it while somebody is interrupted, and the sum of it."""

import threading
from collections import Counter
from contextlib import suppress
from math import inf

import pytest

from backoff_ticker import Channel, ChannelClosed, WouldBlock
from tests.channels.turned_loop import outcome_of
from tests.helpers import PATIENCE, eventually, in_thread, pending_sends_of, waiters_of

CAPACITIES = pytest.mark.parametrize("capacity", [inf, 2, 0])


class Traffic:
    """A channel with a record of its items.

    Attributes:
        sent: Items whose send returned.
        perhaps: Items whose send was interrupted, or has not returned yet.
        received: Items that somebody got.
    """

    def __init__(self, capacity, ready=0):
        self.channel = Channel(capacity)
        self.sent = []
        self.perhaps = []
        self.received = []
        self._ended = threading.Event()
        self._others = []
        for number in range(ready):
            self.send_nowait(f"ready {number}")

    def send(self, item, timeout=None):
        self._send(item, lambda: self.channel.send(item, timeout))

    def send_nowait(self, item):
        self._send(item, lambda: self.channel.send_nowait(item))

    def _send(self, item, send):
        self.perhaps.append(item)
        try:
            send()
        except (ChannelClosed, TimeoutError, WouldBlock):
            self.perhaps.remove(item)
            raise
        self.sent.append(item)
        self.perhaps.remove(item)

    async def send_async(self, item, timeout=None):
        self.perhaps.append(item)
        await self.channel.send_async(item, timeout)
        self.sent.append(item)
        self.perhaps.remove(item)

    def receive(self, timeout=None):
        self.received.append(self.channel.receive(timeout))

    def receive_nowait(self):
        self.received.append(self.channel.receive_nowait())

    def next(self):
        self.received.append(next(self.channel))

    def handler(self, does):
        """Return a signal handler that does so."""

        def handle():
            try:
                if "send" in does:
                    self.send_nowait("of the handler")
                if "receive" in does:
                    self.receive_nowait()
                if "close" in does:
                    self.channel.close()
            except (WouldBlock, ChannelClosed):
                pass
            if "raise" in does:
                raise KeyboardInterrupt

        return handle

    # Others, each in a thread

    def other(self, act, *arguments):
        """Have another thread ``act``; what it raises fails the sum, but that it came too late."""
        other = in_thread(act, *arguments)
        self._others.append(other)
        return other

    def _waiting(self):
        return len(pending_sends_of(self.channel)) + len(waiters_of(self.channel._buffer))

    def once_waiting(self, count, act, *arguments):
        """Have another thread ``act`` once so many wait, unless it never comes to that."""

        def run():
            while not self._ended.is_set():
                if self._waiting() >= count:
                    act(*arguments)
                    return
                self._ended.wait(0.0002)

        self.other(run)

    def wait_for(self, count):
        """Wait until so many wait."""
        eventually(lambda: self._waiting() == count, "they wait")

    def receivers_wait(self):
        """Have two wait for items."""
        for count in (1, 2):
            self.other(self.receive)
            self.wait_for(count)

    def senders_wait(self):
        """Have two wait for room."""
        for count in (1, 2):
            self.other(self.send, f"waiting {count}")
            self.wait_for(count)

    # The sum

    def faults(self):
        """Say what is wrong, once the others are done; ends with a closed channel."""
        self._ended.set()
        channel = self.channel
        eventually(
            lambda: not (len(channel) and waiters_of(channel._buffer)),
            "waiting receivers get items",
        )
        faults = self._serve()
        faults += [("left behind", self._waiting())] if self._waiting() else []
        self._drain()
        got = Counter(self.received)
        faults += [("lost", item) for item in self.sent if not got[item]]
        faults += [("twice", item) for item in got if got[item] > 1]
        faults += [("never sent", item) for item in set(got) - {*self.sent, *self.perhaps}]
        if not channel.closed:
            faults += self._room_is_exact()
            faults += self._waiters_wake()
        channel.close()
        for other in self._others:
            error = other.exception(PATIENCE)
            if not isinstance(error, ChannelClosed | WouldBlock | TimeoutError | None):
                faults.append(error)
        return faults

    def _live_others(self):
        return [other for other in self._others if not other.done()]

    def _serve(self):
        """Bring what those who still wait wait for; nobody may be left."""
        channel, served = self.channel, 0

        def all_done():
            nonlocal served
            if not self._live_others():
                return True
            if waiters_of(channel._buffer) and not len(channel) and not channel.closed:
                served += 1
                with suppress(WouldBlock):  # the receiver is just leaving the line to look again
                    self.send_nowait(f"served {served}")
            elif pending_sends_of(channel):
                self._drain()
            return False

        try:
            eventually(all_done, "the others end")
        except AssertionError:
            return [("still wait", len(self._live_others()))]
        return []

    def _drain(self):
        try:
            while True:
                self.receive_nowait()
        except (WouldBlock, ChannelClosed):
            pass

    def _room_is_exact(self):
        channel, accepted = self.channel, 0
        capacity = min(channel.capacity, 50)
        while accepted < 50 and outcome_of(channel.send_nowait, "filler") is None:
            accepted += 1
        self.received, kept = [], self.received
        self._drain()
        drained, self.received = len(self.received), kept
        right = accepted == drained == capacity and not self._waiting()
        return [] if right else [("room", accepted, drained, capacity)]

    def _waiters_wake(self):
        channel = self.channel
        receiver = in_thread(channel.receive, PATIENCE)
        self.wait_for(1)
        # A receiver that begins to wait does so in several steps.
        eventually(lambda: outcome_of(channel.send_nowait, "for a receiver") is None, "it waits")
        if receiver.result(PATIENCE) != "for a receiver":
            return ["a receiver got something else"]
        if channel.capacity == inf:
            return []
        for _ in range(int(channel.capacity)):
            channel.send_nowait("filler")
        sender = in_thread(channel.send, "of a sender", PATIENCE)
        self.wait_for(1)
        got = [channel.receive_nowait() for _ in range(int(channel.capacity) + 1)]
        sender.result(PATIENCE)
        return [] if got[-1] == "of a sender" else [("of a sender", got)]
