"""An interrupt anywhere in what a thread does for the whole clock loses nobody's wake-up.

The main thread often acts for all others: it runs the commands that they have posted, and moves
time to their timers. A signal handler that raises there ends its own wait only.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from backoff_ticker import CancellationToken
from backoff_ticker.testing import VirtualClock
from backoff_ticker.testing._command_queue import CommandQueue
from tests.helpers import PATIENCE, eventually
from tests.stress.places import InterruptAt, each_place

from .real_threads import in_real_thread

if TYPE_CHECKING:
    from collections.abc import Callable


class Scene:
    """Who waits on the clock, and what the interrupted thread does.

    Attributes:
        expected: What all of them note in the end, in the order of their names.
    """

    auto = True
    one_at_a_time = True

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.noted: list[tuple[str, float]] = []
        self.expected: list[tuple[str, float]] = []
        self.threads: list[threading.Thread] = []

    @classmethod
    def clock_of_its_own(cls) -> VirtualClock:
        return VirtualClock(auto=cls.auto, one_at_a_time=cls.one_at_a_time, settle_timeout=20)

    def note(self, name: str) -> None:
        # Without a call into the package: an interrupt in a callback that has begun ends it.
        self.noted.append((name, self.clock._parking.seconds))

    def start(self, function: Callable[..., object], *args: object) -> None:
        self.threads.append(threading.Thread(target=function, args=args, daemon=True))
        self.threads[-1].start()

    def act(self) -> None:
        """Do what is interrupted."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Let time pass, after the interrupt."""
        self.clock.sleep(5)

    def check(self) -> None:
        self.go_on()
        assert sorted(self.noted) == self.expected
        for thread in self.threads:
            thread.join()


class Due(Scene):
    """A thread, two tasks of a loop, and callbacks, all due while the interrupted thread waits."""

    thread_due = 1.0

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        token = CancellationToken(timeout=3)
        self.start(self.sleep_in_thread, self.thread_due)
        self.start(lambda: token.wait() and self.note("token"))
        self.start(asyncio.run, self.tasks())
        for when in (0.75, 1.5, 2.0):
            clock.call_at(when, lambda: self.note("callback"))
        self.expected = [
            ("callback", 0.75),
            ("callback", 1.5),
            ("callback", 2.0),
            ("task", 1.5),
            ("task", 2.0),
            ("thread", self.thread_due),
            ("token", 3.0),
        ]
        self.settle()

    def settle(self) -> None:
        """Have all others wait, so that the interrupted thread wakes the first of them."""
        self.clock.sleep(0.5)

    def sleep_in_thread(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.note("thread")

    async def tasks(self) -> None:
        await asyncio.gather(self.sleep_in_task(1.5), self.sleep_in_task(2))

    async def sleep_in_task(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.note("task")

    def act(self) -> None:
        self.clock.sleep(3)


class DueTogether(Due):
    one_at_a_time = False
    thread_due = 1.5


class TaskDueFirst(Due):
    thread_due = 2.0


class WatchingLoopDueFirst(TaskDueFirst):
    """The loop that is woken sleeps in its selector, since it watches a descriptor."""

    async def tasks(self) -> None:
        one, other = socket.socketpair()
        loop = asyncio.get_running_loop()
        loop.add_reader(one, lambda: None)
        await super().tasks()
        loop.remove_reader(one)
        one.close()
        other.close()


class DueInAStep(Due):
    auto = False

    def settle(self) -> None:
        self.clock.settle()

    def act(self) -> None:
        self.clock.advance(3)

    def go_on(self) -> None:
        self.clock.advance_to(5)
        self.clock.settle()


class DueInALoop(Due):
    """The interrupted thread runs a loop of its own."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.loop = asyncio.new_event_loop()
        self.loop.call_later(3, self.loop.stop)

    def act(self) -> None:
        self.loop.run_forever()

    def go_on(self) -> None:
        super().go_on()
        self.loop.close()


class Posted(Scene):
    """Commands that others post while the interrupted thread runs one."""

    one_at_a_time = False

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.token = CancellationToken()
        self.gate = threading.Event()
        self.idle = threading.Event()
        self.parkers = [clock.parker() for _ in range(2)]
        self.parkers[1].unpark()
        self.start(lambda: self.token.wait() and self.note("thread"))
        self.start(asyncio.run, self.task())
        self.start(self.sleep_beyond_the_gate)
        self.start(self.park_beyond_the_gate)
        self.start(self.be_idle)
        clock.block_until(parked=2)
        assert self.idle.wait(PATIENCE)
        self.expected = [
            ("callback", 2.0),
            ("idle", 0.0),
            ("parked", 0.0),
            ("sleeper", 1.0),
            ("task", 0.0),
            ("thread", 0.0),
            ("tracked", 1.0),
        ]

    async def task(self) -> None:
        await self.token.wait_async()
        self.note("task")

    def sleep_beyond_the_gate(self) -> None:
        assert self.gate.wait(PATIENCE)
        self.clock.sleep(1)
        self.note("sleeper")

    def park_beyond_the_gate(self) -> None:
        assert self.gate.wait(PATIENCE)
        assert self.parkers[1].park(None)
        self.note("parked")
        assert self.parkers[0].park(None)

    def be_idle(self) -> None:
        with self.clock.idle("the gate"):
            self.idle.set()
            assert self.gate.wait(PATIENCE)
        self.note("idle")

    def sleep_tracked(self) -> None:
        self.clock.sleep(1)
        self.note("tracked")

    def act(self) -> None:
        self.clock._kernel.query(self.have_others_post)

    def go_on(self) -> None:
        if not self.gate.is_set():
            self.act()
        super().go_on()

    def have_others_post(self) -> None:
        """Run by the kernel as a command: what others post meanwhile comes after it."""
        if not self.gate.is_set():
            posted = threading.Lock()
            posted.acquire()
            in_real_thread(lambda: (self.post(), posted.release()))
            assert posted.acquire(timeout=PATIENCE)

    def post(self) -> None:
        tracked = self.clock.tracked(self.sleep_tracked)
        before = self.commands()
        self.gate.set()
        eventually(lambda: self.commands() >= before + 3, "the three beyond the gate")
        self.token.cancel()
        self.parkers[0].unpark()
        self.clock.call_at(2, lambda: self.note("callback"))
        before = self.commands()
        in_real_thread(tracked)
        eventually(lambda: self.commands() >= before + 3, "the call of what is tracked")

    def commands(self) -> int:
        kernel = self.clock._kernel
        return sum(command != kernel.look for command, *_ in kernel.commands.commands.copy())


def interrupt() -> None:
    raise KeyboardInterrupt


SCENES = [Due, DueTogether, TaskDueFirst, WatchingLoopDueFirst, DueInAStep, DueInALoop, Posted]


@pytest.mark.parametrize("kind", SCENES)
def test_everybody_else_is_woken_at_the_right_time(kind: type[Scene]) -> None:
    wrong: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        if wrong:
            return
        try:
            with kind.clock_of_its_own() as clock:
                scene = kind(clock)
                try:
                    with interrupt:
                        scene.act()
                except KeyboardInterrupt:
                    pass
                scene.check()
        except Exception as error:
            wrong.append((interrupt.where, error))

    assert each_place(run, interrupt) > 20
    assert wrong == []


@pytest.mark.parametrize("kind", SCENES)
def test_every_command_may_run_twice(kind: type[Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does after an interrupt that came once all was done."""
    usual = CommandQueue.post

    def post(commands: CommandQueue, command: Callable[..., None], *args: object) -> None:
        def run_twice(*args: object) -> None:
            command(*args)
            command(*args)

        usual(commands, run_twice, *args)

    monkeypatch.setattr(CommandQueue, "post", post)
    with kind.clock_of_its_own() as clock:
        scene = kind(clock)
        scene.act()
        scene.check()
