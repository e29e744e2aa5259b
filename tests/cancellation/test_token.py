"""One token: its cause and errors, waits in threads and loops, its block, its callbacks."""

import asyncio
import copy
import pickle
import threading
import weakref
from contextvars import ContextVar
from datetime import timedelta

import pytest

from backoff_ticker import CancellationToken, Cancelled
from tests.helpers import PATIENCE, SetClock, in_thread, wait_until_collected, waiters_of


def waiting(token):
    """How many wait for ``token``."""
    return len(waiters_of(token._wait_set()))


@pytest.mark.parametrize("cause", [None, "", "why", ValueError("why"), KeyboardInterrupt()])
def test_a_cause_is_an_exception_a_text_or_none(cause):
    token = CancellationToken()
    with pytest.raises(AttributeError, match="read-only"):
        token.cancelled = True
    assert token.cancel(cause) is True
    assert (token.cancelled, token.cause) == (True, cause)


@pytest.mark.parametrize("cause", [1, 0, False, b"why", ValueError, ["why"], object()])
def test_another_cause_is_refused_and_cancels_nothing(cause):
    token = CancellationToken()
    with pytest.raises(TypeError, match="cause must be"):
        token.cancel(cause)
    assert token.cancelled is False
    assert token.cancel("why") is True


def test_an_exception_as_the_cause_is_chained_to_a_fresh_error_each_time():
    token = CancellationToken()
    cause = ValueError("why")
    token.cancel(cause)
    raised = []
    for _ in range(2):
        with pytest.raises(Cancelled) as caught:
            token.raise_if_cancelled()
        assert type(caught.value) is Cancelled
        assert caught.value.cause is cause
        assert caught.value.__cause__ is cause
        raised.append(caught.value)
    assert raised[0] is not raised[1]
    assert cause.__traceback__ is None


def test_a_wait_of_zero_seconds_only_checks(clock):
    token = CancellationToken(clock=clock)

    async def main():
        assert await token.wait_async(0) is False
        return await clock.advance_async(60)

    assert token.wait(0) is False
    assert asyncio.run(main()) == 0
    assert waiting(token) == 0


@pytest.mark.parametrize("timeout", [None, 5, 1e300, timedelta(days=400)])
def test_a_cancel_wakes_a_waiting_thread_and_a_waiting_coroutine(clock, loop, timeout):
    token = CancellationToken(clock=clock)
    thread = in_thread(token.wait, timeout)
    coroutine = loop.submit(token.wait_async(timeout))
    clock.settle()
    assert waiting(token) == 2
    assert token.cancel() is True
    assert (thread.result(PATIENCE), coroutine.result(PATIENCE)) == (True, True)
    clock.settle()
    assert (waiting(token), len(clock.pending())) == (0, 0)


@pytest.mark.parametrize("timeout", [5, timedelta(seconds=5)])
def test_a_wait_that_times_out_is_false_and_leaves_nothing(clock, loop, timeout):
    token = CancellationToken(clock=clock)
    waits = [in_thread(token.wait, timeout), loop.submit(token.wait_async(timeout))]
    clock.advance(4.999)
    assert [wait.done() for wait in waits] == [False, False]
    clock.advance(0.001)
    assert [wait.result(PATIENCE) for wait in waits] == [False, False]
    assert (waiting(token), len(clock.pending()), token.cancelled) == (0, 0, False)


def test_a_cancelled_wait_passes_the_cancelled_error_and_leaves_nothing(clock, loop):
    token = CancellationToken(clock=clock)
    passed = []

    async def wait():
        with pytest.raises(asyncio.CancelledError):
            await token.wait_async(5)
        passed.append(True)

    task = loop.submit(wait())
    clock.settle()
    assert (waiting(token), len(clock.pending())) == (1, 1)
    task.cancel()
    clock.settle()
    assert (passed, waiting(token), clock.pending()) == ([True], 0, [])


def test_a_disarmed_block_does_not_cancel_and_the_next_one_is_armed_again():
    token = CancellationToken()
    with token:
        token.disarm()
    assert token.cancelled is False
    with pytest.raises(ValueError, match="body"), token:
        token.disarm()
        raise ValueError("body")
    assert token.cancelled is False
    with token:
        pass
    assert token.cancelled is True


def test_a_copy_of_a_token_is_the_token_and_none_can_be_pickled():
    for token in (CancellationToken(), CancellationToken().child(timeout=60)):
        assert copy.copy(token) is token
        assert copy.deepcopy([token]) == [token]
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(token)


# Callbacks


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
