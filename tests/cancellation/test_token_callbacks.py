"""Callbacks of a token: once, in order, in their own context, removable, stopping nothing."""

import asyncio
import threading
import weakref
from contextvars import ContextVar

import pytest

from backoff_ticker import CancellationToken
from tests.helpers import PATIENCE, SetClock, in_thread, wait_until_collected


class Failing(SetClock):
    """A clock whose thread cannot be started."""

    def call_at(self, when, callback, *, loop=None):
        raise RuntimeError("can't start new thread")


def test_a_callback_runs_once_in_the_cancelling_thread_before_cancel_returns():
    token = CancellationToken()
    runs = []
    token.on_cancel(lambda: runs.append(threading.current_thread()))
    assert runs == []

    def cancel():
        return token.cancel(), [thread is threading.current_thread() for thread in runs]

    assert in_thread(cancel).result(PATIENCE) == (True, [True])
    assert token.cancel() is False
    assert len(runs) == 1


def test_every_descendant_is_cancelled_before_the_first_callback_runs():
    root = CancellationToken()
    tree = [root.child(), root.child()]
    tree += [token.child() for token in tree]
    seen = []
    for token in (root, *tree):
        token.on_cancel(lambda: seen.append([token.cancelled for token in tree]))
    root.cancel()
    assert seen == [[True] * 4] * 5


def test_every_waiter_is_woken_before_the_first_callback_runs(clock):
    root = CancellationToken(clock=clock)
    waits = [in_thread(token.wait) for token in (root, root.child(), root.child().child())]
    clock.settle()
    woken = []
    root.on_cancel(lambda: woken.extend(wait.result(PATIENCE) for wait in waits))
    assert root.cancel() is True
    assert woken == [True] * 3


@pytest.mark.parametrize("token", [CancellationToken(), CancellationToken(clock=Failing())])
def test_a_callback_added_late_runs_at_once_in_the_calling_thread(token):
    """On a deadline, too, whose clock cannot call back."""
    token = token.child(timeout=5)
    token.cancel()
    runs = []
    handle = token.on_cancel(lambda: runs.append(threading.current_thread()))
    assert runs == [threading.current_thread()]
    assert handle.remove() is False


def test_a_callback_may_register_another_which_runs_at_once():
    root = CancellationToken()
    child = root.child()
    runs = []

    def callback():
        runs.append("outer begins")
        root.on_cancel(lambda: runs.append("inner"))
        child.on_cancel(lambda: runs.append("inner of child"))
        runs.append("outer ends")

    root.on_cancel(callback)
    child.on_cancel(lambda: runs.append("child"))
    root.cancel()
    assert runs == ["outer begins", "inner", "inner of child", "outer ends", "child"]


def test_a_callback_may_cancel_its_own_and_other_tokens():
    token, other = CancellationToken(), CancellationToken()
    runs = []
    token.on_cancel(lambda: runs.append(("own", token.cancel("again"))))
    token.on_cancel(lambda: runs.append(("other", other.cancel(token.cause))))
    other.on_cancel(lambda: runs.append(("back", token.cancel("back"))))
    assert token.cancel("first") is True
    assert runs == [("own", False), ("back", False), ("other", True)]
    assert (token.cause, other.cause) == ("first", "first")


def test_the_error_of_a_callback_is_reported_and_stops_nothing(unraisable):
    root = CancellationToken()
    child = root.child()
    runs = []
    error = ValueError("callback")

    def fail():
        raise error

    for token in (root, child):
        token.on_cancel(fail)
        token.on_cancel(lambda: runs.append("ran"))
    assert root.cancel() is True
    root.on_cancel(fail)  # too late to be registered: it runs at once
    assert runs == ["ran", "ran"]
    assert [(report.exc_value, report.object) for report in unraisable] == [(error, fail)] * 3
    assert unraisable[0].exc_type is ValueError
    assert unraisable[0].exc_traceback is not None
    assert "callback" in unraisable[0].err_msg


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_an_interrupt_in_a_callback_is_raised_once_all_callbacks_ran(unraisable, interrupt):
    root = CancellationToken()
    child = root.child()
    runs = []

    def fail():
        raise interrupt

    root.on_cancel(fail)
    root.on_cancel(lambda: runs.append("root"))
    child.on_cancel(lambda: runs.append("child"))
    with pytest.raises(interrupt):
        root.cancel("why")
    assert (root.cause, child.cause, runs, unraisable) == ("why", "why", ["root", "child"], [])
    assert root.cancel() is False
    with pytest.raises(interrupt):
        root.on_cancel(fail)


def test_of_thousands_of_callbacks_that_raise_an_interrupt_each_runs():
    token, runs = CancellationToken(), []

    def fail():
        runs.append(1)
        raise KeyboardInterrupt

    for _ in range(2000):
        token.on_cancel(fail)
    with pytest.raises(KeyboardInterrupt):
        token.cancel()
    assert len(runs) == 2000


def test_a_callback_runs_in_the_context_in_which_it_was_registered(clock):
    name = ContextVar("name", default="nobody")
    root = CancellationToken(clock=clock)
    seen = []

    def register(token, who):
        name.set(who)
        token.on_cancel(lambda: seen.append(name.get()))
        name.set(f"{who} later")

    async def register_in_a_task(token):
        register(token, "task")

    in_thread(register, root, "thread").result(PATIENCE)
    asyncio.run(register_in_a_task(root))
    in_thread(register, root.child(timeout=5), "deadline").result(PATIENCE)
    name.set("canceller")
    clock.advance(5)
    assert seen == ["deadline"]
    in_thread(root.cancel).result(PATIENCE)
    assert seen == ["deadline", "thread", "task"]
    register(root, "late")
    assert seen[3:] == ["late"]


def test_a_callback_that_no_deadline_could_call_is_refused_and_never_called():
    root = CancellationToken(clock=Failing())
    token = root.child(timeout=5)
    runs = []
    with pytest.raises(RuntimeError, match="can't start"):
        token.on_cancel(lambda: runs.append("ran"))
    link = weakref.ref(token)
    token.cancel()
    assert runs == []
    del token
    wait_until_collected(link)


@pytest.mark.parametrize("callback", [None, 3, "print"])
def test_what_cannot_be_called_is_a_type_error(callback):
    token = CancellationToken()
    with pytest.raises(TypeError, match="callback must be callable"):
        token.on_cancel(callback)
    assert token.cancel() is True
