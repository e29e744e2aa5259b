"""Races of tokens that chance seldom makes, forced."""

import gc
import os
import signal
import threading
import weakref
from contextlib import suppress
from itertools import islice

import pytest

from backoff_ticker import CancellationToken, Ticker, TickerClosed, ZeroBackOff, any_of
from backoff_ticker.testing import VirtualClock
from tests.channels.turned_clock import TurnedClock
from tests.helpers import PATIENCE, eventually, in_thread, wait_until_collected, waiters_of
from tests.stress.places import Interrupted, check_each_place
from tests.stress.tools import gc_threshold, start_threads
from tests.tickers.made_timers import MeddlingClock

HOUR = 3600.0


def test_a_collection_at_any_moment_of_a_cancel_hides_no_child_from_it():
    """It takes other children out of the dict; CPython 3.11 collects while it copies one."""
    held = []
    for allocations in range(80):
        gc.collect()
        with gc_threshold(0):
            root, left = CancellationToken(), []
            for number in range(9):
                cycle = [root.child()]
                cycle.append(cycle)
                if number % 3:
                    left.append(cycle[0])
            del cycle
            now = gc.get_count()[0]
        with gc_threshold(now + 100 + allocations):
            held.append([{} for _ in range(100)])  # or the next dict would need no allocation
            root.cancel()
        assert [each for each in left if not each.cancelled] == []


@pytest.fixture
def on_usr1():
    """Sets what SIGUSR1 does in the main thread."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda run: signal.signal(signal.SIGUSR1, lambda *_: run()) and None
    signal.signal(signal.SIGUSR1, before)


def _signal_when(condition):
    """Send SIGUSR1 from another thread as soon as ``condition`` holds."""

    def send():
        eventually(condition)
        os.kill(os.getpid(), signal.SIGUSR1)

    threading.Thread(target=send, daemon=True).start()


@pytest.mark.parametrize("make", [lambda token: token, any_of], ids=["child", "any_of"])
def test_no_tick_comes_once_a_token_with_a_deadline_was_cancelled(make):
    """The cancel comes while the reader compares the time with the deadline, at each look."""
    for look in range(7):
        clock = MeddlingClock()
        token = make(CancellationToken(clock=clock).child(timeout=HOUR))
        ticker = Ticker(ZeroBackOff(), token=token, clock=clock)
        ticker.receive_nowait()
        clock.meddlers = [int] * look + [token.cancel]
        with suppress(TickerClosed):
            ticker.receive_nowait()
            assert clock.meddlers, f"a tick although a cancel came at look {look + 1}"


@pytest.mark.parametrize("where", ["in the handler", "in another thread meanwhile"])
def test_a_signal_handler_that_holds_up_the_main_thread_holds_up_no_other_waiter(on_usr1, where):
    """The main thread waits first, and cannot leave before its handler ends."""
    token = CancellationToken()
    workers = []
    ended = []

    def cancel_and_join():
        token.cancel() if where == "in the handler" else in_thread(token.cancel)
        for worker in workers:
            worker.join(PATIENCE)
        ended.append([worker.is_alive() for worker in workers])

    def join_the_line():
        eventually(lambda: len(waiters_of(token._wait_set())) == 1, "the main thread waits")
        workers.extend(start_threads(3, lambda _: token.wait()))

    on_usr1(cancel_and_join)
    threading.Thread(target=join_the_line, daemon=True).start()
    _signal_when(lambda: len(workers) == 3 and len(waiters_of(token._wait_set())) == 4)
    assert token.wait(PATIENCE)
    assert ended == [[False, False, False]]


def test_a_handler_at_each_place_cancels_and_stops_what_the_main_thread_does():
    def run(interrupt):
        tokens, tickers, won, called = [], [], [], []

        def handle():
            won.extend([token.cancel("handler") for token in tokens])
            for ticker in tickers:
                ticker.stop()

        interrupt.handler = handle
        with interrupt:
            tokens.append(token := CancellationToken())
            child = token.child(timeout=HOUR)
            child.on_cancel(lambda: called.append(1))
            tickers.append(ticker := Ticker(ZeroBackOff(), token=child))
            for _ in islice(ticker, 3):
                pass
            won.append(token.cancel("main"))
            ticker.stop()
        return [] if (sum(won), called) == (1, [1]) else [(won, called)]

    check_each_place(run, at_least=20)


# Two threads: all of what one does, at each place in the middle of the other's


class Scene:
    """A token with a deadline, below another, and what its callbacks have noted."""

    def __init__(self):
        self.clock = TurnedClock()
        self.root = CancellationToken(clock=self.clock)
        self.token = self.root.child(timeout=HOUR)
        self.runs = []
        self.made = []

    def register(self):
        handle = self.token.on_cancel(lambda: self.runs.append("ran"))
        self.made.append(handle)
        return handle

    def grow(self):
        for parent in (self.root, self.token):
            self.made += [parent.child().child(), any_of(CancellationToken(), parent)]

    def pass_deadlines(self):
        self.clock.advance(HOUR)
        for timer in self.clock.pending.copy():
            timer.fire()

    def leaves_nothing(self):
        """Whether nothing is kept and no timer is pending."""
        link = weakref.ref(self.token)
        pending = len(self.clock.pending)
        self.made.clear()
        del self.token
        if link() is not None:
            wait_until_collected(link)
        return pending == 0


def meddle(first, second, check, begin):
    """At each place in ``first()`` call ``second()`` in another thread, until it returns."""

    def run(interrupt):
        scene = Scene()
        begin(scene)
        interrupt.handler = lambda: in_thread(second, scene).result(PATIENCE)
        with interrupt:
            first(scene)
        if interrupt.where is None:
            second(scene)
        interrupt.forget()
        interrupt.handler = None
        found = check(scene)
        return [] if found is True else [found]

    check_each_place(run, all_of_them=True, at_least=4)


def cancel(scene):
    assert scene.root.cancel("why")


def remove(scene):
    scene.runs += ["removed"] * scene.made[0].remove()


def nothing(_):
    pass


EITHER = [(0, ["ran"], True), (0, ["removed"], True)]


@pytest.mark.parametrize(
    ("before", "first", "second", "allowed"),
    [
        (nothing, Scene.register, cancel, [(0, ["ran"], True)]),
        (nothing, cancel, Scene.register, [(0, ["ran"], True)]),
        (nothing, Scene.register, Scene.register, [(1, ["ran", "ran"], True)]),
        (Scene.register, remove, cancel, EITHER),
        (Scene.register, cancel, remove, EITHER),
        (Scene.register, remove, Scene.pass_deadlines, EITHER),
        (Scene.register, remove, remove, [(0, ["removed"], True)]),
        (Scene.register, remove, Scene.register, [(1, ["removed", "ran"], True)]),
        (Scene.register, Scene.register, remove, [(1, ["removed", "ran"], True)]),
    ],
)
def test_of_two_that_meet_at_a_callback_each_does_its_work(before, first, second, allowed):
    """It runs once, or was removed by one; one timer calls those that are left; nothing is kept."""

    def check(scene):
        timers = len(scene.clock.pending)
        scene.pass_deadlines()
        found = timers, scene.runs, scene.leaves_nothing()
        return found in allowed or found

    meddle(first, second, check, before)


@pytest.mark.parametrize("order", [(cancel, Scene.grow), (Scene.grow, cancel)])
def test_no_child_that_is_made_during_a_cancel_is_left_out(order):
    def check(scene):
        causes = [child.cause for child in scene.made]
        return causes == ["why"] * 4 or causes

    meddle(*order, check, nothing)


def test_of_two_cancels_one_wins_and_both_return_when_all_are_cancelled():
    def cancel_by(scene, cause):
        won = scene.root.cancel(cause)
        causes = {scene.root.cause, *(child.cause for child in scene.made)}
        scene.runs.append((won, causes))

    def check(scene):
        outcomes = sorted(scene.runs, key=repr)
        cause = {scene.root.cause}
        return outcomes == [(False, cause), (True, cause)] or outcomes

    meddle(
        lambda scene: cancel_by(scene, "one"),
        lambda scene: cancel_by(scene, "two"),
        check,
        Scene.grow,
    )


@pytest.mark.parametrize("what", ["register", "remove"])
def test_an_interrupt_anywhere_in_a_registration_or_a_removal_leaves_nothing(what):
    def run(interrupt):
        scene = Scene()
        handle = scene.register() if what == "remove" else None
        with suppress(Interrupted), interrupt:
            handle = scene.register() if handle is None else remove(scene)
        interrupt.forget()
        if what == "remove" or interrupt.where is None:
            remove(scene)  # no matter whether the one before came to it
        del handle
        scene.root.cancel()
        is_right = "ran" not in scene.runs and scene.leaves_nothing()
        return [] if is_right else [(scene.runs, scene.clock.pending)]

    check_each_place(run, all_of_them=True, at_least=4)


@pytest.mark.parametrize("what", ["register", "remove"])
def test_after_an_interrupt_in_either_the_next_callback_is_called_at_the_deadline(what):
    def run(interrupt):
        runs = []
        with VirtualClock() as clock:
            token = CancellationToken(timeout=HOUR)
            handle = token.on_cancel(list) if what == "remove" else None
            with suppress(Interrupted), interrupt:
                handle = token.on_cancel(list) if handle is None else handle.remove()
            token.on_cancel(lambda: runs.append("ran"))
            clock.advance(HOUR)
        return [] if runs == ["ran"] else [runs]

    check_each_place(run, all_of_them=True, at_least=4)
