"""Two threads at one token: all of what one does, at each place in the middle of the other's."""

import weakref
from contextlib import suppress

import pytest

from backoff_ticker import CancellationToken, DeadlineExceeded, any_of
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


def meddle(first, second, check, begin=lambda _: None):
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


def ran_once(scene):
    return (scene.runs, scene.leaves_nothing()) == (["ran"], True) or scene.runs


@pytest.mark.parametrize("order", [(Scene.register, cancel), (cancel, Scene.register)])
def test_a_callback_that_is_registered_during_a_cancel_runs_once_and_keeps_nothing(order):
    meddle(*order, ran_once)


def test_of_two_callbacks_registered_at_once_both_run_by_one_timer():
    def check(scene):
        pending = len(scene.clock.pending)
        scene.pass_deadlines()
        found = pending, len(scene.runs), type(scene.token.cause), scene.leaves_nothing()
        return found == (1, 2, DeadlineExceeded, True) or found

    meddle(Scene.register, Scene.register, check)


def remove(scene):
    scene.runs += ["removed"] * scene.made[0].remove()


@pytest.mark.parametrize(
    "order", [(remove, cancel), (cancel, remove), (remove, Scene.pass_deadlines)]
)
def test_a_callback_is_run_or_removed_and_keeps_nothing(order):
    def check(scene):
        found = scene.runs, scene.leaves_nothing()
        return found in ((["ran"], True), (["removed"], True)) or found

    meddle(*order, check, Scene.register)


def test_a_callback_removed_at_once_in_two_threads_is_removed_by_one():
    def check(scene):
        return (scene.runs, scene.leaves_nothing()) == (["removed"], True) or scene.runs

    meddle(remove, remove, check, Scene.register)


@pytest.mark.parametrize("first", ["remove", "register"])
def test_a_callback_that_comes_as_the_last_is_removed_has_a_timer(first):
    def check(scene):
        pending = len(scene.clock.pending)
        scene.pass_deadlines()
        found = pending, scene.runs, scene.leaves_nothing()
        return found == (1, ["removed", "ran"], True) or found

    order = (remove, Scene.register)
    meddle(*(order if first == "remove" else reversed(order)), check, Scene.register)


@pytest.mark.parametrize("first", ["cancel", "grow"])
def test_no_child_that_is_made_during_a_cancel_is_left_out(first):
    def check(scene):
        causes = [child.cause for child in scene.made]
        return causes == ["why"] * 4 or causes

    order = (cancel, Scene.grow)
    meddle(*(order if first == "cancel" else reversed(order)), check)


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
        try:
            with interrupt:
                handle = scene.register() if handle is None else remove(scene)
        except Interrupted:
            pass
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
