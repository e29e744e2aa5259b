"""Two threads at one token: all of what one does, at each place in the middle of the other's."""

import weakref
from contextlib import suppress

import pytest

from backoff_ticker import CancellationToken, any_of
from backoff_ticker.testing import VirtualClock
from tests.channels.turned_clock import TurnedClock
from tests.helpers import PATIENCE, in_thread, wait_until_collected
from tests.stress.places import Interrupted, check_each_place

HOUR = 3600.0


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
