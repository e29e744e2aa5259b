"""Wait sets and parking: who is woken by what, and how wake-ups are passed on."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from backoff_ticker.waiting import NO_DEADLINE, Waiter, WaitLine, WaitQueue, WaitSet, park_thread
from tests.helpers import PATIENCE, collect_garbage, in_thread, slow, waiters_of
from tests.interleaving import each_interleaving
from tests.policies.policy_doubles import steps
from tests.stress.places import Interrupted, check_each_place


class FakeLoop:
    """Takes calls like an event loop, and runs them when told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []
        self.closed = False

    def is_closed(self) -> bool:
        return self.closed

    def call_soon_threadsafe(self, callback: Any, *args: Any) -> None:
        if self.closed:
            raise RuntimeError("Event loop is closed")
        self.calls.append((callback, args))

    def run(self) -> None:
        calls, self.calls = self.calls, []
        for callback, args in calls:
            with suppress(Interrupted):
                callback(*args)


kept: list[Waiter] = []
"""Waiters that live on: sets hold them weakly."""


class Probe(Waiter):
    """Notes in ``log`` that it was woken."""

    def __init__(self, name: str, log: list[str], loop: Any = None, *, alone: bool = False) -> None:
        super().__init__(loop)
        if loop is None and not alone:
            self.domain = WaitSet().domain  # all threads but the main one
        kept.append(self)
        self.name = name
        self.log = log

    def wake(self) -> bool:
        if self.loop is not None:
            return super().wake()
        self.log.append(self.name)
        return True

    def fire(self) -> None:
        self.log.append(self.name)


class BrokenLoop(FakeLoop):
    def call_soon_threadsafe(self, callback: Any, *args: Any) -> None:
        raise OSError("the loop has no more file descriptors")


@pytest.mark.parametrize("wake", [WaitSet.close, WaitLine.wake_firsts, WaitQueue.wake_next])
def test_a_loop_that_takes_no_call_leaves_nobody_else_asleep(wake, unraisable):
    kind = next(kind for kind in (WaitLine, WaitQueue, WaitSet) if hasattr(kind, wake.__name__))
    wait_set, log = kind(), []
    waiters = [Probe(f"broken {n}", log, BrokenLoop()) for n in range(2)]
    waiters += [Probe("loop", log, FakeLoop()), Probe("thread", log)]
    for waiter in waiters:
        register(waiter, wait_set)
    wake(wait_set)
    waiters[2].loop.run()
    assert sorted(log) == ["loop", "thread"]
    assert {str(each.exc_value) for each in unraisable} == {"the loop has no more file descriptors"}


def register(waiter: Waiter, *sources: WaitSet) -> None:
    waiter.sources = sources
    waiter.register()


def probes(names: str, log: list[str], source: WaitSet, **options: Any) -> list[Probe]:
    made = [Probe(name, log, **options) for name in names]
    for probe in made:
        register(probe, source)
    return made


def names_in(source: WaitSet) -> str:
    """Return who stands in line, and check that the lines are whole."""
    names = []
    for line in [source, *(source.others or {}).values()]:
        before, place = None, line.first
        assert place or line is source, "an empty line was left"
        while place is not None:
            assert place.line is line
            assert place.before is before
            names.append(place().name)  # type: ignore[union-attr]
            before, place = place, place.after
        assert line.last is before
    return "".join(sorted(names))


@pytest.mark.parametrize("loops", ["tll", slow("tlt")])
@pytest.mark.parametrize("second", [Waiter.register, Waiter.unregister])
@pytest.mark.parametrize("first", [Waiter.register, Waiter.unregister])
def test_two_who_come_or_go_at_once_find_their_lines_whole(monkeypatch, first, second, loops):
    """One of them, or both, in the domain of the one who stands there already, or in another."""
    domains = {"t": None, "l": FakeLoop()}
    acts = {"b": first, "c": second}
    sources: list[WaitSet] = []

    def begin():
        kept.clear()
        sources[:] = [source := WaitSet()]
        made = [Probe(name, [], domains[kind]) for name, kind in zip("abc", loops, strict=True)]
        for probe in made:
            probe.sources = (source,)
            if acts.get(probe.name) is not Waiter.register:
                probe.register()
        return [lambda probe=probe: acts[probe.name](probe) for probe in made[1:]]

    entered = [name for name, act in acts.items() if act is Waiter.register]
    for outcomes in each_interleaving(begin, monkeypatch):
        assert outcomes == (None, None)
        assert names_in(*sources) == "".join(["a", *entered])


def test_closing_wakes_the_first_thread_and_each_that_leaves_wakes_the_next():
    log: list[str] = []
    source = WaitSet()
    a, b, c = probes("abc", log, source)
    source.close()
    assert log == ["a"]
    a.unregister()
    assert log == ["a", "b"]
    b.unregister()
    c.unregister()
    assert log == ["a", "b", "c"]
    assert list(waiters_of(source)) == []


def test_a_loop_is_woken_by_as_few_calls_for_five_waiters_as_for_one():
    log: list[str] = []
    source = WaitSet()
    one, two = FakeLoop(), FakeLoop()
    for number in range(5):
        register(Probe(f"one{number}", log, one), source)
        register(Probe(f"two{number}", log, two), source)
    source.close()
    assert (len(one.calls), len(two.calls), log) == (2, 2, [])
    del one.calls[0]  # an interrupt may lose it
    one.run()
    assert log == [f"one{number}" for number in range(5)]
    two.run()
    assert log[5:] == [f"two{number}" for number in range(5)]
    assert waiters_of(source) == []


def test_an_interrupt_anywhere_as_a_loop_wakes_its_waiters_leaves_nobody_asleep():
    def run(interrupt):
        log = []
        source, loop = WaitSet(), FakeLoop()
        probes("abc", log, source, loop=loop)
        source.close()
        with interrupt:
            while loop.calls:
                loop.run()
        return [log] if {*log} != {*"abc"} or waiters_of(source) else []

    check_each_place(run, all_of_them=True, at_least=10)


def test_a_waiter_that_leaves_a_line_wakes_the_first_of_its_own_domain_only():
    log: list[str] = []
    line = WaitLine()
    loop = FakeLoop()
    probes("c", log, line, loop=loop)
    a, b, last = probes("abz", log, line)
    b.unregister()
    assert log == ["a"]
    a.unregister()
    assert log == ["a", "z"]
    last.unregister()
    last.unregister()
    loop.run()
    assert log == ["a", "z"]


def test_an_interrupt_anywhere_in_a_wake_up_of_a_queue_leaves_nobody_asleep():
    """Who is out of the line was woken, and the next wake-up finds all others."""

    def run(interrupt):
        log = []
        queue, closed = WaitQueue(), FakeLoop()
        closed.closed = True
        probes("x", log, queue, loop=closed)
        waiters = probes("ab", log, queue) + probes("m", log, queue, alone=True)
        with suppress(Interrupted), interrupt:
            queue.wake_next()
        in_line = waiters_of(queue)
        return [each.name for each in waiters if each not in in_line and each.name not in log]

    check_each_place(run, all_of_them=True, at_least=10)


def test_each_wake_up_of_a_queue_goes_to_the_next_waiter_of_each_domain():
    log: list[str] = []
    queue = WaitQueue()
    one, two = FakeLoop(), FakeLoop()
    probes("ab", log, queue, loop=one)
    probes("cd", log, queue)
    probes("e", log, queue, loop=two)
    probes("m", log, queue, alone=True)
    for woken in ("ace m", "bd"):
        queue.wake_next()
        one.run()
        two.run()
        assert sorted(log) == sorted(woken.replace(" ", ""))
        log.clear()
    queue.wake_next()
    assert (log, waiters_of(queue), queue.others) == ([], [], {})


WAKE = {WaitSet: WaitSet.close, WaitLine: WaitLine.wake_firsts, WaitQueue: WaitQueue.wake_next}


@pytest.mark.parametrize("kind", WAKE)
def test_sets_hold_their_waiters_weakly(kind):
    log: list[str] = []
    source = kind()
    probes("xx", log, source)
    kept.clear()
    collect_garbage()
    probes("ab", log, source)
    WAKE[kind](source)
    assert log == ["a"]


@pytest.mark.parametrize("leaves", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("kind", [WaitLine, WaitQueue])
def test_waking_coming_and_leaving_cost_the_same_however_many_wait(kind, leaves):
    def cost(many):
        source = kind()
        loops = [FakeLoop() for _ in range(3)]
        waiters = [Probe("x", [], loops[number % 3]) for number in range(many)]
        for waiter in waiters:
            register(waiter, source)
        newcomer = Probe("y", [], loops[0])

        def act():
            register(newcomer, source)
            WAKE[kind](source)
            waiters[leaves].unregister()
            newcomer.unregister()

        return steps(act)

    assert cost(600) < 1.5 * cost(60)


def test_a_wake_up_between_the_last_check_and_the_park_is_not_lost(clock):
    source = WaitSet()

    def look(_):
        if source.closed:
            return None
        source.close()
        return NO_DEADLINE

    in_thread(park_thread, clock, "test", "a coroutine", (source,), look).result(PATIENCE)
