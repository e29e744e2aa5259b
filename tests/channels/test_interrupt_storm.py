"""KeyboardInterrupt from a timer of the system, hundreds of times, in channels."""

from __future__ import annotations

import random
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel
from tests import effort
from tests.helpers import PATIENCE
from tests.stress.places import PACKAGE
from tests.stress.tools import fast_switching, join_all, start_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

TIMES = effort.rounds(25, 150)
CAPACITIES = pytest.mark.parametrize("capacity", [float("inf"), 3, 0])


class Storm:
    """Interrupts the package's code in the main thread at moments of chance."""

    def __init__(self) -> None:
        self.caught = 0
        self._armed = False
        self._random = random.Random(7)

    def handle(self, _: int, frame: FrameType | None) -> None:
        if self._armed:
            self._arm()
            if frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
                self._armed = False
                raise KeyboardInterrupt

    def _arm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._random.uniform(1e-6, 3e-4))

    def run(self, work: Callable[[], object]) -> None:
        """Call ``work()`` until it was interrupted so many times."""
        while self.caught < TIMES:
            self._armed = True
            self._arm()
            try:
                work()
            except KeyboardInterrupt:
                self.caught += 1
            finally:
                self._armed = False


@contextmanager
def a_storm() -> Iterator[Storm]:
    storm = Storm()
    before = signal.signal(signal.SIGALRM, storm.handle)
    try:
        with fast_switching(1e-4):
            yield storm
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_whole(sent: list[Any], perhaps: list[Any], received: list[Any]) -> None:
    """Check that all that was sent was received, once, and nothing else but what may have been."""
    assert len(set(received)) == len(received)
    assert set(sent) - set(received) == set()
    assert set(received) - set(sent) - set(perhaps) == set()


def senders(count: int, channels: list[Channel[Any]]) -> tuple[threading.Event, list[Any]]:
    """Start threads that send numbers until told to stop, each to all of ``channels`` in turn."""
    enough, sent = threading.Event(), []

    def send(index: int) -> None:
        number = 0
        while not enough.is_set():
            number += 1
            channel = channels[number % len(channels)]
            if len(channel) > 50:
                enough.wait(0.0005)
                continue
            try:
                channel.send((index, number), 0.05)
            except TimeoutError:
                continue
            sent.append((index, number))
        done.append(index)
        if len(done) == count:
            for channel in channels:
                channel.close()

    done: list[int] = []
    start_threads(count, send)
    return enough, sent


@CAPACITIES
def test_a_storm_over_a_receiver_loses_nothing(capacity):
    """Another thread receives, too, and must not sleep through an item."""
    channel: Channel[Any] = Channel(capacity)
    received: list[Any] = []
    others: list[Any] = []

    def receive_if_there_is_one():
        try:
            received.append(channel.receive(0.01))
        except TimeoutError:
            pass  # the other receiver was faster

    with a_storm() as storm:
        enough, sent = senders(2, [channel])
        other = start_threads(1, lambda _: others.extend(channel))
        storm.run(receive_if_there_is_one)
        enough.set()
        join_all(other)
    received.extend(channel)
    is_whole(sent, [], received + others)


@CAPACITIES
def test_a_storm_over_a_sender_loses_nothing_and_leaves_the_room_exact(capacity):
    channel: Channel[int] = Channel(capacity)
    received: list[list[int]] = [[], []]
    sent: list[int] = []
    perhaps: list[int] = []
    number = 0

    def work():
        nonlocal number
        number += 1
        perhaps.append(number)
        channel.send(number, PATIENCE)
        sent.append(number)
        perhaps.pop()

    with a_storm() as storm:
        threads = start_threads(2, lambda index: received[index].extend(channel))
        storm.run(work)
    last = range(number + 1, number + 21)
    for item in last:
        channel.send(item, PATIENCE)
    channel.close()
    join_all(threads)
    is_whole([*sent, *last], perhaps, received[0] + received[1])
    assert [items for items in received if items != sorted(items)] == []
