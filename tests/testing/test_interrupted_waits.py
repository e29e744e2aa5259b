"""An interrupt anywhere in a wait of the main thread ends that wait only.

Everybody else is woken at the right time.
"""

import asyncio
import threading

import pytest

from backoff_ticker import CancellationToken
from backoff_ticker.testing import VirtualClock
from tests.stress.places import check_each_place


class Scene:
    """A thread, two tasks of a loop, and callbacks, all due while the main thread waits."""

    auto = True

    def __init__(self, clock):
        self.clock = clock
        self.noted = []
        token = CancellationToken(timeout=3)
        self.threads = [
            threading.Thread(target=self.sleep_in_thread),
            threading.Thread(target=lambda: token.wait() and self.note("token")),
            threading.Thread(target=asyncio.run, args=(self.tasks(),)),
        ]
        for thread in self.threads:
            thread.start()
        for when in (0.75, 1.5, 2.0):
            clock.call_at(when, lambda: self.note("callback"))
        self.settle()

    def note(self, name):
        self.noted.append((name, self.clock.monotonic()))

    def sleep_in_thread(self):
        self.clock.sleep(1.5)
        self.note("thread")

    async def tasks(self):
        await asyncio.gather(self.sleep_in_task(1.5), self.sleep_in_task(2))

    async def sleep_in_task(self, seconds):
        await asyncio.sleep(seconds)
        self.note("task")

    def settle(self):
        self.clock.sleep(0.5)

    def act(self):
        """Do what is interrupted."""
        self.clock.sleep(3)

    def go_on(self):
        """Let time pass, after the interrupt."""
        self.clock.sleep(5)

    def check(self):
        self.go_on()
        for thread in self.threads:
            thread.join()
        assert sorted(self.noted) == [
            ("callback", 0.75),
            ("callback", 1.5),
            ("callback", 2.0),
            ("task", 1.5),
            ("task", 2.0),
            ("thread", 1.5),
            ("token", 3.0),
        ]


class InAStep(Scene):
    auto = False

    def settle(self):
        self.clock.settle()

    def act(self):
        self.clock.advance(3)

    def go_on(self):
        self.clock.advance_to(5)
        self.clock.settle()


class InALoop(Scene):
    """The interrupted thread runs a loop of its own."""

    def settle(self):
        super().settle()
        self.loop = asyncio.new_event_loop()
        self.loop.call_later(3, self.loop.stop)

    def act(self):
        self.loop.run_forever()

    def go_on(self):
        super().go_on()
        self.loop.close()


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", [Scene, InAStep, InALoop])
def test_everybody_else_is_woken_at_the_right_time(kind):
    def run(interrupt):
        try:
            with VirtualClock(auto=kind.auto, settle_timeout=20) as clock:
                scene = kind(clock)
                try:
                    with interrupt:
                        scene.act()
                except KeyboardInterrupt:
                    pass
                scene.check()
        except Exception as error:
            return [error]
        return []

    check_each_place(run, interrupt, at_least=11)
