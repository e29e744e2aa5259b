"""Two calls at one channel, the second one at each instruction of the first: as if in some order.

What both return, who of those who wait is served, and what is left must be as if one call had come
after the other.
"""

import asyncio
from functools import partial
from itertools import combinations_with_replacement
from math import inf

import pytest

from backoff_ticker import Channel, select
from tests.channels.ends import drained, outcome_of
from tests.channels.turned_clock import TurnedClock
from tests.interleaving import each_meeting

WAITS = {
    "none": lambda _: [],
    "senders": lambda channel: [channel.send_async("a"), channel.send_async("b")],
    "receivers": lambda channel: [channel.receive_async(), channel.receive_async()],
}


class Scene:
    """A channel, and two who wait for it, or none, in a loop that stands still meanwhile."""

    def __init__(self, capacity, waiting):
        clock = TurnedClock()
        self.loop = asyncio.new_event_loop()
        self.channel = Channel(capacity, clock=clock)
        self.silent = Channel(clock=clock)
        if waiting != "receivers":
            for number in range(int(min(capacity, 1))):
                self.channel.send_nowait(f"early {number}")
        self.tasks = [self.loop.create_task(wait) for wait in WAITS[waiting](self.channel)]
        self.turn()

    def turn(self):
        """Let everything in the loop run."""
        for _ in range(6):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def result(self):
        """Return what has become of those who waited, be it one or the other, and what is left."""
        self.turn()
        done = [str(outcome_of(task.result)) if task.done() else "waits" for task in self.tasks]
        for task in self.tasks:
            task.cancel()
        left = drained(self.channel)
        self.turn()
        self.loop.close()
        return *sorted(done), left, self.channel.closed


def send(scene, item):
    scene.channel.send_nowait(item)


def receive(scene, _):
    return scene.channel.receive_nowait()


def choose(scene, _):
    return select(scene.channel, scene.silent, timeout=0)[1]


def close(scene, _):
    scene.channel.close()


def end(scene, _):
    """Close it, and see its end: nothing may be accepted any more."""
    scene.channel.close()
    return list(scene.channel)


PAIRS = [*combinations_with_replacement([send, receive, choose, close], 2), (send, end)]
QUICK = [
    ((send, send), (0, "receivers")),
    ((send, end), (0, "receivers")),
    ((send, end), (inf, "none")),
    ((receive, close), (1, "senders")),
]
SCENES = [(capacity, waiting) for capacity in (0, 1, inf) for waiting in WAITS]
SCENES.remove((inf, "senders"))
CASES = [
    pytest.param(
        pair,
        scene,
        order,
        id=f"{pair[0].__name__} {pair[1].__name__}-{scene[0]} {scene[1]}-{order}",
        marks=[] if (pair, scene) in QUICK and order == 1 else [pytest.mark.slow],
    )
    for pair in PAIRS
    for scene in SCENES
    for order in ((1,) if pair[0] is pair[1] else (1, -1))
]


@pytest.mark.parametrize(("pair", "scene", "order"), CASES)
def test_two_calls_are_as_if_one_came_after_the_other(monkeypatch, pair, scene, order):
    calls = [*zip(pair, "xy", strict=True)][::order]
    allowed = []
    for in_turn in (1, -1):
        made = Scene(*scene)
        outcomes = [outcome_of(call, made, item) for call, item in calls[::in_turn]]
        allowed.append((*outcomes[::in_turn], *made.result()))
    acts = [lambda made, each=each: outcome_of(each[0], made, each[1]) for each in calls]
    for made, both in each_meeting(partial(Scene, *scene), acts, monkeypatch):
        assert (*both, *made.result()) in allowed
