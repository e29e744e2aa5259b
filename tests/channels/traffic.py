"""What goes into a channel and comes out of it while somebody is interrupted, and the sum of it."""

import itertools
import threading
from math import inf

import pytest

from backoff_ticker import Channel, ChannelClosed
from tests.channels.ends import drained, outcome_of
from tests.channels.history import Call, History
from tests.helpers import PATIENCE, eventually, in_thread, pending_sends_of, waiters_of

CAPACITIES = pytest.mark.parametrize("capacity", [inf, 2, 0])


class Traffic(History):
    """A channel and the history of its calls, of which some are interrupted."""

    def __init__(self, capacity, ready=0):
        super().__init__(Channel(capacity), itertools.count(1).__next__)
        self._ended = threading.Event()
        self._others = []
        for number in range(ready):
            self.send_nowait(f"ready {number}")

    def _check_room(self, _):
        """Leave it: what selects is noted when it has ended."""

    def next(self):
        with self._call(self.receives) as call:
            try:
                call.item = next(self.channel)
            except StopIteration:
                raise ChannelClosed from None

    def note(self, item):
        """Note what was received by a select."""
        self.receives.append(Call(self.stamp(), self.stamp(), item))

    def handler(self, does):
        """Return a signal handler that does so."""

        def handle():
            if "send" in does:
                self.send_nowait("of the handler")
            if "receive" in does:
                self.receive_nowait()
            if "close" in does:
                self.close()
            if "raise" in does:
                raise KeyboardInterrupt

        return handle

    # Others, each in a thread

    def other(self, act, *arguments):
        """Have another thread ``act``; what it raises is a fault."""
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
        try:
            self.drain()
            self._check_items()
        except AssertionError as error:
            faults.append(error)
        if not channel.closed:
            faults += self._room_is_exact()
            faults += self._waiters_wake()
        channel.close()
        return faults + [error for each in self._others if (error := each.exception(PATIENCE))]

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
                self.send_nowait(f"served {served}")  # unless the receiver is just looking again
            elif pending_sends_of(channel):
                self.drain()
            return False

        try:
            eventually(all_done, "the others end")
        except AssertionError:
            return [("still wait", len(self._live_others()))]
        return []

    def _room_is_exact(self):
        channel, accepted = self.channel, 0
        capacity = min(channel.capacity, 50)
        while accepted < 50 and outcome_of(channel.send_nowait, "filler") is None:
            accepted += 1
        left = len(drained(channel))
        right = accepted == left == capacity and not self._waiting()
        return [] if right else [("room", accepted, left, capacity)]

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
